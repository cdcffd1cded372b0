//! Finds the citations in an answer: links, tags, bare addresses and numbers in brackets.

mod disguised;

use std::ops::Range;

use pulldown_cmark::{BrokenLink, CowStr, Event, LinkType, Parser, Tag, TagEnd};

use super::addresses::{addresses_in, sole_address, stays_here};
use super::list::OwnList;
use super::tags::{HtmlTag, Side, tag_at};

/// The target that the parser is given for a number in brackets.
const NUMBERED: &str = "number:";

/// Maximum number of numbers in a range such as `[3-9]`.
const MAX_SPAN: u32 = 20;

/// A place in the answer where something is cited.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) mark: Mark,
    pub(super) targets: Vec<Target>,
}

/// What is at such a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The end of a link with words as its text; the words stay.
    LinkEnd,
    /// An address, which can be dropped without harm to the sentence.
    AddressOnly,
    /// Numbers in brackets, which can also be dropped.
    Numbered,
    /// The markup that turns the following words into a link.
    LinkStart,
}

/// What is cited at such a place.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A page.
    Url(String),
    /// A number that stands for no page.
    Nowhere(String),
}

type Parsed<'a> = (Event<'a>, Range<usize>);

/// Finds the citations of an answer, in order and without overlaps.
pub(super) fn edits(text: &str, own: &OwnList<'_>) -> Vec<Edit> {
    let parser = parsed(text);
    let definitions = parser.reference_definitions().iter();
    let definitions = definitions.filter(|(_, definition)| !stays_here(&definition.dest));
    let definitions: Vec<Range<usize>> = definitions.map(|(_, it)| it.span.clone()).collect();
    let events: Vec<Parsed<'_>> = parser.into_offset_iter().collect();
    let mut finder = Finder {
        text,
        own,
        found: Vec::new(),
        past: 0,
        links: Vec::new(),
        anchors: Vec::new(),
    };
    let mut at = 0;
    while at < events.len() {
        at = finder.event(&events, at);
    }
    for range in definitions {
        let line = text.get(range.end..).and_then(|rest| rest.find('\n'));
        let end = line.map_or(range.end, |end| range.end + end + 1);
        let is_blank = |rest: &str| rest.trim().is_empty();
        let is_rest = text.get(range.end..end).is_some_and(is_blank);
        let range = range.start..if is_rest { end } else { range.end };
        // A definition has no link text and is not shown to readers.
        finder.found.push(Edit {
            range,
            mark: Mark::LinkStart,
            targets: Vec::new(),
        });
    }
    finder.in_order()
}

/// Returns the bracketed numbers in a string.
pub(super) fn numbers(text: &str) -> Vec<u32> {
    let links = parsed(text).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            dest_url.strip_prefix(NUMBERED).map(read_numbers)
        }
        _ => None,
    });
    links.flatten().collect()
}

fn parsed(text: &str) -> Parser<'_, impl pulldown_cmark::BrokenLinkCallback<'_>> {
    let numbered = |broken: BrokenLink<'_>| {
        let label = broken.reference.as_ref();
        let is_numbers = !read_numbers(label).is_empty();
        is_numbers.then(|| (CowStr::from(format!("{NUMBERED}{label}")), CowStr::from("")))
    };
    Parser::new_with_broken_link_callback(text, pulldown_cmark::Options::empty(), Some(numbered))
}

/// Walks through a string from start to end.
struct Finder<'a> {
    text: &'a str,
    own: &'a OwnList<'a>,
    found: Vec<Edit>,
    /// Everything before this offset has been handled.
    past: usize,
    /// The open links, each with the index of the event that ends it.
    links: Vec<(usize, Edit)>,
    /// The open HTML anchors: the range of each one's tag, if it leads elsewhere.
    anchors: Vec<Option<Range<usize>>>,
}

impl<'a> Finder<'a> {
    /// Handles an event. Returns the index of the next one.
    fn event(&mut self, events: &[Parsed<'a>], at: usize) -> usize {
        let Some((event, range)) = events.get(at) else {
            return at + 1;
        };
        match event {
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) => self.link(events, at, *link_type, dest_url),
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.link(events, at, LinkType::Inline, dest_url)
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                while let Some((_, edit)) = self.links.pop_if(|(end, _)| *end <= at) {
                    self.push(edit);
                }
                at + 1
            }
            Event::Text(_) | Event::Html(_) | Event::InlineHtml(_) => self.run(events, at),
            Event::Code(code) => {
                if let Some(address) = sole_address(code) {
                    let targets = vec![Target::Url(address.to_owned())];
                    self.bare(range.clone(), targets);
                }
                at + 1
            }
            // Addresses in code blocks are not citations.
            Event::Start(Tag::CodeBlock(_)) => end_of(events, at) + 1,
            _ => at + 1,
        }
    }

    /// Handles a link or an image: the words stay, and the markup that makes them a link is removed.
    fn link(&mut self, events: &[Parsed<'a>], at: usize, kind: LinkType, url: &str) -> usize {
        let Some((_, range)) = events.get(at) else {
            return at + 1;
        };
        let range = range.clone();
        let end = end_of(events, at);
        let inner = events.get(at + 1..end).unwrap_or_default();
        let inner = inner.iter().map(|(_, range)| range.clone());
        let inner = inner.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
        let words = inner.as_ref().and_then(|it| self.text.get(it.clone()));
        let words = words.filter(|words| !words.trim().is_empty());
        if let Some(label) = url.strip_prefix(NUMBERED) {
            let mut cited = read_numbers(label);
            // The parser treats `[1][2]` as one link.
            if let (LinkType::ReferenceUnknown, Some(words)) = (kind, words) {
                cited.splice(0..0, read_numbers(words));
            }
            let targets = cited.into_iter().map(|number| match self.own.url(number) {
                Some(url) => Target::Url(url.to_owned()),
                None => Target::Nowhere(format!("[{number}]")),
            });
            let targets = targets.collect();
            self.push(Edit {
                range,
                mark: Mark::Numbered,
                targets,
            });
            return end + 1;
        }
        if stays_here(url) || kind == LinkType::Email {
            return at + 1;
        }
        let targets = vec![Target::Url(url.to_owned())];
        let is_words =
            |words: &&str| read_numbers(words).is_empty() && sole_address(words).is_none();
        match (words.filter(is_words), inner) {
            (Some(_), Some(inner)) if kind != LinkType::Autolink => {
                let ending = Edit {
                    range: inner.end..range.end,
                    mark: Mark::LinkEnd,
                    targets,
                };
                self.links.push((end, ending));
                self.push(Edit {
                    range: range.start..inner.start,
                    mark: Mark::LinkStart,
                    targets: Vec::new(),
                });
                at + 1
            }
            _ => {
                self.bare(range, targets);
                end + 1
            }
        }
    }

    /// Handles running text and the tags in it, up to the next other event.
    fn run(&mut self, events: &[Parsed<'a>], at: usize) -> usize {
        let is_run = |(event, _): &&Parsed<'_>| {
            matches!(
                event,
                Event::Text(_) | Event::Html(_) | Event::InlineHtml(_) | Event::SoftBreak
            )
        };
        let rest = events.get(at..).unwrap_or_default();
        let run: Vec<&Parsed<'_>> = rest.iter().take_while(is_run).collect();
        let (Some((_, first)), Some((_, last))) = (run.first(), run.last()) else {
            return at + 1;
        };
        let to = last.end;
        let mut from = first.start.max(self.past);
        while from < to {
            let part = self.text.get(from..to).unwrap_or_default();
            let open = part.find('<').map_or(to, |open| from + open);
            self.addresses(from, open);
            from = (open + 1).max(self.past);
            if let Some(tag) = tag_at(self.text, open).filter(|_| self.past <= open && open < to) {
                self.tag(tag);
                // Markdown may not treat a tag that stays as a tag, and may then find another one inside it.
                from = from.max(self.past);
            }
        }
        self.disguised(&run);
        at + run.len()
    }

    fn addresses(&mut self, from: usize, to: usize) {
        // An address may continue past what the parser takes for the end of the text.
        for range in addresses_in(self.text, from.max(self.past), to) {
            let url = self.text.get(range.clone()).unwrap_or_default().to_owned();
            self.bare(range, vec![Target::Url(url)]);
        }
    }

    /// Handles a tag: one that leads elsewhere is removed, and the words of an anchor stay.
    fn tag(&mut self, tag: HtmlTag) {
        let targets: Vec<Target> = tag.places.into_iter().map(Target::Url).collect();
        match tag.side {
            Side::AnchorEnd => {
                let Some(Some(open)) = self.anchors.pop() else {
                    return;
                };
                let open = self.found.iter_mut().rfind(|edit| edit.range == open);
                let targets = open.map(|open| {
                    open.mark = Mark::LinkStart;
                    std::mem::take(&mut open.targets)
                });
                self.push(Edit {
                    range: tag.range,
                    mark: Mark::LinkEnd,
                    targets: targets.unwrap_or_default(),
                });
            }
            Side::AnchorStart if targets.is_empty() => self.anchors.push(None),
            // Treat it as an address without words until its end tag is found.
            Side::AnchorStart => {
                self.bare(tag.range, targets);
                let open = self.found.last().map(|open| open.range.clone());
                self.anchors.push(open);
            }
            Side::Other if targets.is_empty() => {}
            Side::Other => self.bare(tag.range, targets),
        }
    }

    fn bare(&mut self, range: Range<usize>, targets: Vec<Target>) {
        self.push(Edit {
            range,
            mark: Mark::AddressOnly,
            targets,
        });
    }

    /// Adds a place, without any part of it that was already handled.
    fn push(&mut self, mut edit: Edit) {
        edit.range.start = edit.range.start.max(self.past);
        edit.range.end = edit.range.end.max(edit.range.start);
        self.past = edit.range.end;
        self.found.push(edit);
    }

    fn in_order(mut self) -> Vec<Edit> {
        self.found
            .sort_by_key(|edit| (edit.range.start, edit.range.end));
        let mut past = 0;
        self.found.retain(|edit| {
            let is_next = edit.range.start >= past;
            past = past.max(edit.range.end);
            is_next
        });
        self.found
    }
}

/// Returns the index of the event that ends the one at `at`.
fn end_of(events: &[Parsed<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (number, (event, _)) in events.iter().enumerate().skip(at) {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return number;
        }
    }
    events.len()
}

/// Reads `3`, `^3`, `3, 4` and `3-5`; returns nothing for anything else.
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
