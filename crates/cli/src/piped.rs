//! Standard input that is not a terminal: data that goes with a question, or lines that are messages. A user who pipes
//! something in may still be at the terminal, where questions are asked.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
#[cfg(unix)]
use std::time::Duration;

use anyhow::anyhow;

use crate::error::CommandError;
#[cfg(unix)]
use crate::progress;

/// How long to wait for input before printing that the program waits for standard input.
#[cfg(unix)]
const SILENCE: Duration = Duration::from_secs(2);

/// Returns whether standard input is not a terminal.
pub(crate) fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// Reads standard input to its end, up to `most` bytes. `what` names the input in error messages.
pub(crate) fn read(what: &str, most: usize) -> Result<Vec<u8>, CommandError> {
    #[cfg(unix)]
    if is_piped() && !has_input_within(SILENCE) {
        progress::notice(
            "waiting for the end of standard input; add `< /dev/null` if there is nothing to read",
        );
    }
    bounded(io::stdin().lock(), what, most)
}

/// Reads to the end, up to `most` bytes.
pub(crate) fn bounded(input: impl Read, what: &str, most: usize) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let read = input.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| {
        CommandError::usage(anyhow!(error).context("cannot read standard input"))
    })?;
    if bytes.len() > most {
        let error = anyhow!("{what} is larger than {most} bytes");
        return Err(CommandError::usage(error).hint("shorten it, or let a tool read the file"));
    }
    Ok(bytes)
}

/// Makes the controlling terminal standard input, so that questions can be answered there. Returns the previous
/// standard input, or `None` if there is no such terminal or the user would not see the questions.
pub(crate) fn reopen_terminal_as_stdin() -> Option<File> {
    #[cfg(unix)]
    if is_piped() && io::stderr().is_terminal() {
        return replace_stdin().ok();
    }
    None
}

#[cfg(unix)]
fn replace_stdin() -> io::Result<File> {
    use rustix::process::getpgrp;
    use rustix::termios::tcgetpgrp;

    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    // Another process group has the terminal, and a background process that reads from it is stopped.
    if tcgetpgrp(&terminal)? != getpgrp() {
        return Err(io::Error::from(io::ErrorKind::WouldBlock));
    }
    let before = rustix::io::dup(io::stdin())?;
    rustix::stdio::dup2_stdin(&terminal)?;
    Ok(File::from(before))
}

/// Waits up to this long for input or its end.
#[cfg(unix)]
fn has_input_within(wait: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let Ok(wait) = Timespec::try_from(wait) else {
        return true;
    };
    let stdin = io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    // Input that cannot be polled is read directly.
    !matches!(poll(&mut waiting, Some(&wait)), Ok(0))
}
