//! Where the citations of a text stand: links, bare addresses and numbers in brackets.

use std::ops::Range;

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Parser, Tag, TagEnd};

use super::list::OwnList;

/// What the parser is told that a number in brackets leads to.
const NUMBERED: &str = "number:";

/// The most numbers that `[3-9]` may stand for.
const MAX_SPAN: u32 = 20;

/// A place of a text where something is cited.
#[derive(Debug)]
pub(super) struct Edit<'a> {
    pub(super) range: Range<usize>,
    pub(super) mark: Mark<'a>,
    pub(super) targets: Vec<Target>,
}

/// What stands at such a place.
#[derive(Debug)]
pub(super) enum Mark<'a> {
    /// Words with a link on them, which stay.
    Words(&'a str),
    /// An address or numbers, which nobody misses.
    Bare,
}

/// What such a place cites.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A page.
    Url(String),
    /// A number that stands for none.
    Nowhere(String),
}

impl Edit<'_> {
    /// Writes what takes its place: the words, and the numbers of the pages.
    pub(super) fn write(&self, text: &mut String, numbers: &[usize]) {
        if let Mark::Words(words) = self.mark {
            text.push_str(words);
            if !numbers.is_empty() {
                text.push(' ');
            }
        }
        for number in numbers {
            text.push_str(&format!("[{number}]"));
        }
    }
}

/// Finds the citations of a text, in their order, none inside another.
pub(super) fn edits<'a>(text: &'a str, own: &OwnList<'_>) -> Vec<Edit<'a>> {
    let mut found: Vec<Edit<'a>> = Vec::new();
    let mut events = parsed(text).into_offset_iter();
    let mut past = 0;
    while let Some((event, range)) = events.next() {
        match event {
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) => {
                let inner = inner_range(&mut events);
                if range.start < past {
                    continue;
                }
                past = range.end;
                found.extend(link(text, range, inner, link_type, &dest_url, own));
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                let inner = inner_range(&mut events);
                if range.start < past || !is_web(&dest_url) {
                    continue;
                }
                past = range.end;
                let mark = words(text, inner);
                let targets = vec![Target::Url(dest_url.into_string())];
                found.push(Edit {
                    range,
                    mark,
                    targets,
                });
            }
            Event::Text(_) | Event::Html(_) | Event::InlineHtml(_) if range.end > past => {
                let from = range.start.max(past);
                // An address may go on behind what the parser takes for the end of the text.
                for address in addresses_in(text, from, range.end) {
                    past = address.end;
                    let url = text.get(address.clone()).unwrap_or_default().to_owned();
                    found.push(Edit {
                        range: address,
                        mark: Mark::Bare,
                        targets: vec![Target::Url(url)],
                    });
                }
            }
            // In a block of code, addresses are no citations.
            Event::Start(Tag::CodeBlock(_)) => {
                for (event, _) in events.by_ref() {
                    if matches!(event, Event::End(TagEnd::CodeBlock)) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    found.sort_by_key(|edit| edit.range.start);
    found
}

/// Returns the numbers in brackets that a text has.
pub(super) fn numbers(text: &str) -> Vec<u32> {
    let links = parsed(text).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            dest_url.strip_prefix(NUMBERED).map(read_numbers)
        }
        _ => None,
    });
    links.flatten().collect()
}

/// Returns where the addresses of a text stand.
pub(super) fn addresses(text: &str) -> Vec<Range<usize>> {
    addresses_in(text, 0, text.len())
}

fn parsed(text: &str) -> Parser<'_, impl pulldown_cmark::BrokenLinkCallback<'_>> {
    let numbered = |broken: BrokenLink<'_>| {
        let label = broken.reference.as_ref();
        let is_numbers = !read_numbers(label).is_empty();
        is_numbers.then(|| (CowStr::from(format!("{NUMBERED}{label}")), CowStr::from("")))
    };
    Parser::new_with_broken_link_callback(text, pulldown_cmark::Options::empty(), Some(numbered))
}

fn link<'a>(
    text: &'a str,
    range: Range<usize>,
    inner: Option<Range<usize>>,
    kind: LinkType,
    url: &str,
    own: &OwnList<'_>,
) -> Option<Edit<'a>> {
    let mark = match kind {
        LinkType::Autolink => Mark::Bare,
        _ => words(text, inner),
    };
    if let Some(label) = url.strip_prefix(NUMBERED) {
        let mut cited = read_numbers(label);
        // `[1][2]` is one link to the parser.
        if let (LinkType::ReferenceUnknown, Mark::Words(words)) = (kind, &mark) {
            cited.splice(0..0, read_numbers(words));
        }
        let targets = cited.into_iter().map(|number| match own.url(number) {
            Some(url) => Target::Url(url.to_owned()),
            None => Target::Nowhere(format!("[{number}]")),
        });
        return Some(Edit {
            range,
            mark: Mark::Bare,
            targets: targets.collect(),
        });
    }
    if !is_web(url) {
        return None;
    }
    let mark = match mark {
        Mark::Words(words) if !read_numbers(words).is_empty() || is_web(words) => Mark::Bare,
        other => other,
    };
    Some(Edit {
        range,
        mark,
        targets: vec![Target::Url(url.to_owned())],
    })
}

/// Skips to the end of a link or image and returns where what stands in it does.
fn inner_range<'a>(
    events: &mut impl Iterator<Item = (Event<'a>, Range<usize>)>,
) -> Option<Range<usize>> {
    let mut inner: Option<Range<usize>> = None;
    let mut depth = 1_usize;
    for (event, range) in events {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        inner = Some(inner.map_or(range.clone(), |inner| {
            inner.start.min(range.start)..inner.end.max(range.end)
        }));
    }
    inner
}

fn words(text: &str, inner: Option<Range<usize>>) -> Mark<'_> {
    match inner.and_then(|inner| text.get(inner)) {
        Some(words) if !words.trim().is_empty() => Mark::Words(words),
        _ => Mark::Bare,
    }
}

/// Reads `3`, `^3`, `3, 4` and `3-5`; nothing if it is something else.
fn read_numbers(label: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in label.split([',', ';']) {
        let part = part.trim().trim_start_matches('^');
        let (first, last) = part.split_once(['-', '–']).unwrap_or((part, part));
        let is_number = |text: &str| {
            (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (first, last) = (first.trim(), last.trim());
        let (true, true, Ok(first), Ok(last)) = (
            is_number(first),
            is_number(last),
            first.parse::<u32>(),
            last.parse::<u32>(),
        ) else {
            return Vec::new();
        };
        if last < first || last - first >= MAX_SPAN {
            return Vec::new();
        }
        numbers.extend(first..=last);
    }
    numbers
}

fn is_web(url: &str) -> bool {
    let starts = |scheme: &str| {
        url.get(..scheme.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(scheme))
    };
    starts("https://") || starts("http://")
}

/// Finds the addresses that begin in a part of a text.
fn addresses_in(text: &str, from: usize, to: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = from;
    while let Some(part) = text.get(at..to) {
        let Some(start) = part
            .find("://")
            .and_then(|colon| scheme_start(text, at, at + colon))
        else {
            match part.find("://") {
                Some(colon) => at += colon + 3,
                None => break,
            }
            continue;
        };
        let rest = text.get(start..).unwrap_or_default();
        let is_end = |letter: char| {
            letter.is_whitespace() || letter.is_control() || "<>[]\"`|\\^{}".contains(letter)
        };
        let end = rest.find(is_end).unwrap_or(rest.len());
        let address = without_end_of_sentence(rest.get(..end).unwrap_or_default());
        found.push(start..start + address.len());
        at = start + address.len().max(1);
    }
    found
}

/// Returns where the address begins whose scheme ends at a colon, no earlier than `from`.
fn scheme_start(text: &str, from: usize, colon: usize) -> Option<usize> {
    ["https", "http"].into_iter().find_map(|scheme| {
        let start = colon
            .checked_sub(scheme.len())
            .filter(|start| *start >= from)?;
        text.get(start..colon)?
            .eq_ignore_ascii_case(scheme)
            .then_some(start)
    })
}

/// Takes off what ends a sentence or closes a bracket that the address did not open.
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
