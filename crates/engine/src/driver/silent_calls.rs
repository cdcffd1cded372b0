//! Reports model calls that a time limit stops before their models said anything. A stopped call alone says nothing
//! about its model, so a model that hangs would be asked again forever.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use neuraxis_core::{
    CountLabel, Effect, Input, LlmError, LlmErrorKind, ModelFailed, NextAttempt, Role,
    RoleDowngraded,
};
use neuraxis_ports::CallContext;
use tokio::time::Instant;

use crate::driver::Driver;

/// The minimum time that a model gets before its silence counts: with little time left a call has no chance, and the
/// model is not to blame.
const MIN_SILENCE: Duration = Duration::from_secs(3);

/// An attempt of a model call in progress.
#[derive(Debug)]
pub(super) struct AttemptUnderWay {
    pub(super) ctx: CallContext,
    served_by: Role,
    /// Since when its model has been asked, and whether that is a fallback.
    since: OnceLock<(Instant, Option<Box<RoleDowngraded>>)>,
    has_responded: AtomicBool,
}

impl AttemptUnderWay {
    pub(super) const fn new(ctx: CallContext, served_by: Role) -> Self {
        Self {
            ctx,
            served_by,
            since: OnceLock::new(),
            has_responded: AtomicBool::new(false),
        }
    }

    /// Notes that its model is being asked now.
    pub(super) fn begin(&self, now: Instant, downgraded: Option<&RoleDowngraded>) {
        self.since
            .get_or_init(|| (now, downgraded.cloned().map(Box::new)));
    }

    /// Notes that something arrived, even an error.
    pub(super) fn note_response(&self) {
        self.has_responded.store(true, Ordering::Relaxed);
    }

    /// Returns for how long its model has been silent, if it was asked and has said nothing at all. While the call
    /// waits in its client, the model has not been asked yet.
    fn silence(&self) -> Option<Duration> {
        let (since, _) = self.since.get()?;
        let waited = self.ctx.waited()?;
        let is_silent = !self.has_responded.load(Ordering::Relaxed);
        is_silent.then(|| since.elapsed().saturating_sub(waited))
    }
}

impl Driver {
    /// Lets time pass for a run that has reached a limit. Calls that this stops and whose models said nothing are first
    /// reported as timed out.
    pub(super) fn limit_is_due(&mut self) -> Input {
        for attempt in self.stopped_in_silence() {
            let failed = self.timed_out(&attempt);
            self.ready.push_back(failed);
        }
        self.ready.push_back(Input::TimePassed);
        self.ready.pop_front().unwrap_or(Input::TimePassed)
    }

    /// Returns the calls that the limit stops and whose models were silent for at least half of the run's active time.
    /// If other work, such as tools, took the time, the model is not to blame.
    fn stopped_in_silence(&self) -> Vec<Arc<AttemptUnderWay>> {
        let least = MIN_SILENCE.max(self.active.elapsed() / 2);
        let is_silent = |attempt: &&Arc<AttemptUnderWay>| attempt.silence() >= Some(least);
        let mut silent: Vec<_> = self.attempts.iter().filter(is_silent).cloned().collect();
        if silent.is_empty() {
            return silent;
        }
        // The machine decides what will be stopped, so ask a copy of it.
        let step = self.tree.clone().advance(self.stamp(), Input::TimePassed);
        let effects = step.map(|step| step.effects).unwrap_or_default();
        silent.retain(|attempt| {
            effects.iter().any(|effect| {
                matches!(effect, Effect::CancelModel(stopped) if stopped.effect_id == attempt.ctx.effect_id)
            })
        });
        silent
    }

    fn timed_out(&self, under_way: &AttemptUnderWay) -> Input {
        let engine = &self.engine;
        let (role, clock) = (&under_way.served_by, engine.clock.as_ref());
        let duration = under_way.silence().unwrap_or_default();
        let message = "the run's time was up before anything arrived";
        let error = LlmError::new(LlmErrorKind::Timeout, message);
        let degraded = engine
            .health
            .failed(&engine.policy, role, &error.kind, duration, clock);
        tracing::warn!(run = %self.scope.run_id, %role, attempt = under_way.ctx.attempt.0, %error, "a model call failed");
        Input::ModelFailed(ModelFailed {
            effect_id: under_way.ctx.effect_id,
            attempt: under_way.ctx.attempt,
            error,
            // The limit ends the call, not this failure.
            next: NextAttempt::Follows,
            served_by: role.clone(),
            downgraded: under_way.since.get().and_then(|(_, it)| it.clone()),
            degraded,
            cost: None,
            cost_label: CountLabel::Measured,
            model: self.model_of(role),
            duration,
        })
    }
}
