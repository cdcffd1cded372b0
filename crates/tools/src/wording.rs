//! Plain words for numbers and lists, for the summaries that people read.

/// The longest name or line of foreign text in a summary, in characters.
pub(crate) const MAX_QUOTED_CHARS: usize = 200;

/// Writes a number with its noun.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// Writes a number with a comma between thousands.
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

/// Writes the items that are given, each on one line, and says how many more of the total there are.
pub(crate) fn enumerate(items: impl Iterator<Item = String>, total: u64) -> String {
    let items: Vec<_> = items
        .map(|item| one_line(&item, MAX_QUOTED_CHARS))
        .collect();
    match total.saturating_sub(items.len() as u64) {
        0 => items.join(", "),
        more => format!("{} and {} more", items.join(", "), grouped(more)),
    }
}

/// Brings foreign text onto one line: control characters become blanks, and what is too long is cut.
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

/// Writes bytes in GiB with one digit, or in MiB where that says more.
pub(crate) fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 {
        format!("{mib:.0} MiB")
    } else {
        format!("{} GiB", gib(bytes))
    }
}

/// Writes bytes in GiB with one digit, without the unit.
pub(crate) fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

/// Writes seconds as the two largest units that matter, such as "3 days 4 hours".
pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let (days, hours, minutes) = (
        count(days, "day", "days"),
        count(hours, "hour", "hours"),
        count(minutes, "minute", "minutes"),
    );
    match seconds {
        86_400.. => format!("{days} {hours}"),
        3_600.. => format!("{hours} {minutes}"),
        _ => minutes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_their_noun_and_commas() {
        assert_eq!(count(1, "entry", "entries"), "1 entry");
        assert_eq!(count(1_234_567, "byte", "bytes"), "1,234,567 bytes");
        assert_eq!(grouped(999), "999");
    }

    #[test]
    fn what_is_not_listed_is_counted() {
        let two = || ["a".to_owned(), "b\nc".to_owned()].into_iter();
        assert_eq!(enumerate(two(), 2), "a, b c");
        assert_eq!(enumerate(two(), 1_002), "a, b c and 1,000 more");
    }

    #[test]
    fn foreign_text_is_cut_and_cannot_steer_a_terminal() {
        assert_eq!(one_line(" \u{1b}[31mred\r\nend ", 100), " [31mred  end");
        assert_eq!(one_line("ééé", 2), "éé…");
        assert_eq!(one_line("éé", 2), "éé");
    }

    #[test]
    fn sizes_and_durations_are_written_in_the_units_that_matter() {
        assert_eq!(size(512 << 20), "512 MiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
        assert_eq!(duration(59), "0 minutes");
        assert_eq!(duration(3_600 + 120), "1 hour 2 minutes");
        assert_eq!(duration(3 * 86_400 + 4 * 3_600), "3 days 4 hours");
    }
}
