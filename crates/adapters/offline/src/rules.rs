//! The rules: which tool a question asks for, and with which arguments. One file per tool.

mod calculate;
mod current_time;
mod list_files;
mod read_file;
mod search_files;
mod system_health;

use neuraxis_core::{JsonText, ToolSpec};
use serde_json::{Map, Value};

use crate::question::{ParsedMessage, is_among};

/// When and how to call one tool.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The name of the tool.
    pub(crate) tool: &'static str,
    /// A channel that offers the tool by default.
    pub(crate) channel: &'static str,
    /// Returns whether the question asks for the tool.
    fits: fn(&ParsedMessage) -> bool,
    /// Reads the tool's arguments from the question.
    pub(crate) arguments: fn(&ParsedMessage) -> Map<String, Value>,
}

/// Rules about files. Only the first match applies: a file can have any name, so a question about one may contain any
/// keyword of the other rules.
const ABOUT_FILES: [Rule; 3] = [search_files::RULE, list_files::RULE, read_file::RULE];

/// Rules about this machine. Every match applies.
const ABOUT_THE_MACHINE: [Rule; 2] = [current_time::RULE, system_health::RULE];

/// Returns the rules that a question matches.
pub(crate) fn fitting(question: &ParsedMessage) -> Vec<&'static Rule> {
    // Its rule reads the whole message, so no other can be meant.
    match (calculate::RULE.fits)(question) {
        true => vec![&calculate::RULE],
        false => on_topic(question),
    }
}

/// Returns the rules that a question matches by its topic, which a follow-up such as "And in New York?" shares.
pub(crate) fn on_topic(question: &ParsedMessage) -> Vec<&'static Rule> {
    let about_files = ABOUT_FILES.iter().find(|rule| (rule.fits)(question));
    match about_files {
        Some(rule) => vec![rule],
        None => ABOUT_THE_MACHINE
            .iter()
            .filter(|rule| (rule.fits)(question))
            .collect(),
    }
}

/// Returns the rule of a tool.
pub(crate) fn of(tool: &str) -> Option<&'static Rule> {
    ABOUT_FILES
        .iter()
        .chain(&ABOUT_THE_MACHINE)
        .chain([&calculate::RULE])
        .find(|rule| rule.tool == tool)
}

/// Returns whether a lower-case word points to a tool about this machine.
pub(crate) fn is_keyword(word: &str) -> bool {
    system_health::is_keyword(word) || is_among(word, current_time::KEYWORDS)
}

/// Returns whether a word names a time zone, which looks like a path but is not one.
pub(crate) fn is_time_zone(word: &str) -> bool {
    current_time::is_time_zone(word)
}

/// Builds arguments from the values that are present.
fn arguments<const N: usize>(all: [(&str, Option<Value>); N]) -> Map<String, Value> {
    all.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Encodes arguments, without those that the tool does not have.
pub(crate) fn known_arguments(mut arguments: Map<String, Value>, tool: &ToolSpec) -> JsonText {
    if let Some(Value::Object(known)) = parse(tool).get("properties") {
        arguments.retain(|name, _| known.contains_key(name));
    }
    JsonText::from_text(Value::Object(arguments).to_string())
}

/// Returns the tool's required arguments.
pub(crate) fn required(tool: &ToolSpec) -> Vec<String> {
    let schema = parse(tool);
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the tool's required argument, if there is exactly one and it is a string.
pub(crate) fn only_text(tool: &ToolSpec) -> Option<String> {
    let [name] = <[String; 1]>::try_from(required(tool)).ok()?;
    let is_text = parse(tool).get("properties")?.get(&name)?.get("type")? == "string";
    is_text.then_some(name)
}

fn parse(tool: &ToolSpec) -> Value {
    tool.parameters.decode().unwrap_or_default()
}
