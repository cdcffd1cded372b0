//! Converts the engine's refusals to problems.

use neuraxis::SessionId;
use neuraxis::brainstem::Refusal;
use neuraxis::core::{RunId, with_causes};
use neuraxis::engine::{ClientInputError, DecideError, RequestError, ResumeError};
use neuraxis::ports::StoreError;
use serde_json::Value;

use crate::problem::{
    AT_WORK_ELSEWHERE, CANNOT_GO_ON, IDEMPOTENCY_KEY_REUSED, INTERNAL, INVALID_FIELD,
    MODE_NOT_ALLOWED, NO_MODEL, NO_SUCH_RUN, NO_SUCH_SESSION, NOT_ASKED, NOT_WAITING, Problem,
    QUESTION_EXPIRED, REFUSED, RUN_ENDED, SESSION_ALTERED, SESSION_BUSY, SESSION_EXISTS,
    SHUTTING_DOWN, STORE_FAILED, STORE_UNAVAILABLE, TOO_MANY_RUNS, UNKNOWN_CHANNEL, UNKNOWN_MODE,
};

/// After how many seconds a client retries if another server drives the run, if the run was left, or if the store is
/// unavailable. A dead server is detected after half a minute.
pub(crate) const RETRY_AFTER: u32 = 5;

impl From<RequestError> for Problem {
    fn from(error: RequestError) -> Self {
        let text = error.to_string();
        match error {
            RequestError::EmptyMessage => Self::new(&INVALID_FIELD, text).with("field", "message"),
            RequestError::TooLarge { .. } => {
                Self::new(&INVALID_FIELD, text).with("field", "message")
            }
            RequestError::Attachment { .. } => {
                Self::new(&INVALID_FIELD, text).with("field", "attachments")
            }
            RequestError::ClientInput(why) => client_input_problem(&why, text),
            RequestError::Policy(refusal) => policy_problem(refusal),
            RequestError::Busy { session, run } => Self::new(
                &SESSION_BUSY,
                format!(
                    "{text}; send the message once that run has ended: /api/v1/runs/{run} says what it is waiting \
                     for, if anything, and POST /api/v1/runs/{run}/cancel cancels it"
                ),
            )
            .with("session_id", session.as_str())
            .with("run_id", run.to_string()),
            RequestError::Altered { session, why } => altered(&session, &why),
            RequestError::KeyReused(differences) => {
                let names = differences.parts().iter().map(|part| part.name().into());
                Self::new(
                    &IDEMPOTENCY_KEY_REUSED,
                    format!(
                        "{text}; resend the original request to get its answer, or use a new key for a new request"
                    ),
                )
                .with("differs", names.collect::<Vec<Value>>())
            }
            RequestError::AtWorkElsewhere { session, run } => {
                let follow = run
                    .map(|run| format!(", or follow it at /api/v1/runs/{run}/events"))
                    .unwrap_or_default();
                let detail = format!(
                    "the run of this request belongs to another server, or to one that just died; send the same \
                     request again in {RETRY_AFTER} seconds{follow}"
                );
                let problem = Self::new(&AT_WORK_ELSEWHERE, detail)
                    .with("session_id", session.as_str())
                    .retry_after(RETRY_AFTER);
                match run {
                    Some(run) => problem.with("run_id", run.to_string()),
                    None => problem,
                }
            }
            RequestError::Interrupted { run, source } => {
                Self::from(*source).with("run_id", run.to_string())
            }
            // A client cannot distinguish another owner's session from a missing one.
            RequestError::OtherOwner { session } => StoreError::NoSuchSession(session).into(),
            RequestError::Store(error) => error.into(),
            RequestError::ShuttingDown => Self::new(
                &SHUTTING_DOWN,
                "the server is shutting down and accepts no new messages",
            ),
            other => internal(&with_causes(&other)),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::NoSuchSession(session) => {
                Self::new(&NO_SUCH_SESSION, text).with("session_id", session.as_str())
            }
            StoreError::NoSuchRun(_) => no_such_run(),
            StoreError::SessionExists(session) => {
                Self::new(&SESSION_EXISTS, text).with("session_id", session.as_str())
            }
            StoreError::SessionBusy { session, run } => Self::new(&SESSION_BUSY, text)
                .with("session_id", session.as_str())
                .with("run_id", run.to_string()),
            StoreError::SessionHeld(session) => {
                Self::new(&SESSION_BUSY, text).with("session_id", session.as_str())
            }
            StoreError::RunEnded(_) => Self::new(&RUN_ENDED, text),
            StoreError::Invalid { .. } => Self::new(&INVALID_FIELD, text),
            StoreError::InboxFull(_) => Self::new(&TOO_MANY_RUNS, text).retry_after(RETRY_AFTER),
            other => not_stored(&other),
        }
    }
}

impl From<ResumeError> for Problem {
    fn from(error: ResumeError) -> Self {
        let text = error.to_string();
        match error {
            ResumeError::Ended(_) => Self::new(&RUN_ENDED, text),
            ResumeError::NotWaiting(_) => Self::new(&NOT_WAITING, text),
            ResumeError::NotAsked(_) => Self::new(&NOT_ASKED, text),
            ResumeError::Arguments { why, .. } => DecideError::Arguments(why).into(),
            ResumeError::Expired { .. } => Self::new(&QUESTION_EXPIRED, text),
            // A client cannot distinguish another owner's run from a missing one.
            ResumeError::OtherOwner { .. } => no_such_run(),
            ResumeError::Altered { session, why } => altered(&session, &why),
            ResumeError::AtWork(_) | ResumeError::Alive(_) => {
                Self::new(&AT_WORK_ELSEWHERE, text).retry_after(RETRY_AFTER)
            }
            ResumeError::Store(error) => error.into(),
            ResumeError::ShuttingDown => Self::new(&SHUTTING_DOWN, text),
            // The command line shows this to a user who can run it there.
            ResumeError::Elsewhere { folder, .. } => {
                let detail = format!(
                    "the run works in {folder}, but this server works elsewhere; only \
                     a server whose tools.root is that folder can resume it"
                );
                Self::new(&CANNOT_GO_ON, detail)
            }
            ResumeError::NoFolder(_)
            | ResumeError::Imported(_)
            | ResumeError::Closed { .. }
            | ResumeError::ServerAway { .. }
            | ResumeError::NotConfigured { .. }
            | ResumeError::NothingToDo => Self::new(&CANNOT_GO_ON, text),
            other => internal(&with_causes(&other)),
        }
    }
}

impl From<DecideError> for Problem {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Arguments(error) => Self::invalid("arguments", error),
            DecideError::Resume(error) | DecideError::StoredOnly(error) => error.into(),
            DecideError::NotKept(error) => error.into(),
            other => internal(&with_causes(&other)),
        }
    }
}

/// Converts the error for a protocol in which `field` holds the message and its files, and another field holds the
/// session.
pub(crate) fn refused_in(
    field: &'static str,
    session: &'static str,
    error: RequestError,
) -> Problem {
    let field = match &error {
        RequestError::Attachment { .. } | RequestError::TooLarge { .. } => Some(field),
        RequestError::Store(StoreError::Invalid { what, .. }) if *what == "session id" => {
            Some(session)
        }
        _ => None,
    };
    let problem = match error {
        // There, a turn creates the session that it names, so this refusal discloses that the session exists.
        RequestError::OtherOwner { session } => {
            let detail = format!(
                "the id {session} is taken by another owner's session; choose another, such as one that starts with \
                 your name"
            );
            Problem::new(&NO_SUCH_SESSION, detail).with("session_id", session.as_str())
        }
        error => Problem::from(error),
    };
    match field {
        Some(field) => problem.with("field", field),
        None => problem,
    }
}

/// Refuses what a client contributed, naming the field that carries it in all protocols.
fn client_input_problem(why: &ClientInputError, text: String) -> Problem {
    let problem = Problem::new(&INVALID_FIELD, text);
    match why {
        ClientInputError::TooManyTools(_)
        | ClientInputError::ToolsTooLarge(_)
        | ClientInputError::ToolTwice(_)
        | ClientInputError::ReservedTool(_)
        | ClientInputError::Parameters { .. }
        | ClientInputError::UnboundedParameters { .. }
        | ClientInputError::Withheld(_) => problem.with("field", "tools"),
        ClientInputError::NoSuchTool(_) => problem.with("field", "tool_choice"),
        _ => problem,
    }
}

fn policy_problem(refusal: Refusal) -> Problem {
    let text = refusal.to_string();
    match refusal {
        Refusal::UnknownMode { known, .. } => Problem::new(&UNKNOWN_MODE, text)
            .with("field", "mode")
            .with("known", names(&known)),
        Refusal::UnknownChannel { known, .. } => Problem::new(&UNKNOWN_CHANNEL, text)
            .with("field", "channel")
            .with("known", names(&known)),
        Refusal::UnknownAgent { known, .. } => Problem::new(&INVALID_FIELD, text)
            .with("field", "agent")
            .with("known", names(&known)),
        Refusal::ModeNotAllowed { allowed, .. } => Problem::new(&MODE_NOT_ALLOWED, text)
            .with("field", "mode")
            .with("allowed", names(&allowed)),
        // No client names a plan: it comes from its key or from the server, and other plans do not concern the client.
        Refusal::UnknownPlan { given, .. } => {
            let detail = format!(
                "the plan {given:?} for these requests no longer exists; the server's operator must restore it or \
                 issue a key with another plan"
            );
            Problem::new(&REFUSED, detail)
        }
        Refusal::RoleNotAllowed { .. } => Problem::new(&INVALID_FIELD, text).with("field", "model"),
        Refusal::NoRole { .. } => Problem::new(&NO_MODEL, text),
        _ => Problem::new(&REFUSED, text),
    }
}

fn names(names: &[impl ToString]) -> Vec<Value> {
    names.iter().map(|name| name.to_string().into()).collect()
}

/// What does not match concerns the server's operator, so it is only logged.
fn altered(session: &SessionId, why: &str) -> Problem {
    tracing::error!(%session, %why, "a session was altered after it was stored; nothing can continue it");
    let detail = "the session was altered after it was stored and cannot be continued; use another session, and see \
                  the server's log";
    Problem::new(&SESSION_ALTERED, detail).with("session_id", session.as_str())
}

/// Reports that a request failed, whether it read, wrote or deleted something. The store's own message may name hosts
/// and files, so it is only logged.
fn not_stored(error: &StoreError) -> Problem {
    tracing::error!(%error, "a store operation for a request failed");
    if error.is_retryable() {
        let detail = "the request failed: the store is currently unavailable; try again later, and see the server's \
                      log";
        return Problem::new(&STORE_UNAVAILABLE, detail).retry_after(RETRY_AFTER);
    }
    if let StoreError::Refused(_) = error {
        let detail = "the request failed: the store refused it; see the server's log";
        return Problem::new(&STORE_UNAVAILABLE, detail);
    }
    let detail = "the request failed: the store failed; see the server's log";
    Problem::new(&STORE_FAILED, detail)
}

/// The answer for a run that does not exist or that this client may not see.
pub(crate) fn no_such_run() -> Problem {
    Problem::new(&NO_SUCH_RUN, "no such run")
}

/// Same as [`no_such_run`], for a valid id.
pub(crate) fn no_run(id: RunId) -> Problem {
    Problem::new(&NO_SUCH_RUN, format!("there is no run {id}"))
}

/// Reports a defect. Its details are only logged.
pub(crate) fn internal(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "a request failed");
    Problem::new(&INTERNAL, "internal error; see the server's log")
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use axum::response::IntoResponse;
    use neuraxis::core::RunId;
    use neuraxis::core::uuid::Uuid;
    use neuraxis::engine::ResumeError;

    use super::*;

    #[test]
    fn the_reason_a_run_cannot_resume_is_logged_and_not_sent_to_the_client() {
        let cause = StoreError::Damaged("the third record".to_owned());
        let error = RequestError::Interrupted {
            run: RunId(Uuid::nil()),
            source: Box::new(ResumeError::Store(cause)),
        };
        let told = with_causes(&error);
        assert!(
            told.contains("of this request cannot be resumed: "),
            "{told}"
        );
        assert!(told.contains("the third record"), "{told}");
        let problem = format!("{:?}", Problem::from(error));
        assert!(!problem.contains("the third record"), "{problem}");
    }

    #[test]
    fn a_repeated_turn_whose_run_cannot_resume_is_a_cannot_go_on_problem() {
        let run = RunId(Uuid::nil());
        let source = Box::new(ResumeError::Imported(run));
        let problem = Problem::from(RequestError::Interrupted { run, source });
        assert!(problem.is(&CANNOT_GO_ON), "{problem:?}");
    }

    #[test]
    fn a_decision_on_a_run_of_another_folder_names_the_server_that_can_resume_it() {
        let run = RunId(Uuid::nil());
        let folder = "/srv/project".into();
        let problem = Problem::from(ResumeError::Elsewhere { run, folder });
        assert!(problem.is(&CANNOT_GO_ON), "{problem:?}");
        let told = problem.details().detail;
        let expected = "only a server whose tools.root is that folder can resume it";
        assert!(told.contains(expected), "{told}");
    }

    #[test]
    fn a_session_being_removed_is_busy() {
        let session = "s1".parse().unwrap();
        let held = RequestError::Store(StoreError::SessionHeld(session));
        let problem = Problem::from(held);
        assert!(problem.is(&SESSION_BUSY), "{problem:?}");
        let problem = format!("{problem:?}");
        assert!(
            problem.contains("s1 is being removed: try again"),
            "{problem}"
        );
    }

    #[test]
    fn the_text_of_a_store_error_is_not_sent_to_the_client() {
        let host = "db.internal".to_owned();
        for (error, name, retry_after) in [
            (
                StoreError::Unavailable(host.clone()),
                "store-unavailable",
                Some("5"),
            ),
            (StoreError::Refused(host.clone()), "store-unavailable", None),
            (StoreError::Damaged(host), "store-failed", None),
        ] {
            let refused = Problem::from(RequestError::Store(error));
            let problem = format!("{refused:?}");
            let response = refused.into_response();
            let told = response.headers().get(header::RETRY_AFTER);
            assert_eq!(told.map(|seconds| seconds.to_str().unwrap()), retry_after);
            assert!(problem.contains(name), "{problem}");
            assert!(!problem.contains("db.internal"), "{problem}");
            // The failed request may have been for a list.
            assert!(problem.contains("the request failed"), "{problem}");
        }
    }
}
