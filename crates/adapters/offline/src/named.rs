//! Calls of tools that the message names.

use neuraxis_core::{JsonText, ToolSpec};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Map, Value};

use crate::answer::Call;
use crate::question::ParsedMessage;
use crate::rules;

/// Builds the call of a tool that the message names. The arguments are the first of these: the JSON object that follows
/// the name; what the tool's rule reads from the message; the text that follows the name, if the tool needs exactly
/// one.
pub(crate) fn call(question: &ParsedMessage, tool: &ToolSpec) -> Option<Call> {
    let rest = after_name(&question.text, tool.name.as_str())?;
    let by_rule = || {
        let read = rules::of(tool.name.as_str()).map(|rule| (rule.arguments)(question));
        read.filter(|arguments| !arguments.is_empty())
    };
    let arguments = json(rest).unwrap_or_else(|| {
        let read = by_rule().unwrap_or_else(|| only_text(rest, tool));
        rules::known_arguments(read, tool)
    });
    Some(Call {
        tool: tool.name.clone(),
        arguments,
    })
}

/// Returns the text after the name, if the name appears as a separate word.
fn after_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(name).find_map(|(start, _)| {
        let before = text.get(..start)?.chars().next_back();
        let rest = text.get(start + name.len()..)?;
        let part_of_more = before.is_some_and(|c| goes_on(c) || matches!(c, '/' | '.'))
            || rest.starts_with(goes_on);
        (!part_of_more).then_some(rest)
    })
}

/// Returns the JSON object at the beginning of a text. A malformed object is returned unchanged, up to the end of the
/// text: it then causes the same error as any model's arguments.
fn json(rest: &str) -> Option<JsonText> {
    let rest = rest
        .trim_start_matches(['`', '"', '\'', ':', '('])
        .trim_start();
    if !rest.starts_with('{') {
        return None;
    }
    let first = Deserializer::from_str(rest).into_iter::<&RawValue>().next();
    let text = first.and_then(Result::ok).map_or(rest, RawValue::get);
    Some(JsonText::from_text(text))
}

fn only_text(rest: &str, tool: &ToolSpec) -> Map<String, Value> {
    let quotes: &[_] = &['`', '"', '\'', ':'];
    let rest = rest.trim_start_matches(quotes).trim().trim_matches(quotes);
    let name = rules::only_text(tool).filter(|_| !rest.is_empty());
    name.map(|name| (name, Value::from(rest)))
        .into_iter()
        .collect()
}
