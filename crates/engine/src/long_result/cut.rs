//! Cuts the middle out of a text, and replaces it with a line that says so.

/// The part that is cut out of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// The byte at which it begins.
    pub(super) from: usize,
    /// Its length in bytes.
    pub(super) bytes: usize,
    /// The number of line breaks in it.
    pub(super) lines: usize,
}

/// Returns the beginning and the end of a text, around a marker on its own line. As a JSON string, the result takes at
/// most `most` bytes, or as many as the marker and the quotes need. No character is split. Lines are kept whole if that
/// costs less than half of the beginning or the end.
pub(super) fn shortened(text: &str, most: usize, marker: impl Fn(Gap) -> String) -> String {
    let all = Gap {
        from: text.len(),
        bytes: text.len(),
        lines: text.matches('\n').count(),
    };
    // The quotes, and a line break on either side. A marker for a part is never longer than one for the whole.
    let frame = 2 + 2 * cost('\n') + marker(all).chars().map(cost).sum::<usize>();
    let room = most.saturating_sub(frame);
    let head = beginning(text, room / 2);
    let rest = text.get(head.len()..).unwrap_or_default();
    let head_cost: usize = head.chars().map(cost).sum();
    let tail = ending(rest, room.saturating_sub(head_cost));
    let middle = rest.get(..rest.len() - tail.len()).unwrap_or_default();
    let gap = Gap {
        from: head.len(),
        bytes: middle.len(),
        lines: middle.matches('\n').count(),
    };
    let line = if head.is_empty() || head.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{head}{line}{}\n{tail}", marker(gap))
}

/// Returns how many bytes a character takes in a JSON string.
const fn cost(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

/// Returns as much of the beginning as fits, cut back to the end of a line if one ends in its second half.
fn beginning(text: &str, most: usize) -> &str {
    let part = text.get(..fitting(text.chars(), most)).unwrap_or_default();
    match part.rfind('\n').map(|at| at + 1) {
        Some(end) if end > part.len() / 2 => part.get(..end).unwrap_or_default(),
        _ => part,
    }
}

/// Returns as much of the end as fits, cut back to the start of a line if one starts in its first half.
fn ending(text: &str, most: usize) -> &str {
    let start = text.len() - fitting(text.chars().rev(), most);
    let part = text.get(start..).unwrap_or_default();
    match part.find('\n').map(|at| at + 1) {
        Some(begin) if begin < part.len() / 2 => part.get(begin..).unwrap_or_default(),
        _ => part,
    }
}

/// Returns the length in bytes of the leading characters that fit.
fn fitting(letters: impl Iterator<Item = char>, most: usize) -> usize {
    let (mut bytes, mut spent) = (0, 0);
    for letter in letters {
        spent += cost(letter);
        if spent > most {
            break;
        }
        bytes += letter.len_utf8();
    }
    bytes
}
