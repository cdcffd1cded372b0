//! How an agent, and with the root agent the run, ends: with a valid history (loop rule 11).

use crate::effect::Effect;
use crate::finish::{FinishReason, RunOutcome, RunStatus};
use crate::ids::AgentId;
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::agent::Phase;
use crate::run::draft::Draft;

impl RunTree {
    /// Ends an agent. Its calls must have their results by now.
    pub(super) fn finish(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        reason: FinishReason,
        content: String,
    ) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.phase = Phase::Ended;
        let turns = agent.turns_used;
        let outcome = RunOutcome {
            content,
            finish_reason: reason,
            turns,
            usage: self.usage.clone(),
        };
        let status = outcome.status();
        let body = if status == RunStatus::Failed {
            RecordBody::RunFailed(Box::new(outcome.clone()))
        } else {
            RecordBody::Final(Box::new(outcome.clone()))
        };
        self.record(draft, id, None, body);
        if id == AgentId::ROOT {
            self.status = status;
            draft.effects.push(Effect::Finish(outcome));
        }
    }
}
