//! When to read a file, and which lines of it.

use serde_json::{Map, Value};

use super::{Rule, arguments};
use crate::question::ParsedMessage;

pub(super) const RULE: Rule = Rule {
    tool: "read_file",
    channel: "code_task",
    fits,
    arguments: read,
};

const VERBS: &str =
    "read open show cat print display view see head what what's content contents summarize";

fn fits(question: &ParsedMessage) -> bool {
    question.has_any(VERBS) && (question.file().is_some() || asks_for_quoted(question))
}

/// Returns whether the message gives the file to read in quotation marks, as in `read "my notes"`.
fn asks_for_quoted(question: &ParsedMessage) -> bool {
    let verb = question.words.first();
    verb.is_some_and(|verb| verb.is_among("read open cat")) && question.quoted().is_some()
}

fn read(question: &ParsedMessage) -> Map<String, Value> {
    let path = question.quoted().or_else(|| question.file());
    let (start, count) = lines(question);
    arguments([
        ("path", path.map(Value::from)),
        ("start_line", start.map(Value::from)),
        ("line_count", count.map(Value::from)),
    ])
}

/// Parses "line 5", "lines 10-20", "lines 10 to 20", "from line 10" and "first 20 lines" into the first line and the
/// number of lines.
fn lines(question: &ParsedMessage) -> (Option<u64>, Option<u64>) {
    let Some(place) = question.position("line lines") else {
        return (None, None);
    };
    let before = |distance: usize| question.words.get(place.checked_sub(distance)?);
    if before(2).is_some_and(|word| word.is_among("first top")) {
        return (None, before(1).and_then(|word| positive(&word.text)));
    }
    let following = question.words.iter().skip(place + 1);
    let following = following.filter(|word| !word.is_among("to through until and"));
    let mut numbers = following
        .flat_map(|word| word.text.split(['-', '–']))
        .map_while(positive);
    match (numbers.next(), numbers.next()) {
        (Some(first), Some(last)) => (
            Some(first),
            Some(last.saturating_sub(first).saturating_add(1)),
        ),
        (Some(first), None) if before(1).is_some_and(|word| word.is_among("from")) => {
            (Some(first), None)
        }
        (Some(only), None) => (Some(only), Some(1)),
        (None, _) => (None, None),
    }
}

fn positive(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| *number > 0)
}
