//! The stored data and the rules by which it changes: sessions, their runs, and the run that holds each session.

mod lists;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::{Carried, LogSummary, Stats};
use neuraxis_core::{
    ContentHash, Record, RunId, Seq, SessionId, SessionMetrics, Transcript, continued_history,
};
use neuraxis_ports::{
    ChainHead, Continuation, Ending, ExpectedHead, RunBounds, RunFilter, RunLease, RunStart,
    RunSummary, Session, SessionCursor, SessionOrder, StatsFilter, StoreError, UsageOf,
};

use crate::run::Run;

/// All sessions and runs.
#[derive(Debug)]
pub(crate) struct State {
    // Boxed, because a map moves its values when it grows.
    sessions: HashMap<SessionId, Box<SessionState>>,
    runs: HashMap<RunId, Box<Run>>,
    /// The number of leases ever given, over all sessions. A token is therefore never reused, even if a session is
    /// deleted and created again.
    leases_given: u64,
    /// How long a lease lasts.
    lease: Duration,
}

#[derive(Debug)]
struct SessionState {
    session: Session,
    runs: Vec<RunId>,
    /// The run that is in progress.
    holder: Option<RunId>,
    /// What the ended runs added, as far as it has been requested. Cached, so that the cost of reading it does not
    /// depend on the length of the conversation.
    history: Transcript,
    /// The number of runs that have been read into the history.
    read: usize,
    /// What the session carries according to the records of its runs.
    carried: Carried,
    /// The numbers of the grants that were revoked.
    revoked: BTreeSet<u32>,
}

impl State {
    pub(crate) fn new(lease: Duration) -> Self {
        Self {
            sessions: HashMap::new(),
            runs: HashMap::new(),
            leases_given: 0,
            lease,
        }
    }

    pub(crate) fn create_session(&mut self, session: &Session) -> Result<(), StoreError> {
        session.check()?;
        if self.sessions.contains_key(&session.id) {
            return Err(StoreError::SessionExists(session.id.clone()));
        }
        let mut session = session.clone();
        // It has no run yet, whatever became of the session that it was copied from.
        session.last_active_at = None;
        let state = SessionState {
            runs: Vec::with_capacity(1),
            holder: None,
            history: session.seed.clone(),
            read: 0,
            carried: Carried::default(),
            revoked: BTreeSet::new(),
            session,
        };
        let id = state.session.id.clone();
        self.sessions.insert(id, Box::new(state));
        Ok(())
    }

    pub(crate) fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        self.state(id).map(|state| state.session.clone())
    }

    /// Removes a session and returns its runs, for the caller to free.
    pub(crate) fn delete_session(&mut self, id: &SessionId) -> Result<Vec<Run>, StoreError> {
        self.state(id)?.check_free_for(None)?;
        let runs = self
            .sessions
            .remove(id)
            .map(|state| state.runs)
            .unwrap_or_default();
        Ok(runs
            .iter()
            .filter_map(|run| self.runs.remove(run).map(|run| *run))
            .collect())
    }

    /// Removes a session if the head of its chain is still the one that the caller read.
    pub(crate) fn delete_session_at(
        &mut self,
        id: &SessionId,
        head: ChainHead,
    ) -> Result<Vec<Run>, StoreError> {
        self.state(id)?.check_free_for(None)?;
        match self.chain(id)? == head {
            true => self.delete_session(id),
            false => Err(StoreError::SessionChanged(id.clone())),
        }
    }

    /// Removes the sessions in which nothing has happened since the given time, and returns the runs of each for the
    /// caller to free.
    pub(crate) fn prune(&mut self, before: Timestamp) -> Vec<Vec<Run>> {
        let old = self.idle(before, usize::MAX);
        old.iter()
            .filter_map(|id| self.delete_session(id).ok())
            .collect()
    }

    /// Returns the sessions in which nothing has happened since the given time, oldest first.
    pub(crate) fn idle(&self, before: Timestamp, most: usize) -> Vec<SessionId> {
        let is_old = |state: &SessionState| {
            let mut runs = self.runs_of(state);
            state.session.created_at < before
                && state.holder.is_none()
                && runs.all(|run| run.ended_before(before))
        };
        let old = self.sessions.values().filter(|it| is_old(it));
        let mut old: Vec<_> = old.map(|old| &old.session).collect();
        old.sort_by_key(|session| SessionCursor::of(session, SessionOrder::Created));
        old.into_iter()
            .take(most)
            .map(|session| session.id.clone())
            .collect()
    }

    /// Returns the history, after reading the runs that ended since the last call. It is not read earlier because most
    /// sessions have one run and are never asked for their history again.
    pub(crate) fn history(&mut self, id: &SessionId) -> Result<Transcript, StoreError> {
        let Some(state) = self.sessions.get_mut(id) else {
            return Err(StoreError::NoSuchSession(id.clone()));
        };
        let unread = state.runs.iter().skip(state.read);
        let ended = unread.take_while(|run| Some(**run) != state.holder);
        for run in ended.filter_map(|run| self.runs.get(run)) {
            state.history = continued_history(&state.history, run.records());
            state.read += 1;
        }
        Ok(state.history.clone())
    }

    /// Returns what the next run of a session continues from.
    pub(crate) fn continuation(&mut self, id: &SessionId) -> Result<Continuation, StoreError> {
        let history = self.history(id)?;
        let last_run = self.state(id)?.last_ended();
        Ok(Continuation::new(last_run, history, self.carried(id)?))
    }

    /// Returns the history as a run found it, reread from the runs before it. This is rarely requested, so nothing is
    /// cached.
    pub(crate) fn history_before(&self, run: RunId) -> Result<Transcript, StoreError> {
        let known = self.runs.get(&run).ok_or(StoreError::NoSuchRun(run))?;
        let state = self.state(known.session())?;
        let earlier = state.runs.iter().take_while(|other| **other != run);
        let earlier = earlier.filter_map(|earlier| self.runs.get(earlier));
        let seed = state.session.seed.clone();
        Ok(earlier.fold(seed, |history, run| {
            continued_history(&history, run.records())
        }))
    }

    /// Begins a run. Adds it only once every check has passed.
    pub(crate) fn begin(
        &mut self,
        start: &RunStart,
        bounds: &RunBounds,
    ) -> Result<RunLease, StoreError> {
        if self.runs.contains_key(&start.run) {
            return self.begin_again(start);
        }
        let token = self.leases_given + 1;
        let mut run = Run::new(start);
        run.lease_to(token, self.lease, start.imported);
        let ending = run.commit(&start.records, bounds, self.lease)?;
        // A request that is sent again learns which run has its key, rather than that its session exists.
        if self.sessions.contains_key(&start.session) {
            self.check_key(start)?;
        }
        if let Some(new) = &start.new_session {
            self.create_session(new)?;
        }
        let state = self.state_for(start)?;
        if start.after.is_some() && start.after != state.last_ended() {
            return Err(StoreError::SessionChanged(start.session.clone()));
        }
        run.owned_by(state.session.owner.clone());
        state.holder = Some(start.run);
        state.runs.push(start.run);
        self.runs.insert(start.run, Box::new(run));
        self.leases_given = token;
        let lease = RunLease::new(start.session.clone(), start.run, token, self.lease);
        self.apply_records(&lease, &start.records, ending);
        Ok(lease)
    }

    /// Begins a run again that has not ended. If the run has ended, returns its last lease: the caller may not have
    /// learned that it began.
    fn begin_again(&mut self, start: &RunStart) -> Result<RunLease, StoreError> {
        self.check_key(start)?;
        let is_held = self.state_for(start)?.holder == Some(start.run);
        let next = self.leases_given + 1;
        let known = self.runs.get_mut(&start.run).map(Box::as_mut);
        let known = known.filter(|run| {
            run.records().starts_with(&start.records) && run.session() == &start.session
        });
        let token = match known {
            // The older lease is void from now on.
            Some(run) if is_held => {
                run.lease_to(next, self.lease, start.imported);
                self.leases_given = next;
                next
            }
            Some(run) if !start.records.is_empty() => run.token(),
            _ => return Err(StoreError::Stale(start.run)),
        };
        let session = start.session.clone();
        Ok(RunLease::new(session, start.run, token, self.lease))
    }

    /// Returns the session of a run that is about to begin, if no other run is in progress in it.
    fn state_for(&mut self, start: &RunStart) -> Result<&mut SessionState, StoreError> {
        let Some(state) = self.sessions.get_mut(&start.session) else {
            return Err(StoreError::NoSuchSession(start.session.clone()));
        };
        state.check_free_for(Some(start.run))?;
        Ok(state)
    }

    /// Checks that no other run of the session was begun under the same request key.
    fn check_key(&self, start: &RunStart) -> Result<(), StoreError> {
        let Some(request) = &start.request else {
            return Ok(());
        };
        let holds = |known: &&Run| known.id() != start.run && known.holds(request.key);
        let holder = self.session_runs(&start.session)?.find(holds).map(Run::id);
        match holder {
            Some(run) => Err(StoreError::KeyTaken {
                session: start.session.clone(),
                run,
            }),
            None => Ok(()),
        }
    }

    pub(crate) fn abandon_run(&mut self, lease: &RunLease) -> Result<(), StoreError> {
        if !self.leased(lease)?.records().is_empty() {
            return Err(StoreError::Stale(lease.run));
        }
        self.runs.remove(&lease.run);
        if let Some(state) = self.sessions.get_mut(&lease.session) {
            state.holder = None;
            state.runs.retain(|run| *run != lease.run);
        }
        Ok(())
    }

    /// Returns the run of a lease, if the lease is the latest one of that run.
    pub(crate) fn leased(&mut self, lease: &RunLease) -> Result<&mut Run, StoreError> {
        let run = self.runs.get_mut(&lease.run);
        run.map(Box::as_mut)
            .filter(|run| run.is_leased_by(lease))
            .ok_or(StoreError::Stale(lease.run))
    }

    /// Restarts a lease's time.
    pub(crate) fn renew(&mut self, lease: &RunLease) -> Result<(), StoreError> {
        let time = self.lease;
        self.leased(lease)?.renew(time)
    }

    /// Appends all of the records to a run, or none.
    pub(crate) fn commit(
        &mut self,
        lease: &RunLease,
        records: &[Arc<Record>],
        bounds: &RunBounds,
    ) -> Result<(), StoreError> {
        let time = self.lease;
        let ending = self.leased(lease)?.commit(records, bounds, time)?;
        self.apply_records(lease, records, ending);
        Ok(())
    }

    /// Updates what the session carries from the new records of a run; most records don't affect it. Grants from an
    /// imported log are revoked. A run that has ended frees its session, unless another run holds it by now: its records
    /// may be committed again.
    fn apply_records(&mut self, lease: &RunLease, records: &[Arc<Record>], ending: Ending) {
        let run = self.runs.get(&lease.run);
        let is_imported = run.is_some_and(|run| run.is_imported());
        let Some(state) = self.sessions.get_mut(&lease.session) else {
            return;
        };
        for record in records {
            state.carried.apply(record);
            if is_imported {
                let granted = Carried::granted(record).iter();
                state.revoked.extend(granted.map(|grant| grant.id));
            }
        }
        if state.holder != Some(lease.run) {
            return;
        }
        let end = records.last().filter(|_| ending == Ending::Ends);
        let beginning = records.first().filter(|record| record.seq == Seq(1));
        if let Some(record) = end.or(beginning) {
            state.session.mark_active(record.at);
        }
        if ending == Ending::Ends {
            state.holder = None;
        }
    }

    pub(crate) fn run(&self, run: RunId) -> Result<&Run, StoreError> {
        let known = self.runs.get(&run).map(Box::as_ref);
        known.ok_or(StoreError::NoSuchRun(run))
    }

    pub(crate) fn run_mut(&mut self, run: RunId) -> Result<&mut Run, StoreError> {
        let known = self.runs.get_mut(&run).map(Box::as_mut);
        known.ok_or(StoreError::NoSuchRun(run))
    }

    pub(crate) fn carried(&self, id: &SessionId) -> Result<Carried, StoreError> {
        let state = self.state(id)?;
        let mut carried = state.carried.clone();
        let revoked = &state.revoked;
        carried
            .remembered
            .retain(|grant| !revoked.contains(&grant.id));
        Ok(carried)
    }

    pub(crate) fn revoke(&mut self, id: &SessionId, grant: u32) -> Result<bool, StoreError> {
        let state = self.sessions.get_mut(id);
        let state = state.ok_or_else(|| StoreError::NoSuchSession(id.clone()))?;
        let mut grants = state.carried.remembered.grants().iter();
        Ok(grants.any(|known| known.id == grant) && state.revoked.insert(grant))
    }

    pub(crate) fn unfinished(&self) -> Vec<RunSummary> {
        let mut unfinished: Vec<_> = self.in_progress().filter(|run| run.is_undriven()).collect();
        unfinished.sort_by_key(|run| run.id());
        unfinished.into_iter().map(Run::summary).collect()
    }

    /// Returns the unfinished runs that can continue now.
    pub(crate) fn due(&mut self) -> Vec<RunSummary> {
        let mut due = Vec::new();
        for held in self.sessions.values().filter_map(|it| it.holder) {
            if let Some(run) = self.runs.get_mut(&held)
                && run.is_undriven()
                && run.is_due()
            {
                due.push(run.summary());
            }
        }
        due.sort_by_key(|run| run.run_id);
        due
    }

    /// Returns runs that have not ended and have entries in their inboxes.
    pub(crate) fn mailed(&self) -> Vec<RunId> {
        let mailed = self.in_progress().filter(|run| run.has_mail()).map(Run::id);
        mailed.take(RunFilter::MAX_LIMIT).collect()
    }

    /// Returns the runs in progress.
    fn in_progress(&self) -> impl Iterator<Item = &Run> {
        let held = self.sessions.values().filter_map(|it| it.holder);
        held.filter_map(|run| self.runs.get(&run).map(Box::as_ref))
    }

    pub(crate) fn find_runs(&self, filter: &RunFilter) -> Vec<RunSummary> {
        let sessions: Vec<_> = match &filter.session {
            Some(id) => self.sessions.get(id).into_iter().collect(),
            None => self.sessions.values().collect(),
        };
        let theirs = sessions.into_iter();
        let theirs = theirs.filter(|it| filter.owner.is_none() || it.session.owner == filter.owner);
        let runs = theirs.flat_map(|state| self.runs_of(state));
        let mut shown: Vec<_> = runs.filter(|run| run.matches_filter(filter)).collect();
        shown.sort_by_key(|run| Reverse(run.id()));
        shown.truncate(filter.limit.min(RunFilter::MAX_LIMIT));
        // Records are read only for the runs that are shown.
        shown.into_iter().map(Run::summary).collect()
    }

    /// Returns the runs of a session, oldest first.
    pub(crate) fn session_runs(
        &self,
        id: &SessionId,
    ) -> Result<impl DoubleEndedIterator<Item = &Run>, StoreError> {
        Ok(self.runs_of(self.state(id)?))
    }

    pub(crate) fn usage_since(
        &self,
        of: &UsageOf,
        since: Timestamp,
    ) -> Result<SessionMetrics, StoreError> {
        let mut used = SessionMetrics::default();
        match of {
            UsageOf::Session(id) => {
                let runs = self.session_runs(id)?;
                runs.for_each(|run| run.add_usage(&mut used, since));
            }
            UsageOf::Owner(owner) => {
                let theirs = self.sessions.values();
                let theirs = theirs.filter(|it| it.session.owner == *owner);
                let runs = theirs.flat_map(|state| self.runs_of(state));
                runs.for_each(|run| run.add_usage(&mut used, since));
            }
        }
        Ok(used)
    }

    /// Adds up the runs that a filter counts.
    pub(crate) fn stats(&self, filter: &StatsFilter) -> Stats {
        let mut stats = filter.begun();
        let sessions = self.sessions.values();
        let theirs = sessions.filter(|it| match &filter.owner {
            Some(owner) => it.session.owner.as_ref() == Some(owner),
            None => true,
        });
        for state in theirs {
            let owner = state.session.owner.as_deref();
            for run in self.runs_of(state) {
                let began = run.records().first().map(|record| record.at);
                if filter.counts(began) {
                    stats.add_of(owner, &LogSummary::of(run.records()));
                }
            }
        }
        stats
    }

    pub(crate) fn chain(&self, id: &SessionId) -> Result<ChainHead, StoreError> {
        let state = self.state(id)?;
        let records = self.runs_of(state).flat_map(|run| run.records().iter());
        Ok(ChainHead::start(&state.session).with_records(records.map(AsRef::as_ref)))
    }

    /// Recomputes the chain, and checks that it contains the head that was noted elsewhere, if one is given.
    pub(crate) fn verify(
        &self,
        id: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<ChainHead, StoreError> {
        let state = self.state(id)?;
        let mut head = ChainHead::start(&state.session);
        let mut expected = ExpectedHead::new(expect, head);
        for run in self.runs_of(state) {
            for record in run.records() {
                head = head.with_records([record.as_ref()]);
                expected.pass(head);
            }
        }
        expected.met(head)
    }

    fn runs_of(&self, state: &SessionState) -> impl DoubleEndedIterator<Item = &Run> {
        let runs = state.runs.iter();
        runs.filter_map(|run| self.runs.get(run).map(Box::as_ref))
    }

    fn state(&self, id: &SessionId) -> Result<&SessionState, StoreError> {
        self.sessions
            .get(id)
            .map(Box::as_ref)
            .ok_or_else(|| StoreError::NoSuchSession(id.clone()))
    }
}

impl SessionState {
    /// Returns the last run, unless a run is in progress.
    fn last_ended(&self) -> Option<RunId> {
        self.runs.last().copied().filter(|_| self.holder.is_none())
    }

    /// Checks that no run except the given one is in progress.
    fn check_free_for(&self, run: Option<RunId>) -> Result<(), StoreError> {
        match self.holder {
            Some(holder) if run != Some(holder) => Err(StoreError::SessionBusy {
                session: self.session.id.clone(),
                run: holder,
            }),
            _ => Ok(()),
        }
    }
}
