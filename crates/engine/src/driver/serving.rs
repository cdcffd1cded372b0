//! Chooses the model that makes an attempt: that of the call's role, or another while that one fails.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_brainstem::CallOutcome;
use neuraxis_core::{Attempt, CallModel, LlmError, LlmErrorKind, Role, RoleDowngraded};
use neuraxis_ports::LlmClient;
use tokio::time::Instant;

use crate::driver::Driver;
use crate::engine::Engine;

/// The model that makes an attempt.
pub(super) struct Served {
    pub(super) role: Role,
    pub(super) client: Arc<dyn LlmClient>,
    pub(super) downgraded: Option<Box<RoleDowngraded>>,
    /// Held for the duration of the attempt, if the attempt probes a degraded role.
    pub(super) probe: Option<Box<Probe>>,
}

/// An attempt that probes whether a degraded role works again. Dropping this allows the next probe, unless the outcome
/// was already noted: a cancelled call has none.
pub(super) struct Probe {
    engine: Arc<Engine>,
    role: Role,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.engine.health.probe_over(&self.role);
    }
}

/// A fallback: another role that takes over a call because all attempts of the call's own role failed.
#[derive(Debug)]
pub(super) struct Fallback {
    role: Role,
    /// The first attempt of the fallback, or the first one after the call was given back.
    since: Attempt,
    why: String,
    term: Term,
    /// When the call's own role may be asked again, if it requested a wait.
    back_at: Option<Instant>,
    /// The context size assumed since the fallback reported in this call that the request did not fit.
    reported_context: Option<u64>,
}

/// How long another role has a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    /// Permanently.
    Permanent,
    /// Until it fails. Then the call's own role is asked again: its model was being loaded, it requested a wait, or its
    /// reply could not be read.
    UntilFailure,
    /// No longer: it failed, and the call was given back. No other role takes it over any more.
    GivenBack,
}

impl Fallback {
    /// Returns how many attempts the role that made the last one has made.
    pub(super) fn attempts(fallback: Option<&Self>, number: Attempt) -> Attempt {
        let before = fallback.map_or(0, |fallback| fallback.since.0.saturating_sub(1));
        Attempt(number.0.saturating_sub(before))
    }

    /// Lets the fallback role retry with a request that fits this context.
    pub(super) fn again(
        downgraded: &RoleDowngraded,
        before: Option<&Self>,
        number: Attempt,
        context: u64,
    ) -> Box<Self> {
        // If no fallback is active, the role served because the call's own role is degraded.
        let before = before.filter(|before| before.term != Term::GivenBack);
        Box::new(Self {
            role: downgraded.to.clone(),
            since: before.map_or_else(|| number.next(), |before| before.since),
            why: downgraded.reason.clone(),
            term: before.map_or(Term::Permanent, |before| before.term),
            back_at: before.and_then(|before| before.back_at),
            reported_context: Some(context),
        })
    }

    /// Returns the context size assumed since the fallback reported in this call that the request did not fit.
    pub(super) const fn reported_context(&self) -> Option<u64> {
        self.reported_context
    }

    /// Limits the fallback until it fails; the call's own role is not asked again before this much time has passed.
    pub(super) fn for_a_while(mut self: Box<Self>, wait: Option<Duration>) -> Box<Self> {
        self.term = Term::UntilFailure;
        self.back_at = wait.and_then(|wait| Instant::now().checked_add(wait));
        self
    }

    /// Returns the remaining time before the call's own role may be asked again, if there is such a wait.
    pub(super) fn wait_left(&self) -> Option<Duration> {
        let back_at = self.back_at?;
        Some(back_at.saturating_duration_since(Instant::now()))
    }

    /// Gives the call back after the fallback's own attempts failed, if it had the call only until then.
    pub(super) fn given_back(mut self: Box<Self>, number: Attempt) -> Option<Box<Self>> {
        if self.term != Term::UntilFailure {
            return None;
        }
        self.term = Term::GivenBack;
        self.since = number.next();
        Some(self)
    }
}

impl Driver {
    /// Chooses which role makes the next attempt of a call; `None` if no role that may serve has a model.
    pub(super) fn served(&self, call: &CallModel, fallback: Option<&Fallback>) -> Option<Served> {
        let engine = &self.engine;
        let (role, client) = engine.model(&call.role, self.scope.decision.as_deref())?;
        let mut probe = None;
        let fallback = fallback.filter(|fallback| fallback.term != Term::GivenBack);
        let other = match (fallback, &self.scope.decision) {
            (Some(fallback), _) => Some((fallback.role.clone(), fallback.why.clone())),
            (None, Some(decision)) => {
                let clock = engine.clock.as_ref();
                let serving = engine.health.serving(&engine.policy, decision, role, clock);
                if serving.as_ref().is_some_and(|serving| serving.is_probe) {
                    let (engine, role) = (Arc::clone(engine), role.clone());
                    probe = Some(Box::new(Probe { engine, role }));
                }
                let other = serving.filter(|serving| serving.role != *role);
                other.map(|serving| (serving.role, serving.reason.unwrap_or_default()))
            }
            (None, None) => None,
        };
        let other = other.and_then(|(other, reason)| {
            let (to, client) = engine.models.get_key_value(&other)?;
            Some(Served {
                role: to.clone(),
                client: Arc::clone(client),
                downgraded: Some(Box::new(RoleDowngraded {
                    from: role.clone(),
                    to: to.clone(),
                    reason,
                    left_out: 0,
                })),
                probe: None,
            })
        });
        Some(other.unwrap_or_else(|| Served {
            role: role.clone(),
            client: Arc::clone(client),
            downgraded: None,
            probe,
        }))
    }

    /// Chooses another role for a call whose attempts all failed, if another model may not fail in the same way. A call
    /// is taken over only once.
    pub(super) fn fallback(
        &self,
        failed: &Role,
        number: Attempt,
        error: &LlmError,
    ) -> Option<Box<Fallback>> {
        let may_be_specific = matches!(
            error.kind,
            LlmErrorKind::Loading
                | LlmErrorKind::RateLimited { .. }
                | LlmErrorKind::InvalidResponse
        );
        if CallOutcome::of(&error.kind) != CallOutcome::Failed && !may_be_specific {
            return None;
        }
        let models = &self.engine.models;
        let of_failed = models.get(failed)?;
        let may_help = |role: &&Role| {
            let other = models
                .get(*role)
                .filter(|other| !Arc::ptr_eq(other, of_failed));
            other.is_some() && !self.engine.health.is_degraded(role)
        };
        let decision = self.scope.decision.as_ref()?;
        let role = decision.allowed_roles.iter().find(may_help)?.clone();
        Some(Box::new(Fallback {
            why: format!(
                "Role {role} serves this call, because role {failed} failed: {}",
                error.kind
            ),
            role,
            since: number.next(),
            term: Term::Permanent,
            back_at: None,
            reported_context: None,
        }))
    }
}
