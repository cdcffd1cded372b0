//! Formats numbers, lists and untrusted text for the `summary` of a tool's result, which users read.

/// The maximum length of a name or line of untrusted text in a summary, in characters.
pub(crate) const MAX_QUOTED_CHARS: usize = 200;

/// Formats a number with its noun.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// Formats a number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats the given items as a list on one line, and says how many more of the total there are.
pub(crate) fn enumerate(items: impl Iterator<Item = String>, total: u64) -> String {
    let items: Vec<_> = items
        .map(|item| one_line(&item, MAX_QUOTED_CHARS))
        .collect();
    match total.saturating_sub(items.len() as u64) {
        0 => items.join(", "),
        more => format!("{} and {} more", items.join(", "), grouped(more)),
    }
}

/// Puts untrusted text on one line: control characters become spaces, and overlong text is cut.
pub(crate) fn one_line(text: &str, most_chars: usize) -> String {
    let text = text.trim();
    let mut line: String = text
        .chars()
        .take(most_chars)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(most_chars).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_noun_and_thousands_separators() {
        assert_eq!(count(1, "entry", "entries"), "1 entry");
        assert_eq!(count(1_234_567, "byte", "bytes"), "1,234,567 bytes");
        assert_eq!(grouped(999), "999");
    }

    #[test]
    fn unlisted_items_are_counted() {
        let two = || ["a".to_owned(), "b\nc".to_owned()].into_iter();
        assert_eq!(enumerate(two(), 2), "a, b c");
        assert_eq!(enumerate(two(), 1_002), "a, b c and 1,000 more");
    }

    #[test]
    fn external_text_is_truncated_and_stripped_of_control_characters() {
        assert_eq!(one_line(" \u{1b}[31mred\r\nend ", 100), " [31mred  end");
        assert_eq!(one_line("ééé", 2), "éé…");
        assert_eq!(one_line("éé", 2), "éé");
    }
}
