//! Handles a failed attempt of a model call.

use super::Next;
use super::agent::{ModelCall, OfferedTools, Phase, PlannedCall};
use super::agent_step::AgentStep;
use crate::decision::TakesOver;
use crate::effect::Purpose;
use crate::error::{InputError, LlmError, LlmErrorKind};
use crate::ids::Role;
use crate::input::{ModelFailed, NextAttempt};
use crate::metrics::Cost;
use crate::record::{LlmFailed, RecordBody};

impl AgentStep<'_> {
    pub(super) fn model_failed(&mut self, failed: ModelFailed) -> Result<Next, InputError> {
        let (effect, attempt) = (failed.effect_id, failed.attempt);
        let Some(mut call) = self.answered_call(effect, attempt, "llm_failed")? else {
            return Ok(Next::Wait);
        };
        if let Some(usage) = failed.error.used() {
            // Without reported usage, the sum is a lower bound from now on (loop rule 12).
            let cost = Cost::reported(failed.cost, failed.cost_label);
            self.charge(&failed.served_by, usage, cost);
        }
        let (next, mut error) = (failed.next, failed.error.clone());
        let left_out = failed.downgraded.as_ref().map_or(0, |it| it.left_out);
        if let LlmErrorKind::ContextOverflow { needed, .. } = &mut error.kind
            && left_out > 0
        {
            // The size of a part of the conversation says nothing about the size of the whole.
            *needed = None;
        }
        let served_by = failed.served_by.clone();
        self.note_failure(&call, failed);
        let purpose = call.planned.purpose;
        if purpose == Purpose::Turn {
            self.agent.count_failure();
        }
        if next == NextAttempt::Follows {
            call.attempt = attempt.next();
            self.agent.phase = Phase::Model(call);
            return Ok(Next::Wait);
        }
        match purpose {
            Purpose::Turn | Purpose::LastAnswer => Ok(self.call_failed(call, &served_by, &error)),
            // Trimming without a summary is better than stopping.
            Purpose::Compaction => self.summary_replied(call, None),
            // Policy requires the tool call in any case; the answer may still succeed with the agent's own role.
            Purpose::Gather => self.gather_chosen(&call, None),
            Purpose::Routing => self.role_chosen(None),
            Purpose::SelfCheck => Ok(self.draft_checked(&call, None)),
        }
    }

    fn note_failure(&mut self, call: &ModelCall, failed: ModelFailed) {
        let downgraded = self
            .state
            .note_served(&failed.served_by, failed.downgraded.as_deref());
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
            next: failed.next,
            cost: failed.cost,
            cost_label: failed.cost_label,
            model: failed.model,
            duration: failed.duration,
        };
        self.record_at(call.content_index, RecordBody::LlmFailed(Box::new(record)));
        if let Some(downgraded) = downgraded {
            self.record(RecordBody::RoleDowngraded(downgraded));
        }
        if let Some(why) = degraded {
            self.warn("role_degraded", why);
        }
    }

    /// Handles the failure of all attempts of the call of a turn or a last answer: it is made in another way, or a larger
    /// role or a user takes over the turn, or the agent ends. When time is nearly up, the last answer replaces another
    /// turn.
    fn call_failed(&mut self, call: ModelCall, served_by: &Role, error: &LlmError) -> Next {
        let mut planned = call.planned;
        if self.change_call(&mut planned, served_by, error) {
            return self.call_planned(planned);
        }
        if planned.purpose == Purpose::LastAnswer {
            return Next::FinishWithoutAnswer;
        }
        match self.take_over() {
            TakesOver::Role(role) => self.call_planned(PlannedCall {
                role,
                reply_tokens: None,
                stand_in: None,
                ..planned
            }),
            TakesOver::Person => Next::FinishWithQuestion,
            TakesOver::Nobody => Next::FinishFailed(call.effect_id, error.to_string()),
        }
    }

    /// Changes a call if that may help: a trimmed conversation or a shorter reply if it did not fit, no tools if the
    /// reply could not be parsed. Returns `false` if no change is possible, or it was already tried.
    fn change_call(
        &mut self,
        planned: &mut PlannedCall,
        served_by: &Role,
        error: &LlmError,
    ) -> bool {
        match error.kind {
            LlmErrorKind::ContextOverflow { limit, needed } if !planned.tried.trimmed => {
                return self.makes_room_after_overflow(planned, served_by, limit, needed);
            }
            LlmErrorKind::InvalidResponse if !planned.tried.simplified => {
                let message = "the reply could not be read; the model is asked again without tools";
                self.warn("invalid_response", message.to_owned());
                planned.tools = OfferedTools::None;
                planned.choice = None;
                planned.tried.simplified = true;
            }
            _ => return false,
        }
        true
    }
}
