//! Values that OpenAI's API refuses are refused here too, in its form; and what a key may not use is not listed as a
//! model.

use std::sync::Arc;

use neuraxis_testkit::{ScriptedModel, reply};
use serde_json::{Value, json};

use super::{assert_refused, post, user};
use crate::support::client::answer;
use crate::support::in_process::InProcess;
use crate::support::program::{folder_with, make_key};
use crate::support::{Client, Program};

#[tokio::test]
async fn out_of_range_values_and_nul_characters_are_refused_with_their_path() {
    let chat = |field: &str, value: Value| {
        let mut body = json!({"messages": [user("hi")]});
        body[field] = value;
        body
    };
    let refused = |body: Value, place: &str| (body, 400, "invalid_field", json!(place));
    assert_refused(
        "/v1/chat/completions",
        [
            refused(json!({"messages": [user("a\0b")]}), "messages[0].content"),
            refused(chat("user", json!("\0")), "user"),
            refused(
                chat("neuraxis", json!({"session": "a/b"})),
                "neuraxis.session",
            ),
            refused(
                chat("neuraxis", json!({"session": ".."})),
                "neuraxis.session",
            ),
            refused(chat("temperature", json!(-0.1)), "temperature"),
            refused(chat("temperature", json!(2.1)), "temperature"),
            refused(chat("temperature", json!(1e40)), "temperature"),
            refused(chat("max_tokens", json!(0)), "max_tokens"),
            refused(chat("max_tokens", json!(-1)), "max_tokens"),
            refused(chat("functions", json!([{"name": "look"}])), "functions"),
            refused(
                chat("max_completion_tokens", json!(0)),
                "max_completion_tokens",
            ),
        ],
    )
    .await;
    let response = |field: &str, value: Value| {
        let mut body = json!({"input": "hi"});
        body[field] = value;
        body
    };
    assert_refused(
        "/v1/responses",
        [
            refused(json!({"input": "a\0b"}), "input"),
            refused(response("instructions", json!("\0")), "instructions"),
            refused(response("temperature", json!(3)), "temperature"),
            refused(response("max_output_tokens", json!(0)), "max_output_tokens"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused_with_its_path_in_json_terms() {
    let refused = |body: Value, place: Value| (body, 400, "invalid_field", place);
    let response = |item: Value| json!({"input": [user("hi"), item]});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": {"x": 1}});
    assert_refused(
        "/v1/responses",
        [
            refused(response(output), json!("input[1].output")),
            refused(
                response(json!({"role": "user", "content": 5})),
                json!("input[1].content"),
            ),
            refused(response(Value::Null), json!("input[1]")),
            refused(json!({"input": 5}), json!("input")),
            refused(json!(["neuraxis", "hi"]), Value::Null),
        ],
    )
    .await;
    let server = InProcess::of(ScriptedModel::new()).await;
    let whole = json!(["neuraxis", [user("hi")]]);
    for (body, expected) in [
        (whole, "the body must be a JSON object, not a list"),
        (
            json!({"messages": []}),
            "messages: nothing to answer: it is missing or empty",
        ),
        (
            json!({"messages": ["hi"]}),
            "messages[0]: expected a message, which is an object with the field role, not \"hi\"",
        ),
        (
            json!({"messages": [{"role": "user", "content": 5}]}),
            "messages[0].content: expected a string or a list of parts, not the number 5",
        ),
    ] {
        let (status, received) = super::post(&server.client(), "/v1/chat/completions", &body).await;
        let message = received["error"]["message"].as_str().unwrap();
        assert_eq!(status, 400, "{received}");
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test]
async fn a_tool_schema_with_a_foreign_regex_is_accepted_and_an_invalid_one_is_refused() {
    let server = InProcess::of(ScriptedModel::always(reply::text("Noted."))).await;
    for (kind, expected) in [("string", 200), ("strng", 400)] {
        let name = json!({"type": kind, "pattern": r"[\w-.]+"});
        let parameters = json!({"type": "object", "properties": {"name": name}});
        let tool = json!({"type": "function", "name": "find", "parameters": parameters});
        let body = json!({"input": "hi", "tools": [tool]});
        let (status, received) = super::post(&server.client(), "/v1/responses", &body).await;
        assert_eq!(status, expected, "{received}");
        if status == 400 {
            let message = received["error"]["message"].as_str().unwrap();
            assert!(message.contains("tool find"), "{message}");
            assert!(message.contains("/properties/name/type"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_result_without_its_call_or_a_duplicate_result_is_refused_with_its_path() {
    let refused = |body: Value, place: &str| (body, 400, "invalid_field", json!(place));
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let called = json!({"role": "assistant", "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "c", "content": "3"});
    let chat = |messages: &[&Value]| json!({"messages": messages});
    assert_refused(
        "/v1/chat/completions",
        [
            refused(chat(&[&user("hi"), &result]), "messages[1].tool_call_id"),
            refused(
                chat(&[&user("hi"), &result, &called, &result]),
                "messages[1].tool_call_id",
            ),
            refused(
                chat(&[&user("hi"), &called, &result, &result]),
                "messages[3].tool_call_id",
            ),
        ],
    )
    .await;
    let called =
        json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "c", "output": "3"});
    let response = |items: &[&Value]| json!({"input": items});
    assert_refused(
        "/v1/responses",
        [
            refused(response(&[&user("hi"), &result]), "input[1].call_id"),
            refused(
                response(&[&user("hi"), &called, &result, &result]),
                "input[3].call_id",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_conversation_ending_with_an_answer_is_refused_with_advice() {
    let server = InProcess::of(ScriptedModel::new()).await;
    let said = json!([user("Count."), {"role": "assistant", "content": "One, two,"}]);
    for (path, field) in [
        ("/v1/chat/completions", "messages"),
        ("/v1/responses", "input"),
    ] {
        let mut body = json!({});
        body[field] = said.clone();
        let (status, received) = super::post(&server.client(), path, &body).await;
        let error = &received["error"];
        assert_eq!(
            (status, &error["param"]),
            (400, &json!(field)),
            "{received}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("omit it"), "{message}");
    }
}

#[tokio::test]
async fn input_too_long_for_every_model_is_refused_with_its_field() {
    let model = ScriptedModel::always(reply::text("Noted.")).with_context(1_000);
    let server = InProcess::of(model).await;
    let long = "word ".repeat(20_000);
    for (path, body, field) in [
        (
            "/v1/chat/completions",
            json!({"messages": [user(&long)]}),
            "messages",
        ),
        ("/v1/responses", json!({"input": long}), "input"),
    ] {
        let (status, received) = post(&server.client(), path, &body).await;
        let param = &received["error"]["param"];
        assert_eq!((status, param), (400, &json!(field)), "{received}");
    }
}

#[tokio::test]
async fn a_later_call_may_reuse_the_id_of_an_earlier_one() {
    let model = ScriptedModel::always(neuraxis_testkit::reply::text("Yes."));
    let server = super::builder(&Arc::new(model), "").build().unwrap();
    let server = InProcess::serve(server).await;
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let called = json!({"role": "assistant", "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "c", "content": "3"});
    let body = json!({"messages": [user("hi"), called, result, called, result]});
    let (status, received) = super::post(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(status, 200, "{received}");
}

#[tokio::test]
async fn an_escaped_nul_in_text_and_boundary_values_are_accepted() {
    let model = ScriptedModel::always(neuraxis_testkit::reply::text("Yes."));
    let server = super::builder(&Arc::new(model), "").build().unwrap();
    let server = InProcess::serve(server).await;
    for body in [
        json!({"messages": [user(r"a\u0000b")]}),
        json!({"messages": [user("hi")], "temperature": 0, "max_tokens": 1}),
        json!({"messages": [user("hi")], "temperature": 2, "max_completion_tokens": null}),
        json!({"messages": [user("hi")], "functions": [], "function_call": "auto"}),
    ] {
        let (status, received) = super::post(&server.client(), "/v1/chat/completions", &body).await;
        assert_eq!(status, 200, "{received}");
    }
}

#[tokio::test]
async fn an_error_does_not_repeat_redacted_text() {
    let text = "[telemetry]\nredact = ['CANARY-\\d+']\n";
    let program = Program::start_in(folder_with(text), |_| {}).await;
    for (path, said) in [("chat/completions", "messages"), ("responses", "input")] {
        let mut body = json!({"model": "CANARY-17"});
        body[said] = json!([user("hello")]);
        let path = format!("/v1/{path}");
        let (status, received) = super::post(&program.client(), &path, &body).await;
        let code = &received["error"]["code"];
        assert_eq!((status, code), (404, &json!("no_such_model")), "{received}");
        let message = received["error"]["message"].as_str().unwrap();
        assert!(message.contains("[redacted]"), "{message}");
        assert!(!message.contains("CANARY"), "{message}");
    }
}

#[tokio::test]
async fn a_key_lists_exactly_the_models_its_requests_may_name() {
    let text = "[agents.clerk]\ninstructions = 'You answer.'\n";
    let folder = folder_with(text);
    let all = make_key(folder.path(), &["--owner", "ada"]).await;
    let clerk = make_key(folder.path(), &["--owner", "bob", "--agents", "clerk"]).await;
    let program = Program::start_in(folder, |_| {}).await;
    let models = async |client: &Client| {
        let (status, models) = answer(client.get("/v1/models")).await;
        assert_eq!(status, 200, "{models}");
        let ids = models["data"].as_array().unwrap().iter();
        let ids = ids.map(|model| model["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let (all, clerk) = (
        Client::with_key(program.url(), &all),
        Client::with_key(program.url(), &clerk),
    );
    let (of_all, of_clerk) = (models(&all).await, models(&clerk).await);
    assert!(of_all.contains(&"neuraxis".to_owned()), "{of_all:?}");
    assert_eq!(of_clerk, ["clerk"], "the agents of its channels are others");
    for (client, listed) in [(&all, &of_all), (&clerk, &of_clerk)] {
        for model in &of_all {
            let (status, _) = answer(client.get(&format!("/v1/models/{model}"))).await;
            let expected = if listed.contains(model) { 200 } else { 404 };
            assert_eq!(status, expected, "{model}");
        }
    }
    // Listed models are accepted, and others are refused.
    for (model, expected) in [("clerk", 200), ("neuraxis", 403), ("reasoning", 403)] {
        let body = json!({"model": model, "messages": [user("hello")]});
        let (status, received) = super::post(&clerk, "/v1/chat/completions", &body).await;
        assert_eq!(status, expected, "{model}: {received}");
        if expected == 403 {
            let error = &received["error"];
            assert_eq!(error["param"], "model", "{received}");
            let message = error["message"].as_str().unwrap();
            let advice = "allowed: clerk; set another in the field model";
            assert!(message.ends_with(advice), "{message}");
        }
    }
}
