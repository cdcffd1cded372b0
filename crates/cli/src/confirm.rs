//! Asks a person at a terminal: before something is deleted, trusted, allowed or taken up.

use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;

use crate::approve::forget_what_was_typed;
use crate::error::CommandError;
use crate::terminal;
use crate::wrap::laid_out;

/// Tells whether a person sits here who can be asked: whoever reads from a terminal in the background is stopped.
pub(crate) fn is_somebody_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !terminal::is_in_the_background()
}

/// Makes sure that a person sits here who can be asked; the hint says what to do where none does.
pub(crate) fn require_person(hint: &str) -> Result<(), CommandError> {
    match is_somebody_there() {
        true => Ok(()),
        false => Err(CommandError::usage(anyhow!("nobody is there to be asked")).hint(hint)),
    }
}

/// What a person says to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A clear yes.
    Yes,
    /// A clear no.
    No,
    /// Anything else, such as an empty line or the end of the input.
    Unclear,
}

/// Asks a person a question. Nothing but a clear yes is one, and what was typed before there was a question is none.
pub(crate) fn says_yes(question: &str) -> io::Result<bool> {
    Ok(ask(question)? == Answer::Yes)
}

/// Asks a person a question. What was typed before there was a question is no answer.
pub(crate) fn ask(question: &str) -> io::Result<Answer> {
    let mut stderr = anstream::stderr();
    let question = format!("{question} [y/N]");
    let question = laid_out(&question, terminal::width(io::stderr()));
    forget_what_was_typed();
    write!(stderr, "{question} ").and_then(|()| stderr.flush())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if !answer.ends_with('\n') {
        // The input ended: what follows begins a line of its own.
        writeln!(stderr)?;
    }
    Ok(match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "n" | "no" => Answer::No,
        _ => Answer::Unclear,
    })
}

/// Makes sure that somebody wants something deleted.
pub(crate) fn confirm(question: &str) -> Result<(), CommandError> {
    require_person("add --yes, or --dry-run to see what would go")?;
    match says_yes(question)? {
        true => Ok(()),
        false => Err(CommandError::failed(anyhow!("nothing was deleted"))),
    }
}
