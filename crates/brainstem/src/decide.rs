//! Decides what a request may do.

mod complexity;
mod conduct;
mod limits;
mod role;
mod tools;

use neuraxis_core::{
    AgentName, BudgetScope, Channel, Decision, Limits, Mode, Opening, PlanName, Spent, SpentBudget,
};

use crate::agents::begins;
use crate::budget;
use crate::names;
use crate::policy::{PlanRules, Policy, opening};
use crate::request::{Refusal, Request};
use crate::rules::{AgentRules, ChannelRules, ModeRules};
use complexity::{Score, complexity};
use limits::Source;
pub(crate) use tools::is_reader;

impl Policy {
    /// Decides what a request may do: which role serves it, which tools and limits it gets, and why.
    ///
    /// The same request and policy always give the same decision.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if the mode, channel, agent or plan does not exist, the channel may not be used in the mode, or no
    /// role that may serve has a model.
    pub fn evaluate_request(&self, request: &Request<'_>) -> Result<Decision, Refusal> {
        let (mode, channel) = (self.mode(request.mode)?, self.channel(request.channel)?);
        let agent_name = request.agent.unwrap_or(&channel.agent);
        let agent = self.agent_rules(agent_name)?;
        let plan = request.plan.map(|plan| self.plan(plan)).transpose()?;
        self.check_mode_allowed(channel, request)?;

        let complexity = Score::new(|| complexity(request.message, channel.complex_from));
        let role = self.choose_role(mode, channel, (agent_name, agent), &complexity, request)?;
        let offer = self.offer_tools(mode, channel, agent_name, request);
        let mut sources = vec![
            Source {
                kind: "mode",
                name: request.mode.as_str(),
                limits: mode.limits,
            },
            Source {
                kind: "channel",
                name: request.channel.as_str(),
                limits: channel.limits,
            },
            Source {
                kind: limits::AGENT,
                name: agent_name.as_str(),
                limits: agent.limits,
            },
        ];
        let plan = plan.zip(request.plan);
        let spent = plan.and_then(|(plan, name)| limits_of_plan(&mut sources, plan, name, request));

        let (mode_name, channel_name) = (request.mode.clone(), request.channel.clone());
        let mut decision = Decision::new(mode_name, channel_name, role.role, self.hash());
        decision.allowed_roles = role.allowed;
        decision.agent = request.agent.cloned();
        agent_name.as_str().clone_into(&mut decision.profile);
        decision.tools = offer.tools;
        decision.sub_agent_tools = offer.sub_agent_tools;
        decision.reasons = explain_agent_choice(request);
        decision.reasons.extend(role.reasons);
        decision.reasons.extend(offer.reasons);
        decision.limits = limits::tightest(&sources, &mut decision.reasons);
        decision.agent_limits = limits::agents(&sources, &mut decision.reasons);
        shape_replies(&mut decision, mode, (agent_name, agent));
        // A request that names its role does not ask a router for another one.
        decision.routing = match role.is_named {
            true => None,
            false => conduct::routing(channel, &decision),
        };
        conduct::decide(&mut decision, mode, channel, &complexity, request);
        decision.data = decision.data.and(agent.profile.data);
        let is_complexity_used = channel.simple_role.is_some() && !role.is_named;
        decision.complexity = is_complexity_used.then(|| complexity.clone());
        if let Some(spent) = spent {
            decision
                .reasons
                .push(format!("No model is called: {}", spent.reply));
            decision.spent = Some(spent);
        }
        explain_opening(
            begins(&channel.opening, &agent.profile.opening),
            &mut decision,
        );
        Ok(decision)
    }

    fn check_mode_allowed(
        &self,
        channel: &ChannelRules,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        match &channel.allowed_modes {
            Some(allowed) if !allowed.contains(request.mode) => Err(Refusal::ModeNotAllowed {
                channel: request.channel.clone(),
                mode: request.mode.clone(),
                allowed: self.modes_among(allowed),
            }),
            _ => Ok(()),
        }
    }

    fn mode(&self, given: &Mode) -> Result<&ModeRules, Refusal> {
        self.modes.get(given).ok_or_else(|| {
            let nearest = names::nearest(given.as_str(), self.modes().map(Mode::as_str));
            Refusal::UnknownMode {
                given: names::shown(given.as_str()),
                nearest: nearest.map(|name| Mode::new(name.to_owned())),
                known: self.modes().cloned().collect(),
            }
        })
    }

    fn channel(&self, given: &Channel) -> Result<&ChannelRules, Refusal> {
        self.channels.get(given).ok_or_else(|| {
            let nearest = names::nearest(given.as_str(), self.channels().map(Channel::as_str));
            Refusal::UnknownChannel {
                given: names::shown(given.as_str()),
                nearest: nearest.map(|name| Channel::new(name.to_owned())),
                known: self.channels().cloned().collect(),
            }
        })
    }

    fn agent_rules(&self, given: &AgentName) -> Result<&AgentRules, Refusal> {
        self.agents.get(given).ok_or_else(|| Refusal::UnknownAgent {
            given: names::shown(given.as_str()),
            nearest: self.nearest_agent(given.as_str()).cloned(),
            known: self.agents().cloned().collect(),
        })
    }

    fn plan(&self, given: &PlanName) -> Result<&PlanRules, Refusal> {
        self.plans.get(given).ok_or_else(|| {
            let nearest = names::nearest(given.as_str(), self.plans().map(PlanName::as_str));
            Refusal::UnknownPlan {
                given: names::shown(given.as_str()),
                nearest: nearest.map(|name| PlanName::new(name.to_owned())),
                known: self.plans().cloned().collect(),
            }
        })
    }
}

/// Adds the limits that a plan sets, and what is left of its budgets. Returns the budget that is used up, if any.
fn limits_of_plan<'a>(
    sources: &mut Vec<Source<'a>>,
    plan: &PlanRules,
    name: &'a PlanName,
    request: &Request<'_>,
) -> Option<SpentBudget> {
    let mut spent = None;
    sources.push(Source {
        kind: "plan",
        name: name.as_str(),
        limits: plan.limits,
    });
    // If nothing was used, or usage was not looked up, the whole budget is available.
    let scopes = [
        (
            BudgetScope::Day,
            [
                "the daily budget of plan",
                "what is left of today's budget of plan",
            ],
            (plan.day, request.day_spent),
        ),
        (
            BudgetScope::Session,
            [
                "the session budget of plan",
                "what is left of the session budget of plan",
            ],
            (plan.session, request.session_spent),
        ),
    ];
    for (scope, [whole, rest], (most, used)) in scopes {
        let left = most.left(used);
        let kind = if used == Spent::NONE { whole } else { rest };
        spent = spent.or_else(|| {
            left.exhausted()
                .map(|measure| budget::spent(scope, measure))
        });
        if left != Limits::NONE {
            sources.push(Source {
                kind,
                name: name.as_str(),
                limits: left.into(),
            });
        }
    }
    spent
}

fn explain_agent_choice(request: &Request<'_>) -> Vec<String> {
    let requested = request.agent;
    let sentence = |agent| format!("Agent {agent} answers, because the request asks for it.");
    requested.map(sentence).into_iter().collect()
}

/// Decides how long replies may be and which temperature they are generated with.
fn shape_replies(
    decision: &mut Decision,
    mode: &ModeRules,
    (name, agent): (&AgentName, &AgentRules),
) {
    let agent_limit = agent.max_output_tokens;
    let is_set_by_agent =
        agent_limit.is_some_and(|own| mode.max_output_tokens.is_none_or(|most| own < most));
    let set_by = |is_set_by_agent| match is_set_by_agent {
        true => format!("agent {name}"),
        false => format!("mode {}", decision.mode),
    };
    let tokens = if is_set_by_agent {
        agent_limit
    } else {
        mode.max_output_tokens
    };
    let mut reasons = Vec::new();
    if let Some(tokens) = tokens {
        let by = set_by(is_set_by_agent);
        reasons.push(format!("A reply has at most {tokens} tokens, set by {by}."));
    }
    let temperature = agent.temperature.or(mode.temperature);
    if let Some(temperature) = temperature {
        let by = set_by(agent.temperature.is_some());
        reasons.push(format!("The temperature is {temperature}, set by {by}."));
    }
    decision.max_output_tokens = tokens;
    decision.temperature = temperature;
    decision.reasons.extend(reasons);
}

fn explain_opening(begins: &Opening, decision: &mut Decision) {
    let Opening::Gather { tool, .. } = begins else {
        return;
    };
    decision.reasons.push(match opening(begins, decision) {
        Opening::Gather { role, .. } => {
            format!("The run begins with role {role}, which chooses what {tool} gathers.")
        }
        Opening::Direct => format!("The run begins directly, because {tool} is not offered."),
    });
}
