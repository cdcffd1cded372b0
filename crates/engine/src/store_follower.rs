//! Follows a run that this process does not drive: the one place that decides when the store is asked for the run's
//! new records, and whether more may come. Between records come the live events that the driving process sends.
//!
//! What is done with both is up to the [`RunListener`]: the events of one caller, the feed of a handle, or a list of
//! records.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{RunId, RunStatus, Seq};
use neuraxis_ports::{SessionStore, StoreError};
use tokio::time::{Instant, sleep_until};

use crate::live::{LiveExchange, RemoteLive, RunListener};

/// How often the store is asked about a run of which nothing new was found.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often, for a caller that follows a run at rest, maybe for days.
const LOOK_EVERY_AT_REST: Duration = Duration::from_secs(2);

/// How soon the store is asked again after something new was found. The pause doubles each time there is nothing, up to
/// [`LOOK_EVERY`].
const LOOK_SOON: Duration = Duration::from_millis(10);

/// A run that is followed in the store.
#[derive(Debug)]
pub(crate) struct StoreFollower {
    store: Arc<dyn SessionStore>,
    run: RunId,
    /// The last record that was found.
    last: Seq,
    /// Where live events come from, if they are exchanged.
    exchange: Option<Arc<LiveExchange>>,
    /// Live events from the process that drives the run, once they are waited for.
    live: Option<RemoteLive>,
    next_look: Instant,
    /// The pause before the next look.
    pause: Duration,
}

/// What is expected of a run after a look at the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Records, unless no process drives it.
    Records,
    /// Nothing until it is answered from outside: it waits, no process has it, and nothing was posted to it.
    Answer,
    /// Nothing more: it has ended, and its last record was found.
    Nothing,
}

impl StoreFollower {
    /// Follows a run after one of its records, without live events. The first look is due immediately.
    pub(crate) fn new(store: &Arc<dyn SessionStore>, run: RunId, after: Seq) -> Self {
        Self {
            store: Arc::clone(store),
            run,
            last: after,
            exchange: None,
            live: None,
            next_look: Instant::now(),
            pause: LOOK_SOON,
        }
    }

    /// Adds the live events of the run, if they are exchanged.
    pub(crate) fn with_live(mut self, exchange: Option<&Arc<LiveExchange>>) -> Self {
        self.exchange = exchange.cloned();
        self
    }

    /// Shows what was stored since the last look, and determines when to look again.
    ///
    /// # Errors
    ///
    /// The error of the store. The next look may succeed if the error can be retried.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no record.
    pub(crate) async fn look(
        &mut self,
        listener: &mut impl RunListener,
    ) -> Result<Expected, StoreError> {
        let before = self.last;
        let expected = self.show_new_records(listener).await;
        self.pause = match self.last == before {
            true => (self.pause * 2).min(LOOK_EVERY),
            false => LOOK_SOON,
        };
        self.next_look = Instant::now() + self.pause;
        expected
    }

    async fn show_new_records(
        &mut self,
        listener: &mut impl RunListener,
    ) -> Result<Expected, StoreError> {
        // Read before the records, so that none of the records it refers to is missed.
        let run = self.store.run(self.run).await?;
        if run.records > self.last.0 {
            for record in self.store.records(self.run, self.last).await? {
                let seq = record.seq;
                match &mut self.live {
                    Some(live) => live.show_record(record, self.last, listener),
                    None => listener.show_record(record),
                }
                self.last = seq;
            }
            if let Some(live) = &mut self.live {
                live.show_early_pieces(self.last, listener);
            }
        }
        if run.ended_at.is_some() && run.records <= self.last.0 {
            return Ok(Expected::Nothing);
        }
        let is_left = run.leased_until.is_none() && !run.has_mail;
        let waits = run.status == RunStatus::Waiting && run.records == self.last.0;
        Ok(match is_left && waits {
            true => Expected::Answer,
            false => Expected::Records,
        })
    }

    /// Returns whether it is time to look at the store.
    pub(crate) fn is_due(&self) -> bool {
        self.next_look <= Instant::now()
    }

    /// Leaves a run at rest alone for longer.
    pub(crate) fn rest(&mut self) {
        self.next_look = Instant::now() + LOOK_EVERY_AT_REST;
    }

    /// Makes the next look due within the usual pause.
    pub(crate) fn stop_resting(&mut self) {
        self.next_look = self.next_look.min(Instant::now() + LOOK_EVERY);
    }

    /// Waits until it is time to look at the store, or live events have arrived and were shown.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn wait(&mut self, listener: &mut impl RunListener) {
        let last = self.last;
        if let (None, Some(exchange)) = (&self.live, &self.exchange) {
            self.live = Some(RemoteLive::new(exchange, self.run, last));
        }
        let live = &mut self.live;
        let needs_records = async {
            match live {
                Some(live) => live.show_next_pieces(last, listener).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = sleep_until(self.next_look) => {}
            needs_records = needs_records => if needs_records {
                self.next_look = Instant::now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::{EffectId, Pending, PendingKind, Record, RecordBody, ToolCallId, Waiting};
    use neuraxis_memory::MemoryStore;
    use neuraxis_ports::{RunLease, RunLog as _, Session, SessionIndex as _};
    use neuraxis_testkit::{CountingIds, FailingStore, RunLog, START, StoreOperation, reply};

    use super::*;

    struct World {
        store: Arc<FailingStore<MemoryStore>>,
        lease: RunLease,
        log: RunLog,
        follower: StoreFollower,
        shown: Vec<Arc<Record>>,
    }

    impl RunListener for Vec<Arc<Record>> {
        fn show_record(&mut self, record: Arc<Record>) {
            self.push(record);
        }
    }

    impl World {
        async fn new() -> Self {
            let store = Arc::new(FailingStore::new(MemoryStore::new()));
            let session = Session::new("main".parse().unwrap(), START);
            store.create_session(&session).await.unwrap();
            let run = CountingIds::nth_run(1);
            let shared: Arc<dyn SessionStore> = store.clone();
            Self {
                lease: store.begin_run(&session.id, run).await.unwrap(),
                log: RunLog::new(run, session.id),
                follower: StoreFollower::new(&shared, run, Seq(0)),
                store,
                shown: Vec::new(),
            }
        }

        async fn commit(&mut self, record: impl FnOnce(&mut RunLog) -> Arc<Record>) {
            let record = record(&mut self.log);
            self.store.commit(&self.lease, &[record]).await.unwrap();
        }

        /// Waits until it is time to look. Returns how long that took, and what the look found.
        async fn look(&mut self) -> (Duration, usize, Expected) {
            let began = Instant::now();
            while !self.follower.is_due() {
                self.follower.wait(&mut self.shown).await;
            }
            let (waited, before) = (began.elapsed(), self.shown.len());
            let expected = self.follower.look(&mut self.shown).await.unwrap();
            (waited, self.shown.len() - before, expected)
        }
    }

    fn waiting(log: &mut RunLog) -> Arc<Record> {
        let pending = vec![Pending {
            effect_id: EffectId {
                run: log.run(),
                number: 2,
            },
            tool_call_id: ToolCallId::from_text("call_1"),
            kind: PendingKind::Approval,
            expires_at: None,
        }];
        log.record(RecordBody::Waiting(Box::new(Waiting { pending })))
    }

    #[tokio::test(start_paused = true)]
    async fn the_store_is_asked_soon_after_something_new_and_then_less_and_less_often() {
        let mut world = World::new().await;
        let mut waited = Vec::new();
        for look in 0..9 {
            if [0, 2].contains(&look) {
                world.commit(|log| log.warned("slow")).await;
            }
            let (pause, found, expected) = world.look().await;
            assert_eq!(
                (found == 1, expected),
                ([0, 2].contains(&look), Expected::Records)
            );
            waited.push(pause.as_millis());
        }
        assert_eq!(waited, [0, 10, 20, 10, 20, 40, 80, 160, 250]);
        let records = |it: &&StoreOperation| **it == StoreOperation::Records;
        let calls = world.store.calls();
        assert_eq!(
            calls.iter().filter(records).count(),
            2,
            "only what is new is read"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_expected_once_a_waiting_run_is_left_and_nothing_once_it_has_ended() {
        let mut world = World::new().await;
        world.commit(|log| log.started("Pay?")).await;
        world.commit(waiting).await;
        let (_, found, expected) = world.look().await;
        assert_eq!(
            (found, expected),
            (2, Expected::Records),
            "its process has it"
        );
        world.store.release(&world.lease).await.unwrap();
        assert_eq!(world.look().await.2, Expected::Answer);
        world.follower.rest();
        assert_eq!(world.look().await.0, LOOK_EVERY_AT_REST);
        world.follower.rest();
        world.follower.stop_resting();
        assert_eq!(world.look().await.0, LOOK_EVERY);

        let session = world.lease.session.clone();
        world.lease = world
            .store
            .begin_run(&session, world.lease.run)
            .await
            .unwrap();
        world.commit(|log| log.replied(reply::text("Paid."))).await;
        assert_eq!(world.look().await.2, Expected::Records);
        world.commit(|log| log.finished("Paid.")).await;
        let (_, found, expected) = world.look().await;
        assert_eq!((found, expected), (1, Expected::Nothing));
    }
}
