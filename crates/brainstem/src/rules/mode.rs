//! A checked mode, and which roles may serve.

use std::time::Duration;

use neuraxis_core::{Remember, Role, ToolAnnotations, ToolClass, ToolSpec};

use super::limits::{check_temperature, check_tool_retries, is_zero};
use super::{KnownNames, check_limits, no_zero};
use crate::config::{ModeConfig, PartialLimits, Permission, ToolAnswersConfig};
use crate::error::PolicyError;

/// The default number of retries of a failed call.
const DEFAULT_TOOL_RETRIES: u32 = 1;

/// What a mode allows.
#[derive(Debug, Clone)]
pub(crate) struct ModeRules {
    pub(crate) roles: RoleRule,
    pub(crate) tools: ToolAnswers,
    pub(crate) limits: PartialLimits,
    pub(crate) temperature: Option<f32>,
    pub(crate) max_output_tokens: Option<u32>,
    /// The minimum answer to calls that write or reach out once there is untrusted content.
    pub(crate) after_untrusted: Permission,
    pub(crate) remember: Remember,
    pub(crate) approval_expires: Option<Duration>,
    pub(crate) tool_retries: u32,
}

impl ModeRules {
    /// Checks a mode. `meant` is the built-in mode that a misspelled name may refer to.
    pub(crate) fn check(
        at: &str,
        config: &ModeConfig,
        known: &KnownNames,
        meant: Option<&str>,
    ) -> Result<Self, PolicyError> {
        let roles = match &config.roles {
            Some(roles) => RoleRule::check(&format!("{at}.roles"), roles, known)?,
            None => RoleRule::Any,
        };
        let tools = ToolAnswers::new(&config.tools);
        if tools.deny_all() {
            return Err(PolicyError::AllowsNothing {
                at: format!("{at}.tools"),
                remedy: "set read_only, idempotent or irreversible to \"allow\" or \"ask\"",
                nearest: meant.map(str::to_owned),
            });
        }
        check_temperature(at, config.temperature)?;
        let expires_at_once = config.approval_expires.is_some_and(is_zero);
        no_zero(at, &[("approval_expires", expires_at_once, "1ms")])?;
        check_tool_retries(at, config.tool_retries)?;
        let no_tokens = config.max_output_tokens == Some(0);
        no_zero(at, &[("max_output_tokens", no_tokens, "1")])?;
        Ok(Self {
            roles,
            tools,
            limits: check_limits(at, config.limits())?,
            temperature: config.temperature,
            max_output_tokens: config.max_output_tokens,
            after_untrusted: config.after_untrusted.unwrap_or(Permission::Ask),
            remember: config.remember.unwrap_or_default(),
            approval_expires: config.approval_expires,
            tool_retries: config.tool_retries.unwrap_or(DEFAULT_TOOL_RETRIES),
        })
    }
}

/// A mode's answers about tools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolAnswers {
    read_only: Permission,
    idempotent: Permission,
    irreversible: Permission,
    open_world: Permission,
    destructive: Permission,
}

impl ToolAnswers {
    /// Treats omitted answers as denials: a mode that forgets something must not allow it.
    pub(crate) fn new(config: &ToolAnswersConfig) -> Self {
        let answer = |given: Option<Permission>| given.unwrap_or(Permission::Deny);
        Self {
            read_only: answer(config.read_only),
            idempotent: answer(config.idempotent),
            irreversible: answer(config.irreversible),
            open_world: answer(config.open_world),
            destructive: answer(config.destructive),
        }
    }

    fn deny_all(&self) -> bool {
        [self.read_only, self.idempotent, self.irreversible]
            .iter()
            .all(|answer| *answer == Permission::Deny)
    }

    /// Returns the strictest answer to any property of a tool.
    pub(crate) fn answer(&self, tool: &ToolSpec) -> Permission {
        let applying = self.applying(tool.class, tool.annotations);
        let answers = applying.map(|(answer, _)| answer);
        // Every tool has a class, so there always is an answer; without one, the call would be denied.
        answers.max().unwrap_or(Permission::Deny)
    }

    /// Returns the properties of a tool of this class, and with these hints, that lead to the given answer: what it
    /// does or may do.
    pub(crate) fn causes(
        &self,
        class: ToolClass,
        annotations: ToolAnnotations,
        answer: Permission,
    ) -> impl Iterator<Item = &'static str> {
        let applying = self.applying(class, annotations);
        applying.filter_map(move |(other, clause)| (other == answer).then_some(clause))
    }

    fn applying(
        &self,
        class: ToolClass,
        annotations: ToolAnnotations,
    ) -> impl Iterator<Item = (Permission, &'static str)> {
        let class = match class {
            ToolClass::ReadOnly => (self.read_only, "reads"),
            ToolClass::Idempotent => (self.idempotent, "changes something"),
            ToolClass::Irreversible => (self.irreversible, "may change something permanently"),
        };
        let open_world = (self.open_world, "reaches outside this machine");
        let destructive = (self.destructive, "may destroy something");
        [
            Some(class),
            annotations.open_world.then_some(open_world),
            annotations.destructive.then_some(destructive),
        ]
        .into_iter()
        .flatten()
    }
}

/// Stands for all roles.
const ALL_ROLES: &str = "*";

/// Which roles may serve.
#[derive(Debug, Clone)]
pub(crate) enum RoleRule {
    /// Every role of the policy.
    Any,
    /// The roles that are listed.
    Only(Vec<Role>),
}

impl RoleRule {
    pub(crate) fn check(at: &str, roles: &[Role], known: &KnownNames) -> Result<Self, PolicyError> {
        if roles.is_empty() {
            return Err(PolicyError::AllowsNothing {
                at: at.to_owned(),
                remedy: "name a role, or \"*\" for all",
                nearest: None,
            });
        }
        if roles.iter().any(|role| role.as_str() == ALL_ROLES) {
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
