//! What a run that is driven here holds: its place among the runs in progress in this process, and its lease.
//!
//! [`Claim`] is the place alone, which keeps the rest of this process away from the run. [`RunSlot`] is the place
//! together with the right to write the run's records. Both are released when dropped.
//!
//! A claim becomes a slot by leasing, which completes even if the caller goes away meanwhile (`Leasing` in `claim`): by
//! then the store may have begun the run. The slot is dropped then, and if the run turns out to be on record, its
//! [`OrphanPolicy`] says whether it is ended or left to be resumed.

mod claim;
mod lease;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{InboxEntry, InputId, Record, RunId, SessionId};
use neuraxis_ports::{LongOutput, RunLease, SessionStore, StoreError};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::orchestrator::Parts;
use crate::run_handle::RunHandle;
use crate::runs::{ResumeError, Runs, is_first_step};
use crate::store_retry::{retried, retried_after};
pub(crate) use claim::{Claim, OrphanPolicy};
use lease::{HeldLease, Moment};

/// The runs in progress in this process.
#[derive(Debug, Default)]
pub(crate) struct ActiveRuns {
    runs: Mutex<HashMap<RunId, ActiveRun>>,
    /// The runs that were stopped and whose leases have not been released yet.
    stopped: Mutex<HashSet<RunId>>,
    /// Notified when a run becomes reachable or is gone.
    changed: Notify,
}

/// The state of a run in progress: empty until it has begun.
#[derive(Debug, Default)]
struct ActiveRun {
    handle: Option<Box<RunHandle>>,
    /// Stops its task, without ending the run.
    task: Option<AbortHandle>,
    /// Notified when another process has posted to it.
    posted: Arc<Notify>,
}

/// A run whose task was stopped.
#[derive(Debug)]
pub(crate) struct StoppedRun {
    pub(crate) run: RunId,
    pub(crate) session: SessionId,
    /// Whether its log holds only its first step.
    pub(crate) has_only_begun: bool,
}

/// Whether a run can be reached in this process.
#[derive(Debug)]
pub(crate) enum Reachability {
    /// It is in progress, and this handle reaches it.
    Here(RunHandle),
    /// It is just being started or resumed.
    Starting,
    /// It is not in progress in this process.
    Absent,
}

impl ActiveRuns {
    /// Returns whether and how a run can be reached here.
    pub(crate) fn reach(&self, run: RunId) -> Reachability {
        match self.lock().get(&run) {
            Some(ActiveRun {
                handle: Some(handle),
                ..
            }) => Reachability::Here(RunHandle::clone(handle)),
            Some(_) => Reachability::Starting,
            None => Reachability::Absent,
        }
    }

    /// Returns whether a run is in progress here, or about to be.
    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.lock().contains_key(&run)
    }

    /// Returns whether a run is in progress here, or was stopped and still has its lease.
    pub(crate) fn holds(&self, run: RunId) -> bool {
        self.contains(run) || self.stopped().contains(&run)
    }

    /// Makes a run check its inbox soon, if it is in progress here.
    pub(crate) fn check_inbox(&self, run: RunId) {
        if let Some(active) = self.lock().get(&run) {
            active.posted.notify_one();
        }
    }

    /// Returns whether no run is in progress here.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns the runs in progress here, in no particular order.
    pub(crate) fn ids(&self) -> Vec<RunId> {
        self.lock().keys().copied().collect()
    }

    /// Completes once a run becomes reachable, or is gone, after this call.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Waits while a run is being parked, or its end is being stored: it accepts nothing any more, and cannot be
    /// resumed yet.
    pub(crate) async fn until_parked(&self, run: RunId) {
        loop {
            // From here on no notification is missed.
            let changed = self.changed();
            match self.reach(run) {
                Reachability::Here(handle) if handle.link.inbox.is_closed() => changed.await,
                _ => return,
            }
        }
    }

    /// Stores the handle that stops the task of a run. The task may have ended already.
    pub(crate) fn note_task(&self, run: RunId, task: AbortHandle) {
        if let Some(active) = self.lock().get_mut(&run) {
            active.task = Some(task);
        }
    }

    /// Stops the tasks of all runs, and waits until none of them does anything more. Each stays in `stopped` until
    /// [`note_released`](Self::note_released).
    pub(crate) async fn stop(&self) -> Vec<StoppedRun> {
        let mut stopped = Vec::new();
        for (run, active) in self.lock().iter() {
            if let (Some(task), Some(handle)) = (&active.task, &active.handle) {
                self.stopped().insert(*run);
                task.abort();
                stopped.push(StoppedRun {
                    run: *run,
                    session: handle.session_id.clone(),
                    has_only_begun: handle.link.feed.with_records(is_first_step),
                });
            }
        }
        for stopped in &stopped {
            self.until_gone(stopped.run).await;
        }
        stopped
    }

    /// Waits until a run has no place here any more.
    async fn until_gone(&self, run: RunId) {
        loop {
            // From here on no notification is missed.
            let changed = self.changed();
            if !self.contains(run) {
                return;
            }
            changed.await;
        }
    }

    /// Notes that nothing more will be done here about the lease of a stopped run.
    pub(crate) fn note_released(&self, run: RunId) {
        self.stopped().remove(&run);
    }

    fn stopped(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, ActiveRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run's place here and its lease, which every commit renews. When dropped, frees the place. If nothing is on record
/// of the run, because something failed or the caller went away, its lease is released first. If the run turns out to
/// be on record after all, it is ended, or left to be resumed by another process.
#[derive(Debug)]
pub(crate) struct RunSlot {
    parts: Arc<Parts>,
    lease: HeldLease,
    /// Whether nothing needs to be done about the lease when this is dropped: something is on record of the run, or the
    /// lease was given back.
    needs_no_cleanup: AtomicBool,
    /// What happens to the run if it is on record but no caller here learned of it.
    orphan_policy: OrphanPolicy,
    /// Notified when another process has posted to the run.
    posted: Arc<Notify>,
    /// Its place here, until this is dropped.
    claim: Option<Claim>,
}

impl RunSlot {
    /// Returns the run.
    pub(crate) const fn run(&self) -> RunId {
        self.lease.lease.run
    }

    /// Returns the token of its lease, which is greater than the tokens of all earlier leases of the session.
    pub(crate) const fn lease_token(&self) -> u64 {
        self.lease.lease.token
    }

    /// Returns the session of the run.
    pub(crate) const fn session(&self) -> &SessionId {
        &self.lease.lease.session
    }

    /// Returns what happens to the run if no caller learns that it began.
    pub(crate) const fn orphan_policy(&self) -> OrphanPolicy {
        self.orphan_policy
    }

    /// Returns the service that the run belongs to.
    pub(crate) fn runs(&self) -> Runs {
        Runs::new(&self.parts)
    }

    /// Notes that dropping the slot must not release its lease as if the run had never existed: something is on record
    /// of the run, or the lease was given back.
    pub(crate) fn note_needs_no_cleanup(&self) {
        self.needs_no_cleanup.store(true, Ordering::Relaxed);
    }

    /// Notes that this process has lost the run while still alive.
    pub(crate) fn note_lost(&self) {
        self.parts.lost.note(self.run());
    }

    /// Notes that the run was left because of a defect: if it cannot be continued from its log either, it is ended,
    /// even if this process had lost it before.
    pub(crate) fn note_defect(&self) {
        self.parts.lost.forget(self.run());
    }

    /// Makes the run reachable in this process: what is posted here reaches it immediately, and a repeated request gets
    /// its events.
    pub(crate) fn show(&self, handle: RunHandle) {
        let active = &self.parts.active;
        active.lock().entry(self.run()).or_default().handle = Some(Box::new(handle));
        active.changed.notify_waiters();
    }

    /// Releases the lease of a run that never began, and waits for it: when this returns the session is free. If it
    /// fails, it is retried when the slot is dropped, which finds out what is on record.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if something is on record of the run after all.
    pub(crate) async fn abandon(&self) -> Result<(), StoreError> {
        self.store().abandon_run(&self.lease.lease).await?;
        // Not earlier: if this fails, or is not awaited, the slot must still release the lease when dropped.
        self.note_needs_no_cleanup();
        Ok(())
    }

    /// Releases the lease if nothing is on record of the run.
    pub(crate) async fn abandon_if_unrecorded(&self) {
        if !self.needs_no_cleanup.load(Ordering::Relaxed) {
            let _ = self.abandon().await;
        }
    }

    /// Stores records, which also renews the lease.
    ///
    /// # Errors
    ///
    /// The error of the store after several attempts, or once another process may have the run.
    pub(crate) async fn commit(&self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        // The time before the first attempt counts: a later attempt may only learn that the first one was stored, which
        // does not extend the lease.
        let requested_at = self.moment();
        match self.store().commit(&self.lease.lease, records).await {
            // Boxed because it is rarely needed and every step would otherwise reserve space for it.
            Err(error) if error.is_retryable() => {
                Box::pin(self.commit_again(records, error)).await?;
            }
            first => first?,
        }
        self.lease.note_renewed(requested_at);
        self.note_needs_no_cleanup();
        Ok(())
    }

    async fn commit_again(
        &self,
        records: &[Arc<Record>],
        failed: StoreError,
    ) -> Result<(), StoreError> {
        let why = failed.clone();
        // Once another process may have the run, work on it must stop here, whatever happens to the commit.
        let again = retried_after(failed, || self.store().commit(&self.lease.lease, records));
        let again = tokio::time::timeout(self.lease.left(self.moment()), again);
        again.await.unwrap_or(Err(why))
    }

    /// Stores the long output of a call beside the run, before the record that names it is stored.
    ///
    /// # Errors
    ///
    /// The error of the store after several attempts; [`StoreError::Stale`] once another process may have the run.
    pub(crate) async fn keep_output(&self, output: &LongOutput) -> Result<(), StoreError> {
        retried(|| self.store().keep_output(&self.lease.lease, output)).await
    }

    /// Returns when the lease must be renewed, if nothing is committed until then.
    pub(crate) fn heartbeat(&self) -> Option<Instant> {
        self.lease.heartbeat()
    }

    /// Renews the lease while the run has nothing to commit. Fails once the run is lost: another process has it, or may
    /// have it by now.
    pub(crate) async fn renew(&self) -> Result<(), StoreError> {
        let Err(error) = self.ask_for_more_time().await else {
            return Ok(());
        };
        if matches!(error, StoreError::Stale(_)) || !self.is_held() {
            return Err(error);
        }
        tracing::warn!(run = %self.run(), %error, "could not renew the run's lease yet");
        Ok(())
    }

    /// Returns whether no other process can have the run at this moment. Ask this right before anything begins.
    pub(crate) fn is_held(&self) -> bool {
        self.lease.is_valid(self.moment())
    }

    /// Checks a run whose lease may have expired: if no other process has taken it over, none can from now on.
    pub(crate) async fn hold_again(&self) -> Result<(), StoreError> {
        self.ask_for_more_time().await?;
        match self.is_held() {
            true => Ok(()),
            // The response also came after the lease had expired.
            false => Err(StoreError::Stale(self.run())),
        }
    }

    async fn ask_for_more_time(&self) -> Result<(), StoreError> {
        let requested_at = self.moment();
        self.lease.note_tried(requested_at);
        self.store().renew(&self.lease.lease).await?;
        self.lease.note_renewed(requested_at);
        Ok(())
    }

    /// Returns what was posted to the run and not taken yet, the oldest first.
    pub(crate) async fn inbox(&self) -> Result<Vec<InboxEntry>, StoreError> {
        self.lease.note_inbox_read(Instant::now());
        self.store().inbox(&self.lease.lease).await
    }

    /// Returns whether the inbox has not been read for as long as a lease goes without renewal.
    pub(crate) fn is_inbox_due(&self) -> bool {
        self.lease.is_inbox_due()
    }

    /// Completes once this process has been notified that another process posted to the run.
    pub(crate) async fn until_posted_to(&self) {
        self.posted.notified().await;
    }

    /// Removes from the inbox an entry that no record will name.
    pub(crate) async fn settle(&self, id: &InputId) -> Result<(), StoreError> {
        let ids = std::slice::from_ref(id);
        self.store().settle(&self.lease.lease, ids).await
    }

    /// Releases the lease of a run that did not end: other processes may resume it.
    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        self.note_needs_no_cleanup();
        self.store().release(&self.lease.lease).await
    }

    /// Like [`release`](Self::release), for a run whose log says nothing about what was in progress: it is resumed like
    /// a run whose process died.
    pub(crate) async fn expire(&self) -> Result<(), StoreError> {
        self.note_needs_no_cleanup();
        self.store().expire(&self.lease.lease).await
    }

    /// Returns the store that holds the run, for a call that outlives this borrow.
    pub(crate) fn shared_store(&self) -> Arc<dyn SessionStore> {
        Arc::clone(&self.parts.store)
    }

    /// Returns the store that holds the run.
    pub(crate) fn store(&self) -> &dyn SessionStore {
        self.parts.store.as_ref()
    }

    fn moment(&self) -> Moment {
        Moment::now(self.parts.engine.clock.as_ref())
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if self.needs_no_cleanup.load(Ordering::Relaxed) {
            return;
        }
        // Kept until then, so that a repeated request waits meanwhile and is not told that another process has the run.
        let Some(claim) = self.claim.take() else {
            return;
        };
        let (lease, orphan_policy) = (self.lease.lease.clone(), self.orphan_policy);
        after_drop(&self.parts.engine.tasks, async move {
            let abandoned = claim.parts.store.abandon_run(&lease).await;
            match abandoned {
                Err(StoreError::Stale(_)) => {
                    if let Err(error) = settle_orphan(claim, &lease, orphan_policy).await {
                        note_unended(lease.run, &error);
                    }
                }
                Err(error) => note_busy(lease.run, &error),
                Ok(()) => {}
            }
        });
    }
}

/// Does the remaining work of a dropped value in a separate task. Outside of a runtime nothing is done: the run is
/// found by recovery once its lease has expired.
pub(super) fn after_drop(tasks: &TaskTracker, work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        tasks.spawn_on(work, &runtime);
    }
}

/// Ends a run that is on record and that no task here drives, or lets other processes resume it immediately.
async fn settle_orphan(
    claim: Claim,
    lease: &RunLease,
    orphan_policy: OrphanPolicy,
) -> Result<(), ResumeError> {
    match orphan_policy {
        OrphanPolicy::End => {
            let runs = Runs::new(&claim.parts);
            runs.end_orphan(claim).await
        }
        OrphanPolicy::Leave => match claim.parts.store.release(lease).await {
            // Another process has it already, or it was released before and only the response was lost.
            Err(StoreError::Stale(_) | StoreError::NoSuchRun(_)) => Ok(()),
            released => Ok(released?),
        },
    }
}

pub(super) fn note_unended(run: RunId, error: &ResumeError) {
    tracing::warn!(%run, %error, "could not end a run whose caller never learned that it started; it will be resumed later");
}

fn note_busy(run: RunId, error: &StoreError) {
    tracing::warn!(%run, %error, "could not release a session reserved for a run that never started; it stays busy");
}
