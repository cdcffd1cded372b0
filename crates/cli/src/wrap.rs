//! Breaks lines before the terminal does: it would begin what is left over at the very left, where only our own signs stand.
//!
//! Where terminals disagree on how much room a letter takes, the most counts.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The width that is assumed of what is not a terminal, or does not say.
pub(crate) const USUAL_WIDTH: usize = 80;

/// The most columns that a tab takes.
const TAB: usize = 8;

/// The least room of a piece, however narrow the terminal is.
const LEAST: usize = 8;

/// Breaks a line into pieces of which each fits into so many columns. Styles take none, and nothing is left out.
pub(crate) fn pieces(line: &str, columns: usize) -> Vec<&str> {
    cut(line, columns, columns, Breaks::Anywhere)
}

/// Returns the beginning of a line that fits into so many columns.
pub(crate) fn first_piece(line: &str, columns: usize) -> &str {
    pieces(line, columns).first().copied().unwrap_or_default()
}

/// Breaks a line so that each piece fits into so many columns, at blanks where there are some, with a margin before all
/// pieces but the first.
pub(crate) fn broken(line: &str, columns: usize, margin: &str) -> String {
    let rest = columns.saturating_sub(margin.width_cjk());
    let pieces = cut(line, columns, rest, Breaks::AtBlanks);
    pieces.join(&format!("\n{margin}"))
}

/// Where a line may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Anywhere,
    AtBlanks,
}

/// Breaks a line into a first piece of so many columns, and others of so many.
fn cut(line: &str, first: usize, rest: usize, breaks: Breaks) -> Vec<&str> {
    let mut columns = first.max(LEAST);
    let mut pieces = Vec::new();
    let (mut begin, mut used) = (0, 0);
    // Where the last word of the piece begins, and how many columns stand before it.
    let mut word = (0, 0);
    let mut style = Style::Text;
    for (at, grapheme) in line.grapheme_indices(true) {
        style = style.next(grapheme);
        let room = match style {
            Style::Text => room_of(grapheme),
            Style::Begun | Style::Within | Style::Over => 0,
        };
        while used + room > columns && at > begin {
            let (end, before) = match breaks {
                // A word that leaves more than half of the line empty is broken all the same.
                Breaks::AtBlanks if word.0 > begin && word.1 * 2 >= columns && grapheme != " " => {
                    word
                }
                Breaks::AtBlanks | Breaks::Anywhere => (at, used),
            };
            pieces.push(line.get(begin..end).unwrap_or_default());
            (begin, used) = (end, used.saturating_sub(before));
            columns = rest.max(LEAST);
        }
        used += room;
        if grapheme == " " {
            word = (at + grapheme.len(), used);
        }
    }
    pieces.push(line.get(begin..).unwrap_or_default());
    pieces
}

/// Where in a sequence of ours that sets a style a letter stands: escape, bracket, parameters, a letter that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Text,
    Begun,
    Within,
    Over,
}

impl Style {
    fn next(self, grapheme: &str) -> Self {
        match (self, grapheme.as_bytes()) {
            (_, [0x1b]) => Self::Begun,
            (Self::Begun, [b'[']) => Self::Within,
            (Self::Within, [b'0'..=b'?']) => Self::Within,
            (Self::Within, [b'@'..=b'~']) => Self::Over,
            _ => Self::Text,
        }
    }
}

/// Returns how many columns a letter takes at the most, with the marks that stand on it.
fn room_of(grapheme: &str) -> usize {
    if grapheme == "\t" {
        return TAB;
    }
    let each = grapheme.chars().map(UnicodeWidthChar::width_cjk);
    let apart: usize = each.map(Option::unwrap_or_default).sum();
    apart.max(grapheme.width_cjk())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_broken_where_it_does_not_fit() {
        assert_eq!(pieces("", 10), [""]);
        assert_eq!(pieces("0123456789", 10), ["0123456789"]);
        assert_eq!(pieces("0123456789a", 10), ["0123456789", "a"]);
        assert_eq!(pieces("漢字漢字漢字", 10), ["漢字漢字漢", "字"]);
        assert_eq!(pieces("e\u{301}".repeat(11).as_str(), 10).len(), 2);
        assert_eq!(pieces("\t\tx", 10), ["\t", "\tx"]);
    }

    #[test]
    fn a_line_of_words_is_broken_between_them_if_it_can_be() {
        let broken = |line| broken(line, 12, "| ");
        assert_eq!(
            broken("why: because it writes"),
            "why: because\n|  it writes"
        );
        assert_eq!(broken("one two three"), "one two \n| three");
        assert_eq!(broken("0123456789abcdef"), "0123456789ab\n| cdef");
        assert_eq!(broken("a 0123456789abcdef"), "a 0123456789\n| abcdef");
    }

    #[test]
    fn styles_take_no_room() {
        let styled = "\u{1b}[1;32m0123456789\u{1b}[0m";
        assert_eq!(pieces(styled, 10), [styled]);
        assert_eq!(pieces("\u{1b}[1m01234567890", 10).len(), 2);
    }

    #[test]
    fn a_narrow_terminal_still_gets_pieces() {
        assert_eq!(pieces("0123456789", 0), ["01234567", "89"]);
    }

    proptest! {
        #[test]
        fn nothing_is_left_out_and_every_piece_fits(line in "([ -~]|[äß漢🦀אà\u{301}\u{200d}]|\t){0,60}", columns in 8_usize..40) {
            for breaks in [Breaks::Anywhere, Breaks::AtBlanks] {
                let pieces = cut(&line, columns, columns, breaks);
                prop_assert_eq!(pieces.concat(), line.as_str());
                for piece in pieces {
                    let tabs = piece.matches('\t').count();
                    prop_assert!(piece.replace('\t', "").width_cjk() + tabs * TAB <= columns, "{:?}", piece);
                }
            }
        }
    }
}
