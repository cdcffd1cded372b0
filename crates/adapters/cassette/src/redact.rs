//! Takes secrets out of texts: values that are known, and whatever has the shape of one.
//!
//! **For** everything that goes into a file or an error message. A text is searched as it is and inside its JSON string
//! literals, so that an escaped line break before a key does not hide it; pieces of one text are searched together, so
//! that a key that arrives in two deltas is found. What is found becomes [`REDACTED`] and is not found again.
//! Patterns of a deployment's own are searched too: in JSON inside its strings and long numbers, so that it stays JSON.
//!
//! **Not for** proving that a text holds no secret: what is neither given nor has a known shape stays,
//! and the base64 content of media is not looked into.

mod parts;
mod patterns;
mod shapes;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use regex::Regex;

/// What stands in the place of a secret.
pub const REDACTED: &str = "[redacted]";

/// The fewest bytes of a value that is taken for a secret: a shorter one would be found in ordinary words.
pub const MIN_SECRET_BYTES: usize = 4;

/// How deep JSON texts inside JSON strings are looked into.
const MAX_NESTING: u8 = 4;

/// Takes secrets out of texts.
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
    /// The values in every form they are searched in, longest first.
    values: Vec<String>,
    /// What a deployment wants out besides.
    patterns: Vec<Regex>,
}

/// How often a text is searched at most: what is taken out can bring a secret next to what tells it is one.
const MAX_PASSES: u8 = 8;

/// A range of a text and what is to stand there instead.
type Edit = (Range<usize>, String);

impl Redactor {
    /// Takes the secret values that are known, such as the keys of the configured models. Well-known shapes are always
    /// found. Values of fewer than [`MIN_SECRET_BYTES`] bytes are left out.
    pub fn new(values: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let values = values.into_iter().map(|value| value.as_ref().to_owned());
        let values = values.filter(|value: &String| {
            // What stands in the place of a secret must not be found as one.
            value.len() >= MIN_SECRET_BYTES && !REDACTED.contains(value.as_str())
        });
        Self {
            values: longest_first(values.flat_map(forms).collect()),
            patterns: Vec::new(),
        }
    }

    /// Takes out what another one does, too.
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

    /// Takes out what matches one of these, too. In a text that is JSON they are searched in each string and each number of
    /// nine digits or more, so that `CUST-.*` ends where its string does.
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

    /// Looks for no patterns any more: for a text of a form other than JSON in which they were searched piece by piece.
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

    /// Tells whether a text holds a value that is known.
    pub(crate) fn knows(&self, text: &str) -> bool {
        let mut values = self.values.iter();
        values.any(|value| text.contains(value.as_str()))
    }

    /// Returns a clean text without what is found in its lines alone, as a recording holds it, which has each on a line of its
    /// own: patterns search a part of JSON as prose.
    pub(crate) fn each_line<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.patterns.is_empty() || !text.contains('\n') {
            return Cow::Borrowed(text);
        }
        let lines = text.split_inclusive('\n').map(|line| self.text(line));
        Cow::Owned(lines.collect())
    }

    /// Returns JSON without the secrets that its strings hold, each searched alone. Its keys and numbers stay, and so does what
    /// stands behind a key that is said to hold a word of the format: a secret may be one, too.
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

    /// Takes secrets out of a text that came in pieces; as many pieces stay.
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

    /// Finds secrets in the text as it stands.
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
            // Without an escape the literal shows what it holds, and is searched as text.
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

/// Sorts ranges, and makes one of those that overlap.
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

/// A value as it is, and as it looks inside a JSON string.
fn forms(value: String) -> Vec<String> {
    let escaped = serde_json::to_string(&value).unwrap_or_default();
    let escaped = escaped.get(1..escaped.len().saturating_sub(1));
    let escaped = escaped
        .filter(|escaped| *escaped != value)
        .map(str::to_owned);
    std::iter::once(value).chain(escaped).collect()
}

/// Finds what stands between double quotes, the quotes included.
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

/// Makes edits, sorted and apart from each other, in a text that consists of pieces. What replaces a range goes into the
/// piece that the range begins in.
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

/// Puts values into the order in which they are searched, each once: a longer one may hold a shorter one.
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
    fn well_known_shapes_are_found_wherever_they_stand() {
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
    fn what_names_itself_a_secret_is_found() {
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
    fn ordinary_text_stays_as_it_is() {
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
    fn a_known_value_is_found_with_its_escapes_too() {
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
    fn two_take_out_what_each_does_and_hold_nothing_twice() {
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
        fn a_secret_in_pieces_is_found_and_no_piece_is_lost(
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
