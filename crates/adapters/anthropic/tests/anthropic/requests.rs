//! The sent requests, byte for byte.

use neuraxis_anthropic::{Auth, Cache, Effort, ShownThinking, Temperature, Thinking};
use neuraxis_core::{
    JsonText, LlmErrorKind, MediaPart, MediaSource, Message, ModelRequest, Part, ReplyFormat,
    ToolChoice,
};
use neuraxis_testkit::loopback::Loopback;
use neuraxis_testkit::{messages, request, request_of, spec};
use serde_json::{Value, json};

use crate::shapes::answer;
use crate::{CANARY, body, both, client, config, json, respond, sent, stream};
use neuraxis_anthropic::AnthropicClient;

/// A request with every field set.
fn everything() -> ModelRequest {
    let mut request = request_of([
        Message::system("Be brief."),
        Message::user("What is here?"),
        messages::calls([("c1", "list", r#"{"path":"."}"#), ("c2", "find", "")]),
        messages::result("c1", "list", r#"["a"]"#),
        messages::result("c2", "find", r#"{"error":"denied by a rule"}"#),
        Message::assistant("One file."),
        Message::user("Thanks."),
        Message::system("Answer now."),
    ]);
    request.tools = [
        spec("list")
            .describe("Lists files.")
            .schema(
                r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#,
            )
            .build(),
        spec("find")
            .describe("Finds files.")
            .schema(r#"{"properties":{"name":{"type":"string"}}}"#)
            .build(),
    ]
    .into();
    request.tool_choice = ToolChoice::Named("list".parse().unwrap());
    request.max_output_tokens = Some(2_048);
    request.temperature = Some(0.2);
    request.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(
            r#"{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}"#,
        ),
    };
    request
}

#[tokio::test]
async fn a_full_request_matches_its_snapshot() {
    let seen = sent(&everything(), |config| {
        config.thinking = Thinking::Adaptive;
        config.show_thinking = Some(ShownThinking::Summarized);
        config.effort = Some(Effort::Low);
        config.parallel_tool_calls = Some(false);
    })
    .await;
    assert_eq!(seen.line, "POST /v1/messages");
    insta::assert_snapshot!(seen.body);
}

#[tokio::test]
async fn a_minimal_request_matches_its_snapshot() {
    let mut bodies = Vec::new();
    for cache in [Cache::FiveMinutes, Cache::OneHour, Cache::Off] {
        bodies.push(
            sent(&request("hi"), |config| config.cache = cache)
                .await
                .body,
        );
    }
    insta::assert_snapshot!(bodies.join("\n"));
}

#[tokio::test]
async fn key_version_and_betas_are_sent_as_headers_and_the_key_is_never_shown() {
    let mut shown = String::new();
    let seen = sent(&request("hi"), |config| {
        config.betas = vec!["one-2026-01-01".to_owned(), "two".to_owned()];
        let client = AnthropicClient::new(config.clone()).unwrap();
        shown = format!("{config:?} {client:?}");
    })
    .await;
    for header in [
        &format!("x-api-key: {CANARY}"),
        "anthropic-version: 2023-06-01",
        "anthropic-beta: one-2026-01-01,two",
        "accept: application/json",
    ] {
        assert!(seen.headers.contains(header), "{header}: {}", seen.headers);
    }
    assert!(!seen.headers.contains("authorization"), "{}", seen.headers);
    assert!(!shown.contains("canary"), "{shown}");
    let seen = sent(&request("hi"), |config| config.auth = Auth::Bearer).await;
    let bearer = format!("authorization: bearer {CANARY}");
    assert!(seen.headers.contains(&bearer), "{}", seen.headers);
    assert!(!seen.headers.contains("x-api-key"), "{}", seen.headers);
    assert!(!seen.headers.contains("anthropic-beta"), "{}", seen.headers);
}

#[tokio::test]
async fn a_streamed_call_requests_a_stream() {
    let server = Loopback::start(answer).await;
    stream(&client(&server), &request("hi")).await.unwrap();
    let seen = server.seen();
    assert!(
        seen[0].body.ends_with(r#","stream":true}"#),
        "{}",
        seen[0].body
    );
    assert!(seen[0].headers.contains("accept: text/event-stream"));
}

#[tokio::test]
async fn max_tokens_is_always_sent_and_capped_at_the_models_maximum() {
    for (model, asked, expected) in [
        ("claude-opus-5-5", None, 32_000),
        ("claude-opus-5-5", Some(200_000), 128_000),
        ("claude-3-5-haiku-latest", None, 8_192),
        ("my-model", Some(200_000), 200_000),
        ("my-model", Some(0), 1),
    ] {
        let mut request = request("hi");
        request.max_output_tokens = asked;
        let body = body(&request, |config| config.model = model.to_owned()).await;
        assert_eq!(body["max_tokens"], expected, "{model} {asked:?}");
        for unsaid in ["temperature", "top_p", "top_k", "thinking", "output_config"] {
            assert_eq!(body.get(unsaid), None, "{unsaid}");
        }
    }
}

#[tokio::test]
async fn temperature_is_sent_only_to_models_that_accept_it_and_do_not_think() {
    let mut request = request("hi");
    request.temperature = Some(1.5);
    for (model, thinking, expected) in [
        ("claude-sonnet-4-6", Thinking::ModelDefault, Some(1.0)),
        ("claude-sonnet-4-6", Thinking::Off, Some(1.0)),
        ("claude-sonnet-4-6", Thinking::Adaptive, None),
        ("claude-opus-4-7", Thinking::ModelDefault, None),
        ("my-model", Thinking::ModelDefault, None),
    ] {
        let set_up = |config: &mut neuraxis_anthropic::AnthropicConfig| {
            config.model = model.to_owned();
            config.thinking = thinking;
        };
        let body = body(&request, set_up).await;
        assert_eq!(
            body["temperature"].as_f64(),
            expected,
            "{model} {thinking:?}"
        );
    }
    let sent = body(&request, |config| {
        config.temperature = Some(Temperature::Sent);
    })
    .await;
    assert_eq!(sent["temperature"], 1.0);
}

#[tokio::test]
async fn a_thinking_budget_leaves_room_for_the_answer() {
    for (model, budget, asked, expected, max_tokens) in [
        // A request's own maximum is for the answer.
        ("claude-sonnet-4-5", 4_096, Some(1_024), Some(4_096), 5_120),
        ("claude-sonnet-4-5", 8_192, Some(8_192), Some(8_192), 16_384),
        // A request for a short answer is answered without thinking.
        ("claude-sonnet-4-5", 1_024, Some(1_023), None, 1_023),
        ("claude-sonnet-4-5", 1_024, Some(0), None, 1),
        // The default maximum includes thinking, and at least half of it is for the answer.
        ("claude-sonnet-4-5", 4_096, None, Some(4_096), 32_000),
        ("claude-sonnet-4-5", 40_000, None, Some(40_000), 56_000),
        ("claude-opus-4-1", 31_999, None, Some(16_000), 32_000),
        // The model cannot generate more.
        ("claude-opus-4-1", 8_192, Some(30_000), Some(2_000), 32_000),
        ("claude-opus-4-1", 8_192, Some(30_976), Some(1_024), 32_000),
        ("claude-opus-4-1", 8_192, Some(30_977), None, 30_977),
        ("claude-opus-4-1", 8_192, Some(40_000), None, 32_000),
        ("my-model", 8_192, Some(u32::MAX), None, u32::MAX),
    ] {
        let mut request = request("hi");
        request.max_output_tokens = asked;
        let body = body(&request, |config| {
            config.model = model.to_owned();
            config.thinking_budget = Some(budget);
            config.show_thinking = Some(ShownThinking::Omitted);
        })
        .await;
        let expected = expected.map_or_else(
            || json!({"type": "disabled"}),
            |tokens| json!({"type": "enabled", "budget_tokens": tokens, "display": "omitted"}),
        );
        let case = format!("{model} {budget} {asked:?}");
        assert_eq!(body["thinking"], expected, "{case}");
        assert_eq!(body["max_tokens"], max_tokens, "{case}");
    }
}

#[tokio::test]
async fn a_model_with_adaptive_thinking_has_room_for_a_short_answer() {
    let (unsaid, adaptive) = (Thinking::ModelDefault, Thinking::Adaptive);
    for (model, thinking, effort, asked, expected, max_tokens) in [
        // A request for a short answer is answered without thinking.
        ("claude-haiku-5-5", unsaid, None, 16, Some("disabled"), 16),
        ("claude-opus-4-8", adaptive, None, 16, Some("disabled"), 16),
        (
            "claude-opus-5",
            unsaid,
            Some(Effort::High),
            1_023,
            Some("disabled"),
            1_023,
        ),
        // If the model always thinks, space for it is added.
        ("claude-opus-5-5", unsaid, None, 16, None, 1_040),
        ("claude-opus-5-5", Thinking::Off, None, 16, None, 1_040),
        (
            "claude-fable-5",
            adaptive,
            None,
            16,
            Some("adaptive"),
            1_040,
        ),
        ("claude-opus-5", unsaid, Some(Effort::Max), 16, None, 1_040),
        // As for a summary.
        ("claude-haiku-5-5", unsaid, None, 1_024, None, 2_048),
        (
            "claude-opus-4-8",
            adaptive,
            None,
            1_024,
            Some("adaptive"),
            2_048,
        ),
        // There is enough space, or no thinking.
        ("claude-haiku-5-5", unsaid, None, 1_025, None, 1_025),
        ("claude-opus-4-8", unsaid, None, 16, None, 16),
        ("claude-sonnet-4-5", adaptive, None, 16, None, 16),
        ("my-model", unsaid, None, 16, None, 16),
    ] {
        let mut request = request("hi");
        request.max_output_tokens = Some(asked);
        let body = body(&request, |config| {
            config.model = model.to_owned();
            config.thinking = thinking;
            config.effort = effort;
        })
        .await;
        let case = format!("{model} {thinking:?} {effort:?} {asked}");
        assert_eq!(body["thinking"]["type"].as_str(), expected, "{case}");
        assert_eq!(body["max_tokens"], max_tokens, "{case}");
    }
}

/// A request with a tool and this choice.
fn choosing(choice: ToolChoice) -> ModelRequest {
    let mut request = request("hi");
    request.tools = [spec("look").build()].into();
    request.tool_choice = choice;
    request
}

#[tokio::test]
async fn tool_definitions_are_sent_under_every_tool_choice() {
    let named = || ToolChoice::Named("look".parse().unwrap());
    for (choice, parallel, expected) in [
        (ToolChoice::Auto, None, Value::Null),
        (
            ToolChoice::Auto,
            Some(false),
            json!({"type": "auto", "disable_parallel_tool_use": true}),
        ),
        (ToolChoice::None, Some(false), json!({"type": "none"})),
        (ToolChoice::Required, None, json!({"type": "any"})),
        (
            named(),
            Some(false),
            json!({"type": "tool", "name": "look", "disable_parallel_tool_use": true}),
        ),
    ] {
        let body = body(&choosing(choice), |config| {
            config.parallel_tool_calls = parallel;
        })
        .await;
        assert_eq!(body["tool_choice"], expected);
        assert_eq!(body["tools"][0]["name"], "look");
    }
    let mut no_tools = choosing(ToolChoice::None);
    no_tools.tools = [].into();
    let body = body(&no_tools, |_| {}).await;
    assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None));
}

#[tokio::test]
async fn unsupported_parts_of_a_tool_schema_move_into_the_description() {
    let mut request = request("hi");
    let branches = r#"{"anyOf":[{"properties":{"id":{"type":"string"}},"required":["id"]}]}"#;
    let named = r#"{"type":"object","properties":{"$top":{"type":"integer"}}}"#;
    request.tools = [
        spec("look").describe("Looks.").schema(branches).build(),
        spec("find").describe("Finds.").schema(named).build(),
    ]
    .into();
    let body = body(&request, |_| {}).await;
    for (tool, schema, told) in [
        (
            &body["tools"][0],
            json!({"type": "object", "properties": {"id": {"type": "string"}}}),
            branches,
        ),
        (
            &body["tools"][1],
            json!({"type": "object", "properties": {}}),
            r#"{"properties":{"$top":{"type":"integer"}}}"#,
        ),
    ] {
        assert_eq!(tool["input_schema"], schema);
        let description = tool["description"].as_str().unwrap();
        assert!(description.contains("s.\n\nThe arguments"), "{description}");
        assert!(description.ends_with(told), "{description}");
    }
}

#[tokio::test]
async fn a_model_that_cannot_be_forced_to_call_a_tool_is_asked_in_text() {
    for (choice, words) in [
        (ToolChoice::Required, "Call one of your tools now."),
        (
            ToolChoice::Named("look".parse().unwrap()),
            "Call the tool look now.",
        ),
    ] {
        let request = choosing(choice);
        let forced = body(&request, |config| {
            config.model = "claude-opus-5-5".to_owned();
        })
        .await;
        assert_eq!(forced.get("tool_choice"), None);
        let content = &forced["messages"][0]["content"];
        assert_eq!(content[1]["text"], words);
        assert_eq!(
            content[1].get("cache_control"),
            None,
            "only this request says so"
        );
        let overridden = body(&request, |config| {
            config.model = "claude-opus-5-5".to_owned();
            config.forced_tool_choice = Some(true);
        })
        .await;
        assert!(overridden["tool_choice"].is_object());
    }
}

#[tokio::test]
async fn a_forced_tool_call_disables_budgeted_thinking() {
    let body = body(&choosing(ToolChoice::Required), |config| {
        config.model = "claude-sonnet-4-5".to_owned();
        config.thinking_budget = Some(2_048);
    })
    .await;
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
}

#[tokio::test]
async fn a_required_tool_that_is_not_offered_is_refused_without_sending() {
    let server = Loopback::start(answer).await;
    let request = choosing(ToolChoice::Named("other".parse().unwrap()));
    let error = respond(&client(&server), &request).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn an_unsupported_reply_schema_is_sent_as_text() {
    let mut request = request("hi");
    request.reply_format = ReplyFormat::JsonSchema {
        name: "age".into(),
        schema: JsonText::from_text(
            r#"{"type":"object","properties":{"x":{"type":"integer","minimum":1}},"required":["x"]}"#,
        ),
    };
    let told = body(&request, |_| {}).await;
    assert_eq!(told.get("output_config"), None);
    let words = told["messages"][0]["content"][1]["text"].as_str().unwrap();
    assert!(words.contains(r#""minimum":1"#), "{words}");
    request.reply_format = ReplyFormat::JsonSchema {
        name: "age".into(),
        schema: JsonText::from_text("nonsense"),
    };
    let server = Loopback::start(answer).await;
    for error in both(&client(&server), &request).await {
        assert_eq!(error.unwrap_err().kind, LlmErrorKind::BadRequest);
    }
}

fn media(media_type: &str, source: MediaSource) -> ModelRequest {
    request_of([Message::User {
        parts: vec![
            Part::text("What is this?"),
            Part::Media(MediaPart {
                media_type: media_type.to_owned(),
                source,
            }),
        ],
    }])
}

#[tokio::test]
async fn images_and_documents_are_sent_as_blocks() {
    let data = || MediaSource::Base64("aGk=".into());
    for (kind, block, expected) in [
        ("image/png", "image", "image/png"),
        ("image/jpg", "image", "image/jpeg"),
        ("application/pdf", "document", "application/pdf"),
    ] {
        let body = body(&media(kind, data()), |config| config.cache = Cache::Off).await;
        let source = json!({"type": "base64", "media_type": expected, "data": "aGk="});
        let content = &body["messages"][0]["content"];
        assert_eq!(content[1], json!({"type": block, "source": source}));
    }
    let url = MediaSource::Url("https://example.com/a.webp".to_owned());
    let body = body(&media("image/webp", url), |_| {}).await;
    let source = &body["messages"][0]["content"][1]["source"];
    assert_eq!(source["url"], "https://example.com/a.webp");
}

#[tokio::test]
async fn unsupported_media_is_refused_unsent_and_omitted_from_earlier_messages() {
    let server = Loopback::start(answer).await;
    for (kind, source) in [
        ("audio/wav", MediaSource::Base64("aGk=".into())),
        (
            "image/png",
            MediaSource::Url("file:///etc/passwd".to_owned()),
        ),
    ] {
        let error = respond(&client(&server), &media(kind, source))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::BadRequest, "{kind}");
    }
    assert!(server.seen().is_empty());
    let mut later = media("audio/wav", MediaSource::Base64("aGk=".into()));
    later.messages.push(Message::user("And now?"));
    let later = body(&later, |_| {}).await;
    assert_eq!(
        later["messages"][0]["content"][1]["text"],
        "[audio/wav, 2 bytes: left out, since this model does not take it]"
    );
}

#[tokio::test]
async fn a_request_sent_twice_is_identical() {
    let server = Loopback::start(answer).await;
    let client = AnthropicClient::new(config(&server)).unwrap();
    let request = everything();
    for _ in 0..2 {
        respond(&client, &request).await.unwrap();
    }
    let seen = server.seen();
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!(json(&seen[0])["messages"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn media_in_a_tool_result_become_blocks_of_that_result() {
    let Message::Tool(mut result) = messages::result("c1", "camera", "\"taken\"") else {
        unreachable!("it is a result")
    };
    result.media = vec![
        MediaPart::embedded("image/png", "aGk="),
        MediaPart::embedded("audio/wav", "aGk="),
    ];
    let request = request_of([
        Message::user("look"),
        messages::calls([("c1", "camera", "{}")]),
        Message::Tool(result),
    ]);
    let body = body(&request, |config| config.cache = Cache::Off).await;
    let source = json!({"type": "base64", "media_type": "image/png", "data": "aGk="});
    assert_eq!(
        body["messages"][2]["content"][0]["content"],
        json!([
            {"type": "text", "text": "taken"},
            {"type": "image", "source": source},
            {"type": "text", "text": "[audio/wav, 2 bytes: left out, since this model does not take it]"},
        ])
    );
}
