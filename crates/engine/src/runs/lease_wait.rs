//! Runs that another process holds, or held when it died: a dead process keeps its runs until their leases expire.
//!
//! A process that died a moment ago can be told from a busy one only by waiting: a live one renews its lease. Before
//! each look, the caller's `pause` decides whether to keep waiting, and fails if not.

use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{RunId, Seq};
use neuraxis_ports::{RunSummary, SessionStore, StoreError};

use super::{ResumeError, ResumedBy, Runs};
use crate::run_handle::RunHandle;

/// How often to check whether a run is free.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// A run that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldRun {
    /// The run.
    pub run_id: RunId,
    /// When its lease ends, unless its holder is alive and renews it; `None` once the run has no holder.
    pub leased_until: Option<Timestamp>,
    /// What the wait is for.
    pub waited_for: WaitedFor,
}

/// What a wait for a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitedFor {
    /// The end of its lease, after which it can be resumed here.
    Lease,
    /// The end of the run, which its holder was told to bring about.
    End,
}

impl HeldRun {
    /// Creates a description of a run without a holder.
    #[must_use]
    pub const fn new(run_id: RunId, waited_for: WaitedFor) -> Self {
        Self {
            run_id,
            leased_until: None,
            waited_for,
        }
    }

    /// Waits 200 milliseconds, until the next look.
    pub async fn pause(&self) {
        tokio::time::sleep(CHECK_EVERY).await;
    }
}

/// Waits for the end of a lease.
#[derive(Debug, Default)]
pub(crate) struct LeaseWait {
    /// When the lease ended as first seen.
    first: Option<Timestamp>,
}

impl LeaseWait {
    /// Waits until the lease of a run has expired or was released. Fails with [`ResumeError::Alive`] if its holder
    /// turns out to be alive, and with [`ResumeError::Ended`] if there is nothing left to resume.
    pub(crate) async fn until_free<E: From<ResumeError>>(
        &mut self,
        store: &dyn SessionStore,
        run: RunId,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let summary = read_summary(store, run).await?;
            if summary.ended_at.is_some() {
                return Err(ResumeError::Ended(run).into());
            }
            if let Some(until) = summary.leased_until
                && until > *self.first.get_or_insert(until)
            {
                return Err(ResumeError::Alive(run).into());
            }
            pause(&HeldRun::of(&summary, WaitedFor::Lease)).await?;
            if read_summary(store, run).await?.leased_until.is_none() {
                return Ok(());
            }
        }
    }
}

impl HeldRun {
    fn of(run: &RunSummary, waited_for: WaitedFor) -> Self {
        Self {
            run_id: run.run_id,
            leased_until: run.leased_until,
            waited_for,
        }
    }
}

async fn read_summary(store: &dyn SessionStore, run: RunId) -> Result<RunSummary, ResumeError> {
    Ok(store.run(run).await?)
}

impl Runs {
    /// Resumes a run once it is free. If another process holds it, or held it when it died, waits for the end of its
    /// lease.
    ///
    /// # Errors
    ///
    /// Same as [`resume`](Self::resume); [`ResumeError::Alive`] if the holder turns out to be alive;
    /// [`ResumeError::ServerAway`] if the run asks for approval while that call, or one that was allowed and has not
    /// begun, belongs to a server that has no tools here now; the error of `pause`.
    ///
    /// # Cancel safety
    ///
    /// Same as [`resume`](Self::resume). To stop waiting, fail in `pause`.
    pub async fn resume_when_free<E: From<ResumeError>>(
        &self,
        run: RunId,
        resumed_by: ResumedBy,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<RunHandle, E> {
        let store = self.parts.store.as_ref();
        self.check_owner_of(run).await?;
        // A run that cannot be read, or has ended, is refused below.
        if let Ok(records) = store.records(run, Seq(0)).await
            && !records.last().is_some_and(|last| last.ends_the_run())
        {
            self.check_servers(&records, |_| true)?;
        }
        let mut wait = LeaseWait::default();
        loop {
            match self.resume_as(run, Vec::new(), resumed_by).await {
                Err(ResumeError::Store(StoreError::SessionBusy { .. })) => {
                    wait.until_free(store, run, &mut pause).await?;
                }
                resumed => return Ok(resumed?),
            }
        }
    }

    /// Frees the session of a run that never began, once the run is free.
    ///
    /// # Errors
    ///
    /// Same as [`abandon_unbegun`](Self::abandon_unbegun); [`ResumeError::Alive`] if the holder turns out to be alive;
    /// the error of `pause`.
    ///
    /// # Cancel safety
    ///
    /// Same as [`abandon_unbegun`](Self::abandon_unbegun). To stop waiting, fail in `pause`.
    pub async fn abandon_unbegun_when_free<E: From<ResumeError>>(
        &self,
        run: &RunSummary,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<(), E> {
        let store = self.parts.store.as_ref();
        let mut wait = LeaseWait::default();
        loop {
            match self.abandon_unbegun(&run.session, run.run_id).await {
                Err(ResumeError::Store(StoreError::SessionBusy { .. })) => {
                    wait.until_free(store, run.run_id, &mut pause).await?;
                }
                abandoned => return Ok(abandoned?),
            }
        }
    }

    /// Ends a run, whichever process holds it, and waits for its end: a live process ends it itself, and the lease of a
    /// dead one is waited for.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if the run does not exist, has ended, or cannot be resumed to be ended; the error of `pause`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run may still have been told to end.
    pub async fn cancel_and_wait<E: From<ResumeError>>(
        &self,
        run: RunId,
        reason: &str,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<(), E> {
        self.cancel(run, reason).await?;
        let store = self.parts.store.as_ref();
        loop {
            let summary = read_summary(store, run).await?;
            if summary.ended_at.is_some() {
                return Ok(());
            }
            if summary.leased_until.is_none() {
                match self.resume_by_user(run).await {
                    // The run receives the cancellation when it is resumed, here or by a faster process.
                    Ok(_) | Err(ResumeError::AtWork(_) | ResumeError::Ended(_)) => {}
                    Err(ResumeError::Store(
                        StoreError::SessionBusy { .. } | StoreError::Stale(_),
                    )) => {}
                    // A run that could not be continued was ended when it was resumed.
                    Err(ResumeError::Closed { .. }) => {}
                    Err(ResumeError::Elsewhere { .. }) => self.close_elsewhere(run, reason).await?,
                    Err(error) => return Err(error.into()),
                }
            }
            pause(&HeldRun::of(&summary, WaitedFor::End)).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_memory::MemoryStore;
    use neuraxis_ports::Session;
    use neuraxis_ports::{RunLog as _, SessionIndex as _};
    use neuraxis_testkit::CountingIds;

    use super::*;

    const LEASE: Duration = Duration::from_millis(60);

    #[tokio::test]
    async fn waiting_for_a_lease_ends_when_it_expires_and_not_while_it_is_renewed() {
        let store = MemoryStore::with_lease(LEASE);
        let (session, run) = ("s".parse().unwrap(), CountingIds::nth_run(1));
        let session = Session::new(session, Timestamp::UNIX_EPOCH);
        store.create_session(&session).await.unwrap();
        let lease = store.begin_run(&session.id, run).await.unwrap();

        let renews = async |held: &HeldRun| {
            assert_eq!((held.run_id, held.waited_for), (run, WaitedFor::Lease));
            tokio::time::sleep(LEASE / 10).await;
            store.renew(&lease).await.unwrap();
            Ok(())
        };
        let lives = LeaseWait::default().until_free(&store, run, renews).await;
        assert!(matches!(lives, Err(ResumeError::Alive(it)) if it == run));

        let gives_up = async |_: &HeldRun| Err(ResumeError::ShuttingDown);
        let stopped = LeaseWait::default().until_free(&store, run, gives_up).await;
        assert!(matches!(stopped, Err(ResumeError::ShuttingDown)));

        let died = async |_: &HeldRun| {
            tokio::time::sleep(LEASE / 10).await;
            Ok::<_, ResumeError>(())
        };
        let free = LeaseWait::default().until_free(&store, run, died).await;
        free.unwrap();
        assert_eq!(store.run(run).await.unwrap().leased_until, None);
    }
}
