//! `neuraxis sessions prune`.

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::jiff::{Span, SpanRelativeTo, Timestamp};
use neuraxis::engine::{Sessions, SystemClock};
use neuraxis::ports::Clock;

use crate::confirm::confirm;
use crate::error::CommandError;
use crate::output::Output;
use crate::quantities::moment;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions prune --older-than 90d --dry-run
  neuraxis sessions prune --older-than 2w --yes";

/// Delete sessions without recent activity
///
/// A session with an unfinished run is not deleted, however old it is. At a terminal you are asked first; elsewhere
/// --yes is required.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Prune {
    /// The time since their last activity, such as 12h, 90d or 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Span,

    /// Only list what would be deleted
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Parses an age with its unit, such as `90d`.
pub(in crate::command) fn age(text: &str) -> Result<Span, String> {
    let wrong = || {
        "it must be in weeks, days, hours, minutes or seconds, such as 52w or 90d, and less than 19,998 \
         years".to_owned()
    };
    let span: Span = text.parse().map_err(|_| wrong())?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours());
    match duration {
        Ok(duration) if !duration.is_negative() => Ok(span),
        _ => Err(wrong()),
    }
}

impl Prune {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let before = self.before()?;
        let mut output = Output::new();
        if self.dry_run || !self.yes {
            let idle = sessions.idle_since(before).await?;
            if self.dry_run {
                for session in &idle {
                    let (id, made) = (&session.id, moment(session.created_at));
                    output.line(&format!("{id}  created {made}"))?;
                }
                return Ok(output.line(&format!("{} would be deleted", in_words(idle.len())))?);
            }
            if !idle.is_empty() {
                let question = format!("Delete {} with all their runs?", in_words(idle.len()));
                confirm(&question)?;
            }
        }
        let pruned = sessions.prune(before).await?;
        let pruned = usize::try_from(pruned).unwrap_or(usize::MAX);
        Ok(output.line(&format!("deleted {}", in_words(pruned)))?)
    }

    fn before(&self) -> Result<Timestamp, CommandError> {
        let age = self
            .older_than
            .to_duration(SpanRelativeTo::days_are_24_hours());
        let before = age.and_then(|age| SystemClock.now().checked_sub(age));
        before.map_err(|_| CommandError::usage(anyhow!("no session can be that old")))
    }
}

fn in_words(count: usize) -> String {
    match count {
        0 => "no session".to_owned(),
        1 => "1 session".to_owned(),
        count => format!("{count} sessions"),
    }
}
