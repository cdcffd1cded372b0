//! The policy as a deployment writes it: sections of TOML in which every key is optional.
//!
//! This module checks only the form; [`Policy::layered`](crate::Policy::layered) checks the meaning.

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
pub(crate) use mode::strictest_first;
pub use mode::{ModeConfig, Permission, ToolAnswersConfig};
pub use operation::{
    BudgetConfig, HealthConfig, PlanConfig, PriceConfig, TaintConfig, TrustConfig,
};
pub use origins::{Origins, SourceLine};
pub use rule::{ExampleConfig, RuleConfig};
pub(crate) use section::{Layered, PartialLimits, besides_limits};

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
        /// What is believed about tools of third-party servers; each entry has a name.
        pub trust: BTreeMap<String, TrustConfig>,
        /// Which tools return untrusted content.
        pub taint: TaintConfig,
        /// When a model is considered failing.
        pub health: HealthConfig,
        /// The prices of models, by `provider/model`.
        pub prices: BTreeMap<String, PriceConfig>,
        /// Roles in addition to the three built-in ones. Not a key of the policy: the code that merges the
        /// configuration takes them from the models.
        #[serde(skip)]
        pub extra_roles: Vec<Role>,
        /// The tools that channels list in sources which other sources override. A tool that a shorter list leaves out
        /// does not become an unlisted one. Not a key of the policy: the code that merges the configuration knows the
        /// sources.
        #[serde(skip)]
        pub listed_tools: Vec<String>,
        /// Where the keys are written, for messages. Not a key of the policy: the code that reads the text knows it.
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

/// The name of its source in messages.
const BUILT_IN_NAME: &str = "default-policy.toml";

impl PolicyConfig {
    /// Returns an error about the first mode for which this configuration sets exceptions on a channel that may not be
    /// used in that mode, according to its own `allowed_modes`, or else those of `base`. Exceptions that `base` itself
    /// sets for such a mode are no error: the author of `allowed_modes` need not know them, and they apply if the mode
    /// is allowed.
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

    /// Returns the patterns of the tools that channels list in any mode.
    pub fn tools_of_channels(&self) -> impl Iterator<Item = &String> {
        self.channels.values().flat_map(|channel| {
            let exceptions = channel.when.values().map(|exception| &exception.tools);
            exceptions.chain([&channel.tools]).flatten().flatten()
        })
    }

    /// Returns whether a mode, channel or agent names a role. A role that none of them names serves only requests that
    /// ask for it by name.
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

    /// Returns whether a mode, channel, agent or plan limits the cost of runs, which requires the prices of models.
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

    /// Returns the policy that ships with this crate. Its text is read once per process.
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

    /// Reads a policy from TOML that contains nothing else.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Syntax`] with line and column if the text is not TOML, or has an unknown key or a value of the
    /// wrong type.
    pub fn from_toml(text: &str) -> Result<Self, PolicyError> {
        toml::from_str(text).map_err(|error| PolicyError::syntax(text, &error))
    }

    /// Like [`from_toml`](Self::from_toml), but records the line of `source` on which each key is written.
    ///
    /// # Errors
    ///
    /// Same as [`from_toml`](Self::from_toml).
    pub fn from_named_toml(source: &str, text: &str) -> Result<Self, PolicyError> {
        let mut config = Self::from_toml(text)?;
        config.origins = Origins::of_text(source, text);
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
