//! Removes secrets from texts: known values, and anything in the form of a secret.
//!
//! **For** everything that goes into a file or an error message. A text is searched as it is and inside its JSON string
//! literals, so an escaped line break before a key does not hide it. Pieces of one text are searched together, so a key
//! that arrives in two deltas is found. What is found becomes [`REDACTED`] and is not found again. A deployment's own
//! patterns are also searched for; in JSON only inside strings and long numbers, so that the result is still JSON.
//!
//! **Not for** proving that a text holds no secret: a secret that is neither given nor in a known form stays, and the
//! base64 content of media is not searched.

mod parts;
mod patterns;
mod shapes;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use regex::Regex;

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";

/// The minimum length in bytes of a value treated as a secret: a shorter one would be found in ordinary words.
pub const MIN_SECRET_BYTES: usize = 4;

/// How deeply JSON texts inside JSON strings are searched.
const MAX_NESTING: u8 = 4;

/// Removes secrets from texts.
///
/// ```
/// use neuraxis_cassette::Redactor;
///
/// let redactor = Redactor::new(["open sesame"]);
/// let text = "say open sesame, or send Authorization: Bearer abc.def-123";
/// assert_eq!(redactor.text(text), "say [redacted], or send Authorization: Bearer [redacted]");
/// ```
#[derive(Clone, Default)]
pub struct Redactor {
    /// The values in every form that is searched for, longest first.
    values: Vec<String>,
    /// The deployment's own patterns.
    patterns: Vec<Regex>,
}

/// The maximum number of times a text is searched: a replacement can move a secret next to the text that identifies it.
const MAX_PASSES: u8 = 8;

/// A range of a text and its replacement.
type Edit = (Range<usize>, String);

impl Redactor {
    /// Creates a redactor for known secret values, such as the keys of the configured models. Well-known forms are
    /// always found. Values shorter than [`MIN_SECRET_BYTES`] bytes are ignored.
    pub fn new(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let values = values.into_iter().map(|value| value.as_ref().to_owned());
        let values = values.filter(|value: &String| {
            // The replacement itself must not be found as a secret.
            value.len() >= MIN_SECRET_BYTES && !REDACTED.contains(value.as_str())
        });
        Self {
            values: longest_first(values.flat_map(forms).collect()),
            patterns: Vec::new(),
        }
    }

    /// Also removes what another redactor removes.
    ///
    /// ```
    /// use neuraxis_cassette::Redactor;
    ///
    /// let redactor = Redactor::new(["open sesame"]).and(Redactor::new(["shut sesame"]));
    /// assert_eq!(redactor.text("open sesame, shut sesame"), "[redacted], [redacted]");
    /// ```
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.values.extend(other.values);
        self.values = longest_first(self.values);
        for pattern in other.patterns {
            let mut known = self.patterns.iter();
            if !known.any(|it| it.as_str() == pattern.as_str()) {
                self.patterns.push(pattern);
            }
        }
        self
    }

    /// Also removes matches of these patterns. In a text that is JSON, they are searched for in each string and each
    /// number of nine or more digits, so `CUST-.*` ends where its string does.
    ///
    /// ```
    /// use neuraxis_cassette::Redactor;
    ///
    /// let redactor = Redactor::default().with_patterns([regex::Regex::new("CUST-.*")?]);
    /// let text = r#"{"who":"of CUST-17, today","count":2}"#;
    /// assert_eq!(redactor.text(text), r#"{"who":"of [redacted]","count":2}"#);
    /// # Ok::<(), regex::Error>(())
    /// ```
    #[must_use]
    pub fn with_patterns(mut self, patterns: impl IntoIterator<Item = Regex>) -> Self {
        self.patterns.extend(patterns);
        self
    }

    /// Removes all patterns: for a text in a format other than JSON whose parts have already been searched for them.
    #[must_use]
    pub fn without_patterns(mut self) -> Self {
        self.patterns.clear();
        self
    }

    /// Returns the text without its secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let clean = self.clean(text, MAX_NESTING);
        let matches = self.matches(clean.as_deref().unwrap_or(text), MAX_NESTING);
        if matches.is_empty() {
            return clean.map_or(Cow::Borrowed(text), Cow::Owned);
        }
        Cow::Owned(edited(clean.as_deref().unwrap_or(text), &matches))
    }

    /// Returns whether a string contains a known value.
    pub(crate) fn has_known_value(&self, text: &str) -> bool {
        let mut values = self.values.iter();
        values.any(|value| text.contains(value.as_str()))
    }

    /// Returns a redacted text with each of its lines also redacted alone, as a recording stores them: there, patterns
    /// search a line of JSON as prose.
    pub(crate) fn each_line<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.patterns.is_empty() || !text.contains('\n') {
            return Cow::Borrowed(text);
        }
        let lines = text.split_inclusive('\n').map(|line| self.text(line));
        Cow::Owned(lines.collect())
    }

    /// Returns JSON without the secrets in its strings, each searched alone. Keys and numbers are kept, and so are the
    /// values of keys for which `is_word` returns `true`: a word of the format may equal a secret.
    pub(crate) fn values<'a>(&self, json: &'a str, is_word: impl Fn(&str) -> bool) -> Cow<'a, str> {
        let mut edits: Vec<Edit> = Vec::new();
        let mut key = "";
        for range in literals(json) {
            let literal = json.get(range.clone()).unwrap_or_default();
            let rest = json.get(range.end..).unwrap_or_default();
            if rest.trim_start().starts_with(':') {
                key = literal.trim_matches('"');
            } else if !is_word(key)
                && let Ok(value) = serde_json::from_str::<String>(literal)
                && let Cow::Owned(clean) = self.text(&value)
            {
                edits.push((range, serde_json::to_string(&clean).unwrap_or_default()));
            }
        }
        match edits.is_empty() {
            true => Cow::Borrowed(json),
            false => Cow::Owned(edited(json, &edits)),
        }
    }

    /// Removes secrets from a text in pieces; the number of pieces stays the same.
    pub(crate) fn pieces(&self, pieces: &mut [&mut String]) {
        let whole = |pieces: &[&mut String]| -> String {
            pieces.iter().map(|piece| piece.as_str()).collect()
        };
        for _ in 0..MAX_PASSES {
            let literals = self.in_literals(&whole(pieces), MAX_NESTING);
            apply(pieces, &literals);
            let secrets = self.in_text(&whole(pieces));
            apply(pieces, &secrets);
            if literals.is_empty() && secrets.is_empty() {
                break;
            }
        }
        let matches = self.matches(&whole(pieces), MAX_NESTING);
        apply(pieces, &matches);
    }

    /// Returns the text without its secrets, or `None` if it has none.
    fn clean(&self, text: &str, nesting: u8) -> Option<String> {
        let mut clean: Option<String> = None;
        for _ in 0..MAX_PASSES {
            let before = clean.as_deref().unwrap_or(text);
            let literals = self.in_literals(before, nesting);
            let inner = (!literals.is_empty()).then(|| edited(before, &literals));
            let secrets = self.in_text(inner.as_deref().unwrap_or(before));
            let after = match secrets.is_empty() {
                true => inner,
                false => Some(edited(inner.as_deref().unwrap_or(before), &secrets)),
            };
            let Some(after) = after else { break };
            clean = Some(after);
        }
        clean
    }

    /// Finds secrets in the text as it is written.
    fn in_text(&self, text: &str) -> Vec<Edit> {
        let known = self.values.iter().flat_map(|value| {
            text.match_indices(value.as_str())
                .map(|(start, found)| start..start + found.len())
        });
        let found = known.chain(shapes::find(text)).collect();
        let edits = merged(found).into_iter();
        edits.map(|range| (range, REDACTED.to_owned())).collect()
    }

    /// Finds JSON string literals whose escapes hide a secret.
    fn in_literals(&self, text: &str, nesting: u8) -> Vec<Edit> {
        if nesting == 0 || !text.contains('\\') {
            return Vec::new();
        }
        let edit = |range: Range<usize>| {
            let literal = text.get(range.clone())?;
            // A literal without escapes shows its content, and is searched as text.
            if !literal.contains('\\') {
                return None;
            }
            let decoded: String = serde_json::from_str(literal).ok()?;
            let clean = self.clean(&decoded, nesting - 1)?;
            Some((range, serde_json::to_string(&clean).ok()?))
        };
        literals(text).filter_map(edit).collect()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// Sorts ranges, and merges those that overlap.
fn merged(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in found {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns a value unchanged and as it is written inside a JSON string.
fn forms(value: String) -> Vec<String> {
    let escaped = serde_json::to_string(&value).unwrap_or_default();
    let escaped = escaped.get(1..escaped.len().saturating_sub(1));
    let escaped = escaped
        .filter(|escaped| *escaped != value)
        .map(str::to_owned);
    std::iter::once(value).chain(escaped).collect()
}

/// Finds the texts between double quotes, including the quotes.
fn literals(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut bytes = text.bytes().enumerate();
    std::iter::from_fn(move || {
        let (start, _) = bytes.find(|(_, byte)| *byte == b'"')?;
        let mut is_escaped = false;
        let (end, _) = bytes.find(|(_, byte)| {
            let ends = *byte == b'"' && !is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
            ends
        })?;
        Some(start..end + 1)
    })
}

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut text = text.to_owned();
    apply(&mut [&mut text], edits);
    text
}

/// Applies edits, sorted and not overlapping, to a text in pieces. A replacement goes into the piece in which its range
/// begins.
fn apply(pieces: &mut [&mut String], edits: &[Edit]) {
    let mut edits = edits.iter().peekable();
    let mut start = 0;
    for piece in pieces {
        let end = start + piece.len();
        let mut kept = String::with_capacity(piece.len());
        let mut at = start;
        while let Some((range, with)) = edits.peek() {
            if range.start >= end {
                break;
            }
            if range.start >= at {
                kept.push_str(
                    piece
                        .get(at - start..range.start - start)
                        .unwrap_or_default(),
                );
                kept.push_str(with);
            }
            at = range.end.min(end);
            if range.end > end {
                break;
            }
            edits.next();
        }
        kept.push_str(piece.get(at - start..).unwrap_or_default());
        **piece = kept;
        start = end;
    }
}

/// Sorts values in search order, without duplicates: a longer one may contain a shorter one.
fn longest_first(mut values: Vec<String>) -> Vec<String> {
    values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn well_known_secret_shapes_are_redacted_anywhere_in_a_text() {
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl";
        let texts = [
            "sk-proj-AbC123_def-456",
            "gsk_abcdefghij0123456789",
            "ghp_abcdefghij0123456789abcdefghij012345",
            "xoxb-123456789012-abcdef",
            "AKIAIOSFODNN7EXAMPLE",
            "AIzaSyA1234567890abcdefghijklmnopqrstuv",
            jwt,
            "hf_abcdefghijklmnopqrstuv",
        ];
        for secret in texts {
            for around in [
                format!("key {secret}."),
                format!("line\n{secret}"),
                format!(r#"{{"text":"line\n{secret}\n"}}"#),
                format!(r#"{{"a":"{{\"b\":\"x\\n{secret}\"}}"}}"#),
                format!("https://example.com/?q={secret}"),
            ] {
                let clean = Redactor::default().text(&around).into_owned();
                assert!(!clean.contains(secret), "{clean}");
                assert!(clean.contains(REDACTED), "{clean}");
            }
        }
    }

    #[test]
    fn values_labeled_as_secrets_are_redacted() {
        for (text, expected) in [
            (
                "Authorization: Basic dXNlcjpwYXNz",
                "Authorization: Basic [redacted]",
            ),
            ("bearer bearer abc.def-123", "bearer bearer [redacted]"),
            ("Authorization: abc.def-123", "Authorization: [redacted]"),
            ("Bearer abcdefghijklmnopqrstuvwx", "Bearer [redacted]"),
            (
                r#"{"api_key":"hunter2hunter2"}"#,
                r#"{"api_key":"[redacted]"}"#,
            ),
            ("X-Api-Key: canary0123", "X-Api-Key: [redacted]"),
            ("postgres://me:pass1@db/x", "postgres://me:[redacted]@db/x"),
            (
                "https://h/f?sig=abc%2F123&x=1",
                "https://h/f?sig=[redacted]&x=1",
            ),
            (
                "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "AWS_SECRET_ACCESS_KEY=[redacted]",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nrest",
                "[redacted]\nrest",
            ),
        ] {
            assert_eq!(Redactor::default().text(text), expected);
        }
    }

    #[test]
    fn ordinary_text_is_not_redacted() {
        for text in [
            "the bearer certificates of the risk-assessment-committee",
            "ask-me-anything, task-force-of-the-year, desk-lamp-with-a-long-name",
            r#"{"type":"object","properties":{"api_key":{"type":"string"},"password":{"type":"string"}}}"#,
            "call_0190a0000000700080000000000000ff_a0_1_0",
        ] {
            assert_eq!(Redactor::default().text(text), text);
        }
    }

    #[test]
    fn a_known_value_is_redacted_in_escaped_form_too() {
        let redactor = Redactor::new(["pa\"ss\nword", "abc"]);
        let text = r#"{"a":"pa\"ss\nword","b":"{\"c\":\"pa\\\"ss\\nword\"}"} abc"#;
        let clean = redactor.text(text).into_owned();
        assert_eq!(
            clean,
            r#"{"a":"[redacted]","b":"{\"c\":\"[redacted]\"}"} abc"#
        );
        assert!(!format!("{redactor:?}").contains("word"));
    }

    #[test]
    fn combined_redactors_remove_what_each_removes_without_duplicates() {
        let of = |value: &str, pattern: &str| {
            Redactor::new([value]).with_patterns([Regex::new(pattern).unwrap()])
        };
        let both = of("open sesame", "A-\\d").and(of("open sesame street", "B-\\d"));
        let both = both.clone().and(both);
        let text = "open sesame street, open sesame, A-1 and B-2";
        let clean = "[redacted], [redacted], [redacted] and [redacted]";
        assert_eq!(both.text(text), clean);
        assert_eq!((both.values.len(), both.patterns.len()), (2, 2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_secret_split_across_pieces_is_redacted_and_no_piece_is_lost(
            before in "[a-z ]{0,12}",
            after in "[ .,][a-z ]{0,12}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = format!("{before} sk-canary0123456789{after}");
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut pieces: Vec<String> = cuts.windows(2).map(|pair| text[pair[0]..pair[1]].to_owned()).collect();
            Redactor::default().pieces(&mut pieces.iter_mut().collect::<Vec<_>>());
            prop_assert_eq!(pieces.concat(), format!("{before} [redacted]{after}"));
            prop_assert_eq!(pieces.len(), cuts.len() - 1);
        }

        #[test]
        fn redacting_twice_changes_nothing_more(text in "(Authorization: |Bearer |token |api_key: |&sig=|sk-|\"|\\\\|\\n|[a-z0-9.]{1,9}|api_key=|eyJ|://a:|@){0,12}") {
            let redactor = Redactor::new(["a1b2", "redacted"]);
            let once = redactor.text(&text).into_owned();
            prop_assert_eq!(redactor.text(&once).into_owned(), once);
        }
    }
}
