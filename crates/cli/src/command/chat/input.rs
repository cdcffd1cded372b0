//! Where messages come from: a person who types, or lines of a pipe.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::conversation::Conversation;
use super::editor::{Editor, Interrupts, LEAVES_NEXT, Meaning};
use crate::approve::{Line, forget_what_was_typed};
use crate::error::CommandError;
use crate::interrupt::{Signal, Signals};
use crate::progress;
use crate::terminal;

/// How long somebody may press Ctrl-C once more for what was stopped by it already.
const STOPPING: Duration = Duration::from_secs(1);

/// The most bytes of a message that comes through a pipe.
const MAX_BYTES: usize = 1024 * 1024;

/// Where messages come from, and whatever tells the conversation to end.
pub(super) struct Input {
    source: Source,
    /// From the beginning to the end, so that none is missed between a message and the next.
    signals: Signals,
}

enum Source {
    /// A person at a terminal. The editor is away while somebody types.
    Person(Option<Box<Editor>>),
    /// Lines, one a message.
    Pipe(Lines),
}

/// Lines that come through a pipe. Another thread reads them.
type Lines = Arc<Mutex<dyn BufRead + Send>>;

/// What came from the terminal or the pipe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A line, or several that belong together.
    Text(String),
    /// Something that is no message.
    Unreadable(String),
    /// The process was told to end.
    Interrupted(Signal),
    /// Nothing more will come.
    End,
}

impl Input {
    /// Begins to listen. From now on no signal ends the process by itself.
    /// Messages come from `lines`, if there are any, and otherwise from standard input.
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

    /// Tells whether a person types.
    pub(super) const fn is_interactive(&self) -> bool {
        matches!(self.source, Source::Person(_))
    }

    /// Remembers what a person typed, for when it is called back.
    pub(super) fn remember(&mut self, text: &str, conversation: &Conversation) {
        if let Source::Person(Some(editor)) = &mut self.source {
            editor.remember(text, conversation);
        }
    }

    /// Waits for the next message. Another thread reads, so that nothing else has to wait for the person.
    pub(super) async fn next(&mut self, prompt: &str) -> Result<Said, CommandError> {
        // Ctrl-C was about what was done meanwhile; the others are about all of it.
        let mut stopping_until = None;
        while let Some(signal) = self.signals.heard() {
            if signal != Signal::Interrupt {
                return Ok(Said::Interrupted(signal));
            }
            stopping_until = Instant::now().checked_add(STOPPING);
        }
        let forgotten = self.signals.forget(Signal::Interrupt);
        forgotten.context("cannot listen for signals")?;
        match &mut self.source {
            Source::Pipe(lines) => next_line(Arc::clone(lines), &mut self.signals).await,
            Source::Person(editor) => {
                let gone = || CommandError::failed(anyhow!("the line editor is gone"));
                let mut theirs = editor.take().ok_or_else(gone)?;
                let prompt = prompt.to_owned();
                let mut typed = tokio::task::spawn_blocking(move || {
                    let typed = read_by_editor(theirs.read(&prompt, stopping_until));
                    (theirs, typed)
                });
                let mut interrupts = Interrupts::new(stopping_until);
                let typed = loop {
                    let signal = tokio::select! {
                        // Where the terminal goes away, there is a signal and the end of input.
                        biased;
                        signal = self.signals.next() => signal,
                        typed = &mut typed => break typed,
                    };
                    // A terminal that edits no lines turns Ctrl-C into a signal, and forgets what was typed itself.
                    let is_key = signal == Signal::Interrupt && terminal::is_dumb();
                    match is_key.then(|| interrupts.meaning(Instant::now(), false)) {
                        Some(Meaning::Nothing) => {}
                        Some(Meaning::LeavesNext) => progress::notice(LEAVES_NEXT),
                        Some(Meaning::Leaves) | None => return Ok(Said::Interrupted(signal)),
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
            Ok(editor) => Self::Person(Some(Box::new(editor))),
            Err(error) => {
                progress::warn(&format!("lines cannot be edited here: {error}"));
                standard_input()
            }
        }
    }
}

/// Reads what the line editor says.
fn read_by_editor(typed: io::Result<Line>) -> Result<Said, CommandError> {
    match typed {
        Ok(Line::Text(text)) => Ok(Said::Text(text)),
        // The editor has heard it twice, or it ends the same as Ctrl-D.
        Ok(Line::Interrupted | Line::End) => Ok(Said::End),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            // What else came with it, such as the rest of a paste, is no message by itself.
            forget_what_was_typed();
            let why =
                "what was typed is not text in UTF-8 and was left out, with all that came after it";
            Ok(Said::Unreadable(why.to_owned()))
        }
        Err(error) => {
            let error = anyhow::Error::new(error).context("cannot read from the terminal");
            Err(CommandError::failed(error))
        }
    }
}

async fn next_line(lines: Lines, signals: &mut Signals) -> Result<Said, CommandError> {
    let line = tokio::task::spawn_blocking(move || {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        read_line(&mut *lines)
    });
    tokio::select! {
        biased;
        signal = signals.next() => Ok(Said::Interrupted(signal)),
        line = line => {
            let line = line.context("reading standard input failed")?;
            Ok(line.context("cannot read standard input")?)
        }
    }
}

/// Reads a line, however long; what is too long or no text is read over.
fn read_line<Source: BufRead + ?Sized>(input: &mut Source) -> io::Result<Said> {
    let mut line = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
    Read::take(&mut *input, most + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(Said::End);
    }
    if line.len() > MAX_BYTES && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
        let why = format!("a line has more than {MAX_BYTES} bytes and was left out");
        return Ok(Said::Unreadable(why));
    }
    Ok(match String::from_utf8(line) {
        Ok(text) => Said::Text(text.trim_end_matches(['\r', '\n']).to_owned()),
        Err(_) => Said::Unreadable("a line is not text in UTF-8 and was left out".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_message_and_one_that_is_none_does_not_end_it() {
        let mut input = b"one\r\n\xff\xfe\n".to_vec();
        input.extend("x".repeat(MAX_BYTES + 5).into_bytes());
        input.extend(b"\nlast");
        let mut input = input.as_slice();
        let input = &mut input;
        assert_eq!(read_line(input).unwrap(), Said::Text("one".to_owned()));
        for _ in 0..2 {
            let said = read_line(input).unwrap();
            assert!(matches!(said, Said::Unreadable(_)), "{said:?}");
        }
        assert_eq!(read_line(input).unwrap(), Said::Text("last".to_owned()));
        assert_eq!(read_line(input).unwrap(), Said::End);
    }
}
