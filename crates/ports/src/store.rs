//! The port to what is kept: sessions, runs and their records.

mod bounds;
mod error;
mod run;
mod session;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    ContentHash, Grant, InboxEntry, InputId, JsonText, Record, Remembered, RunId, Seq, SessionId,
    SessionMetrics, Taint, Transcript, continued_history,
};

pub use bounds::{
    Ending, MAX_GRANT_BYTES, MAX_INBOX_ENTRIES, MAX_INPUT_BYTES, MAX_INPUT_ID_BYTES,
    MAX_OWNER_BYTES, RunBounds, RunSize, check_grant, check_input, grant_out_of_turn,
};
pub use error::StoreError;
pub use run::{RunFilter, RunLease, RunSummary};
pub use session::{ChainHead, Session, SessionCursor, SessionFilter, UsageOf};

/// Keeps sessions, and for each its runs' records. A session's messages are a projection of its records.
///
/// **Who repeats.** The caller, on [`StoreError::is_retryable`]. Repeating is safe: `commit` and `post` recognize what
/// they have kept already, and the rest either changes nothing the second time or says that it was done.
/// **Cancel safety.** A dropped call has happened whole or not at all. **Order.** Commits of one run are called one after
/// the other and become visible in that order. What a call that returned has written, every later call sees, in this
/// process and in others.
///
/// **Leases.** A run is driven by one holder at a time, to which [`begin_run`](Self::begin_run) gives a lease. A lease
/// lasts for [a time](RunLease::length) that the store is set up with; every commit and [`renew`](Self::renew) begin that
/// time anew. Once it has run out, another store over the same data may take the run over, and what the old holder still
/// writes is refused as [`StoreError::Stale`]. A lease that has run out and that nobody took can still be renewed.
#[async_trait]
pub trait SessionStore: Debug + Send + Sync + 'static {
    /// Adds a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::SessionExists`] if the id is taken, be it by an earlier attempt; [`StoreError::Invalid`].
    async fn create_session(&self, session: &Session) -> Result<(), StoreError>;

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn session(&self, id: &SessionId) -> Result<Session, StoreError>;

    /// Returns a page of sessions, the newest first, at most [`SessionFilter::MAX_LIMIT`]. Their seeds are left out.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn sessions(&self, filter: &SessionFilter) -> Result<Vec<Session>, StoreError>;

    /// Removes a session with all of its runs, their inboxes and their metrics.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::SessionBusy`] while a run of it has not ended.
    async fn delete_session(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Removes all sessions in which nothing has happened since the given time, and returns how many. One with a run
    /// that has not ended stays.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself; some may be gone by then.
    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Returns the messages of a session as its ended runs left them.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn history(&self, id: &SessionId) -> Result<Transcript, StoreError>;

    /// Returns the messages of a session as a run of it found them when it began: what it goes on from.
    ///
    /// As provided, it reads all runs before it. A store that can tell it with less work should.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`]; [`StoreError::Damaged`] if a run before it cannot be read.
    async fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        let session = self.run(run).await?.session;
        let mut history = self.session(&session).await?.seed;
        let before = self.runs(&session).await?.into_iter();
        for earlier in before.take_while(|earlier| earlier.run_id != run) {
            let records = self.records(earlier.run_id, Seq(0)).await?;
            history = continued_history(&history, &records);
        }
        Ok(history)
    }

    /// Reserves a session for a run: from now on until that run has ended, nobody else can.
    ///
    /// A run that has not ended may be begun again, to go on with it: at once by the store that leased it last, by
    /// another once that lease has run out or was released. The older lease is void from then on.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::SessionBusy`] if another run has not ended, or another store drives
    /// this one; [`StoreError::Stale`] if the run has ended or belongs to another session.
    async fn begin_run(&self, session: &SessionId, run: RunId) -> Result<RunLease, StoreError>;

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

    /// Marks the run of a lease as one that was imported: [`RunSummary::imported`] says so until it is begun again. Marking
    /// it twice changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid.
    async fn mark_imported(&self, lease: &RunLease) -> Result<(), StoreError>;

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
    /// [`StoreError::RunTooLarge`] if the run is as long as it may be and does not end with these records.
    async fn commit(&self, lease: &RunLease, records: &[Arc<Record>]) -> Result<(), StoreError>;

    /// Returns the records of a run after the given one, in order.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError>;

    /// Returns a run in a few words.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchRun`].
    async fn run(&self, run: RunId) -> Result<RunSummary, StoreError>;

    /// Returns the runs of a session, the oldest first.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn runs(&self, session: &SessionId) -> Result<Vec<RunSummary>, StoreError>;

    /// Returns a page of runs of all sessions, by their ids, the greatest first: ids that begin with the time they were
    /// made come the newest first. At most [`RunFilter::MAX_LIMIT`].
    ///
    /// As provided, it looks through all runs of the session that the filter names, or of all sessions. A store that can
    /// do less should.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn find_runs(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, StoreError> {
        if let Some(session) = &filter.session {
            return match self.runs(session).await {
                Ok(runs) => Ok(filter.page_of(runs)),
                Err(StoreError::NoSuchSession(_)) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
        }
        let mut found = Vec::new();
        let mut page = SessionFilter::default();
        loop {
            let sessions = self.sessions(&page).await?;
            for session in &sessions {
                match self.runs(&session.id).await {
                    Ok(runs) => found.extend(runs),
                    // It was deleted meanwhile.
                    Err(StoreError::NoSuchSession(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            found = filter.page_of(found);
            let Some(last) = sessions.last() else {
                return Ok(found);
            };
            page = page.after(last);
        }
    }

    /// Returns the runs that have not ended and that nobody drives: their leases have run out or were released. The
    /// oldest first.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn unfinished(&self) -> Result<Vec<RunSummary>, StoreError>;

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

    /// Tells whether anything can be written at this moment, by writing something that changes nothing that is kept.
    ///
    /// As provided, it always can: a store in memory has no disk that may be full.
    ///
    /// # Errors
    ///
    /// Only what can befall the store itself.
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns what a session used.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn metrics(&self, session: &SessionId) -> Result<SessionMetrics, StoreError>;

    /// Returns what was used since a time, by the time of the records: what daily budgets are checked against. What is
    /// deleted no longer counts.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]. An owner without sessions has used nothing.
    async fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError>;

    /// Returns the last plan of a session, if it has one.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn plan(&self, session: &SessionId) -> Result<Option<JsonText>, StoreError>;

    /// Returns the untrusted content that a session's runs brought: what [`Taint::read`] finds in all of their records,
    /// those of runs that have not ended included.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn taint(&self, session: &SessionId) -> Result<Taint, StoreError>;

    /// Returns the answers of people that a session remembers, in the order in which they were given.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn remembered(&self, session: &SessionId) -> Result<Remembered, StoreError>;

    /// Remembers an answer for the session of a lease. It has to have the next number; remembering the last one once more
    /// changes nothing and succeeds, unless it was taken back.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] if the lease is no longer valid; [`StoreError::Invalid`] if the answer has another number, is
    /// larger than [`MAX_GRANT_BYTES`], or there are [`Remembered::MAX_GRANTS`].
    async fn remember(&self, lease: &RunLease, grant: &Grant) -> Result<(), StoreError>;

    /// Takes a remembered answer back, from any process, whether a run is at work or not; tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`].
    async fn revoke(&self, session: &SessionId, id: u32) -> Result<bool, StoreError>;

    /// Checks that a session's records are those that were kept, none changed, removed or moved, and returns where their
    /// hash chain ends. Who changes the whole chain, or cuts it off and mends what points at its end, is found out by a
    /// head that was noted elsewhere.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSuchSession`]; [`StoreError::Damaged`] naming the run and the record, or if the chain does not
    /// end with the expected hash.
    async fn verify(
        &self,
        session: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError>;
}
