//! How much of a block that still grows can be shown: what is rendered the same whatever comes after it.
//!
//! A mark such as `*` that may still become a pair holds back what follows it until it is one, or until the block ends.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::render::options;

/// The most bytes of a block that are read again with each piece of it; a longer one is shown when it is complete.
const MAX_BYTES: usize = 8 * 1024;

/// Returns the beginning of a block that can be shown, which ends with a word.
pub(super) fn settled(text: &str) -> &str {
    // The second line may make a table of the first; other HTML than within a line, and code by indentation, are rare.
    let is_list = text.split(' ').next().is_some_and(is_marker);
    let is_odd = text.starts_with([' ', '\t', '<'])
        || text.contains(['|', '\t'])
        || text.contains("\n    ") && !is_list;
    if is_odd || text.len() > MAX_BYTES {
        return "";
    }
    let mut part = whole_words(text, text.len());
    loop {
        if !is_known(text, part) {
            let line = part.rfind('\n').unwrap_or(0);
            part = whole_words(text, line);
        } else if let Some(open) = first_open(part) {
            part = whole_words(text, open);
        } else {
            return part;
        }
        if part.is_empty() {
            return part;
        }
    }
}

/// Returns the words that end before a place; each is followed by a blank.
fn whole_words(text: &str, upto: usize) -> &str {
    let before = text.get(..upto).unwrap_or_default();
    let end = before.rfind(char::is_whitespace).unwrap_or(0);
    before.get(..end).unwrap_or_default().trim_end()
}

/// Tells whether it is known what the last line is, such as text or an item of a list.
fn is_known(text: &str, part: &str) -> bool {
    let rest = text.get(part.len()..).unwrap_or_default();
    if rest.trim_start_matches([' ', '\t']).starts_with('\n') {
        return true;
    }
    let line = part.rsplit('\n').next().unwrap_or_default().trim_start();
    let line = match line.split_once(' ') {
        Some((first, rest)) if is_marker(first) => rest.trim_start(),
        _ => line,
    };
    let first = line.split_whitespace().next().unwrap_or_default();
    let begins_otherwise = first.starts_with(['#', '<', '>', '=', '+', '-', '~']);
    !begins_otherwise && !first.starts_with("```") && first.contains(char::is_alphabetic)
}

fn is_marker(word: &str) -> bool {
    let digits = word.trim_end_matches(['.', ')']);
    matches!(word, "-" | "*" | "+")
        || (digits.len() + 1 == word.len() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the place of the first mark that may still become something else, of code or HTML, which are shown whole, of a
/// heading or a quotation in an item, before which there is an empty line if one comes anywhere in the list, or of a blank at
/// the end that counts as text, as in "`a `": whether it is shown depends on where the line is broken.
fn first_open(part: &str) -> Option<usize> {
    let events = Parser::new_ext(part, options()).into_offset_iter();
    let mut blank = None;
    let mut items = 0_usize;
    let open = events.filter_map(|(event, range)| {
        if let Event::Text(text) | Event::Code(text) = &event {
            blank = text.ends_with(char::is_whitespace).then_some(range.start);
        }
        match event {
            Event::Start(Tag::Item) => {
                items += 1;
                None
            }
            Event::End(TagEnd::Item) => {
                items = items.saturating_sub(1);
                None
            }
            Event::Start(Tag::Heading { .. } | Tag::BlockQuote(_)) if items > 0 => {
                Some(range.start)
            }
            Event::Start(Tag::CodeBlock(_) | Tag::HtmlBlock) => Some(range.start),
            Event::Text(_) => first_mark(part, range),
            _ => None,
        }
    });
    open.min().into_iter().chain(blank).min()
}

/// Returns the place of the first mark in a stretch of text that may still become something else.
fn first_mark(part: &str, range: Range<usize>) -> Option<usize> {
    let text = part.get(range.clone())?;
    let mut marks = text.char_indices();
    let open = marks.find(|(place, mark)| may_change(part, range.start + place, *mark));
    open.map(|(place, _)| range.start + place)
}

fn may_change(part: &str, place: usize, mark: char) -> bool {
    if !"*_~`[<\\".contains(mark) {
        return false;
    }
    let before = part.get(..place).and_then(|text| text.chars().next_back());
    let rest = part.get(place + mark.len_utf8()..).unwrap_or_default();
    let after = rest.chars().next();
    let is_blank = |letter: Option<char>| letter.is_none_or(char::is_whitespace);
    let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    if before == Some('\\') {
        return false;
    }
    match mark {
        '*' | '~' => !(is_blank(before) && is_blank(after)),
        '_' => !(is_blank(before) && is_blank(after) || is_word(before) && is_word(after)),
        '[' => match rest.split_once([']', '[']) {
            Some((_, rest)) => rest.starts_with(['(', '[', ':', ']']),
            None => true,
        },
        '<' => after.is_some_and(|letter| letter.is_alphabetic() || "/!?".contains(letter)),
        // At the end of a line it breaks the line, and is not shown.
        '\\' => after.is_none(),
        _ => true,
    }
}
