//! Tells what tools returned, in plain language.

mod told;
mod value;

use neuraxis_core::ToolMessage;
use serde_json::Value;

use self::told::Told;
use crate::clean;

/// How every answer ends.
pub(crate) const CLOSING: &str = "(Answered offline by fixed rules, without a language model.)";

/// Tells results, in the order of their calls.
pub(crate) fn report(results: &[&ToolMessage]) -> String {
    let mut paragraphs: Vec<String> = results
        .iter()
        .map(|result| tell(result, results.len() > 1))
        .collect();
    paragraphs.push(CLOSING.to_owned());
    paragraphs.join("\n\n")
}

fn tell(result: &ToolMessage, among_others: bool) -> String {
    let name = clean::line(&result.name);
    let value: Option<Value> = result.content.decode().ok();
    if let Some(error) = value.as_ref().and_then(failure) {
        return format!("{name} failed: {}", clean::line(error));
    }
    let told = value.as_ref().map_or_else(|| not_json(result), value::tell);
    match (told.is_empty(), among_others) {
        (true, _) => format!("{name} returned nothing."),
        (false, true) => format!("{name}:\n{}", told.into_text()),
        (false, false) => told.into_text(),
    }
}

/// Tells what should be JSON and is not.
fn not_json(result: &ToolMessage) -> Told {
    let mut told = Told::default();
    told.text(result.content.as_str(), "");
    told
}

/// Returns the message of a result that is nothing but an error.
fn failure(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.get("error")?.as_str()
}
