//! How tokens are counted.

use std::time::Duration;

use neuraxis_core::{LlmErrorKind, MediaPart, MediaSource, Message, Part, TokenCount};
use neuraxis_llama::{LlamaClient, LlamaConfig, Server};
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::{request, request_of, spec};
use serde_json::{Value, json};

use crate::client;

const SECONDS: Duration = Duration::from_secs(10);

/// Answers like a llama-server that counts one token per character.
fn counting(line: &str, body: &str, template: Answer) -> Answer {
    if line == "POST /apply-template" {
        return template;
    }
    assert_eq!(line, "POST /tokenize");
    let asked: Value = serde_json::from_str(body).unwrap();
    assert_eq!(asked["parse_special"], true);
    assert_eq!(asked["add_special"], true);
    let tokens = vec![7; asked["content"].as_str().unwrap().len()];
    Answer::json(&json!({ "tokens": tokens }).to_string())
}

#[tokio::test]
async fn the_count_is_of_the_prompt_the_server_renders_from_the_whole_request() {
    let server = Loopback::start(|seen| {
        counting(
            &seen.line,
            &seen.body,
            Answer::json(r#"{"prompt":"<s>hi"}"#),
        )
    })
    .await;
    let mut request = request("hi");
    request.tools = [spec("look").build()].into();
    request.max_output_tokens = Some(16);
    let count = client(&server).count_tokens(&request, SECONDS).await;
    assert_eq!(count.unwrap(), TokenCount::measured(5));
    let asked: Value = serde_json::from_str(&server.seen()[0].body).unwrap();
    assert_eq!(asked["messages"][0]["content"], "hi");
    assert_eq!(asked["tools"][0]["function"]["name"], "look");
    assert_eq!(asked["chat_template_kwargs"]["enable_thinking"], false);
}

#[tokio::test]
async fn without_a_template_route_the_count_is_a_conservative_estimate() {
    const REFUSAL: &str = r#"{"error":{"code":500,"message":"Jinja Exception: System message must be at the beginning.","type":"server_error"}}"#;
    const MISSING: &str =
        r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#;
    for (status, body) in [(404, MISSING), (500, REFUSAL)] {
        let server = Loopback::start(move |seen| {
            let refusal = Answer::whole(status, "content-type: application/json", body);
            counting(&seen.line, &seen.body, refusal)
        })
        .await;
        let count = client(&server).count_tokens(&request("hi"), SECONDS).await;
        let sent = server.seen()[0].body.len() as u64;
        assert_eq!(count.unwrap(), TokenCount::estimated(sent));
    }
}

#[tokio::test]
async fn an_image_makes_the_count_an_estimate() {
    let server = Loopback::start(|seen| {
        counting(&seen.line, &seen.body, Answer::json(r#"{"prompt":"12"}"#))
    })
    .await;
    let image = Part::Media(MediaPart {
        media_type: "image/png".to_owned(),
        source: MediaSource::Base64("aGk=".into()),
    });
    let request = request_of([Message::User { parts: vec![image] }]);
    let count = client(&server).count_tokens(&request, SECONDS).await;
    assert_eq!(count.unwrap(), TokenCount::estimated(2));
}

#[tokio::test]
async fn other_servers_count_with_their_own_route_or_not_at_all() {
    for (kind, expected, line) in [
        (
            Server::Vllm,
            TokenCount::measured(12),
            Some("POST /tokenize"),
        ),
        (Server::Ollama, TokenCount::UNKNOWN, None),
        (Server::LmStudio, TokenCount::UNKNOWN, None),
    ] {
        let server = Loopback::start(|_| {
            Answer::json(r#"{"count":12,"max_model_len":4096,"tokens":[1,2],"token_strs":null}"#)
        })
        .await;
        let mut config = LlamaConfig::new(server.url());
        config.server = kind;
        let client = LlamaClient::new(config).unwrap();
        let count = client.count_tokens(&request("hi"), SECONDS).await;
        assert_eq!(count.unwrap(), expected);
        let seen = server.seen();
        assert_eq!(seen.first().map(|seen| seen.line.as_str()), line);
    }
}

#[tokio::test]
async fn a_failed_count_is_an_error() {
    for (status, body, kind) in [
        (401, "no", LlmErrorKind::Unauthorized),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            LlmErrorKind::Loading,
        ),
        (200, r#"{"prompt":1}"#, LlmErrorKind::InvalidResponse),
        // Without a template, and without a count.
        (404, "no", LlmErrorKind::BadRequest),
    ] {
        let server =
            Loopback::start(move |_| Answer::whole(status, "content-type: application/json", body))
                .await;
        let count = client(&server).count_tokens(&request("hi"), SECONDS).await;
        assert_eq!(count.unwrap_err().kind, kind, "{body}");
    }
    let server = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    let soon = Duration::from_millis(50);
    let count = client(&server).count_tokens(&request("hi"), soon).await;
    assert_eq!(count.unwrap_err().kind, LlmErrorKind::Timeout);
}
