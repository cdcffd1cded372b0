//! The approver of a case: it approves the calls that the case says, and nobody answers about any other.

use neuraxis_core::{ApprovalDecision, AskApproval};
use neuraxis_ports::{Approver, ApproverReply, TurnContext, async_trait};

use crate::matching::CallPattern;

/// Who decided, as it stands on record.
const BY: &str = "eval case";

/// Approves the calls that a case says. Policy asked about them: what it denies, nobody can approve.
#[derive(Debug)]
pub(crate) struct Approved(pub(crate) Vec<CallPattern>);

#[async_trait]
impl Approver for Approved {
    async fn decide(&self, ask: &AskApproval, _turn: &TurnContext) -> ApproverReply {
        let mut patterns = self.0.iter();
        if !patterns.any(|pattern| pattern.fits(&ask.name, &ask.arguments)) {
            return ApproverReply::Nobody;
        }
        ApproverReply::Decided {
            decision: ApprovalDecision::APPROVE,
            by: Some(BY.to_owned()),
        }
    }

    fn can_answer(&self) -> bool {
        !self.0.is_empty()
    }
}
