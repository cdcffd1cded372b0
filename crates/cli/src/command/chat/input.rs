//! The source of messages: a user who types, or lines from a pipe.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::conversation::Conversation;
use super::editor::{Editor, Interrupts, LEAVES_NEXT, Meaning};
use crate::approve::{Line, discard_typed_input};
use crate::error::CommandError;
use crate::interrupt::{Signal, Signals};
use crate::progress;
use crate::terminal;

/// How long further Ctrl-C presses are treated as meant for what was already stopped.
const STOPPING: Duration = Duration::from_secs(1);

/// The maximum size in bytes of a message from a pipe.
const MAX_BYTES: usize = 1024 * 1024;

/// The source of messages, and of the signals that end the conversation.
pub(super) struct Input {
    source: Source,
    /// Kept for the whole conversation, so that no signal between two messages is lost.
    signals: Signals,
}

enum Source {
    /// A user at a terminal. The editor is `None` while another thread reads with it.
    Editor(Option<Box<Editor>>),
    /// Lines, each of which is a message.
    Pipe(Lines),
}

/// Lines from a pipe. Another thread reads them.
type Lines = Arc<Mutex<dyn BufRead + Send>>;

/// Input from the terminal or the pipe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputEvent {
    /// A line, or several that belong together.
    Text(String),
    /// Something that is not a message.
    Unreadable(String),
    /// A signal told the process to end.
    Interrupted(Signal),
    /// The end of input.
    End,
}

impl Input {
    /// Starts listening; from now on signals do not end the process by default. Messages come from `lines` if given,
    /// otherwise from standard input.
    pub(super) fn open(
        conversation: &Conversation,
        lines: Option<File>,
    ) -> Result<Self, CommandError> {
        let signals = Signals::listen().context("cannot listen for signals")?;
        let source = match lines {
            Some(lines) => Source::Pipe(Arc::new(Mutex::new(BufReader::new(lines)))),
            None => Source::open(conversation),
        };
        Ok(Self { source, signals })
    }

    /// Returns whether a user types the messages.
    pub(super) const fn is_interactive(&self) -> bool {
        matches!(self.source, Source::Editor(_))
    }

    /// Adds typed text to the editor's history.
    pub(super) fn remember(&mut self, text: &str, conversation: &Conversation) {
        if let Source::Editor(Some(editor)) = &mut self.source {
            editor.remember(text, conversation);
        }
    }

    /// Waits for the next message. Another thread reads it, so that waiting for the user blocks nothing else.
    pub(super) async fn next(&mut self, prompt: &str) -> Result<InputEvent, CommandError> {
        // An earlier Ctrl-C was about what was done meanwhile; other signals end the conversation.
        let mut stopping_until = None;
        while let Some(signal) = self.signals.try_next() {
            if signal != Signal::Interrupt {
                return Ok(InputEvent::Interrupted(signal));
            }
            stopping_until = Instant::now().checked_add(STOPPING);
        }
        let forgotten = self.signals.forget(Signal::Interrupt);
        forgotten.context("cannot listen for signals")?;
        match &mut self.source {
            Source::Pipe(lines) => next_line(Arc::clone(lines), &mut self.signals).await,
            Source::Editor(editor) => {
                let gone = || CommandError::failed(anyhow!("the line editor is gone"));
                let mut taken_editor = editor.take().ok_or_else(gone)?;
                let prompt = prompt.to_owned();
                let mut typed = tokio::task::spawn_blocking(move || {
                    let typed = read_by_editor(taken_editor.read(&prompt, stopping_until));
                    (taken_editor, typed)
                });
                let mut interrupts = Interrupts::new(stopping_until);
                let typed = loop {
                    let signal = tokio::select! {
                        // If the terminal goes away, there are both a signal and the end of input.
                        biased;
                        signal = self.signals.next() => signal,
                        typed = &mut typed => break typed,
                    };
                    // A terminal without line editing turns Ctrl-C into a signal, and discards the typed text itself.
                    let is_key = signal == Signal::Interrupt && terminal::is_dumb();
                    match is_key.then(|| interrupts.meaning(Instant::now(), false)) {
                        Some(Meaning::Nothing) => {}
                        Some(Meaning::LeavesNext) => progress::notice(LEAVES_NEXT),
                        Some(Meaning::Leaves) | None => return Ok(InputEvent::Interrupted(signal)),
                    }
                };
                let (ours, typed) = typed.context("the line editor failed")?;
                *editor = Some(ours);
                typed
            }
        }
    }
}

impl Source {
    fn open(conversation: &Conversation) -> Self {
        let standard_input = || Self::Pipe(Arc::new(Mutex::new(BufReader::new(io::stdin()))));
        if !io::stdin().is_terminal() {
            return standard_input();
        }
        match Editor::open(conversation) {
            Ok(editor) => Self::Editor(Some(Box::new(editor))),
            Err(error) => {
                progress::warn(&format!("line editing is not available here: {error}"));
                standard_input()
            }
        }
    }
}

/// Converts the line editor's result.
fn read_by_editor(typed: io::Result<Line>) -> Result<InputEvent, CommandError> {
    match typed {
        Ok(Line::Text(text)) => Ok(InputEvent::Text(text)),
        // The editor received Ctrl-C twice, or has ended as with Ctrl-D.
        Ok(Line::Interrupted | Line::End) => Ok(InputEvent::End),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            // Whatever came with it, such as the rest of a paste, is not a message of its own.
            discard_typed_input();
            let why = "the input is not valid UTF-8 and was ignored, with everything after it";
            Ok(InputEvent::Unreadable(why.to_owned()))
        }
        Err(error) => {
            let error = anyhow::Error::new(error).context("cannot read from the terminal");
            Err(CommandError::failed(error))
        }
    }
}

async fn next_line(lines: Lines, signals: &mut Signals) -> Result<InputEvent, CommandError> {
    let line = tokio::task::spawn_blocking(move || {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        read_line(&mut *lines)
    });
    tokio::select! {
        biased;
        signal = signals.next() => Ok(InputEvent::Interrupted(signal)),
        line = line => {
            let line = line.context("reading standard input failed")?;
            Ok(line.context("cannot read standard input")?)
        }
    }
}

/// Reads a line of any length. One that is too long or not text is skipped.
fn read_line<Source: BufRead + ?Sized>(input: &mut Source) -> io::Result<InputEvent> {
    let mut line = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    Read::take(&mut *input, most + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(InputEvent::End);
    }
    if line.len() > MAX_BYTES && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
        let why = format!("a line is larger than {MAX_BYTES} bytes and was ignored");
        return Ok(InputEvent::Unreadable(why));
    }
    Ok(match String::from_utf8(line) {
        Ok(text) => InputEvent::Text(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(_) => InputEvent::Unreadable("a line is not valid UTF-8 and was ignored".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_message_and_an_unreadable_one_does_not_end_the_input() {
        let mut input = b"one\r\n\xff\xfe\n".to_vec();
        input.extend("x".repeat(MAX_BYTES + 5).into_bytes());
        input.extend(b"\nlast");
        let mut input = input.as_slice();
        let input = &mut input;
        assert_eq!(
            read_line(input).unwrap(),
            InputEvent::Text("one".to_owned())
        );
        for _ in 0..2 {
            let said = read_line(input).unwrap();
            assert!(matches!(said, InputEvent::Unreadable(_)), "{said:?}");
        }
        assert_eq!(
            read_line(input).unwrap(),
            InputEvent::Text("last".to_owned())
        );
        assert_eq!(read_line(input).unwrap(), InputEvent::End);
    }
}
