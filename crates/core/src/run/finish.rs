//! How an agent, and with the root agent the run, ends: with a valid history (loop rule 11).

use crate::effect::Effect;
use crate::finish::{FinishReason, RunOutcome, RunStatus};
use crate::ids::AgentId;
use crate::profile::UsageScope;
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::agent::Phase;
use crate::run::draft::Draft;
use crate::transcript::Transcript;
use crate::usage::RunUsage;

impl RunTree {
    /// Ends an agent, and lets whoever waits for its answer go on. Its calls must have their results by now.
    pub(super) fn finish(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        reason: FinishReason,
        content: String,
    ) {
        self.end_agent(draft, id, reason, content);
        self.agent_ended(draft, id);
    }

    /// Returns what an agent used so far, with what agents below it did if its profile says so.
    pub(super) fn usage_of(&self, id: AgentId) -> RunUsage {
        let Some(agent) = self.agent(id) else {
            return RunUsage::default();
        };
        let mut usage = agent.usage.clone();
        if self.agent_spec(id).profile.usage == UsageScope::WithAgents {
            usage.merge(&agent.usage_below);
        }
        usage
    }

    /// Ends an agent and records what it came to.
    pub(super) fn end_agent(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        reason: FinishReason,
        content: String,
    ) {
        let usage = self.usage_of(id);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.phase = Phase::Ended;
        let outcome = RunOutcome {
            content,
            finish_reason: reason,
            turns: agent.turns_used,
            usage,
        };
        let status = outcome.status();
        let body = if status == RunStatus::Failed {
            RecordBody::RunFailed(Box::new(outcome.clone()))
        } else {
            RecordBody::Final(Box::new(outcome.clone()))
        };
        if id == AgentId::ROOT {
            self.status = status;
            draft.effects.push(Effect::Finish(outcome));
        } else {
            // Nobody asks a sub-agent anything more: only its answer is kept in memory.
            agent.transcript = Transcript::default();
            agent.answer = Some(outcome);
        }
        self.record(draft, id, None, body);
    }
}
