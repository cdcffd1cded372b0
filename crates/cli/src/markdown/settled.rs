//! How much of an incomplete block can be shown: the part that renders the same whatever comes after it.
//!
//! A mark such as `*` that may still become part of a pair holds back the text after it until the pair or the block is
//! complete.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::render::options;

/// The maximum size in bytes of a block that is parsed again with each new piece. A longer one is shown once complete.
const MAX_BYTES: usize = 8 * 1024;

/// Returns the beginning of a block that can be shown. It ends with a whole word.
pub(super) fn settled(text: &str) -> &str {
    // The second line may turn the first into a table. Block-level HTML and indented code are rare.
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

/// Returns the words that end before a position; each is followed by whitespace.
fn whole_words(text: &str, upto: usize) -> &str {
    let before = text.get(..upto).unwrap_or_default();
    let end = before.rfind(char::is_whitespace).unwrap_or(0);
    before.get(..end).unwrap_or_default().trim_end()
}

/// Returns whether the kind of the last line is known, such as text or a list item.
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

/// Returns the position of the first part that may still change:
///
/// - a mark that may become something else,
/// - code or HTML, which is shown as a whole,
/// - a heading or a quotation in an item, which gets an empty line before it if there is one anywhere in the list,
/// - a trailing blank that is part of the text, as in "`a `", since where the line is wrapped decides whether it is
///   shown.
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

/// Returns the position of the first mark in a part of the text that may still become something else.
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
        // At the end of a line, it is a line break and not shown.
        '\\' => after.is_none(),
        _ => true,
    }
}
