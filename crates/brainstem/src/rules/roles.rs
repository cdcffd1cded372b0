//! Which roles may serve.

use neuraxis_core::Role;

use super::Known;
use crate::error::PolicyError;

/// Stands for all roles.
const ALL: &str = "*";

/// Which roles may serve.
#[derive(Debug, Clone)]
pub(crate) enum RoleRule {
    /// All there are.
    Any,
    /// These.
    Only(Vec<Role>),
}

impl RoleRule {
    pub(crate) fn check(at: &str, roles: &[Role], known: &Known) -> Result<Self, PolicyError> {
        if roles.is_empty() {
            return Err(PolicyError::AllowsNothing {
                at: at.to_owned(),
                remedy: "name a role, or \"*\" for all",
                nearest: None,
            });
        }
        if roles.iter().any(|role| role.as_str() == ALL) {
            return Ok(Self::Any);
        }
        roles.iter().try_for_each(|role| known.role(at, role))?;
        Ok(Self::Only(roles.to_vec()))
    }

    pub(crate) fn allows(&self, role: &Role) -> bool {
        match self {
            Self::Any => true,
            Self::Only(roles) => roles.contains(role),
        }
    }
}
