//! `neuraxis sessions list`.

use clap::Args;
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunSummary, Session, SessionFilter};
use serde_json::{Value, json};

use crate::command::lookup;
use crate::command::runs::status_column;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::listing::{Format, Listing, Paging};
use crate::progress::Progress;
use crate::quantities::moment;

const HEADING: &str =
    "SESSION                               MADE                 RUNS  LAST         ABOUT";

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions list
  neuraxis sessions list --limit 100 --format json | jq -r '.[].id'";

/// List the sessions, the newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let Paging {
            limit,
            before,
            format,
        } = self.paging;
        let mut filter = SessionFilter::default().limited_to(limit.min(SessionFilter::MAX_LIMIT));
        if let Some(before) = &before {
            let last = lookup::session(sessions, before).await?;
            filter = filter.after(&sessions.get(&last).await?);
        }
        let mut listing = Listing::new(format, HEADING);
        let mut each = sessions.each(filter);
        let mut last = None;
        while listing.count < limit
            && let Some(session) = each.next().await?
        {
            // One without was deleted meanwhile.
            if let Some(runs) = sessions.runs(&session.id).await? {
                listing.item(&in_text(&session, &runs), &in_json(&session, &runs))?;
                last = Some(session.id.to_string());
            }
        }
        listing.end()?;
        if format == Format::Text {
            let is_more = each.next().await?.is_some();
            tell_rest(last, is_more, before.is_some());
        }
        Ok(())
    }
}

/// Says that there is more, or nothing.
fn tell_rest(last: Option<String>, is_more: bool, is_later_page: bool) {
    let progress = Progress::new();
    match last {
        Some(last) if is_more => {
            progress.notice(&format!("there are more: add --before {last}"));
        }
        Some(_) => {}
        None if is_later_page => progress.notice("there are no more sessions"),
        None => progress.notice("there are no sessions yet: `neuraxis chat` begins one"),
    }
}

fn in_text(session: &Session, runs: &[RunSummary]) -> String {
    let status = status_column(runs.last().map(|run| run.status));
    let about = runs.iter().find_map(|run| run.text.as_deref());
    let about = one_line(about.unwrap_or_default());
    let made = moment(session.created_at);
    let runs = runs.len();
    let line = format!("{:<36}  {made}  {runs:>4}  {status}  {about}", session.id);
    line.trim_end().to_owned()
}

pub(super) fn in_json(session: &Session, runs: &[RunSummary]) -> Value {
    let about = runs.iter().find_map(|run| run.text.as_deref());
    json!({
        "id": session.id,
        "owner": session.owner,
        "created_at": session.created_at,
        "runs": runs.len(),
        "last_run": runs.last().map(|run| json!({"run_id": run.run_id, "status": run.status})),
        "about": about,
    })
}
