//! Shell redirections: those that reach no file, and what a pattern of a rule must not contain.

use super::letters::Letters;

/// Redirections that write and read nothing, character for character: they join the two outputs, or lead to or from
/// `/dev/null`.
const HARMLESS: [&str; 17] = [
    "2>&1",
    "1>&2",
    ">&2",
    ">/dev/null",
    "> /dev/null",
    "1>/dev/null",
    "1> /dev/null",
    "2>/dev/null",
    "2> /dev/null",
    ">>/dev/null",
    ">> /dev/null",
    "1>>/dev/null",
    "1>> /dev/null",
    "2>>/dev/null",
    "2>> /dev/null",
    "</dev/null",
    "< /dev/null",
];

/// Returns what follows a harmless redirection whose first character was already read. The redirection must be
/// separated from what follows, which might otherwise make it lead to a file.
pub(super) fn after_harmless<'a>(letters: &Letters<'a>, first: char) -> Option<Letters<'a>> {
    HARMLESS.iter().find_map(|text| {
        let behind = after(letters, text.strip_prefix(first)?)?;
        let ends = |next: char| matches!(next, ' ' | '\t' | '\n' | ';' | '|' | '&');
        behind.peek().is_none_or(ends).then_some(behind)
    })
}

/// Returns what follows `/dev/null`, if a command ends with it.
pub(super) fn after_last_null<'a>(letters: &Letters<'a>) -> Option<Letters<'a>> {
    let behind = after(&after_blanks(letters.clone()), "/dev/null").map(after_blanks)?;
    let ends = |next: char| matches!(next, '\n' | ';' | '|' | '&');
    behind.peek().is_none_or(ends).then_some(behind)
}

fn after<'a>(letters: &Letters<'a>, text: &str) -> Option<Letters<'a>> {
    let mut ahead = letters.clone();
    let is_read = text.chars().all(|letter| ahead.next() == Some(letter));
    is_read.then_some(ahead)
}

fn after_blanks(mut letters: Letters<'_>) -> Letters<'_> {
    while letters
        .next_if(|letter| matches!(letter, ' ' | '\t'))
        .is_some()
    {}
    letters
}

/// Returns whether a word of a pattern is a shell redirection, such as `2>&1` or `>x`.
pub(super) fn is_redirection(word: &str) -> bool {
    let operator = word.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '&');
    operator.starts_with(['<', '>'])
}
