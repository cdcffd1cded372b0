//! Chooses the role that serves a request.

use std::fmt;

use neuraxis_core::{AgentName, Complexity, Role};

use crate::decide::complexity::Score;
use crate::names::Listed;
use crate::policy::Policy;
use crate::request::{Refusal, Request};
use crate::rules::{AgentRules, ChannelRules, ModeRules, RoleRule};

/// The role that serves, all roles that may serve (that one first), and the reasons.
pub(super) struct RoleChoice {
    pub(super) role: Role,
    pub(super) allowed: Vec<Role>,
    pub(super) reasons: Vec<String>,
    /// Whether the request or the agent names this role, in which case no router is asked for another.
    pub(super) is_named: bool,
}

impl Policy {
    pub(super) fn choose_role(
        &self,
        mode: &ModeRules,
        channel: &ChannelRules,
        (name, agent): (&AgentName, &AgentRules),
        complexity: &Score<impl FnOnce() -> Complexity>,
        request: &Request<'_>,
    ) -> Result<RoleChoice, Refusal> {
        let rule = channel.roles(request.mode).unwrap_or(&mode.roles);
        let mut allowed = self.serving_roles(rule, request.roles);
        allowed.retain(|role| self.is_open_to(role, name));
        let Some(first) = allowed.first() else {
            return Err(Refusal::NoRole {
                channel: request.channel.clone(),
                mode: request.mode.clone(),
                allowed: self.serving_roles(rule, None),
                configured: request.roles.unwrap_or_default().to_vec(),
            });
        };
        let agent_role = agent.role.as_ref().map(|role| PreferredRole {
            role,
            set_by: format!("agent {name}"),
            scored: None,
        });
        let is_set_by_agent = agent_role
            .as_ref()
            .is_some_and(|it| allowed.contains(it.role));
        let mut reasons = Vec::new();
        let role = match (request.role, agent_role) {
            (Some(asked), _) if allowed.contains(asked) => {
                reasons.push(format!(
                    "Role {asked} serves, because the request asks for it."
                ));
                asked.clone()
            }
            (Some(asked), _) => {
                let asked = asked.clone();
                return Err(Refusal::RoleNotAllowed { asked, allowed });
            }
            (None, agent_role) => {
                let (preferred, missed) = match agent_role {
                    Some(preferred) if is_set_by_agent => (preferred, None),
                    missed => (PreferredRole::of(channel, complexity, request), missed),
                };
                let wanted = allowed.iter().find(|role| *role == preferred.role);
                let role = wanted.unwrap_or(first).clone();
                reasons.extend(missed.map(|missed| missed.explain(&role, rule, request)));
                reasons.push(preferred.explain(&role, rule, request));
                role
            }
        };
        reasons.extend(missed_turns(agent, &allowed, &role, rule, request));
        allowed.retain(|other| *other != role);
        if !allowed.is_empty() {
            reasons.push(format!("Fallback roles: {}.", Listed(&allowed)));
        }
        allowed.insert(0, role.clone());
        Ok(RoleChoice {
            role,
            allowed,
            reasons,
            is_named: request.role.is_some() || is_set_by_agent,
        })
    }

    /// Returns the roles that may serve and have a model, in the order in which they replace one another.
    fn serving_roles(&self, rule: &RoleRule, configured: Option<&[Role]>) -> Vec<Role> {
        let available = configured.unwrap_or(&self.roles);
        let others = available
            .iter()
            .filter(|role| !Role::BUILT_IN.contains(role));
        let in_order = Role::BUILT_IN
            .iter()
            .filter(|role| available.contains(role))
            .chain(others);
        in_order.filter(|role| rule.allows(role)).cloned().collect()
    }
}

/// Returns a reason for each role that the agent names for single turns but that does not serve them.
fn missed_turns(
    agent: &AgentRules,
    allowed: &[Role],
    serves: &Role,
    rule: &RoleRule,
    request: &Request<'_>,
) -> Vec<String> {
    let roles = &agent.profile.roles;
    let turns = [
        ("first_role", &roles.first),
        ("after_calls_role", &roles.after_calls),
    ];
    let named = turns
        .into_iter()
        .filter_map(|(key, role)| Some((key, role.as_ref()?)));
    let missed = named.filter(|(_, role)| !allowed.contains(role));
    let sentences = missed.map(|(key, role)| {
        let why = why_not(role, rule, request);
        format!("Role {serves} also serves the turns that {key} is for, because role {role} {why}.")
    });
    sentences.collect()
}

/// Returns why a role does not serve, worded as the end of a sentence.
fn why_not(role: &Role, rule: &RoleRule, request: &Request<'_>) -> String {
    if rule.allows(role) {
        "has no model".to_owned()
    } else {
        format!("may not serve in mode {}", request.mode)
    }
}

/// The role that serves if it may and can, and the reason for choosing it.
struct PreferredRole<'a> {
    role: &'a Role,
    /// What names the role, such as `channel chat`.
    set_by: String,
    /// The request's score, if the channel has a separate role for simple requests.
    scored: Option<&'a Complexity>,
}

impl<'a> PreferredRole<'a> {
    fn of(
        channel: &'a ChannelRules,
        complexity: &'a Score<impl FnOnce() -> Complexity>,
        request: &Request<'_>,
    ) -> Self {
        let set_by = format!("channel {}", request.channel);
        let Some(simple) = &channel.simple_role else {
            return Self {
                role: &channel.role,
                set_by,
                scored: None,
            };
        };
        let scored: &Complexity = complexity;
        let role = if scored.is_complex() {
            &channel.role
        } else {
            simple
        };
        Self {
            role,
            set_by,
            scored: Some(scored),
        }
    }

    fn explain(&self, role: &Role, rule: &RoleRule, request: &Request<'_>) -> String {
        let Self {
            role: wanted,
            set_by,
            scored,
        } = self;
        if role == *wanted {
            let requests = scored.map_or_else(String::new, |scored| {
                let (kind, limit) = kind_and_limit(scored);
                let (score, points) = (scored.score, Points(scored, " (", ")"));
                format!(" for {kind} requests: {score} points{points}, {limit}")
            });
            return format!("Role {role} serves, set by {set_by}{requests}.");
        }
        let names = scored.map_or_else(
            || "names".to_owned(),
            |scored| {
                let (kind, limit) = kind_and_limit(scored);
                let (score, points) = (scored.score, Points(scored, ": ", ""));
                format!("sends {kind} requests ({score} points, {limit}{points}) to")
            },
        );
        let why = why_not(wanted, rule, request);
        format!("Role {role} serves: {set_by} {names} role {wanted}, which {why}.")
    }
}

/// Returns the kind of a request with this score, and the limit of that kind.
fn kind_and_limit(scored: &Complexity) -> (&'static str, String) {
    let threshold = scored.threshold;
    if scored.is_complex() {
        ("complex", format!("at least {threshold}"))
    } else {
        ("simple", format!("fewer than {threshold}"))
    }
}

/// Displays what scored points, between two texts, or nothing if nothing did.
struct Points<'a>(&'a Complexity, &'static str, &'static str);

impl fmt::Display for Points<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(complexity, before, after) = self;
        for (index, feature) in complexity.features.iter().enumerate() {
            let before = if index == 0 { *before } else { ", " };
            write!(f, "{before}{} {}", feature.name, feature.points)?;
        }
        if complexity.features.is_empty() {
            Ok(())
        } else {
            f.write_str(after)
        }
    }
}
