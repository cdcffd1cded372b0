//! `neuraxis sessions list`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunSummary, Session, SessionFilter, SessionSummary, StoreError};
use serde_json::{Value, json};

use super::about::about;
use crate::command::lookup;
use crate::command::runs::status_column;
use crate::error::CommandError;
use crate::listing::{Format, Item, Listing, Paging};
use crate::quantities::moment;

/// The headings of the columns between the id and a session's text.
const HEADINGS: [&str; 3] = ["LAST USED          ", "RUNS", "LAST RUN   "];

/// The width of those columns.
pub(in crate::command) const MIDDLE: usize = 19 + 2 + 4 + 2 + 11;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions list
  neuraxis sessions list --search tokyo
  neuraxis sessions list --limit 100 --format json | jq -r '.[].id'";

/// List the sessions, most recently used first
///
/// Shows when each was last used, how many runs it has and how the last one stands, and its title or the beginning of
/// its first message.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    /// Only sessions of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    /// Only sessions whose title, or the user's message of one of their runs, contains this text, in upper or lower
    /// case
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    search: Option<String>,

    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let (limit, format) = (self.paging.limit, self.paging.format);
        let filter = SessionFilter::default().by_last_activity();
        let mut filter = filter.limited_to(limit.min(SessionFilter::MAX_LIMIT));
        if let Some(owner) = &self.owner {
            filter = filter.owned_by(owner);
        }
        if let Some(after) = &self.paging.after {
            let last = lookup::session(sessions, after).await?;
            filter = filter.after(&sessions.get(&last).await?);
        }
        let layout = Listing::layout(MIDDLE);
        let mut listing = Listing::new(format, layout.heading("SESSION", &HEADINGS));
        let mut each = EachSummary::new(sessions, filter, self.search.clone());
        let mut last = None;
        while listing.count < limit
            && let Some(summary) = each.next().await?
        {
            let session = &summary.session;
            // A session without runs was deleted meanwhile.
            if let Some(runs) = sessions.runs(&session.id).await? {
                let about = about(sessions, session, &runs).await?;
                let value = in_json(&summary, &runs, about.as_deref());
                listing.item(&layout.item(&item(session, &runs, about)), &value)?;
                last = Some(session.id.to_string());
            }
        }
        listing.end()?;
        if format == Format::Text {
            let is_more = each.next().await?.is_some();
            let is_narrowed = self.owner.is_some() || self.search.is_some();
            self.paging
                .write_rest("sessions", last, (is_more, is_narrowed));
        }
        Ok(())
    }
}

/// The sessions that a list shows, one by one, read page by page.
#[derive(Debug)]
struct EachSummary<'a> {
    sessions: &'a Sessions,
    filter: SessionFilter,
    /// The text that they contain; any if `None`.
    text: Option<String>,
    page: std::vec::IntoIter<SessionSummary>,
    is_last_page: bool,
}

impl<'a> EachSummary<'a> {
    fn new(sessions: &'a Sessions, filter: SessionFilter, text: Option<String>) -> Self {
        Self {
            sessions,
            filter,
            text,
            page: Vec::new().into_iter(),
            is_last_page: false,
        }
    }

    /// Returns the next session; `None` at the end.
    async fn next(&mut self) -> Result<Option<SessionSummary>, StoreError> {
        loop {
            if let Some(next) = self.page.next() {
                return Ok(Some(next));
            }
            if self.is_last_page {
                return Ok(None);
            }
            self.page = self.next_page().await?.into_iter();
        }
    }

    /// Reads the next page. One of a search may be empty although more follow.
    async fn next_page(&mut self) -> Result<Vec<SessionSummary>, StoreError> {
        let Some(text) = &self.text else {
            let page = self.sessions.list(&self.filter).await?;
            match page.last() {
                Some(last) => self.filter = self.filter.clone().after(&last.session),
                None => self.is_last_page = true,
            }
            return Ok(page);
        };
        let found = self
            .sessions
            .search(&self.filter.clone().containing(text))
            .await?;
        self.is_last_page = found.next.is_none();
        self.filter.before = found.next;
        Ok(found.sessions)
    }
}

/// Formats a session as a list item.
pub(in crate::command) fn item(
    session: &Session,
    runs: &[RunSummary],
    about: Option<String>,
) -> Item {
    let last = runs.last();
    let status = status_column(last.map(|run| run.status));
    let used = last.and_then(|run| run.ended_at.or(run.started_at));
    let used = moment(used.unwrap_or(session.created_at));
    let count = runs.len();
    Item {
        id: session.id.to_string(),
        middle: vec![used, format!("{count:>4}"), status],
        about: about.unwrap_or_default(),
    }
}

fn in_json(summary: &SessionSummary, runs: &[RunSummary], about: Option<&str>) -> Value {
    let session = &summary.session;
    json!({
        "id": session.id,
        "owner": session.owner,
        "created_at": session.created_at,
        "title": session.title,
        "first_message": summary.first_message,
        "runs": runs.len(),
        "last_run": summary.last_run,
        "about": about,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuraxis::core::jiff::SignedDuration;
    use neuraxis::memory::MemoryStore;
    use neuraxis::ports::SessionIndex as _;
    use neuraxis_testkit::START;

    use super::*;

    /// More than one call of a search examines.
    const COUNT: i64 = 1_200;

    #[tokio::test]
    async fn a_search_goes_on_through_pages_on_which_nothing_was_found() {
        let store = Arc::new(MemoryStore::new());
        for number in 0..COUNT {
            let made = START + SignedDuration::from_secs(number);
            let mut session = Session::new(format!("s{number}").parse().unwrap(), made);
            session.title = (number < 2).then(|| "Two weeks in Japan".to_owned());
            store.create_session(&session).await.unwrap();
        }
        let sessions = Sessions::new(store);
        for (text, expected) in [(Some("JAPAN"), 2), (Some("Peru"), 0), (None, COUNT)] {
            let filter = SessionFilter::default().limited_to(1_000);
            let mut each = EachSummary::new(&sessions, filter, text.map(str::to_owned));
            let mut found = 0;
            while each.next().await.unwrap().is_some() {
                found += 1;
            }
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
