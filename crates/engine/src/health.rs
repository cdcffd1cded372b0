//! The health of all models, as the runs of this engine find it.
//!
//! As long as nothing fails, asking for it costs one look at a flag.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_brainstem::{CallOutcome, DegradedRole, Health, Policy, Serving};
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{Decision, LlmErrorKind, Role};
use neuraxis_ports::Clock;

/// The health of all models.
#[derive(Debug, Default)]
pub(crate) struct SharedHealth {
    health: Mutex<Health>,
    /// Whether anything is known but that all is well. Set and cleared under the lock.
    is_troubled: AtomicBool,
}

impl SharedHealth {
    /// Chooses who serves a call; `None` if there is nothing against the role it is for.
    pub(crate) fn serving(
        &self,
        policy: &Policy,
        decision: &Decision,
        wanted: &Role,
        clock: &dyn Clock,
    ) -> Option<Serving> {
        if !self.is_troubled.load(Ordering::Relaxed) {
            return None;
        }
        let now = clock.now();
        Some(policy.serving(&mut self.lock(), decision, wanted, now))
    }

    /// Takes note of a reply.
    pub(crate) fn replied(&self, policy: &Policy, role: &Role, clock: &dyn Clock) {
        if self.is_troubled.load(Ordering::Relaxed) {
            self.observe(
                policy,
                role,
                CallOutcome::Served,
                Duration::ZERO,
                clock.now(),
            );
        }
    }

    /// Takes note of a failure after so much time; returns why the role is degraded if it is from now on, which the log says, too.
    pub(crate) fn failed(
        &self,
        policy: &Policy,
        role: &Role,
        error: &LlmErrorKind,
        took: Duration,
        clock: &dyn Clock,
    ) -> Option<String> {
        // That a call was stopped, or nobody is there to make it, says nothing about a model. Nor does a limit on rates, or a
        // reply that is none: it may be a proxy's page as well as what the model made of one request.
        if matches!(
            error,
            LlmErrorKind::Cancelled
                | LlmErrorKind::ModelNotFound
                | LlmErrorKind::RateLimited { .. }
                | LlmErrorKind::InvalidResponse
        ) {
            return None;
        }
        match CallOutcome::of(error) {
            CallOutcome::Served => {
                self.replied(policy, role, clock);
                None
            }
            outcome => self.observe(policy, role, outcome, took, clock.now()),
        }
    }

    /// Takes note that a call which tried a degraded role is over, whatever came of it.
    pub(crate) fn probe_over(&self, role: &Role) {
        self.lock().abandon_probe(role);
    }

    /// Tells whether others serve for this role.
    pub(crate) fn is_degraded(&self, role: &Role) -> bool {
        let is_troubled = self.is_troubled.load(Ordering::Relaxed);
        is_troubled && self.degraded().iter().any(|it| it.role == *role)
    }

    /// Returns the roles that others serve for.
    pub(crate) fn degraded(&self) -> Vec<DegradedRole> {
        self.lock().degraded().collect()
    }

    fn observe(
        &self,
        policy: &Policy,
        role: &Role,
        outcome: CallOutcome,
        took: Duration,
        now: Timestamp,
    ) -> Option<String> {
        let mut health = self.lock();
        let until = |health: &Health| health.degraded().find(|it| it.role == *role);
        let before = until(&health);
        policy.observe(&mut health, role, outcome, took, now);
        self.is_troubled
            .store(*health != Health::default(), Ordering::Relaxed);
        let after = until(&health);
        drop(health);
        let Some(after) = after else {
            if before.is_some() {
                tracing::info!(%role, "the role serves again");
            }
            return None;
        };
        let is_new = before.is_none_or(|before| before.until != after.until);
        is_new.then(|| {
            let DegradedRole { until, reason, .. } = after;
            // How long, and not until when: nobody knows here which time zone the reader is in.
            let seconds = until.duration_since(now).as_secs();
            let why = format!("role {role} is degraded for {seconds} s: {reason}");
            tracing::warn!("{why}");
            why
        })
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
