//! `[channels.NAME]`: what kind of request it is, and which tools are offered.

use std::collections::BTreeMap;

use neuraxis_core::{AgentName, JsonText, Mode, Role, ToolName};
use serde::{Deserialize, Serialize};

use super::section::{section, section_with_limits, word_or_table};

section_with_limits! {
    /// `[channels.NAME]`: what kind of request it is. May also set limits.
    ///
    /// A deployment's own channel must name its role. It offers no tools unless it says so.
    pub struct ChannelConfig {
        /// The role that serves.
        pub role: Option<Role>,
        /// The role that serves requests that seem simple. If omitted, the channel's role serves all requests.
        pub simple_role: Option<Role>,
        /// The number of points from which a request is complex. Defaults to 4.
        pub complex_from: Option<u32>,
        /// The role that is first asked which role should serve. None by default.
        pub router: Option<Role>,
        /// Whether a vague request is answered with a question. Defaults to never.
        pub clarify: Option<Clarify>,
        /// Whether a model checks the draft of the answer. Defaults to never.
        pub self_check: Option<SelfChecks>,
        /// Which role takes over after failures. None by default.
        pub escalate: EscalationConfig,
        /// Which content may be stored. Defaults to everything.
        pub data: DataConfig,
        /// The agent that answers, unless a request asks for another: one of `[agents.NAME]`. Defaults to
        /// `main_thread`. Earlier versions called this key `profile`.
        #[serde(alias = "profile")]
        pub agent: Option<AgentName>,
        /// Name patterns of the tools on offer.
        pub tools: Option<Vec<String>>,
        /// What happens to tools that no channel names. Defaults to withheld.
        pub unlisted_tools: Option<UnlistedTools>,
        /// The modes in which the channel may be used. Defaults to all.
        pub allowed_modes: Option<Vec<Mode>>,
        /// The first instructions of the channel's agent, which replace the agent's own; none if empty.
        pub system_prompt: Option<String>,
        /// How a run starts. Defaults to directly.
        pub opening: Option<OpeningConfig>,
        /// Settings that differ in one mode.
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
    /// `[channels.NAME.when.MODE]`: settings of a channel that differ in one mode.
    pub struct ChannelModeConfig {
        /// The roles that may serve, instead of those of the mode.
        pub roles: Option<Vec<Role>>,
        /// Name patterns of the tools on offer, instead of those of the channel.
        pub tools: Option<Vec<String>>,
        /// What happens to tools that no channel names, instead of the channel's setting.
        pub unlisted_tools: Option<UnlistedTools>,
    }
}

section! {
    /// `[channels.NAME.escalate]`: who takes over after failures.
    pub struct EscalationConfig {
        /// The role that takes over, with a larger model. None by default.
        pub role: Option<Role>,
        /// The number of failures in a row that triggers it. Defaults to 2.
        pub after_failures: Option<u32>,
        /// Whether a person is asked if the larger role fails, too.
        pub person: Option<bool>,
    }
}

section! {
    /// `[channels.NAME.data]`: which content may be stored.
    pub struct DataConfig {
        /// The text of users and models.
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
    /// Never: the model interprets the request as best it can.
    #[default]
    Never,
    /// A request is answered with a question if it starts a conversation and names nothing.
    Vague,
}

/// Whether a model checks the draft of an answer. Ordered from least to most.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SelfChecks {
    /// No model checks drafts. The default.
    #[default]
    Never,
    /// A model checks the draft if the request seems complex.
    Complex,
    /// A model checks every draft.
    Always,
}

/// What a channel does with tools that no channel names, such as an embedder's own and those of MCP servers. Tools that
/// a channel names in the built-in policy, or in a source that another overrides, are not among them.
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

/// How a run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OpeningConfig {
    /// With a turn of the channel's role.
    Direct,
    /// With a model that only chooses what to gather with one tool.
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

/// An opening in which a small model chooses what to gather with one tool; then the channel's role answers from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GatherConfig {
    /// The role that chooses.
    pub role: Role,
    /// The one tool that it is offered. The channel, or the agent if the agent sets this opening, must offer it too.
    pub tool: ToolName,
    /// The arguments, a JSON object, of the call that is made if that model makes none.
    pub default_arguments: JsonText,
}
