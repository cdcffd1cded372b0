//! The last user message as the rules see it: its text, its words, what is quoted and what looks like a path.

mod word;

pub(crate) use word::{Word, is_among};

/// A parsed message.
#[derive(Debug)]
pub(crate) struct ParsedMessage {
    /// The message, unchanged.
    pub(crate) text: String,
    /// Its beginning, the only part that is searched for keywords.
    head: String,
    /// The words of the beginning, without surrounding punctuation.
    pub(crate) words: Vec<Word>,
}

/// The number of bytes of a message that are searched for keywords: no question is longer, and pasted text must not
/// cost time.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Words between a preposition and the place it refers to.
const BEFORE_PLACE: &str = "the a an my our this folder directory file files";

/// Words that mean everything rather than a path.
const EVERYWHERE: &str = "project repo repository code codebase workspace here there it all any every current machine \
    computer everything total detail";

impl ParsedMessage {
    pub(crate) fn new(text: String) -> Self {
        let end = text.floor_char_boundary(MAX_HEAD_BYTES);
        let head = text.get(..end).unwrap_or_default().to_owned();
        let words = head.split_whitespace().flat_map(Word::of).collect();
        Self { text, head, words }
    }

    /// Returns whether the message follows up on an earlier one: "And in New York?".
    pub(crate) fn is_follow_up(&self) -> bool {
        self.words.first().is_some_and(|word| word.is_among("and"))
    }

    /// Returns whether the message contains a word of the list.
    pub(crate) fn has_any(&self, list: &str) -> bool {
        self.words.iter().any(|word| word.is_among(list))
    }

    /// Returns the position of the first word that is in the list.
    pub(crate) fn position(&self, list: &str) -> Option<usize> {
        self.words.iter().position(|word| word.is_among(list))
    }

    /// Returns the first text in quotation marks.
    pub(crate) fn quoted(&self) -> Option<&str> {
        self.head.char_indices().find_map(|(place, mark)| {
            let closing = match mark {
                '"' | '\'' | '`' => mark,
                '“' => '”',
                _ => return None,
            };
            let before = self.head.get(..place)?.chars().next_back();
            // An apostrophe within a word does not open a quotation.
            let opens = before.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | ':' | ','));
            let inside = self.head.get(place + mark.len_utf8()..).filter(|_| opens)?;
            let (inside, _) = inside.split_once(closing)?;
            (!inside.trim().is_empty()).then_some(inside)
        })
    }

    /// Returns the first word that looks like a path to a file.
    pub(crate) fn file(&self) -> Option<&str> {
        let word = self.words.iter().find(|word| word.looks_like_file())?;
        Some(&word.text)
    }

    /// Returns the folder or file that one of the given prepositions points to; if there are several, the last.
    pub(crate) fn place_after(&self, prepositions: &str) -> Option<&str> {
        let mut places = self.words.iter().enumerate().filter_map(|(index, word)| {
            let rest = self
                .words
                .get(index + 1..)
                .filter(|_| word.is_among(prepositions))?;
            let place = rest.iter().find(|word| !word.is_among(BEFORE_PLACE))?;
            let is_place = !place.is_among(EVERYWHERE) && !place.is_glob();
            is_place.then_some(place.text.as_str())
        });
        places.next_back()
    }

    /// Returns the first word that looks like a path and is not part of the given text.
    pub(crate) fn path_outside(&self, text: &str) -> Option<&str> {
        let is_path = |word: &&Word| word.looks_like_path() && !word.is_glob();
        let mut paths = self
            .words
            .iter()
            .filter(is_path)
            .map(|word| word.text.as_str());
        paths.find(|path| !text.contains(path))
    }

    /// Returns the first word with a wildcard.
    pub(crate) fn glob(&self) -> Option<&str> {
        let word = self.words.iter().find(|word| word.is_glob())?;
        Some(&word.text)
    }
}
