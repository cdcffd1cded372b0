//! Decides what a request may do.

mod limits;
mod role;
mod tools;

use neuraxis_core::{Channel, Decision, Mode, Opening, PlanName};

use crate::names;
use crate::policy::{Policy, opening};
use crate::request::{Request, RequestError};
use crate::rules::{ChannelRules, ModeRules};
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

        let role = self.choose_role(mode, channel, request)?;
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
            plan,
        ];
        let sources: Vec<Source<'_>> = sources.into_iter().flatten().collect();

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

    fn plan<'a>(&self, given: &'a PlanName) -> Result<Source<'a>, RequestError> {
        let limits = self.plans.get(given).ok_or_else(|| {
            let nearest = names::nearest(given.as_str(), self.plans().map(PlanName::as_str));
            RequestError::UnknownPlan {
                given: names::shown(given.as_str()),
                nearest: nearest.map(|name| PlanName::new(name.to_owned())),
                known: self.plans().cloned().collect(),
            }
        })?;
        Ok(Source {
            kind: "plan",
            name: given.as_str(),
            limits: *limits,
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
