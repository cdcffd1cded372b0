//! Matches of a deployment's own patterns. In JSON only strings and long numbers are searched: an expression such as
//! `CUST-.*` does not know where a string ends, and the result must still be JSON.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::{Edit, REDACTED, Redactor, literals, merged};

/// The minimum number of digits of a number that is searched: programs read shorter ones as counts and measurements.
const MIN_DIGITS: usize = 9;

impl Redactor {
    /// Finds the matches of patterns, sorted and not overlapping.
    pub(super) fn matches(&self, text: &str, nesting: u8) -> Vec<Edit> {
        if self.patterns.is_empty() {
            return Vec::new();
        }
        match nesting > 0 && is_json(text) {
            true => self.matches_in_json(text, nesting),
            false => self.matches_in_text(text),
        }
    }

    fn matches_in_text(&self, text: &str) -> Vec<Edit> {
        // Earlier replacements are not searched again.
        let taken: Vec<Range<usize>> = text
            .match_indices(REDACTED)
            .map(|(start, found)| start..start + found.len())
            .collect();
        let is_new = |found: &Range<usize>| {
            let holds = |taken: &Range<usize>| taken.start <= found.start && found.end <= taken.end;
            !found.is_empty() && !taken.iter().any(holds)
        };
        let matches = self.patterns.iter();
        let matches = matches.flat_map(|pattern| pattern.find_iter(text));
        // A match that begins or ends within an earlier replacement is extended over all of it.
        let whole = |found: Range<usize>| {
            let touched = taken
                .iter()
                .filter(|it| it.start < found.end && found.start < it.end);
            touched.fold(found.clone(), |found, it| {
                found.start.min(it.start)..found.end.max(it.end)
            })
        };
        let found = matches.map(|found| found.range()).filter(is_new).map(whole);
        let edits = merged(found.collect()).into_iter();
        edits.map(|range| (range, REDACTED.to_owned())).collect()
    }

    fn matches_in_json(&self, text: &str, nesting: u8) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut at = 0;
        for literal in literals(text) {
            edits.extend(self.numbers(text, at..literal.start));
            at = literal.end;
            edits.extend(self.in_literal(text, literal, nesting));
        }
        edits.extend(self.numbers(text, at..text.len()));
        edits
    }

    /// Returns a JSON string without its matches, if it has any.
    fn in_literal(&self, text: &str, literal: Range<usize>, nesting: u8) -> Option<Edit> {
        let written = text.get(literal.clone())?;
        let said: String = serde_json::from_str(written).ok()?;
        let found = self.matches(&said, nesting - 1);
        if found.is_empty() {
            return None;
        }
        let clean = serde_json::to_string(&super::edited(&said, &found)).ok()?;
        Some((literal, clean))
    }

    /// Finds matching long numbers between the strings of JSON. A string replaces each.
    fn numbers(&self, text: &str, between: Range<usize>) -> Vec<Edit> {
        let start = between.start;
        let between = text.get(between).unwrap_or_default();
        let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        let mut edits = Vec::new();
        let mut at = 0;
        for token in between.split(|character: char| !u8::try_from(character).is_ok_and(is_part)) {
            let range = start + at..start + at + token.len();
            // The separator is one byte: JSON outside strings is all ASCII.
            at += token.len() + 1;
            let digits = token.bytes().filter(u8::is_ascii_digit).count();
            let matches = |token: &str| {
                let mut found = self.patterns.iter().flat_map(|it| it.find_iter(token));
                found.any(|found| !found.is_empty())
            };
            if digits >= MIN_DIGITS && matches(token) {
                edits.push((range, format!("\"{REDACTED}\"")));
            }
        }
        edits
    }
}

/// Returns whether a string is a JSON object, list or string.
fn is_json(text: &str) -> bool {
    let begins = text.trim_start().starts_with(['{', '[', '"']);
    begins && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use serde_json::Value;

    use super::*;

    fn redactor(patterns: &[&str]) -> Redactor {
        let patterns = patterns.iter().map(|it| Regex::new(it).unwrap());
        Redactor::new(["open sesame"]).with_patterns(patterns)
    }

    #[test]
    fn an_unbounded_pattern_stops_at_the_end_of_its_json_string() {
        let text = r#"{ "a": "of CUST-1, today", "b": ["CUST-2"], "c": "{\"d\":\"CUST-3\",\"e\":1}", "f": 1.50 }"#;
        let clean = redactor(&["CUST-.*"]).text(text).into_owned();
        assert_eq!(
            clean,
            r#"{ "a": "of [redacted]", "b": ["[redacted]"], "c": "{\"d\":\"[redacted]\",\"e\":1}", "f": 1.50 }"#
        );
        serde_json::from_str::<Value>(&clean).unwrap();
        let prose = "of CUST-1, today\nand more";
        assert_eq!(
            redactor(&["CUST-.*"]).text(prose),
            "of [redacted]\nand more"
        );
    }

    #[test]
    fn a_pattern_matches_through_json_escapes() {
        let text = r#"{"a":"caf\u00e9 17"}"#;
        assert_eq!(redactor(&["café \\d+"]).text(text), r#"{"a":"[redacted]"}"#);
    }

    #[test]
    fn a_matching_long_number_becomes_a_string_and_a_short_one_is_kept() {
        let text = r#"{"card":4111111111111111,"turn":4111,"list":[-4111111111111111,2]}"#;
        assert_eq!(
            redactor(&[r"4\d+"]).text(text),
            r#"{"card":"[redacted]","turn":4111,"list":["[redacted]",2]}"#
        );
    }

    #[test]
    fn redacted_text_is_not_matched_again_and_empty_matches_are_ignored() {
        let greedy = redactor(&[r"\w+", "x*"]);
        let once = greedy.text("say open sesame").into_owned();
        assert_eq!(once, "[redacted] [redacted]");
        assert_eq!(greedy.text(&once), once);
        assert_eq!(greedy.text(""), "");
    }

    #[test]
    fn a_match_across_pieces_is_redacted_and_the_piece_count_is_kept() {
        let mut pieces = [r#"{"a":"CU"#, r#"ST-1 and","#, r#""b":2}"#].map(str::to_owned);
        redactor(&["CUST-.*"]).pieces(&mut pieces.iter_mut().collect::<Vec<_>>());
        assert_eq!(pieces.concat(), r#"{"a":"[redacted]","b":2}"#);
    }
}
