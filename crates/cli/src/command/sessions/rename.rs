//! `neuraxis sessions rename`.

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::engine::Sessions;
use neuraxis::ports::{MAX_TITLE_CHARS, check_title};

use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  neuraxis sessions rename trip \"Two weeks in Japan\"
  neuraxis sessions rename last --clear";

/// Set the title of a session, or remove it
///
/// Lists show the title instead of the session's first message, and a search finds it. The session keeps its id.
/// Possible at any time, also while a run is in progress.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Rename {
    /// The session: its id, the beginning or end of its id, or last
    #[arg(add = ArgValueCompleter::new(completion::sessions))]
    id: String,

    /// The title: at most 200 characters, in one line
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    title: Option<String>,

    /// Remove the title
    #[arg(long)]
    clear: bool,
}

impl Rename {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let title = self.title.as_deref().map(valid_title).transpose()?;
        let id = lookup::session(sessions, &self.id).await?;
        let renamed = sessions.rename(&id, title).await?;
        let mut output = Output::new();
        let line = match &renamed.title {
            Some(title) => format!("renamed {id}: {}", one_line(title)),
            None => format!("removed the title of {id}"),
        };
        Ok(output.line(&line)?)
    }
}

/// Returns a title without the white space around it, or says what is wrong with it.
pub(in crate::command) fn valid_title(title: &str) -> Result<&str, CommandError> {
    check_title(title).map_err(|_| {
        let count = title.trim().chars().count();
        let (error, hint) = match count {
            0 => (
                anyhow!("the title is empty"),
                "`neuraxis sessions rename ID --clear` removes the title of a session",
            ),
            1..=MAX_TITLE_CHARS => (
                anyhow!("the title contains a line break or another control character"),
                "write it in one line",
            ),
            _ => (
                anyhow!("the title has {count} characters; at most {MAX_TITLE_CHARS} are allowed"),
                "shorten it",
            ),
        };
        CommandError::usage(error).hint(hint)
    })
}
