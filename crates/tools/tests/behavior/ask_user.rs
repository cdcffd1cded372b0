//! `ask_user` ends the run with a question.

use neuraxis_core::{JsonText, ToolOutput, ToolSignal};
use neuraxis_ports::ToolError;
use serde_json::{Value, json};

use crate::support::{accepts, context};

async fn ask(arguments: Value) -> Result<ToolOutput, ToolError> {
    let tool = neuraxis_tools::ask_user().unwrap();
    assert!(accepts(tool.as_ref(), &arguments), "{arguments}");
    let arguments = JsonText::from_text(arguments.to_string());
    tool.call(arguments, context()).await
}

#[tokio::test]
async fn the_question_ends_the_run() {
    let output = ask(json!({ "question": " Which branch? " })).await.unwrap();
    let question = "Which branch?".to_owned();
    assert_eq!(output.signal, Some(ToolSignal::Clarify { question }));
    assert_eq!(
        output.value.as_str(),
        r#"{"question":"Which branch?","summary":"Asked the user: Which branch?"}"#
    );
}

#[tokio::test]
async fn options_are_numbered_below_the_question() {
    let output = ask(json!({ "question": "Which?", "options": ["main", "release"] })).await;
    let question = "Which?\n1. main\n2. release".to_owned();
    assert_eq!(
        output.unwrap().signal,
        Some(ToolSignal::Clarify { question })
    );
}

#[tokio::test]
async fn an_invalid_question_is_refused() {
    for (arguments, expected) in [
        (json!({ "question": " " }), "the question is empty"),
        (
            json!({ "question": "x".repeat(2_001) }),
            "the question is longer than 2000 characters; shorten it",
        ),
        (
            json!({ "question": "x", "options": ["a", ""] }),
            "option 2 is empty",
        ),
        (
            json!({ "question": "x", "options": vec!["a"; 11] }),
            "there are 11 options; propose at most 10",
        ),
    ] {
        assert_eq!(ask(arguments).await.unwrap_err().message, expected);
    }
}
