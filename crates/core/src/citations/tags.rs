//! HTML tags in an answer, read the way a browser reads them: less strictly than Markdown, which treats some of them as
//! text.

use std::ops::Range;

use super::addresses::{addresses_in, stays_here};

/// Maximum length of a tag, in bytes.
const MAX_TAG: usize = 8 * 1024;

/// Attributes whose value is an address that a tag leads to or loads something from.
const PLACES: [&str; 21] = [
    "action",
    "archive",
    "background",
    "cite",
    "classid",
    "codebase",
    "data",
    "data-href",
    "data-src",
    "formaction",
    "href",
    "icon",
    "imagesrcset",
    "longdesc",
    "manifest",
    "ping",
    "poster",
    "profile",
    "src",
    "srcset",
    "xlink:href",
];

/// A tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HtmlTag {
    pub(super) range: Range<usize>,
    pub(super) side: Side,
    /// The addresses it leads to or loads from; empty for a tag that only affects the appearance.
    pub(super) places: Vec<String>,
}

/// What a tag begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The start of a link with words.
    AnchorStart,
    /// The end of an anchor: the text before it is the anchor's words.
    AnchorEnd,
    /// Anything else.
    Other,
}

/// Reads the tag that starts at an offset; `None` if there is none.
pub(super) fn tag_at(text: &str, at: usize) -> Option<HtmlTag> {
    let rest = text.get(at..)?;
    let inner = rest.strip_prefix('<')?;
    let (is_closing, inner) = match inner.strip_prefix('/') {
        Some(inner) => (true, inner),
        None => (false, inner),
    };
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let (name, rest) = split_where(inner, |letter| !is_part(letter));
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && rest.starts_with(|letter: char| letter.is_whitespace() || "/>".contains(letter));
    if !is_name {
        return None;
    }
    let (places, behind) = attributes(rest)?;
    let end = text.len() - behind.len();
    let whole = text.get(at..end)?;
    if whole.len() > MAX_TAG || has_blank_line(whole) {
        return None;
    }
    let side = match (name.eq_ignore_ascii_case("a"), is_closing) {
        (true, false) => Side::AnchorStart,
        (true, true) => Side::AnchorEnd,
        (false, _) => Side::Other,
    };
    Some(HtmlTag {
        range: at..end,
        side,
        places,
    })
}

/// Reads attributes up to the end of their tag. Returns the addresses they name and the text after the tag.
fn attributes(text: &str) -> Option<(Vec<String>, &str)> {
    let mut places = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
        if let Some(behind) = rest.strip_prefix('>') {
            return Some((places, behind));
        }
        let first = rest.chars().next()?;
        let named = |letter: char| letter.is_whitespace() || "=>/".contains(letter);
        // A browser treats a leading equals sign as part of the name.
        let (_, behind_first) = rest.split_at(first.len_utf8());
        let (more, behind) = split_where(behind_first, named);
        let name = rest.get(..first.len_utf8() + more.len())?;
        let Some(value) = behind.trim_start().strip_prefix('=') else {
            note(&mut places, "", name);
            rest = behind;
            continue;
        };
        let value = value.trim_start();
        let (value, behind) = match value.chars().next()? {
            quote @ ('"' | '\'') => value.get(1..)?.split_once(quote)?,
            _ => split_where(value, |letter| letter.is_whitespace() || letter == '>'),
        };
        note(&mut places, name, value);
        rest = behind;
    }
}

/// Notes the addresses that an attribute names.
fn note(places: &mut Vec<String>, name: &str, value: &str) {
    let value = value.replace("&amp;", "&");
    let value = value.trim();
    if PLACES.iter().any(|place| place.eq_ignore_ascii_case(name)) {
        if !stays_here(value) {
            // For a set, the first address is enough.
            let is_set = name.to_ascii_lowercase().ends_with("srcset");
            let end = value.find([',', ' ', '\t', '\n']).filter(|_| is_set);
            let first = end.and_then(|end| value.get(..end)).unwrap_or(value);
            places.push(first.to_owned());
        }
        return;
    }
    let ranges = addresses_in(value, 0, value.len());
    if ranges.is_empty()
        && ["//", "\\\\", "/\\", "\\/"]
            .iter()
            .any(|it| value.contains(it))
    {
        places.push(value.to_owned());
    }
    let texts = ranges.into_iter().filter_map(|range| value.get(range));
    places.extend(texts.map(str::to_owned));
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

fn has_blank_line(text: &str) -> bool {
    let mut lines = text.lines().skip(1);
    lines.any(|line| line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(tag: &str) -> Vec<String> {
        let found = tag_at(tag, 0).unwrap_or_else(|| panic!("{tag}"));
        assert_eq!(found.range, 0..tag.len(), "{tag}");
        found.places
    }

    #[test]
    fn the_target_of_a_tag_is_found_however_its_attributes_are_written() {
        for tag in [
            "<a href=\"//x.example/\">",
            "<A\nHREF = '//x.example/' class=b>",
            "<a class=\"b\"href=//x.example/>",
            "<img alt='>' src=//x.example/ />",
            "<p style=\"background:url(//x.example/)\">",
            "<a =x href=//x.example/>",
        ] {
            let places = places(tag);
            assert_eq!(places.len(), 1, "{tag}: {places:?}");
            assert!(places[0].contains("//x.example/"), "{tag}: {places:?}");
        }
        assert_eq!(places("<source srcset='/a 1x, /b 2x'>"), ["/a"]);
        assert_eq!(places("<a href=?a&amp;b>"), ["?a&b"]);
    }

    #[test]
    fn text_that_is_not_a_tag_or_has_no_target_is_left_alone() {
        for text in [
            "<",
            "<a",
            "< a>",
            "<a href='//x>",
            "<https://x.example>",
            "<3>",
            "<a\n\nhref=//x>",
        ] {
            assert_eq!(tag_at(text, 0), None, "{text}");
        }
        for tag in ["<br/>", "<a href='#below'>", "<td align=left>", "</a>"] {
            assert!(places(tag).is_empty(), "{tag}");
        }
    }
}
