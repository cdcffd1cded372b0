//! The last user message as the rules see it: its text, its words, what is quoted and what looks like a path.

mod word;

pub(crate) use word::{Word, is_among};

/// A message taken apart.
#[derive(Debug)]
pub(crate) struct Question {
    /// The message as it came.
    pub(crate) text: String,
    /// The beginning of it, which alone is searched for keywords.
    head: String,
    /// The words of the beginning without the punctuation around them.
    pub(crate) words: Vec<Word>,
}

/// How much of a message is searched for keywords: nobody asks for longer, and what is pasted must not cost time.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// Words that lead from a preposition to the place it is about.
const BEFORE_PLACE: &str = "the a an my our this folder directory file files";

/// Places that are no path but everything there is.
const EVERYWHERE: &str = "project repo repository code codebase workspace here there it all any every current machine \
    computer everything total detail";

impl Question {
    pub(crate) fn new(text: String) -> Self {
        let end = text.floor_char_boundary(MAX_HEAD_BYTES);
        let head = text.get(..end).unwrap_or_default().to_owned();
        let words = head.split_whitespace().flat_map(Word::of).collect();
        Self { text, head, words }
    }

    /// Tells whether it goes on with an earlier one: "And in New York?".
    pub(crate) fn goes_on(&self) -> bool {
        self.words.first().is_some_and(|word| word.is_among("and"))
    }

    /// Tells whether one of the words of a list stands in the message.
    pub(crate) fn has_any(&self, list: &str) -> bool {
        self.words.iter().any(|word| word.is_among(list))
    }

    /// Returns the place of the first word that stands in a list.
    pub(crate) fn position(&self, list: &str) -> Option<usize> {
        self.words.iter().position(|word| word.is_among(list))
    }

    /// Returns the first text between quotation marks.
    pub(crate) fn quoted(&self) -> Option<&str> {
        self.head.char_indices().find_map(|(place, mark)| {
            let closing = match mark {
                '"' | '\'' | '`' => mark,
                '“' => '”',
                _ => return None,
            };
            let before = self.head.get(..place)?.chars().next_back();
            // An apostrophe within a word opens nothing.
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

    /// Returns the folder or file that one of the given prepositions points out; of several the last.
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
