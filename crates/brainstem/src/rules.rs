//! The checked configuration: it is complete, and every name it uses exists.

mod agent;
mod arguments;
mod channel;
mod check_rule;
mod command;
mod examples;
mod facts;
mod function;
mod host;
mod limits;
mod mode;
mod path;
mod patterns;
mod rule;
mod rule_set;
mod shadow;
mod value;

use std::fmt::Display;

use neuraxis_core::{AgentName, Channel, Mode, Role};

pub(crate) use agent::AgentRules;
pub(crate) use arguments::{Arguments, Names};
pub(crate) use channel::ChannelRules;
pub(crate) use check_rule::{check_rule, path_glob};
pub(crate) use command::{CommandPattern, Part, rememberable};
pub(crate) use examples::check as check_examples;
pub(crate) use facts::{COMMANDS, Facts, GLOBS, PATCHES, PATHS};
pub(crate) use function::RuleFunctions;
pub use function::{RuleCall, RuleFunction};
pub(crate) use host::HostPattern;
pub(crate) use limits::{check as check_limits, check_budget, no_zero};
pub(crate) use mode::{ModeRules, RoleRule, ToolAnswers};
pub(crate) use path::PathTarget;
pub(crate) use patterns::ToolPatterns;
pub(crate) use rule::{Fit, Rule};
pub(crate) use rule_set::RuleSet;
pub(crate) use shadow::check as check_shadows;

use crate::error::PolicyError;
use crate::names;

/// The names that the parts of a policy may refer to.
#[derive(Debug)]
pub(crate) struct KnownNames {
    pub(crate) roles: Vec<Role>,
    pub(crate) modes: Vec<Mode>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) agents: Vec<AgentName>,
}

impl KnownNames {
    pub(crate) fn role(&self, at: &str, role: &Role) -> Result<(), PolicyError> {
        known(&self.roles, at, "role", role)
    }

    pub(crate) fn mode(&self, at: &str, mode: &Mode) -> Result<(), PolicyError> {
        known(&self.modes, at, "mode", mode)
    }

    pub(crate) fn channel(&self, at: &str, channel: &Channel) -> Result<(), PolicyError> {
        known(&self.channels, at, "channel", channel)
    }

    pub(crate) fn agent(&self, at: &str, agent: &AgentName) -> Result<(), PolicyError> {
        let mut checked = known(&self.agents, at, "agent", agent);
        // The name that channels used before agents had names of their own.
        if agent.as_str() == "research_supervisor"
            && let Err(PolicyError::UnknownName { nearest, .. }) = &mut checked
        {
            *nearest = Some(AgentName::DEEP_RESEARCH.to_string());
        }
        checked
    }
}

fn known<T: PartialEq + Display>(
    list: &[T],
    at: &str,
    what: &'static str,
    given: &T,
) -> Result<(), PolicyError> {
    if list.contains(given) {
        return Ok(());
    }
    let given = given.to_string();
    let known: Vec<String> = list.iter().map(T::to_string).collect();
    let nearest = names::nearest(&given, known.iter().map(String::as_str));
    Err(PolicyError::UnknownName {
        at: at.to_owned(),
        what,
        given: names::shown(&given),
        nearest: nearest.map(str::to_owned),
        known,
    })
}
