//! A word of a message.

use crate::rules;

/// A word without surrounding punctuation.
#[derive(Debug)]
pub(crate) struct Word {
    /// The word as it was written.
    pub(crate) text: String,
    /// The word in lower case.
    pub(crate) lower: String,
}

/// Well-known files without an extension.
const KNOWN_FILES: &str =
    "readme license changelog contributing makefile dockerfile justfile procfile";

/// Returns whether a word is in a list of lower-case words that are separated by spaces.
pub(crate) fn is_among(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

impl Word {
    /// Splits a whitespace-separated token into words: none, one, or, for "CPU/memory", two.
    pub(crate) fn of(raw: &str) -> Vec<Self> {
        let text = raw.trim_start_matches(|c| "\"'`“([{<".contains(c));
        let text = text.trim_end_matches(|c| "\"'`”)]}>,;:!?".contains(c));
        // A full stop ends a sentence, unless the word consists only of full stops.
        let only_stops = text.chars().all(|c| c == '.');
        let text = if only_stops {
            text
        } else {
            text.trim_end_matches('.')
        };
        let word = Self {
            text: text.to_owned(),
            lower: text.to_lowercase(),
        };
        if word.text.is_empty() {
            Vec::new()
        } else if word.is_choice() {
            word.text.split('/').flat_map(Self::of).collect()
        } else {
            vec![word]
        }
    }

    pub(crate) fn is_among(&self, list: &str) -> bool {
        is_among(&self.lower, list)
    }

    pub(crate) fn is_glob(&self) -> bool {
        self.text.contains('*')
    }

    pub(crate) fn looks_like_file(&self) -> bool {
        self.looks_like_path() || self.is_among(KNOWN_FILES)
    }

    pub(crate) fn looks_like_path(&self) -> bool {
        // 2/3 is a fraction, and a slash alone names no file.
        let is_named = |letter: char| !letter.is_ascii_digit() && !matches!(letter, '/' | '\\');
        let is_other = !self.text.contains(is_named)
            || self.text.contains("://")
            || self.is_among("e.g i.e")
            || rules::is_time_zone(&self.text);
        !is_other && (self.text.contains(['/', '\\']) || self.has_extension())
    }

    fn has_extension(&self) -> bool {
        self.text.rsplit_once('.').is_some_and(|(_, extension)| {
            let begins = extension.starts_with(|c: char| c.is_ascii_alphabetic());
            begins && extension.len() <= 10 && extension.chars().all(|c| c.is_ascii_alphanumeric())
        })
    }

    /// Returns whether a slash separates two alternatives, as in "and/or" and "CPU/memory".
    fn is_choice(&self) -> bool {
        let is_alternative = |part| is_among(part, "and or either") || rules::is_keyword(part);
        self.text.contains('/') && self.lower.split('/').all(is_alternative)
    }
}
