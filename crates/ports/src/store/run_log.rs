//! The role of a store that a run in progress needs: its log, its lease and its inbox.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use neuraxis_core::{InboxEntry, InputId, Record, RunId, Seq, SessionId};

use super::{RunLease, RunStart, StoreError};

/// Stores the log of each run, lets one process at a time write it, and accepts inputs for the run meanwhile.
///
/// **Leases.** A run is driven by one holder at a time, to which [`begin`](Self::begin) gives a lease. A lease lasts
/// for [a time](RunLease::length) that is configured in the store; every commit and [`renew`](Self::renew) restarts
/// that time. Once the lease has expired, another store over the same data may take the run over, and later writes of
/// the old holder are refused with [`StoreError::Stale`]. An expired lease that has not been taken over can still be
/// renewed.
///
/// [`SessionStore`](super::SessionStore) documents retries, cancel safety and order.
#[async_trait]
pub trait RunLog: Debug + Send + Sync + 'static {
    /// Reserves a session for a run: until that run has ended, no other run can reserve it.
    ///
    /// A run that begins [in a new session](RunStart::new_session) creates that session, like
    /// [`create_session`](super::SessionIndex::create_session).
    ///
    /// The [records](RunStart::records) that a run begins with are stored as by [`commit`](Self::commit), in the same
    /// transaction. A run that is begun again with records must have begun with the same records, and may have ended
    /// with them: this is how a caller whose response was lost finds out.
    ///
    /// A run that continues [from another one](RunStart::after) begins only if that one is the session's last run and
    /// has ended, since the caller read its records before.
    ///
    /// A run that has not ended may be begun again in order to continue it: immediately by the store that leased it
    /// last, and by another store once that lease has expired or was released. The older lease is then void.
    ///
    /// **Idempotency.** A run that begins [for a keyed request](RunStart::request) holds that key in its session for as
    /// long as the store keeps the run, whichever process began it: no other run of the session begins under the key. A
    /// run that is begun again keeps its request.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; for a new session [`StoreError::Invalid`], and [`StoreError::SessionExists`] if
    /// it exists and the run has not already begun in it; [`StoreError::KeyTaken`] if another run began under the key,
    /// whether that run has ended or not; [`StoreError::SessionBusy`] if another run has not ended, or another store
    /// drives this one; [`StoreError::SessionChanged`] if another run came after the one that it continues from;
    /// [`StoreError::SessionHeld`] if another caller is removing the session and does not finish; [`StoreError::Stale`]
    /// if the run has ended, belongs to another session or began with other records, or if the records are not the
    /// first ones of the run; [`StoreError::RunTooLarge`] if the records exceed its limits.
    async fn begin(&self, start: &RunStart) -> Result<RunLease, StoreError>;

    /// Reserves a session for a run of a request without a key: a shorthand for [`begin`](Self::begin).
    ///
    /// # Errors
    ///
    /// Those of [`begin`](Self::begin).
    async fn begin_run(&self, session: &SessionId, run: RunId) -> Result<RunLease, StoreError> {
        self.begin(&RunStart::new(session.clone(), run)).await
    }

    /// Restarts the time of a lease. A process that drives a run must call this several times within that time while
    /// the run has nothing to commit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid.
    async fn renew(&self, lease: &RunLease) -> Result<(), StoreError>;

    /// Releases a lease: no process drives the run any more. The run stays unfinished and keeps its session busy, and
    /// any process may begin it again. Releasing twice changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if another process has the run by now.
    async fn release(&self, lease: &RunLease) -> Result<(), StoreError>;

    /// Ends a lease immediately: like [`release`](Self::release), but the run is not marked as
    /// [released](super::RunSummary::released). For a run that was in progress: the process that continues it treats it
    /// as one whose holder died. The default implementation releases the lease.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Self::release).
    async fn expire(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.release(lease).await
    }

    /// Frees a session whose run never began: none of its records were committed. The run is as if it had never
    /// existed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid or records were committed.
    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError>;

    /// Appends the records of one step, all or none. A record that ends the run frees its session. Inbox entries whose
    /// inputs are in the records ([`Record::inbox_id`]) are removed from the inbox in the same step.
    ///
    /// Committing the last step again changes nothing and succeeds, so a caller whose response was lost may retry.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid or the records do not follow the last stored ones;
    /// [`StoreError::RunTooLarge`] if the run has reached its maximum size and does not end with these records. An
    /// [imported](RunStart::imported) run may use the space for its end earlier.
    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError>;

    /// Returns the records of a run after the given one, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError>;

    /// Posts an input to the inbox of a run, from any process. Posting the same input again changes nothing, even after
    /// the run has taken it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::RunEnded`]; [`StoreError::InputReused`] if another input has this id;
    /// [`StoreError::InboxFull`]; [`StoreError::Invalid`].
    async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError>;

    /// Returns the entries in the inbox of a run, the oldest first. An entry stays there until a commit takes it or it
    /// is settled.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid.
    async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError>;

    /// Removes entries from the inbox that no record will name: the machine refused them or had no use for them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid.
    async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError>;
}
