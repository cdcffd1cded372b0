//! What a profile decides, each with its default.

use serde::{Deserialize, Serialize};

use crate::ids::{Role, ToolName};
use crate::json::JsonText;

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Opening {
    /// With a turn of the agent's own role.
    #[default]
    Direct,
    /// With a small model that only chooses what one tool shall gather. Its text is dropped and its first call kept; if
    /// it makes none, policy adds one. Then the agent's own role answers from what was gathered, without tools.
    Gather {
        /// The role that chooses.
        role: Role,
        /// The one tool it is offered.
        tool: ToolName,
        /// The arguments of the call that policy adds.
        default_arguments: JsonText,
    },
}

/// Which calls of one reply run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Parallel {
    /// Neighboring read-only calls run together, others alone; all in call order.
    #[default]
    Auto,
    /// All calls at once, those that change something too.
    All,
    /// One after the other.
    None,
}

/// What an unknown tool leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnknownTool {
    /// An error result that names the known tools, so that the model can try again.
    #[default]
    Retry,
    /// The end of the run; none of that batch runs.
    Stop,
}

/// What a failed call leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolErrors {
    /// An error result for the model, which goes on.
    #[default]
    Continue,
    /// The end of the run, with a valid history.
    Stop,
}

/// What a reached limit leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitReached {
    /// One more model call that may not use tools.
    #[default]
    LastAnswer,
    /// The end, with the text so far.
    Finish,
}

/// What a reply without calls leads to, in a turn that might have made some.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NoCalls {
    /// The end: its text is the answer.
    #[default]
    Finish,
    /// Another turn, so often at most: for agents that are to deliver through a tool.
    Remind {
        /// What the model is told.
        prompt: String,
        /// How often; after that, the text is the answer.
        at_most: u32,
    },
}

/// In which turns the tools may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// In all of them.
    #[default]
    Always,
    /// In none: no request names a tool.
    Never,
    /// In the first so many. Later requests still name them, so that the cached prefix survives, but allow no call.
    FirstTurns(u32),
}

/// Which role serves which turn, where it is not the agent's own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnRoles {
    /// The first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Role>,
    /// The turns that read results of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_calls: Option<Role>,
}

/// What is done to arguments before they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// Nothing: what is not JSON, or not an object, is an error that the model is told.
    #[default]
    AsWritten,
    /// What small models get wrong is put right: no arguments are an empty object, a code fence around them goes, and an
    /// object written as a JSON string is taken out of it.
    Lenient,
}

/// What takes the place of messages that no longer fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Compaction {
    /// A summary that a model makes of them.
    Summarize {
        /// The role that makes it.
        role: Role,
    },
    /// Nothing.
    Drop,
}

impl Default for Compaction {
    fn default() -> Self {
        Self::Summarize { role: Role::ROUTER }
    }
}

/// When the same call, with the same arguments, in one turn after the other is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Repeats {
    /// From so many turns in a row the model is warned; 0 for never.
    pub warn: u32,
    /// In this turn the call is not run any more and the run is brought to its last answer; 0 for never.
    pub stop: u32,
}

impl Default for Repeats {
    /// Two in a row are noticed, the third is not run.
    fn default() -> Self {
        Self { warn: 2, stop: 3 }
    }
}

/// Whose usage the outcome of an agent tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// Its own and that of its sub-agents.
    #[default]
    WithAgents,
    /// Its own.
    Own,
}

/// What of an agent's content may be stored. What may not stays out of database, log and trace; a hash and a length
/// stand for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four kinds of content, each stored or not"
)]
#[serde(default)]
pub struct DataPolicy {
    /// What people and models said.
    pub text: bool,
    /// The arguments of calls.
    pub tool_calls: bool,
    /// The results of calls.
    pub tool_results: bool,
    /// The reasoning of models, with the provider's state that goes with it.
    pub reasoning: bool,
}

impl DataPolicy {
    /// Everything is stored.
    pub const ALL: Self = Self {
        text: true,
        tool_calls: true,
        tool_results: true,
        reasoning: true,
    };

    /// Returns what both let be stored.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            text: self.text && other.text,
            tool_calls: self.tool_calls && other.tool_calls,
            tool_results: self.tool_results && other.tool_results,
            reasoning: self.reasoning && other.reasoning,
        }
    }
}

impl Default for DataPolicy {
    fn default() -> Self {
        Self::ALL
    }
}

/// A point at which an embedder may be asked what it thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hook {
    /// The tools of a turn were selected. The advice may offer fewer of them.
    ToolsSelected,
    /// A turn is over and the loop would go on.
    Progress,
    /// A reply's calls are about to be processed.
    ProcessCalls,
    /// The agent is about to end with a text of a reply. The advice may turn it down.
    Answer,
    /// A model is about to be asked for a turn, a last answer, what to gather or which role serves. The advice may change
    /// what is sent, or end the agent with a reply in its place. Asked once about each, however often it is sent.
    Request,
}
