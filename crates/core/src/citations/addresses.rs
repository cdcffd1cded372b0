//! What is treated as an address: in running text, as the target of a link, and as the name of a page that was read.

use std::ops::Range;

use super::Source;

/// Maximum length of a scheme that is recognized in front of `://`, in bytes.
const MAX_SCHEME: usize = 32;

/// Returns whether a link target is a place on the same page or a mail address; anything else is a citation.
pub(super) fn stays_here(destination: &str) -> bool {
    let destination = destination.trim();
    destination.is_empty() || destination.starts_with('#') || begins_with(destination, "mailto:")
}

/// Returns the address if a string contains nothing else, apart from brackets and quotes around it.
pub(super) fn sole_address(text: &str) -> Option<&str> {
    let around = |letter: char| letter.is_whitespace() || "<>()[]\"'".contains(letter);
    let text = text.trim_matches(around);
    let range = addresses_in(text, 0, text.len()).into_iter().next()?;
    let behind = text.get(range.end..)?;
    let is_all = range.start == 0 && !behind.contains(char::is_alphanumeric);
    is_all.then(|| text.get(range)).flatten()
}

/// Returns the page at an address, among the pages that were read.
pub(super) fn read_at<'a>(address: &str, read: &'a [Source]) -> Option<&'a Source> {
    let spellings = spellings(address);
    read.iter()
        .find(|source| spellings.iter().any(|it| source.is_at(it)))
}

/// Returns the full forms of an address: what a browser makes of one without a scheme, or of a DOI.
fn spellings(address: &str) -> Vec<String> {
    let address = address.trim();
    let slashed = address.replace('\\', "/");
    let of_both = |rest: &str| vec![format!("https://{rest}"), format!("http://{rest}")];
    if let Some(rest) = slashed.strip_prefix("//") {
        of_both(rest)
    } else if begins_with(&slashed, "www.") {
        of_both(&slashed)
    } else if let Some(doi) = doi(address) {
        let at = |host: &str| of_both(&format!("{host}/{doi}"));
        [at("doi.org"), at("dx.doi.org")].concat()
    } else {
        vec![address.to_owned()]
    }
}

/// Finds the addresses that begin within a range of a string: those with a scheme, those that begin with `www.`, and
/// DOIs.
pub(super) fn addresses_in(text: &str, from: usize, to: usize) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut at, mut earliest) = (from, from);
    while at < to {
        let start = beginning(text, earliest, at);
        let range = start.map(|start| start..start + length(text.get(start..).unwrap_or_default()));
        match range {
            Some(range) if range.end > at => {
                (at, earliest) = (range.end, range.end);
                found.push(range);
            }
            _ => at += 1,
        }
    }
    found
}

/// Returns the start of the address that the characters at `at` indicate, no earlier than `earliest`.
fn beginning(text: &str, earliest: usize, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if let Some(behind) = rest.strip_prefix("://") {
        let is_more = behind.starts_with(|letter: char| !is_end(letter) && letter != '/');
        return is_more.then(|| scheme_start(text, earliest, at)).flatten();
    }
    let before = text.get(..at)?.chars().next_back();
    if before.is_some_and(|letter| letter.is_alphanumeric() || "@._-".contains(letter)) {
        return None;
    }
    let is_host = begins_with(rest, "www.")
        && rest
            .get(4..)
            .is_some_and(|host| host.starts_with(char::is_alphanumeric));
    // After a slash it is part of a path.
    let is_doi = || before != Some('/') && doi(rest).is_some();
    (is_host || is_doi()).then_some(at)
}

/// Returns the start of the address whose scheme ends at a colon, no earlier than `earliest`.
fn scheme_start(text: &str, earliest: usize, colon: usize) -> Option<usize> {
    let head = text.get(earliest..colon)?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let letters = head.bytes().rev().take(MAX_SCHEME);
    let start = colon - letters.take_while(is_part).count();
    let scheme = text.get(start..colon)?;
    // Letters directly before `http` or `https` are not part of the scheme.
    for known in ["https", "http"] {
        let glued = scheme.len().checked_sub(known.len());
        let Some((before, rest)) = glued.and_then(|at| scheme.split_at_checked(at)) else {
            continue;
        };
        if rest.eq_ignore_ascii_case(known) && !before.ends_with(['+', '.', '-']) {
            return Some(start + before.len());
        }
    }
    let first = scheme.find(|letter: char| letter.is_ascii_alphabetic())?;
    Some(start + first)
}

/// Returns the DOI at the start of a string, with or without `doi:` before it.
fn doi(text: &str) -> Option<&str> {
    let name = match begins_with(text, "doi:") {
        true => text.get(4..)?.trim_start_matches(' '),
        false => text,
    };
    let registrant = name.strip_prefix("10.")?;
    let digits = registrant
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.');
    let count = digits.count();
    let suffix = registrant.get(count..)?.strip_prefix('/')?;
    let is_doi = (4..=12).contains(&count) && suffix.starts_with(char::is_alphanumeric);
    is_doi.then(|| name.get(..end_of(name))).flatten()
}

/// Returns the length of the address at the start of a string, in bytes.
fn length(text: &str) -> usize {
    match doi(text) {
        // A space may follow `doi:`.
        Some(doi) => text.find(doi).unwrap_or_default() + doi.len(),
        None => end_of(text),
    }
}

fn end_of(text: &str) -> usize {
    let end = text.find(is_end).unwrap_or(text.len());
    without_end_of_sentence(text.get(..end).unwrap_or_default()).len()
}

fn is_end(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || "<>[]\"`|\\^{}".contains(letter)
}

/// Removes trailing punctuation and closing brackets that the address did not open.
fn without_end_of_sentence(address: &str) -> &str {
    let mut address = address;
    while let Some(last) = address.chars().next_back() {
        let count = |letter: char| address.matches(letter).count();
        let is_off = match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '’' | '”' => true,
            ')' => count(')') > count('('),
            _ => false,
        };
        if !is_off {
            break;
        }
        address = address
            .get(..address.len() - last.len_utf8())
            .unwrap_or_default();
    }
    address
}

fn begins_with(text: &str, beginning: &str) -> bool {
    text.get(..beginning.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_text_have_a_scheme_start_with_www_or_are_dois() {
        for (text, expected) in [
            (
                "see https://a.example/b_c?d=(e), and",
                vec!["https://a.example/b_c?d=(e)"],
            ),
            ("seehttps://a.example.", vec!["https://a.example"]),
            ("git+ssh://h/x ftp://h", vec!["git+ssh://h/x", "ftp://h"]),
            ("(www.a.example/x) WWW.b.", vec!["www.a.example/x", "WWW.b"]),
            (
                "doi: 10.1000/182, DOI:10.1/1 10.12345/a.b(c)",
                vec!["doi: 10.1000/182", "10.12345/a.b(c)"],
            ),
            (
                "http:// www. www.  a://  10.5/3 x@www.a.b awww.x 1.10.1000/1",
                vec![],
            ),
        ] {
            let ranges = addresses_in(text, 0, text.len()).into_iter();
            let found: Vec<_> = ranges.map(|range| &text[range]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn an_address_matches_a_read_source_as_a_browser_would_resolve_it() {
        let read = [
            Source::new("https://a.example/one"),
            Source::new("https://www.b.example"),
            Source::new("https://doi.org/10.1000/182"),
        ];
        for address in [
            "//a.example/one",
            r"/\a.example/one",
            r"\\a.example\one",
            "www.b.example/",
            "doi:10.1000/182",
            "10.1000/182",
        ] {
            assert!(read_at(address, &read).is_some(), "{address}");
        }
        for address in [
            "a.example/one",
            "///a.example/one",
            "/one",
            "ftp://a.example/one",
        ] {
            assert!(read_at(address, &read).is_none(), "{address}");
        }
    }
}
