//! Decides what a request may do.

mod complexity;
mod conduct;
mod limits;
mod role;
mod tools;

use neuraxis_core::{BudgetScope, Channel, Decision, Mode, Opening, PlanName};

use crate::budget::{self, Budget};

use crate::names;
use crate::policy::{PlanRules, Policy, opening};
use crate::request::{Request, RequestError};
use crate::rules::{ChannelRules, ModeRules};
use complexity::{Score, complexity};
use limits::Source;

impl Policy {
    /// Decides what a request may do: who serves it, which tools it is offered, what it may use, and why.
    ///
    /// The same request and policy always give the same decision.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] when mode, channel or plan do not exist, the channel may not be used in the mode, or no role
    /// that may serve has a model.
    pub fn evaluate_request(&self, request: &Request<'_>) -> Result<Decision, RequestError> {
        let (mode, channel) = (self.mode(request.mode)?, self.channel(request.channel)?);
        let plan = request.plan.map(|plan| self.plan(plan)).transpose()?;
        check_mode_allowed(channel, request)?;

        let complexity = Score::new(|| complexity(request.message, channel.complex_from));
        let role = self.choose_role(mode, channel, &complexity, request)?;
        let offer = self.offer_tools(mode, channel, request);
        let sources = [
            Some(Source {
                kind: "mode",
                name: request.mode.as_str(),
                limits: mode.limits,
            }),
            Some(Source {
                kind: "channel",
                name: request.channel.as_str(),
                limits: channel.limits,
            }),
            Some(Source {
                kind: "profile",
                name: channel.profile.name(),
                limits: channel.profile.limits(),
            }),
        ];
        let mut sources: Vec<Source<'_>> = sources.into_iter().flatten().collect();
        let mut spent = None;
        if let (Some(plan), Some(name)) = (plan, request.plan) {
            sources.push(Source {
                kind: "plan",
                name: name.as_str(),
                limits: plan.limits,
            });
            let scopes = [
                (
                    BudgetScope::Day,
                    "what is left today of plan",
                    plan.day.left(request.day_spent),
                ),
                (
                    BudgetScope::Session,
                    "what is left for the session of plan",
                    plan.session.left(request.session_spent),
                ),
            ];
            for (scope, kind, left) in scopes {
                spent = spent.or_else(|| {
                    left.exhausted()
                        .map(|measure| budget::spent(scope, measure))
                });
                if left != Budget::default() {
                    sources.push(Source {
                        kind,
                        name: name.as_str(),
                        limits: left.as_limits(),
                    });
                }
            }
        }

        let (mode_name, channel_name) = (request.mode.clone(), request.channel.clone());
        let mut decision = Decision::new(mode_name, channel_name, role.role, self.hash());
        decision.allowed_roles = role.allowed;
        decision.profile = channel.profile.name().to_owned();
        decision.tools = offer.tools;
        decision.max_output_tokens = mode.max_output_tokens;
        decision.temperature = mode.temperature;
        decision.reasons = role.reasons;
        decision.reasons.extend(offer.reasons);
        decision.limits = limits::tightest(&sources, &mut decision.reasons);
        explain_replies(&mut decision);
        conduct::decide(&mut decision, mode, channel, &complexity, request);
        decision.complexity = channel.simple_role.is_some().then(|| complexity.clone());
        if let Some(spent) = spent {
            decision
                .reasons
                .push(format!("No model is called: {}", spent.reply));
            decision.spent = Some(spent);
        }
        explain_opening(channel, &mut decision);
        Ok(decision)
    }

    fn mode(&self, given: &Mode) -> Result<&ModeRules, RequestError> {
        self.modes.get(given).ok_or_else(|| {
            let nearest = names::nearest(given.as_str(), self.modes().map(Mode::as_str));
            RequestError::UnknownMode {
                given: names::shown(given.as_str()),
                nearest: nearest.map(|name| Mode::new(name.to_owned())),
                known: self.modes().cloned().collect(),
            }
        })
    }

    fn channel(&self, given: &Channel) -> Result<&ChannelRules, RequestError> {
        self.channels.get(given).ok_or_else(|| {
            let nearest = names::nearest(given.as_str(), self.channels().map(Channel::as_str));
            RequestError::UnknownChannel {
                given: names::shown(given.as_str()),
                nearest: nearest.map(|name| Channel::new(name.to_owned())),
                known: self.channels().cloned().collect(),
            }
        })
    }

    fn plan(&self, given: &PlanName) -> Result<&PlanRules, RequestError> {
        self.plans.get(given).ok_or_else(|| {
            let nearest = names::nearest(given.as_str(), self.plans().map(PlanName::as_str));
            RequestError::UnknownPlan {
                given: names::shown(given.as_str()),
                nearest: nearest.map(|name| PlanName::new(name.to_owned())),
                known: self.plans().cloned().collect(),
            }
        })
    }
}

fn check_mode_allowed(channel: &ChannelRules, request: &Request<'_>) -> Result<(), RequestError> {
    match &channel.allowed_modes {
        Some(allowed) if !allowed.contains(request.mode) => Err(RequestError::ModeNotAllowed {
            channel: request.channel.clone(),
            mode: request.mode.clone(),
            allowed: allowed.clone(),
        }),
        _ => Ok(()),
    }
}

fn explain_replies(decision: &mut Decision) {
    if let Some(tokens) = decision.max_output_tokens {
        let reason = format!(
            "A reply has at most {tokens} tokens, set by mode {}.",
            decision.mode
        );
        decision.reasons.push(reason);
    }
    if let Some(temperature) = decision.temperature {
        let reason = format!(
            "The temperature is {temperature}, set by mode {}.",
            decision.mode
        );
        decision.reasons.push(reason);
    }
}

fn explain_opening(channel: &ChannelRules, decision: &mut Decision) {
    let Opening::Gather { tool, .. } = &channel.opening else {
        return;
    };
    decision
        .reasons
        .push(match opening(&channel.opening, decision) {
            Opening::Gather { role, .. } => {
                format!("It begins with role {role}, which chooses what {tool} gathers.")
            }
            Opening::Direct => format!("It begins directly, because {tool} is not on offer."),
        });
}
