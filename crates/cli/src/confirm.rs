//! Asks the user at the terminal before something is deleted, trusted, allowed or resumed.

use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;

use crate::approve::discard_typed_input;
use crate::error::CommandError;
use crate::terminal;
use crate::wrap::laid_out;

/// Returns whether a user at the terminal can be asked. A background process that reads from the terminal is stopped.
pub(crate) fn can_ask_user() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !terminal::is_in_background()
}

/// Fails if no user at the terminal can be asked; the hint says what to do instead.
pub(crate) fn require_user(hint: &str) -> Result<(), CommandError> {
    match can_ask_user() {
        true => Ok(()),
        false => {
            Err(CommandError::usage(anyhow!("cannot ask: nobody is at the terminal")).hint(hint))
        }
    }
}

/// The user's answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A clear yes.
    Yes,
    /// A clear no.
    No,
    /// Anything else, such as an empty line or the end of the input.
    Unclear,
}

/// Asks the user a question, and returns whether the answer is a clear yes. Input typed before the question is
/// discarded.
pub(crate) fn ask_yes_no(question: &str) -> io::Result<bool> {
    Ok(ask(question)? == Answer::Yes)
}

/// Asks the user a question. Input typed before the question is discarded.
pub(crate) fn ask(question: &str) -> io::Result<Answer> {
    let mut stderr = anstream::stderr();
    let question = format!("{question} [y/N]");
    let question = laid_out(&question, terminal::width(io::stderr()));
    discard_typed_input();
    write!(stderr, "{question} ").and_then(|()| stderr.flush())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if !answer.ends_with('\n') {
        // The input ended without a line break, so the next output must start on a new line.
        writeln!(stderr)?;
    }
    Ok(match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "n" | "no" => Answer::No,
        _ => Answer::Unclear,
    })
}

/// Asks the user to confirm a deletion.
pub(crate) fn confirm(question: &str) -> Result<(), CommandError> {
    require_user("add --yes, or --dry-run to see what would be deleted")?;
    match ask_yes_no(question)? {
        true => Ok(()),
        false => Err(CommandError::failed(anyhow!("nothing was deleted"))),
    }
}
