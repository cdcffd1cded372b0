//! What comes through standard input where that is no terminal: data that goes with a question, or lines that are messages.
//! Whoever pipes something in may still sit at the terminal: questions go there.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
#[cfg(unix)]
use std::time::Duration;

use anyhow::anyhow;

use crate::error::CommandError;
#[cfg(unix)]
use crate::progress;

/// How long nothing may come before it is said that standard input is waited for.
#[cfg(unix)]
const SILENCE: Duration = Duration::from_secs(2);

/// Tells whether standard input is something else than a terminal.
pub(crate) fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// Reads standard input to its end, of which at most so many bytes may come. `what` is what it is to the user.
pub(crate) fn read(what: &str, most: usize) -> Result<Vec<u8>, CommandError> {
    #[cfg(unix)]
    if is_piped() && !comes_within(SILENCE) {
        progress::notice(
            "waiting for the end of standard input; add `< /dev/null` if there is nothing to read",
        );
    }
    bounded(io::stdin().lock(), what, most)
}

/// Reads to the end, of which at most so many bytes may come.
pub(crate) fn bounded(input: impl Read, what: &str, most: usize) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let read = input.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| {
        CommandError::usage(anyhow!(error).context("cannot read standard input"))
    })?;
    if bytes.len() > most {
        let error = anyhow!("{what} has more than {most} bytes");
        return Err(CommandError::usage(error).hint("shorten it, or let a tool read the file"));
    }
    Ok(bytes)
}

/// Makes the terminal of whoever started this standard input, so that questions can be answered there. Returns what was
/// standard input before; nothing where there is no such terminal, or nobody reads what would be asked.
pub(crate) fn make_way_for_person() -> Option<File> {
    #[cfg(unix)]
    if is_piped() && io::stderr().is_terminal() {
        return exchange().ok();
    }
    None
}

#[cfg(unix)]
fn exchange() -> io::Result<File> {
    use rustix::process::getpgrp;
    use rustix::termios::tcgetpgrp;

    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    // Others have it: whoever reads from it in the background is stopped.
    if tcgetpgrp(&terminal)? != getpgrp() {
        return Err(io::Error::from(io::ErrorKind::WouldBlock));
    }
    let before = rustix::io::dup(io::stdin())?;
    rustix::stdio::dup2_stdin(&terminal)?;
    Ok(File::from(before))
}

/// Waits a while for something to come, the end included.
#[cfg(unix)]
fn comes_within(wait: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let Ok(wait) = Timespec::try_from(wait) else {
        return true;
    };
    let stdin = io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    // What cannot be waited for is found out by reading.
    !matches!(poll(&mut waiting, Some(&wait)), Ok(0))
}
