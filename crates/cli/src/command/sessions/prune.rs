//! `neuraxis sessions prune`.

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::jiff::{Span, SpanRelativeTo, Timestamp};
use neuraxis::engine::SystemClock;
use neuraxis::ports::{Clock, Session, SessionFilter, SessionStore, StoreError};

use crate::confirm::{Unattended, confirm};
use crate::error::CommandError;
use crate::output::Output;
use crate::wording::moment;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions prune --older-than 90d --dry-run
  neuraxis sessions prune --older-than 2w --yes";

/// Delete the sessions in which nothing has happened for a while
///
/// A session with a run that has not ended stays, however old. At a terminal you are asked first; elsewhere --yes is needed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Prune {
    /// For how long nothing has happened in them, such as 12h, 90d or 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Span,

    /// Only list what would go
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

fn age(text: &str) -> Result<Span, String> {
    let span: Span = text
        .parse()
        .map_err(|_| "it must be a number with a unit, such as 90d".to_owned())?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours());
    match duration {
        Ok(duration) if !duration.is_negative() => Ok(span),
        _ => Err("it must be given in weeks, days, hours, minutes or seconds".to_owned()),
    }
}

impl Prune {
    pub(super) async fn run(self, store: &dyn SessionStore) -> Result<(), CommandError> {
        let before = self.before()?;
        let mut output = Output::new();
        let mut count = 0_usize;
        let mut filter = SessionFilter::default();
        if self.dry_run || !self.yes {
            loop {
                let page = store.sessions(&filter).await?;
                let Some(last) = page.last() else { break };
                filter = filter.after(last);
                for session in &page {
                    if !is_older(store, session, before).await? {
                        continue;
                    }
                    count += 1;
                    if self.dry_run {
                        let (id, made) = (&session.id, moment(session.created_at));
                        output.line(&format!("{id}  made {made}"))?;
                    }
                }
            }
            if self.dry_run {
                return Ok(output.line(&format!("{} would be deleted", sessions(count)))?);
            }
            if count > 0 {
                let question = format!("Delete {} with all their runs?", sessions(count));
                confirm(&question, Unattended::Refuse)?;
            }
        }
        let pruned = store.prune(before).await?;
        let pruned = usize::try_from(pruned).unwrap_or(usize::MAX);
        Ok(output.line(&format!("deleted {}", sessions(pruned)))?)
    }

    fn before(&self) -> Result<Timestamp, CommandError> {
        let age = self
            .older_than
            .to_duration(SpanRelativeTo::days_are_24_hours());
        let before = age.and_then(|age| SystemClock.now().checked_sub(age));
        before.map_err(|_| CommandError::usage(anyhow!("no session can be that old")))
    }
}

/// Tells whether nothing has happened in a session since.
async fn is_older(
    store: &dyn SessionStore,
    session: &Session,
    before: Timestamp,
) -> Result<bool, CommandError> {
    if session.created_at >= before {
        return Ok(false);
    }
    match store.runs(&session.id).await {
        Ok(runs) => Ok(runs
            .iter()
            .all(|run| run.ended_at.is_some_and(|end| end < before))),
        Err(StoreError::NoSuchSession(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn sessions(count: usize) -> String {
    match count {
        0 => "no session".to_owned(),
        1 => "1 session".to_owned(),
        count => format!("{count} sessions"),
    }
}
