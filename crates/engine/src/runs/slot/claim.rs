//! The place of a run among those in progress here, and how it gets its lease, whether or not its caller waits for the
//! outcome.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use neuraxis_core::{Interruption, RunId, SessionId};
use neuraxis_ports::{RunStart, StoreError};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::lease::{HeldLease, Moment};
use super::{ActiveRun, RunSlot, after_drop, note_unended};
use crate::orchestrator::Parts;
use crate::runs::{ResumeError, Runs};
use crate::store_retry::{retried, retried_after};

/// The place of a run among those in progress here: nothing else in this process can resume the run meanwhile.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) parts: Arc<Parts>,
    pub(super) run: RunId,
    pub(super) posted: Arc<Notify>,
}

impl Claim {
    /// Takes the place of a run; `None` if it is taken, here or in an engine that this one replaced.
    pub(crate) fn take(parts: &Arc<Parts>, run: RunId) -> Option<Self> {
        if parts.former.holds_and_notifies(run) {
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

    /// Leases the run in an existing session, with as many attempts as needed: if only the response was lost, the
    /// session already belongs to the run, and only this run could free it.
    pub(crate) async fn lease(self, session: &SessionId) -> Result<RunSlot, StoreError> {
        let start = RunStart::new(session.clone(), self.run);
        Leasing::begin(self, start, OrphanPolicy::Leave)
            .finish()
            .await
    }

    /// Like [`lease`](Self::lease), in order to end the run. An imported run stays marked as imported: it was not
    /// allowed to continue.
    pub(crate) async fn lease_to_end(
        self,
        session: &SessionId,
        imported: bool,
    ) -> Result<RunSlot, StoreError> {
        let mut start = RunStart::new(session.clone(), self.run);
        start.imported = imported;
        Leasing::begin(self, start, OrphanPolicy::Leave)
            .finish()
            .await
    }

    /// Leases the run, which begins as its start says. If the run creates its session and the store fails, it is
    /// refused immediately: the caller should learn of it, and nothing is lost, since the session does not exist yet.
    /// If the run has records and may have begun anyway, it is given up. The same happens if the caller goes away
    /// meanwhile, unless the run has an idempotency key: then it is left for the repeated request.
    pub(crate) async fn lease_for(self, start: RunStart) -> Result<RunSlot, StoreError> {
        let orphan_policy = match start.request {
            Some(_) => OrphanPolicy::Leave,
            None => OrphanPolicy::End,
        };
        let has_records = !start.records.is_empty();
        let slot = Leasing::begin(self, start, orphan_policy).finish().await?;
        // Not earlier: a run that no caller learned of is given up when the slot is dropped.
        if has_records {
            slot.note_needs_no_cleanup();
        }
        Ok(slot)
    }

    async fn lease_now(
        self,
        start: RunStart,
        orphan_policy: OrphanPolicy,
    ) -> Result<RunSlot, StoreError> {
        let store = self.parts.store.as_ref();
        let requested_at = Moment::now(self.parts.engine.clock.as_ref());
        let begun = store.begin(&start).await;
        let store_works = !matches!(&begun, Err(error) if error.is_retryable());
        self.parts.known.note_store_works(store_works);
        let begun = match begun {
            // Boxed because it is rarely needed.
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
            lease: HeldLease::new(lease, requested_at),
            needs_no_cleanup: AtomicBool::new(false),
            orphan_policy,
            posted: Arc::clone(&self.posted),
            claim: Some(self),
        })
    }

    /// Gives up a run that may have begun although the store could not confirm it: ends it, which frees the session
    /// that was created with it. A run with a key is left for the repeated request. If that also fails, the run is
    /// resumed once its lease has expired.
    fn give_up(self, start: RunStart) {
        let tasks = self.parts.engine.tasks.clone();
        tasks.spawn(async move {
            let store = self.parts.store.as_ref();
            if retried(|| store.run(self.run)).await.is_err() {
                return;
            }
            let (run, runs) = (self.run, Runs::new(&self.parts));
            let given_up = match start.request {
                Some(_) => self.make_resumable(&start.session).await,
                None => {
                    let cause = Interruption::StartUnconfirmed;
                    runs.close_claimed(self, cause, &cause.to_string(), None)
                        .await
                }
            };
            if let Err(error) = given_up {
                note_unended(run, &error);
            }
        });
    }

    /// Lets any process continue a run immediately that no process drives.
    async fn make_resumable(self, session: &SessionId) -> Result<(), ResumeError> {
        let slot = self.lease(session).await?;
        Ok(slot.release().await?)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.parts.active.lock().remove(&self.run);
        self.parts.active.changed.notify_waiters();
    }
}

/// A run that is being leased. If dropped earlier, the leasing still completes, since the run may have begun by then,
/// and the run is given up when its slot is dropped.
struct Leasing {
    tasks: TaskTracker,
    leased: Fuse<BoxFuture<'static, Result<RunSlot, StoreError>>>,
}

impl Leasing {
    fn begin(claim: Claim, start: RunStart, orphan_policy: OrphanPolicy) -> Self {
        Self {
            tasks: claim.parts.engine.tasks.clone(),
            leased: claim.lease_now(start, orphan_policy).boxed().fuse(),
        }
    }

    async fn finish(mut self) -> Result<RunSlot, StoreError> {
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

/// What happens to a run that turns out to be on record after its caller has gone away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanPolicy {
    /// It is ended: no other request would end it.
    End,
    /// It is left to be resumed.
    Leave,
}
