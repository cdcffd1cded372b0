//! Profiles: how an agent behaves in the loop, as plain data.

use serde::{Deserialize, Serialize};

use crate::ids::{Role, ToolName};
use crate::json::JsonText;

/// How an agent behaves in the loop. It stands in the first record of its run, so a replay needs nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// The profile's name.
    pub name: String,
    /// How a run begins.
    #[serde(default)]
    pub opening: Opening,
    /// Which calls of one reply run at the same time (loop rule 1).
    #[serde(default)]
    pub parallel: Parallel,
    /// What an unknown tool leads to (loop rule 4).
    #[serde(default)]
    pub unknown_tool: UnknownTool,
    /// What a failed call leads to (loop rule 3).
    #[serde(default)]
    pub tool_errors: ToolErrors,
    /// What a reached limit leads to (loop rule 6).
    #[serde(default)]
    pub limit_reached: LimitReached,
    /// Where an embedder is asked, through [`Effect::Consult`](crate::Effect::Consult).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
}

impl Profile {
    /// The profile of the agent that talks with the user: everything at its default.
    #[must_use]
    pub fn main_thread() -> Self {
        Self::named("main_thread")
    }

    /// Makes a profile with everything at its default.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            opening: Opening::default(),
            parallel: Parallel::default(),
            unknown_tool: UnknownTool::default(),
            tool_errors: ToolErrors::default(),
            limit_reached: LimitReached::default(),
            hooks: Vec::new(),
        }
    }
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
#[serde(rename_all = "snake_case")]
pub enum Parallel {
    /// Neighboring read-only calls run together, others alone; all in call order.
    #[default]
    Auto,
    /// All at once.
    All,
    /// One after the other.
    None,
}

/// What an unknown tool leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
#[serde(rename_all = "snake_case")]
pub enum LimitReached {
    /// One more model call that may not use tools.
    #[default]
    LastAnswer,
    /// The end, with the text so far.
    Finish,
}

/// A point at which an embedder may be asked what it thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Hook {
    /// The tools of a turn were selected.
    ToolsSelected,
    /// A turn is over.
    Progress,
    /// A reply's calls are about to be processed.
    ProcessCalls,
}
