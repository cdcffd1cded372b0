//! Follows a run from any record on, live to its end, whichever process drives it.
//!
//! A run at work in this process is heard as it happens, also in an engine whose place this one took. Of another's, and of one
//! that nobody drives, the store is asked for new records now and then; in between stands what is passed on of its live events.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use neuraxis_core::{EffectId, LiveBody, LiveEvent, Record, RunId, RunStatus, Seq};
use neuraxis_ports::StoreError;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, sleep_until};

use super::Runs;
use super::slot::Reached;
use crate::event::{Event, Events};
use crate::feed::{CallBuffer, LiveCall, Position, closed_call};
use crate::live::{Piece, RemoteLive};

/// How often the store is asked for new records of a run that is not at work here.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often it is asked for those of a run that waits for somebody who is not here, maybe for days, and does not go on in this
/// process.
const LOOK_EVERY_AT_REST: Duration = Duration::from_secs(2);

impl Runs {
    /// Returns the events of a run after one of its records, 0 for all of them, up to the last: live if the run is at work in
    /// this process, otherwise record by record as they are kept, within about a quarter of a second, and in between what the
    /// process that drives it [passes on](Runs::keep_live_exchange) of live events, ten times a second. A run that waits, or
    /// that nobody drives, is waited for; that one which waits for somebody goes on in another process is heard within two
    /// seconds.
    ///
    /// The events end with the run's last record, once the run is deleted or cannot be read any more, and when the engine
    /// shuts down, unless another one [took its place](crate::OrchestratorBuilder::replaces): then they go on there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`], or why the run cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the events disturbs nobody.
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
            look_at: Instant::now(),
            rests: false,
            is_over: false,
        };
        // Whoever follows a run that there is not hears so at once.
        if let Reached::No = self.reach(run) {
            attached.look().await?;
        }
        let events = stream::unfold(attached, |mut attached| async move {
            let event = attached.next().await?;
            Some((event, attached))
        });
        // Whoever asks once more after the end is told of it again.
        Ok(Events::new(events.fuse()))
    }
}

/// A run that is followed.
struct Attached {
    runs: Runs,
    run: RunId,
    /// The last record that was heard.
    last: Seq,
    ready: VecDeque<Event>,
    /// The run's own events, while it is at work in this process.
    live: Option<Events>,
    /// What is passed on, while it is not.
    remote: Option<Remote>,
    /// What takes back what was heard of the calls that no record has closed.
    shown: HashMap<EffectId, LiveEvent>,
    /// When the store is asked next.
    look_at: Instant,
    /// Whether the run waited for somebody when it was looked at last, and nobody had come.
    rests: bool,
    is_over: bool,
}

/// What another process passes on of a run's live events.
struct Remote {
    live: RemoteLive,
    /// How far it was heard.
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
                    // It was put aside, lost or left without an end: it may go on anywhere.
                    None => {
                        self.live = None;
                        self.take_back();
                        self.pause().await;
                    }
                }
                continue;
            }
            let parts = Arc::clone(&self.runs.parts);
            // From now on nothing is missed.
            let moved = parts.active.moved();
            if let Reached::Here(handle) = self.runs.reach(self.run) {
                self.live = Some(handle.events());
                self.remote = None;
                self.take_back();
                continue;
            }
            if self.look_at <= Instant::now() {
                self.look_or_complain().await;
            }
            if self.ready.is_empty() && !self.is_over {
                self.wait(moved).await;
            }
        }
    }

    async fn look_or_complain(&mut self) {
        match self.look().await {
            Ok(()) => {}
            Err(error) if error.is_retryable() => {
                tracing::debug!(run = %self.run, %error, "a run that is followed was not read");
            }
            Err(error) => {
                tracing::warn!(run = %self.run, %error, "a run is not followed any more");
                self.is_over = true;
            }
        }
        // Where there was something, there may be more.
        self.look_at = Instant::now();
        if self.ready.is_empty() {
            self.look_at += match self.rests {
                true => LOOK_EVERY_AT_REST,
                false => LOOK_EVERY,
            };
        }
    }

    /// Takes over what was kept since the last record that was heard.
    async fn look(&mut self) -> Result<(), StoreError> {
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
            let early = remote.live.hear_early(before, opened);
            let shown = remote.read(&early.shown, before);
            self.ready.extend(shown.into_iter().map(Event::Live));
        }
        if self.ready.is_empty() {
            // Whoever had the last record already is told no other.
            let run = self.runs.parts.store.run(self.run).await?;
            self.is_over = run.ended_at.is_some() && run.records <= self.last.0;
            let is_put_aside = run.status == RunStatus::Waiting && run.leased_until.is_none();
            self.rests = is_put_aside && !run.has_mail;
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

    /// Notes what would take back what is heard now.
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

    /// Voids what was heard of calls under way: whoever drives the run now may make them anew.
    fn take_back(&mut self) {
        let after = self.last;
        let shown = std::mem::take(&mut self.shown).into_values();
        let void = shown.map(|event| Event::Live(LiveEvent { after, ..event }));
        self.ready.extend(void);
    }

    /// Waits until the store is to be asked again, or something is passed on; of a run that rests, also until any run has begun
    /// here or is gone, which may be this one.
    async fn wait(&mut self, moved: Notified<'_>) {
        let parts = &self.runs.parts;
        let (run, last) = (self.run, self.last);
        let rests = self.rests;
        let remote = self.remote.get_or_insert_with(|| Remote {
            live: RemoteLive::new(parts.live.as_ref(), run, last),
            reading: HashMap::new(),
        });
        tokio::select! {
            () = parts.engine.shutdown.cancelled() => self.move_on(),
            () = sleep_until(self.look_at) => {}
            () = moved, if rests => self.look_at = self.look_at.min(Instant::now() + LOOK_EVERY),
            pieces = remote.live.next() => {
                let (shown, needs_records) = remote.hear(pieces, last);
                self.ready.extend(shown.into_iter().map(Event::Live));
                if needs_records {
                    self.look_at = Instant::now();
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

    /// Goes on at the engine that took the place of this one, which has stopped.
    fn move_on(&mut self) {
        let Some(parts) = self.runs.parts.successor.at_work() else {
            self.is_over = true;
            return;
        };
        self.runs.parts = parts;
        self.remote = None;
        self.take_back();
    }
}

impl Remote {
    /// Takes pieces. Returns what is to be heard, and whether there are records that have to be read first.
    fn hear(&mut self, pieces: Vec<Arc<Piece>>, last: Seq) -> (Vec<LiveEvent>, bool) {
        let heard = self.live.hear(pieces, last, opened);
        (self.read(&heard.shown, last), heard.needs_records)
    }

    /// Returns what is to be heard before a record.
    fn settle(&mut self, record: &Record, before: Seq) -> Vec<LiveEvent> {
        let changed = self.live.settle(record);
        let rest = self.read(&changed, before);
        if let Some(call) = closed_call(record) {
            self.reading.remove(&call);
        }
        rest
    }

    /// Reads what calls have shown since they were read last.
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

/// Opens what a call shows, for one who listens alone.
fn opened(call: LiveCall) -> Arc<CallBuffer> {
    Arc::new(CallBuffer::new(call))
}
