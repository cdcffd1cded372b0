//! Which models fail, and which role serves instead until they recover.

use std::collections::BTreeMap;
use std::time::Duration;

use neuraxis_core::jiff::{SignedDuration, Timestamp};
use neuraxis_core::{Decision, LlmErrorKind, Role};
use serde::{Deserialize, Serialize};

use crate::config::HealthConfig;
use crate::error::PolicyError;
use crate::policy::Policy;
use crate::rules::no_zero;

/// How a model call ended, as far as it concerns the health of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// With a reply, or with an error that does not concern the model's health.
    Served,
    /// Without a reply within its time limit.
    TimedOut,
    /// The server failed or could not be reached.
    Failed,
}

impl CallOutcome {
    /// Returns what an error says about the health of its model.
    #[must_use]
    pub const fn of(error: &LlmErrorKind) -> Self {
        match error {
            LlmErrorKind::Timeout => Self::TimedOut,
            LlmErrorKind::Connection | LlmErrorKind::Server { .. } | LlmErrorKind::Incomplete => {
                Self::Failed
            }
            _ => Self::Served,
        }
    }
}

/// The known health of all models. Plain data; [`Policy::observe`] and [`Policy::serving`] change it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Health {
    roles: BTreeMap<Role, RoleHealth>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RoleHealth {
    failures: u32,
    first_failure: Timestamp,
    last: CallOutcome,
    /// How many times in a row it was degraded.
    times: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    degraded: Option<Degradation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Degradation {
    since: Timestamp,
    until: Timestamp,
    /// When a call was let through to check whether it works again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    probed: Option<Timestamp>,
}

/// A role whose calls other roles serve for the time being.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DegradedRole {
    /// The role whose own model is not asked.
    pub role: Role,
    /// When its model was last seen failing often enough.
    pub since: Timestamp,
    /// The time from which one call may check whether it works again.
    pub until: Timestamp,
    /// What was wrong, as a sentence for users.
    pub reason: String,
}

/// The role that serves a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The role whose model is asked.
    pub role: Role,
    /// Whether this call probes a degraded role. Its outcome must be observed like that of any other call; if it has
    /// none, the probe must be [abandoned](Health::abandon_probe).
    pub is_probe: bool,
    /// Why this is not the role that was decided on.
    pub reason: Option<String>,
}

/// When a model is considered failing, with all defaults filled in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HealthRules {
    failures: u32,
    window: Duration,
    degraded_for: Duration,
    degraded_at_most: Duration,
}

impl HealthRules {
    pub(crate) fn check(config: &HealthConfig) -> Result<Self, PolicyError> {
        let rules = Self {
            failures: config.failures.unwrap_or(3),
            window: config.window.unwrap_or(Duration::from_secs(120)),
            degraded_for: config.degraded_for.unwrap_or(Duration::from_secs(30)),
            degraded_at_most: config.degraded_at_most.unwrap_or(Duration::from_secs(600)),
        };
        no_zero(
            "health",
            &[
                ("failures", rules.failures == 0, "1"),
                ("window", rules.window.is_zero(), "1ms"),
                ("degraded_for", rules.degraded_for.is_zero(), "1ms"),
            ],
        )?;
        if rules.degraded_at_most < rules.degraded_for {
            return Err(PolicyError::Contradiction {
                at: "health.degraded_at_most".to_owned(),
                why: "it is shorter than degraded_for",
            });
        }
        Ok(rules)
    }

    /// Returns how long a role stays degraded. Doubles with each time in a row.
    fn period(&self, times: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(times.saturating_sub(1));
        self.degraded_for
            .saturating_mul(doubled)
            .min(self.degraded_at_most)
    }
}

impl Health {
    /// Lets another call probe a degraded role, after a probe ended without an outcome to observe, for example because
    /// it was cancelled. Does nothing once an outcome was observed.
    pub fn abandon_probe(&mut self, role: &Role) {
        let health = self.roles.get_mut(role);
        if let Some(degraded) = health.and_then(|health| health.degraded.as_mut()) {
            degraded.probed = None;
        }
    }

    /// Returns the roles whose calls other roles serve for the time being, with the reasons.
    pub fn degraded(&self) -> impl Iterator<Item = DegradedRole> + '_ {
        self.roles.iter().filter_map(|(role, health)| {
            let degraded = health.degraded?;
            let what = match health.last {
                CallOutcome::TimedOut => "did not answer in time",
                CallOutcome::Failed | CallOutcome::Served => "failed",
            };
            Some(DegradedRole {
                role: role.clone(),
                since: degraded.since,
                until: degraded.until,
                reason: format!("its model {what} {} times", health.failures),
            })
        })
    }
}

impl Policy {
    /// Records how a call that `role` served ended, and how long it took.
    ///
    /// The configured number of failures in a row within the window degrades a role. The duration of the calls, which
    /// may be far longer, does not count. A failed probe degrades the role again, for twice as long; a reply makes it
    /// healthy immediately.
    pub fn observe(
        &self,
        health: &mut Health,
        role: &Role,
        outcome: CallOutcome,
        took: Duration,
        now: Timestamp,
    ) {
        if outcome == CallOutcome::Served {
            health.roles.remove(role);
            return;
        }
        let rules = &self.health;
        let known = health.roles.entry(role.clone());
        // The duration of concurrent calls counts once.
        let known = known
            .and_modify(|state| state.first_failure = after(state.first_failure, took).min(now));
        let state = known.or_insert(RoleHealth {
            failures: 0,
            first_failure: now,
            last: outcome,
            times: 0,
            degraded: None,
        });
        state.last = outcome;
        if state.degraded.is_none() && after(state.first_failure, rules.window) < now {
            (state.failures, state.first_failure) = (0, now);
        }
        state.failures = state.failures.saturating_add(1);
        let degrades = match state.degraded {
            // Calls that started before the role was degraded add nothing new.
            Some(degraded) => degraded.probed.is_some() || degraded.until <= now,
            None => state.failures >= rules.failures,
        };
        if degrades {
            state.times = state.times.saturating_add(1);
            state.degraded = Some(Degradation {
                since: state.degraded.map_or(now, |degraded| degraded.since),
                until: after(now, rules.period(state.times)),
                probed: None,
            });
        }
    }

    /// Chooses which role serves a call that `decision` gave to `wanted`: that role, or while it is degraded, the next
    /// healthy role that may serve. When the time of a degraded role has passed, one call at a time probes it.
    ///
    /// If all roles are degraded, `wanted` serves: an attempt is better than none.
    pub fn serving(
        &self,
        health: &mut Health,
        decision: &Decision,
        wanted: &Role,
        now: Timestamp,
    ) -> Serving {
        let serving = |role: &Role, is_probe, reason| Serving {
            role: role.clone(),
            is_probe,
            reason,
        };
        let Some(state) = health.roles.get_mut(wanted) else {
            return serving(wanted, false, None);
        };
        let (failures, Some(degraded)) = (state.failures, &mut state.degraded) else {
            return serving(wanted, false, None);
        };
        // A probe without an outcome, because its process died, does not block the next one forever.
        let probing = degraded
            .probed
            .is_some_and(|at| now < after(at, self.health.degraded_at_most));
        if degraded.until <= now && !probing {
            degraded.probed = Some(now);
            let reason = format!(
                "Role {wanted} failed {failures} times; this call checks whether it works again."
            );
            return serving(wanted, true, Some(reason));
        }
        let left = degraded.until.duration_since(now).as_secs().max(0);
        let is_healthy = |role: &&Role| {
            health
                .roles
                .get(*role)
                .is_none_or(|state| state.degraded.is_none())
        };
        let others = decision.allowed_roles.iter().filter(|role| *role != wanted);
        match others.into_iter().find(is_healthy) {
            Some(other) => {
                let reason = format!(
                    "Role {other} serves, because the model of role {wanted} failed {failures} times; that model is tried again in {left} s."
                );
                serving(other, false, Some(reason))
            }
            None => {
                let reason = format!(
                    "Role {wanted} serves although it failed {failures} times, because no other role may."
                );
                serving(wanted, false, Some(reason))
            }
        }
    }
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}
