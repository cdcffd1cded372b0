//! The settings of a profile, each with its default.

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
    /// With a small model that only chooses what one tool should gather. Its text is discarded and its first call kept;
    /// if it makes none, policy adds one. Then the agent's own role answers from what was gathered, without tools.
    Gather {
        /// The role that chooses.
        role: Role,
        /// The only tool it is offered.
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
    /// Adjacent read-only calls run together, others alone; all in call order.
    #[default]
    Auto,
    /// All calls at the same time, including those that make changes.
    All,
    /// One after another.
    None,
}

/// What happens when an unknown tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnknownTool {
    /// The model gets an error result that names the known tools, so it can try again.
    #[default]
    Retry,
    /// The run ends; no call of that batch runs.
    Stop,
}

/// What happens when a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolErrors {
    /// The model gets an error result and continues.
    #[default]
    Continue,
    /// The run ends with a valid history.
    Stop,
}

/// What happens when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitReached {
    /// One more model call is made, without tools.
    #[default]
    LastAnswer,
    /// The agent ends with the text so far.
    Finish,
}

/// What happens when a reply makes no calls in a turn that allows them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NoCalls {
    /// The agent ends: the reply's text is the answer.
    #[default]
    Finish,
    /// Another turn follows, at most `at_most` times: for agents that should deliver their answer through a tool.
    Remind {
        /// The message to the model.
        prompt: String,
        /// How many times; after that, the text is the answer.
        at_most: u32,
    },
}

/// In which turns tools may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// In all of them.
    #[default]
    Always,
    /// In none: no request names a tool.
    Never,
    /// In the first turns, as many as given. Later requests still name the tools to preserve the cached prefix, but
    /// allow no call.
    FirstTurns(u32),
}

/// The role for specific turns, if it is not the agent's own.
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

/// How arguments are preprocessed before they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// Not at all: arguments that are not a JSON object are an error that the model is told about.
    #[default]
    AsWritten,
    /// Common mistakes of small models are corrected: missing arguments become an empty object, a surrounding code
    /// fence is removed, and an object written as a JSON string is unwrapped.
    Lenient,
}

/// What replaces messages that no longer fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Compaction {
    /// A summary of them, written by a model.
    Summarize {
        /// The role that writes it.
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

/// When repeating the same call with the same arguments in consecutive turns is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Repeats {
    /// The number of consecutive turns at which the model is warned; 0 for never.
    pub warn: u32,
    /// The consecutive turn in which the call no longer runs and the run proceeds to its last answer; 0 for never.
    pub stop: u32,
}

impl Default for Repeats {
    /// Warns at two in a row and does not run the third.
    fn default() -> Self {
        Self { warn: 2, stop: 3 }
    }
}

/// Whose usage an agent's outcome reports.
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

/// Which parts of an agent's content may be stored. The others stay out of database, log and trace, and are replaced by
/// a hash and a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four kinds of content, each stored or not"
)]
#[serde(default)]
pub struct DataPolicy {
    /// What users and models said.
    pub text: bool,
    /// The arguments of calls.
    pub tool_calls: bool,
    /// The results of calls.
    pub tool_results: bool,
    /// The reasoning of models, with the associated provider state.
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

    /// Returns what both policies allow to be stored.
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

/// A point in the loop at which an embedder may be consulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hook {
    /// The tools of a turn were selected. The advice may reduce them.
    ToolsSelected,
    /// A turn has ended and the loop would continue.
    Progress,
    /// A reply's calls are about to be processed.
    ProcessCalls,
    /// The agent is about to end with the text of a reply. The advice may reject it.
    Answer,
    /// A model is about to be called for a turn, a last answer, the choice of what to gather, or the choice of role.
    /// The advice may change what is sent, or end the agent with a reply instead. Consulted once for each request,
    /// regardless of how often it is sent.
    Request,
}
