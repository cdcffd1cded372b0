//! When to tell the time.

use serde_json::{Map, Value};

use super::{Rule, arguments};
use crate::question::{ParsedMessage, Word};

pub(super) const RULE: Rule = Rule {
    tool: "current_time",
    channel: "chat",
    fits: |question| question.has_any(KEYWORDS),
    arguments: read,
};

pub(super) const KEYWORDS: &str = "time date day clock weekday";

/// The areas with which names of time zones begin.
const AREAS: &str =
    "Africa America Antarctica Arctic Asia Atlantic Australia Etc Europe Indian Pacific";

/// Returns whether a word is a name such as `Europe/Berlin` or `UTC`.
pub(super) fn is_time_zone(word: &str) -> bool {
    let area = word.split_once('/').map(|(area, _)| area);
    area.is_some_and(|area| AREAS.split(' ').any(|known| known == area))
        || matches!(word, "UTC" | "GMT")
}

fn read(question: &ParsedMessage) -> Map<String, Value> {
    let mut words = question.words.iter().map(|word| &word.text);
    let zone = words.find(|word| is_time_zone(word)).cloned();
    let zone = zone.or_else(|| place(question));
    arguments([("time_zone", zone.map(Value::from))])
}

/// Finds a place after "in", as in "the time in New York". The tool decides whether the place has a time zone.
fn place(question: &ParsedMessage) -> Option<String> {
    let rest = question.words.get(question.position("in")? + 1..)?;
    // Many scripts have no upper case.
    let begins_name = |letter: char| letter.is_alphabetic() && !letter.is_lowercase();
    let is_name = |word: &&Word| word.text.starts_with(begins_name);
    let names = rest
        .iter()
        .take_while(is_name)
        .map(|word| word.text.as_str());
    let place = names.collect::<Vec<_>>().join(" ");
    (!place.is_empty()).then_some(place)
}
