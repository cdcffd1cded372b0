//! `neuraxis runs list`.

use clap::Args;
use neuraxis::engine::Sessions;
use neuraxis::ports::RunFilter;

use super::{run_in_json, run_in_text};
use crate::command::lookup;
use crate::error::CommandError;
use crate::listing::{Format, Listing, Paging};
use crate::progress::Progress;

const HEADING: &str = "RUN                                   BEGUN                STATUS       TURNS         COST  ABOUT";

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
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let Paging {
            limit,
            before,
            format,
        } = self.paging;
        let mut filter = RunFilter::default().limited_to(limit.min(RunFilter::MAX_LIMIT));
        if let Some(session) = &self.session {
            filter = filter.of_session(lookup::session(sessions, session).await?);
        }
        if let Some(before) = &before {
            filter = filter.after(lookup::run(sessions, before).await?.run_id);
        }
        let mut listing = Listing::new(format, HEADING);
        let mut each = sessions.each_run(filter);
        let mut last = None;
        while listing.count < limit
            && let Some(run) = each.next().await?
        {
            listing.item(&run_in_text(&run), &run_in_json(&run))?;
            last = Some(run.run_id);
        }
        listing.end()?;
        if format == Format::Json {
            return Ok(());
        }
        let progress = Progress::new();
        match last {
            Some(last) if each.next().await?.is_some() => {
                progress.notice(&format!("there are more: add --before {last}"));
            }
            Some(_) => {}
            None if before.is_some() => progress.notice("there are no more runs"),
            None => progress.notice("there are no runs yet: `neuraxis chat` begins one"),
        }
        Ok(())
    }
}
