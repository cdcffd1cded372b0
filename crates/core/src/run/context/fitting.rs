//! Makes the request of one attempt fit the model that serves it, once the driver knows that model's context size.
//!
//! This does not change the run's conversation, unlike trimming by the machine.

use super::percent;
use crate::effect::{CallModel, ModelRequest, Purpose};
use crate::log::Cut;
use crate::run::RunTree;
use crate::run::agent::Agent;
use crate::run::request_size::{FULL, definition_bytes};
use crate::spec::AgentSpec;

/// The form of a model call that fits the context of the model serving one attempt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FittedRequest {
    /// The request, with the messages that fit and a reply limit that fits beside them.
    pub request: ModelRequest,
    /// How many messages of the conversation are left out.
    pub left_out: u64,
    /// The estimated size of the request without the reply, in tokens.
    pub tokens: u64,
}

impl RunTree {
    /// Makes a call in progress fit a model that replaces the intended one: limits the reply to what the context
    /// leaves, and leaves out messages that do not fit. `None` for a call that is not sent the conversation.
    #[must_use]
    pub fn fitted(&self, call: &CallModel, context_tokens: u64) -> Option<FittedRequest> {
        let agent = self.agent_of(call)?;
        let spec = agent.spec(&self.spec);
        let mut request = call.request.clone();
        let (mut size, definitions) = agent.size_of(&request);
        let (version, mut left_out) = (self.state.loop_version, 0);
        let room = spec.room_in(context_tokens).saturating_sub(definitions);
        let full = percent(room, FULL);
        if size > full && call.purpose != Purpose::SelfCheck {
            // The reasoning of earlier turns is not counted among the messages that are left out, and most replacements
            // are not sent it anyway: it belongs to another model.
            let version = version.min(3);
            let plan = agent.plan_of(version, size.saturating_sub(full), |_| true);
            let plan = agent.sparing_summaries(version, plan);
            let mut conversation = agent.conversation.clone();
            conversation.trim(Cut {
                removed: &plan.removed,
                shortened: &[],
                without_reasoning: &[],
                summary: None,
            });
            request.messages = conversation.transcript().clone();
            let mut gauge = agent.gauge;
            gauge.note_cut(&request.messages);
            size = gauge.estimate(&request.messages).min(size);
            left_out = plan.removed.iter().map(|span| span.end - span.start).sum();
        }
        let tokens = size.saturating_add(definitions);
        request.max_output_tokens = request
            .max_output_tokens
            .map(|most| spec.reply_beside(tokens, context_tokens, most));
        Some(FittedRequest {
            request,
            left_out,
            tokens,
        })
    }

    /// Makes a call in progress fit the intended model by limiting the reply to what its context leaves: some servers
    /// refuse to start a reply that might not fit. `None` if no change is necessary.
    #[must_use]
    pub fn with_shorter_reply(
        &self,
        call: &CallModel,
        context_tokens: u64,
    ) -> Option<FittedRequest> {
        let agent = self.agent_of(call)?;
        let (size, definitions) = agent.size_of(&call.request);
        let tokens = size.saturating_add(definitions);
        let most = call.request.max_output_tokens?;
        let spec = agent.spec(&self.spec);
        let left = spec.reply_beside(tokens, context_tokens, most);
        (left < most).then(|| FittedRequest {
            request: ModelRequest {
                max_output_tokens: Some(left),
                ..call.request.clone()
            },
            left_out: 0,
            tokens,
        })
    }

    /// Returns the agent that makes a call, if the call is sent its conversation.
    fn agent_of(&self, call: &CallModel) -> Option<&Agent> {
        match call.purpose {
            Purpose::Turn | Purpose::LastAnswer | Purpose::Gather | Purpose::SelfCheck => {
                self.agent(call.agent)
            }
            Purpose::Compaction | Purpose::Routing => None,
        }
    }
}

impl Agent {
    /// Estimates the tokens of a request's messages, and those of its tool definitions.
    fn size_of(&self, request: &ModelRequest) -> (u64, u64) {
        let definitions = definition_bytes(&request.tools);
        let definitions = self.gauge.tokens_of_definitions(definitions);
        (self.gauge.estimate(&request.messages), definitions)
    }
}

impl AgentSpec {
    /// Returns the maximum number of reply tokens that fit a context beside `tokens`, allowing for an estimate that is
    /// 10 % too low. Never less than what is kept free for the reply. Rounded to eighths of what was asked for, so that
    /// results that differ by a few bytes do not change the request when a run is replayed.
    fn reply_beside(&self, tokens: u64, context: u64, most: u32) -> u32 {
        let kept = self.kept_for_reply(context).max(1);
        let left = context.saturating_sub(tokens.saturating_add(tokens / 10));
        let requested = u64::from(most);
        if requested <= left.max(kept) {
            return most;
        }
        let eighth = (requested / 8).max(1);
        let left = (left / eighth).saturating_mul(eighth).max(kept);
        u32::try_from(left).unwrap_or(most)
    }
}
