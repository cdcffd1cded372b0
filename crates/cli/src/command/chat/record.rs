//! The conversation so far: shown, counted, copied and written to a file.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use neuraxis::core::{Message, ReplyPart, forked_history};
use neuraxis::engine::Sessions;
use neuraxis::ports::SessionFilter;

use super::super::ask::root_calls;
use super::super::sessions::{FailedCalls, MIDDLE, about, conversation, item, used};
use super::branch::{RESUME_HINT, UNANSWERED};
use super::conversation::Conversation;
use crate::call::lines_of;
use crate::destination::create_new;
use crate::error::CommandError;
use crate::glyphs::ELLIPSIS;
use crate::harmless::harmless;
use crate::listing::Layout;
use crate::progress;
use crate::rows::{LongLines, Mark, Row};
use crate::wrap::laid_out;

/// The maximum number of sessions listed.
const MAX_LISTED: usize = 10;

/// The maximum number of lines of the last answer shown when a session continues.
const MAX_LINES: usize = 12;

/// The maximum number of bytes copied: many terminals drop more.
const MAX_COPIED: usize = 74_000;

impl Conversation {
    /// Shows the whole conversation.
    pub(super) async fn history(&mut self) -> Result<(), CommandError> {
        let messages = self.messages().await?;
        let shown = conversation(&messages, &self.failed_calls().await);
        let text = match self.is_unanswered().await {
            true => format!("{shown}{UNANSWERED}: {RESUME_HINT}\n"),
            false if messages.is_empty() => "this session has no messages yet\n".to_owned(),
            false => shown,
        };
        Ok(self.output.lines(&text)?)
    }

    /// Shows the last message and its answer, for a user who returns to the session.
    pub(super) async fn show_last_exchange(&mut self) {
        // If it cannot be read, the error appears once the conversation continues.
        let Ok(messages) = self.messages().await else {
            return;
        };
        let is_said = |message: &Arc<Message>| matches!(**message, Message::User { .. });
        let Some(last) = messages.iter().rposition(is_said) else {
            return;
        };
        let rest = messages.get(last..).unwrap_or_default();
        let shown = conversation(rest, &self.failed_calls().await);
        let text = laid_out(&shown, self.output.width());
        let lines: Vec<&str> = text.trim_start().lines().collect();
        let more = lines.len().saturating_sub(MAX_LINES);
        let mut text = lines
            .get(..lines.len() - more)
            .unwrap_or_default()
            .join("\n")
            + "\n";
        if more > 0 {
            text.push_str(&format!("  {ELLIPSIS} /history shows the rest\n"));
        }
        let _ = self.output.painted(&text);
    }

    /// Lists the sessions that were used last.
    pub(super) async fn sessions(&mut self) -> Result<(), CommandError> {
        let sessions: Sessions = self.app.orchestrator.sessions();
        let filter = SessionFilter::default().by_last_activity();
        let mut each = sessions.each(filter.limited_to(MAX_LISTED));
        let columns = self.output.columns();
        let layout = Layout::of(columns.map(|columns| columns.saturating_sub(2)), MIDDLE);
        let mut text = String::new();
        let mut count = 0;
        while count < MAX_LISTED
            && let Some(session) = each.next().await?
        {
            count += 1;
            let runs = sessions.runs(&session.id).await?.unwrap_or_default();
            let about = about(&sessions, &session, &runs).await?;
            let item = item(&session, &runs, about);
            let here = if session.id == self.session {
                "* "
            } else {
                "  "
            };
            let lines = layout.item(&item).replace('\n', "\n  ");
            text.push_str(&format!("{here}{lines}\n"));
        }
        if text.is_empty() {
            text = "there are no sessions yet\n".to_owned();
        } else {
            text.push_str("/session ID switches to one; its last digits are enough\n");
        }
        Ok(self.output.painted(&text)?)
    }

    /// Shows the model's reasoning before its last answer, whether or not it was shown at the time.
    pub(super) async fn reasoning(&mut self) -> Result<(), CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let last = match self.continues_from {
            Some((run, _)) => Some(run),
            None => {
                let runs = sessions.runs(&self.session).await?.unwrap_or_default();
                runs.last().map(|run| run.run_id)
            }
        };
        let records = match last {
            Some(run) => sessions.records(run).await?,
            None => return Ok(self.output.sentence("there is no answer yet")?),
        };
        let columns = self.output.width();
        let thoughts = root_calls(&records).flat_map(|call| &call.reply.parts);
        let thoughts = thoughts.filter_map(|part| match part {
            ReplyPart::Reasoning(thought) => Some(thought.text.as_str()),
            _ => None,
        });
        let rows = thoughts.flat_map(lines_of).map(|row| {
            let row = Row::new(Mark::Title, row.text);
            row.below(columns, LongLines::Broken)
        });
        let text: String = rows.collect();
        match text.is_empty() {
            true => Ok(self
                .output
                .sentence("the last answer came without thinking that can be shown")?),
            false => Ok(self.output.painted(&format!("thinking\n{text}"))?),
        }
    }

    /// Shows what the session used.
    pub(super) async fn cost(&mut self) -> Result<(), CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let line = match sessions.runs(&self.session).await? {
            Some(_) => used(&sessions.metrics(&self.session).await?),
            None => "this session has not used anything yet".to_owned(),
        };
        Ok(self.output.sentence(&line)?)
    }

    /// Copies the last answer through the terminal, which needs no other program and works over SSH.
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
            let error = anyhow!("the answer is larger than {MAX_COPIED} bytes");
            return Err(CommandError::usage(error).hint("/export FILE writes to a file"));
        }
        // OSC 52. The content is encoded, so nothing in it can affect the terminal.
        let mut stdout = std::io::stdout();
        write!(stdout, "\u{1b}]52;c;{}\u{7}", STANDARD.encode(&answer))?;
        stdout.flush()?;
        Ok(self.output.line("copied, if your terminal allows it")?)
    }

    /// Writes the conversation to a new Markdown file.
    pub(super) async fn export(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        let messages = self.messages().await?;
        let is_unanswered = self.is_unanswered().await;
        if messages.is_empty() {
            return Err(match is_unanswered {
                true => CommandError::usage(anyhow!(UNANSWERED)).hint(RESUME_HINT),
                false => CommandError::usage(anyhow!("this session has no messages yet")),
            });
        }
        let name = match argument {
            Some(name) => name.to_owned(),
            None => format!("{}.md", self.session),
        };
        let text: String = messages
            .iter()
            .filter_map(|message| in_markdown(message))
            .collect();
        let written =
            create_new(Path::new(&name)).and_then(|mut file| file.write_all(text.as_bytes()));
        written
            .with_context(|| format!("cannot write {name}"))
            .map_err(|error| CommandError::usage(error).hint("name another file: /export FILE"))?;
        self.output.line(&format!("wrote {}", harmless(&name)))?;
        if is_unanswered {
            progress::notice(&format!("{UNANSWERED}: it is not in the file"));
        }
        Ok(())
    }

    /// Returns whether the conversation continues from a message that is not answered yet.
    async fn is_unanswered(&self) -> bool {
        self.continues_from.is_none() && self.unfinished().await.is_some()
    }

    /// Returns how the calls of the session failed that did; nothing if that cannot be read, since the messages still
    /// show the errors.
    async fn failed_calls(&self) -> FailedCalls {
        let sessions = self.app.orchestrator.sessions();
        let runs = sessions.runs(&self.session).await;
        let runs = runs.ok().flatten().unwrap_or_default();
        sessions.failed_calls(&runs).await.unwrap_or_default()
    }

    /// Returns the messages of the session, up to where the conversation continues.
    async fn messages(&self) -> Result<Vec<Arc<Message>>, CommandError> {
        let sessions = self.app.orchestrator.sessions();
        let history = match self.continues_from {
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
