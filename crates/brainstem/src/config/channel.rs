//! `[channels.NAME]`: where a request comes from, and what is on offer there.

use std::collections::BTreeMap;

use neuraxis_core::{AgentName, JsonText, Mode, Role, ToolName};
use serde::{Deserialize, Serialize};

use super::section::{section, section_with_limits, word_or_table};

section_with_limits! {
    /// `[channels.NAME]`: where a request comes from. May also set limits.
    ///
    /// A channel of a deployment's own has to name its role; it offers no tools unless it says so.
    pub struct ChannelConfig {
        /// The role that serves.
        pub role: Option<Role>,
        /// The role that serves requests that seem simple; where it is left out, the channel's role serves all.
        pub simple_role: Option<Role>,
        /// From how many points on a request is complex; 4 if left out.
        pub complex_from: Option<u32>,
        /// The role that is asked first which role serves; nobody is if it is left out.
        pub router: Option<Role>,
        /// Whether a vague request is answered with a question; never if left out.
        pub clarify: Option<Clarify>,
        /// Whether a model checks the draft of the answer; never if left out.
        pub self_check: Option<SelfChecks>,
        /// Who takes over when it does not go well; nobody if left out.
        pub escalate: EscalationConfig,
        /// What of the content may be stored; everything if left out.
        pub data: DataConfig,
        /// The agent that answers, unless a request asks for another: one of `[agents.NAME]`; `main_thread` if left out.
        /// Earlier versions called it `profile`.
        #[serde(alias = "profile")]
        pub agent: Option<AgentName>,
        /// Patterns of the names of the tools on offer.
        pub tools: Option<Vec<String>>,
        /// What happens to tools that no channel names; withheld if left out.
        pub unlisted_tools: Option<UnlistedTools>,
        /// The modes in which the channel may be used; all if left out.
        pub allowed_modes: Option<Vec<Mode>>,
        /// What the channel's agent is told first, in place of its own instructions; nothing if empty.
        pub system_prompt: Option<String>,
        /// How a run begins; directly if left out.
        pub opening: Option<OpeningConfig>,
        /// What is different in one mode.
        pub when: BTreeMap<Mode, ChannelModeConfig>,
    }
}

impl ChannelConfig {
    /// Returns the roles that the channel itself names.
    pub(crate) fn roles(&self) -> impl Iterator<Item = &Role> {
        let gather = self.opening.as_ref().and_then(OpeningConfig::role);
        let named = [&self.role, &self.simple_role, &self.router];
        let named = named.into_iter().flatten();
        named.chain(&self.escalate.role).chain(gather)
    }
}

section! {
    /// `[channels.NAME.when.MODE]`: what is different on a channel in one mode.
    pub struct ChannelModeConfig {
        /// The roles that may serve, instead of those of the mode.
        pub roles: Option<Vec<Role>>,
        /// Patterns of the names of the tools on offer, instead of those of the channel.
        pub tools: Option<Vec<String>>,
        /// What happens to tools that no channel names, instead of what the channel says.
        pub unlisted_tools: Option<UnlistedTools>,
    }
}

section! {
    /// `[channels.NAME.escalate]`: who takes over when it does not go well.
    pub struct EscalationConfig {
        /// The role that takes over, of a larger model; none if left out.
        pub role: Option<Role>,
        /// How many failures in a row it takes; 2 if left out.
        pub after_failures: Option<u32>,
        /// Whether a person is asked once the larger role fails too.
        pub person: Option<bool>,
    }
}

section! {
    /// `[channels.NAME.data]`: what of the content may be stored.
    pub struct DataConfig {
        /// What people and models said.
        pub text: Option<bool>,
        /// The arguments of calls.
        pub tool_calls: Option<bool>,
        /// The results of calls.
        pub tool_results: Option<bool>,
        /// The reasoning of models.
        pub reasoning: Option<bool>,
    }
}

/// Whether a vague request is answered with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Clarify {
    /// It is not: the model makes of it what it can.
    #[default]
    Never,
    /// It is, where it begins a conversation and names nothing.
    Vague,
}

/// Whether a model checks the draft of an answer. From the least to the most.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SelfChecks {
    /// No model checks. The default.
    #[default]
    Never,
    /// One does, where the request seems complex.
    Complex,
    /// A model checks every draft.
    Always,
}

/// What happens on a channel to tools that no channel names: an embedder's own and those of MCP servers. What a channel names in
/// the policy that ships, or in a source that another lies over, is none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnlistedTools {
    /// They are on offer.
    Offered,
    /// They are not on offer. The default.
    #[default]
    Withheld,
}

/// How a run begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OpeningConfig {
    /// With a turn of the channel's role.
    Direct,
    /// With a model that only chooses what one tool shall gather.
    Gather(GatherConfig),
}

impl OpeningConfig {
    /// Returns the role that it names.
    pub(crate) const fn role(&self) -> Option<&Role> {
        match self {
            Self::Gather(gather) => Some(&gather.role),
            Self::Direct => None,
        }
    }

    /// Returns the tool that it gathers with.
    pub(crate) const fn tool(&self) -> Option<&ToolName> {
        match self {
            Self::Gather(gather) => Some(&gather.tool),
            Self::Direct => None,
        }
    }
}

word_or_table!(OpeningConfig: "direct" => Direct, gather: GatherConfig => Gather);

/// An opening in which a small model chooses what one tool shall gather; then the channel's role answers from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GatherConfig {
    /// The role that chooses.
    pub role: Role,
    /// The one tool it is offered; the channel, or the agent where the agent says so, has to offer it too.
    pub tool: ToolName,
    /// The arguments, a JSON object, of the call that is made if that model makes none.
    pub default_arguments: JsonText,
}
