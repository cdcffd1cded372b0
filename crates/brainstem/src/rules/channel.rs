//! A checked channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::{AgentName, DataPolicy, JsonText, Mode, Opening, Role};
use serde::de::IgnoredAny;

use super::{KnownNames, RoleRule, ToolPatterns, check_limits};
use crate::config::{
    ChannelConfig, ChannelModeConfig, Clarify, DataConfig, EscalationConfig, GatherConfig,
    OpeningConfig, PartialLimits, SelfChecks, UnlistedTools,
};
use crate::error::PolicyError;

/// The purpose of a channel, and what it offers.
#[derive(Debug, Clone)]
pub(crate) struct ChannelRules {
    pub(crate) role: Role,
    /// The agent that answers, unless a request asks for another.
    pub(crate) agent: AgentName,
    pub(crate) allowed_modes: Option<Vec<Mode>>,
    pub(crate) limits: PartialLimits,
    pub(crate) opening: Opening,
    /// The first instructions of its agent; none if empty.
    pub(crate) system_prompt: Option<Arc<str>>,
    pub(crate) simple_role: Option<Role>,
    pub(crate) complex_from: u32,
    pub(crate) router: Option<Role>,
    pub(crate) clarify: Clarify,
    pub(crate) self_check: SelfChecks,
    pub(crate) escalate: Option<Escalate>,
    pub(crate) data: DataPolicy,
    offer: OfferedTools,
    when: BTreeMap<Mode, ModeException>,
}

/// Which role takes over after failures.
#[derive(Debug, Clone)]
pub(crate) struct Escalate {
    pub(crate) role: Option<Role>,
    pub(crate) after_failures: u32,
    pub(crate) person: bool,
}

/// The default number of points from which a request is complex.
const COMPLEX_FROM: u32 = 4;

/// The default number of failures in a row after which another role takes over.
const AFTER_FAILURES: u32 = 2;

/// Which tools a channel offers.
#[derive(Debug, Clone)]
pub(crate) struct OfferedTools {
    pub(crate) tools: ToolPatterns,
    pub(crate) unlisted: UnlistedTools,
}

/// Settings that differ in one mode.
#[derive(Debug, Clone)]
struct ModeException {
    roles: Option<RoleRule>,
    offer: OfferedTools,
}

impl ChannelRules {
    /// Checks a channel. `meant` is the built-in channel that a misspelled name may refer to.
    pub(crate) fn check(
        at: &str,
        config: &ChannelConfig,
        known: &KnownNames,
        meant: Option<&str>,
    ) -> Result<Self, PolicyError> {
        let role_at = format!("{at}.role");
        let Some(role) = &config.role else {
            return Err(PolicyError::MissingRole {
                at: role_at,
                nearest: meant.map(str::to_owned),
            });
        };
        known.role(&role_at, role)?;
        let tools = config.tools.as_deref().unwrap_or_default();
        let offer = OfferedTools {
            tools: ToolPatterns::check(&format!("{at}.tools"), tools)?,
            unlisted: config.unlisted_tools.unwrap_or_default(),
        };
        Ok(Self {
            role: role.clone(),
            agent: check_agent(at, config.agent.as_ref(), known)?,
            allowed_modes: check_allowed_modes(at, config, known)?,
            limits: check_limits(at, config.limits())?,
            opening: check_opening(at, config.opening.as_ref(), &offer, known)?,
            system_prompt: config
                .system_prompt
                .as_deref()
                .map(str::trim)
                .map(Arc::from),
            simple_role: checked_role(at, "simple_role", config.simple_role.as_ref(), known)?,
            complex_from: config.complex_from.unwrap_or(COMPLEX_FROM),
            router: checked_role(at, "router", config.router.as_ref(), known)?,
            clarify: config.clarify.unwrap_or_default(),
            self_check: config.self_check.unwrap_or_default(),
            escalate: check_escalate(at, &config.escalate, known)?,
            data: data_policy(&config.data),
            when: check_exceptions(at, config, &offer, known)?,
            offer,
        })
    }

    /// Returns which tools the channel offers in a mode.
    pub(crate) fn offer(&self, mode: &Mode) -> &OfferedTools {
        self.when
            .get(mode)
            .map_or(&self.offer, |exception| &exception.offer)
    }

    /// Returns which roles may serve in a mode, if the channel sets them.
    pub(crate) fn roles(&self, mode: &Mode) -> Option<&RoleRule> {
        self.when
            .get(mode)
            .and_then(|exception| exception.roles.as_ref())
    }
}

fn checked_role(
    at: &str,
    key: &str,
    role: Option<&Role>,
    known: &KnownNames,
) -> Result<Option<Role>, PolicyError> {
    let check = |role: &Role| known.role(&format!("{at}.{key}"), role);
    role.map(check).transpose()?;
    Ok(role.cloned())
}

fn check_escalate(
    at: &str,
    config: &EscalationConfig,
    known: &KnownNames,
) -> Result<Option<Escalate>, PolicyError> {
    let at = format!("{at}.escalate");
    let role = checked_role(&at, "role", config.role.as_ref(), known)?;
    let person = config.person.unwrap_or_default();
    if role.is_none() && !person {
        if config.after_failures.is_some() {
            let remedy = "name a role, or set person to true";
            return Err(PolicyError::AllowsNothing {
                at,
                remedy,
                nearest: None,
            });
        }
        return Ok(None);
    }
    Ok(Some(Escalate {
        role,
        after_failures: config.after_failures.unwrap_or(AFTER_FAILURES).max(1),
        person,
    }))
}

pub(super) fn data_policy(config: &DataConfig) -> DataPolicy {
    DataPolicy {
        text: config.text.unwrap_or(true),
        tool_calls: config.tool_calls.unwrap_or(true),
        tool_results: config.tool_results.unwrap_or(true),
        reasoning: config.reasoning.unwrap_or(true),
    }
}

fn check_agent(
    at: &str,
    agent: Option<&AgentName>,
    known: &KnownNames,
) -> Result<AgentName, PolicyError> {
    let Some(agent) = agent else {
        return Ok(AgentName::MAIN_THREAD);
    };
    known.agent(&format!("{at}.agent"), agent)?;
    Ok(agent.clone())
}

fn check_allowed_modes(
    at: &str,
    config: &ChannelConfig,
    known: &KnownNames,
) -> Result<Option<Vec<Mode>>, PolicyError> {
    let Some(modes) = &config.allowed_modes else {
        return Ok(None);
    };
    let at = format!("{at}.allowed_modes");
    if modes.is_empty() {
        let remedy = "name a mode, or leave it out for all modes";
        return Err(PolicyError::AllowsNothing {
            at,
            remedy,
            nearest: None,
        });
    }
    modes.iter().try_for_each(|mode| known.mode(&at, mode))?;
    Ok(Some(modes.clone()))
}

fn check_exceptions(
    at: &str,
    config: &ChannelConfig,
    offer: &OfferedTools,
    known: &KnownNames,
) -> Result<BTreeMap<Mode, ModeException>, PolicyError> {
    let mut exceptions = BTreeMap::new();
    for (mode, exception) in &config.when {
        known.mode(&format!("{at}.when"), mode)?;
        let at = format!("{at}.when.{mode}");
        exceptions.insert(mode.clone(), check_exception(&at, exception, offer, known)?);
    }
    Ok(exceptions)
}

fn check_exception(
    at: &str,
    config: &ChannelModeConfig,
    offer: &OfferedTools,
    known: &KnownNames,
) -> Result<ModeException, PolicyError> {
    let roles = config.roles.as_ref();
    let roles = roles.map(|roles| RoleRule::check(&format!("{at}.roles"), roles, known));
    let tools = match &config.tools {
        Some(tools) => ToolPatterns::check(&format!("{at}.tools"), tools)?,
        None => offer.tools.clone(),
    };
    let unlisted = config.unlisted_tools.unwrap_or(offer.unlisted);
    Ok(ModeException {
        roles: roles.transpose()?,
        offer: OfferedTools { tools, unlisted },
    })
}

fn check_opening(
    at: &str,
    config: Option<&OpeningConfig>,
    offer: &OfferedTools,
    known: &KnownNames,
) -> Result<Opening, PolicyError> {
    let opening = opening_of(at, config, known)?;
    if let Opening::Gather { tool, .. } = &opening
        && !offer.tools.matches(tool)
    {
        return Err(PolicyError::OpeningToolNotListed {
            at: format!("{at}.opening.gather.tool"),
            tool: tool.to_string(),
        });
    }
    Ok(opening)
}

/// Checks an opening on its own.
pub(super) fn opening_of(
    at: &str,
    config: Option<&OpeningConfig>,
    known: &KnownNames,
) -> Result<Opening, PolicyError> {
    let Some(OpeningConfig::Gather(GatherConfig {
        role,
        tool,
        default_arguments,
    })) = config
    else {
        return Ok(Opening::Direct);
    };
    let at = format!("{at}.opening.gather");
    known.role(&format!("{at}.role"), role)?;
    check_object(default_arguments).map_err(|reason| PolicyError::OpeningArguments {
        at: format!("{at}.default_arguments"),
        reason,
    })?;
    Ok(Opening::Gather {
        role: role.clone(),
        tool: tool.clone(),
        default_arguments: default_arguments.clone(),
    })
}

fn check_object(text: &JsonText) -> Result<(), String> {
    let object = text.decode::<BTreeMap<String, IgnoredAny>>();
    object.map(drop).map_err(|error| error.to_string())
}
