//! `neuraxis sessions verify`.

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::SessionId;
use neuraxis::core::ContentHash;
use neuraxis::core::log::describe::counted;
use neuraxis::engine::Sessions;
use neuraxis::ports::{SessionFilter, StoreError};
use serde_json::{Value, json};

use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::listing::{Format, Listing};
use crate::output::Output;
use crate::progress;
use crate::wrap::broken;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions verify
  neuraxis sessions verify trip
  neuraxis sessions verify trip --expect \"$(cat trip.head)\"
  neuraxis sessions verify trip --format json | jq -r '.[0].head' > trip.head";

/// Check that nothing was altered
///
/// Every record is compared with the hash chain of its session, which detects changed, removed and moved records. A
/// program with write access to the store could cut off the end of a session or rebuild its chain: store the head
/// elsewhere, and --expect detects that, too. The exit code is 1 if something was altered, or if there are no sessions.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Verify {
    /// The sessions, or the beginnings of their ids; default: all
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completion::sessions))]
    ids: Vec<String>,

    /// A head that the chain of the one session must have had; the chain may have grown since
    #[arg(long, value_name = "HEAD", requires = "ids")]
    expect: Option<ContentHash>,

    /// What to print: a table, or a JSON array
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Verify {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        if self.expect.is_some() && self.ids.len() > 1 {
            let error = anyhow!("--expect applies to a single session");
            return Err(CommandError::usage(error).hint("verify one session at a time"));
        }
        let columns = Output::new().columns();
        let mut checked = Checked {
            listing: Listing::new(
                self.format,
                row(columns, "SESSION", "RECORDS", "HEAD OR ERROR"),
            ),
            damaged: 0,
            columns,
        };
        for id in &self.ids {
            let id = lookup::session(sessions, id).await?;
            checked.check(sessions, &id, self.expect).await?;
        }
        if self.ids.is_empty() {
            let mut each = sessions.each(SessionFilter::default());
            while let Some(session) = each.next().await? {
                checked.check(sessions, &session.id, None).await?;
            }
        }
        checked.listing.end()?;
        match checked.damaged {
            // For example a missing backup, or a database without its accompanying files.
            0 if self.ids.is_empty() && checked.listing.count == 0 => {
                Err(CommandError::failed(anyhow!("there are no sessions")))
            }
            0 => {
                if self.format == Format::Text && checked.listing.count > 0 {
                    progress::notice("no session was altered");
                }
                Ok(())
            }
            damaged => {
                let all = counted(checked.listing.count as u64, "session");
                let altered = match damaged {
                    1 => "was altered since it was stored",
                    _ => "were altered since they were stored",
                };
                Err(CommandError::failed(anyhow!(
                    "{damaged} of {all} {altered}"
                )))
            }
        }
    }
}

/// The columns of a line with a head.
const WHOLE_LINE: usize = 36 + 2 + 7 + 2 + 64;

/// Formats a line. On a narrow terminal, the head or the error is on a line of its own, so that a head can be copied.
fn row(columns: Option<usize>, id: &str, records: &str, found: &str) -> String {
    match columns {
        Some(columns) if columns < WHOLE_LINE => {
            let found = broken(&format!("  {found}"), columns, "  ");
            format!("{id:<36}  {records:>7}\n{found}")
        }
        _ => format!("{id:<36}  {records:>7}  {found}"),
    }
}

struct Checked {
    listing: Listing,
    damaged: usize,
    /// The columns of the terminal, if there is one.
    columns: Option<usize>,
}

impl Checked {
    async fn check(
        &mut self,
        sessions: &Sessions,
        id: &SessionId,
        expect: Option<ContentHash>,
    ) -> Result<(), CommandError> {
        let (line, value): (String, Value) = match sessions.verify(id, expect).await {
            Ok(head) => {
                let (records, hash) = (head.records, head.hash);
                if expect.is_some_and(|expected| expected != hash) {
                    progress::notice(&format!("{id} has continued since that head"));
                }
                (
                    row(
                        self.columns,
                        id.as_str(),
                        &records.to_string(),
                        &hash.to_string(),
                    ),
                    json!({"id": id, "ok": true, "records": records, "head": hash}),
                )
            }
            Err(StoreError::Damaged(why)) => {
                self.damaged += 1;
                (
                    row(self.columns, id.as_str(), "damaged", &one_line(&why)),
                    json!({"id": id, "ok": false, "error": why}),
                )
            }
            // It was deleted meanwhile.
            Err(StoreError::NoSuchSession(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        Ok(self.listing.item(&line, &value)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_on_a_line_of_its_own_where_it_would_be_broken() {
        let head = "e".repeat(64);
        let line = |columns| row(columns, "trip", "12", &head);
        for columns in [Some(70), Some(80)] {
            let (first, second) = (format!("{:<36}  {:>7}", "trip", 12), format!("  {head}"));
            assert_eq!(line(columns), format!("{first}\n{second}"));
        }
        for columns in [None, Some(120)] {
            assert_eq!(line(columns), format!("{:<36}  {:>7}  {head}", "trip", 12));
        }
    }
}
