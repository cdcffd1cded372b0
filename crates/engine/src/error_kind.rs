//! What a web application returns for an error: a kind that never changes, and the message.
//!
//! The causes are left out: they may name hosts and files and belong in a log.

use neuraxis_brainstem::Refusal;
use neuraxis_ports::StoreError;
use serde::{Serialize, Serializer};

use crate::approvals::DecideError;
use crate::request::RequestError;
use crate::run_handle::{AnswerError, NoResult, NotAccepted};
use crate::runs::{ForkError, ResumeError};
use crate::sessions::FindError;

/// The JSON form of an error.
#[derive(Serialize)]
struct Written {
    kind: &'static str,
    message: String,
}

macro_rules! kinds {
    ($error:ty { $($variant:pat => $kind:expr,)* }) => {
        impl $error {
            /// Returns the word for the kind of error, which is the same in every version, so clients can rely on it.
            /// As JSON, an error has this word as `kind` and its text, without its causes, as `message`.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self {
                    $($variant => $kind,)*
                }
            }
        }

        impl Serialize for $error {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let (kind, message) = (self.kind(), self.to_string());
                Written { kind, message }.serialize(serializer)
            }
        }
    };
}

kinds! {
    RequestError {
        Self::EmptyMessage => "empty_message",
        Self::Attachment { .. } => "attachment",
        Self::ClientInput(_) => "brought",
        Self::TooLarge { .. } => "too_large",
        Self::Policy(refusal) => kind_of(refusal),
        Self::NoModel(_) => "no_model",
        Self::Instructions(_) => "no_instructions",
        Self::Busy { .. } => "session_busy",
        Self::OtherOwner { .. } => "other_owner",
        Self::KeyReused(_) => "idempotency_key_reused",
        Self::AtWorkElsewhere { .. } => "at_work_elsewhere",
        Self::Interrupted { .. } => "interrupted",
        Self::Altered { .. } => "session_altered",
        Self::NoResult { .. } => "no_result",
        Self::Store(error) => of_store(error),
        Self::ShuttingDown => "shutting_down",
    }
}

kinds! {
    ResumeError {
        Self::Ended(_) => "run_ended",
        Self::NotWaiting(_) => "not_waiting",
        Self::NotAsked(_) => "not_asked",
        Self::NotADecision(_) => "no_decision",
        Self::Arguments { .. } => "invalid_arguments",
        Self::ServerAway { .. } => "server_away",
        Self::NotConfigured { .. } => "not_configured",
        Self::Expired { .. } => "expired",
        Self::NothingToDo => "nothing_to_do",
        Self::Elsewhere { .. } => "other_folder",
        Self::NoFolder(_) => "no_folder",
        Self::OtherOwner { .. } => "other_owner",
        Self::Imported(_) => "imported",
        Self::AtWork(_) => "at_work",
        Self::Alive(_) => "at_work_elsewhere",
        Self::Restore(_) => "log_unreadable",
        Self::Closed { .. } => "run_closed",
        Self::Altered { .. } => "session_altered",
        Self::Refused(_) => "answer_refused",
        Self::Store(error) => of_store(error),
        Self::ShuttingDown => "shutting_down",
    }
}

kinds! {
    DecideError {
        Self::Arguments(_) => "invalid_arguments",
        Self::Resume(error) | Self::StoredOnly(error) => error.kind(),
        Self::NotKept(error) => of_store(error),
    }
}

kinds! {
    AnswerError {
        Self::NotWaiting(_) => "not_waiting",
        Self::NotAsked(_) => "not_asked",
        Self::NotADecision(_) => "no_decision",
        Self::NotAccepted(why) => why.kind(),
    }
}

kinds! {
    NotAccepted {
        Self::Ended => "run_ended",
        Self::Parked => "run_parked",
        Self::Busy => "inbox_full",
    }
}

kinds! {
    NoResult {
        Self::Unrecorded(error) => of_store(error),
        Self::Stopped => "stopped",
    }
}

kinds! {
    ForkError {
        Self::SessionExists(_) => "session_exists",
        Self::NothingToAnswer => "nothing_to_answer",
        Self::Store(error) => of_store(error),
        Self::Request(error) => error.kind(),
    }
}

kinds! {
    FindError {
        Self::NoSession(_) => "no_session",
        Self::NoRun(_) => "no_run",
        Self::Ambiguous { .. } => "ambiguous",
        Self::Store(error) => of_store(error),
    }
}

fn of_store(error: &StoreError) -> &'static str {
    match (about_request(error), error) {
        (Some((kind, _)), _) => kind,
        (None, StoreError::Refused(_)) => "store_unavailable",
        (None, error) if error.is_retryable() => "store_unavailable",
        (None, _) => "store_failed",
    }
}

/// Returns the text for an error of the store: what the error says about the request, if nothing is wrong with the
/// store itself, and otherwise `undone`, which says what could not be done.
pub(crate) fn words_of_store(error: &StoreError, undone: &'static str) -> &'static str {
    about_request(error).map_or(undone, |(_, words)| words)
}

/// Returns the kind and the text of a store error that is about the request and not about the store itself.
fn about_request(error: &StoreError) -> Option<(&'static str, &'static str)> {
    match error {
        StoreError::NoSuchSession(_) => Some(("no_session", "there is no such session")),
        StoreError::NoSuchRun(_) => Some(("no_run", "there is no such run")),
        StoreError::SessionExists(_) => Some(("session_exists", "the session already exists")),
        StoreError::SessionBusy { .. } => Some(("session_busy", "the session is busy")),
        StoreError::SessionHeld(_) => Some(("session_busy", "the session is being removed")),
        StoreError::RunEnded(_) => Some(("run_ended", "the run has ended")),
        StoreError::InboxFull(_) => Some(("inbox_full", "the inbox of the run is full")),
        _ => None,
    }
}

fn kind_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::UnknownMode { .. } => "unknown_mode",
        Refusal::UnknownChannel { .. } => "unknown_channel",
        Refusal::UnknownAgent { .. } => "unknown_agent",
        Refusal::UnknownPlan { .. } => "unknown_plan",
        Refusal::ModeNotAllowed { .. } => "mode_not_allowed",
        Refusal::RoleNotAllowed { .. } => "role_not_allowed",
        Refusal::NoRole { .. } => "no_role",
        _ => "refused",
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::{RunId, SessionId};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_error_serializes_as_kind_and_message_without_its_causes() {
        let session: SessionId = "s".parse().unwrap();
        let run = RunId(Uuid::nil());
        let text = format!("session s is busy with run {run}");
        let busy = RequestError::Busy { session, run };
        assert_eq!(
            serde_json::to_value(&busy).unwrap(),
            serde_json::json!({"kind": "session_busy", "message": text})
        );
        let store = StoreError::Unavailable("postgres://secret-host".to_owned());
        let failed = serde_json::to_string(&RequestError::Store(store)).unwrap();
        assert_eq!(
            failed,
            r#"{"kind":"store_unavailable","message":"the request could not be recorded"}"#
        );
        let late = DecideError::Resume(StoreError::RunEnded(run).into());
        assert_eq!(late.kind(), "run_ended");
        let unknown = serde_json::json!({"kind": "no_run", "message": "there is no such run"});
        for written in [
            serde_json::to_value(ResumeError::from(StoreError::NoSuchRun(run))).unwrap(),
            serde_json::to_value(ForkError::from(StoreError::NoSuchRun(run))).unwrap(),
        ] {
            assert_eq!(written, unknown);
        }
        let damaged = ResumeError::from(StoreError::Damaged("page 7".to_owned()));
        assert_eq!(
            (damaged.kind(), damaged.to_string().as_str()),
            ("store_failed", "the run could not be read or reserved")
        );
        let exists = ForkError::SessionExists("s".parse().unwrap());
        let refused = ForkError::Request(RequestError::ShuttingDown);
        assert_eq!(
            (exists.kind(), refused.kind()),
            ("session_exists", "shutting_down")
        );
        assert_eq!(
            serde_json::to_value(FindError::NoRun("01".to_owned())).unwrap(),
            serde_json::json!({"kind": "no_run", "message": "there is no run \"01\""})
        );
    }
}
