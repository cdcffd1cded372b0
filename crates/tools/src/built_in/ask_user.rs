//! The tool `ask_user`.

use std::fmt::Write;
use std::sync::Arc;

use neuraxis_core::{JsonText, ToolClass, ToolOutput, ToolSignal};
use neuraxis_ports::{Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::function::{DefinitionError, FunctionTool};

/// The maximum length of a question, and of each suggested answer, in characters.
const QUESTION_MAX_CHARS: usize = 2_000;
/// The maximum number of suggested answers to one question.
const QUESTION_MAX_OPTIONS: usize = 10;

const DESCRIPTION: &str = "Asks the user a question, which ends the run. The answer comes as the user's next message. \
    Use it only when you cannot continue without something that only the user knows or can decide, and that no other \
    tool can find out. Ask one short, self-contained question. Do not use it to ask for permission: calls that need \
    approval are shown to the user automatically.";

/// Creates `ask_user`: the run ends with a question as its reply.
///
/// # Errors
///
/// The errors of [`FunctionTool::new`], which the current definition never causes.
pub fn ask_user() -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = FunctionTool::with_output(
        "ask_user",
        DESCRIPTION,
        |arguments: Arguments, _ctx| async move { ask(&arguments) },
    )?;
    Ok(tool.class(ToolClass::ReadOnly).never_blocks().build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The question, in the user's language.
    question: String,
    /// Suggested answers for the user to choose from, at most 10. Omit for an open question.
    options: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
struct AskedQuestion<'a> {
    question: &'a str,
    summary: String,
}

fn ask(arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let question = text_of(arguments)?;
    let asked = AskedQuestion {
        question: &question,
        summary: format!("Asked the user: {question}"),
    };
    let value = JsonText::encode(&asked).map_err(|error| {
        ToolError::permanent(format!("the question cannot be written as JSON: {error}"))
    })?;
    let mut output = ToolOutput::new(value);
    output.signal = Some(ToolSignal::Clarify { question });
    Ok(output)
}

/// Returns the text for the user: the question, then the suggested answers, one per line.
fn text_of(arguments: &Arguments) -> Result<String, ToolError> {
    let mut text = bounded("the question", &arguments.question)?.to_owned();
    let options = arguments.options.as_deref().unwrap_or_default();
    if options.len() > QUESTION_MAX_OPTIONS {
        return Err(ToolError::permanent(format!(
            "there are {} options; propose at most {QUESTION_MAX_OPTIONS}",
            options.len()
        )));
    }
    for (number, option) in (1..).zip(options) {
        let option = bounded(&format!("option {number}"), option)?;
        let _never_fails = write!(text, "\n{number}. {option}");
    }
    Ok(text)
}

fn bounded<'a>(what: &str, text: &'a str) -> Result<&'a str, ToolError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ToolError::permanent(format!("{what} is empty")));
    }
    if text.chars().nth(QUESTION_MAX_CHARS).is_some() {
        return Err(ToolError::permanent(format!(
            "{what} is longer than {QUESTION_MAX_CHARS} characters; shorten it"
        )));
    }
    Ok(text)
}
