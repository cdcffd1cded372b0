//! When to list files, and which files.

use serde_json::{Map, Value};

use super::{Rule, arguments};
use crate::question::ParsedMessage;

pub(super) const RULE: Rule = Rule {
    tool: "list_files",
    channel: "code_task",
    fits,
    arguments: read,
};

const VERBS: &str =
    "list show display see find what what's which are give name tell print count view";
const NOUNS: &str = "files folder folders directory directories tree";
const COMMANDS: &str = "ls dir tree";

/// Words that may come before "folder" without naming it.
const NO_NAMES: &str = "the a an my our this that each every current project and";

fn fits(question: &ParsedMessage) -> bool {
    is_command(question) || (question.has_any(VERBS) && question.has_any(NOUNS))
}

fn is_command(question: &ParsedMessage) -> bool {
    question
        .words
        .first()
        .is_some_and(|word| word.is_among(COMMANDS))
}

fn read(question: &ParsedMessage) -> Map<String, Value> {
    let path = question.place_after("in under inside within below of from");
    let path = path
        .or_else(|| named(question))
        .or_else(|| operand(question));
    let path = path.or_else(|| question.path_outside(""));
    arguments([
        ("path", path.map(Value::from)),
        ("glob", question.glob().map(Value::from)),
    ])
}

/// Finds the name before the word "folder", as in "the src folder".
fn named(question: &ParsedMessage) -> Option<&str> {
    question.words.windows(2).find_map(|pair| {
        let [name, noun] = pair else { return None };
        let names =
            noun.is_among("folder directory") && !name.is_among(NO_NAMES) && !name.is_among(VERBS);
        names.then_some(name.text.as_str())
    })
}

/// Finds the operand of a command, as in "ls src".
fn operand(question: &ParsedMessage) -> Option<&str> {
    let second = question.words.get(1).filter(|_| is_command(question))?;
    let is_path = !second.text.starts_with('-') && !second.is_glob();
    is_path.then_some(second.text.as_str())
}
