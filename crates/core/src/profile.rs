//! Profiles: how an agent behaves in the loop, as plain data.

mod decisions;
mod results;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use decisions::{
    Arguments, Compaction, DataPolicy, Hook, LimitReached, NoCalls, Offer, Opening, Parallel,
    Repeats, ToolErrors, TurnRoles, UnknownTool, UsageScope,
};
pub use results::ResultRule;

use crate::citations::Citations;
use crate::ids::ToolName;
use crate::limits::Limits;

/// How an agent behaves in the loop. It stands in the first record of its run, so a replay needs nothing else.
///
/// Every decision has a default; a profile names only where it differs.
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
    /// What an unknown tool leads to (loop rule 4).
    #[serde(default)]
    pub unknown_tool: UnknownTool,
    /// What a failed call leads to (loop rule 3).
    #[serde(default)]
    pub tool_errors: ToolErrors,
    /// What a reached limit leads to (loop rule 6).
    #[serde(default)]
    pub limit_reached: LimitReached,
    /// What a reply without calls leads to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_calls: NoCalls,
    /// In which turns the tools may be called.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offer: Offer,
    /// Which role serves which turn, where it is not the agent's own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub roles: TurnRoles,
    /// Tools whose result is the answer: the loop ends with the batch that holds one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_after: Vec<ToolName>,
    /// What the results of single tools change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ResultRule>,
    /// What is done to arguments before they are checked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arguments: Arguments,
    /// A turn that brought more results than this adds a short system prompt to digest them (loop rule 13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_after: Option<u32>,
    /// What takes the place of messages that no longer fit (loop rule 13).
    #[serde(default, skip_serializing_if = "is_default")]
    pub compaction: Compaction,
    /// When the same call again and again is too much (loop rule 14).
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeats: Repeats,
    /// Whose usage the outcome of the agent tells.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: UsageScope,
    /// What becomes of the links in its answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub citations: Citations,
    /// What of its content may be stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data: DataPolicy,
    /// How many of its sub-agents work at the same time; the others wait for their turn.
    #[serde(
        default = "Profile::default_agents",
        skip_serializing_if = "is_default_agents"
    )]
    pub parallel_agents: u32,
    /// How often a failed call of a server's tool is made again, where its class and the failure allow.
    #[serde(
        default = "Profile::default_retries",
        skip_serializing_if = "is_default_retries"
    )]
    pub tool_retries: u32,
    /// Where an embedder is asked, through [`Effect::Consult`](crate::Effect::Consult).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
}

impl Profile {
    /// The name of [`Profile::main_thread`].
    pub const MAIN_THREAD: &'static str = "main_thread";
    /// The name of [`Profile::deep_research_supervisor`].
    pub const DEEP_RESEARCH_SUPERVISOR: &'static str = "deep_research_supervisor";
    /// The name of [`Profile::researcher`].
    pub const RESEARCHER: &'static str = "researcher";

    const fn default_agents() -> u32 {
        5
    }

    const fn default_retries() -> u32 {
        1
    }

    /// The profile of the agent that talks with the user: calls in parallel where that is safe, everything kept.
    #[must_use]
    pub fn main_thread() -> Self {
        Self {
            digest_after: Some(2),
            ..Self::named(Self::MAIN_THREAD)
        }
    }

    /// The profile of the agent that splits a question into topics and has them researched: one call after the other,
    /// the researchers of a call in parallel. It cites only what was read.
    #[must_use]
    pub fn deep_research_supervisor() -> Self {
        Self {
            parallel: Parallel::None,
            citations: Citations::Checked,
            ..Self::named(Self::DEEP_RESEARCH_SUPERVISOR)
        }
    }

    /// The profile of an agent with one focused task: what it read leaves summaries once there is too much of it.
    #[must_use]
    pub fn researcher() -> Self {
        Self {
            digest_after: Some(2),
            compaction: Compaction::Drop,
            ..Self::named(Self::RESEARCHER)
        }
    }

    /// Returns the profile that ships under a name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        match name {
            Self::MAIN_THREAD => Some(Self::main_thread()),
            Self::DEEP_RESEARCH_SUPERVISOR => Some(Self::deep_research_supervisor()),
            Self::RESEARCHER => Some(Self::researcher()),
            _ => None,
        }
    }

    /// Returns the limits that the profile brings along; an agent's own are no looser.
    ///
    /// The main thread has no limit on turns of its own. A supervisor has 50 tool calls and five minutes.
    #[must_use]
    pub fn limits(&self) -> Limits {
        match self.name.as_str() {
            Self::MAIN_THREAD => Limits::NONE,
            Self::DEEP_RESEARCH_SUPERVISOR => Limits {
                max_tool_calls: Some(50),
                deadline: Some(Duration::from_secs(300)),
                ..Limits::NONE
            },
            _ => Limits::default(),
        }
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

    /// Returns what the results of a tool change.
    pub(crate) fn result_rule(&self, tool: &str) -> Option<&ResultRule> {
        self.results.iter().find(|rule| rule.tool.as_str() == tool)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
    fn a_profile_is_written_as_what_it_decides_otherwise_than_by_default() {
        let text = serde_json::to_string(&Profile::named("plain")).unwrap();
        assert_eq!(
            text,
            r#"{"name":"plain","opening":{"type":"direct"},"parallel":"auto","unknown_tool":"retry","tool_errors":"continue","limit_reached":"last_answer"}"#
        );
    }

    #[test]
    fn the_built_in_profiles_are_read_back_as_they_were() {
        for name in [
            Profile::MAIN_THREAD,
            Profile::DEEP_RESEARCH_SUPERVISOR,
            Profile::RESEARCHER,
        ] {
            let profile = Profile::built_in(name).unwrap();
            assert_eq!(profile.name, name);
            let text = serde_json::to_string(&profile).unwrap();
            assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
        }
        assert_eq!(Profile::built_in("nobody"), None);
    }
}
