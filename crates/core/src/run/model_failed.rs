//! Handles a failed attempt of a model call.

use crate::decision::TakesOver;
use crate::effect::Purpose;
use crate::error::{InputError, LlmError, LlmErrorKind};
use crate::finish::FinishReason;
use crate::ids::{AgentId, Attempt};
use crate::input::{ModelFailed, NextAttempt};
use crate::record::{LlmFailed, RecordBody, Warning};
use crate::run::RunTree;
use crate::run::agent::{ModelCall, OfferedTools, Phase, PlannedCall};
use crate::run::draft::Draft;
use crate::usage::Usage;

impl RunTree {
    pub(super) fn model_failed(
        &mut self,
        draft: &mut Draft,
        failed: ModelFailed,
    ) -> Result<(), InputError> {
        let Some((agent, call)) = self.open_model_call(failed.effect_id) else {
            return self.nothing_waits_for(failed.effect_id, "llm_failed");
        };
        if failed.attempt < call.attempt {
            return Ok(());
        }
        if let Some(usage) = &failed.error.usage {
            self.charge(agent, &failed.served_by, **usage, failed.cost);
        } else if failed.error.kind.may_have_used_tokens() {
            // Nobody says what it used: the sum is a lower bound from now on (loop rule 12).
            self.charge(agent, &failed.served_by, Usage::UNKNOWN, None);
        }
        let (next, error) = (failed.next, failed.error.clone());
        let (served_by, downgraded) = (failed.served_by.clone(), failed.downgraded.clone());
        let degraded = failed.degraded.clone();
        let record = LlmFailed {
            effect_id: failed.effect_id,
            attempt: failed.attempt,
            purpose: call.planned.purpose,
            role: call.planned.role.clone(),
            served_by: failed.served_by,
            downgraded: failed.downgraded,
            degraded: failed.degraded,
            error: failed.error,
            next,
            cost: failed.cost,
            duration: failed.duration,
        };
        self.record(
            draft,
            agent,
            Some(call.content_index),
            RecordBody::LlmFailed(Box::new(record)),
        );
        self.note_served(draft, agent, &served_by, downgraded.as_deref());
        self.note_degraded(draft, agent, degraded);
        if call.planned.purpose == Purpose::Turn {
            self.count_failure(agent);
        }
        match (next, call.planned.purpose) {
            (NextAttempt::Follows, _) => self.expect_attempt_after(agent, failed.attempt),
            // Trimming without a summary is better than not going on.
            (NextAttempt::None, Purpose::Compaction) => {
                self.summary_replied(draft, agent, &call, None);
            }
            (NextAttempt::None, Purpose::Turn | Purpose::LastAnswer)
                if self.tries_otherwise(draft, agent, &call, &error) => {}
            (NextAttempt::None, Purpose::LastAnswer) => {
                self.finish_with_what_there_is(draft, agent);
            }
            // Policy wants the tool called in any case; the answer may still succeed with its own role.
            (NextAttempt::None, Purpose::Gather) => self.gather_chosen(draft, agent, &call, None),
            (NextAttempt::None, Purpose::Routing) => self.role_chosen(draft, None),
            (NextAttempt::None, Purpose::SelfCheck) => self.checked(draft, agent, &call, None),
            (NextAttempt::None, Purpose::Turn) => self.turn_failed(draft, agent, &call, &error),
        }
        Ok(())
    }

    /// No attempt of a turn's call succeeded: a larger role takes the turn over, or a person, or the run ends.
    fn turn_failed(&mut self, draft: &mut Draft, id: AgentId, call: &ModelCall, error: &LlmError) {
        match self.take_over(draft, id) {
            TakesOver::Role(role) => {
                let planned = PlannedCall {
                    role,
                    ..call.planned.clone()
                };
                self.begin_call(draft, id, planned, None);
            }
            TakesOver::Person => self.ask_person(draft, id),
            TakesOver::Nobody => {
                let text = self.agent(id).map(|agent| agent.text.clone());
                let reason = FinishReason::Failed(error.to_string());
                self.finish(draft, id, reason, text.unwrap_or_default());
            }
        }
    }

    /// Asks once more in another way where that may help: with a trimmed conversation if it did not fit, without tools
    /// if the reply could not be read. False if it cannot, or was already tried.
    fn tries_otherwise(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        call: &ModelCall,
        error: &LlmError,
    ) -> bool {
        let mut planned = call.planned.clone();
        match error.kind {
            LlmErrorKind::ContextOverflow { limit, needed } if !planned.tried.trimmed => {
                let Some(plan) = self.plan_after_overflow(id, limit, needed) else {
                    return false;
                };
                self.trim(draft, id, &plan, None);
                planned.tried.trimmed = true;
            }
            LlmErrorKind::InvalidResponse if !planned.tried.simplified => {
                let warning = Warning {
                    code: "invalid_response".to_owned(),
                    message: "the reply could not be read; the model is asked again without tools"
                        .to_owned(),
                };
                self.record(draft, id, None, RecordBody::Warning(Box::new(warning)));
                planned.tools = OfferedTools::None;
                planned.choice = None;
                planned.tried.simplified = true;
            }
            _ => return false,
        }
        self.begin_call(draft, id, planned, None);
        true
    }

    fn expect_attempt_after(&mut self, agent: AgentId, failed: Attempt) {
        if let Some(Phase::Model(call)) = self.agent_mut(agent).map(|agent| &mut agent.phase) {
            call.attempt = failed.next();
        }
    }
}
