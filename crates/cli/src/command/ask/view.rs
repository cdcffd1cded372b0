//! Shows a run in the format that was asked for.

use std::io;

use neuraxis::{Event, Events, OrchestratorResult, RunStatus};

use super::Format;
use super::answer::{Answer, Change};
use super::narrator::Narrator;
use crate::output::Output;

/// Shows a run.
#[derive(Debug)]
pub(super) struct View {
    format: Format,
    output: Output,
    narrator: Narrator,
    answer: Answer,
}

impl View {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            output: Output::new(),
            narrator: Narrator::new(),
            answer: Answer::default(),
        }
    }

    /// Says something that the user should know before the answer.
    pub(super) fn notice(&self, notice: &str) {
        self.narrator.progress.notice(notice);
    }

    /// Shows the events of a run up to its end.
    pub(super) async fn follow(&mut self, mut events: Events) -> io::Result<()> {
        while let Some(event) = events.next().await {
            match self.format {
                Format::Text => self.show_text(&event)?,
                Format::Json => self.narrator.hear(&event),
                Format::Events => self.show_event(&event)?,
            }
        }
        self.narrator.progress.hide();
        Ok(())
    }

    /// Shows what a run came to.
    pub(super) fn finish(&mut self, result: &OrchestratorResult) -> io::Result<()> {
        match self.format {
            Format::Text => {
                let missing = match result.status {
                    // Whoever interrupted it needs no reply that says so.
                    RunStatus::Interrupted => self.answer.end_of_line().to_owned(),
                    _ => self.answer.finish(&result.reply),
                };
                self.output.text(&missing)
            }
            Format::Json => self.output.line(&serde_json::to_string(result)?),
            Format::Events => Ok(()),
        }
    }

    fn show_text(&mut self, event: &Event) -> io::Result<()> {
        match self.answer.hear(event) {
            Change::None => {
                // A terminal shows both outputs: what is told about a step begins on a line of its own.
                if matches!(event, Event::Record(_)) && self.output.is_terminal() {
                    self.output.text(self.answer.end_of_line())?;
                }
                self.narrator.hear(event);
            }
            Change::More(text) => {
                self.narrator.progress.hide();
                self.output.text(&text)?;
            }
            Change::Void(end_of_line) => {
                self.output.text(end_of_line)?;
                let void = "the model failed midway: what it said just now is void";
                self.narrator.progress.warn(void);
            }
        }
        Ok(())
    }

    fn show_event(&mut self, event: &Event) -> io::Result<()> {
        if self.output.is_terminal() {
            self.narrator.progress.hide();
        }
        self.output.line(&serde_json::to_string(event)?)?;
        self.narrator.hear(event);
        Ok(())
    }
}
