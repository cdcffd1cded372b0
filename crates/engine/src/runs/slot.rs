//! What a run that is driven here holds: its place among the runs at work in this process, and its lease.
//!
//! [`Claim`] is the place alone, which keeps everybody else in this process away from the run; [`RunSlot`] is the place with
//! the right to write the run's records. Both are given back when they are dropped.

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
pub(crate) use claim::{Claim, Unheard};
use lease::{HeldLease, Moment};

/// The runs at work in this process.
#[derive(Debug, Default)]
pub(crate) struct ActiveRuns {
    runs: Mutex<HashMap<RunId, ActiveRun>>,
    /// Those that were stopped, until their leases are given back.
    stopped: Mutex<HashSet<RunId>>,
    /// One of them can be reached now, or is gone.
    moved: Notify,
}

/// What there is of a run at work: nothing, until it has begun.
#[derive(Debug, Default)]
struct ActiveRun {
    handle: Option<Box<RunHandle>>,
    /// Stops its task, without an end of the run.
    task: Option<AbortHandle>,
    /// Something was posted to it by another process.
    posted: Arc<Notify>,
}

/// A run whose task was stopped.
#[derive(Debug)]
pub(crate) struct StoppedRun {
    pub(crate) run: RunId,
    pub(crate) session: SessionId,
    /// Whether nothing is on record of it but its first step.
    pub(crate) has_only_begun: bool,
}

/// Whether a run can be reached in this process.
#[derive(Debug)]
pub(crate) enum Reached {
    /// It is at work, and this reaches it.
    Here(RunHandle),
    /// It is just being begun or taken up.
    Soon,
    /// It is not at work in this process.
    No,
}

impl ActiveRuns {
    /// Tells whether a run can be reached here.
    pub(crate) fn reach(&self, run: RunId) -> Reached {
        match self.lock().get(&run) {
            Some(ActiveRun {
                handle: Some(handle),
                ..
            }) => Reached::Here(RunHandle::clone(handle)),
            Some(_) => Reached::Soon,
            None => Reached::No,
        }
    }

    /// Tells whether a run is at work here, or just about to be.
    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.lock().contains_key(&run)
    }

    /// Tells whether a run is at work here, or was stopped and still has its lease.
    pub(crate) fn keeps(&self, run: RunId) -> bool {
        self.contains(run) || self.stopped().contains(&run)
    }

    /// Has a run look into its inbox soon, if it is at work here.
    pub(crate) fn hear(&self, run: RunId) {
        if let Some(active) = self.lock().get(&run) {
            active.posted.notify_one();
        }
    }

    /// Tells whether no run is at work here.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns the runs at work here, in no order.
    pub(crate) fn ids(&self) -> Vec<RunId> {
        self.lock().keys().copied().collect()
    }

    /// Is over once a run can be reached, or is gone, after this was called.
    pub(crate) fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Waits while a run is being put aside, or its end is kept: it takes nothing any more, and cannot be taken up yet.
    pub(crate) async fn until_put_aside(&self, run: RunId) {
        loop {
            // From now on nothing is missed.
            let moved = self.moved();
            match self.reach(run) {
                Reached::Here(handle) if handle.link.inbox.is_closed() => moved.await,
                _ => return,
            }
        }
    }

    /// Notes what stops the task of a run. It may be over already.
    pub(crate) fn note_task(&self, run: RunId, task: AbortHandle) {
        if let Some(active) = self.lock().get_mut(&run) {
            active.task = Some(task);
        }
    }

    /// Stops the tasks of all runs, and waits until none of them does anything more. Each is kept until
    /// [`note_left`](Self::note_left).
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
            // From now on nothing is missed.
            let moved = self.moved();
            if !self.contains(run) {
                return;
            }
            moved.await;
        }
    }

    /// Notes that nothing more is done here about the lease of a run that was stopped.
    pub(crate) fn note_left(&self, run: RunId) {
        self.stopped().remove(&run);
    }

    fn stopped(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, ActiveRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run's place here and its lease, renewed by every commit. Dropped, the place is free; the lease of a run of which nothing
/// is on record is given back before, be it that something failed in between or that the caller went away. If it turns out to be on
/// record after all, it is ended, or left to whoever takes it up.
#[derive(Debug)]
pub(crate) struct RunSlot {
    parts: Arc<Parts>,
    lease: HeldLease,
    /// Whether anything is on record of the run.
    is_recorded: AtomicBool,
    /// What becomes of it if something is on record that nobody here heard of.
    unheard: Unheard,
    /// Something was posted to the run by another process.
    posted: Arc<Notify>,
    /// Its place here, until this is dropped.
    claim: Option<Claim>,
}

impl RunSlot {
    /// Returns the run.
    pub(crate) const fn run(&self) -> RunId {
        self.lease.lease.run
    }

    /// Returns the number of its lease, which is greater than those of all who drove it before.
    pub(crate) const fn lease_number(&self) -> u64 {
        self.lease.lease.token
    }

    /// Returns the session of the run.
    pub(crate) const fn session(&self) -> &SessionId {
        &self.lease.lease.session
    }

    /// Returns what becomes of the run if nobody hears that it began.
    pub(crate) const fn unheard(&self) -> Unheard {
        self.unheard
    }

    /// Returns the service that the run belongs to.
    pub(crate) fn runs(&self) -> Runs {
        Runs::new(&self.parts)
    }

    /// Notes that something is on record of the run, so that its lease is not given back as if it had never been.
    pub(crate) fn note_recorded(&self) {
        self.is_recorded.store(true, Ordering::Relaxed);
    }

    /// Notes that the run is lost to this process, which lives.
    pub(crate) fn note_lost(&self) {
        self.parts.lost.note(self.run());
    }

    /// Lets what is posted to the run here reach it at once, and a repeated request its events.
    pub(crate) fn show(&self, handle: RunHandle) {
        let active = &self.parts.active;
        active.lock().entry(self.run()).or_default().handle = Some(Box::new(handle));
        active.moved.notify_waiters();
    }

    /// Gives the lease of a run back that never began, at once: the session is free when the caller hears of it. What fails is
    /// tried again as this is dropped, which finds out what is on record.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if something is on record of the run after all.
    pub(crate) async fn abandon(&self) -> Result<(), StoreError> {
        self.store().abandon_run(&self.lease.lease).await?;
        // Not before: what fails, or is not waited for, leaves a lease that the slot gives back as it is dropped.
        self.note_recorded();
        Ok(())
    }

    /// Gives the lease back if nothing is on record of the run.
    pub(crate) async fn give_back_unless_recorded(&self) {
        if !self.is_recorded.load(Ordering::Relaxed) {
            let _ = self.abandon().await;
        }
    }

    /// Keeps records, and with them the run.
    ///
    /// # Errors
    ///
    /// What the store says after some attempts, or until others may have the run.
    pub(crate) async fn commit(&self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        // Before the first attempt: a later one may only hear that this one was kept, which gives no more time.
        let asked = self.moment();
        match self.store().commit(&self.lease.lease, records).await {
            // Boxed, because it is seldom needed and every step would have to keep room for it.
            Err(error) if error.is_retryable() => {
                Box::pin(self.commit_again(records, error)).await?;
            }
            first => first?,
        }
        self.lease.is_renewed(asked);
        self.note_recorded();
        Ok(())
    }

    async fn commit_again(
        &self,
        records: &[Arc<Record>],
        failed: StoreError,
    ) -> Result<(), StoreError> {
        let why = failed.clone();
        // Once others may have the run, its work here has to stop, whatever becomes of the commit.
        let again = retried_after(failed, || self.store().commit(&self.lease.lease, records));
        let again = tokio::time::timeout(self.lease.left(self.moment()), again);
        again.await.unwrap_or(Err(why))
    }

    /// Keeps the long output of a call beside the run, before the record that names it is kept.
    ///
    /// # Errors
    ///
    /// What the store says after some attempts; [`StoreError::Stale`] once others may have the run.
    pub(crate) async fn keep_output(&self, output: &LongOutput) -> Result<(), StoreError> {
        retried(|| self.store().keep_output(&self.lease.lease, output)).await
    }

    /// Returns when the lease has to be renewed, if nothing is committed until then.
    pub(crate) fn heartbeat(&self) -> Option<Instant> {
        self.lease.heartbeat()
    }

    /// Keeps the run while it has nothing to commit. Fails once it is lost: somebody else has it, or may have it by now.
    pub(crate) async fn renew(&self) -> Result<(), StoreError> {
        let Err(error) = self.ask_for_more_time().await else {
            return Ok(());
        };
        if matches!(error, StoreError::Stale(_)) || !self.is_held() {
            return Err(error);
        }
        tracing::warn!(run = %self.run(), %error, "the run's lease was not renewed yet");
        Ok(())
    }

    /// Tells whether nobody else can have the run at this moment. To be asked right before anything begins.
    pub(crate) fn is_held(&self) -> bool {
        self.lease.is_valid(self.moment())
    }

    /// Makes sure of a run whose lease may have run out: if nobody has taken it over, nobody can from now on.
    pub(crate) async fn hold_again(&self) -> Result<(), StoreError> {
        self.ask_for_more_time().await?;
        match self.is_held() {
            true => Ok(()),
            // The answer, too, came when the time was over.
            false => Err(StoreError::Stale(self.run())),
        }
    }

    async fn ask_for_more_time(&self) -> Result<(), StoreError> {
        let asked = self.moment();
        self.lease.is_tried(asked);
        self.store().renew(&self.lease.lease).await?;
        self.lease.is_renewed(asked);
        Ok(())
    }

    /// Returns what was posted to the run and is not taken yet, the oldest first.
    pub(crate) async fn inbox(&self) -> Result<Vec<InboxEntry>, StoreError> {
        self.lease.is_looked_at(Instant::now());
        self.store().inbox(&self.lease.lease).await
    }

    /// Tells whether the inbox was not read for as long as a lease goes without being renewed.
    pub(crate) fn is_inbox_due(&self) -> bool {
        self.lease.is_inbox_due()
    }

    /// Is over once another process has posted to the run, as far as somebody here has heard of it.
    pub(crate) async fn is_posted_to(&self) {
        self.posted.notified().await;
    }

    /// Takes out of the inbox what no record will name.
    pub(crate) async fn settle(&self, id: &InputId) -> Result<(), StoreError> {
        let ids = std::slice::from_ref(id);
        self.store().settle(&self.lease.lease, ids).await
    }

    /// Gives the lease of a run back that did not end: others may take it up.
    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        self.note_recorded();
        self.store().release(&self.lease.lease).await
    }

    /// As [`release`](Self::release), of a run whose log says nothing of what was under way: whoever takes it up finds it as one
    /// whose process died.
    pub(crate) async fn expire(&self) -> Result<(), StoreError> {
        self.note_recorded();
        self.store().expire(&self.lease.lease).await
    }

    /// Returns the store that the run is kept in, for a call that lives longer than this is borrowed.
    pub(crate) fn shared_store(&self) -> Arc<dyn SessionStore> {
        Arc::clone(&self.parts.store)
    }

    /// Returns the store that the run is kept in.
    pub(crate) fn store(&self) -> &dyn SessionStore {
        self.parts.store.as_ref()
    }

    fn moment(&self) -> Moment {
        Moment::now(self.parts.engine.clock.as_ref())
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if self.is_recorded.load(Ordering::Relaxed) {
            return;
        }
        // Kept until then: a request made again meanwhile waits, and is not told that somebody else has the run.
        let Some(claim) = self.claim.take() else {
            return;
        };
        let (lease, unheard) = (self.lease.lease.clone(), self.unheard);
        after_drop(&self.parts.engine.tasks, async move {
            let abandoned = claim.parts.store.abandon_run(&lease).await;
            match abandoned {
                Err(StoreError::Stale(_)) => {
                    if let Err(error) = leave_unheard(claim, &lease, unheard).await {
                        note_unended(lease.run, &error);
                    }
                }
                Err(error) => note_busy(lease.run, &error),
                Ok(()) => {}
            }
        });
    }
}

/// Does what is left to be done of something that was dropped, in a task of its own. Outside of a runtime nothing is: who looks for
/// left runs finds it once its lease has run out.
pub(super) fn after_drop(tasks: &TaskTracker, work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = Handle::try_current() {
        tasks.spawn_on(work, &runtime);
    }
}

/// Ends a run that is on record and that nobody here drives, or lets others take it up at once.
async fn leave_unheard(
    claim: Claim,
    lease: &RunLease,
    unheard: Unheard,
) -> Result<(), ResumeError> {
    match unheard {
        Unheard::Ended => {
            let runs = Runs::new(&claim.parts);
            runs.end_unheard(claim).await
        }
        Unheard::Left => match claim.parts.store.release(lease).await {
            // Somebody else has it already, or it was given back before and only the answer was lost.
            Err(StoreError::Stale(_) | StoreError::NoSuchRun(_)) => Ok(()),
            released => Ok(released?),
        },
    }
}

pub(super) fn note_unended(run: RunId, error: &ResumeError) {
    tracing::warn!(%run, %error, "a run that began unheard is not ended: it is taken up later");
}

fn note_busy(run: RunId, error: &StoreError) {
    tracing::warn!(%run, %error, "a session reserved for a run that never began stays busy");
}
