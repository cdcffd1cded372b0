//! The health of all models, as seen by the runs of this engine.
//!
//! While nothing fails, checking it costs one read of a flag.

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
    /// Whether any problem is known. Set and cleared under the lock.
    is_troubled: AtomicBool,
}

impl SharedHealth {
    /// Chooses which role serves a call; `None` if nothing is wrong with the call's own role.
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

    /// Notes a reply.
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

    /// Notes a failure after this duration; returns the reason if the role becomes degraded by it, and logs it.
    pub(crate) fn failed(
        &self,
        policy: &Policy,
        role: &Role,
        error: &LlmErrorKind,
        took: Duration,
        clock: &dyn Clock,
    ) -> Option<String> {
        // A call that was stopped, or for which there is no model, says nothing about a model. Neither does a rate
        // limit, nor an unreadable reply: it may be a proxy's page, or specific to one request.
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

    /// Notes that a call that probed a degraded role has ended, whatever the outcome.
    pub(crate) fn probe_over(&self, role: &Role) {
        self.lock().abandon_probe(role);
    }

    /// Returns whether other roles serve for this role.
    pub(crate) fn is_degraded(&self, role: &Role) -> bool {
        let is_troubled = self.is_troubled.load(Ordering::Relaxed);
        is_troubled && self.degraded().iter().any(|it| it.role == *role)
    }

    /// Returns the roles for which others serve.
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
                tracing::info!(%role, "the role is healthy again");
            }
            return None;
        };
        let is_new = before.is_none_or(|before| before.until != after.until);
        is_new.then(|| {
            let DegradedRole { until, reason, .. } = after;
            // A duration and not a time of day: the reader's time zone is not known here.
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
