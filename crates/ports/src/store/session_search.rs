//! A search for sessions by what they are called and what was said in them. All stores compare texts here, so that each
//! of them finds the same.

use neuraxis_core::log::LogSummary;
use neuraxis_core::{Record, RecordBody, is_withheld};

use super::{Session, SessionCursor, SessionFilter, SessionSummary};

/// A search through the sessions of a list: for those whose title, or the user's message of one of their runs, contains
/// a text. Upper and lower case are the same, in every script; no character has a special meaning.
///
/// ```
/// use neuraxis_ports::SessionFilter;
///
/// let search = SessionFilter::default().owned_by("ann").containing("GRÜSSE");
/// assert!(search.is_in("Viele Grüße!"));
/// assert!(!search.is_in("Viele Gruesse!"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSearch {
    /// The list, and the maximum number of sessions to find with one call, at least one.
    pub filter: SessionFilter,
    /// The text, folded.
    text: String,
}

/// What one call of a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SessionsFound {
    /// The sessions, in the order of the list. May be empty although more follow.
    pub sessions: Vec<SessionSummary>,
    /// Where the next call must continue; `None` if the end of the list was reached.
    pub next: Option<SessionCursor>,
}

/// Whether the user's message of a run contains a text, as far as the summary of its log shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageMatch {
    /// The message contains the text.
    Found,
    /// It does not, or a data policy kept it out of the log.
    Absent,
    /// The beginning of the message does not: its rest must be read from the first record of the run.
    Beyond,
}

/// How much one call of a search may examine. For implementations of [`SessionStore`](super::SessionStore).
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchExtent {
    sessions: usize,
    runs: usize,
}

impl SearchExtent {
    /// The maximum number of sessions that one call examines.
    pub const MAX_SESSIONS: usize = 500;

    /// The maximum number of runs that one call examines. Of a session with more runs, only this many of the newest are
    /// examined.
    pub const MAX_RUNS: usize = 1_000;

    /// Counts the next session, which has this many runs, and returns whether it may still be examined.
    #[must_use]
    pub fn admits(&mut self, runs: usize) -> bool {
        let runs = self.runs.saturating_add(runs.min(Self::MAX_RUNS));
        let is_within = self.sessions < Self::MAX_SESSIONS && runs <= Self::MAX_RUNS;
        if is_within {
            self.sessions += 1;
            self.runs = runs;
        }
        is_within
    }
}

impl SessionSearch {
    /// Creates a search.
    pub(super) fn new(filter: SessionFilter, text: &str) -> Self {
        let text = fold(text);
        Self { filter, text }
    }

    /// Continues the search where an earlier call ended.
    #[must_use]
    pub fn continuing(mut self, next: SessionCursor) -> Self {
        self.filter.before = Some(next);
        self
    }

    /// Returns the maximum number of sessions to find with one call.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.filter.limit.clamp(1, SessionFilter::MAX_LIMIT)
    }

    /// Returns whether a text contains the one that is searched for.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        fold(text).contains(&self.text)
    }

    /// Returns whether the title of a session contains the text.
    #[must_use]
    pub fn is_in_title(&self, session: &Session) -> bool {
        let title = session.title.as_deref();
        title.is_some_and(|title| self.is_in(title))
    }

    /// Returns whether the user's message of a run contains the text, by the summary of the run's log.
    #[must_use]
    pub fn is_in_summary(&self, log: &LogSummary) -> MessageMatch {
        let Some(text) = log.readable_text() else {
            return MessageMatch::Absent;
        };
        let is_clipped = log.is_text_clipped();
        let beginning = match is_clipped {
            true => text.trim_end_matches('…'),
            false => text,
        };
        match self.is_in(beginning) {
            true => MessageMatch::Found,
            false if is_clipped => MessageMatch::Beyond,
            false => MessageMatch::Absent,
        }
    }

    /// Returns whether the user's message of a run contains the text, by the first record of the run.
    #[must_use]
    pub fn is_in_message(&self, first: &Record) -> bool {
        let RecordBody::RunStarted(started) = &first.body else {
            return false;
        };
        let text = started.spec.user_text();
        text.is_some_and(|text| !is_withheld(&text) && self.is_in(&text))
    }
}

/// Makes texts that differ only in case equal: each character becomes the lower case of its upper case, so that `ß` is
/// the same as `SS`, and all three forms of sigma are one.
fn fold(text: &str) -> String {
    let upper = text.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_only_in_case_are_the_same() {
        for (said, text) in [
            ("Straße", "STRASSE"),
            ("STRASSE", "straße"),
            ("ÄÖÜ", "äöü"),
            ("ΟΔΟΣ", "οδος"),
            ("ПРИВЕТ", "привет"),
            ("100% a_b \"c\"", "% A_B \""),
            ("anything", ""),
        ] {
            let search = SessionFilter::default().containing(text);
            assert!(search.is_in(said), "{text} in {said}");
        }
        let search = SessionFilter::default().containing("a%b");
        assert!(!search.is_in("a or b"));
    }

    #[test]
    fn a_search_ends_after_as_many_sessions_and_runs_as_it_may_examine() {
        let mut extent = SearchExtent::default();
        assert!((0..SearchExtent::MAX_SESSIONS).all(|_| extent.admits(0)));
        assert!(!extent.admits(0));
        let mut extent = SearchExtent::default();
        assert!(extent.admits(usize::MAX), "one session is always examined");
        assert!(!extent.admits(1));
        assert!(extent.admits(0));
    }
}
