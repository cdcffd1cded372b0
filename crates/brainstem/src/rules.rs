//! The configuration once it is checked: what it says is complete, and all it names exists.

mod channel;
mod limits;
mod mode;
mod patterns;
mod roles;

use neuraxis_core::{Mode, Role};

pub(crate) use channel::ChannelRules;
pub(crate) use limits::check as check_limits;
pub(crate) use mode::ModeRules;
pub(crate) use patterns::ToolPatterns;
pub(crate) use roles::RoleRule;

use crate::error::PolicyError;
use crate::names;

/// What the parts of a policy may refer to.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) roles: Vec<Role>,
    pub(crate) modes: Vec<Mode>,
}

impl Known {
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
