//! `neuraxis runs list`.

use clap::Args;
use neuraxis::ports::{RunFilter, SessionStore};

use super::{run_in_json, run_in_text};
use crate::command::lookup;
use crate::error::CommandError;
use crate::listing::{Format, Listing, Paging};
use crate::progress::Progress;

const HEADING: &str =
    "RUN                                   BEGUN (UTC)          STATUS       TURNS  ABOUT";

const EXAMPLES: &str = "\
Examples:
  neuraxis runs list
  neuraxis runs list --session trip
  neuraxis runs list --format json | jq -r '.[] | select(.status == \"failed\").run_id'";

/// List the runs, the newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,

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
        let mut filter = RunFilter::default();
        if let Some(session) = &self.session {
            filter = filter.of_session(lookup::session(store, session).await?);
        }
        if let Some(before) = &before {
            filter = filter.after(lookup::run(store, before).await?.run_id);
        }
        let mut listing = Listing::new(format, HEADING);
        let mut last = None;
        while listing.count < limit {
            let page = filter.clone().limited_to(limit - listing.count);
            let page = store.find_runs(&page).await?;
            for run in &page {
                listing.item(&run_in_text(run), &run_in_json(run))?;
            }
            let Some(oldest) = page.last() else { break };
            filter = filter.after(oldest.run_id);
            last = Some(oldest.run_id);
        }
        listing.end()?;
        if format == Format::Json {
            return Ok(());
        }
        let progress = Progress::new();
        match last {
            Some(last) if !store.find_runs(&filter.limited_to(1)).await?.is_empty() => {
                progress.notice(&format!("there are more: add --before {last}"));
            }
            Some(_) => {}
            None if before.is_some() => progress.notice("there are no more runs"),
            None => progress.notice("there are no runs yet: `neuraxis ask` makes one"),
        }
        Ok(())
    }
}
