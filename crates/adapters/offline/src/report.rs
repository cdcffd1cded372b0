//! Tells what tools returned, in plain language.

mod value;

use neuraxis_core::ToolMessage;
use serde_json::Value;

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
fn not_json(result: &ToolMessage) -> Lines {
    let mut told = Lines::default();
    told.text(result.content.as_str(), "");
    told
}

/// Returns the message of a result that is nothing but an error.
fn failure(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields.get("error")?.as_str()
}

/// The most lines that are told of one result.
const MAX_LINES: usize = 200;

/// The lines that are told of one result: a limited number, the rest only counted.
#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    more: usize,
}

impl Lines {
    /// Adds a line, made only if there is room for it.
    fn line(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < MAX_LINES {
            self.lines.push(line());
        } else {
            self.more += 1;
        }
    }

    /// Adds the lines of a text, cleaned and indented.
    fn text(&mut self, text: &str, indent: &str) {
        for line in text.lines() {
            self.line(|| format!("{indent}{}", clean::indented_line(line)));
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Tells whether a line that was told contains the text.
    fn contains(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// Returns all lines, with a last one that says how many are missing.
    fn into_text(self) -> String {
        let more = (self.more > 0).then(|| format!("… and {} more lines", self.more));
        self.lines
            .into_iter()
            .chain(more)
            .collect::<Vec<_>>()
            .join("\n")
    }
}
