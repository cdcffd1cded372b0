//! The rules: which tool a question asks for, and with which arguments. One file a tool.

mod current_time;
mod list_files;
mod read_file;
mod search_files;
mod system_health;

use neuraxis_core::{JsonText, ToolSpec};
use serde_json::{Map, Value};

use crate::question::{Question, is_among};

/// When and how to call one tool.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The name of the tool.
    pub(crate) tool: &'static str,
    /// A channel that offers the tool by default.
    pub(crate) channel: &'static str,
    /// Tells whether the question asks for it.
    fits: fn(&Question) -> bool,
    /// Reads its arguments from the question.
    pub(crate) arguments: fn(&Question) -> Map<String, Value>,
}

/// Rules about files. Only the first that fits counts: a file may be named after anything, and so a question about one
/// may hold any keyword of the others.
const ABOUT_FILES: [Rule; 3] = [search_files::RULE, list_files::RULE, read_file::RULE];

/// Rules about this machine. All that fit count.
const ABOUT_THE_MACHINE: [Rule; 2] = [current_time::RULE, system_health::RULE];

/// Returns the rules that fit a question.
pub(crate) fn fitting(question: &Question) -> Vec<&'static Rule> {
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
        .find(|rule| rule.tool == tool)
}

/// Tells whether a word, in lower case, is one that points to a tool about this machine.
pub(crate) fn is_keyword(word: &str) -> bool {
    system_health::is_keyword(word) || is_among(word, current_time::KEYWORDS)
}

/// Tells whether a word names a time zone, which looks like a path and is none.
pub(crate) fn is_time_zone(word: &str) -> bool {
    current_time::is_time_zone(word)
}

/// Makes arguments of those that are there.
fn arguments<const N: usize>(all: [(&str, Option<Value>); N]) -> Map<String, Value> {
    all.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Encodes arguments without those that the tool does not know.
pub(crate) fn known_arguments(mut arguments: Map<String, Value>, tool: &ToolSpec) -> JsonText {
    if let Some(Value::Object(known)) = parse(tool).get("properties") {
        arguments.retain(|name, _| known.contains_key(name));
    }
    JsonText::from_text(Value::Object(arguments).to_string())
}

/// Returns the arguments that the tool cannot do without.
pub(crate) fn required(tool: &ToolSpec) -> Vec<String> {
    let schema = parse(tool);
    let names = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the argument that the tool cannot do without, if there is exactly one and it is a text.
pub(crate) fn only_text(tool: &ToolSpec) -> Option<String> {
    let [name] = <[String; 1]>::try_from(required(tool)).ok()?;
    let is_text = parse(tool).get("properties")?.get(&name)?.get("type")? == "string";
    is_text.then_some(name)
}

fn parse(tool: &ToolSpec) -> Value {
    tool.parameters.decode().unwrap_or_default()
}
