//! Checks names that one section defines and another must know: roles with a model, the plan and the modes of the
//! server, and tools.

use neuraxis_brainstem::{Policy, PolicyError, nearest};
use neuraxis_core::{Mode, PlanName, Role, SERVER_SEPARATOR, ToolName};
use neuraxis_engine::RESERVED_TOOL_NAMES;

use super::Layers;
use super::error::ConfigError;
use super::mcp::McpConfig;
use super::origin::Origin;
use super::sections::{Sections, ServerConfig};
use crate::commands::RUN_COMMAND;
use crate::names::{Choices, shown};
use crate::prompts::invalid_name;
use crate::web::SEARCH;

/// Checks that the names of roles are usable in variables.
pub(super) fn check_roles(sections: &Sections, layers: &Layers) -> Result<(), ConfigError> {
    let may_stand_in_variables =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_name =
        |name: &str| (1..=64).contains(&name.len()) && name.bytes().all(may_stand_in_variables);
    let mut roles = sections.models.keys();
    match roles.find(|role| !is_name(role.as_str())) {
        None => Ok(()),
        Some(role) => {
            let message =
                "a role's name must be 1 to 64 characters from A-Z a-z 0-9 _ -".to_owned();
            Err(layers.invalid_at(&format!("models.{role}"), message))
        }
    }
}

/// Checks that prompts have names that can be typed after a slash.
pub(super) fn check_prompts(sections: &Sections, layers: &Layers) -> Result<(), ConfigError> {
    match invalid_name(sections.prompts.keys()) {
        None => Ok(()),
        Some(name) => {
            let message = format!("invalid prompt name \"{name}\": use letters, digits, _ and -");
            Err(layers.invalid_at("prompts", message))
        }
    }
}

/// Checks that the policy names each role that has a model, or that its name is at least not a typo. Returns a sentence
/// for each role that nothing names, since an embedding program may still ask for it.
pub(super) fn check_use<'a>(
    roles: impl Iterator<Item = &'a Role>,
    policy: &Policy,
    layers: &Layers,
) -> Result<Vec<String>, ConfigError> {
    let mut notices = Vec::new();
    for role in
        roles.filter(|role| !Role::BUILT_IN.contains(role) && !policy.config().names_role(role))
    {
        let key = format!("models.{role}");
        if let Some(meant) = nearest(role.as_str(), Role::BUILT_IN.iter().map(Role::as_str)) {
            let message = format!(
                "no mode, channel or agent names the role {role}, so its model would never be used (did you mean {meant}?)"
            );
            return Err(layers.invalid_at(&key, message));
        }
        let at = layers.origin_around(&key);
        notices.push(format!(
            "{at:#}: no mode, channel or agent names the role {role}: its model is used only if it is chosen \
             explicitly, such as with -m, or if no other role has a model or others fail"
        ));
    }
    Ok(notices)
}

/// Checks that the server's plan exists.
pub(super) fn check_plan(
    server: &ServerConfig,
    policy: &Policy,
    layers: &Layers,
) -> Result<(), ConfigError> {
    let Some(plan) = server.plan.as_ref() else {
        return Ok(());
    };
    let given = plan.as_str();
    let known: Vec<&str> = policy.plans().map(PlanName::as_str).collect();
    if known.contains(&given) {
        return Ok(());
    }
    let known = known.as_slice();
    let choices = match known.is_empty() {
        true => "; define one with [plans.NAME]".to_owned(),
        false => Choices { given, known }.to_string(),
    };
    let message = format!("unknown plan \"{}\"{choices}", shown(given));
    Err(layers.invalid_at("server.plan", message))
}

/// Checks that the modes that clients of the server may choose exist.
pub(super) fn check_modes(
    server: &ServerConfig,
    policy: &Policy,
    layers: &Layers,
) -> Result<(), ConfigError> {
    let Some(modes) = server.modes.as_ref() else {
        return Ok(());
    };
    if modes.is_empty() {
        let message = "it must name a mode, or no client could send a request".to_owned();
        return Err(layers.invalid_at("server.modes", message));
    }
    let known: Vec<&str> = policy.modes().map(Mode::as_str).collect();
    let Some(unknown) = modes.iter().find(|mode| !known.contains(&mode.as_str())) else {
        return Ok(());
    };
    let (given, known) = (unknown.as_str(), known.as_slice());
    let choices = Choices { given, known };
    let message = format!("unknown mode \"{}\"{choices}", shown(given));
    Err(layers.invalid_at("server.modes", message))
}

/// The policy's settings for tools that do not exist.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AbsentTools {
    /// Names that may belong to a tool which is not available now, and names from untrusted files: each with its
    /// location, and a notice for the user.
    pub notices: Vec<(Origin, String)>,
    /// Names that are most likely typos.
    pub faults: Vec<PolicyError>,
}

/// Finds the policy's settings for tools that do not exist: a rule with a typo protects nothing.
pub(super) fn absent_tools(
    policy: &Policy,
    layers: &Layers,
    mcp: &McpConfig,
    tools: &[ToolName],
) -> AbsentTools {
    let started = policy.agent_tools().into_iter().map(|tool| tool.name);
    let tools: Vec<ToolName> = tools.iter().cloned().chain(started).collect();
    // A pattern that matches one of these names is not a typo, even without a search service or a sandbox.
    let without = |name: &str| {
        let name = name.parse::<ToolName>().ok();
        let others: Vec<ToolName> = tools.iter().cloned().chain(name).collect();
        policy.unknown_tools(&others)
    };
    let (without_search, without_commands) = (without(SEARCH), without(RUN_COMMAND));
    let is_among = |faults: &[PolicyError], fault: &PolicyError| {
        let mut faults = faults.iter();
        faults.any(|other| named_by(other) == named_by(fault))
    };
    let mut absent = AbsentTools::default();
    for fault in policy.unknown_tools(&tools) {
        let Some((key, pattern)) = named_by(&fault) else {
            continue;
        };
        let why = if let Some((server, _)) = pattern.split_once(SERVER_SEPARATOR) {
            match mcp.servers.get(server) {
                Some(section) if section.enabled => {
                    let own = format!("{server}{SERVER_SEPARATOR}");
                    let answered = tools.iter().any(|tool| tool.as_str().starts_with(&own));
                    match answered {
                        true => {
                            format!(
                                "{key}: MCP server {server} currently offers no tool \"{pattern}\""
                            )
                        }
                        false => format!(
                            "{key}: MCP server {server} has not reported whether it offers \"{pattern}\""
                        ),
                    }
                }
                _ => format!("{key}: no configured server has \"{pattern}\""),
            }
        } else if !is_among(&without_search, &fault) {
            format!("{key}: there is no tool {pattern} unless [web.search] names a service")
        } else if !is_among(&without_commands, &fault) {
            format!(
                "{key}: there is no tool {pattern}, since nothing can confine commands here (`tools.commands` can let them run)"
            )
        } else if layers.is_untrusted(key) {
            fault.to_string()
        } else {
            absent.faults.push(fault);
            continue;
        };
        absent.notices.push((layers.origin_around(key), why));
    }
    absent
}

/// Returns the key and the pattern of a name that matches no tool.
fn named_by(fault: &PolicyError) -> Option<(&str, &str)> {
    match fault {
        PolicyError::UnknownTool { at, pattern, .. } => Some((at.as_str(), pattern.as_str())),
        _ => None,
    }
}

/// Checks that the policy names only tools that exist, or may exist in the future. Returns a sentence for each that
/// does not exist now.
pub(super) fn check_tools(
    policy: &Policy,
    layers: &Layers,
    mcp: &McpConfig,
    tools: &[ToolName],
) -> Result<Vec<String>, ConfigError> {
    let AbsentTools { notices, faults } = absent_tools(policy, layers, mcp, tools);
    if let Some(fault) = faults.into_iter().next() {
        return Err(layers.policy_fault(fault));
    }
    let notices = notices.into_iter();
    Ok(notices.map(|(at, why)| format!("{at}: {why}")).collect())
}

/// Checks that every agent which others may call can be called: no tool may have the name of the one that starts it.
pub(super) fn check_agents(
    policy: &Policy,
    layers: &Layers,
    tools: &[ToolName],
) -> Result<(), ConfigError> {
    let reserved = RESERVED_TOOL_NAMES.into_iter();
    let reserved = reserved.filter_map(|name| name.parse().ok());
    let taken: Vec<ToolName> = tools.iter().cloned().chain(reserved).collect();
    let hidden = policy.hidden_agents(&taken).into_iter().next();
    hidden.map_or(Ok(()), |fault| Err(layers.policy_fault(fault)))
}
