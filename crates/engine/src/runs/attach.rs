//! Follows a run from any record on, live to its end, whichever process drives it.
//!
//! A run in progress in this process is shown as it happens, even if it is in an engine that this one replaced. For a
//! run of another process, or one that no process drives, the store is polled for new records; between them, live
//! events that the other process sends are shown.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use neuraxis_core::{EffectId, LiveBody, LiveEvent, Record, RunId, Seq};
use neuraxis_ports::StoreError;
use tokio::sync::futures::Notified;
use tokio::time::sleep;

use super::Runs;
use super::slot::Reachability;
use crate::event::{Event, Events};
use crate::feed::{CallBuffer, Position, closed_call};
use crate::live::RunListener;
use crate::store_follower::{Expected, LOOK_EVERY, StoreFollower};

impl Runs {
    /// Returns the events of a run after one of its records, up to the last; 0 returns all of them. If the run is in
    /// progress in this process, its events are live. Otherwise records arrive as they are stored, within about a
    /// quarter of a second, and between them come the live events that the driving process
    /// [sends](Runs::keep_live_exchange), ten times a second. A run that waits, or that no process drives, is waited
    /// for; when a waiting run continues in another process, this is noticed within two seconds.
    ///
    /// The events end with the run's last record, when the run is deleted or can no longer be read, and when the engine
    /// shuts down, unless another one [has replaced it](crate::OrchestratorBuilder::replaces): then they continue
    /// there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`], or the reason why the run cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the events does not affect the run or other listeners.
    pub async fn attach(&self, run: RunId, after: Seq) -> Result<Events, StoreError> {
        self.check_seen(run).await?;
        let mut attached = Attached {
            runs: self.clone(),
            run,
            last: after,
            ready: Ready::default(),
            live: None,
            follower: self.follower(run, after),
            shown: HashMap::new(),
            rests: false,
            is_over: false,
        };
        // Reports a run that does not exist immediately.
        if let Reachability::Absent = self.reach(run) {
            attached.look().await?;
        }
        let events = stream::unfold(attached, |mut attached| async move {
            let event = attached.next().await?;
            Some((event, attached))
        });
        // Fused: further calls after the end return `None` again.
        Ok(Events::new(events.fuse()))
    }
}

/// The state of following a run.
struct Attached {
    runs: Runs,
    run: RunId,
    /// The last record that was returned.
    last: Seq,
    ready: Ready,
    /// The run's own events, while it is in progress in this process.
    live: Option<Events>,
    /// Follows it otherwise.
    follower: StoreFollower,
    /// For each call that no record has closed, the event that retracts what was shown of it.
    shown: HashMap<EffectId, LiveEvent>,
    /// Whether the run waited for an answer at the last look.
    rests: bool,
    is_over: bool,
}

/// The events of a run in another process that are to be returned next.
#[derive(Default)]
struct Ready {
    events: VecDeque<Event>,
    /// How far each call has been read.
    reading: HashMap<EffectId, (Arc<CallBuffer>, Position)>,
}

impl Attached {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.events.pop_front() {
                self.note(&event);
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Some(live) = &mut self.live {
                match live.next().await {
                    Some(event) if event.is_after(self.last) => {
                        self.note(&event);
                        return Some(event);
                    }
                    Some(_) => {}
                    // The run was parked, lost or left without an end: it may continue in any process.
                    None => {
                        self.switch_to(None);
                        self.pause().await;
                    }
                }
                continue;
            }
            let parts = Arc::clone(&self.runs.parts);
            // From here on no notification is missed.
            let changed = parts.active.changed();
            if let Reachability::Here(handle) = self.runs.reach(self.run) {
                self.switch_to(Some(handle.events()));
            } else if self.follower.is_due() {
                self.look_or_log().await;
            } else {
                self.wait(changed).await;
            }
        }
    }

    async fn look_or_log(&mut self) {
        match self.look().await {
            Ok(()) => {}
            Err(error) if error.is_retryable() => {
                tracing::debug!(run = %self.run, %error, "could not read a followed run");
            }
            Err(error) => {
                tracing::warn!(run = %self.run, %error, "stopped following a run");
                self.is_over = true;
            }
        }
    }

    /// Reads what was stored since the last look.
    async fn look(&mut self) -> Result<(), StoreError> {
        let expected = self.follower.look(&mut self.ready).await?;
        self.is_over = expected == Expected::Nothing;
        self.rests = expected == Expected::Answer;
        if self.rests {
            self.follower.rest();
        }
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Record(record) => {
                self.last = record.seq;
                self.is_over |= record.ends_the_run();
                if let Some(call) = closed_call(record) {
                    self.shown.remove(&call);
                }
            }
            Event::Live(live) => self.note_shown(live),
        }
    }

    /// Stores the event that would retract what is being shown now.
    fn note_shown(&mut self, live: &LiveEvent) {
        match &live.body {
            LiveBody::TextRetracted => {
                self.shown.remove(&live.call);
            }
            LiveBody::TextDelta { .. } | LiveBody::ReasoningDelta { .. } => {
                let is_known = |known: &LiveEvent| known.attempt == live.attempt;
                if !self.shown.get(&live.call).is_some_and(is_known) {
                    let body = LiveBody::TextRetracted;
                    self.shown.insert(
                        live.call,
                        LiveEvent {
                            offset: 0,
                            body,
                            ..live.clone()
                        },
                    );
                }
            }
            _ => {}
        }
    }

    /// Continues with the events of the run in this process, or with the store. Retracts what was shown of unfinished
    /// calls: the process that drives the run now may repeat them.
    fn switch_to(&mut self, live: Option<Events>) {
        self.live = live;
        self.follower = self.runs.follower(self.run, self.last);
        self.ready.reading.clear();
        let after = self.last;
        let shown = std::mem::take(&mut self.shown).into_values();
        let void = shown.map(|event| Event::Live(LiveEvent { after, ..event }));
        self.ready.events.extend(void);
    }

    /// Waits until the store should be asked again, or a live event arrives. For a run that waits for an answer, also
    /// until any run, which may be this one, begins or stops here.
    async fn wait(&mut self, changed: Notified<'_>) {
        let shutdown = self.runs.parts.engine.shutdown.clone();
        tokio::select! {
            () = shutdown.cancelled() => self.move_on(),
            () = changed, if self.rests => self.follower.stop_resting(),
            () = self.follower.wait(&mut self.ready) => {}
        }
    }

    async fn pause(&mut self) {
        let shutdown = &self.runs.parts.engine.shutdown;
        let pause = sleep(LOOK_EVERY);
        if shutdown.run_until_cancelled(pause).await.is_none() {
            self.move_on();
        }
    }

    /// Continues at the engine that replaced this one, which has stopped.
    fn move_on(&mut self) {
        let Some(parts) = self.runs.parts.successor.running() else {
            self.is_over = true;
            return;
        };
        self.runs.parts = parts;
        self.switch_to(None);
    }
}

impl RunListener for Ready {
    fn show_calls(&mut self, changed: &[Arc<CallBuffer>], after: Seq) {
        for buffer in changed {
            let reading = self.reading.entry(buffer.call.effect_id);
            let (buffer, position) =
                reading.or_insert_with(|| (Arc::clone(buffer), Position::default()));
            let shown = buffer.read(position, after).into_iter();
            self.events.extend(shown.map(Event::Live));
        }
    }

    fn show_record(&mut self, record: Arc<Record>) {
        if let Some(call) = closed_call(&record) {
            self.reading.remove(&call);
        }
        self.events.push_back(Event::Record(record));
    }
}
