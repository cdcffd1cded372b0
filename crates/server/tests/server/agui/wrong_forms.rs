//! Fields of the wrong form: the problem names the field, what was expected and what came.

use serde_json::{Value, json};

use super::hello;
use crate::support::Program;
use crate::support::client::answer;

#[tokio::test]
async fn a_field_of_the_wrong_form_is_refused_with_what_was_expected_and_what_came() {
    let program = Program::start().await;
    let client = program.client();
    let with = |field: &str, value: Value| {
        let mut more = json!({});
        more[field] = value;
        hello(more)
    };
    for (body, expected) in [
        (
            with("runId", json!(5)),
            "runId: expected a string, not the number 5",
        ),
        (
            with("tools", json!({})),
            "tools: expected a list, not an object",
        ),
        (
            with("tools", json!([{"name": ["a"]}])),
            "tools[0].name: expected a string, not a list",
        ),
        (with("tools", json!([{}])), "tools[0].name: missing"),
        (
            with("messages", json!([{"role": null}])),
            "messages[0].role: expected a string, not null",
        ),
        (
            with(
                "messages",
                json!([{"role": "user", "content": [{"type": 1}]}]),
            ),
            "messages[0].content[0].type: expected a string, not the number 1",
        ),
        (
            with("resume", json!([{"interruptId": "a", "status": "done"}])),
            "resume[0].status: expected resolved or cancelled, not \"done\"",
        ),
        (
            with("forwardedProps", json!({"agent": true})),
            "forwardedProps.agent: expected a string, not true",
        ),
        (json!({"threadId": "t"}).to_string(), "runId: missing"),
    ] {
        let request = client.post("/agui");
        let request = request.header("content-type", "application/json");
        let (status, problem) = answer(request.body(body)).await;
        assert_eq!(status, 400, "{problem}");
        assert_eq!(problem["detail"], expected);
    }
}
