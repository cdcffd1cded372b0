//! Asks users about calls, and an embedder's advisor how to continue.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    Advice, Advised, ApprovalDecided, ApprovalDecision, AskApproval, Consult, DataPolicy, Hook,
    Input, InputId,
};
use neuraxis_ports::{Advisor, ApproverReply, TurnContext};

use crate::driver::under_way::Work;
use crate::driver::{Driver, answered};

/// The reason for denying a call that needs approval if there is no approver.
const NOBODY: &str = "it needs approval, and no approver is available here (an approver, a freer mode or, if only the mode \
                      asks, a rule that allows it could let it run)";

/// The reason for denying a call that would be decided later, if the run could not continue then.
const NOT_KEPT: &str = "it needs approval, and cannot wait for it: the data policy keeps what the run would need to continue out of the \
                        log (an approver that decides immediately, a freer mode or, if only the mode asks, a rule that allows it could \
                        let it run)";

/// How long an embedder's hook may take before the run continues without its advice.
pub(super) const MAX_ADVICE_TIME: Duration = Duration::from_secs(30);

impl Driver {
    /// Asks for approval, for as long as the question may stay open.
    pub(super) fn ask_approval(&mut self, ask: Box<AskApproval>) {
        let engine = Arc::clone(&self.engine);
        let of_request = self.scope.request.approver();
        let approver = Arc::clone(of_request.unwrap_or(&engine.approver));
        let now = self.engine.clock.now();
        let left = ask
            .expires_at
            .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let turn = self.turn_context(ask.agent, self.tree.turn_of(ask.agent));
        let is_kept = self.scope.session_id.is_some();
        let is_whole = self.journal.policy == DataPolicy::ALL;
        self.work.push(Box::pin(async move {
            let reply = answered(async { approver.decide(&ask, &turn).await });
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
                Ok(Some(ApproverReply::Later)) if is_kept && is_whole => return Work::Later,
                Ok(Some(ApproverReply::Later)) if is_kept => denied(NOT_KEPT),
                // A question that is not stored could never be answered.
                Ok(Some(ApproverReply::Nobody | ApproverReply::Later)) => denied(NOBODY),
                Ok(None) => {
                    tracing::error!(call = %ask.tool_call_id, "the approver crashed; the call is denied");
                    denied("it needs approval, but asking for it failed")
                }
                // The call was not refused: it is recorded as expired.
                Err(_) => (ApprovalDecision::Expired, None),
            };
            let mut decided = ApprovalDecided {
                id: InputId::new(format!("approver-{}", ask.effect_id)),
                tool_call_id: ask.tool_call_id,
                arguments_hash: ask.arguments_hash,
                decision,
                by,
                code: None,
                given_before: None,
            };
            engine.approval_key.sign(ask.effect_id.run, &mut decided);
            Work::Answer(Box::new(Input::ApprovalDecided(decided)))
        }));
    }

    /// Asks the advisor, if there is one, for as long as it may take.
    pub(super) fn consult(&mut self, question: Consult) {
        let effect_id = question.effect_id;
        let turn = self.turn_context(question.agent, self.tree.turn_of(question.agent));
        if question.hook == Hook::Request {
            return self.ask_about_request(question, turn);
        }
        if let Some(advice) = self.check_answer(&question) {
            self.ready
                .push_back(Input::Advised(Advised { effect_id, advice }));
            return;
        }
        // An answer with a schema is checked whether or not the advisor is asked about answers.
        let has_a_say = question.hook != Hook::Answer || self.engine.hooks.contains(&Hook::Answer);
        let advisor = self.engine.advisor.clone().filter(|_| has_a_say);
        let Some(advisor) = advisor else {
            let advice = Advice::Continue;
            self.ready
                .push_back(Input::Advised(Advised { effect_id, advice }));
            return;
        };
        self.work.push(Box::pin(async move {
            let advice = advised(advisor.as_ref(), &question, &turn).await;
            Work::Answer(Box::new(Input::Advised(Advised { effect_id, advice })))
        }));
    }
}

/// Asks the advisor. Advice that cannot be followed is dropped.
pub(super) async fn advised(
    advisor: &dyn Advisor,
    question: &Consult,
    turn: &TurnContext,
) -> Advice {
    let answer = answered(async { advisor.advise(question, turn).await });
    match tokio::time::timeout(MAX_ADVICE_TIME, answer).await {
        Ok(Some(advice)) if fits(&advice, question.hook) => advice,
        Ok(_) | Err(_) => {
            tracing::warn!(hook = ?question.hook, "the advisor gave no usable advice; the run continues without it");
            Advice::Continue
        }
    }
}

/// Returns whether the machine accepts such advice at this point. If the machine refused it, the run would wait forever
/// for other advice.
fn fits(advice: &Advice, hook: Hook) -> bool {
    match advice {
        Advice::Offer { .. } => hook == Hook::ToolsSelected,
        Advice::TurnDown { .. } => hook == Hook::Answer,
        Advice::Amend { .. } | Advice::Refuse { .. } => hook == Hook::Request,
        _ => true,
    }
}
