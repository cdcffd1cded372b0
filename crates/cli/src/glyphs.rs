//! The signs that the program draws: lines, bullets, separators and marks. The only place that decides whether they are
//! from Unicode or ASCII.
//!
//! They are ASCII on a terminal that shows nothing else: one whose locale is not UTF-8 (`LC_ALL=C`), or that can only
//! print lines. Files and other programs get the same text in every locale. What a model, a tool or the user wrote is not
//! changed.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use crate::terminal;

/// The variables that name the locale's encoding; the first that is set and not empty counts.
const LOCALE: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// The signs of this process, chosen once.
static CHOSEN: OnceLock<Glyphs> = OnceLock::new();

/// Which signs are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyphs {
    /// Signs such as box-drawing characters.
    Unicode,
    /// Signs that every terminal has.
    Ascii,
}

/// The stream that the signs of a command go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Output,
    /// Standard error, because standard output gets nothing but the answer.
    Errors,
}

impl Glyphs {
    /// Returns the signs that are drawn here: Unicode until they are [chosen](choose).
    pub(crate) fn here() -> Self {
        CHOSEN.get().copied().unwrap_or(Self::Unicode)
    }

    /// Returns the signs for a terminal in the locale that these variables name.
    fn of_terminal(variable: impl Fn(&str) -> Option<OsString>, is_dumb: bool) -> Self {
        let mut set = LOCALE.into_iter().filter_map(variable);
        let locale = set.find(|value| !value.is_empty());
        let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
        match !is_dumb && (locale.contains("utf-8") || locale.contains("utf8")) {
            true => Self::Unicode,
            false => Self::Ascii,
        }
    }
}

/// Chooses the signs for a command that draws on this stream.
pub(crate) fn choose(stream: Stream) {
    let is_terminal = match stream {
        Stream::Output => io::stdout().is_terminal(),
        // The answer may be on the terminal while standard error is not.
        Stream::Errors => io::stderr().is_terminal() || io::stdout().is_terminal(),
    };
    let chosen = match is_terminal {
        true => Glyphs::of_terminal(|name| env::var_os(name), terminal::is_dumb()),
        false => Glyphs::Unicode,
    };
    // Only the first choice counts, and there is only one.
    let _ = CHOSEN.set(chosen);
}

/// A sign with its replacement, which is used like a constant text: `format!("{DOT}")`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Glyph {
    unicode: &'static str,
    ascii: &'static str,
}

/// Separates the parts of a line.
pub(crate) const DOT: Glyph = Glyph::new(" · ", " - ");
/// Says that something is left out.
pub(crate) const ELLIPSIS: Glyph = Glyph::new("…", "...");
/// The end of a cut line, in one column.
pub(crate) const CUT: Glyph = Glyph::new("…", "~");
/// The margin of quoted lines.
pub(crate) const BAR: Glyph = Glyph::new("│", "|");
/// The margin of the rest of a quoted line.
pub(crate) const CONTINUED: Glyph = Glyph::new("┆", ":");
/// Where a margin begins.
pub(crate) const TOP: Glyph = Glyph::new("╭", "/");
/// Where a line of the program interrupts a margin.
pub(crate) const BRANCH: Glyph = Glyph::new("├", "+");
/// Where a margin ends.
pub(crate) const BOTTOM: Glyph = Glyph::new("╰", "\\");
/// A piece of a horizontal line.
pub(crate) const LINE: Glyph = Glyph::new("─", "-");
/// Where lines of a table cross.
pub(crate) const CROSS: Glyph = Glyph::new("─┼─", "-+-");
/// What comes next, or what to do.
pub(crate) const ARROW: Glyph = Glyph::new("→", "->");
/// An item of a list.
pub(crate) const BULLET: Glyph = Glyph::new("•", "*");
/// Lines that were removed.
pub(crate) const MINUS: Glyph = Glyph::new("−", "-");

impl Glyph {
    pub(crate) const fn new(unicode: &'static str, ascii: &'static str) -> Self {
        Self { unicode, ascii }
    }

    /// Returns the sign as it is drawn here.
    pub(crate) fn as_str(self) -> &'static str {
        self.of(Glyphs::here())
    }

    const fn of(self, glyphs: Glyphs) -> &'static str {
        match glyphs {
            Glyphs::Unicode => self.unicode,
            Glyphs::Ascii => self.ascii,
        }
    }
}

impl fmt::Display for Glyph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_whose_locale_is_not_utf8_gets_ascii() {
        let of = |variables: &[(&str, &str)], is_dumb| {
            let value = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            Glyphs::of_terminal(value, is_dumb)
        };
        for (variables, expected) in [
            (&[("LANG", "de_DE.UTF-8")][..], Glyphs::Unicode),
            (&[("LANG", "C.utf8")], Glyphs::Unicode),
            (&[("LC_CTYPE", "UTF-8"), ("LANG", "C")], Glyphs::Unicode),
            (&[("LC_ALL", ""), ("LANG", "C.UTF-8")], Glyphs::Unicode),
            (&[("LC_ALL", "C"), ("LANG", "C.UTF-8")], Glyphs::Ascii),
            (&[("LC_ALL", "POSIX")], Glyphs::Ascii),
            (&[("LANG", "de_DE.ISO-8859-1")], Glyphs::Ascii),
            (&[], Glyphs::Ascii),
        ] {
            assert_eq!(of(variables, false), expected, "{variables:?}");
            assert_eq!(of(variables, true), Glyphs::Ascii, "{variables:?}");
        }
    }

    #[test]
    fn every_replacement_is_ascii_and_margins_keep_their_width_and_stay_distinct() {
        let margins = [BAR, CONTINUED, TOP, BRANCH, BOTTOM, LINE, CUT];
        for glyph in margins
            .into_iter()
            .chain([DOT, ELLIPSIS, CROSS, ARROW, BULLET, MINUS])
        {
            assert!(glyph.of(Glyphs::Ascii).is_ascii(), "{glyph:?}");
            assert_eq!(glyph.as_str(), glyph.of(Glyphs::Unicode));
        }
        let mut ascii: Vec<_> = margins.iter().map(|it| it.of(Glyphs::Ascii)).collect();
        assert!(ascii.iter().all(|sign| sign.len() == 1), "{ascii:?}");
        ascii.sort_unstable();
        ascii.dedup();
        assert_eq!(
            ascii.len(),
            margins.len(),
            "quoted lines must not look like others"
        );
    }
}
