//! Shows a run in the format that was asked for, and puts its questions to the person in between.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use neuraxis::core::{Record, RecordBody, Seq};
use neuraxis::engine::ToolCatalog;
use neuraxis::{Event, OrchestratorResult, Role, RunHandle, RunStatus};

use super::Format;
use super::answer::{Change, PrintedAnswer, When};
use super::outcome::Outcome;
use super::page::Page;
use super::reporter::Reporter;
use crate::approve::Prompter;
use crate::detail::Detail;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::output::{Output, on_one_line};
use crate::progress;
use crate::terminal::{self, NextReader};

/// Shows a run.
#[derive(Debug)]
pub(in crate::command) struct View {
    format: Format,
    page: Page,
    reporter: Reporter,
    answer: PrintedAnswer,
    /// What was recorded before is known already.
    known: Seq,
    /// Who reads what is typed meanwhile.
    next_reader: NextReader,
    text: Shown,
    /// The roles that rules serve: what they say may turn out to be no answer.
    by_rules: Vec<Role>,
    began: Instant,
}

/// What of the texts of a run stands on standard output, in format `text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// The text of every call of the model.
    All,
    /// The answer alone, once it was found to be one.
    AtTheEnd,
    /// The answer alone, once it was found to be what was asked for.
    Json,
}

impl View {
    /// A view whose answer is rendered where a terminal shows it, and goes to files and programs as it is, once it stands.
    pub(in crate::command) fn new(format: Format) -> Self {
        let page = match format {
            Format::Text => Page::rendered(Output::new()),
            Format::Json | Format::Events => Page::source(Output::new()),
        };
        let when = match page.output.is_terminal() {
            true => When::AsItComes,
            false => When::OnceItStands,
        };
        Self {
            format,
            page,
            reporter: Reporter::new(Detail::Usual),
            began: Instant::now(),
            answer: PrintedAnswer::new(when),
            known: Seq(0),
            next_reader: NextReader::Other,
            text: Shown::All,
            by_rules: Vec::new(),
        }
    }

    /// Shows of an answer that is to be JSON nothing before it is there, and nothing else.
    pub(super) const fn of_json(mut self) -> Self {
        self.text = Shown::Json;
        self
    }

    /// Tells so much beside the answer.
    pub(in crate::command) fn telling(mut self, detail: Detail) -> Self {
        self.reporter = Reporter::new(detail);
        self
    }

    /// Shows nothing of what these roles say before it is known to be an answer: rules serve them, and take no time.
    pub(super) fn holding_back(mut self, by_rules: Vec<Role>) -> Self {
        self.by_rules = by_rules;
        self
    }

    /// Leaves out what was recorded up to a place: it was shown when it happened.
    pub(in crate::command) fn after(mut self, known: Seq) -> Self {
        self.known = known;
        self
    }

    /// Leaves what is typed meanwhile to this reader.
    pub(in crate::command) const fn read_next_by(mut self, next_reader: NextReader) -> Self {
        self.next_reader = next_reader;
        self
    }

    /// Shows the events of a run up to its end. Nothing is shown while the person is asked something.
    pub(in crate::command) async fn follow(
        &mut self,
        run: &RunHandle,
        (prompter, tools): (&mut Prompter, &Arc<ToolCatalog>),
        interrupt: &Interrupt,
    ) -> Result<(), CommandError> {
        let mut events = run.events();
        let mut unechoed = terminal::unechoed(self.next_reader);
        loop {
            tokio::select! {
                // What has happened is shown before anything is asked about it.
                biased;
                event = events.next() => match event {
                    Some(event) => self.show(&event)?,
                    None => break,
                },
                question = prompter.next() => {
                    self.pause()?;
                    drop(unechoed.take());
                    prompter.put(question, run, tools, interrupt).await?;
                    unechoed = terminal::unechoed(self.next_reader);
                }
            }
        }
        self.reporter.progress.hide();
        drop(unechoed);
        Ok(())
    }

    /// Tells whether it was said before, as the last of its kind, why a model failed.
    pub(in crate::command) fn has_reported(&self, failure: &str) -> bool {
        self.reporter.has_reported(failure)
    }

    /// Shows what a run came to. What is told in place of an answer is no part of it.
    pub(super) fn finish(
        &mut self,
        result: &OrchestratorResult,
        outcome: &Outcome,
    ) -> io::Result<()> {
        match self.format {
            Format::Text if self.text == Shown::Json => {
                self.reporter.progress.hide();
                if let Some(answer) = &result.answer {
                    self.page.output.line(&on_one_line(answer.as_str()))?;
                }
                self.reporter.tell_usage(result, self.began.elapsed());
                Ok(())
            }
            Format::Text => {
                let missing = match result.status {
                    // Whoever interrupted it needs no reply that says so.
                    RunStatus::Interrupted => self.answer.end(),
                    _ if outcome.said.is_empty() => self.answer.end(),
                    _ => self.answer.finish(&outcome.said),
                };
                self.page.write(&missing, &self.reporter.progress)?;
                self.page.flush(&self.reporter.progress)?;
                self.reporter.progress.hide();
                self.reporter.tell_usage(result, self.began.elapsed());
                Ok(())
            }
            Format::Json => self.page.output.json(result),
            Format::Events => Ok(()),
        }
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        self.note_who_serves(event);
        self.reporter.count(event);
        let happened = match event {
            Event::Record(record) => record.seq,
            Event::Live(live) => Seq(live.after.0.saturating_add(1)),
        };
        if happened <= self.known {
            self.reporter.know(event);
            return Ok(());
        }
        match self.format {
            Format::Text if self.text == Shown::All => self.show_text(event),
            Format::Text | Format::Json => {
                self.reporter.hear(event);
                Ok(())
            }
            Format::Events => self.show_event(event),
        }
    }

    /// Holds the text of rules back from where it is known that they serve.
    fn note_who_serves(&mut self, event: &Event) {
        let Event::Record(record) = event else {
            return;
        };
        let role = match &record.body {
            RecordBody::Decision(decision) => &decision.role,
            RecordBody::RoleDowngraded(downgraded) => &downgraded.to,
            _ => return,
        };
        if self.text == Shown::All && self.by_rules.contains(role) {
            self.text = Shown::AtTheEnd;
        }
    }

    /// Makes room for something else on the terminal.
    fn pause(&mut self) -> io::Result<()> {
        if self.page.output.is_terminal() {
            self.end_line()?;
        }
        self.reporter.progress.hide();
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        let end_of_line = self.answer.end_of_line();
        let progress = &self.reporter.progress;
        if !end_of_line.is_empty() {
            self.page.write(end_of_line, progress)?;
        }
        self.page.flush(progress)
    }

    fn show_text(&mut self, event: &Event) -> io::Result<()> {
        match self.answer.hear(event) {
            Change::None => {
                // A terminal shows both outputs: what is told about a step begins on a line of its own.
                if matches!(event, Event::Record(_)) && self.page.output.is_terminal() {
                    self.end_line()?;
                }
                self.reporter.hear(event);
            }
            Change::More(text) => {
                self.reporter.tell_thoughts();
                self.page.write(&text, &self.reporter.progress)?;
                if let Event::Record(record) = event {
                    // Both outputs may go to one file.
                    if ends_its_reply(record, &text) {
                        self.end_line()?;
                    }
                    self.reporter.hear(event);
                }
            }
            Change::Void(end_of_line) => {
                let progress = &self.reporter.progress;
                self.page.write(end_of_line, progress)?;
                self.page.flush(progress)?;
                let void = "the text above was discarded: its reply was not complete";
                progress::warn(void);
            }
        }
        Ok(())
    }

    fn show_event(&mut self, event: &Event) -> io::Result<()> {
        if self.page.output.is_terminal() {
            self.reporter.progress.hide();
        }
        self.page.output.json(event)?;
        self.reporter.hear(event);
        Ok(())
    }
}

/// Tells whether a text has the end of the reply that is recorded: some of what came as it was made may be missing, and is shown
/// in the end.
fn ends_its_reply(record: &Record, text: &str) -> bool {
    match &record.body {
        RecordBody::LlmCall(call) => text.trim_end().ends_with(call.reply.text().trim_end()),
        _ => false,
    }
}
