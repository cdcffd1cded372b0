//! Quoted lines, such as the output of a command or a diff, shown below a line of the program.

use anstyle::{AnsiColor, Style};

use crate::glyphs::{BAR, BRANCH, CONTINUED, CUT, ELLIPSIS};
use crate::harmless::{harmless, in_order, reveal_invisible};
use crate::wrap::{broken, first_piece, pieces};

const DIM: Style = Style::new().dimmed();

/// The maximum number of columns that a margin takes, where terminals disagree.
const MARGIN_COLUMNS: usize = 5;

/// Same as [`MARGIN_COLUMNS`], for a margin that is not indented.
const OUTER_MARGIN_COLUMNS: usize = 3;

/// A quoted line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) mark: Mark,
    pub(crate) text: String,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A title for the lines below.
    Title,
    /// An unchanged line.
    Plain,
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// A location.
    Place,
}

/// What to do with a line that is longer than the screen is wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LongLines {
    /// Continue it on the next line.
    Broken,
    /// Cut its end.
    Cut,
}

impl Row {
    pub(crate) fn new(mark: Mark, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { mark, text }
    }

    /// Parses a line of a unified diff.
    pub(crate) fn of_diff(line: &str) -> Self {
        let mark = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Mark::Place,
            Some(b'+') => Mark::Added,
            Some(b'-') => Mark::Removed,
            Some(b'@' | b'*') => Mark::Place,
            _ => Mark::Plain,
        };
        Self::new(mark, line)
    }

    /// Formats the line in a margin, without wrapping: for output that is not a terminal.
    pub(crate) fn whole(&self) -> String {
        let style = self.mark.style();
        let line = harmless(&self.text);
        format!("  {DIM}{BAR}{DIM:#} {style}{line}{style:#}\n")
    }

    /// Formats the line in a margin, so that it cannot be taken for a line of the program.
    pub(crate) fn below(&self, columns: usize, long: LongLines) -> String {
        let style = self.mark.style();
        let room = columns.saturating_sub(MARGIN_COLUMNS);
        let line = harmless(&self.text);
        let lines = match long {
            LongLines::Broken => pieces(&line, room),
            LongLines::Cut => vec![first_piece(&line, room)],
        };
        let is_cut = |shown: &str| long == LongLines::Cut && shown.len() < line.len();
        let lines = lines.into_iter().map(|shown| {
            let more = if is_cut(shown) { CUT.as_str() } else { "" };
            format!("  {DIM}{BAR}{DIM:#} {style}{shown}{style:#}{more}\n")
        });
        lines.collect()
    }
}

impl Mark {
    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Title => DIM,
            Self::Plain => Style::new(),
            Self::Added => AnsiColor::Green.on_default(),
            Self::Removed => AnsiColor::Red.on_default(),
            Self::Place => AnsiColor::Cyan.on_default(),
        }
    }
}

/// Puts rows below a title.
pub(crate) fn under(title: impl Into<String>, rows: impl Iterator<Item = Row>) -> Vec<Row> {
    let title = Row::new(Mark::Title, title);
    std::iter::once(title).chain(rows).collect()
}

/// Formats a line in a margin that is not indented. What does not fit continues on the next line, after a separate
/// sign.
pub(crate) fn in_margin(line: &str, columns: usize, style: Style) -> String {
    let room = columns.saturating_sub(OUTER_MARGIN_COLUMNS);
    let signs = std::iter::once(BAR).chain(std::iter::repeat(CONTINUED));
    let lines = signs.zip(pieces(line, room));
    lines
        .map(|(sign, piece)| format!("{sign} {style}{piece}{style:#}\n"))
        .collect()
}

/// Formats quoted text that the user bases a decision on, in a margin that is not indented. Nothing in it is hidden,
/// and a line that terminals show in another order is repeated below in its real order.
pub(crate) fn plain_in_margin(text: &str, columns: usize) -> String {
    let plain = reveal_invisible(text);
    let lines = plain.split('\n').map(|line| {
        let ordered = in_order(line).map(|line| in_real_order(&line, columns, Style::new()));
        in_margin(line, columns, Style::new()) + &ordered.unwrap_or_default()
    });
    lines.collect()
}

/// Formats a line of the program that contains quoted words, plain to see. A line that terminals show in another order
/// is repeated below in its real order. What does not fit continues on the next line, after a margin.
pub(crate) fn with_real_order(line: &str, columns: usize, margin: &str) -> String {
    let ordered = in_order(line).map(|line| in_real_order(&line, columns, Style::new()));
    broken(line, columns, margin) + "\n" + &ordered.unwrap_or_default()
}

/// Formats a quoted line with its letters in their real order, as a line of the program.
pub(crate) fn in_real_order(line: &str, columns: usize, style: Style) -> String {
    let line = format!("{BRANCH} in its real order: {}", line.trim_start());
    let line = broken(&line, columns, &format!("{BAR}   "));
    format!("{style}{line}{style:#}\n")
}

/// Keeps the first and last of many rows, with one between them that says how many are left out.
pub(crate) fn ends_of(rows: Vec<Row>, first: usize, last: usize) -> Vec<Row> {
    // Saying that one row is left out would take as much room as the row.
    if rows.len() <= first + last + 1 {
        return rows;
    }
    let left_out = rows.len() - first - last;
    let note = format!("{ELLIPSIS} {left_out} more lines");
    let end = rows.len() - last;
    let mut ends: Vec<Row> = rows.get(..first).unwrap_or_default().to_vec();
    ends.push(Row::new(Mark::Title, note));
    ends.extend(rows.get(end..).unwrap_or_default().iter().cloned());
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_and_last_of_many_rows_are_shown() {
        let rows = |count: usize| -> Vec<Row> {
            let rows = (1..=count).map(|row| Row::new(Mark::Plain, row.to_string()));
            rows.collect()
        };
        let texts =
            |rows: Vec<Row>| -> Vec<String> { rows.into_iter().map(|row| row.text).collect() };
        assert_eq!(texts(ends_of(rows(5), 2, 2)), ["1", "2", "3", "4", "5"]);
        assert_eq!(
            texts(ends_of(rows(9), 2, 2)),
            ["1", "2", "… 5 more lines", "8", "9"]
        );
    }

    #[test]
    fn text_to_be_approved_stays_in_its_margin_and_logical_order_is_shown() {
        assert_eq!(
            plain_in_margin("one two three four", 16),
            "│ one two three\n┆  four\n"
        );
        assert_eq!(
            plain_in_margin("one\n\n  rm א\u{200b}\rx", 80),
            "│ one\n│ \n│   rm א⟨U+200B⟩␍x\n├ in its real order: rm ⟨U+05D0⟩⟨U+200B⟩␍x\n"
        );
    }

    #[test]
    fn external_text_has_a_margin_on_each_line() {
        let row = Row::new(Mark::Plain, "0123456789\u{1b}[2Jabcdefghij");
        let strip = |text: String| anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            strip(row.below(17, LongLines::Broken)),
            "  │ 0123456789␛[\n  │ 2Jabcdefghij\n"
        );
        assert_eq!(strip(row.below(17, LongLines::Cut)), "  │ 0123456789␛[…\n");
    }
}
