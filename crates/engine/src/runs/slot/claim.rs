//! The place of a run among those at work here, and how it comes to its lease, whether or not its caller stays to hear of it.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{RunStart, StoreError};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::lease::{HeldLease, Moment};
use super::{ActiveRun, RunSlot, after_drop, note_unended};
use crate::orchestrator::Parts;
use crate::runs::{ResumeError, Runs};
use crate::store_retry::{retried, retried_after};

/// Why a run ended whose request was refused although it had begun.
const REFUSED: &str = "the store could not say that it had begun, so that its request was refused";

/// The place of a run among those at work here: nobody else in this process can take it up meanwhile.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) parts: Arc<Parts>,
    pub(super) run: RunId,
    pub(super) posted: Arc<Notify>,
}

impl Claim {
    /// Takes the place of a run; `None` if it is taken, here or in an engine whose place this one took.
    pub(crate) fn take(parts: &Arc<Parts>, run: RunId) -> Option<Self> {
        if parts.former.have(run) {
            return None;
        }
        let posted = match parts.active.lock().entry(run) {
            Entry::Vacant(place) => Arc::clone(&place.insert(ActiveRun::default()).posted),
            Entry::Occupied(_) => return None,
        };
        Some(Self {
            parts: Arc::clone(parts),
            run,
            posted,
        })
    }

    /// Returns the run.
    pub(crate) const fn run(&self) -> RunId {
        self.run
    }

    /// Leases the run in a session that is there, as often as it takes: if only the answer was lost, the session is the run's
    /// already, and nobody but this run could free it.
    pub(crate) async fn lease(self, session: &SessionId) -> Result<RunSlot, StoreError> {
        let start = RunStart::new(session.clone(), self.run);
        Leasing::begin(self, start, Unheard::Left).over().await
    }

    /// As [`lease`](Self::lease), for the end of a run. One that was imported stays so: nobody let it go on.
    pub(crate) async fn lease_to_end(
        self,
        session: &SessionId,
        imported: bool,
    ) -> Result<RunSlot, StoreError> {
        let mut start = RunStart::new(session.clone(), self.run);
        start.imported = imported;
        Leasing::begin(self, start, Unheard::Left).over().await
    }

    /// Leases the run, which begins with whatever its start says. One that makes its session is refused at once where the
    /// store keeps nothing: whoever asked is to hear so, and nothing is lost with a session that is not there. One with records that
    /// may have begun all the same is given up. So is one whose caller goes away meanwhile, unless it is under a key: that is left
    /// for the request made again.
    pub(crate) async fn lease_for(self, start: RunStart) -> Result<RunSlot, StoreError> {
        let unheard = match start.request {
            Some(_) => Unheard::Left,
            None => Unheard::Ended,
        };
        let has_records = !start.records.is_empty();
        let slot = Leasing::begin(self, start, unheard).over().await?;
        // Not before: what nobody heard of is given up as the slot is dropped.
        if has_records {
            slot.note_recorded();
        }
        Ok(slot)
    }

    async fn lease_now(self, start: RunStart, unheard: Unheard) -> Result<RunSlot, StoreError> {
        let store = self.parts.store.as_ref();
        let asked = Moment::now(self.parts.engine.clock.as_ref());
        let begun = store.begin(&start).await;
        let is_kept = !matches!(&begun, Err(error) if error.is_retryable());
        self.parts.known.note_kept(is_kept);
        let begun = match begun {
            // Boxed, because it is seldom needed.
            Err(error) if error.is_retryable() && start.new_session.is_none() => {
                let again = retried_after(error, || store.begin(&start));
                Box::pin(again).await
            }
            begun => begun,
        };
        let lease = match begun {
            Err(error) if error.is_retryable() && !start.records.is_empty() => {
                self.give_up(start);
                return Err(error);
            }
            begun => begun?,
        };
        Ok(RunSlot {
            parts: Arc::clone(&self.parts),
            lease: HeldLease::new(lease, asked),
            is_recorded: AtomicBool::new(false),
            unheard,
            posted: Arc::clone(&self.posted),
            claim: Some(self),
        })
    }

    /// Gives up a run that may have begun although the store could not say so: it is ended, and the session that was made with
    /// it is free. One under a key is left for the request made again. If that fails, too, the run is taken up once its lease has
    /// run out.
    fn give_up(self, start: RunStart) {
        let tasks = self.parts.engine.tasks.clone();
        tasks.spawn(async move {
            let store = self.parts.store.as_ref();
            if retried(|| store.run(self.run)).await.is_err() {
                return;
            }
            let (run, runs) = (self.run, Runs::new(&self.parts));
            let given_up = match start.request {
                Some(_) => self.let_go_on(&start.session).await,
                None => runs.close_claimed(self, REFUSED).await,
            };
            if let Err(error) = given_up {
                note_unended(run, &error);
            }
        });
    }

    /// Lets anybody go on with a run at once that nobody drives.
    async fn let_go_on(self, session: &SessionId) -> Result<(), ResumeError> {
        let slot = self.lease(session).await?;
        Ok(slot.release().await?)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.parts.active.lock().remove(&self.run);
        self.parts.active.moved.notify_waiters();
    }
}

/// A run that is being leased. Dropped before that is over, it is leased all the same, since it may have begun by then, and
/// given up as its slot is dropped.
struct Leasing {
    tasks: TaskTracker,
    leased: Fuse<BoxFuture<'static, Result<RunSlot, StoreError>>>,
}

impl Leasing {
    fn begin(claim: Claim, start: RunStart, unheard: Unheard) -> Self {
        Self {
            tasks: claim.parts.engine.tasks.clone(),
            leased: claim.lease_now(start, unheard).boxed().fuse(),
        }
    }

    async fn over(mut self) -> Result<RunSlot, StoreError> {
        (&mut self.leased).await
    }
}

impl Drop for Leasing {
    fn drop(&mut self) {
        if self.leased.is_terminated() {
            return;
        }
        let leased = std::mem::replace(&mut self.leased, Fuse::terminated());
        after_drop(&self.tasks, async move { drop(leased.await) });
    }
}

/// What becomes of a run that turns out to be on record when whoever asked for it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// It is ended: nobody else would.
    Ended,
    /// It is left to whoever takes it up.
    Left,
}
