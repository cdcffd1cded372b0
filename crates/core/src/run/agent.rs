//! The machine's state of one agent, and the phases it goes through.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batch, Call, CallState};
use super::budget::SpentByAgent;
use super::context::{Gauge, TrimPlan};
use super::governed::GovernedRun;
use super::last_answer::Limit;
use super::repeats::Streak;
use crate::citations::Source;
use crate::decision::Taint;
use crate::effect::{Purpose, RunTool, ToolChoice};
use crate::finish::{FinishReason, RunOutcome};
use crate::ids::{AgentId, Attempt, ContentIndex, EffectId, Role, ToolCallId, ToolName, Turn};
use crate::input::CutReply;
use crate::limits::AgentLimits;
use crate::log::Conversation;
use crate::message::Message;
use crate::profile::Opening;
use crate::record::PromptReason;
use crate::spec::{AgentSpec, RunSpec};
use crate::texts::AgentTexts;
use crate::tool::{ToolKind, ToolSpec};
use crate::usage::RunUsage;

/// One agent of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Agent {
    pub(super) id: AgentId,
    /// What started it, and how; `None` for the root agent.
    pub(super) parent: Option<Parent>,
    /// The active time at which it started.
    pub(super) started: Duration,
    pub(super) conversation: Conversation,
    pub(super) gauge: Gauge,
    /// The context sizes, in tokens, that providers reported when a call did not fit, by the role that served the call.
    pub(super) said_contexts: BTreeMap<Role, u64>,
    pub(super) turn: Turn,
    /// The number of turns that count toward the turn limit.
    pub(super) turns_used: u32,
    pub(super) model_calls: u32,
    /// What it used of its budget, including its sub-agents.
    pub(super) spent: SpentByAgent,
    /// The usage of its own model calls.
    pub(super) usage: RunUsage,
    /// The usage of its sub-agents' model calls.
    pub(super) usage_below: RunUsage,
    /// The number of consecutive turns that called an unknown tool.
    pub(super) unknown_turns: u32,
    /// The calls of its last turn, each with the number of consecutive turns that made it.
    pub(super) streaks: Vec<Streak>,
    /// The tools that failed in the last turn (loop rule 8).
    pub(super) failed_tools: Vec<Arc<str>>,
    /// How often it was reminded to call a tool.
    pub(super) reminders: u32,
    /// How often it was asked for another answer.
    pub(super) turned_down: u32,
    /// Whether a model was already called for it, not counting summaries.
    pub(super) has_asked: bool,
    /// The tool choice of the next turn only (loop rule 18).
    pub(super) forced: Option<ToolChoice>,
    /// Messages to the model after the current batch.
    pub(super) notes: Vec<(PromptReason, String)>,
    /// Whether a warning said that the question of the run is too long for the model.
    pub(super) warned_of_question: bool,
    /// Compactions that did not shrink the conversation.
    pub(super) futile_compactions: u32,
    /// Whether the compaction that its spec orders was already considered.
    pub(super) has_compacted: bool,
    /// How the loop ends with the current batch, if it does: with a question to the user, or a tool's result as the
    /// answer.
    pub(super) ending: Option<(FinishReason, String)>,
    /// Set when a limit was reached: from then on no tool runs.
    pub(super) closing: Option<Limit>,
    /// The untrusted content that its conversation contains.
    pub(super) taint: Taint,
    /// The pages that its own tools and those of the agents below it read.
    pub(super) sources: Vec<Source>,
    /// What the run's decision requests in addition to models, tools and limits; for the root agent only.
    pub(super) governed: Option<Box<GovernedRun>>,
    /// Its outcome, after it has ended.
    pub(super) answer: Option<Box<RunOutcome>>,
    /// The call that ended it and that call's error, if it stops at errors.
    pub(super) stopped_by: Option<Box<str>>,
    /// The tools of its requests, if those are not all of its tools.
    pub(super) offered: Option<Arc<[ToolSpec]>>,
    pub(super) phase: Phase,
}

/// What started an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) agent: AgentId,
    pub(super) call: ToolCallId,
    /// The tool that started it and identifies its spec.
    pub(super) tool: ToolName,
    /// Its depth: 1 for an agent that the root agent started.
    pub(super) depth: u32,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// It waits to begin until other agents of the same call have ended.
    Queued,
    /// It waits for a model.
    Model(ModelCall),
    /// It waits for its tools.
    Tools(Batch),
    /// It waits for the embedder's hook.
    Consulting(Consulting),
    /// It is between two phases: the next action happens in the same step.
    Between,
    /// It has its answer, or was abandoned: nothing more happens.
    Ended,
}

/// A model call in progress.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelCall {
    pub(super) effect_id: EffectId,
    pub(super) attempt: Attempt,
    pub(super) content_index: ContentIndex,
    pub(super) planned: PlannedCall,
    /// For a compaction: what to remove, and the call that turned out not to fit.
    pub(super) making_room: Option<Box<(TrimPlan, PlannedCall)>>,
}

/// The purpose of a model call and what it may do.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlannedCall {
    pub(super) purpose: Purpose,
    pub(super) role: Role,
    /// Which tools its request offers.
    pub(super) tools: OfferedTools,
    /// The tool choice, if it is forced.
    pub(super) choice: Option<ToolChoice>,
    /// What has already been tried to make the call succeed.
    pub(super) tried: Tried,
    /// The maximum number of reply tokens, if no more is left beside a conversation from which nothing may be removed.
    pub(super) reply_tokens: Option<u32>,
    /// The role that served the call when it did not fit, if it was not the call's own role. The known context size of
    /// that role bounds the reply of the next attempt.
    pub(super) stand_in: Option<Role>,
    /// Whether it is the first model call of its agent; `None` until that is determined.
    pub(super) is_first: Option<bool>,
}

/// What has already been tried to make a model call succeed; each measure is used at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tried {
    /// The conversation was trimmed after the provider reported that it does not fit.
    pub(super) trimmed: bool,
    /// A shorter reply was requested after the provider reported that conversation and reply do not fit together.
    pub(super) shortened: bool,
    /// The request was simplified after a reply that could not be parsed.
    pub(super) simplified: bool,
}

/// Which tools a model call's request contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OfferedTools {
    /// The tools of the agent's requests, and they may be called.
    Callable,
    /// Only the given ones of these tools, and they may be called.
    Only(Vec<ToolName>),
    /// The tools of the agent's requests, but they may not be called: the definitions stay to preserve the cached
    /// prefix.
    Shown,
    /// Only the tool that the opening gathers with.
    Gather,
    /// No tools.
    None,
}

/// A question to the embedder's hook.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Consulting {
    pub(super) effect_id: EffectId,
    pub(super) about: ConsultedAbout,
}

/// What a question to the embedder's hook is about: what waits for the advice.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConsultedAbout {
    /// The tools that the next turn may use.
    ToolsSelected,
    /// Another turn.
    Progress,
    /// The calls of a reply, before they are checked.
    ProcessCalls(Batch),
    /// The end of the agent with this text.
    Answer(FinishReason, String),
    /// A model call, before it is made.
    Request(PlannedCall),
}

impl PlannedCall {
    pub(super) const fn new(purpose: Purpose, role: Role, tools: OfferedTools) -> Self {
        Self {
            purpose,
            role,
            tools,
            choice: None,
            tried: Tried {
                trimmed: false,
                shortened: false,
                simplified: false,
            },
            reply_tokens: None,
            stand_in: None,
            is_first: None,
        }
    }
}

impl Agent {
    pub(super) fn new(id: AgentId, conversation: Conversation) -> Self {
        Self {
            id,
            parent: None,
            started: Duration::ZERO,
            conversation,
            gauge: Gauge::default(),
            said_contexts: BTreeMap::new(),
            turn: Turn::default(),
            turns_used: 0,
            model_calls: 0,
            spent: SpentByAgent::default(),
            usage: RunUsage::default(),
            usage_below: RunUsage::default(),
            unknown_turns: 0,
            streaks: Vec::new(),
            failed_tools: Vec::new(),
            reminders: 0,
            turned_down: 0,
            has_asked: false,
            forced: None,
            notes: Vec::new(),
            warned_of_question: false,
            futile_compactions: 0,
            has_compacted: false,
            ending: None,
            closing: None,
            taint: Taint::default(),
            sources: Vec::new(),
            governed: None,
            answer: None,
            stopped_by: None,
            offered: None,
            phase: Phase::Between,
        }
    }

    /// Returns the agent's spec: its behavior and what it may use.
    pub(super) fn spec<'a>(&self, run: &'a RunSpec) -> &'a AgentSpec {
        run.agent(self.parent.as_ref().map(|parent| &parent.tool))
    }

    /// Returns the tools of its requests, in order.
    pub(super) fn tools<'a>(&'a self, spec: &'a AgentSpec) -> &'a Arc<[ToolSpec]> {
        self.offered.as_ref().unwrap_or(&spec.tools)
    }

    /// Returns the text of its answers so far, for an end without another answer.
    pub(super) fn text(&self) -> String {
        self.conversation.text().to_owned()
    }

    /// Returns a description of the call's failure, from its result.
    pub(super) fn error_of(&self, call: &ToolCallId, texts: &AgentTexts) -> Option<Box<str>> {
        let mut latest_first = self.conversation.transcript().messages().iter().rev();
        let result = latest_first.find_map(|message| match message.as_ref() {
            Message::Tool(tool) if tool.tool_call_id == *call => Some(tool),
            _ => None,
        })?;
        let error = result.content.error_message()?;
        Some((texts.call_failed)(&result.name, &error).into())
    }

    /// Returns whether it is waiting for this reply, and the reply is one that the user reads.
    pub(super) fn is_answering(&self, cut: &CutReply) -> bool {
        let Phase::Model(call) = &self.phase else {
            return false;
        };
        let is_read = matches!(call.planned.purpose, Purpose::Turn | Purpose::LastAnswer);
        is_read && call.effect_id == cut.effect_id && !cut.text.trim().is_empty()
    }

    /// Returns the agent that started it.
    pub(super) fn parent_id(&self) -> Option<AgentId> {
        self.parent.as_ref().map(|parent| parent.agent)
    }

    /// Returns its depth: 0 for the root agent.
    pub(super) fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |parent| parent.depth)
    }

    /// Returns the role that serves it by default: its own, one that a model chose, or the larger one that took over.
    pub(super) fn own_role<'a>(&'a self, spec: &'a AgentSpec) -> &'a Role {
        let governed = self.governed.as_deref();
        governed.and_then(GovernedRun::role).unwrap_or(&spec.role)
    }

    /// Returns the model call in progress, if it has this effect.
    pub(super) fn model_call(&self, effect: EffectId) -> Option<&ModelCall> {
        match &self.phase {
            Phase::Model(call) if call.effect_id == effect => Some(call),
            _ => None,
        }
    }

    pub(super) const fn batch(&self) -> Option<&Batch> {
        match &self.phase {
            Phase::Tools(batch) => Some(batch),
            _ => None,
        }
    }

    pub(super) const fn batch_mut(&mut self) -> Option<&mut Batch> {
        match &mut self.phase {
            Phase::Tools(batch) => Some(batch),
            _ => None,
        }
    }

    /// Returns the calls of the current batch.
    pub(super) fn calls(&self) -> &[Call] {
        self.batch().map_or(&[], |batch| &batch.calls)
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Returns whether it has begun and has not ended.
    pub(super) const fn is_at_work(&self) -> bool {
        !matches!(self.phase, Phase::Queued | Phase::Ended)
    }

    /// Returns whether exactly this attempt of a call is in progress.
    pub(super) fn runs(&self, run: &RunTool) -> bool {
        self.calls().iter().any(|call| {
            matches!(call.state, CallState::Running { begun, .. }
                if (begun.effect_id, begun.attempt) == (run.effect_id, run.attempt))
        })
    }

    /// Returns whether the agent is waiting for an answer to this effect.
    pub(super) fn waits_for(&self, effect: EffectId) -> bool {
        match &self.phase {
            Phase::Model(call) => call.effect_id == effect,
            Phase::Tools(batch) => batch.of_effect(effect).is_some(),
            Phase::Consulting(consulting) => consulting.effect_id == effect,
            Phase::Queued | Phase::Between | Phase::Ended => false,
        }
    }

    /// Returns whether a user is being asked about this call.
    pub(super) fn asks_about(&self, call: &ToolCallId) -> bool {
        let mut calls = self.calls().iter();
        calls.any(|its| its.id == *call && matches!(its.state, CallState::Asking { .. }))
    }
}

impl AgentSpec {
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// Returns the tools in the first request of an agent at this depth, if those are not all of its tools: only some
    /// if it searches them, and none that starts agents if it is too deep to start any.
    pub(super) fn first_offer(&self, depth: u32, limits: AgentLimits) -> Option<Arc<[ToolSpec]>> {
        let searched = self.search.as_ref().map(|_| self.first_tools());
        let starts = |tool: &&ToolSpec| tool.kind == ToolKind::Agent;
        if depth < limits.depth || !self.tools.iter().any(|tool| starts(&tool)) {
            return searched;
        }
        let first = searched.unwrap_or_else(|| Arc::clone(&self.tools));
        Some(first.iter().filter(|tool| !starts(tool)).cloned().collect())
    }

    /// Returns the tool that the opening gathers with, if it does.
    pub(super) const fn gather_tool(&self) -> Option<&ToolName> {
        match &self.profile.opening {
            Opening::Gather { tool, .. } => Some(tool),
            Opening::Direct => None,
        }
    }
}
