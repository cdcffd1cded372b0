//! Parts of texts that differ between two otherwise equal runs: ids, times and dates.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::MatchLevel;

/// The ids of tool calls that the loop assigns, wherever a text repeats one.
static CALL_IDS: LazyLock<Option<Regex>> =
    LazyLock::new(|| compiled(r"\bcall_([0-9a-f]{32})_(a[0-9]+_[0-9]+_[0-9]+)\b"));

/// UUIDs, with their hyphens.
static UUIDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
});

/// Times and dates, longest form first: RFC 3339 and its parts, clock times, dates in English, weekdays, and Unix times
/// in seconds or milliseconds from 2017 on.
static TIMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let month = "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?\
        |Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)";
    let clock = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?";
    compiled(&[
        format!(r"\b[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[T ]{clock}(?: ?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}}))?)?"),
        format!(r"\b{clock}\b(?: ?[AaPp]\.?[Mm]\b)?"),
        format!(r"\b[0-9]{{1,2}} {month} [0-9]{{4}}\b"),
        format!(r"\b{month} [0-9]{{1,2}}, [0-9]{{4}}\b"),
        r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b".to_owned(),
        r"\b(?:1[5-9]|2[0-9])[0-9]{8}(?:[0-9]{3})?\b".to_owned(),
    ]
    .join("|"))
});

/// Replaces what differs between runs; within one request, equal ids get the same name.
#[derive(Debug, Default)]
pub(super) struct Volatile {
    names: HashMap<String, usize>,
}

impl Volatile {
    pub(super) fn replaced<'a>(&mut self, text: &'a str, how: MatchLevel) -> Cow<'a, str> {
        let text = self.numbered(Cow::Borrowed(text), &CALL_IDS);
        match how {
            MatchLevel::Exact => text,
            MatchLevel::WithoutVolatile => {
                let text = self.numbered(text, &UUIDS);
                replace(text, &TIMES, |_| "<time>".to_owned())
            }
        }
    }

    /// Replaces ids with numbers, in order of appearance.
    fn numbered<'a>(&mut self, text: Cow<'a, str>, ids: &Option<Regex>) -> Cow<'a, str> {
        replace(text, ids, |found| {
            let id = found.get(0).map_or("", |id| id.as_str());
            let next = self.names.len() + 1;
            let number = self.names.entry(id.to_owned()).or_insert(next);
            format!("<id {number}>")
        })
    }
}

fn replace<'a>(
    text: Cow<'a, str>,
    what: &Option<Regex>,
    with: impl FnMut(&Captures<'_>) -> String,
) -> Cow<'a, str> {
    let Some(what) = what else { return text };
    match what.replace_all(&text, with) {
        Cow::Borrowed(_) => text,
        Cow::Owned(replaced) => Cow::Owned(replaced),
    }
}

fn compiled(expression: &str) -> Option<Regex> {
    // A test checks that every expression is valid.
    Regex::new(expression).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_is_valid() {
        assert!(CALL_IDS.is_some() && UUIDS.is_some() && TIMES.is_some());
    }

    #[test]
    fn the_same_id_gets_the_same_placeholder_everywhere() {
        let mut volatile = Volatile::default();
        let (one, other) = (
            "0190a000-0000-7000-8000-0000000000ff",
            "0190a000-0000-7000-8000-0000000000ee",
        );
        let text = format!("{one} {other}");
        assert_eq!(
            volatile.replaced(&text, MatchLevel::WithoutVolatile),
            "<id 1> <id 2>"
        );
        assert_eq!(
            volatile.replaced(other, MatchLevel::WithoutVolatile),
            "<id 2>"
        );
        assert_eq!(volatile.replaced(other, MatchLevel::Exact), other);
    }
}
