//! What is kept, and the rules by which it changes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use neuraxis_core::{
    AgentId, Record, RecordBody, RunId, Seq, SessionId, Transcript, continued_history,
};
use neuraxis_ports::{RunLease, Session, StoreError};

/// All sessions and runs.
#[derive(Debug, Default)]
pub(crate) struct Shelves {
    sessions: HashMap<SessionId, Conversation>,
    runs: HashMap<RunId, Run>,
    /// Counts sessions made, to tell apart those of the same moment.
    sessions_made: u64,
    /// Counts leases over all sessions, so that a token never comes back, not even with a session deleted and made anew.
    leases_given: u64,
}

#[derive(Debug)]
struct Conversation {
    session: Session,
    number: u64,
    runs: Vec<RunId>,
    /// The run at work.
    holder: Option<RunId>,
    /// What ended runs added, as far as somebody asked for it. Kept, so that reading it costs the same however long the
    /// conversation is.
    history: Transcript,
    /// How many of the runs have been read into the history.
    read: usize,
}

#[derive(Debug)]
pub(crate) struct Run {
    id: RunId,
    session: SessionId,
    token: u64,
    records: Vec<Arc<Record>>,
}

impl Shelves {
    pub(crate) fn create_session(&mut self, session: &Session) -> Result<(), StoreError> {
        if self.sessions.contains_key(&session.id) {
            return Err(StoreError::SessionExists(session.id.clone()));
        }
        self.sessions_made += 1;
        let conversation = Conversation {
            session: session.clone(),
            number: self.sessions_made,
            runs: Vec::new(),
            holder: None,
            history: session.seed.clone(),
            read: 0,
        };
        self.sessions.insert(session.id.clone(), conversation);
        Ok(())
    }

    pub(crate) fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.conversation(id)
            .map(|conversation| conversation.session.clone())
    }

    pub(crate) fn sessions(&self) -> Vec<Session> {
        let mut conversations: Vec<_> = self.sessions.values().collect();
        conversations.sort_by_key(|conversation| {
            Reverse((conversation.session.created_at, conversation.number))
        });
        conversations
            .into_iter()
            .map(|conversation| conversation.session.clone())
            .collect()
    }

    /// Removes a session and returns its runs, for the caller to free.
    pub(crate) fn delete_session(&mut self, id: &SessionId) -> Result<Vec<Run>, StoreError> {
        self.conversation(id)?.free_for(None)?;
        let runs = self
            .sessions
            .remove(id)
            .map(|conversation| conversation.runs)
            .unwrap_or_default();
        Ok(runs
            .iter()
            .filter_map(|run| self.runs.remove(run))
            .collect())
    }

    /// Returns the history, after reading the runs that ended since it was last asked for: most sessions have one run and
    /// are never asked for it again.
    pub(crate) fn history(&mut self, id: &SessionId) -> Result<Transcript, StoreError> {
        let Some(conversation) = self.sessions.get_mut(id) else {
            return Err(StoreError::NoSuchSession(id.clone()));
        };
        let unread = conversation.runs.iter().skip(conversation.read);
        let ended = unread.take_while(|run| Some(**run) != conversation.holder);
        for run in ended.filter_map(|run| self.runs.get(run)) {
            conversation.history = continued_history(&conversation.history, &run.records);
            conversation.read += 1;
        }
        Ok(conversation.history.clone())
    }

    /// Returns the history as a run found it, read anew from the runs before it: seldom asked for, so nothing is kept.
    pub(crate) fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        let known = self.runs.get(&run).ok_or(StoreError::NoSuchRun(run))?;
        let conversation = self.conversation(&known.session)?;
        let earlier = conversation.runs.iter().take_while(|other| **other != run);
        let earlier = earlier.filter_map(|earlier| self.runs.get(earlier));
        let seed = conversation.session.seed.clone();
        Ok(earlier.fold(seed, |history, run| {
            continued_history(&history, &run.records)
        }))
    }

    pub(crate) fn begin_run(
        &mut self,
        session: &SessionId,
        run: RunId,
    ) -> Result<RunLease, StoreError> {
        let Some(conversation) = self.sessions.get_mut(session) else {
            return Err(StoreError::NoSuchSession(session.clone()));
        };
        conversation.free_for(Some(run))?;
        let token = self.leases_given + 1;
        match self.runs.entry(run) {
            // Taken up again: the older lease is void from now on.
            Entry::Occupied(mut known) if conversation.holder == Some(run) => {
                known.get_mut().token = token;
            }
            // It has ended, or belongs to another session.
            Entry::Occupied(_) => return Err(StoreError::Stale(run)),
            Entry::Vacant(new) => {
                conversation.holder = Some(run);
                conversation.runs.push(run);
                new.insert(Run {
                    id: run,
                    session: session.clone(),
                    token,
                    records: Vec::new(),
                });
            }
        }
        self.leases_given = token;
        Ok(RunLease::new(session.clone(), run, token))
    }

    pub(crate) fn abandon_run(&mut self, lease: &RunLease) -> Result<(), StoreError> {
        let stale = || StoreError::Stale(lease.run);
        let run = self.runs.get(&lease.run).ok_or_else(stale)?;
        if run.session != lease.session || run.token != lease.token || !run.records.is_empty() {
            return Err(stale());
        }
        self.runs.remove(&lease.run);
        if let Some(conversation) = self.sessions.get_mut(&lease.session) {
            conversation.holder = None;
            conversation.runs.retain(|run| *run != lease.run);
        }
        Ok(())
    }

    pub(crate) fn commit(
        &mut self,
        lease: &RunLease,
        records: &[Arc<Record>],
    ) -> Result<(), StoreError> {
        let stale = || StoreError::Stale(lease.run);
        let conversation = self.sessions.get_mut(&lease.session).ok_or_else(stale)?;
        let run = self.runs.get_mut(&lease.run).ok_or_else(stale)?;
        if !run.is_leased_by(lease) {
            return Err(stale());
        }
        if run.has_just_kept(records) {
            return Ok(());
        }
        if conversation.holder != Some(lease.run) || !run.is_followed_by(records) {
            return Err(stale());
        }
        run.records.extend(records.iter().cloned());
        if records.iter().any(|record| ends_the_run(record)) {
            conversation.holder = None;
        }
        Ok(())
    }

    pub(crate) fn records(&self, run: RunId, after: Seq) -> Result<Vec<Arc<Record>>, StoreError> {
        let kept = self.runs.get(&run).ok_or(StoreError::NoSuchRun(run))?;
        let start = kept.records.partition_point(|record| record.seq <= after);
        Ok(kept.records.get(start..).unwrap_or_default().to_vec())
    }

    fn conversation(&self, id: &SessionId) -> Result<&Conversation, StoreError> {
        self.sessions
            .get(id)
            .ok_or_else(|| StoreError::NoSuchSession(id.clone()))
    }
}

impl Conversation {
    /// Checks that no other run than the given one is at work.
    fn free_for(&self, run: Option<RunId>) -> Result<(), StoreError> {
        match self.holder {
            Some(holder) if run != Some(holder) => Err(StoreError::SessionBusy {
                session: self.session.id.clone(),
                run: holder,
            }),
            _ => Ok(()),
        }
    }
}

impl Run {
    /// Tells whether the lease is the newest one of this run.
    fn is_leased_by(&self, lease: &RunLease) -> bool {
        self.session == lease.session && self.token == lease.token
    }

    /// Tells whether exactly these records were kept last: the commit is repeated because its answer was lost.
    fn has_just_kept(&self, records: &[Arc<Record>]) -> bool {
        !records.is_empty() && self.records.ends_with(records)
    }

    /// Tells whether the records are the next ones.
    fn is_followed_by(&self, records: &[Arc<Record>]) -> bool {
        let mut last = self
            .records
            .last()
            .map(|record| record.seq)
            .unwrap_or_default();
        records.iter().all(|record| {
            let follows = record.run_id == self.id && record.seq == last.next();
            last = record.seq;
            follows
        })
    }
}

fn ends_the_run(record: &Record) -> bool {
    let is_end = matches!(record.body, RecordBody::Final(_) | RecordBody::RunFailed(_));
    is_end && record.agent == AgentId::ROOT
}
