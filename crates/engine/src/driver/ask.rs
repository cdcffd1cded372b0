//! Asks a person about calls.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{ApprovalDecided, ApprovalDecision, AskApproval, Input, InputId};
use neuraxis_ports::ApproverReply;

use crate::driver::under_way::Work;
use crate::driver::{Driver, answered};

impl Driver {
    /// Asks, for as long as the question may stay open.
    pub(super) fn ask_approval(&mut self, ask: AskApproval) {
        let engine = Arc::clone(&self.engine);
        let now = self.engine.clock.now();
        let left = ask
            .expires_at
            .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        self.work.push(Box::pin(async move {
            let reply = answered(async { engine.approver.decide(&ask).await });
            let reply = match left {
                Some(left) => tokio::time::timeout(left, reply).await,
                None => Ok(reply.await),
            };
            let denied = |why: &str| {
                let reason = Some(why.to_owned());
                (ApprovalDecision::Deny { reason }, None)
            };
            let (decision, by) = match reply {
                Ok(Some(ApproverReply::Decided { decision, by })) => (decision, by),
                Ok(Some(ApproverReply::Nobody)) => {
                    denied("it needs a person's approval, and nobody can give it here")
                }
                Ok(Some(ApproverReply::Later)) => return Work::Later,
                Ok(None) => {
                    tracing::error!(call = %ask.tool_call_id, "the approver crashed; the call is denied");
                    denied("it needs a person's approval, and asking for it failed")
                }
                // Nobody said no: that is how it is recorded.
                Err(_) => (ApprovalDecision::Expired, None),
            };
            let mut decided = ApprovalDecided {
                id: InputId::new(format!("approver-{}", ask.effect_id)),
                tool_call_id: ask.tool_call_id,
                arguments_hash: ask.arguments_hash,
                decision,
                by,
                code: None,
            };
            engine.approval_key.sign(ask.effect_id.run, &mut decided);
            Work::Answer(Box::new(Input::ApprovalDecided(decided)))
        }));
    }
}
