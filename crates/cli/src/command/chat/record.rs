//! What was said so far: shown, counted, copied and written to a file.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use neuraxis::core::{Message, forked_history};
use neuraxis::engine::Sessions;
use neuraxis::ports::SessionFilter;

use super::super::sessions::{conversation, used};
use super::conversation::Conversation;
use crate::error::CommandError;
use crate::harmless::{harmless, one_line};
use crate::quantities::moment;

/// How many sessions are listed.
const MAX_LISTED: usize = 10;

/// The most lines of the last answer that are shown where a session is gone on with.
const MAX_LINES: usize = 12;

/// The most bytes that are copied: more of them many terminals leave out.
const MAX_COPIED: usize = 74_000;

impl Conversation {
    /// Shows all that was said.
    pub(super) async fn history(&mut self) -> Result<(), CommandError> {
        let text = match self.messages().await? {
            messages if messages.is_empty() => "nothing was said in this session yet\n".to_owned(),
            messages => conversation(messages.iter().map(AsRef::as_ref)),
        };
        Ok(self.output.painted(&text)?)
    }

    /// Shows the last message and its answer, for whoever comes back.
    pub(super) async fn show_last_exchange(&mut self) {
        // Of what cannot be read more is said once the conversation goes on.
        let Ok(messages) = self.messages().await else {
            return;
        };
        let is_said = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let Some(last) = messages.iter().rposition(is_said) else {
            return;
        };
        let rest = messages.get(last..).unwrap_or_default();
        let text = conversation(rest.iter().map(AsRef::as_ref));
        let lines: Vec<&str> = text.trim_start().lines().collect();
        let more = lines.len().saturating_sub(MAX_LINES);
        let mut text = lines
            .get(..lines.len() - more)
            .unwrap_or_default()
            .join("\n")
            + "\n";
        if more > 0 {
            text.push_str("  … /history shows the rest\n");
        }
        let _ = self.output.painted(&text);
    }

    /// Lists the newest sessions.
    pub(super) async fn sessions(&mut self) -> Result<(), CommandError> {
        let sessions: Sessions = self.app.orchestrator.sessions();
        let filter = SessionFilter::default().limited_to(MAX_LISTED);
        let mut each = sessions.each(filter);
        let mut text = String::new();
        let mut count = 0;
        while count < MAX_LISTED
            && let Some(session) = each.next().await?
        {
            count += 1;
            let runs = sessions.runs(&session.id).await?.unwrap_or_default();
            let about = runs.first().and_then(|run| run.text.clone());
            let about: String = one_line(&about.unwrap_or_default())
                .chars()
                .take(50)
                .collect();
            let here = if session.id == self.session { "*" } else { " " };
            let made = moment(session.created_at);
            text.push_str(&format!("{here} {}  {made}  {about}\n", session.id));
        }
        if text.is_empty() {
            text = "there are no sessions yet\n".to_owned();
        } else {
            text.push_str("/session ID goes to one; its last digits will do\n");
        }
        Ok(self.output.text(&text)?)
    }

    /// Says what the session used.
    pub(super) async fn cost(&mut self) -> Result<(), CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let line = match sessions.runs(&self.session).await? {
            Some(_) => used(&sessions.metrics(&self.session).await?),
            None => "nothing was used in this session yet".to_owned(),
        };
        Ok(self.output.line(&line)?)
    }

    /// Copies the last answer by way of the terminal, which needs no program and works over SSH.
    pub(super) async fn copy(&mut self) -> Result<(), CommandError> {
        if !self.output.is_terminal() {
            let error = anyhow!("standard output is not a terminal, so nothing can be copied");
            return Err(CommandError::usage(error).hint("/export FILE writes to a file"));
        }
        let messages = self.messages().await?;
        let mut answers = messages
            .iter()
            .rev()
            .filter_map(|message| match &**message {
                Message::Assistant(_) => {
                    Some(message.text()).filter(|text| !text.trim().is_empty())
                }
                _ => None,
            });
        let Some(answer) = answers.next() else {
            return Err(CommandError::usage(anyhow!(
                "there is no answer to copy yet"
            )));
        };
        if answer.len() > MAX_COPIED {
            let error = anyhow!("the answer has more than {MAX_COPIED} bytes");
            return Err(CommandError::usage(error).hint("/export FILE writes to a file"));
        }
        // OSC 52; what is copied is encoded, so that nothing in it reaches the terminal.
        let mut stdout = std::io::stdout();
        write!(stdout, "\u{1b}]52;c;{}\u{7}", STANDARD.encode(&answer))?;
        stdout.flush()?;
        Ok(self.output.line("copied, if your terminal allows it")?)
    }

    /// Writes what was said to a new file, as Markdown.
    pub(super) async fn export(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        let messages = self.messages().await?;
        if messages.is_empty() {
            return Err(CommandError::usage(anyhow!(
                "nothing was said in this session yet"
            )));
        }
        let name = match argument {
            Some(name) => name.to_owned(),
            None => format!("{}.md", self.session),
        };
        let text: String = messages
            .iter()
            .filter_map(|message| in_markdown(message))
            .collect();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options
            .open(&name)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written
            .with_context(|| format!("cannot write {name}"))
            .map_err(|error| CommandError::usage(error).hint("name another file: /export FILE"))?;
        Ok(self.output.line(&format!("wrote {}", harmless(&name)))?)
    }

    /// Returns the messages of the session, up to where the conversation goes on.
    async fn messages(&self) -> Result<Vec<Arc<Message>>, CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let history = match self.goes_on_from {
            Some((run, turn)) => {
                let before = sessions.history_before(run).await?;
                forked_history(&before, &sessions.records(run).await?, turn)
            }
            None if sessions.runs(&self.session).await?.is_none() => return Ok(Vec::new()),
            None => sessions.history(&self.session).await?,
        };
        Ok(history.messages().to_vec())
    }
}

fn in_markdown(message: &Message) -> Option<String> {
    let who = match message {
        Message::User { .. } => "You",
        Message::Assistant(_) => "Neuraxis",
        Message::System { .. } | Message::Tool(_) => return None,
    };
    let text = message.text();
    (!text.trim().is_empty()).then(|| format!("## {who}\n\n{}\n\n", text.trim()))
}
