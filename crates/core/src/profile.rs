//! Profiles: how an agent behaves in the loop, as plain data.

mod decisions;
mod results;

use serde::{Deserialize, Serialize};

pub use decisions::{
    Arguments, Compaction, DataPolicy, Hook, LimitReached, NoCalls, Offer, Opening, Parallel,
    Repeats, ToolErrors, TurnRoles, UnknownTool, UsageScope,
};
pub use results::ResultRule;

use crate::citations::Citations;
use crate::ids::ToolName;
use crate::json::is_default;

/// How an agent behaves in the loop. The profile is part of the first record of its run, so a replay needs nothing
/// else.
///
/// Every setting has a default; a profile names only its differences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// What happens when an unknown tool is called (loop rule 4).
    #[serde(default)]
    pub unknown_tool: UnknownTool,
    /// What happens when a call fails (loop rule 3).
    #[serde(default)]
    pub tool_errors: ToolErrors,
    /// What happens when a limit is reached (loop rule 6).
    #[serde(default)]
    pub limit_reached: LimitReached,
    /// What happens when a reply makes no calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_calls: NoCalls,
    /// In which turns tools may be called.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offer: Offer,
    /// The role for specific turns, if it is not the agent's own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub roles: TurnRoles,
    /// Tools whose result is the answer: the loop ends with the batch that contains such a result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_after: Vec<ToolName>,
    /// Effects of the results of specific tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultRule>,
    /// How arguments are preprocessed before they are checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arguments: Arguments,
    /// After a turn with more results than this, a short system prompt asks the model to digest them (loop rule 13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_after: Option<u32>,
    /// What replaces messages that no longer fit (loop rule 13).
    #[serde(default, skip_serializing_if = "is_default")]
    pub compaction: Compaction,
    /// When repeating the same call is too much (loop rule 14).
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeats: Repeats,
    /// Whose usage the agent's outcome reports.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: UsageScope,
    /// What happens to the links in its answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub citations: Citations,
    /// Which parts of its content may be stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: DataPolicy,
    /// How many of its sub-agents work at the same time; the others wait.
    #[serde(
        default = "Profile::default_agents",
        skip_serializing_if = "is_default_agents"
    )]
    pub parallel_agents: u32,
    /// How often a failed call of a server's tool is retried, if its class and the failure allow it.
    #[serde(
        default = "Profile::default_retries",
        skip_serializing_if = "is_default_retries"
    )]
    pub tool_retries: u32,
    /// The points at which an embedder is consulted, through [`Effect::Consult`](crate::Effect::Consult).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
}

impl Profile {
    const fn default_agents() -> u32 {
        5
    }

    const fn default_retries() -> u32 {
        1
    }

    /// Returns the profile of the agent that talks with the user: parallel calls where that is safe, and everything
    /// kept.
    #[must_use]
    pub fn main_thread() -> Self {
        Self {
            digest_after: Some(2),
            ..Self::named("main_thread")
        }
    }

    /// Returns the profile of an agent with one focused task: results are reduced to summaries once they take too much
    /// room.
    #[must_use]
    pub fn researcher() -> Self {
        Self {
            digest_after: Some(2),
            compaction: Compaction::Drop,
            ..Self::named("researcher")
        }
    }

    /// Creates a profile with every setting at its default.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            opening: Opening::default(),
            parallel: Parallel::default(),
            unknown_tool: UnknownTool::default(),
            tool_errors: ToolErrors::default(),
            limit_reached: LimitReached::default(),
            no_calls: NoCalls::default(),
            offer: Offer::default(),
            roles: TurnRoles::default(),
            stop_after: Vec::new(),
            results: Vec::new(),
            arguments: Arguments::default(),
            digest_after: None,
            compaction: Compaction::default(),
            repeats: Repeats::default(),
            usage: UsageScope::default(),
            citations: Citations::default(),
            data: DataPolicy::default(),
            parallel_agents: Self::default_agents(),
            tool_retries: Self::default_retries(),
            hooks: Vec::new(),
        }
    }

    /// Returns the rule for the results of a tool.
    pub(crate) fn result_rule(&self, tool: &str) -> Option<&ResultRule> {
        self.results.iter().find(|rule| rule.tool.as_str() == tool)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over by reference"
)]
const fn is_default_agents(agents: &u32) -> bool {
    *agents == Profile::default_agents()
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field over by reference"
)]
const fn is_default_retries(retries: &u32) -> bool {
    *retries == Profile::default_retries()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_written_without_its_optional_defaults() {
        let text = serde_json::to_string(&Profile::named("plain")).unwrap();
        assert_eq!(
            text,
            r#"{"name":"plain","opening":{"type":"direct"},"parallel":"auto","unknown_tool":"retry","tool_errors":"continue","limit_reached":"last_answer"}"#
        );
    }

    #[test]
    fn a_profile_reads_back_as_it_was_written() {
        for profile in [Profile::main_thread(), Profile::researcher()] {
            let text = serde_json::to_string(&profile).unwrap();
            assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
        }
    }
}
