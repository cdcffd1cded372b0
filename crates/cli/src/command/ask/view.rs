//! Shows a run in the requested format, and puts its questions to the user in between.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use neuraxis::core::{Record, RecordBody, Seq};
use neuraxis::engine::ToolCatalog;
use neuraxis::{Event, OrchestratorResult, Role, RunHandle, RunStatus};

use super::Format;
use super::answer::{AnswerPrinter, Change, PrintTiming};
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
    answer: AnswerPrinter,
    /// The last record that was already shown.
    known: Seq,
    /// What reads typed input next.
    next_reader: NextReader,
    text: PrintedText,
    /// The roles served by rules: what they say may not be an answer.
    by_rules: Vec<Role>,
    began: Instant,
}

/// Which texts of a run are printed to standard output, in format `text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrintedText {
    /// The text of every model call.
    All,
    /// Only the answer, once it is known to be one.
    FinalAnswer,
    /// Only the answer, once it is known to fit the schema.
    Json,
}

impl View {
    /// Creates a view that renders the answer on a terminal. For files and programs it prints the text unchanged, once
    /// valid.
    pub(in crate::command) fn new(format: Format) -> Self {
        let page = match format {
            Format::Text => Page::rendered(Output::new()),
            Format::Json | Format::Events => Page::source(Output::new()),
        };
        let timing = match page.output.is_terminal() {
            true => PrintTiming::Immediately,
            false => PrintTiming::OnceComplete,
        };
        Self {
            format,
            page,
            reporter: Reporter::new(Detail::Usual),
            began: Instant::now(),
            answer: AnswerPrinter::new(timing),
            known: Seq(0),
            next_reader: NextReader::Other,
            text: PrintedText::All,
            by_rules: Vec::new(),
        }
    }

    /// Prints only the JSON answer, once it is complete.
    pub(super) const fn json_only(mut self) -> Self {
        self.text = PrintedText::Json;
        self
    }

    /// Sets the level of detail.
    pub(in crate::command) fn with_detail(mut self, detail: Detail) -> Self {
        self.reporter = Reporter::new(detail);
        self
    }

    /// Holds back what these roles say until it is known to be an answer. Rules serve them, so this causes no delay.
    pub(super) fn with_rule_roles(mut self, by_rules: Vec<Role>) -> Self {
        self.by_rules = by_rules;
        self
    }

    /// Skips everything recorded up to this point: it was already shown.
    pub(in crate::command) fn skip_until(mut self, known: Seq) -> Self {
        self.known = known;
        self
    }

    /// Sets what reads the input that is typed meanwhile.
    pub(in crate::command) const fn with_next_reader(mut self, next_reader: NextReader) -> Self {
        self.next_reader = next_reader;
        self
    }

    /// Shows a run's events until it ends. Nothing is shown while the user is asked something.
    pub(in crate::command) async fn follow(
        &mut self,
        run: &RunHandle,
        (prompter, tools): (&mut Prompter, &Arc<ToolCatalog>),
        interrupt: &Interrupt,
    ) -> Result<(), CommandError> {
        let mut events = run.events();
        let mut echo_guard = terminal::disable_echo(self.next_reader);
        loop {
            tokio::select! {
                // Past events are shown before a question about them.
                biased;
                event = events.next() => match event {
                    Some(event) => self.show(&event)?,
                    None => break,
                },
                question = prompter.next() => {
                    self.pause()?;
                    drop(echo_guard.take());
                    prompter.put(question, run, tools, interrupt).await?;
                    echo_guard = terminal::disable_echo(self.next_reader);
                }
            }
        }
        self.reporter.progress.hide();
        drop(echo_guard);
        Ok(())
    }

    /// Returns whether this failure was the last failure of a model that was reported.
    pub(in crate::command) fn has_reported(&self, failure: &str) -> bool {
        self.reporter.has_reported(failure)
    }

    /// Prints the outcome of a run. What is reported instead of an answer is not part of it.
    pub(super) fn finish(
        &mut self,
        result: &OrchestratorResult,
        outcome: &Outcome,
    ) -> io::Result<()> {
        match self.format {
            Format::Text if self.text == PrintedText::Json => {
                self.reporter.progress.hide();
                if let Some(answer) = &result.answer {
                    self.page.output.line(&on_one_line(answer.as_str()))?;
                }
                self.reporter.print_usage(result, self.began.elapsed());
                Ok(())
            }
            Format::Text => {
                let missing = match result.status {
                    // A user who interrupted the run needs no reply that says so.
                    RunStatus::Interrupted => self.answer.end(),
                    _ if outcome.text.is_empty() => self.answer.end(),
                    _ => self.answer.finish(&outcome.text),
                };
                self.page.write(&missing, &self.reporter.progress)?;
                self.page.flush(&self.reporter.progress)?;
                self.reporter.progress.hide();
                self.reporter.print_usage(result, self.began.elapsed());
                Ok(())
            }
            Format::Json => self.page.output.json(result),
            Format::Events => Ok(()),
        }
    }

    fn show(&mut self, event: &Event) -> io::Result<()> {
        self.note_serving_role(event);
        self.reporter.count(event);
        let happened = match event {
            Event::Record(record) => record.seq,
            Event::Live(live) => Seq(live.after.0.saturating_add(1)),
        };
        if happened <= self.known {
            self.reporter.note_shown(event);
            return Ok(());
        }
        match self.format {
            Format::Text if self.text == PrintedText::All => self.show_text(event),
            Format::Text | Format::Json => {
                self.reporter.handle_event(event);
                Ok(())
            }
            Format::Events => self.show_event(event),
        }
    }

    /// Starts holding back text once it is known that rules serve.
    fn note_serving_role(&mut self, event: &Event) {
        let Event::Record(record) = event else {
            return;
        };
        let role = match &record.body {
            RecordBody::Decision(decision) => &decision.role,
            RecordBody::RoleDowngraded(downgraded) => &downgraded.to,
            _ => return,
        };
        if self.text == PrintedText::All && self.by_rules.contains(role) {
            self.text = PrintedText::FinalAnswer;
        }
    }

    /// Prepares the terminal for other output.
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
        match self.answer.handle_event(event) {
            Change::None => {
                // A terminal shows both outputs, so the report on a step begins on a new line.
                if matches!(event, Event::Record(_)) && self.page.output.is_terminal() {
                    self.end_line()?;
                }
                self.reporter.handle_event(event);
            }
            Change::More(text) => {
                self.reporter.print_thoughts();
                self.page.write(&text, &self.reporter.progress)?;
                if let Event::Record(record) = event {
                    // Both outputs may go to the same file.
                    if ends_its_reply(record, &text) {
                        self.end_line()?;
                    }
                    self.reporter.handle_event(event);
                }
            }
            Change::Void(end_of_line) => {
                let progress = &self.reporter.progress;
                self.page.write(end_of_line, progress)?;
                self.page.flush(progress)?;
                let void = "the text above was discarded: the reply was incomplete";
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
        self.reporter.handle_event(event);
        Ok(())
    }
}

/// Returns whether a text contains the end of the recorded reply. Otherwise part of the reply was missing while it was
/// generated, and is printed at the end.
fn ends_its_reply(record: &Record, text: &str) -> bool {
    match &record.body {
        RecordBody::LlmCall(call) => text.trim_end().ends_with(call.reply.text().trim_end()),
        _ => false,
    }
}
