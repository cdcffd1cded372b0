//! What happens when a provider reports that a request does not fit: a shorter reply, or the one trim.

use super::TrimPlan;
use crate::ids::Role;
use crate::log::Cut;
use crate::run::agent::{Agent, PlannedCall};
use crate::run::agent_step::AgentStep;
use crate::spec::AgentSpec;

impl AgentStep<'_> {
    /// Makes room for a call that did not fit according to its provider: with a shorter reply if that is enough and was
    /// not yet tried, otherwise with the one trim, or with a reply limited to what is left. Returns `false` if none of
    /// these helps: if the request would not fit anyway, the conversation stays whole, since trimming is permanent. The
    /// reported context size belongs to the role that served, which may not be the role that the call is for.
    pub(in crate::run) fn makes_room_after_overflow(
        &mut self,
        planned: &mut PlannedCall,
        served_by: &Role,
        limit: Option<u64>,
        needed: Option<u64>,
    ) -> bool {
        let (spec, agent) = (self.spec, &mut *self.agent);
        let requested = agent.most_of_reply(spec, planned);
        planned.stand_in = (*served_by != planned.role).then(|| served_by.clone());
        if let Some(limit) = limit {
            agent.said_contexts.insert(served_by.clone(), limit);
        }
        let mut is_least = false;
        if let Some(needed) = needed {
            // A server that stops counting at its limit reports one token more than fits, whatever the real number.
            let in_all = needed.saturating_add(requested.map_or(0, u64::from));
            is_least = limit.is_some_and(|limit| in_all <= limit.saturating_add(1));
            let estimate = agent.size().saturating_add(agent.definitions(spec));
            if !is_least || needed > estimate {
                agent.note_measured(needed, spec, &planned.tools);
            }
        }
        let is_shorter = agent.most_of_reply(spec, planned) < requested;
        let size = agent.size().saturating_add(agent.definitions(spec));
        let fits = limit.is_some_and(|limit| size <= spec.room_in(limit));
        if needed.is_some() && fits && is_shorter && !planned.tried.shortened {
            planned.tried.shortened = true;
            return true;
        }
        let is_in_vain = |plan: &TrimPlan| {
            let is_too_much = |tokens| limit.is_some_and(|limit| tokens > limit);
            let left = needed.map(|needed| needed.saturating_sub(plan.tokens));
            // The removed text may have many more tokens than estimated, as text that is not prose does.
            let is_likely = !is_least && left.is_some_and(is_too_much);
            is_likely && is_too_much(agent.least_without(plan, spec))
        };
        let version = self.state.loop_version;
        let size = agent.size();
        // In a run with earlier turns, the excess is unknown: a small reduction may be enough.
        let is_first = agent.turn.0 <= 1;
        let is_next_to_nothing =
            |plan: &TrimPlan| is_first && plan.falls_short() && plan.tokens < size / 10;
        let plan = agent.plan_after_overflow(version, spec, limit, needed);
        let plan = plan.filter(|plan| match version {
            ..2 => true,
            2 => !is_in_vain(plan),
            _ => !is_in_vain(plan) && (limit.is_some() || !is_next_to_nothing(plan)),
        });
        let Some(plan) = plan else {
            let left = limit.zip(needed).zip(requested.map(u64::from));
            let left = left.map(|((limit, needed), requested)| match is_least {
                // The remaining space is unknown.
                true => requested / 4,
                false => limit.saturating_sub(needed).min(requested / 2),
            });
            return limit_reply(planned, left);
        };
        self.trim(plan, None);
        planned.tried.trimmed = true;
        true
    }
}

/// Minimum number of tokens of a useful reply.
const LEAST_OF_REPLY: u64 = 64;

/// Limits the reply to what is left, once, when nothing may be removed from the conversation: a short answer is better
/// than none. Returns `false` if it was limited before, or too little is left.
fn limit_reply(planned: &mut PlannedCall, left: Option<u64>) -> bool {
    let left = left.filter(|left| *left >= LEAST_OF_REPLY && planned.reply_tokens.is_none());
    let Some(left) = left.and_then(|left| u32::try_from(left).ok()) else {
        return false;
    };
    planned.reply_tokens = Some(left);
    true
}

impl Agent {
    /// Estimates a request's size after a trim, assuming text that needs few tokens.
    fn least_without(&self, plan: &TrimPlan, spec: &AgentSpec) -> u64 {
        let mut conversation = self.conversation.clone();
        conversation.trim(Cut {
            removed: &plan.removed,
            shortened: &[],
            without_reasoning: &plan.without_reasoning,
            summary: None,
        });
        let size = spec.request_size(conversation.without_prompt());
        [size.tools, size.messages]
            .into_iter()
            .fold(size.instructions, u64::saturating_add)
    }

    /// Returns the maximum number of tokens of the reply to a call. If a provider reported its context size in an
    /// overflow, the reply is limited to what is left of it, since some servers refuse to start a reply that might not
    /// fit. The limit is never less than what is kept free for the reply. The context size in the spec is not used for
    /// this: it is the smallest of all roles.
    pub(in crate::run) fn most_of_reply(
        &self,
        spec: &AgentSpec,
        planned: &PlannedCall,
    ) -> Option<u32> {
        let most = spec.max_output_tokens?;
        let role = planned.stand_in.as_ref().unwrap_or(&planned.role);
        let Some(&context) = self.said_contexts.get(role) else {
            return Some(most);
        };
        let kept = spec.kept_for_reply(context).max(1);
        let mut tokens = u64::from(most);
        if tokens > kept {
            // The reserve is never given away, because the size is an estimate.
            let left = self.room_in(context, spec).saturating_sub(self.size());
            // Halved repeatedly, so that results that differ by a few bytes do not change the request when a run is
            // replayed.
            while tokens > left.max(kept) {
                tokens /= 2;
            }
        }
        Some(u32::try_from(tokens.max(kept)).unwrap_or(most))
    }

    /// Plans the one trim after an overflow: by exactly the excess that the provider reports, if it does. If not, an
    /// estimate according to which everything fits has been proven wrong, and at most half of the conversation stays.
    fn plan_after_overflow(
        &self,
        version: u32,
        spec: &AgentSpec,
        limit: Option<u64>,
        needed: Option<u64>,
    ) -> Option<TrimPlan> {
        let limit = limit.or(spec.context_tokens);
        let size = self.size();
        let half = size / 2;
        let target = match limit.map(|limit| self.room_in(limit, spec)) {
            Some(room) if needed.is_some() && room < size => room,
            Some(room) => room.min(half),
            None => half,
        };
        let plan = self.plan(version, size.saturating_sub(target).max(1));
        (!plan.is_empty()).then_some(plan)
    }
}
