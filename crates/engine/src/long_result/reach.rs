//! Which long outputs a call may read: those of its own session and of the sessions that it was forked from, as long as
//! those exist.

use std::sync::Arc;

use neuraxis_core::{RunId, Seq, SessionId, ToolCallId};
use neuraxis_ports::{OutputPage, OutputPlace, SessionStore, StoreError, ToolError};

/// The maximum number of forks between a session and the one whose output it reads.
const MAX_FORKS: usize = 32;

/// What a call may read, and how much at a time.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) session: SessionId,
    /// The maximum size of its result in bytes.
    pub(crate) most: usize,
}

impl Reach {
    /// Returns the run of a call, if this session may read it. For anything else, the error does not even reveal
    /// whether it exists.
    pub(super) async fn run_of(&self, call: &ToolCallId) -> Result<RunId, ToolError> {
        let run = call.run().ok_or_else(|| unknown(call))?;
        match self.is_within(run).await {
            Ok(true) => Ok(run),
            Ok(false) => Err(unknown(call)),
            Err(error) => Err(of_store(&error)),
        }
    }

    /// Returns `true` if a run belongs to the session, or to one of the sessions that it was forked from.
    async fn is_within(&self, run: RunId) -> Result<bool, StoreError> {
        let found = match self.store.run(run).await {
            Err(StoreError::NoSuchRun(_)) => return Ok(false),
            found => found?.session,
        };
        let mut session = self.session.clone();
        for _ in 0..MAX_FORKS {
            if session == found {
                return self.is_of_its_owner(&found).await;
            }
            match self.origin(&session).await? {
                Some(origin) => session = origin,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Returns `true` if a session is this one or has the same owner. A log's claim about its origin is not enough.
    async fn is_of_its_owner(&self, other: &SessionId) -> Result<bool, StoreError> {
        if self.session == *other {
            return Ok(true);
        }
        let other = self.store.session(other).await?;
        Ok(self.store.session(&self.session).await?.owner == other.owner)
    }

    /// Returns the session that a session was forked from. Its first run names the run that it was forked at.
    async fn origin(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        let runs = self.store.runs(session).await?;
        let Some(first) = runs.first() else {
            return Ok(None);
        };
        let records = self.store.records(first.run_id, Seq(0)).await?;
        let started = records.first().and_then(|first| first.run_started());
        let Some(fork) = started.and_then(|started| started.spec.forked_from) else {
            return Ok(None);
        };
        match self.store.run(fork.run_id).await {
            Err(StoreError::NoSuchRun(_)) => Ok(None),
            found => Ok(Some(found?.session)),
        }
    }

    /// Returns a page of an output, with at most `most` bytes.
    pub(super) async fn at(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        most: usize,
    ) -> Result<OutputPage, ToolError> {
        let page = self.store.output_page(run, call, from, most).await;
        page.map_err(|error| match error {
            StoreError::NoSuchRun(_) | StoreError::NoSuchOutput { .. } => unknown(call),
            error => of_store(&error),
        })
    }
}

fn unknown(call: &ToolCallId) -> ToolError {
    let call: String = call.as_str().chars().take(64).collect();
    ToolError::permanent(format!(
        "no long output of call {call:?} is kept in this session: give the call that the marker names"
    ))
}

fn of_store(error: &StoreError) -> ToolError {
    tracing::warn!(%error, "a long output could not be read");
    ToolError::temporary("the store cannot be read at this moment; try again")
}
