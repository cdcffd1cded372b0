//! The configuration once it is checked: what it says is complete, and all it names exists.

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

use neuraxis_core::{AgentName, Channel, Mode, Role};

pub(crate) use agent::AgentRules;
pub(crate) use arguments::Arguments;
pub(crate) use channel::ChannelRules;
pub(crate) use check_rule::{check_rule, path_glob};
pub(crate) use command::{CommandPattern, Part, rememberable};
pub(crate) use examples::check as check_examples;
pub(crate) use facts::{COMMANDS, Facts, PATCHES, PATHS};
pub(crate) use function::RuleFunctions;
pub use function::{RuleCall, RuleFunction};
pub(crate) use host::HostPattern;
pub(crate) use limits::check as check_limits;
pub(crate) use mode::{MAX_TOOL_RETRIES, ModeRules, RoleRule, ToolAnswers};
pub(crate) use path::PathTarget;
pub(crate) use patterns::ToolPatterns;
pub(crate) use rule::{Fit, Rule};
pub(crate) use rule_set::RuleSet;
pub(crate) use shadow::check as check_shadows;

use crate::error::PolicyError;
use crate::names;

/// What the parts of a policy may refer to.
#[derive(Debug)]
pub(crate) struct KnownNames {
    pub(crate) roles: Vec<Role>,
    pub(crate) modes: Vec<Mode>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) agents: Vec<AgentName>,
}

impl KnownNames {
    pub(crate) fn role(&self, at: &str, role: &Role) -> Result<(), PolicyError> {
        if self.roles.contains(role) {
            return Ok(());
        }
        let known = self.roles.iter().map(Role::as_str).collect();
        Err(unknown_name(at, "role", role.as_str(), known))
    }

    pub(crate) fn mode(&self, at: &str, mode: &Mode) -> Result<(), PolicyError> {
        if self.modes.contains(mode) {
            return Ok(());
        }
        let known = self.modes.iter().map(Mode::as_str).collect();
        Err(unknown_name(at, "mode", mode.as_str(), known))
    }

    pub(crate) fn channel(&self, at: &str, channel: &Channel) -> Result<(), PolicyError> {
        if self.channels.contains(channel) {
            return Ok(());
        }
        let known = self.channels.iter().map(Channel::as_str).collect();
        Err(unknown_name(at, "channel", channel.as_str(), known))
    }
}

fn unknown_name(at: &str, what: &'static str, given: &str, known: Vec<&str>) -> PolicyError {
    PolicyError::UnknownName {
        at: at.to_owned(),
        what,
        given: names::shown(given),
        nearest: names::nearest(given, known.iter().copied()).map(str::to_owned),
        known: known.into_iter().map(str::to_owned).collect(),
    }
}
