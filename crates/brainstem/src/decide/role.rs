//! Chooses the role that serves a request.

use neuraxis_core::Role;

use crate::names::Listed;
use crate::policy::Policy;
use crate::request::{Request, RequestError};
use crate::rules::{ChannelRules, ModeRules, RoleRule};

/// The order in which roles stand in for one another; others come after these.
const FALLBACK: [Role; 3] = [Role::REASONING, Role::ROUTER, Role::CODING];

/// The role that serves, all that may serve with that one first, and why.
pub(super) struct RoleChoice {
    pub(super) role: Role,
    pub(super) allowed: Vec<Role>,
    pub(super) reasons: Vec<String>,
}

impl Policy {
    pub(super) fn choose_role(
        &self,
        mode: &ModeRules,
        channel: &ChannelRules,
        request: &Request<'_>,
    ) -> Result<RoleChoice, RequestError> {
        let rule = channel.roles(request.mode).unwrap_or(&mode.roles);
        let mut allowed = self.serving_roles(rule, request.roles);
        let wanted = allowed.iter().find(|role| **role == channel.role);
        let Some(role) = wanted.or(allowed.first()).cloned() else {
            return Err(RequestError::NoRole {
                channel: request.channel.clone(),
                mode: request.mode.clone(),
                allowed: self.serving_roles(rule, None),
                configured: request.roles.unwrap_or_default().to_vec(),
            });
        };
        let mut reasons = vec![explain(&role, rule, channel, request)];
        allowed.retain(|other| *other != role);
        if !allowed.is_empty() {
            reasons.push(format!("Others may stand in for it: {}.", Listed(&allowed)));
        }
        allowed.insert(0, role.clone());
        Ok(RoleChoice {
            role,
            allowed,
            reasons,
        })
    }

    /// Returns the roles that may serve and have a model, in the order in which they stand in for one another.
    fn serving_roles(&self, rule: &RoleRule, configured: Option<&[Role]>) -> Vec<Role> {
        let there_are = configured.unwrap_or(&self.roles);
        let others = there_are.iter().filter(|role| !FALLBACK.contains(role));
        let in_order = FALLBACK
            .iter()
            .filter(|role| there_are.contains(role))
            .chain(others);
        in_order.filter(|role| rule.allows(role)).cloned().collect()
    }
}

fn explain(role: &Role, rule: &RoleRule, channel: &ChannelRules, request: &Request<'_>) -> String {
    let (wanted, name) = (&channel.role, request.channel);
    if role == wanted {
        return format!("Role {role} serves, set by channel {name}.");
    }
    let why = if rule.allows(wanted) {
        "has no model".to_owned()
    } else {
        format!("may not serve in mode {}", request.mode)
    };
    format!("Role {role} serves, because role {wanted}, set by channel {name}, {why}.")
}
