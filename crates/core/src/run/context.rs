//! Keeps the conversation within the model's context (loop rule 13): its size, what may be removed, and what replaces
//! it.

mod fitting;
mod gauge;
mod overflow;
mod thoughts;
mod unfit;
mod units;

use std::sync::Arc;

pub use fitting::FittedRequest;
pub(super) use gauge::Gauge;
use thoughts::Thoughts;
use unfit::GivesWay;
use units::{Unit, removable, too_large};

use super::Next;
use super::agent::{Agent, OfferedTools, PlannedCall};
use super::agent_step::AgentStep;
use super::last_answer::Limit;
use super::request_size::{FULL, definition_bytes};
use crate::effect::Purpose;
use crate::error::InputError;
use crate::ids::ToolCallId;
use crate::json::JsonText;
use crate::log::Cut;
use crate::message::Message;
use crate::profile::Compaction;
use crate::record::{ContextTrimmed, RecordBody, Span};
use crate::spec::AgentSpec;
use crate::transcript::is_summary;

/// The percentage of the room that the conversation may fill after trimming. It is well below [`FULL`], so that not
/// every turn has to trim.
const AFTER_TRIMMING: u64 = 60;

/// Number of compactions that may fail to shrink the conversation before no more are attempted.
const MAX_FUTILE_COMPACTIONS: u32 = 2;

/// What to remove from a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TrimPlan {
    /// Positions in the conversation, not counting the system prompt, oldest first.
    pub(super) removed: Vec<Span>,
    /// Results to replace with their summaries.
    pub(super) shortened: Vec<ToolCallId>,
    /// Positions, counted in the same way, of the messages that stay without their reasoning.
    without_reasoning: Vec<Span>,
    /// The estimated number of tokens that this saves.
    pub(super) tokens: u64,
    /// How many of these tokens are reasoning of messages that stay, which no summary replaces.
    of_reasoning: u64,
    /// The number of tokens that must be saved.
    to_save: u64,
    /// Whether everything stays if there is no summary to replace it, because the spec ordered a compaction of a
    /// conversation that fits.
    pub(super) only_summed_up: bool,
}

impl TrimPlan {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.shortened.is_empty() && self.without_reasoning.is_empty()
    }

    /// Returns whether everything that may be removed saves less than necessary.
    const fn falls_short(&self) -> bool {
        self.tokens < self.to_save
    }

    /// Returns the estimated tokens of the messages to remove.
    pub(super) const fn tokens_removed(&self) -> u64 {
        self.tokens.saturating_sub(self.of_reasoning)
    }

    pub(super) fn removes(&self, place: usize) -> bool {
        self.removed.iter().any(|span| span.contains(place))
    }
}

impl AgentStep<'_> {
    /// Makes room before a model call if the conversation is about to outgrow the context: by a compaction first, or by
    /// leaving out what no longer fits.
    pub(super) fn make_room(&mut self, planned: PlannedCall) -> Result<Next, InputError> {
        if let Some(plan) = self.ordered_compaction() {
            let role = match &self.spec.profile.compaction {
                Compaction::Summarize { role } => role.clone(),
                Compaction::Drop => planned.role.clone(),
            };
            let summary = PlannedCall::new(Purpose::Compaction, role, OfferedTools::None);
            return self.call_model(summary, Some(Box::new((plan, planned))));
        }
        match self.give_way() {
            GivesWay::Nothing => {}
            GivesWay::LeftOut => return self.make_room(planned),
            GivesWay::Question => return Ok(Next::CallAsIs(planned)),
        }
        let Some(plan) =
            self.agent
                .plan_before_call(self.state.loop_version, self.spec, planned.purpose)
        else {
            return Ok(Next::CallAsIs(planned));
        };
        let futile = self.agent.futile_compactions >= MAX_FUTILE_COMPACTIONS;
        match &self.spec.profile.compaction {
            Compaction::Summarize { role }
                if !futile && !plan.removed.is_empty() && self.has_left_for_summary() =>
            {
                let (purpose, role) = (Purpose::Compaction, role.clone());
                let summary = PlannedCall::new(purpose, role, OfferedTools::None);
                self.call_model(summary, Some(Box::new((plan, planned))))
            }
            Compaction::Summarize { .. } | Compaction::Drop => {
                self.trim(plan, None);
                Ok(Next::CallAsIs(planned))
            }
        }
    }

    /// Plans the compaction that the spec orders, once, if there is something to summarize and the budget allows it.
    fn ordered_compaction(&mut self) -> Option<TrimPlan> {
        if !self.spec.compact_first || self.agent.has_compacted {
            return None;
        }
        self.agent.has_compacted = true;
        let mut plan = self.agent.plan(self.state.loop_version, u64::MAX);
        plan.only_summed_up = true;
        (!plan.removed.is_empty() && self.has_left_for_summary()).then_some(plan)
    }

    /// Returns whether budget and time allow a summary. It needs about as much as the call it makes room for. An agent
    /// that cannot pay for both does without the summary, and so does a last answer whose time is nearly up.
    fn has_left_for_summary(&self) -> bool {
        self.agent.closing != Some(Limit::Deadline) && self.budgets().exceeded_by(2).is_none()
    }

    /// Removes the planned messages from the conversation, inserts the summary in their place, and records this.
    pub(super) fn trim(&mut self, plan: TrimPlan, summary: Option<String>) {
        let agent = &mut *self.agent;
        let plan = match summary {
            Some(_) => plan,
            None => agent.sparing_summaries(self.state.loop_version, plan),
        };
        let before = agent.size();
        let conversation = &mut agent.conversation;
        conversation.trim(Cut {
            removed: &plan.removed,
            shortened: &plan.shortened,
            without_reasoning: &plan.without_reasoning,
            summary: summary.as_deref(),
        });
        agent.gauge.note_cut(agent.conversation.transcript());
        let after = agent.size();
        let record = ContextTrimmed {
            messages: plan.removed.iter().map(|span| span.end - span.start).sum(),
            tokens: before.saturating_sub(after),
            removed: plan.removed,
            shortened: plan.shortened,
            without_reasoning: plan.without_reasoning,
            summary,
        };
        self.record(RecordBody::ContextTrimmed(Box::new(record)));
    }
}

impl Agent {
    fn plan_before_call(
        &self,
        version: u32,
        spec: &AgentSpec,
        purpose: Purpose,
    ) -> Option<TrimPlan> {
        let room = self.room_in(spec.context_tokens?, spec);
        let full = percent(room, FULL);
        let after = match purpose {
            // No result or turn follows that would need some of the room.
            Purpose::LastAnswer => full,
            _ => percent(room, AFTER_TRIMMING),
        };
        let size = self.size();
        if size <= full {
            return None;
        }
        let plan = self.plan(version, size.saturating_sub(after));
        (!plan.is_empty()).then_some(plan)
    }

    /// Plans what to remove to save this many tokens: first the reasoning of earlier turns, then results that leave a
    /// summary, then whole messages.
    fn plan(&self, version: u32, to_save: u64) -> TrimPlan {
        let mut plan = TrimPlan {
            to_save,
            ..TrimPlan::default()
        };
        let messages = self.conversation.without_prompt();
        let earlier = self.conversation.earlier();
        Thoughts::of(messages, earlier, &self.gauge, version).remove_oldest(&mut plan);
        for unit in removable(messages, earlier, version) {
            for message in messages.get(unit.places()).unwrap_or_default() {
                let Message::Tool(tool) = message.as_ref() else {
                    continue;
                };
                let Some(summary) = self.conversation.summary_of(&tool.tool_call_id) else {
                    continue;
                };
                let saved = self.gauge.tokens_of_text(tool.content.as_str());
                let left = JsonText::string(summary);
                let kept = self.gauge.tokens_of_text(left.as_str());
                if saved > kept && plan.tokens < to_save {
                    plan.tokens = plan.tokens.saturating_add(saved - kept);
                    plan.shortened.push(tool.tool_call_id.clone());
                }
            }
        }
        if plan.tokens >= to_save {
            return plan;
        }
        // Whole messages must be removed: shortening results among them would make no difference.
        self.plan_of(version, to_save, |_| true)
    }

    /// Plans which of the removable messages to remove: first exchanges so large that all others together would not be
    /// enough, then the oldest. A summary goes together with whatever else is removed, so that there is only one.
    fn plan_of(&self, version: u32, to_save: u64, may_go: impl Fn(&Message) -> bool) -> TrimPlan {
        let conversation = self.conversation.without_prompt();
        let units = removable(conversation, self.conversation.earlier(), version);
        let thoughts = Thoughts::of(
            conversation,
            self.conversation.earlier(),
            &self.gauge,
            version,
        );
        let tokens_of = |unit: &Unit| {
            let tokens = self.gauge.tokens_of_part(conversation, unit.places());
            tokens.saturating_sub(thoughts.tokens_in(unit.places()))
        };
        let messages_of = |unit: &Unit| conversation.get(unit.places()).unwrap_or_default();
        let goes_first: Vec<bool> = match version {
            ..3 => vec![false; units.len()],
            _ => {
                let besides = to_save.saturating_sub(thoughts.tokens());
                let too_large = too_large(&units, besides, tokens_of).into_iter();
                let all = units.iter().zip(too_large);
                let goes = all.map(|(unit, is_too_large)| {
                    let is_to_join =
                        |message: &Arc<Message>| is_summary(message) && may_go(message);
                    is_too_large || messages_of(unit).iter().any(is_to_join)
                });
                goes.collect()
            }
        };
        let first = units.iter().zip(&goes_first).filter(|(_, goes)| **goes);
        let mut plan = TrimPlan {
            tokens: first
                .map(|(unit, _)| tokens_of(unit))
                .fold(thoughts.tokens(), u64::saturating_add),
            to_save,
            ..TrimPlan::default()
        };
        let mut is_enough = false;
        for (place, (unit, goes_first)) in units.iter().zip(goes_first).enumerate() {
            // A conversation must not resume with an answer whose question was removed.
            is_enough |= plan.tokens >= to_save && (unit.may_come_first || place == 0);
            if goes_first {
                unit.add_to(&mut plan.removed);
            } else if !is_enough && messages_of(unit).iter().all(|message| may_go(message)) {
                plan.tokens = plan.tokens.saturating_add(tokens_of(unit));
                unit.add_to(&mut plan.removed);
            }
        }
        thoughts.remove_rest(&mut plan);
        plan
    }

    /// Revises a plan for which there is no replacement summary: an earlier summary stays if removing other messages
    /// saves enough, since it is all that is left of the messages before it.
    fn sparing_summaries(&self, version: u32, plan: TrimPlan) -> TrimPlan {
        let messages = self.conversation.without_prompt().iter();
        let mut places = messages.enumerate();
        if !places.any(|(place, message)| plan.removes(place) && is_summary(message)) {
            return plan;
        }
        let without = self.plan_of(version, plan.to_save, |message| !is_summary(message));
        match without.tokens >= plan.to_save {
            true => without,
            false => plan,
        }
    }

    /// Notes the conversation's size as measured by a provider, with these tools beside it.
    pub(super) fn note_measured(&mut self, tokens: u64, spec: &AgentSpec, tools: &OfferedTools) {
        let definitions = definition_bytes(&tools.definitions(spec, self.tools(spec)));
        let transcript = self.conversation.transcript();
        self.gauge.note_measured(tokens, definitions, transcript);
    }

    /// Returns how much room a context has beside the reply and the tool definitions.
    fn room_in(&self, context: u64, spec: &AgentSpec) -> u64 {
        spec.room_in(context).saturating_sub(self.definitions(spec))
    }

    /// Estimates the tokens of its conversation.
    pub(super) fn size(&self) -> u64 {
        self.gauge.estimate(self.conversation.transcript())
    }

    /// Estimates the tokens of the tool definitions in its requests.
    pub(super) fn definitions(&self, spec: &AgentSpec) -> u64 {
        let held = OfferedTools::not_to_be_called(spec).definitions(spec, self.tools(spec));
        self.gauge.tokens_of_definitions(definition_bytes(&held))
    }
}

const fn percent(of: u64, percent: u64) -> u64 {
    of.saturating_mul(percent) / 100
}
