//! `neuraxis sessions list`.

use clap::Args;
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunSummary, Session, SessionFilter};
use serde_json::{Value, json};

use super::title::title;
use crate::command::lookup;
use crate::command::runs::status_column;
use crate::error::CommandError;
use crate::listing::{Format, Item, Listing, Paging};
use crate::quantities::moment;

/// The headings of the columns between the id and a session's text.
const HEADINGS: [&str; 3] = ["CREATED            ", "RUNS", "LAST       "];

/// The width of those columns.
pub(in crate::command) const MIDDLE: usize = 19 + 2 + 4 + 2 + 11;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions list
  neuraxis sessions list --limit 100 --format json | jq -r '.[].id'";

/// List the sessions, the newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    /// Only sessions of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let (limit, format) = (self.paging.limit, self.paging.format);
        let mut filter = SessionFilter::default().limited_to(limit.min(SessionFilter::MAX_LIMIT));
        if let Some(owner) = &self.owner {
            filter = filter.owned_by(owner);
        }
        if let Some(after) = &self.paging.after {
            let last = lookup::session(sessions, after).await?;
            filter = filter.after(&sessions.get(&last).await?);
        }
        let layout = Listing::layout(MIDDLE);
        let mut listing = Listing::new(format, layout.heading("SESSION", &HEADINGS));
        let mut each = sessions.each(filter);
        let mut last = None;
        while listing.count < limit
            && let Some(session) = each.next().await?
        {
            // A session without runs was deleted meanwhile.
            if let Some(runs) = sessions.runs(&session.id).await? {
                let title = title(sessions, &runs).await?;
                let value = in_json(&session, &runs, title.as_deref());
                listing.item(&layout.item(&item(&session, &runs, title)), &value)?;
                last = Some(session.id.to_string());
            }
        }
        listing.end()?;
        if format == Format::Text {
            let is_more = each.next().await?.is_some();
            let is_narrowed = self.owner.is_some();
            self.paging
                .write_rest("sessions", last, (is_more, is_narrowed));
        }
        Ok(())
    }
}

/// Formats a session as a list item.
pub(in crate::command) fn item(
    session: &Session,
    runs: &[RunSummary],
    title: Option<String>,
) -> Item {
    let status = status_column(runs.last().map(|run| run.status));
    let made = moment(session.created_at);
    let count = runs.len();
    Item {
        id: session.id.to_string(),
        middle: vec![made, format!("{count:>4}"), status],
        about: title.unwrap_or_default(),
    }
}

pub(super) fn in_json(session: &Session, runs: &[RunSummary], about: Option<&str>) -> Value {
    json!({
        "id": session.id,
        "owner": session.owner,
        "created_at": session.created_at,
        "runs": runs.len(),
        "last_run": runs.last().map(|run| json!({"run_id": run.run_id, "status": run.status})),
        "about": about,
    })
}
