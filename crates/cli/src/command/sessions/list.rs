//! `neuraxis sessions list`.

use clap::Args;
use neuraxis::ports::{RunSummary, Session, SessionFilter, SessionStore, StoreError};
use serde_json::{Value, json};

use crate::command::lookup;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::listing::{Format, Listing, Paging};
use crate::progress::Progress;
use crate::wording::{moment, status_column};

const HEADING: &str =
    "SESSION                               MADE (UTC)           RUNS  LAST         ABOUT";

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
    pub(super) async fn run(self, store: &dyn SessionStore) -> Result<(), CommandError> {
        let Paging {
            limit,
            before,
            format,
        } = self.paging;
        let mut filter = SessionFilter::default();
        if let Some(before) = &before {
            let last = lookup::session(store, before).await?;
            filter = filter.after(&store.session(&last).await?);
        }
        let mut listing = Listing::new(format, HEADING);
        let mut last = None;
        while listing.count < limit {
            let page = filter.clone().limited_to(limit - listing.count);
            let page = store.sessions(&page).await?;
            let Some(newest_of_next) = page.last() else {
                break;
            };
            filter = filter.after(newest_of_next);
            for session in &page {
                let runs = match store.runs(&session.id).await {
                    // It was deleted meanwhile.
                    Err(StoreError::NoSuchSession(_)) => continue,
                    runs => runs?,
                };
                listing.item(&in_text(session, &runs), &in_json(session, &runs))?;
                last = Some(session.id.clone());
            }
        }
        listing.end()?;
        if format == Format::Text {
            let more = store.sessions(&filter.limited_to(1)).await?;
            tell_rest(
                last.map(|id| id.to_string()),
                !more.is_empty(),
                before.is_some(),
            );
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
        None => progress.notice("there are no sessions yet: `neuraxis ask` begins one"),
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
