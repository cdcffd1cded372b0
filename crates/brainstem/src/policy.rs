//! The policy: a checked configuration that decides about requests and judges calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use neuraxis_core::{
    AgentName, Channel, ContentHash, Decision, JsonText, Limits, Mode, Opening, PlanName, Role,
};

use crate::agents::ProgramAgent;
use crate::config::{
    AgentConfig, Layered, ModeConfig, PartialLimits, PolicyConfig, strictest_first,
};
use crate::error::PolicyError;
use crate::health::HealthRules;
use crate::judge::Floor;
use crate::names;
use crate::price_list::PriceList;
use crate::prices::Prices;
use crate::rules::{
    AgentRules, ChannelRules, KnownNames, ModeRules, RuleFunctions, RuleSet, ToolPatterns,
    check_budget, check_limits, check_rule, check_shadows,
};
use crate::trust::Trust;

/// Decides what requests may do and judges calls. Plain data that never changes: share it.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) config: PolicyConfig,
    pub(crate) hash: ContentHash,
    pub(crate) modes: BTreeMap<Mode, ModeRules>,
    /// The names of the modes, the strictest first.
    modes_in_order: Vec<Mode>,
    pub(crate) channels: BTreeMap<Channel, ChannelRules>,
    pub(crate) agents: BTreeMap<AgentName, AgentRules>,
    /// The agent settings of a deployment, or of a layer over it.
    pub(crate) configured_agents: BTreeMap<AgentName, AgentConfig>,
    /// The settings of agents that an embedding program defines.
    pub(crate) program_agents: BTreeMap<AgentName, ProgramAgent>,
    pub(crate) plans: BTreeMap<PlanName, PlanRules>,
    pub(crate) rules: RuleSet,
    /// The functions of an embedding program that rules may name.
    pub(crate) functions: Arc<RuleFunctions>,
    pub(crate) trust: Vec<Trust>,
    pub(crate) tainting: ToolPatterns,
    pub(crate) health: HealthRules,
    pub(crate) prices: Prices,
    /// The prices of models for which the deployment sets none.
    pub(crate) price_list: Arc<PriceList>,
    /// The strictest permissions that the layers above set for modes; no rule of this policy lifts them.
    pub(crate) floors: Vec<Floor>,
    pub(crate) roles: Vec<Role>,
    /// The tools that some channel names, here or in a source below; all others are unlisted.
    pub(crate) listed: ToolPatterns,
}

/// What a plan sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanRules {
    pub(crate) limits: PartialLimits,
    /// What all runs of a session together may use.
    pub(crate) session: Limits,
    /// What all runs of an owner on one day together may use.
    pub(crate) day: Limits,
}

impl Policy {
    /// Returns the policy that ships with this crate. It is read and checked once per process.
    #[must_use]
    pub fn built_in() -> Self {
        static BUILT_IN: LazyLock<Policy> = LazyLock::new(|| {
            #[expect(
                clippy::expect_used,
                reason = "the text ships with the crate and a test checks it"
            )]
            Policy::new(PolicyConfig::built_in()).expect("the built-in policy is valid")
        });
        BUILT_IN.clone()
    }

    /// Lays a deployment's configuration over the policy that ships with this crate, key by key.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the first invalid key and says what to do about it.
    pub fn layered(overrides: PolicyConfig) -> Result<Self, PolicyError> {
        let agents = overrides.agents.clone();
        let base = PolicyConfig::built_in();
        let unreachable = overrides.unreachable_mode(&base);
        let mut policy = Self::new(overrides.over(base))?;
        unreachable.map_or(Ok(()), Err)?;
        policy.configured_agents = agents;
        Ok(policy)
    }

    pub(crate) fn new(config: PolicyConfig) -> Result<Self, PolicyError> {
        Self::with_program_agents(config, BTreeMap::new())
    }

    /// Builds a policy from a configuration that was derived from this policy's. What no configuration sets stays as it
    /// is.
    pub(crate) fn rebuilt(
        &self,
        config: PolicyConfig,
        program_agents: BTreeMap<AgentName, ProgramAgent>,
        hash: ContentHash,
    ) -> Result<Self, PolicyError> {
        let mut policy = Self::with_program_agents(config, program_agents)?;
        policy.hash = hash;
        policy.floors.clone_from(&self.floors);
        policy.functions.clone_from(&self.functions);
        policy.price_list.clone_from(&self.price_list);
        policy.configured_agents.clone_from(&self.configured_agents);
        // If a layer removes a tool from the only channel that names it, the tool still does not become an unlisted
        // one.
        policy.listed.clone_from(&self.listed);
        Ok(policy)
    }

    /// Like [`new`](Self::new), with the settings of agents that a program defines.
    fn with_program_agents(
        config: PolicyConfig,
        program_agents: BTreeMap<AgentName, ProgramAgent>,
    ) -> Result<Self, PolicyError> {
        check_names("modes", config.modes.keys().map(Mode::as_str))?;
        check_names("channels", config.channels.keys().map(Channel::as_str))?;
        check_names("agents", config.agents.keys().map(AgentName::as_str))?;
        check_names("plans", config.plans.keys().map(PlanName::as_str))?;
        check_names("rules", config.rules.keys().map(String::as_str))?;
        check_names("trust", config.trust.keys().map(String::as_str))?;
        let mut roles = Role::BUILT_IN.to_vec();
        for role in &config.extra_roles {
            if !roles.contains(role) {
                roles.push(role.clone());
            }
        }
        let known = KnownNames {
            roles,
            modes: strictest_first(&config.modes),
            channels: config.channels.keys().cloned().collect(),
            agents: config.agents.keys().cloned().collect(),
        };
        let tainting = config.taint.tools.as_deref().unwrap_or_default();
        let policy = Self {
            hash: hash_of(&config),
            modes: check_modes(&config, &known)?,
            modes_in_order: known.modes.clone(),
            channels: check_channels(&config, &known)?,
            agents: check_agents(&config, &known)?,
            configured_agents: BTreeMap::new(),
            program_agents,
            plans: check_plans(&config)?,
            rules: check_rules(&config, &known)?,
            functions: Arc::default(),
            trust: Trust::check(&config.trust)?,
            tainting: ToolPatterns::check("taint.tools", tainting)?,
            health: HealthRules::check(&config.health)?,
            prices: Prices::check(&config.prices)?,
            price_list: PriceList::built_in(),
            floors: Vec::new(),
            listed: listed_tools(&config)?,
            roles: known.roles,
            config,
        };
        policy.check_agent_tools()?;
        Ok(policy)
    }

    /// Returns the effective configuration, including everything the deployment left out.
    #[must_use]
    pub const fn config(&self) -> &PolicyConfig {
        &self.config
    }

    /// Returns the hash of the effective configuration; every decision carries it.
    #[must_use]
    pub const fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Returns the policy's modes, the strictest first: each comes after those that let tools do less than it does.
    pub fn modes(&self) -> impl Iterator<Item = &Mode> {
        self.modes_in_order.iter()
    }

    /// Returns the modes that let tools do no more than `other` does, the strictest first; none if `other` does not
    /// exist.
    #[must_use]
    pub fn modes_no_freer_than(&self, other: &Mode) -> Vec<Mode> {
        let configured = &self.config().modes;
        let Some(other) = configured.get(other) else {
            return Vec::new();
        };
        let is_freer = |mode: &ModeConfig| mode.is_freer_than(other);
        let modes = self.modes();
        let modes = modes.filter(|name| !configured.get(*name).is_some_and(is_freer));
        modes.cloned().collect()
    }

    /// Returns those of the policy's modes that a list names, the strictest first.
    #[must_use]
    pub fn modes_among(&self, listed: &[Mode]) -> Vec<Mode> {
        let modes = self.modes().filter(|mode| listed.contains(mode));
        modes.cloned().collect()
    }

    /// Returns the mode of a request that names none, chosen from the modes it may use: `moderate`, or else the freest
    /// that is no freer than `moderate`. `None` if all of them are freer.
    #[must_use]
    pub fn usual_mode(&self, usable: &[Mode]) -> Option<Mode> {
        if usable.contains(&Mode::MODERATE) {
            return Some(Mode::MODERATE);
        }
        let mut tamer = self.modes_no_freer_than(&Mode::MODERATE);
        tamer.retain(|mode| usable.contains(mode));
        tamer
            .into_iter()
            .max_by_key(|mode| self.modes_no_freer_than(mode).len())
    }

    /// Returns the policy's channels, in alphabetical order.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.keys()
    }

    /// Returns the policy's plans, in alphabetical order.
    pub fn plans(&self) -> impl Iterator<Item = &PlanName> {
        self.plans.keys()
    }
}

/// Adapts a channel's opening to the decision.
pub(crate) fn opening(opening: &Opening, decision: &Decision) -> Opening {
    match opening {
        Opening::Gather {
            role,
            tool,
            default_arguments,
        } if decision.tools.contains(tool) => {
            let may_serve = decision.allowed_roles.contains(role);
            Opening::Gather {
                role: if may_serve { role } else { &decision.role }.clone(),
                tool: tool.clone(),
                default_arguments: default_arguments.clone(),
            }
        }
        Opening::Gather { .. } | Opening::Direct => Opening::Direct,
    }
}

fn hash_of(config: &PolicyConfig) -> ContentHash {
    // The configuration consists of strings, numbers, lists and maps with string keys, so encoding it cannot fail.
    let canonical =
        JsonText::encode(config).unwrap_or_else(|error| JsonText::string(&error.to_string()));
    canonical.hash()
}

fn check_names<'a>(
    section: &'static str,
    mut given: impl Iterator<Item = &'a str>,
) -> Result<(), PolicyError> {
    match given.find(|name| !names::is_valid(name)) {
        Some(name) => Err(PolicyError::InvalidName {
            section,
            given: names::shown(name),
        }),
        None => Ok(()),
    }
}

fn check_modes(
    config: &PolicyConfig,
    known: &KnownNames,
) -> Result<BTreeMap<Mode, ModeRules>, PolicyError> {
    let built_in = [Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY];
    let check = |(name, mode): (&Mode, _)| {
        let meant = names::nearest(name.as_str(), built_in.iter().map(Mode::as_str));
        let meant = meant.filter(|meant| *meant != name.as_str());
        let rules = ModeRules::check(&format!("modes.{name}"), mode, known, meant)?;
        Ok((name.clone(), rules))
    };
    config.modes.iter().map(check).collect()
}

fn check_channels(
    config: &PolicyConfig,
    known: &KnownNames,
) -> Result<BTreeMap<Channel, ChannelRules>, PolicyError> {
    let built_in = [
        Channel::CHAT,
        Channel::CODE_TASK,
        Channel::SYSTEM_HEALTH,
        Channel::DEEP_RESEARCH,
    ];
    let check = |(name, channel): (&Channel, _)| {
        let meant = names::nearest(name.as_str(), built_in.iter().map(Channel::as_str));
        let rules = ChannelRules::check(&format!("channels.{name}"), channel, known, meant)?;
        Ok((name.clone(), rules))
    };
    config.channels.iter().map(check).collect()
}

fn check_agents(
    config: &PolicyConfig,
    known: &KnownNames,
) -> Result<BTreeMap<AgentName, AgentRules>, PolicyError> {
    let agents = config.agents.iter();
    let checked =
        agents.map(|(name, agent)| Ok((name.clone(), AgentRules::check(name, agent, known)?)));
    checked.collect()
}

fn check_plans(config: &PolicyConfig) -> Result<BTreeMap<PlanName, PlanRules>, PolicyError> {
    let plans = config.plans.iter();
    let checked = plans.map(|(name, plan)| {
        let at = format!("plans.{name}");
        let rules = PlanRules {
            limits: check_limits(&at, plan.limits())?,
            session: check_budget(&format!("{at}.session"), &plan.session)?,
            day: check_budget(&format!("{at}.day"), &plan.day)?,
        };
        Ok((name.clone(), rules))
    });
    checked.collect()
}

fn check_rules(config: &PolicyConfig, known: &KnownNames) -> Result<RuleSet, PolicyError> {
    let rules = config.rules.iter().map(|(name, rule)| {
        let place = config.origins.exactly(&format!("rules.{name}"));
        check_rule(name, rule, place, known)
    });
    let rules: Vec<_> = rules.collect::<Result<_, _>>()?;
    check_shadows(&rules)?;
    RuleSet::new(rules)
}

/// Collects the patterns of all tools that some channel names in any mode: in this policy, in the built-in policy, or
/// in a source below. Shortening a channel's list takes a tool away from that channel and gives it to no other.
fn listed_tools(config: &PolicyConfig) -> Result<ToolPatterns, PolicyError> {
    let built_in = PolicyConfig::built_in();
    let here = config.tools_of_channels();
    let below = built_in.tools_of_channels().chain(&config.listed_tools);
    let patterns: BTreeSet<&String> = here.chain(below).collect();
    let patterns: Vec<String> = patterns.into_iter().cloned().collect();
    let naming: Vec<String> = ToolPatterns::naming(&patterns).cloned().collect();
    ToolPatterns::check("channels", &naming)
}
