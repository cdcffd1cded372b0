//! How the terminal was before we changed it. A line editor that is cut off in the middle of a line leaves it without echo.

#[cfg(unix)]
use std::sync::OnceLock;

#[cfg(unix)]
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// Ends what line editors switch on: pasted text is marked no more.
#[cfg(unix)]
const NO_BRACKETED_PASTE: &str = "\u{1b}[?2004l";

#[cfg(unix)]
static BEFORE: OnceLock<Termios> = OnceLock::new();

/// Notes how the terminal is. To be called before anything changes it.
pub(crate) fn remember() {
    #[cfg(unix)]
    if let Ok(now) = tcgetattr(std::io::stdin()) {
        BEFORE.get_or_init(|| now);
    }
}

/// Makes the terminal what it was, if it is not.
pub(crate) fn restore() {
    #[cfg(unix)]
    if let Some(before) = BEFORE.get()
        && let Ok(now) = tcgetattr(std::io::stdin())
        && now.local_modes != before.local_modes
    {
        use std::io::{Write, stderr};
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        let _ = writeln!(stderr(), "{NO_BRACKETED_PASTE}");
    }
}
