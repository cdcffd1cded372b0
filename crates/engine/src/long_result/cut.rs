//! Cuts the middle out of a text, and puts a line in its place that says so.

/// What is cut out of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// At which byte it begins.
    pub(super) from: usize,
    /// How many bytes it has.
    pub(super) bytes: usize,
    /// How many line breaks it has.
    pub(super) lines: usize,
}

/// Returns the beginning and the end of a text around a marker on a line of its own, so that all of it takes no more than so
/// many bytes as a JSON string, or no more than marker and quotes. No character is cut; lines are left whole where that costs
/// less than half of a part.
pub(super) fn shortened(text: &str, most: usize, marker: impl Fn(Gap) -> String) -> String {
    let all = Gap {
        from: text.len(),
        bytes: text.len(),
        lines: text.matches('\n').count(),
    };
    // Quotes, and a line break on either side. What is said of a part is no longer than what is said of the whole.
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

/// How many bytes a character takes in a JSON string.
const fn cost(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => letter.len_utf8(),
    }
}

/// Returns as much of the beginning as fits, up to the end of a line where one ends in its second half.
fn beginning(text: &str, most: usize) -> &str {
    let part = text.get(..fitting(text.chars(), most)).unwrap_or_default();
    match part.rfind('\n').map(|at| at + 1) {
        Some(end) if end > part.len() / 2 => part.get(..end).unwrap_or_default(),
        _ => part,
    }
}

/// Returns as much of the end as fits, from the beginning of a line where one begins in its first half.
fn ending(text: &str, most: usize) -> &str {
    let start = text.len() - fitting(text.chars().rev(), most);
    let part = text.get(start..).unwrap_or_default();
    match part.find('\n').map(|at| at + 1) {
        Some(begin) if begin < part.len() / 2 => part.get(begin..).unwrap_or_default(),
        _ => part,
    }
}

/// Returns how many bytes those of the characters have that fit.
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
