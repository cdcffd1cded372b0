//! Handles a failed attempt of a model call.

use crate::effect::Purpose;
use crate::error::InputError;
use crate::finish::FinishReason;
use crate::ids::{AgentId, Attempt};
use crate::input::{ModelFailed, NextAttempt};
use crate::record::{LlmFailed, RecordBody};
use crate::run::RunTree;
use crate::run::agent::Phase;
use crate::run::draft::Draft;

impl RunTree {
    pub(super) fn model_failed(
        &mut self,
        draft: &mut Draft,
        failed: ModelFailed,
    ) -> Result<(), InputError> {
        let Some((agent, call)) = self.open_model_call(failed.effect_id) else {
            return self.no_model_call(failed.effect_id, "llm_failed");
        };
        if failed.attempt < call.attempt {
            return Ok(());
        }
        if let Some(usage) = &failed.error.usage {
            self.usage.add(&failed.served_by, **usage);
        }
        let (next, error) = (failed.next, failed.error.clone());
        let record = LlmFailed {
            effect_id: failed.effect_id,
            attempt: failed.attempt,
            purpose: call.purpose,
            role: call.role.clone(),
            served_by: failed.served_by,
            error: failed.error,
            next,
            duration: failed.duration,
        };
        self.record(
            draft,
            agent,
            Some(call.content_index),
            RecordBody::LlmFailed(record),
        );
        match (next, call.purpose) {
            (NextAttempt::Follows, _) => self.expect_attempt_after(agent, failed.attempt),
            (NextAttempt::None, Purpose::LastAnswer) => {
                self.finish_with_what_there_is(draft, agent);
            }
            // Policy wants the tool called in any case; the answer may still succeed with its own role.
            (NextAttempt::None, Purpose::Routing) => self.gather_chosen(draft, agent, &call, None),
            (NextAttempt::None, Purpose::Turn | Purpose::Compaction | Purpose::SelfCheck) => {
                let text = self
                    .agent(agent)
                    .map(|agent| agent.text.clone())
                    .unwrap_or_default();
                self.finish(draft, agent, FinishReason::Failed(error.to_string()), text);
            }
        }
        Ok(())
    }

    fn expect_attempt_after(&mut self, agent: AgentId, failed: Attempt) {
        if let Some(Phase::Model(call)) = self.agent_mut(agent).map(|agent| &mut agent.phase) {
            call.attempt = failed.next();
        }
    }
}
