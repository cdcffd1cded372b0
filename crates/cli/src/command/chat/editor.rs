//! The line editor: history, completion, multi-line messages, and the meaning of Ctrl-C at the prompt.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use neuraxis_app::make_private_folder;
use rustyline::completion::Completer;
use rustyline::config::Behavior;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{DefaultHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, CompletionType, ConditionalEventHandler, Config, Context, Event, EventContext,
    EventHandler, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};

use super::conversation::Conversation;
use super::slash::COMMANDS;
use crate::approve::{Line, line_of};
use crate::progress;
use crate::terminal;

/// The maximum number of messages in the history.
const MAX_ENTRIES: usize = 1_000;

/// The maximum size in bytes of a message in the history; longer ones were pasted.
const MAX_ENTRY_BYTES: usize = 8 * 1024;

/// Reads messages from a terminal.
#[derive(Debug)]
pub(super) struct Editor {
    editor: rustyline::Editor<Words, DefaultHistory>,
    /// The file for the history of typed messages, if any.
    history: Option<PathBuf>,
    /// Whether the line had text when Ctrl-C cleared it.
    held_text: Arc<AtomicBool>,
}

/// Handles Ctrl-C: records whether the line has text, and leaves the rest to the editor.
#[derive(Debug)]
struct Interrupt {
    held_text: Arc<AtomicBool>,
}

/// Handles Enter after a `\` that continues the message: replaces it with a line break. No editor command replaces
/// text, so this uses completion.
#[derive(Debug)]
struct Continuation {
    is_pressed: Arc<AtomicBool>,
}

/// What can be completed: commands, and the names that follow some of them.
#[derive(Debug)]
struct Words {
    lines: Vec<String>,
    /// Whether the completion is for a `\` after which Enter was pressed.
    is_continued: Arc<AtomicBool>,
}

impl Editor {
    pub(super) fn open(conversation: &Conversation) -> rustyline::Result<Self> {
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .max_history_size(MAX_ENTRIES)?
            .history_ignore_dups(true)?
            // A leading space keeps a line out of the history.
            .history_ignore_space(true)
            .completion_type(CompletionType::List);
        let mut editor = rustyline::Editor::with_config(config.build())?;
        let is_continued = Arc::new(AtomicBool::new(false));
        editor.set_helper(Some(Words::of(conversation, &is_continued)));
        // Enter arrives as Ctrl-J if it was typed while no editor was reading.
        let enter = KeyEvent(KeyCode::Enter, Modifiers::NONE);
        for key in [enter, KeyEvent::ctrl('J')] {
            let continuation = Continuation {
                is_pressed: Arc::clone(&is_continued),
            };
            editor.bind_sequence(key, EventHandler::Conditional(Box::new(continuation)));
        }
        let new_line = KeyEvent(KeyCode::Enter, Modifiers::ALT);
        editor.bind_sequence(new_line, Cmd::Newline);
        let held_text = Arc::new(AtomicBool::new(false));
        let interrupt = Interrupt {
            held_text: Arc::clone(&held_text),
        };
        let interrupt = EventHandler::Conditional(Box::new(interrupt));
        editor.bind_sequence(KeyEvent::ctrl('C'), interrupt);
        let mut editor = Self {
            editor,
            history: conversation.loaded.environment.chat_history(),
            held_text,
        };
        editor.remember_before();
        Ok(editor)
    }

    /// Reads a message. The first Ctrl-C clears the line and says how to leave; the second one leaves if nothing was
    /// typed in between. A Ctrl-C before `stopping_until` was meant for what was stopped, and is ignored.
    pub(super) fn read(
        &mut self,
        prompt: &str,
        stopping_until: Option<Instant>,
    ) -> io::Result<Line> {
        let mut interrupts = Interrupts::new(stopping_until);
        loop {
            self.held_text.store(false, Ordering::Relaxed);
            let line = terminal::read_with_editor(|| self.editor.readline(prompt));
            match line_of(line)? {
                Line::Text(text) => {
                    return Ok(Line::Text(match terminal::is_dumb() {
                        true => without_continuations(&text),
                        false => text,
                    }));
                }
                Line::Interrupted => {
                    let held_text = self.held_text.load(Ordering::Relaxed);
                    match interrupts.meaning(Instant::now(), held_text) {
                        Meaning::Nothing => {}
                        Meaning::LeavesNext => progress::notice(LEAVES_NEXT),
                        Meaning::Leaves => return Ok(Line::Interrupted),
                    }
                }
                Line::End => {
                    if terminal::is_dumb() {
                        // The editor, which would end the line, is not in use. What follows shows whether the terminal
                        // is gone.
                        let _ = writeln!(io::stdout());
                    }
                    return Ok(Line::End);
                }
            }
        }
    }

    /// Loads the history of earlier conversations.
    fn remember_before(&mut self) {
        let Some(file) = &self.history else {
            return;
        };
        let made = file.parent().map_or(Ok(()), make_private_folder);
        let kept = made.and_then(|()| {
            if file.exists() {
                self.editor.load_history(file).map_err(io::Error::other)?;
            }
            // Rewriting the file limits it to the maximum number of entries.
            self.editor.save_history(file).map_err(io::Error::other)
        });
        if let Err(error) = kept {
            let file = file.display();
            progress::warn(&format!(
                "the history of what you type is not saved: {file}: {error}"
            ));
            self.history = None;
        }
    }

    /// Adds a message to the history, if the conversation's text may be stored.
    pub(super) fn remember(&mut self, text: &str, conversation: &Conversation) {
        if text.len() > MAX_ENTRY_BYTES || !keeps_text(conversation) {
            return;
        }
        // A failure only means that the entry is missing later.
        if let Ok(true) = self.editor.history_mut().add(text)
            && let Some(file) = &self.history
        {
            let _ = self.editor.append_history(file);
        }
    }
}

/// Returns whether the channel and the agent of a conversation allow storing its text.
fn keeps_text(conversation: &Conversation) -> bool {
    let request = conversation.request("Hello?");
    let decided = conversation.app.orchestrator.decide(&request);
    decided.is_ok_and(|decision| decision.data.text)
}

impl Words {
    fn of(conversation: &Conversation, is_continued: &Arc<AtomicBool>) -> Self {
        let policy = conversation.loaded.config.policy();
        let commands = COMMANDS.iter().map(|(_, name, argument, _)| {
            let space = if argument.is_empty() { "" } else { " " };
            format!("/{name}{space}")
        });
        let modes = policy.modes().map(|mode| format!("/mode {mode}"));
        let channels = policy.channels();
        let channels = channels.map(|channel| format!("/channel {channel}"));
        let agents = policy.agents().map(|agent| format!("/agent {agent}"));
        let names = modes.chain(channels).chain(agents);
        Self {
            lines: commands.chain(names).collect(),
            is_continued: Arc::clone(is_continued),
        }
    }

    /// Returns the possible completions of a line: first the commands, then their arguments.
    fn fitting(&self, begun: &str) -> Vec<String> {
        let depth = begun.matches(' ').count();
        let fitting = self.lines.iter().filter(|line| {
            line.starts_with(begun) && line.trim_end().matches(' ').count() == depth
        });
        fitting.cloned().collect()
    }
}

impl ConditionalEventHandler for Interrupt {
    fn handle(
        &self,
        _event: &Event,
        _repeated: RepeatCount,
        _is_positive: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let held_text = !context.line().is_empty();
        self.held_text.store(held_text, Ordering::Relaxed);
        None
    }
}

impl ConditionalEventHandler for Continuation {
    fn handle(
        &self,
        _event: &Event,
        _repeated: RepeatCount,
        _is_positive: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let text = context.line();
        let is_at_end = context.pos() == text.len();
        let is_continued = is_at_end && text.ends_with('\\') && !is_in_code(text);
        self.is_pressed.store(is_continued, Ordering::Relaxed);
        is_continued.then_some(Cmd::Complete)
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line.get(..position).unwrap_or_default();
        if self.is_continued.swap(false, Ordering::Relaxed)
            && let Some(before) = begun.strip_suffix('\\')
        {
            return Ok((before.len(), vec!["\n".to_owned()]));
        }
        if !begun.starts_with('/') {
            return Ok((0, Vec::new()));
        }
        Ok((0, self.fitting(begun)))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if continues_on_next_line(context.input()) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Highlighter for Words {}

impl Hinter for Words {
    type Hint = String;
}

impl Helper for Words {}

/// Returns whether a message continues on the next line: it ends with a backslash or within a code fence.
fn continues_on_next_line(text: &str) -> bool {
    text.ends_with('\\') || is_in_code(text)
}

/// Returns whether a text ends within a code fence.
fn is_in_code(text: &str) -> bool {
    let fences = text.lines().filter(|line| is_fence(line));
    fences.count() % 2 == 1
}

/// Removes the `\` at the ends of lines that only continues the message, for terminals where Enter cannot do that.
/// Within a code fence a `\` is part of the code, since it is not needed there to continue.
fn without_continuations(text: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    let mut rest = text.split('\n').peekable();
    while let Some(line) = rest.next() {
        is_code ^= is_fence(line);
        let continues_on_next_line = !is_code && rest.peek().is_some();
        let before = line.strip_suffix('\\').filter(|_| continues_on_next_line);
        lines.push(before.unwrap_or(line));
    }
    lines.join("\n")
}

/// Returns whether a line begins or ends a code fence.
fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Shown after a Ctrl-C if the next one leaves.
pub(super) const LEAVES_NEXT: &str = "press Ctrl-C again, or Ctrl-D, to leave";

/// The meaning of each Ctrl-C at one prompt.
pub(super) struct Interrupts {
    /// Until when a Ctrl-C is meant for what was stopped before.
    stopping_until: Option<Instant>,
    is_leaving: bool,
}

/// The meaning of a Ctrl-C.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Nothing,
    LeavesNext,
    Leaves,
}

impl Interrupts {
    pub(super) const fn new(stopping_until: Option<Instant>) -> Self {
        Self {
            stopping_until,
            is_leaving: false,
        }
    }

    /// Returns the meaning of a Ctrl-C at this time, on a line with or without text.
    pub(super) fn meaning(&mut self, now: Instant, held_text: bool) -> Meaning {
        if self.stopping_until.is_some_and(|until| now < until) {
            return Meaning::Nothing;
        }
        match std::mem::replace(&mut self.is_leaving, true) && !held_text {
            true => Meaning::Leaves,
            false => Meaning::LeavesNext,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_second_ctrl_c_exits_and_one_shortly_after_stopping_an_answer_is_ignored() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut interrupts = Interrupts {
            stopping_until: Some(later),
            is_leaving: false,
        };
        for (at, held_text, expected) in [
            (now, false, Meaning::Nothing),
            (now, true, Meaning::Nothing),
            (later, false, Meaning::LeavesNext),
            (later, true, Meaning::LeavesNext),
            (later, false, Meaning::Leaves),
        ] {
            assert_eq!(interrupts.meaning(at, held_text), expected);
        }
    }

    #[test]
    fn a_message_continues_after_a_backslash_and_within_a_code_fence() {
        for (text, expected) in [
            ("", false),
            ("one", false),
            ("one\\", true),
            ("one\\\ntwo", false),
            ("```rust", true),
            ("```rust\nfn main() {}\n```", false),
            ("``inline``", false),
        ] {
            assert_eq!(continues_on_next_line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn without_an_editor_continuation_backslashes_are_removed() {
        for (text, expected) in [
            ("one\\\ntwo", "one\ntwo"),
            (
                "one\\\n```\na \\\n b\n```\ntwo\\\nthree\\",
                "one\n```\na \\\n b\n```\ntwo\nthree\\",
            ),
        ] {
            assert_eq!(without_continuations(text), expected, "{text:?}");
        }
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        let lines = ["/mode ", "/new", "/mode moderate", "/mode mine"];
        let words = Words {
            lines: lines.map(str::to_owned).into(),
            is_continued: Arc::default(),
        };
        assert_eq!(words.fitting("/m"), ["/mode "]);
        assert_eq!(words.fitting("/"), ["/mode ", "/new"]);
        assert_eq!(words.fitting("/mode mo"), ["/mode moderate"]);
        assert_eq!(words.fitting("/mode "), ["/mode moderate", "/mode mine"]);
    }
}
