//! What is sent, byte for byte.

use neuraxis_core::{
    AssistantMessage, JsonText, Message, ModelRef, ModelRequest, Part, ReasoningPart, ReplyFormat,
    TextPart, ToolChoice,
};
use neuraxis_openai::{
    Api, MaxTokensField, OpenAiClient, OpenAiConfig, ReasoningEcho, ReasoningEffort,
    ReasoningSummary, ReplyForm, Secret, ServiceTier, SystemRole, Temperature,
};
use neuraxis_testkit::loopback::{Answer, Loopback, Seen};
use neuraxis_testkit::{messages, request, request_of, spec};
use serde_json::Value;

use crate::shapes::answer;
use crate::{CANARY, config, respond, stream};

/// Returns what is sent for a request.
async fn sent(api: Api, request: &ModelRequest, set_up: impl FnOnce(&mut OpenAiConfig)) -> Seen {
    let server = Loopback::start(answer).await;
    let mut config = config(&server, api);
    set_up(&mut config);
    let client = OpenAiClient::new(config).unwrap();
    respond(&client, request).await.unwrap();
    server.seen().remove(0)
}

async fn body(api: Api, request: &ModelRequest, set_up: impl FnOnce(&mut OpenAiConfig)) -> Value {
    serde_json::from_str(&sent(api, request, set_up).await.body).unwrap()
}

/// Returns a request with everything that a request can have.
fn everything() -> ModelRequest {
    let mut request = request_of([
        Message::system("Be brief."),
        Message::user("What is here?"),
        messages::calls([("c1", "list", r#"{"path":"."}"#)]),
        messages::result("c1", "list", r#"["a"]"#),
        Message::assistant("One file."),
        Message::user("Thanks."),
        Message::system("Answer now."),
    ]);
    request.tools = [
        spec("list")
            .describe("Lists files.")
            .schema(r#"{"type":"object","properties":{"path":{"type":"string"},"all":{"type":["boolean","null"]}},"required":["path"]}"#)
            .build(),
        spec("find")
            .describe("Finds files.")
            .schema(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#)
            .build(),
    ]
    .into();
    request.tool_choice = ToolChoice::Named("list".parse().unwrap());
    request.max_output_tokens = Some(256);
    request.temperature = Some(0.2);
    request.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(
            r#"{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}"#,
        ),
    };
    request
}

fn all_settings(config: &mut OpenAiConfig) {
    config.reasoning_effort = Some(ReasoningEffort::Low);
    config.strict_tools = Some(true);
    config.parallel_tool_calls = Some(false);
    config.service_tier = Some(ServiceTier::Priority);
}

#[tokio::test]
async fn a_responses_request_matches_its_snapshot() {
    let seen = sent(Api::Responses, &everything(), |config| {
        all_settings(config);
        config.reasoning_summary = Some(ReasoningSummary::Concise);
    })
    .await;
    assert_eq!(seen.line, "POST /v1/responses");
    insta::assert_snapshot!(seen.body);
}

#[tokio::test]
async fn a_chat_completions_request_matches_its_snapshot() {
    let seen = sent(Api::Chat, &everything(), all_settings).await;
    assert_eq!(seen.line, "POST /v1/chat/completions");
    insta::assert_snapshot!(seen.body);
}

#[tokio::test]
async fn minimal_requests_of_both_apis_match_their_snapshot() {
    let mut bodies = Vec::new();
    for api in crate::APIS {
        for model in ["gpt-5.3", "gpt-4.1"] {
            let set_up = |config: &mut OpenAiConfig| config.model = model.to_owned();
            bodies.push(sent(api, &request("hi"), set_up).await.body);
        }
    }
    insta::assert_snapshot!(bodies.join("\n"));
}

#[tokio::test]
async fn a_streamed_call_requests_a_stream_with_usage() {
    let server = Loopback::start(answer).await;
    for api in crate::APIS {
        stream(&crate::client(&server, api), &request("hi"))
            .await
            .unwrap();
    }
    let seen = server.seen();
    assert!(
        seen[0].body.ends_with(r#","stream":true}"#),
        "{}",
        seen[0].body
    );
    assert!(
        seen[1]
            .body
            .ends_with(r#","stream":true,"stream_options":{"include_usage":true}}"#)
    );
    assert!(seen[0].headers.contains("accept: text/event-stream"));
}

#[tokio::test]
async fn system_role_and_temperature_follow_the_model_unless_configured() {
    let mut request = request_of([Message::system("s"), Message::user("u")]);
    request.temperature = Some(0.5);
    for (model, role, temperature) in [("o3", "developer", false), ("gpt-4.1", "system", true)] {
        let body = body(Api::Chat, &request, |config| {
            config.model = model.to_owned();
        })
        .await;
        assert_eq!(body["messages"][0]["role"], role);
        assert_eq!(body.get("temperature").is_some(), temperature, "{model}");
    }
    let body = body(Api::Chat, &request, |config| {
        config.model = "o3".to_owned();
        config.system_role = Some(SystemRole::System);
        config.temperature = Some(Temperature::Sent);
    })
    .await;
    assert_eq!(body["messages"][0]["role"], "system");
    assert_eq!(body["temperature"], 0.5);
}

#[tokio::test]
async fn unknown_models_get_only_widely_supported_fields() {
    let mut request = everything();
    request.tool_choice = ToolChoice::Auto;
    let body = body(Api::Chat, &request, |config| {
        config.model = "mixtral".to_owned();
    })
    .await;
    assert_eq!(body["max_tokens"], 256);
    assert_eq!(body.get("max_completion_tokens"), None);
    assert_eq!(body["tools"][0]["function"].get("strict"), None);
    assert_eq!(body["messages"][0]["role"], "system");
}

#[tokio::test]
async fn the_configured_token_limit_field_is_sent() {
    let mut request = request("hi");
    request.max_output_tokens = Some(2_048);
    for (model, field, expected, other) in [
        (
            "my-deployment",
            MaxTokensField::MaxCompletionTokens,
            "max_completion_tokens",
            "max_tokens",
        ),
        (
            "gpt-5.3",
            MaxTokensField::MaxTokens,
            "max_tokens",
            "max_completion_tokens",
        ),
    ] {
        let body = body(Api::Chat, &request, |config| {
            config.model = model.to_owned();
            config.max_tokens_field = Some(field);
        })
        .await;
        assert_eq!(body[expected], 2_048, "{model}");
        assert_eq!(body.get(other), None, "{model}");
    }
}

#[tokio::test]
async fn a_short_reply_limit_of_a_reasoning_model_is_extended_for_thinking() {
    let mut request = request("hi");
    for (model, effort, asked, expected) in [
        ("gpt-5.6", None, 16, 4_112),
        ("o3", Some(ReasoningEffort::Low), 1_024, 5_120),
        ("gpt-5.6", None, 1_025, 1_025),
        ("gpt-5.6", Some(ReasoningEffort::None), 16, 16),
        ("gpt-4.1", None, 16, 16),
    ] {
        request.max_output_tokens = Some(asked);
        for api in crate::APIS {
            let body = body(api, &request, |config| {
                config.model = model.to_owned();
                config.reasoning_effort = effort;
            })
            .await;
            let fields = ["max_output_tokens", "max_completion_tokens", "max_tokens"];
            let most = fields.iter().find_map(|field| body.get(*field));
            assert_eq!(most, Some(&Value::from(expected)), "{api:?} {model}");
        }
    }
}

#[tokio::test]
async fn stream_usage_is_not_requested_if_disabled() {
    let server = Loopback::start(answer).await;
    let mut config = config(&server, Api::Chat);
    config.stream_usage = Some(false);
    let client = OpenAiClient::new(config).unwrap();
    stream(&client, &request("hi")).await.unwrap();
    let sent = &server.seen()[0].body;
    assert!(sent.ends_with(r#","stream":true}"#), "{sent}");
}

#[tokio::test]
async fn a_server_without_schema_support_gets_the_schema_as_text() {
    let mut request = request("hi");
    request.reply_format = everything().reply_format;
    for (form, expected) in [
        (ReplyForm::JsonObject, Some("json_object")),
        (ReplyForm::Ignored, None),
    ] {
        let body = body(Api::Chat, &request, |config| {
            config.reply_form = Some(form);
        })
        .await;
        assert_eq!(body["response_format"]["type"].as_str(), expected);
        let told = body["messages"][1]["content"].as_str().unwrap();
        assert!(told.contains("JSON Schema"), "{told}");
    }
}

#[tokio::test]
async fn reasoning_is_sent_back_over_chat_completions_only_if_configured() {
    let thought = Message::Assistant(AssistantMessage {
        parts: vec![
            Part::Reasoning(ReasoningPart {
                text: "hm".to_owned(),
                ..ReasoningPart::default()
            }),
            Part::Text(TextPart {
                text: "Hello.".to_owned(),
                state: None,
            }),
        ],
        model: Some(ModelRef::new("openai", "kimi")),
    });
    let request = request_of([
        Message::user("hi"),
        thought,
        Message::user("look"),
        messages::calls([("c1", "look", "{}")]),
        messages::result("c1", "look", "1"),
    ]);
    let none = [Value::Null, Value::Null];
    for (echo, expected) in [
        (None, none.clone()),
        (Some(ReasoningEcho::Never), none),
        (Some(ReasoningEcho::SameTurn), [Value::Null, "".into()]),
        (Some(ReasoningEcho::Always), ["hm".into(), "".into()]),
    ] {
        let body = body(Api::Chat, &request, |config| config.echo_reasoning = echo).await;
        let sent = [1, 3].map(|place| body["messages"][place]["reasoning_content"].clone());
        assert_eq!(sent, expected, "{echo:?}");
    }
}

#[tokio::test]
async fn encrypted_reasoning_is_requested_only_if_the_server_does_not_store_it() {
    let kept = body(Api::Responses, &request("hi"), |config| config.store = true).await;
    assert_eq!(
        (&kept["store"], kept.get("include")),
        (&Value::Bool(true), None)
    );
    let not_kept = body(Api::Responses, &request("hi"), |_| {}).await;
    assert_eq!(not_kept["store"], false);
    assert_eq!(not_kept["include"][0], "reasoning.encrypted_content");
    let does_not_reason = body(Api::Responses, &request("hi"), |config| {
        config.model = "gpt-4.1".to_owned();
    })
    .await;
    assert_eq!(does_not_reason.get("include"), None);
}

#[tokio::test]
async fn azure_is_called_with_its_path_api_version_and_key_header() {
    let seen = sent(Api::Chat, &request("hi"), |config| {
        config.base_url = config.base_url.replace("/v1", "/openai/deployments/mine/");
        config
            .query
            .insert("api-version".to_owned(), "2026-01-01".to_owned());
        config.key_header = Some("api-key".to_owned());
    })
    .await;
    assert_eq!(
        seen.line,
        "POST /openai/deployments/mine/chat/completions?api-version=2026-01-01"
    );
    assert!(
        seen.headers.contains(&format!("api-key: {CANARY}")),
        "{}",
        seen.headers
    );
    assert!(!seen.headers.contains("authorization"), "{}", seen.headers);
}

#[tokio::test]
async fn account_and_extra_headers_are_sent_but_secrets_never_shown() {
    let mut shown = String::new();
    let seen = sent(Api::Responses, &request("hi"), |config| {
        config.organization = Some("org-1".to_owned());
        config.project = Some("proj-1".to_owned());
        config
            .headers
            .insert("http-referer".to_owned(), "https://me.example".to_owned());
        config
            .secret_headers
            .push(("x-gateway".to_owned(), Secret::new("canary-token")));
        shown = format!(
            "{config:?} {:?}",
            OpenAiClient::new(config.clone()).unwrap()
        );
    })
    .await;
    for header in [
        "openai-organization: org-1",
        "openai-project: proj-1",
        "http-referer: https://me.example",
        "x-gateway: canary-token",
        &format!("authorization: bearer {CANARY}"),
    ] {
        assert!(seen.headers.contains(header), "{header}: {}", seen.headers);
    }
    assert!(!shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn a_secret_header_repeated_by_the_server_is_redacted() {
    let server = Loopback::start(|_| {
        Answer::whole(401, "x: y", r#"{"error":"wrong token canary-token-1"}"#)
    })
    .await;
    let mut config = config(&server, Api::Responses);
    config
        .secret_headers
        .push(("x-gateway".to_owned(), Secret::new("canary-token-1")));
    let client = OpenAiClient::new(config).unwrap();
    for error in crate::both(&client, &request("hi")).await {
        assert!(error.message.contains("wrong token [redacted]"), "{error}");
    }
}
