//! When to search files, and for what.

use serde_json::{Map, Value};

use super::{Rule, arguments};
use crate::question::ParsedMessage;

pub(super) const RULE: Rule = Rule {
    tool: "search_files",
    channel: "code_task",
    fits,
    arguments: read,
};

const VERBS: &str = "search find grep locate look";

/// Words that introduce the search pattern.
const MARKERS: &str = "for containing contain contains mentioning mention where";

/// Words before the search pattern that are not part of it.
const FILLERS: &str = "the a an all any every text word phrase string pattern occurrences occurrence mentions uses usages \
    places of me is are where";

/// Words that end the search pattern and introduce the place to search.
const ENDS: &str = "in under inside within below";

/// Participles that end the search pattern, as in "where is X defined".
const PARTICIPLES: &str = "is are defined declared implemented used mentioned called";

fn fits(question: &ParsedMessage) -> bool {
    let asks = question.has_any(VERBS) || asks_where(question);
    let elsewhere = question.has_any("web internet online google");
    // "Find all files" asks for names unless it says what the files should contain.
    let names_only = question.has_any("files folders")
        && question.quoted().is_none()
        && !question.has_any(MARKERS);
    asks && !elsewhere && !names_only && pattern(question).is_some()
}

fn asks_where(question: &ParsedMessage) -> bool {
    question.position("where") == Some(0)
        && question
            .words
            .get(1)
            .is_some_and(|word| word.is_among("is are"))
}

fn read(question: &ParsedMessage) -> Map<String, Value> {
    let pattern = pattern(question);
    let path = question.place_after(ENDS).filter(|place| {
        question
            .quoted()
            .is_none_or(|quoted| !quoted.contains(place))
    });
    let path = path.or_else(|| question.path_outside(pattern.as_deref().unwrap_or_default()));
    // Quoted text is meant literally; elsewhere a capital letter may only begin a sentence.
    let case = question.quoted().is_none().then_some("insensitive");
    arguments([
        ("pattern", pattern.map(Value::from)),
        ("syntax", Some("plain".into())),
        ("case", case.map(Value::from)),
        ("path", path.map(Value::from)),
        ("glob", question.glob().map(Value::from)),
    ])
}

fn pattern(question: &ParsedMessage) -> Option<String> {
    if let Some(quoted) = question.quoted() {
        return Some(quoted.to_owned());
    }
    let is_grep = question.position("grep") == Some(0);
    let words = question.words.get(begin(question)?..)?;
    let end = words
        .iter()
        .rposition(|word| word.is_among(ENDS))
        .unwrap_or(words.len());
    let words = words
        .get(..end)?
        .iter()
        .skip_while(|word| word.is_among(FILLERS));
    let words = words.take_while(|word| !(question.has_any("where") && word.is_among(PARTICIPLES)));
    // The command takes one word, followed by a path.
    let words = words
        .take(if is_grep { 1 } else { usize::MAX })
        .map(|word| word.text.as_str());
    let pattern = words.collect::<Vec<_>>().join(" ");
    (!pattern.is_empty()).then_some(pattern)
}

/// Finds where the search pattern begins: after a marker that follows the verb, or else after the verb.
fn begin(question: &ParsedMessage) -> Option<usize> {
    if asks_where(question) {
        return Some(2);
    }
    let verb = question.position(VERBS)?;
    let marker = question.position(MARKERS).filter(|marker| *marker > verb);
    Some(marker.unwrap_or(verb) + 1)
}
