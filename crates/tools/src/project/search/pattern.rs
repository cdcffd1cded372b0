//! The pattern of a search.

use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures, NoError};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::project::failure::FileError;

/// The maximum length of a pattern, in bytes.
const SEARCH_MAX_PATTERN_BYTES: usize = 1_000;

/// The maximum memory of a compiled pattern, in bytes.
const MAX_COMPILED_BYTES: usize = 10 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Syntax {
    #[default]
    Regex,
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Case {
    Sensitive,
    Insensitive,
}

/// A pattern that is matched against a line both with and without its `\r`, so `$` also matches at a Windows line
/// ending.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: RegexMatcher,
    /// Whether the pattern may match the end of a line. When a whole file is searched, that is after the `\r`, so each
    /// line is matched separately.
    by_line: bool,
    /// Whether the pattern is pure ASCII, which other encodings share with UTF-8.
    pub(super) is_ascii: bool,
}

impl Pattern {
    pub(super) fn parse(
        pattern: &str,
        syntax: Syntax,
        case: Option<Case>,
    ) -> Result<Self, FileError> {
        let invalid = |why: String| Err(FileError::InvalidPattern { why });
        if pattern.is_empty() {
            return invalid("it is empty; to list files use list_files".to_owned());
        }
        if pattern.len() > SEARCH_MAX_PATTERN_BYTES {
            return invalid(format!(
                "it is longer than {SEARCH_MAX_PATTERN_BYTES} bytes; search for a part of it"
            ));
        }
        if syntax == Syntax::Plain && pattern.contains('\n') {
            return invalid(
                "it has a line break, but each line is searched on its own; search for one line"
                    .to_owned(),
            );
        }
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(syntax == Syntax::Plain)
            .case_insensitive(case == Some(Case::Insensitive))
            .line_terminator(Some(b'\n'))
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_COMPILED_BYTES)
            .build(pattern);
        match matcher {
            Ok(regex) => Ok(Self {
                regex,
                by_line: syntax == Syntax::Regex && pattern.contains('$'),
                is_ascii: pattern.is_ascii(),
            }),
            Err(error) => invalid(format!(
                "{error}; correct it, or set syntax to plain to search for the text as it is"
            )),
        }
    }

    /// Returns where in a line the pattern first matches.
    pub(super) fn place_in(&self, line: &[u8]) -> usize {
        self.regex
            .find(line)
            .ok()
            .flatten()
            .map_or(0, |found| found.start())
    }
}

impl Matcher for Pattern {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, haystack: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        if let Some(line) = haystack.strip_suffix(b"\r")
            && at <= line.len()
            && let Some(found) = self.regex.find_at(line, at)?
        {
            return Ok(Some(found));
        }
        self.regex.find_at(haystack, at)
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        match self.by_line {
            true => None,
            false => self.regex.non_matching_bytes(),
        }
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        match self.by_line {
            true => None,
            false => self.regex.line_terminator(),
        }
    }

    fn find_candidate_line(&self, haystack: &[u8]) -> Result<Option<LineMatchKind>, NoError> {
        self.regex.find_candidate_line(haystack)
    }
}
