//! The list of sources that a model wrote at the end of its answer.

use std::collections::BTreeMap;

use super::addresses::addresses_in;
use super::links::numbers;

/// Maximum length of a line that is treated as the heading of a list, in characters.
const MAX_HEADING_CHARS: usize = 60;

/// Maximum number of lines that an entry may continue after its first.
const MAX_MORE_LINES: usize = 2;

/// Names of a list of sources, in lower case, in the languages most used with models. A list under another heading is
/// accepted if the text refers to its numbers.
const HEADINGS: [&str; 22] = [
    "sources",
    "source",
    "references",
    "reference",
    "citations",
    "bibliography",
    "works cited",
    "further reading",
    "quellen",
    "quellenverzeichnis",
    "literatur",
    "fuentes",
    "referencias",
    "références",
    "sources citées",
    "fonti",
    "riferimenti",
    "bronnen",
    "fontes",
    "referências",
    "источники",
    "参考",
];

/// A model's own list of sources; empty if it wrote none.
#[derive(Debug, Default)]
pub(super) struct OwnList<'a> {
    /// Where the list begins, including its heading.
    start: Option<usize>,
    heading: Option<&'a str>,
    /// The addresses, by the numbers of their lines.
    numbered: BTreeMap<u32, &'a str>,
    in_order: Vec<&'a str>,
}

/// A line of the answer that starts an entry.
struct Entry<'a> {
    start: usize,
    number: Option<u32>,
    url: &'a str,
}

impl<'a> OwnList<'a> {
    /// Finds the list at the end of an answer.
    pub(super) fn of(answer: &'a str) -> Self {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        let mut more = 0;
        let mut lines: Vec<(usize, &'a str)> = Vec::new();
        let mut at = 0;
        for line in answer.split_inclusive('\n') {
            lines.push((at, line.trim()));
            at += line.len();
        }
        let mut above = lines.len();
        let mut until = answer.len();
        for (index, (start, line)) in lines.iter().enumerate().rev() {
            if line.is_empty() || is_note(line) {
                continue;
            }
            let whole = answer.get(*start..until).unwrap_or_default();
            let labelled = label(line);
            let Some((number, _)) = labelled else {
                more += 1;
                if more > MAX_MORE_LINES {
                    break;
                }
                continue;
            };
            let Some(url) = address_of(whole) else {
                break;
            };
            entries.push(Entry {
                start: *start,
                number,
                url,
            });
            (above, until, more) = (index, *start, 0);
        }
        entries.reverse();
        let before = lines.get(..above).unwrap_or_default().iter().rev();
        let title = before.clone().find(|(_, line)| !line.is_empty()).copied();
        let title = title.filter(|(_, line)| is_heading(line));
        Self::taken(answer, &entries, title)
    }

    /// Accepts the lines as a list of sources if their heading says so or the text refers to their numbers.
    fn taken(answer: &'a str, entries: &[Entry<'a>], title: Option<(usize, &'a str)>) -> Self {
        let Some(first) = entries.first() else {
            return Self::default();
        };
        let start = title.map_or(first.start, |(start, _)| start);
        let text = answer.get(..start).unwrap_or_default();
        let numbered: BTreeMap<_, _> = entries
            .iter()
            .filter_map(|entry| Some((entry.number?, entry.url)))
            .collect();
        let refers = || {
            numbers(text)
                .iter()
                .any(|number| numbered.contains_key(number))
        };
        if !title.is_some_and(|(_, line)| is_sources(line)) && !refers() {
            return Self::default();
        }
        Self {
            start: Some(start),
            heading: title.map(|(_, line)| line),
            numbered,
            in_order: entries.iter().map(|entry| entry.url).collect(),
        }
    }

    /// Returns the answer without the list.
    pub(super) fn body(&self, answer: &'a str) -> &'a str {
        answer
            .get(..self.start.unwrap_or(answer.len()))
            .unwrap_or(answer)
    }

    /// Returns the heading as the model wrote it, unless it may contain more than plain text.
    pub(super) fn heading(&self) -> Option<&'a str> {
        let is_more = |heading: &str| heading.contains(['[', '<', '`', '/', '&', '\\', '!']);
        self.heading.filter(|heading| !is_more(heading))
    }

    /// Returns the address that a number stands for.
    pub(super) fn url(&self, number: u32) -> Option<&'a str> {
        self.numbered.get(&number).copied()
    }

    /// Returns the addresses of the list, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'a str> {
        self.in_order.iter().copied()
    }
}

/// Returns the address that an entry names: the full address if the entry also has a DOI.
fn address_of(entry: &str) -> Option<&str> {
    let ranges = addresses_in(entry, 0, entry.len()).into_iter();
    let mut named = ranges.filter_map(|range| entry.get(range));
    let first = named.next()?;
    let in_full = |url: &&str| url.contains("://");
    let full = in_full(&first).then_some(first);
    Some(full.or_else(|| named.find(in_full)).unwrap_or(first))
}

/// Returns whether a line is the note that an earlier check of the citations wrote below its list.
fn is_note(line: &str) -> bool {
    line.starts_with('*') && line.ends_with("not read.*")
}

fn is_heading(line: &str) -> bool {
    let short = line.chars().count() <= MAX_HEADING_CHARS && address_of(line).is_none();
    short
        && (line.starts_with('#')
            || line.starts_with("**")
            || line.ends_with(':')
            || is_sources(line))
}

fn is_sources(line: &str) -> bool {
    let words = line
        .trim_matches(|letter: char| !letter.is_alphanumeric())
        .to_lowercase();
    HEADINGS.contains(&words.as_str())
}

/// Reads the start of a list line: a number, as in `[1]`, `[1]:`, `[^1]:`, `1.` or `1)`, or a bullet.
fn label(line: &str) -> Option<(Option<u32>, &str)> {
    let (bullet, line) = match line.strip_prefix(['-', '*', '•']) {
        Some(rest) if rest.starts_with([' ', '\t']) => (true, rest.trim_start()),
        _ => (false, line),
    };
    let bold = line.strip_prefix("**").unwrap_or(line);
    let (bracket, inner) = match bold.strip_prefix('[') {
        Some(inner) => (true, inner.strip_prefix('^').unwrap_or(inner)),
        None => (false, bold),
    };
    let digits = inner.len()
        - inner
            .trim_start_matches(|letter: char| letter.is_ascii_digit())
            .len();
    let (number, rest) = inner.split_at(digits);
    let ends = if bracket {
        rest.strip_prefix(']')
    } else {
        rest.strip_prefix(['.', ')', ':'])
    };
    match (number.parse().ok(), ends) {
        // `[1](…)` is a link whose text is a number.
        (Some(number), Some(rest)) if !(bracket && rest.starts_with('(')) => {
            Some((Some(number), rest))
        }
        _ => bullet.then_some((None, line)),
    }
}
