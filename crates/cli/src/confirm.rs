//! Asks a person at a terminal before something is deleted.

use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;

use crate::error::CommandError;

/// What is done where nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unattended {
    /// It goes on: what is to be deleted was named.
    GoOn,
    /// It is refused.
    Refuse,
}

/// Makes sure that somebody wants something deleted.
pub(crate) fn confirm(question: &str, unattended: Unattended) -> Result<(), CommandError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return match unattended {
            Unattended::GoOn => Ok(()),
            Unattended::Refuse => {
                let error = anyhow!("nobody is there to be asked");
                Err(CommandError::usage(error).hint("add --yes, or --dry-run to see what would go"))
            }
        };
    }
    let mut stderr = anstream::stderr();
    write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CommandError::failed(anyhow!("nothing was deleted"))),
    }
}
