//! Runs that another process holds, or held when it died: a dead process keeps its runs until their leases have run out.
//!
//! Nobody can tell a process that died just now from one that is busy, except by waiting: one that lives renews its lease.
//! Whoever waits decides before each look whether to go on waiting, by a `pause` that fails if not.

use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{RunId, Seq};
use neuraxis_ports::{RunSummary, SessionStore, StoreError};

use super::{ResumeError, Runs, Taker};
use crate::run_handle::RunHandle;

/// How often it is looked whether a run is free.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A run that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldRun {
    /// The run.
    pub run_id: RunId,
    /// Until when its lease lasts, unless its holder is alive and renews it; `None` once nobody has one.
    pub leased_until: Option<Timestamp>,
    /// What is waited for.
    pub waited_for: WaitedFor,
}

/// What of a run is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitedFor {
    /// The end of its lease, after which it can be taken up here.
    Lease,
    /// Its own end, which its holder was told to bring about.
    End,
}

impl HeldRun {
    /// A run that nobody has a lease of.
    #[must_use]
    pub const fn new(run_id: RunId, waited_for: WaitedFor) -> Self {
        Self {
            run_id,
            leased_until: None,
            waited_for,
        }
    }

    /// Waits until it is worth another look: 200 milliseconds.
    pub async fn pause(&self) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits for the end of a lease.
#[derive(Debug, Default)]
pub(crate) struct LeaseWait {
    /// Until when the lease lasted when it was seen first.
    first: Option<Timestamp>,
}

impl LeaseWait {
    /// Waits until the lease of a run has run out or was given back. Fails with [`ResumeError::Alive`] if its holder turns
    /// out to live, and with [`ResumeError::Ended`] if there is nothing left to take up.
    pub(crate) async fn until_free<E: From<ResumeError>>(
        &mut self,
        store: &dyn SessionStore,
        run: RunId,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let summary = look(store, run).await?;
            if summary.ended_at.is_some() {
                return Err(ResumeError::Ended(run).into());
            }
            if let Some(until) = summary.leased_until
                && until > *self.first.get_or_insert(until)
            {
                return Err(ResumeError::Alive(run).into());
            }
            pause(&HeldRun::of(&summary, WaitedFor::Lease)).await?;
            if look(store, run).await?.leased_until.is_none() {
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

async fn look(store: &dyn SessionStore, run: RunId) -> Result<RunSummary, ResumeError> {
    Ok(store.run(run).await?)
}

impl Runs {
    /// Takes a run up once it is free. Where another process holds it, or held it when it died, its lease is waited for.
    ///
    /// # Errors
    ///
    /// As [`resume`](Self::resume); [`ResumeError::Alive`] if the holder turns out to live; [`ResumeError::ServerAway`] if it
    /// asks a person while that call, or one that was allowed and has not begun, is of a server that has no tools here now;
    /// what `pause` fails with.
    ///
    /// # Cancel safety
    ///
    /// As [`resume`](Self::resume). Whoever wants to stop waiting fails in `pause`.
    pub async fn resume_when_free<E: From<ResumeError>>(
        &self,
        run: RunId,
        taker: Taker,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<RunHandle, E> {
        let store = self.parts.store.as_ref();
        self.check_owner_of(run).await?;
        // What cannot be read, or has ended, is refused below.
        if let Ok(records) = store.records(run, Seq(0)).await
            && !records.last().is_some_and(|last| last.ends_the_run())
        {
            self.check_servers(&records, |_| true)?;
        }
        let mut wait = LeaseWait::default();
        loop {
            match self.resume_as(run, Vec::new(), taker).await {
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
    /// As [`abandon_unbegun`](Self::abandon_unbegun); [`ResumeError::Alive`] if the holder turns out to live; what `pause` fails
    /// with.
    ///
    /// # Cancel safety
    ///
    /// As [`abandon_unbegun`](Self::abandon_unbegun). Whoever wants to stop waiting fails in `pause`.
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

    /// Ends a run, whoever holds it, and waits for its end: a process that lives ends it itself, and the lease of one that
    /// died is waited for.
    ///
    /// # Errors
    ///
    /// A [`ResumeError`] if there is no such run, it has ended, or it cannot be taken up to be ended; what `pause` fails
    /// with.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the run may have been told to end all the same.
    pub async fn cancel_and_wait<E: From<ResumeError>>(
        &self,
        run: RunId,
        reason: &str,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<(), E> {
        self.cancel(run, reason).await?;
        let store = self.parts.store.as_ref();
        loop {
            let summary = look(store, run).await?;
            if summary.ended_at.is_some() {
                return Ok(());
            }
            if summary.leased_until.is_none() {
                match self.resume_by_person(run).await {
                    // It hears of the wish when it is taken up, here or by whoever was quicker.
                    Ok(_) | Err(ResumeError::AtWork(_) | ResumeError::Ended(_)) => {}
                    Err(ResumeError::Store(
                        StoreError::SessionBusy { .. } | StoreError::Stale(_),
                    )) => {}
                    // One that nobody could go on with was ended as it was taken up.
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
    async fn a_holder_that_renews_its_lease_lives_and_the_lease_of_one_that_does_not_runs_out() {
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
