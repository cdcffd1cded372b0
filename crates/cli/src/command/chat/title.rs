//! The title of the session: shown, set and removed.

use anyhow::anyhow;
use neuraxis::ports::StoreError;

use super::super::sessions::valid_title;
use super::conversation::Conversation;
use crate::error::CommandError;
use crate::harmless::{one_line, one_line_of};

/// The maximum number of characters shown of a title beside other words.
const MAX_SHOWN: usize = 60;

/// The argument that removes the title.
const NONE: &str = "none";

impl Conversation {
    /// Shows the title of the session, sets it, or removes it.
    pub(super) async fn title(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        let line = match argument {
            None => match self.current_title().await {
                Some(title) => format!("the title is {}; /title none removes it", one_line(&title)),
                None => "the session has no title; /title TITLE sets one".to_owned(),
            },
            Some(NONE) => {
                self.rename(None).await?;
                "the session has no title now".to_owned()
            }
            Some(title) => {
                let title = valid_title(title)?;
                self.rename(Some(title)).await?;
                format!("the title is now {}", one_line(title))
            }
        };
        Ok(self.output.sentence(&line)?)
    }

    /// Names the session by its id, and by its title if it has one.
    pub(super) async fn session_in_words(&self) -> String {
        let session = &self.session;
        match self.current_title().await {
            Some(title) => format!("session {session} ({})", one_line_of(&title, MAX_SHOWN)),
            None => format!("session {session}"),
        }
    }

    async fn rename(&self, title: Option<&str>) -> Result<(), CommandError> {
        let sessions = self.app.orchestrator.sessions();
        // After /undo, the next message does not go to the current session.
        if self.continues_from.is_none() {
            match sessions.rename(&self.session, title).await {
                Err(StoreError::NoSuchSession(_)) => {}
                renamed => return Ok(renamed.map(drop)?),
            }
        }
        let error = "the next message starts a new session, which can have a title only then";
        Err(CommandError::usage(anyhow!(error)).hint("send the message first"))
    }

    /// Returns the title of the session. A fork, which the next message may start, begins with the same one.
    async fn current_title(&self) -> Option<String> {
        let sessions = self.app.orchestrator.sessions();
        // If it cannot be read, the error appears once the conversation continues.
        sessions.get(&self.session).await.ok()?.title
    }
}
