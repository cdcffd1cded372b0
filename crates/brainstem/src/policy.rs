//! The policy: a checked configuration that decides about requests and judges calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::{
    Channel, ContentHash, Decision, JsonText, Mode, Opening, PlanName, Profile, Role,
};

use crate::config::{Layered, PartialLimits, PolicyConfig};
use crate::error::PolicyError;
use crate::names;
use crate::rules::{ChannelRules, Known, ModeRules, ToolPatterns, check_limits};

/// Decides what requests may do and judges calls. Plain data that never changes: share it.
#[derive(Debug, Clone)]
pub struct Policy {
    config: PolicyConfig,
    hash: ContentHash,
    pub(crate) modes: BTreeMap<Mode, ModeRules>,
    pub(crate) channels: BTreeMap<Channel, ChannelRules>,
    pub(crate) plans: BTreeMap<PlanName, PartialLimits>,
    pub(crate) roles: Vec<Role>,
    /// The tools that some channel names; the others are unlisted.
    pub(crate) listed: ToolPatterns,
}

impl Policy {
    /// Returns the policy that ships with this crate.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "the text ships with the crate and a test checks it"
    )]
    pub fn built_in() -> Self {
        Self::new(PolicyConfig::built_in()).expect("the built-in policy is valid")
    }

    /// Lays a deployment's configuration over the policy that ships with this crate, key by key.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the first key that cannot stand, and says what to do about it.
    pub fn layered(overrides: PolicyConfig) -> Result<Self, PolicyError> {
        Self::new(overrides.over(PolicyConfig::built_in()))
    }

    fn new(config: PolicyConfig) -> Result<Self, PolicyError> {
        check_names("modes", config.modes.keys().map(Mode::as_str))?;
        check_names("channels", config.channels.keys().map(Channel::as_str))?;
        check_names("plans", config.plans.keys().map(PlanName::as_str))?;
        let mut roles = vec![Role::REASONING, Role::ROUTER, Role::CODING];
        for role in &config.extra_roles {
            if !roles.contains(role) {
                roles.push(role.clone());
            }
        }
        let known = Known {
            roles,
            modes: config.modes.keys().cloned().collect(),
        };
        Ok(Self {
            hash: hash_of(&config),
            modes: check_modes(&config, &known)?,
            channels: check_channels(&config, &known)?,
            plans: check_plans(&config)?,
            listed: listed_tools(&config)?,
            roles: known.roles,
            config,
        })
    }

    /// Returns the configuration that is in force, everything the deployment left out included.
    #[must_use]
    pub const fn config(&self) -> &PolicyConfig {
        &self.config
    }

    /// Returns the hash of the configuration that is in force; it stands in every decision.
    #[must_use]
    pub const fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Returns the modes there are, in alphabetical order.
    pub fn modes(&self) -> impl Iterator<Item = &Mode> {
        self.modes.keys()
    }

    /// Returns the channels there are, in alphabetical order.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.keys()
    }

    /// Returns the plans there are, in alphabetical order.
    pub fn plans(&self) -> impl Iterator<Item = &PlanName> {
        self.plans.keys()
    }

    /// Returns how the main agent of a decided request behaves in the loop.
    ///
    /// An opening that gathers needs its tool: where the decision does not offer it, the run begins directly.
    #[must_use]
    pub fn profile(&self, decision: &Decision) -> Profile {
        let Some(channel) = self.channels.get(&decision.channel) else {
            return Profile::named(decision.profile.as_str());
        };
        let mut profile = channel.profile.behavior();
        profile.opening = opening(&channel.opening, decision);
        profile
    }

    /// Returns what the main agent of a decided request is told first.
    #[must_use]
    pub fn system_prompt(&self, decision: &Decision) -> Option<Arc<str>> {
        self.channels.get(&decision.channel)?.system_prompt.clone()
    }
}

/// Fits a channel's opening to what was decided.
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
    // The configuration is texts, numbers, lists and maps with texts as keys: encoding it cannot fail.
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
    known: &Known,
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
    known: &Known,
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

fn check_plans(config: &PolicyConfig) -> Result<BTreeMap<PlanName, PartialLimits>, PolicyError> {
    let plans = config.plans.iter();
    let checked = plans.map(|(name, plan)| {
        let limits = check_limits(&format!("plans.{name}"), plan.limits())?;
        Ok((name.clone(), limits))
    });
    checked.collect()
}

/// Gathers the patterns of all tools that some channel names, whichever the mode.
fn listed_tools(config: &PolicyConfig) -> Result<ToolPatterns, PolicyError> {
    let mut patterns = Vec::new();
    for channel in config.channels.values() {
        let exceptions = channel.when.values().map(|exception| &exception.tools);
        patterns.extend(
            exceptions
                .chain([&channel.tools])
                .flatten()
                .flatten()
                .cloned(),
        );
    }
    let naming: Vec<String> = ToolPatterns::naming(&patterns).cloned().collect();
    ToolPatterns::check("channels", &naming)
}
