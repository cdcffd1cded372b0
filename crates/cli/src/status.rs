//! The current status in the last lines of the terminal: redrawn as it changes, and removed when other text is written.
//!
//! The lines never fill the width of the terminal. Typed text fits beside them, and they do not wrap when the terminal
//! becomes narrower, unless it becomes very narrow. So the lines can always be erased without leaving remnants.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anstyle::Style;

use crate::glyphs::{BAR, CUT, DOT, Glyph};
use crate::harmless::one_line;
use crate::quantities::brief;
use crate::terminal;
use crate::wrap::first_piece;

/// The interval between redraws.
const TICK: Duration = Duration::from_millis(100);

/// The maximum number of columns of a line.
const MAX_COLUMNS: usize = 59;

/// The columns for a sign before a line and the mark of a cut line.
const SIGNS: usize = 6;

/// How long an activity takes before its duration is shown.
const SOON: Duration = Duration::from_secs(1);

const DIM: Style = Style::new().dimmed();

/// What turns while something is at work.
const TURNS: [Glyph; 10] = [
    Glyph::new("⠋", "."),
    Glyph::new("⠙", "."),
    Glyph::new("⠹", "o"),
    Glyph::new("⠸", "o"),
    Glyph::new("⠼", "O"),
    Glyph::new("⠴", "O"),
    Glyph::new("⠦", "o"),
    Glyph::new("⠧", "o"),
    Glyph::new("⠇", "."),
    Glyph::new("⠏", "."),
];

/// The current status.
#[derive(Debug)]
pub(crate) struct Status(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    region: Mutex<Region>,
    is_over: Condvar,
}

/// The last lines of the terminal.
#[derive(Debug)]
struct Region {
    what: String,
    /// The lines below, quoted from others.
    below: Vec<String>,
    began: Instant,
    turn: usize,
    /// The number of lines on the screen.
    drawn: usize,
    /// Whether colors are wanted.
    is_colorful: bool,
    is_over: bool,
}

impl Status {
    /// Starts showing an activity.
    pub(crate) fn new(what: &str) -> Self {
        let choice = anstream::AutoStream::choice(&io::stderr());
        let region = Region {
            what: one_line(what),
            below: Vec::new(),
            began: Instant::now(),
            turn: 0,
            drawn: 0,
            is_colorful: choice != anstream::ColorChoice::Never,
            is_over: false,
        };
        let shared = Arc::new(Shared {
            region: Mutex::new(region),
            is_over: Condvar::new(),
        });
        let ticking = Arc::clone(&shared);
        // Without a thread, it is redrawn only when it changes.
        let _ = thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || tick(&ticking));
        let status = Self(shared);
        status.region().draw();
        status
    }

    /// Shows another activity, with quoted lines below it.
    pub(crate) fn set(&self, what: &str, below: &[String]) {
        let mut region = self.region();
        region.what = one_line(what);
        region.below = below.to_vec();
        region.draw();
    }

    /// Writes something above the status.
    pub(crate) fn above(&self, write: impl FnOnce()) {
        let mut region = self.region();
        region.erase();
        write();
        region.draw();
    }

    fn region(&self) -> MutexGuard<'_, Region> {
        // The value is intact even if another thread panicked meanwhile.
        self.0.region.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let mut region = self.region();
        region.is_over = true;
        region.erase();
        drop(region);
        self.0.is_over.notify_all();
    }
}

fn tick(shared: &Shared) {
    let mut region = shared.region.lock().unwrap_or_else(PoisonError::into_inner);
    while !region.is_over {
        let waited = shared.is_over.wait_timeout(region, TICK);
        region = waited.unwrap_or_else(PoisonError::into_inner).0;
        if !region.is_over {
            region.turn = region.turn.wrapping_add(1);
            region.draw();
        }
    }
}

impl Region {
    fn draw(&mut self) {
        let columns = terminal::width(io::stderr())
            .saturating_sub(1)
            .min(MAX_COLUMNS);
        let lines = self.lines(columns);
        let text = format!("{}{}", self.erasure(), lines.join("\r\n"));
        self.drawn = lines.len();
        write(&text);
    }

    fn erase(&mut self) {
        let text = self.erasure();
        self.drawn = 0;
        write(&text);
    }

    /// Returns the sequence that erases what was drawn. The cursor is at the end of the last line.
    fn erasure(&self) -> String {
        match self.drawn {
            0 => String::new(),
            drawn => format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(drawn - 1)),
        }
    }

    fn lines(&self, columns: usize) -> Vec<String> {
        let turn = TURNS
            .get(self.turn % TURNS.len())
            .copied()
            .map_or("", Glyph::as_str);
        let took = self.began.elapsed();
        let took = match took < SOON {
            true => String::new(),
            false => format!("{DOT}{}", brief(Duration::from_secs(took.as_secs()))),
        };
        let room = columns.saturating_sub(SIGNS);
        let (dim, end) = match self.is_colorful {
            true => (DIM.render().to_string(), DIM.render_reset().to_string()),
            false => (String::new(), String::new()),
        };
        let what = cut(&self.what, room.saturating_sub(took.chars().count()));
        let first = format!("{dim}{turn} {what}{took}{end}");
        let below = self.below.iter().map(|line| {
            let line = cut(&one_line(line), room);
            format!("  {dim}{BAR} {line}{end}")
        });
        std::iter::once(first).chain(below).collect()
    }
}

/// Cuts the end of a line that does not fit.
fn cut(line: &str, room: usize) -> String {
    let piece = first_piece(line, room);
    match piece.len() < line.len() {
        true => format!("{piece}{CUT}"),
        false => line.to_owned(),
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // If standard error cannot be written, there is nowhere to report that.
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_status_line_is_wider_than_the_terminal() {
        let region = Region {
            what: "漢字 running something with a very long name that goes on and on and on"
                .to_owned(),
            below: vec!["x".repeat(200), "\u{1b}[2J".to_owned()],
            began: Instant::now(),
            turn: 3,
            drawn: 0,
            is_colorful: true,
            is_over: false,
        };
        for columns in [20, 59] {
            for line in region.lines(columns) {
                let plain = anstream::adapter::strip_str(&line).to_string();
                let width = unicode_width::UnicodeWidthStr::width(plain.as_str());
                assert!(width <= columns, "{width} of {columns}: {plain}");
            }
        }
        assert!(region.lines(59)[2].contains("␛[2J"));
    }
}
