//! What the machine knows of one agent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::effect::Purpose;
use crate::finish::FinishReason;
use crate::ids::{AgentId, Attempt, ContentIndex, EffectId, Role, ToolName, Turn};
use crate::message::Message;
use crate::profile::Opening;
use crate::run::RunTree;
use crate::run::batch::Batch;
use crate::spec::AgentSpec;
use crate::tool::ToolSpec;
use crate::transcript::{PrefixDigest, Transcript};

/// One agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Agent {
    pub(super) id: AgentId,
    pub(super) transcript: Transcript,
    /// What of the transcript stands in records: the next model call's record begins after it.
    pub(super) recorded: PrefixDigest,
    pub(super) turn: Turn,
    /// Turns that count toward the turn limit.
    pub(super) turns_used: u32,
    pub(super) model_calls: u32,
    pub(super) tool_calls: u32,
    /// Turns in a row that called an unknown tool.
    pub(super) unknown_turns: u32,
    /// All answers' text so far, for a run that ends without a last answer.
    pub(super) text: String,
    /// Messages that came while the agent was at work, to join after the current batch.
    pub(super) steered: Vec<Arc<Message>>,
    /// Set once a limit was reached: from then on no tool runs.
    pub(super) closing: Option<FinishReason>,
    pub(super) phase: Phase,
}

/// What an agent is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// It waits for a model.
    Model(ModelCall),
    /// It waits for its tools.
    Tools(Batch),
    /// It is done.
    Ended,
}

/// A model call under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelCall {
    pub(super) effect_id: EffectId,
    pub(super) attempt: Attempt,
    pub(super) content_index: ContentIndex,
    pub(super) purpose: Purpose,
    pub(super) role: Role,
    /// Whether its request offers the tools.
    pub(super) tools: OfferedTools,
}

/// Which tools a model call's request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum OfferedTools {
    /// The agent's, to be called.
    Callable,
    /// The agent's, not to be called: the definitions stay so that the cached prefix survives.
    Shown,
    /// Only the one that the opening gathers with.
    Gather,
    /// None.
    None,
}

impl Agent {
    pub(super) fn new(id: AgentId, transcript: Transcript, recorded: PrefixDigest) -> Self {
        Self {
            id,
            transcript,
            recorded,
            turn: Turn::default(),
            turns_used: 0,
            model_calls: 0,
            tool_calls: 0,
            unknown_turns: 0,
            text: String::new(),
            steered: Vec::new(),
            closing: None,
            phase: Phase::Ended,
        }
    }

    /// Adds an answer's text to what a run without a last answer falls back on.
    pub(super) fn gather_text(&mut self, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    /// Returns the model call under way, if the effect is it.
    pub(super) fn model_call(&self, effect: EffectId) -> Option<&ModelCall> {
        match &self.phase {
            Phase::Model(call) if call.effect_id == effect => Some(call),
            _ => None,
        }
    }

    pub(super) fn batch(&self) -> Option<&Batch> {
        match &self.phase {
            Phase::Tools(batch) => Some(batch),
            _ => None,
        }
    }

    pub(super) fn batch_mut(&mut self) -> Option<&mut Batch> {
        match &mut self.phase {
            Phase::Tools(batch) => Some(batch),
            _ => None,
        }
    }
}

impl AgentSpec {
    pub(super) fn tool(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name.as_str() == name)
    }

    /// Returns the tool that the opening gathers with, if it does.
    pub(super) const fn gather_tool(&self) -> Option<&ToolName> {
        match &self.profile.opening {
            Opening::Gather { tool, .. } => Some(tool),
            Opening::Direct => None,
        }
    }
}

impl RunTree {
    pub(super) fn agent(&self, id: AgentId) -> Option<&Agent> {
        self.agents.get(usize::try_from(id.0).ok()?)
    }

    pub(super) fn agent_mut(&mut self, id: AgentId) -> Option<&mut Agent> {
        self.agents.get_mut(usize::try_from(id.0).ok()?)
    }

    pub(super) fn agent_ids(&self) -> Vec<AgentId> {
        self.agents.iter().map(|agent| agent.id).collect()
    }
}
