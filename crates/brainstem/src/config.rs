//! The policy as a deployment writes it: sections of TOML in which every key may be left out.
//!
//! Nothing is checked here but the form; [`Policy::layered`](crate::Policy::layered) checks what it means.

mod agent;
mod channel;
mod mode;
mod operation;
mod origins;
mod rule;
mod section;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use neuraxis_core::{AgentName, Channel, Mode, PlanName, Role};
use serde::{Deserialize, Serialize};

pub use agent::{
    AgentConfig, AnswerConfig, CompactionConfig, NoCallsConfig, RemindConfig, RepeatsConfig,
    ResultConfig, SummarizeConfig,
};
pub use channel::{
    ChannelConfig, ChannelModeConfig, Clarify, DataConfig, EscalationConfig, GatherConfig,
    OpeningConfig, SelfChecks, UnlistedTools,
};
pub use mode::{ModeConfig, Permission, ToolAnswersConfig};
pub use operation::{
    BudgetConfig, HealthConfig, PlanConfig, PriceConfig, TaintConfig, TrustConfig,
};
pub use origins::{Origins, SourceLine};
pub use rule::{ExampleConfig, RuleConfig};
pub(crate) use section::{Layered, PartialLimits};

use crate::error::PolicyError;
use section::section;

section! {
    /// A policy, or the part of one that a deployment overrides.
    pub struct PolicyConfig {
        /// The modes, by name.
        pub modes: BTreeMap<Mode, ModeConfig>,
        /// The channels, by name.
        pub channels: BTreeMap<Channel, ChannelConfig>,
        /// The agents, by name.
        pub agents: BTreeMap<AgentName, AgentConfig>,
        /// The plans, by name.
        pub plans: BTreeMap<PlanName, PlanConfig>,
        /// The rules, by name.
        pub rules: BTreeMap<String, RuleConfig>,
        /// What is believed of tools of other people's servers, by a name for each belief.
        pub trust: BTreeMap<String, TrustConfig>,
        /// Which tools bring untrusted content.
        pub taint: TaintConfig,
        /// When a model counts as failing.
        pub health: HealthConfig,
        /// What models cost, by `provider/model`.
        pub prices: BTreeMap<String, PriceConfig>,
        /// The roles there are beside the three built-in ones. No key of the policy's own: whoever merges the
        /// configuration knows them from the models.
        #[serde(skip)]
        pub extra_roles: Vec<Role>,
        /// The tools that channels list in sources which others lie over: one that a shorter list leaves out does not become one
        /// that no channel names. No key of the policy's own: whoever merges the configuration knows the sources.
        #[serde(skip)]
        pub listed_tools: Vec<String>,
        /// Where the keys are written, for messages. No key of the policy's own: whoever reads the text knows.
        #[serde(skip)]
        pub origins: Origins,
    }
}

impl Layered for Origins {
    fn over(self, base: Self) -> Self {
        Self::over(self, base)
    }

    fn is_unset(&self) -> bool {
        true
    }
}

/// The policy that ships with this crate.
const BUILT_IN: &str = include_str!("../default-policy.toml");

/// What its places are called in messages.
const BUILT_IN_NAME: &str = "default-policy.toml";

impl PolicyConfig {
    /// Returns the error about the first mode of which this configuration says what is different on a channel, though the channel
    /// may not be used in it: by its own `allowed_modes`, or else those of `base`. What `base` itself says of such a mode is no
    /// error: who names the modes of a channel need not know it, and it counts where they are allowed.
    pub(crate) fn unreachable_mode(&self, base: &Self) -> Option<PolicyError> {
        self.channels.iter().find_map(|(name, channel)| {
            let below = base.channels.get(name);
            let below = below.and_then(|channel| channel.allowed_modes.as_ref());
            let allowed = channel.allowed_modes.as_ref().or(below)?;
            let mode = channel.when.keys().find(|mode| !allowed.contains(mode))?;
            Some(PolicyError::UnreachableMode {
                at: format!("channels.{name}.when.{mode}"),
                allowed: allowed.iter().map(Mode::to_string).collect(),
            })
        })
    }

    /// Returns the patterns of the tools that channels list, whichever the mode.
    pub fn tools_of_channels(&self) -> impl Iterator<Item = &String> {
        self.channels.values().flat_map(|channel| {
            let exceptions = channel.when.values().map(|exception| &exception.tools);
            exceptions.chain([&channel.tools]).flatten().flatten()
        })
    }

    /// Tells whether a mode, channel or agent names a role: one that none names never serves, but for whoever asks for it by
    /// name.
    #[must_use]
    pub fn names_role(&self, role: &Role) -> bool {
        let listed = |roles: &Option<Vec<Role>>| roles.iter().flatten().any(|named| named == role);
        self.modes.values().any(|mode| listed(&mode.roles))
            || self.channels.values().any(|channel| {
                let exceptions = channel.when.values();
                channel.roles().any(|named| named == role)
                    || exceptions
                        .into_iter()
                        .any(|exception| listed(&exception.roles))
            })
            || self
                .agents
                .values()
                .any(|agent| agent.roles().any(|named| named == role))
    }

    /// Tells whether a mode, channel, agent or plan limits what runs may cost: then the prices of the models have to be known.
    #[must_use]
    pub fn limits_money(&self) -> bool {
        let modes = self.modes.values().map(ModeConfig::limits);
        let channels = self.channels.values().map(ChannelConfig::limits);
        let agents = self.agents.values().map(AgentConfig::limits);
        let plans = self.plans.values().map(PlanConfig::limits);
        let mut limits = modes.chain(channels).chain(agents).chain(plans);
        let plans = self.plans.values();
        let mut budgets = plans.flat_map(|plan| [&plan.session, &plan.day]);
        limits.any(|limits| limits.max_cost.is_some())
            || budgets.any(|budget| budget.max_cost_micro_usd.is_some())
    }

    /// Returns the policy that ships with this crate. Its text is read once in a process.
    #[must_use]
    pub fn built_in() -> Self {
        static READ: LazyLock<PolicyConfig> = LazyLock::new(|| {
            #[expect(
                clippy::expect_used,
                reason = "the text ships with the crate and a test reads it"
            )]
            PolicyConfig::from_named_toml(BUILT_IN_NAME, BUILT_IN)
                .expect("the built-in policy is readable")
        });
        READ.clone()
    }

    /// Returns the text of the policy that ships with this crate, comments included.
    #[must_use]
    pub const fn built_in_text() -> &'static str {
        BUILT_IN
    }

    /// Reads a policy from TOML that holds nothing else.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Syntax`] names line and column of what is not TOML, an unknown key or a wrong type.
    pub fn from_toml(text: &str) -> Result<Self, PolicyError> {
        toml::from_str(text).map_err(|error| PolicyError::syntax(text, &error))
    }

    /// As [`from_toml`](Self::from_toml), and notes on which line of `source` each key is written.
    ///
    /// # Errors
    ///
    /// As [`from_toml`](Self::from_toml).
    pub fn from_named_toml(source: &str, text: &str) -> Result<Self, PolicyError> {
        let mut config = Self::from_toml(text)?;
        config.origins = Origins::of_text(source, text);
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
