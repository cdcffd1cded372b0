//! Questions that are settled while the user still looks at them: by a decision at another terminal, by a deadline, or
//! by the end of the run.

use neuraxis::core::{ApprovalDecided, ApprovalDecision, AskApproval, RecordBody};
use neuraxis::{Event, RunHandle};

use crate::progress;

/// How a question was settled.
#[derive(Debug, Clone)]
pub(super) enum Settled {
    /// A decision was made, or the deadline passed.
    Decided(Box<ApprovalDecided>),
    /// The run has ended, or was suspended.
    RunEnded,
}

/// Waits until a question is settled, here or elsewhere.
pub(super) async fn wait_until_settled(run: &RunHandle, ask: &AskApproval) -> Settled {
    let mut events = run.events();
    while let Some(event) = events.next().await {
        if let Event::Record(record) = event
            && let RecordBody::ApprovalDecided(decided) = &record.body
            && decided.tool_call_id == ask.tool_call_id
            && decided.arguments_hash == ask.arguments_hash
        {
            return Settled::Decided(decided.clone());
        }
    }
    Settled::RunEnded
}

impl Settled {
    /// Reports a decision that was made without the user's answer.
    pub(super) fn report(&self) {
        if let Self::Decided(decided) = self {
            let what = describe(decided);
            progress::notice(&format!("{what}; an answer here would be too late"));
        }
    }

    /// Reports if the decision differs from the user's answer.
    pub(super) fn warn_if_different(&self, ours: &ApprovalDecision) {
        match self {
            Self::Decided(decided) if decided.decision != *ours => {
                let what = describe(decided);
                progress::warn(&format!("your answer came too late: {what}"));
            }
            Self::Decided(_) => {}
            Self::RunEnded => progress::warn("your answer came too late: the run has ended"),
        }
    }
}

fn describe(decided: &ApprovalDecided) -> String {
    let by = decided.by.iter().map(|by| format!(" by {by}"));
    let by: String = by.collect();
    match &decided.decision {
        ApprovalDecision::Approve { .. } => format!("decided elsewhere: allowed{by}"),
        ApprovalDecision::Deny { reason } => {
            let reason: String = reason.iter().map(|reason| format!(" ({reason})")).collect();
            format!("decided elsewhere: denied{by}{reason}")
        }
        ApprovalDecision::Expired => "no decision about the call was made in time".to_owned(),
    }
}
