//! `neuraxis runs list`.

use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::engine::Sessions;
use neuraxis::ports::RunFilter;

use super::{MIDDLE, item, run_in_json};
use crate::command::lookup;
use crate::command::sessions::question_of;
use crate::completion;
use crate::error::CommandError;
use crate::listing::{Format, Listing, Paging};

/// The headings of the columns between the id and a run's text.
const HEADINGS: [&str; 4] = [
    "STARTED            ",
    "STATUS          ",
    "TURNS",
    "       COST",
];

const EXAMPLES: &str = "\
Examples:
  neuraxis runs list
  neuraxis runs list --session trip
  neuraxis runs list --format json | jq -r '.[] | select(.finish_reason != \"stop\").run_id'";

/// List the runs, the newest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct List {
    /// Only runs of this session
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(completion::sessions))]
    session: Option<String>,

    /// Only runs of this owner
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let (limit, format) = (self.paging.limit, self.paging.format);
        let mut filter = RunFilter::default().limited_to(limit.min(RunFilter::MAX_LIMIT));
        if let Some(session) = &self.session {
            filter = filter.of_session(lookup::session(sessions, session).await?);
        }
        if let Some(owner) = &self.owner {
            filter = filter.owned_by(owner);
        }
        if let Some(after) = &self.paging.after {
            filter = filter.after(lookup::run(sessions, after).await?.run_id);
        }
        let layout = Listing::layout(MIDDLE);
        let mut listing = Listing::new(format, layout.heading("RUN", &HEADINGS));
        let mut each = sessions.each_run(filter);
        let mut last = None;
        while listing.count < limit
            && let Some(run) = each.next().await?
        {
            last = Some(run.run_id.to_string());
            let mut item = item(&run);
            // The text of a run that answers a message again is in the history.
            let question = match run.text {
                Some(_) => None,
                None => question_of(sessions, &run).await?,
            };
            item.about = question.unwrap_or(item.about);
            listing.item(&layout.item(&item), &run_in_json(&run))?;
        }
        listing.end()?;
        if format == Format::Text {
            let is_more = each.next().await?.is_some();
            let is_narrowed = self.session.is_some() || self.owner.is_some();
            self.paging.write_rest("runs", last, (is_more, is_narrowed));
        }
        Ok(())
    }
}
