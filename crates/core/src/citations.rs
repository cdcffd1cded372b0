//! Citations: which pages an answer may name, and what happens to the other links.
//!
//! Tools report which pages they read ([`Source`]). If a profile has its answers checked ([`Citations`]), each link to
//! such a page becomes a number that refers to a list of sources at the end of the answer. Every other link is removed:
//! a model may invent an address, and a reader cannot tell an invented one from a real one.
//!
//! The target of a link is a citation, unless it is a place in the same answer or a mail address. An address in plain
//! text, or alone in inline code, is a citation too. Addresses in code blocks and in commands are not.

mod addresses;
mod links;
mod list;
mod tags;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use addresses::read_at;
use links::{Edit, Mark, Target, edits};
use list::OwnList;

/// Maximum number of pages that a run remembers; later ones cannot be cited.
pub(crate) const MAX_SOURCES: usize = 2_000;

/// Maximum length of a page title, in characters.
const MAX_TITLE_CHARS: usize = 150;

/// Maximum length of a remembered address, in bytes.
const MAX_URL_BYTES: usize = 2_048;

/// Maximum number of passes over an answer; each pass removes something.
const MAX_PASSES: usize = 64;

/// The heading of the list of sources if the model wrote none.
const HEADING: &str = "**Sources**";

/// A page that a tool read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Source {
    /// Its address, `http` or `https`.
    pub url: String,
    /// Its title, as its author wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Source {
    /// Creates a source from the page's address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            title: None,
        }
    }

    /// Adds the page's title.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Returns whether an address is the address of this page. The fragment (`#…`), a trailing slash, and the case of
    /// scheme and host are ignored.
    #[must_use]
    pub fn is_at(&self, url: &str) -> bool {
        place_of(&self.url) == place_of(url)
    }

    /// Normalizes the source so that it fits on one line; `None` if it is not a web page.
    pub(crate) fn normalized(mut self) -> Option<Self> {
        let is_plain = |letter: char| !letter.is_whitespace() && !letter.is_control();
        let is_web = self.url.starts_with("https://") || self.url.starts_with("http://");
        if !is_web || self.url.len() > MAX_URL_BYTES || !self.url.chars().all(is_plain) {
            return None;
        }
        let words = |title: String| {
            let words: Vec<_> = title.split_whitespace().collect();
            let shown = words
                .join(" ")
                .chars()
                .filter(|letter| !letter.is_control())
                .take(MAX_TITLE_CHARS)
                .collect::<String>();
            Some(shown).filter(|shown| !shown.is_empty())
        };
        self.title = self.title.and_then(words);
        Some(self)
    }
}

/// What happens to the links in an agent's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Citations {
    /// Links stay as the model wrote them.
    #[default]
    Free,
    /// Links to pages that were read in the session become numbers into a list of sources; the others are removed. The
    /// answer is shown after the check and not streamed.
    Checked,
}

/// An answer whose citations were checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Cited {
    /// The answer, with its list of sources at the end.
    pub text: String,
    /// The cited pages, in the order of their numbers.
    pub sources: Vec<Source>,
    /// The addresses that were removed, and the numbers that referred to nothing.
    pub removed: Vec<String>,
}

/// Checks the citations of an answer against the pages that were read, as for a profile with [`Citations::Checked`].
pub fn cite(answer: &str, read: &[Source]) -> Cited {
    let own = OwnList::of(answer);
    let mut cited = Cited::default();
    let body = own.body(answer);
    let mut text = cited.edited(body, edits(body, &own), read);
    // Removing something may turn the remaining text into a link.
    for _ in 0..MAX_PASSES {
        let mut more = edits(&text, &OwnList::default());
        more.retain(|edit| edit.mark != Mark::Numbered);
        if more.is_empty() {
            break;
        }
        text = cited.edited(&text, more, read);
    }
    // A list under its own heading names the pages that were used, cited or not.
    for entry in own.entries() {
        cited.number(&Target::Url(entry.to_owned()), read);
    }
    cited.finish(text, own.heading())
}

impl Cited {
    /// Replaces each citation with its number.
    fn edited(&mut self, body: &str, edits: Vec<Edit>, read: &[Source]) -> String {
        let mut text = String::with_capacity(body.len());
        let mut copied = 0;
        for edit in edits {
            let mut numbers = Vec::new();
            for target in &edit.targets {
                numbers.extend(self.number(target, read));
            }
            text.push_str(body.get(copied..edit.range.start).unwrap_or_default());
            copied = edit.range.end;
            let is_alone = matches!(edit.mark, Mark::AddressOnly | Mark::Numbered);
            if is_alone {
                take_off_brackets(&mut text, body, &mut copied);
            }
            write_numbers(&mut text, edit.mark, &numbers);
            if is_alone && numbers.is_empty() {
                close_gap(&mut text, body.get(copied..).unwrap_or_default());
            }
        }
        text.push_str(body.get(copied..).unwrap_or_default());
        text
    }

    /// Returns the number of a page that was read; otherwise notes the target as removed.
    fn number(&mut self, target: &Target, read: &[Source]) -> Option<usize> {
        let found = match target {
            Target::Url(url) => read_at(url, read),
            Target::Nowhere(_) => None,
        };
        let Some(source) = found else {
            let (Target::Url(name) | Target::Nowhere(name)) = target;
            if !self.removed.contains(name) {
                self.removed.push(name.clone());
            }
            return None;
        };
        let known = self
            .sources
            .iter()
            .position(|known| known.is_at(&source.url));
        let at = known.unwrap_or_else(|| {
            self.sources.push(source.clone());
            self.sources.len() - 1
        });
        Some(at + 1)
    }

    fn finish(mut self, text: String, heading: Option<&str>) -> Self {
        self.text = text;
        if self.sources.is_empty() && self.removed.is_empty() {
            return self;
        }
        self.text.truncate(self.text.trim_end().len());
        if !self.sources.is_empty() {
            let _ = write!(self.text, "\n\n{}\n", heading.unwrap_or(HEADING));
            for (at, source) in self.sources.iter().enumerate() {
                let title = shown_title(source.title.as_deref().unwrap_or(&source.url));
                let _ = write!(
                    self.text,
                    "\n{}. [{title}]({})",
                    at + 1,
                    shown_url(&source.url)
                );
            }
        }
        let removed = self.removed.len();
        match removed {
            0 => {}
            1 => self
                .text
                .push_str("\n\n*1 citation was removed: its page was not read.*"),
            _ => {
                let _ = write!(
                    self.text,
                    "\n\n*{removed} citations were removed: their pages were not read.*"
                );
            }
        }
        self
    }
}

/// Writes the numbers of the pages that are cited at one place.
fn write_numbers(text: &mut String, mark: Mark, numbers: &[usize]) {
    let numbers = numbers.iter().map(|number| format!("[{number}]"));
    let numbers = numbers.collect::<String>();
    // If the link text is the link's own address, it has already become the number.
    if mark == Mark::LinkEnd && (numbers.is_empty() || text.ends_with(&numbers)) {
        return;
    }
    if mark == Mark::LinkEnd {
        text.truncate(text.trim_end_matches(' ').len());
        text.push(' ');
    }
    text.push_str(&numbers);
}

/// Removes the brackets around an address, since its number has brackets.
fn take_off_brackets(text: &mut String, body: &str, copied: &mut usize) {
    let rest = body.get(*copied..).unwrap_or_default();
    for (open, close) in [('(', ')'), ('[', ']'), ('<', '>')] {
        if text.ends_with(open) && rest.starts_with(close) {
            text.pop();
            *copied += close.len_utf8();
            return;
        }
    }
}

/// Removes the extra space that a removed address leaves before punctuation or another space.
fn close_gap(text: &mut String, rest: &str) {
    let ends = |letter: char| letter.is_whitespace() || ".,;:!?)".contains(letter);
    if text.ends_with(' ') && rest.chars().next().is_none_or(ends) {
        text.pop();
    }
}

/// Returns the parts of an address that two addresses of one page share.
fn place_of(url: &str) -> (String, &str) {
    let bare = url.split('#').next().unwrap_or_default();
    let (scheme, rest) = bare.split_once("://").unwrap_or(("", bare));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let path = path.strip_suffix('/').unwrap_or(path);
    (format!("{scheme}://{host}").to_ascii_lowercase(), path)
}

/// Escapes a title: it comes from a third party and must not become anything but text.
fn shown_title(title: &str) -> String {
    let mut shown = String::with_capacity(title.len());
    for letter in title.chars() {
        if "\\`*_[]<>!&#~|".contains(letter) {
            shown.push('\\');
        }
        shown.push(letter);
    }
    shown
}

fn shown_url(url: &str) -> String {
    if url.contains(['(', ')', '\\']) {
        format!("<{}>", url.replace(['<', '>'], ""))
    } else {
        url.to_owned()
    }
}

#[cfg(test)]
mod tests;
