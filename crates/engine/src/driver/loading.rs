//! Waits for models that their servers are still loading. Attempts do not speed up loading, so the clock of the run
//! stops while nothing else is in progress, and only the first failure is recorded.

use std::time::Duration;

use neuraxis_core::{CallModel, EffectId, LlmErrorKind, Role, RunStatus};
use neuraxis_ports::CancellationToken;
use tokio::time::Instant;

use crate::driver::Driver;
use crate::driver::serving::Fallback;
use crate::driver::under_way::Work;

/// How long to wait before a server is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// The calls of a run that wait for their models to be loaded.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// Since when each call has been waiting, including its attempts in between.
    since: Vec<(EffectId, Instant)>,
    /// How many of them are pausing at the moment.
    paused: usize,
}

impl Loading {
    /// Returns since when a call has been waiting.
    fn since(&self, call: EffectId) -> Option<Instant> {
        let mut waiting = self.since.iter();
        waiting.find(|(id, _)| *id == call).map(|(_, since)| *since)
    }

    /// Forgets a call that was answered.
    pub(super) fn forget(&mut self, call: EffectId) {
        self.since.retain(|(id, _)| *id != call);
    }
}

/// A call whose pause is over.
pub(super) struct Paused {
    call: Box<CallModel>,
    fallback: Option<Box<Fallback>>,
}

/// Whether and how a call that found its model not loaded waits for it.
pub(super) enum Wait {
    /// It begins to wait: the failure is recorded, and the next attempt follows once the model may be loaded.
    Begins,
    /// It continues to wait, and nothing is recorded.
    Continues,
    /// It has waited for as long as it may, or never waits.
    IsOver,
}

impl Driver {
    /// Returns how a call that failed with this error waits.
    pub(super) fn wait_for_loading(
        &self,
        call: EffectId,
        served_by: &Role,
        error: &LlmErrorKind,
    ) -> Wait {
        if *error != LlmErrorKind::Loading || !self.tree.waits_for(call) {
            return Wait::IsOver;
        }
        let engine = &self.engine;
        let model = engine.models.get(served_by);
        let within = engine
            .retry
            .loads_within(model.and_then(|model| model.info().loads_within));
        match self.loading.since(call) {
            None if within.is_zero() => Wait::IsOver,
            None => Wait::Begins,
            Some(since) if since.elapsed() + PAUSE <= within => Wait::Continues,
            Some(_) => Wait::IsOver,
        }
    }

    /// Retries a call after a pause. Cancelling the call ends the pause.
    pub(super) fn pause_for_loading(
        &mut self,
        call: Box<CallModel>,
        fallback: Option<Box<Fallback>>,
    ) {
        let effect_id = call.effect_id;
        if self.loading.since(effect_id).is_none() {
            self.loading.since.push((effect_id, Instant::now()));
        }
        self.loading.paused += 1;
        let cancelled = CancellationToken::new();
        self.running.push((effect_id, cancelled.clone()));
        self.work.push(Box::pin(async move {
            tokio::select! {
                () = cancelled.cancelled() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
            Work::Paused(Box::new(Paused { call, fallback }))
        }));
    }

    /// Continues with a call after its pause, unless it was cancelled.
    pub(super) fn pause_over(&mut self, Paused { call, fallback }: Paused) {
        self.loading.paused = self.loading.paused.saturating_sub(1);
        match self.no_longer_running(call.effect_id) {
            Some(_) => self.call_model(call, fallback, Duration::ZERO),
            None => self.loading.forget(call.effect_id),
        }
    }

    /// Stops the clock of the run if nothing but pauses is in progress.
    pub(super) fn hold_clock(&mut self) {
        if self.loading.paused > 0 && self.loading.paused == self.work.len() {
            self.active.follow(RunStatus::Waiting);
        } else {
            self.active.follow(self.tree.status());
        }
    }
}
