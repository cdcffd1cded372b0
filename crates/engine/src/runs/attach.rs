//! Follows a run from any record on, live to its end, whichever process drives it.
//!
//! A run in progress in this process is shown as it happens, even if it is in an engine that this one replaced. For a
//! run of another process, or one that no process drives, the store is polled for new records; between them, live
//! events that the other process sends are shown.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use neuraxis_core::{EffectId, LiveBody, LiveEvent, Record, RunId, RunStatus, Seq};
use neuraxis_ports::StoreError;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, sleep_until};

use super::Runs;
use super::slot::Reachability;
use crate::event::{Event, Events};
use crate::feed::{CallBuffer, LiveCall, Position, closed_call};
use crate::live::{Piece, RemoteLive};

/// How often the store is asked for new records of a run that is not in progress here.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often the store is asked for new records of a run that waits for an answer from outside, maybe for days, and
/// does not continue in this process.
const LOOK_EVERY_AT_REST: Duration = Duration::from_secs(2);

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
            ready: VecDeque::new(),
            live: None,
            remote: None,
            shown: HashMap::new(),
            next_read: Instant::now(),
            rests: false,
            is_over: false,
        };
        // Reports a run that does not exist immediately.
        if let Reachability::Absent = self.reach(run) {
            attached.read_new_records().await?;
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
    ready: VecDeque<Event>,
    /// The run's own events, while it is in progress in this process.
    live: Option<Events>,
    /// Live events from another process, while the run is not in progress in this one.
    remote: Option<Remote>,
    /// For each call that no record has closed, the event that retracts what was shown of it.
    shown: HashMap<EffectId, LiveEvent>,
    /// When the store is asked next.
    next_read: Instant,
    /// Whether the run was waiting at the last look, with nothing in its inbox.
    rests: bool,
    is_over: bool,
}

/// Live events of a run from another process.
struct Remote {
    live: RemoteLive,
    /// How far each call has been read.
    reading: HashMap<EffectId, (Arc<CallBuffer>, Position)>,
}

impl Attached {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
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
                        self.live = None;
                        self.retract_shown();
                        self.pause().await;
                    }
                }
                continue;
            }
            let parts = Arc::clone(&self.runs.parts);
            // From here on no notification is missed.
            let changed = parts.active.changed();
            if let Reachability::Here(handle) = self.runs.reach(self.run) {
                self.live = Some(handle.events());
                self.remote = None;
                self.retract_shown();
                continue;
            }
            if self.next_read <= Instant::now() {
                self.read_or_log().await;
            }
            if self.ready.is_empty() && !self.is_over {
                self.wait(changed).await;
            }
        }
    }

    async fn read_or_log(&mut self) {
        match self.read_new_records().await {
            Ok(()) => {}
            Err(error) if error.is_retryable() => {
                tracing::debug!(run = %self.run, %error, "could not read a followed run");
            }
            Err(error) => {
                tracing::warn!(run = %self.run, %error, "stopped following a run");
                self.is_over = true;
            }
        }
        // If there was something new, there may be more.
        self.next_read = Instant::now();
        if self.ready.is_empty() {
            self.next_read += match self.rests {
                true => LOOK_EVERY_AT_REST,
                false => LOOK_EVERY,
            };
        }
    }

    /// Reads what was stored since the last returned record.
    async fn read_new_records(&mut self) -> Result<(), StoreError> {
        let records = self.runs.parts.store.records(self.run, self.last).await?;
        let mut before = self.last;
        for record in records {
            let seq = record.seq;
            if let Some(remote) = &mut self.remote {
                let rest = remote.settle(&record, before);
                self.ready.extend(rest.into_iter().map(Event::Live));
            }
            self.ready.push_back(Event::Record(record));
            before = seq;
        }
        if let Some(remote) = &mut self.remote {
            let early = remote.live.process_early(before, opened);
            let shown = remote.read(&early.shown, before);
            self.ready.extend(shown.into_iter().map(Event::Live));
        }
        if self.ready.is_empty() {
            // A caller that already has the last record gets no other.
            let run = self.runs.parts.store.run(self.run).await?;
            self.is_over = run.ended_at.is_some() && run.records <= self.last.0;
            let is_parked = run.status == RunStatus::Waiting && run.leased_until.is_none();
            self.rests = is_parked && !run.has_mail;
        }
        Ok(())
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Record(record) => {
                self.last = record.seq;
                self.is_over = record.ends_the_run();
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

    /// Retracts what was shown of unfinished calls: the process that drives the run now may repeat them.
    fn retract_shown(&mut self) {
        let after = self.last;
        let shown = std::mem::take(&mut self.shown).into_values();
        let void = shown.map(|event| Event::Live(LiveEvent { after, ..event }));
        self.ready.extend(void);
    }

    /// Waits until the store should be asked again, or a live event arrives. For a run that waits for an answer, also
    /// until any run, which may be this one, begins or stops here.
    async fn wait(&mut self, changed: Notified<'_>) {
        let parts = &self.runs.parts;
        let (run, last) = (self.run, self.last);
        let rests = self.rests;
        let remote = self.remote.get_or_insert_with(|| Remote {
            live: RemoteLive::new(parts.live.as_ref(), run, last),
            reading: HashMap::new(),
        });
        tokio::select! {
            () = parts.engine.shutdown.cancelled() => self.move_on(),
            () = sleep_until(self.next_read) => {}
            () = changed, if rests => self.next_read = self.next_read.min(Instant::now() + LOOK_EVERY),
            pieces = remote.live.next() => {
                let (shown, needs_records) = remote.process(pieces, last);
                self.ready.extend(shown.into_iter().map(Event::Live));
                if needs_records {
                    self.next_read = Instant::now();
                }
            }
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
        self.remote = None;
        self.retract_shown();
    }
}

impl Remote {
    /// Processes pieces. Returns the events to show, and whether records must be read first.
    fn process(&mut self, pieces: Vec<Arc<Piece>>, last: Seq) -> (Vec<LiveEvent>, bool) {
        let processed = self.live.process(pieces, last, opened);
        (self.read(&processed.shown, last), processed.needs_records)
    }

    /// Returns the events to show before a record.
    fn settle(&mut self, record: &Record, before: Seq) -> Vec<LiveEvent> {
        let changed = self.live.settle(record);
        let rest = self.read(&changed, before);
        if let Some(call) = closed_call(record) {
            self.reading.remove(&call);
        }
        rest
    }

    /// Returns what calls have shown since the last read.
    fn read(&mut self, buffers: &[Arc<CallBuffer>], after: Seq) -> Vec<LiveEvent> {
        let mut events = Vec::new();
        for buffer in buffers {
            let reading = self.reading.entry(buffer.call.effect_id);
            let (buffer, position) =
                reading.or_insert_with(|| (Arc::clone(buffer), Position::default()));
            events.extend(buffer.read(position, after));
        }
        events
    }
}

/// Creates a buffer for what a call shows, for a single listener.
fn opened(call: LiveCall) -> Arc<CallBuffer> {
    Arc::new(CallBuffer::new(call))
}
