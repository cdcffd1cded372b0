//! Describes tool results in plain language.

mod lines;
mod value;

use neuraxis_core::ToolMessage;
use serde_json::Value;

use self::lines::Lines;
use crate::clean;

/// The last line of every answer.
pub(crate) const CLOSING: &str = "(Answered offline by fixed rules, without a language model.)";

/// Describes results in the order of their calls.
pub(crate) fn report(results: &[&ToolMessage]) -> String {
    let mut paragraphs: Vec<String> = results
        .iter()
        .map(|result| describe(result, results.len() > 1))
        .collect();
    paragraphs.push(CLOSING.to_owned());
    paragraphs.join("\n\n")
}

fn describe(result: &ToolMessage, among_others: bool) -> String {
    let name = clean::line(&result.name);
    let value: Option<Value> = result.content.decode().ok();
    if let Some(error) = value.as_ref().and_then(failure) {
        return format!("{name} failed: {}", clean::line(error));
    }
    let lines = value
        .as_ref()
        .map_or_else(|| not_json(result), value::describe);
    match (lines.is_empty(), among_others) {
        (true, _) => format!("{name} returned nothing."),
        (false, true) => format!("{name}:\n{}", lines.into_text()),
        (false, false) => lines.into_text(),
    }
}

/// Describes a result that should be JSON but is not.
fn not_json(result: &ToolMessage) -> Lines {
    let mut lines = Lines::default();
    lines.text(result.content.as_str(), "");
    lines
}

/// Returns the error message of a result that contains only an error.
fn failure(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.get("error")?.as_str()
}
