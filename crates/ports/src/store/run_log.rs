//! The role of a store that a run at work needs: its log, its lease and its inbox.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use neuraxis_core::{InboxEntry, InputId, Record, RunId, Seq, SessionId};

use super::{RunLease, RunStart, StoreError};

/// Keeps the log of each run, lets one process at a time write it, and takes in what is sent to it meanwhile.
///
/// **Leases.** A run is driven by one holder at a time, to which [`begin`](Self::begin) gives a lease. A lease lasts for
/// [a time](RunLease::length) that the store is set up with; every commit and [`renew`](Self::renew) begin that time anew.
/// Once it has run out, another store over the same data may take the run over, and what the old holder still writes is
/// refused as [`StoreError::Stale`]. A lease that has run out and that nobody took can still be renewed.
///
/// Who repeats a call, what a dropped one leaves and which order holds is said at [`SessionStore`](super::SessionStore).
#[async_trait]
pub trait RunLog: Debug + Send + Sync + 'static {
    /// Reserves a session for a run: from now on until that run has ended, nobody else can.
    ///
    /// A run that begins [in a new session](RunStart::new_session) makes that session, as
    /// [`create_session`](super::SessionIndex::create_session) does.
    ///
    /// The [records](RunStart::records) that a run begins with are kept as [`commit`](Self::commit) keeps them, in the same
    /// transaction. A run that is begun again with records has to have begun with the same, and may have ended with them: that is how
    /// a caller hears of it whose answer was lost.
    ///
    /// A run that goes on [from another one](RunStart::after) begins only if that is the session's last one and has ended: what
    /// its records say was read before.
    ///
    /// A run that has not ended may be begun again, to go on with it: at once by the store that leased it last, by
    /// another once that lease has run out or was released. The older lease is void from then on.
    ///
    /// **Idempotency.** A run that is begun [for a keyed request](RunStart::request) holds that key in its session for as
    /// long as the store keeps it, whichever process began it: no other run of the session begins under the key. A run
    /// that is begun again keeps the request that it has.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; of a new session [`StoreError::Invalid`], and [`StoreError::SessionExists`] if it is there
    /// and the run is not begun in it already; [`StoreError::KeyTaken`] if another run was begun under the key, whether it has ended
    /// or not; [`StoreError::SessionBusy`] if another run has not ended, or another store drives this one;
    /// [`StoreError::SessionChanged`] if another run came after the one it goes on from;
    /// [`StoreError::SessionHeld`] if somebody is removing the session and does not come to an end;
    /// [`StoreError::Stale`] if the run has ended, belongs to another session or began with other records, or if the records are not the first
    /// ones of the run; [`StoreError::RunTooLarge`] if it has no room for them.
    async fn begin(&self, start: &RunStart) -> Result<RunLease, StoreError>;

    /// Reserves a session for a run of a request without a key: [`begin`](Self::begin) in short.
    ///
    /// # Errors
    ///
    /// Those of [`begin`](Self::begin).
    async fn begin_run(&self, session: &SessionId, run: RunId) -> Result<RunLease, StoreError> {
        self.begin(&RunStart::new(session.clone(), run)).await
    }

    /// Begins the time of a lease anew. Has to be called a few times within that time by whoever drives a run that has
    /// nothing to commit.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid.
    async fn renew(&self, lease: &RunLease) -> Result<(), StoreError>;

    /// Gives a lease back: nobody drives the run any more. The run stays unfinished and keeps its session busy; anybody
    /// may begin it again. Giving it back twice changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if somebody else has the run by now.
    async fn release(&self, lease: &RunLease) -> Result<(), StoreError>;

    /// Lets a lease run out at once: as [`release`](Self::release), but the run does not count as
    /// [released](super::RunSummary::released). For a run that was at work: whoever goes on with it finds it as one whose holder
    /// died. A store without a body of its own for this releases it.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Self::release).
    async fn expire(&self, lease: &RunLease) -> Result<(), StoreError> {
        self.release(lease).await
    }

    /// Gives a session back whose run never began: nothing of it was committed. The run is as if it had never been.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid or records were committed.
    async fn abandon_run(&self, lease: &RunLease) -> Result<(), StoreError>;

    /// Appends the records of one step, all or none. A record that ends the run frees its session. Inbox entries whose
    /// inputs the records hold ([`Record::inbox_id`]) are taken with them.
    ///
    /// Committing the last step once more changes nothing and succeeds: a caller whose answer was lost may repeat it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid or the records do not follow the last ones kept;
    /// [`StoreError::RunTooLarge`] if the run is as long as it may be and does not end with these records: one that is
    /// [imported](RunStart::imported) may take the room for its end before.
    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError>;

    /// Returns the records of a run after the given one, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError>;

    /// Puts an input into the inbox of a run, from any process. Posting the same again changes nothing, even after it
    /// was taken.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::RunEnded`]; [`StoreError::InputReused`] if another input has this id;
    /// [`StoreError::InboxFull`]; [`StoreError::Invalid`].
    async fn post(&self, run: RunId, entry: &InboxEntry) -> Result<(), StoreError>;

    /// Returns what waits in the inbox of a run, the oldest first. It stays there until it is taken by a commit or
    /// settled.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid.
    async fn inbox(&self, lease: &RunLease) -> Result<Vec<InboxEntry>, StoreError>;

    /// Takes entries out of the inbox that no record will name: the machine refused them or had no use for them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid.
    async fn settle(&self, lease: &RunLease, ids: &[InputId]) -> Result<(), StoreError>;
}
