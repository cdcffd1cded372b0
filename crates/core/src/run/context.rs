//! Keeps the conversation within the model's context (loop rule 13): how large it is, what may go, and what takes its
//! place.

mod gauge;
mod units;

use serde::{Deserialize, Serialize};

pub(super) use gauge::Gauge;
use units::removable;

use crate::effect::Purpose;
use crate::ids::{AgentId, ToolCallId};
use crate::json::JsonText;
use crate::message::{Message, ToolMessage};
use crate::profile::Compaction;
use crate::record::{ContextTrimmed, RecordBody, Span};
use crate::run::RunTree;
use crate::run::agent::{OfferedTools, PlannedCall};
use crate::run::draft::Draft;
use crate::transcript::Transcript;

/// The share of the room that the conversation may fill before something goes, and what it may fill afterwards, in
/// percent: far enough apart that not every turn trims.
const FULL: u64 = 85;
const AFTER_TRIMMING: u64 = 60;

/// What a reply is taken to need where no limit is set, and at most, in tokens.
const REPLY_TOKENS: u64 = 1_024;

/// Compactions that may fail to shrink the conversation before none is tried any more.
const MAX_FUTILE_COMPACTIONS: u32 = 2;

/// What is to go from a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct TrimPlan {
    /// Places in the transcript, oldest first.
    pub(super) removed: Vec<Span>,
    /// Results that make room for their summaries.
    pub(super) shortened: Vec<ToolCallId>,
    /// How many tokens that is estimated to be.
    pub(super) tokens: u64,
}

impl TrimPlan {
    fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.shortened.is_empty()
    }

    pub(super) fn removes(&self, place: usize) -> bool {
        let place = u64::try_from(place).unwrap_or(u64::MAX);
        self.removed
            .iter()
            .any(|span| (span.start..span.end).contains(&place))
    }
}

impl RunTree {
    /// Returns what a reply of the agent is taken to need.
    pub(super) fn reply_tokens(&self, id: AgentId) -> u64 {
        let most = self.agent_spec(id).max_output_tokens;
        most.map_or(REPLY_TOKENS, u64::from).min(REPLY_TOKENS)
    }

    /// Makes room before a model call, if the conversation is about to outgrow the context. Returns the call if it can
    /// be made at once; otherwise a compaction comes first.
    pub(super) fn make_room(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        planned: PlannedCall,
    ) -> Option<PlannedCall> {
        let Some(plan) = self.plan_before_call(id) else {
            return Some(planned);
        };
        let compaction = self.agent_spec(id).profile.compaction.clone();
        let futile = self
            .agent(id)
            .is_none_or(|agent| agent.futile_compactions >= MAX_FUTILE_COMPACTIONS);
        match compaction {
            // A summary takes about as much as the call it makes room for; what cannot pay for both goes without.
            Compaction::Summarize { role }
                if !futile && !plan.removed.is_empty() && self.short_of_calls(id, 2).is_none() =>
            {
                let summary = PlannedCall::new(Purpose::Compaction, role, OfferedTools::None);
                self.ask_summary(draft, id, summary, plan, planned);
                None
            }
            Compaction::Summarize { .. } | Compaction::Drop => {
                self.trim(draft, id, &plan, None);
                Some(planned)
            }
        }
    }

    fn plan_before_call(&self, id: AgentId) -> Option<TrimPlan> {
        let context = self.agent_spec(id).context_tokens?;
        let agent = self.agent(id)?;
        let room = context.saturating_sub(self.reply_tokens(id).min(context / 4));
        let size = agent.gauge.estimate(&agent.transcript);
        if size <= percent(room, FULL) {
            return None;
        }
        let plan = self.plan(id, size.saturating_sub(percent(room, AFTER_TRIMMING)));
        (!plan.is_empty()).then_some(plan)
    }

    /// Plans the one trim that an overflow leads to: by exactly what the provider says is too much, where it says so.
    pub(super) fn plan_after_overflow(
        &mut self,
        id: AgentId,
        limit: Option<u64>,
        needed: Option<u64>,
    ) -> Option<TrimPlan> {
        let limit = limit.or(self.agent_spec(id).context_tokens);
        let reply = self.reply_tokens(id);
        let agent = self.agent_mut(id)?;
        if let Some(needed) = needed {
            agent.gauge.was_measured(needed, &agent.transcript);
        }
        let size = agent.gauge.estimate(&agent.transcript);
        let target = limit.map_or(size / 2, |limit| {
            limit.saturating_sub(reply.min(limit / 4)).min(size)
        });
        let plan = self.plan(id, size.saturating_sub(target).max(1));
        (!plan.is_empty()).then_some(plan)
    }

    /// Plans what goes to save so many tokens: first results that leave a summary, then the oldest messages.
    fn plan(&self, id: AgentId, to_save: u64) -> TrimPlan {
        let mut plan = TrimPlan::default();
        let Some(agent) = self.agent(id) else {
            return plan;
        };
        let messages = agent.transcript.messages();
        let removable = removable(messages);
        for unit in &removable {
            for message in messages.get(unit.places()).unwrap_or_default() {
                let Message::Tool(tool) = message.as_ref() else {
                    continue;
                };
                let Some(summary) = agent.summary_of(&tool.tool_call_id) else {
                    continue;
                };
                let saved = agent.gauge.tokens_of_text(tool.content.as_str());
                let left = JsonText::string(summary);
                let kept = agent.gauge.tokens_of_text(left.as_str());
                if saved > kept && plan.tokens < to_save {
                    plan.tokens = plan.tokens.saturating_add(saved - kept);
                    plan.shortened.push(tool.tool_call_id.clone());
                }
            }
        }
        if plan.tokens >= to_save {
            return plan;
        }
        // Whole messages have to go: what is shortened among them would not matter.
        let mut plan = TrimPlan::default();
        for (place, unit) in removable.iter().enumerate() {
            // A conversation does not go on with an answer whose question went.
            let enough = plan.tokens >= to_save && (unit.may_come_first || place == 0);
            if enough {
                break;
            }
            let messages = messages.get(unit.places()).unwrap_or_default();
            plan.tokens = plan.tokens.saturating_add(agent.gauge.tokens_of(messages));
            unit.add_to(&mut plan.removed);
        }
        plan
    }

    /// Takes the planned messages out of the conversation, puts the summary in their place, and records it.
    pub(super) fn trim(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        plan: &TrimPlan,
        summary: Option<String>,
    ) {
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let before = agent.gauge.estimate(&agent.transcript);
        let prompt = u64::from(agent.has_prompt);
        let unrecorded = agent.unrecorded_but_for(plan);
        agent.transcript = trimmed(agent, plan, summary.as_deref());
        let recorded = agent.transcript.len().saturating_sub(unrecorded);
        agent.recorded = agent.transcript.digest_of_first(recorded);
        agent.gauge.was_cut(&agent.transcript);
        let after = agent.gauge.estimate(&agent.transcript);
        let removed = plan.removed.iter().map(|span| Span {
            start: span.start.saturating_sub(prompt),
            end: span.end.saturating_sub(prompt),
        });
        let removed: Vec<Span> = removed.collect();
        let record = ContextTrimmed {
            messages: removed.iter().map(|span| span.end - span.start).sum(),
            tokens: before.saturating_sub(after),
            removed,
            shortened: plan.shortened.clone(),
            summary,
        };
        self.record(
            draft,
            id,
            None,
            RecordBody::ContextTrimmed(Box::new(record)),
        );
    }
}

impl super::agent::Agent {
    fn summary_of(&self, call: &ToolCallId) -> Option<&str> {
        let mut shortenable = self.shortenable.iter();
        shortenable
            .find(|(id, _)| id == call)
            .map(|(_, summary)| summary.as_str())
    }

    /// Returns how many messages at the end of the transcript stay and stand in no record yet.
    fn unrecorded_but_for(&self, plan: &TrimPlan) -> usize {
        let recorded = usize::try_from(self.recorded.count).unwrap_or(usize::MAX);
        let unrecorded = recorded..self.transcript.len();
        unrecorded.filter(|place| !plan.removes(*place)).count()
    }
}

fn trimmed(agent: &super::agent::Agent, plan: &TrimPlan, summary: Option<&str>) -> Transcript {
    let mut summary = summary.map(Message::user).map(std::sync::Arc::new);
    let mut kept = Vec::with_capacity(agent.transcript.len());
    for (place, message) in agent.transcript.messages().iter().enumerate() {
        if plan.removes(place) {
            kept.extend(summary.take());
        } else {
            kept.push(match message.as_ref() {
                Message::Tool(tool) if plan.shortened.contains(&tool.tool_call_id) => {
                    let summary = agent.summary_of(&tool.tool_call_id).unwrap_or_default();
                    std::sync::Arc::new(shortened(tool, summary))
                }
                _ => std::sync::Arc::clone(message),
            });
        }
    }
    kept.into_iter().collect()
}

/// The message of a result that left only its summary.
pub(crate) fn shortened(tool: &ToolMessage, summary: &str) -> Message {
    Message::Tool(ToolMessage {
        content: JsonText::string(summary),
        ..tool.clone()
    })
}

const fn percent(of: u64, percent: u64) -> u64 {
    of.saturating_mul(percent) / 100
}
