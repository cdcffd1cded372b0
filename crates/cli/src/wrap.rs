//! Wraps lines before the terminal does, which would continue at the far left, a place reserved for the program's own
//! signs.
//!
//! Where terminals disagree on the width of a character, the largest width is used.

use std::ops::Range;

use unicode_linebreak::linebreaks;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The default width, for anything that is not a terminal or does not report it.
pub(crate) const USUAL_WIDTH: usize = 80;

/// The maximum number of columns of a tab.
const TAB: usize = 8;

/// The indentation of continuation lines, if the line itself is not indented.
const USUAL_MARGIN: usize = 2;

/// The minimum width of a piece, however narrow the terminal is.
const LEAST: usize = 8;

/// Splits a line into pieces that each fit this many columns. Styles take no columns, and nothing is left out.
pub(crate) fn pieces(line: &str, columns: usize) -> Vec<&str> {
    let columns = columns.max(LEAST);
    cut(line, columns, columns)
}

/// Returns the beginning of a line that fits this many columns.
pub(crate) fn first_piece(line: &str, columns: usize) -> &str {
    pieces(line, columns).first().copied().unwrap_or_default()
}

/// Wraps each line of a text to this many columns, between words if possible. Continuation lines are aligned with the
/// last column of the line that is set off by two or more blanks; otherwise with the line's beginning, or indented a
/// little further.
pub(crate) fn laid_out(text: &str, columns: usize) -> String {
    let lines = text.split('\n').map(|line| fitting(line, columns));
    let lines = lines.map(|line| broken(line, columns, &" ".repeat(hanging(line, columns))));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a line without its indentation if that leaves too little room for anything else.
fn fitting(line: &str, columns: usize) -> &str {
    let unindented = line.trim_start_matches(' ');
    let begins = line.len() - unindented.len();
    match begins + LEAST > columns {
        true => unindented,
        false => line,
    }
}

/// Wraps the program's own lines like [`laid_out`], but keeps each of its commands to be copied whole. A command
/// between backticks that fits on no line gets a line of its own, without the backticks, which only the terminal wraps.
pub(crate) fn with_commands(text: &str, columns: usize) -> String {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let margin = " ".repeat(hanging(line, columns));
        let room = columns.saturating_sub(margin.len()).max(LEAST);
        let mut rest = line.to_owned();
        while let Some((before, command, after)) = long_command(&rest, room) {
            lines.push(broken(before.trim_end(), columns, &margin));
            lines.push(command.to_owned());
            rest = format!("{margin}{}", after.trim_start());
        }
        if rest != margin {
            lines.push(broken(&rest, columns, &margin));
        }
    }
    lines.join("\n")
}

/// Wraps a line like [`broken`], but keeps one of its words whole, such as an id to be copied. If the word fits on no
/// line, it gets a line of its own, which only the terminal wraps.
pub(crate) fn with_whole_word(line: &str, word: &str, columns: usize, margin: &str) -> String {
    let room = columns.saturating_sub(margin.width_cjk());
    // A sign such as a comma may follow the word.
    let is_long = width(word) + 1 > room;
    let Some((before, after)) = line.split_once(word).filter(|_| is_long) else {
        return broken(line, columns, margin);
    };
    let after = after.trim_start_matches([' ', ',', ';', ':']);
    let mut lines = vec![broken(before.trim_end(), columns, margin), word.to_owned()];
    if !after.is_empty() {
        lines.push(broken(&format!("{margin}{after}"), columns, margin));
    }
    lines.join("\n")
}

/// Splits a line at the first of the program's commands that does not fit this many columns.
fn long_command(line: &str, columns: usize) -> Option<(&str, &str, &str)> {
    let mut begins = line.match_indices("`neuraxis ");
    begins.find_map(|(at, _)| {
        let before = line.get(..at)?;
        let (command, after) = line.get(at..)?.strip_prefix('`')?.split_once('`')?;
        let quotes = 2;
        (width(command) + quotes >= columns).then_some((before, command, after))
    })
}

/// Returns the indentation of continuation lines.
fn hanging(line: &str, columns: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    let begins = plain.len() - plain.trim_start_matches(' ').len();
    let mut last = None;
    for (at, _) in plain.match_indices("  ") {
        let rest = plain.get(at..).unwrap_or_default();
        let word = rest.trim_start_matches(' ');
        let before = plain.get(..plain.len() - word.len()).unwrap_or_default();
        let column = before.width_cjk();
        if at > begins && !word.is_empty() && column * 2 <= columns {
            last = Some(column);
        }
    }
    // Beside an indentation that leaves too little room, each piece would be wider than the rest of the line.
    last.unwrap_or(match begins {
        0 => USUAL_MARGIN,
        _ if begins + LEAST > columns => USUAL_MARGIN,
        _ => begins,
    })
}

/// Wraps a line to this many columns, between words if possible, with a margin before all pieces except the first. Text
/// between backticks, such as a command to be copied, stays whole if it fits.
pub(crate) fn broken(line: &str, columns: usize, margin: &str) -> String {
    let rest = columns.saturating_sub(margin.width_cjk()).max(LEAST);
    let mut room = columns.max(LEAST);
    let mut lines: Vec<&str> = Vec::new();
    let (mut begin, mut used) = (0, 0);
    for word in words(line, rest) {
        let text = line.get(word.clone()).unwrap_or_default();
        let before = line.get(begin..word.start).unwrap_or_default();
        let width = width(text.trim_end_matches(' '));
        let left = room.saturating_sub(used);
        // A word longer than any line begins where it is, unless there is little room left.
        let begins_line = width <= rest || used * 2 >= room || left < LEAST;
        if width > left && begins_line && !before.trim().is_empty() {
            lines.push(before.trim_end_matches(' '));
            (begin, used, room) = (word.start, 0, rest);
        } else if width > left && left < LEAST {
            // Only blanks, which leave no room for anything else.
            (begin, used) = (word.start, 0);
        }
        if used + width <= room {
            used += self::width(text);
            continue;
        }
        let pieces = cut(text, room.saturating_sub(used), rest);
        let mut at = word.start;
        for (place, piece) in pieces.iter().enumerate() {
            let end = at + piece.len();
            if place + 1 < pieces.len() {
                lines.push(line.get(begin..end).unwrap_or_default());
                (begin, room) = (end, rest);
            } else {
                used = if place == 0 { used } else { 0 } + self::width(piece);
            }
            at = end;
        }
    }
    lines.push(line.get(begin..).unwrap_or_default());
    lines.join(&format!("\n{margin}"))
}

/// Returns the words of a line, each with the blanks after it. Text in wide letters without blanks, such as Chinese,
/// can be broken between letters.
fn words(line: &str, columns: usize) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut begin = 0;
    // The end of the current stretch between backticks.
    let mut quoted_until = 0;
    let mut chances = linebreaks(line).map(|(place, _)| place).peekable();
    for (at, letter) in line.char_indices() {
        let next = at + letter.len_utf8();
        if letter == '`' && at >= quoted_until {
            let rest = line.get(next..).unwrap_or_default();
            let end = rest.find('`').map(|end| next + end + 1);
            let quoted = end.and_then(|end| line.get(at..end));
            if let (Some(end), Some(quoted)) = (end, quoted) {
                // A stretch that fits on no line is broken like other words.
                quoted_until = if width(quoted) < columns { end } else { next };
            }
        }
        while chances.next_if(|chance| *chance < next).is_some() {}
        let after = line.get(next..).and_then(|rest| rest.chars().next());
        let is_chance = chances.peek() == Some(&next);
        let is_over = match after {
            Some(after) if is_wide(letter) && is_wide(after) => {
                is_chance && !is_one_word(letter, after)
            }
            after => letter == ' ' && after != Some(' '),
        };
        if is_over && at >= quoted_until {
            words.push(begin..next);
            begin = next;
        }
    }
    words.push(begin..line.len());
    words
}

/// Returns whether adjacent letters belong to one word although the Unicode rules allow a line break between them:
/// Korean puts blanks between words.
pub(crate) fn is_one_word(before: char, after: char) -> bool {
    before.is_alphanumeric() && after.is_alphanumeric() && (is_korean(before) || is_korean(after))
}

const fn is_korean(letter: char) -> bool {
    matches!(
        letter,
        '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{ac00}'..='\u{d7ff}'
    )
}

/// Returns whether a letter takes two columns, as in Chinese and Japanese.
pub(crate) fn is_wide(letter: char) -> bool {
    letter.width() == Some(2)
}

/// Returns the maximum number of columns of a text. Styles take none.
pub(crate) fn width(text: &str) -> usize {
    let mut style = Style::Text;
    let graphemes = text.graphemes(true).map(|grapheme| {
        style = style.next(grapheme);
        style.room_of(grapheme)
    });
    graphemes.sum()
}

/// Returns the number of columns of a text without styles on most terminals: each letter takes its own columns, even
/// where a font would join several, as in Arabic.
pub(crate) fn usual_width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Splits a line into a first piece of `first` columns and others of `rest` columns.
fn cut(line: &str, first: usize, rest: usize) -> Vec<&str> {
    let mut columns = first;
    let mut pieces = Vec::new();
    let (mut begin, mut used) = (0, 0);
    let mut style = Style::Text;
    for (at, grapheme) in line.grapheme_indices(true) {
        style = style.next(grapheme);
        let room = style.room_of(grapheme);
        if used + room > columns && at > begin {
            pieces.push(line.get(begin..at).unwrap_or_default());
            (begin, used) = (at, 0);
            columns = rest;
        }
        used += room;
    }
    pieces.push(line.get(begin..).unwrap_or_default());
    pieces
}

/// The position within a style sequence of the program: escape, bracket, parameters, or the final letter.
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

    /// Returns the number of columns of a letter.
    fn room_of(self, grapheme: &str) -> usize {
        match self {
            Self::Text => room_of(grapheme),
            Self::Begun | Self::Within | Self::Over => 0,
        }
    }
}

/// Returns the maximum number of columns of a letter, with its combining marks.
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
    fn an_id_stays_whole_in_a_terminal_of_any_width() {
        let id = "01a22e5d-8fb5-7142-8050-9688e33847ca";
        let line = format!("note: session {id}; /help lists the commands");
        for columns in 1..=100 {
            let shown = with_whole_word(&line, id, columns, "  ");
            assert!(shown.contains(id), "{columns}: {shown}");
            let others = shown.lines().filter(|line| !line.contains(id));
            let widest = others.map(width).max().unwrap_or_default();
            assert!(widest <= columns.max(LEAST + 2), "{columns}: {shown}");
        }
        assert_eq!(
            with_whole_word(&line, id, 30, "  "),
            format!("note: session\n{id}\n  /help lists the commands")
        );
        assert_eq!(
            with_whole_word(&line, id, 60, "  "),
            broken(&line, 60, "  ")
        );
    }

    #[test]
    fn a_line_is_split_at_the_width_limit() {
        assert_eq!(pieces("", 10), [""]);
        assert_eq!(pieces("0123456789", 10), ["0123456789"]);
        assert_eq!(pieces("0123456789a", 10), ["0123456789", "a"]);
        assert_eq!(pieces("漢字漢字漢字", 10), ["漢字漢字漢", "字"]);
        assert_eq!(pieces("e\u{301}".repeat(11).as_str(), 10).len(), 2);
        assert_eq!(pieces("\t\tx", 10), ["\t", "\tx"]);
    }

    #[test]
    fn a_line_is_wrapped_between_words_where_possible() {
        let broken = |line| broken(line, 12, "| ");
        assert_eq!(
            broken("why: because it writes"),
            "why: because\n| it writes"
        );
        assert_eq!(broken("one two three"), "one two\n| three");
        assert_eq!(broken("0123456789abcdef"), "0123456789ab\n| cdef");
        assert_eq!(broken("a 0123456789abcdef"), "a 0123456789\n| abcdef");
        assert_eq!(broken("a 0123456789 b"), "a 0123456789\n| b");
        assert_eq!(broken("    0123456789"), "    01234567\n| 89");
    }

    #[test]
    fn chinese_wraps_between_characters_and_korean_between_words() {
        assert_eq!(
            broken("0123456789 漢字漢字，漢字", 19, "  "),
            "0123456789 漢字漢\n  字，漢字"
        );
        assert_eq!(
            broken("0123456789 바꾸어야 합니다", 16, "  "),
            "0123456789\n  바꾸어야\n  합니다"
        );
        assert_eq!(
            broken("say `漢字 漢字` now", 14, ""),
            "say\n`漢字 漢字`\nnow"
        );
    }

    #[test]
    fn a_command_in_backticks_stays_whole_where_it_fits() {
        assert_eq!(
            broken("say `a b c d` or not", 12, "  "),
            "say\n  `a b c d`\n  or not"
        );
        assert_eq!(
            broken("say `a b c d e f g` now", 12, "  "),
            "say `a b c d\n  e f g` now"
        );
        assert_eq!(broken("one ` two three", 12, "  "), "one ` two\n  three");
    }

    #[test]
    fn an_indentation_that_leaves_no_room_is_left_out() {
        let fix = format!("{}→ choose another-folder-with-a-name", " ".repeat(23));
        for columns in 24..50 {
            let laid_out = laid_out(&fix, columns);
            let widest = laid_out.lines().map(width).max();
            assert!(widest <= Some(columns), "{columns}: {laid_out}");
        }
        assert!(laid_out(&fix, 30).starts_with("→ choose"));
        assert!(
            laid_out(&fix, 50)
                .lines()
                .all(|line| line.starts_with(&" ".repeat(23)))
        );
    }

    #[test]
    fn a_wrapped_line_is_indented_to_its_last_column_or_its_start() {
        for (line, expected) in [
            (
                "/mode [MODE]  show or change it",
                "/mode [MODE]  show or change\n              it",
            ),
            (
                "    a summary that is too long for it",
                "    a summary that is too\n    long for it",
            ),
            (
                "error: something that went wrong",
                "error: something that went\n  wrong",
            ),
            (
                "a very long name indeed  and more",
                "a very long name indeed  and\n  more",
            ),
        ] {
            assert_eq!(laid_out(line, 28), expected);
        }
        assert_eq!(laid_out("one\n\ntwo\n", 28), "one\n\ntwo\n");
    }

    #[test]
    fn a_command_longer_than_a_line_is_kept_whole_on_its_own_line() {
        let long = "neuraxis runs resume 0199f3a1";
        let hint = format!("hint: `neuraxis help` or `{long}` shows it\n");
        assert_eq!(
            with_commands(&hint, 28),
            format!("hint: `neuraxis help` or\n{long}\n  shows it\n")
        );
        assert_eq!(
            with_commands(&format!("hint: `{long}`"), 28),
            format!("hint:\n{long}")
        );
        assert_eq!(
            with_commands("say `a b c d e f g h i j k l` now", 12),
            laid_out("say `a b c d e f g h i j k l` now", 12)
        );
    }

    #[test]
    fn styles_have_no_width() {
        let styled = "\u{1b}[1;32m0123456789\u{1b}[0m";
        assert_eq!(pieces(styled, 10), [styled]);
        assert_eq!(pieces("\u{1b}[1m01234567890", 10).len(), 2);
    }

    #[test]
    fn a_too_narrow_terminal_still_gets_pieces() {
        assert_eq!(pieces("0123456789", 0), ["01234567", "89"]);
    }

    proptest! {
        #[test]
        fn pieces_lose_nothing_and_fit(line in "([ -~]|[äß漢🦀אà\u{301}\u{200d}]|\t){0,60}", columns in 8_usize..40) {
            let pieces = pieces(&line, columns);
            prop_assert_eq!(pieces.concat(), line.as_str());
            for piece in pieces {
                prop_assert!(width(piece) <= columns.max(TAB), "{:?}", piece);
            }
        }

        #[test]
        fn a_wrapped_line_loses_no_words_and_each_part_fits(line in "([ -~]{0,20}|[`äß漢🦀אà\u{301}]){0,8}", columns in 12_usize..60) {
            let broken = broken(&line, columns, "  ");
            let letters = |text: &str| -> String { text.chars().filter(|it| !" \n".contains(*it)).collect() };
            prop_assert_eq!(letters(&broken), letters(&line));
            for part in broken.split('\n') {
                prop_assert!(width(part.trim_end()) <= columns, "{:?}", part);
            }
        }
    }
}
