//! Lists of sessions, and the search through them.

use std::cmp::Reverse;

use neuraxis_core::SessionId;
use neuraxis_core::log::LogSummary;
use neuraxis_ports::{
    SearchExtent, Session, SessionCursor, SessionFilter, SessionSearch, SessionSummary,
    SessionsFound, StoreError, check_title,
};

use super::{SessionState, State};

impl State {
    pub(crate) fn sessions(&self, filter: &SessionFilter) -> Vec<Session> {
        let page = self.page(filter).into_iter();
        page.map(|state| without_seed(&state.session)).collect()
    }

    pub(crate) fn summaries(&self, filter: &SessionFilter) -> Vec<SessionSummary> {
        let page = self.page(filter).into_iter();
        page.map(|state| self.summary(state)).collect()
    }

    pub(crate) fn search(&self, search: &SessionSearch) -> SessionsFound {
        let mut found = SessionsFound::default();
        let mut extent = SearchExtent::default();
        let mut last = None;
        for state in self.shown(&search.filter) {
            if found.sessions.len() >= search.limit() || !extent.admits(state.runs.len()) {
                found.next = last;
                break;
            }
            last = Some(SessionCursor::of(&state.session, search.filter.order));
            if self.is_found(state, search) {
                found.sessions.push(self.summary(state));
            }
        }
        found
    }

    pub(crate) fn set_title(
        &mut self,
        id: &SessionId,
        title: Option<&str>,
    ) -> Result<(), StoreError> {
        let title = title.map(check_title).transpose()?;
        let state = self.sessions.get_mut(id);
        let state = state.ok_or_else(|| StoreError::NoSuchSession(id.clone()))?;
        state.session.title = title.map(str::to_owned);
        Ok(())
    }

    /// Returns the sessions that a filter shows, in the order of the list.
    fn shown(&self, filter: &SessionFilter) -> Vec<&SessionState> {
        let sessions = self.sessions.values().map(Box::as_ref);
        let mut shown: Vec<_> = sessions.filter(|it| filter.shows(&it.session)).collect();
        shown.sort_by_cached_key(|it| Reverse(SessionCursor::of(&it.session, filter.order)));
        shown
    }

    fn page(&self, filter: &SessionFilter) -> Vec<&SessionState> {
        let mut page = self.shown(filter);
        page.truncate(filter.limit.min(SessionFilter::MAX_LIMIT));
        page
    }

    fn summary(&self, state: &SessionState) -> SessionSummary {
        let mut summary = SessionSummary::new(without_seed(&state.session));
        let mut runs = self.runs_of(state);
        if let Some(first) = runs.next() {
            let beginning = first.records().get(..1).unwrap_or_default();
            summary = summary.beginning_with(&LogSummary::of(beginning));
            let last = runs.next_back().unwrap_or(first);
            summary = summary.ending_with(last.id(), &LogSummary::of(last.records()));
        }
        summary
    }

    fn is_found(&self, state: &SessionState, search: &SessionSearch) -> bool {
        let newest = self.runs_of(state).rev().take(SearchExtent::MAX_RUNS);
        let mut first_records = newest.filter_map(|run| run.records().first());
        search.is_in_title(&state.session)
            || first_records.any(|record| search.is_in_message(record))
    }
}

fn without_seed(session: &Session) -> Session {
    let mut listed = Session::new(session.id.clone(), session.created_at);
    listed.owner.clone_from(&session.owner);
    listed.last_active_at = session.last_active_at;
    listed.title.clone_from(&session.title);
    listed
}
