//! How the server is reached, which models it has, and their context sizes.

use std::time::Duration;

use neuraxis_anthropic::{AnthropicClient, AnthropicConfig, AnthropicError, EndpointError, Secret};
use neuraxis_core::{LlmErrorKind, Role};
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, LlmClient, ModelSource, Provider, Shared,
};
use neuraxis_testkit::loopback::{Answer, Loopback};

use crate::{CANARY, client, config};

const WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn models_with_valid_names_are_listed() {
    let server = Loopback::start(|seen| {
        assert_eq!(seen.line, "GET /v1/models?limit=1000");
        assert!(seen.headers.contains("anthropic-version: 2023-06-01"));
        Answer::json(r#"{"data":[{"type":"model","id":"claude-opus-5-5","display_name":"x"},{"id":"bad\u0000name"},{"id":"claude-haiku-5-5"}],"has_more":false}"#)
    })
    .await;
    let models = client(&server).models(WITHIN).await.unwrap();
    assert_eq!(models, ["claude-opus-5-5", "claude-haiku-5-5"]);
    let server = Loopback::start(|_| Answer::whole(401, "x: y", "{}")).await;
    let error = client(&server).models(WITHIN).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Unauthorized);
}

#[tokio::test]
async fn the_context_size_of_a_model_is_requested_once() {
    let server = Loopback::start(|seen| {
        assert_eq!(seen.line, "GET /v1/models/claude-opus-4-8");
        Answer::json(r#"{"id":"claude-opus-4-8","max_input_tokens":12345,"max_tokens":9}"#)
    })
    .await;
    let client = client(&server);
    assert_eq!(
        client.info().context_tokens,
        None,
        "it is not Anthropic's own"
    );
    for _ in 0..2 {
        client.learn_context().await;
        assert_eq!(client.info().context_tokens, Some(12_345));
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_gateway_is_asked_about_the_model_by_its_configured_name() {
    let server = Loopback::start(|_| Answer::json(r#"{"max_input_tokens":12345}"#)).await;
    let mut config = config(&server);
    config.model = "anthropic/claude-sonnet-4.6:beta".to_owned();
    let client = AnthropicClient::new(config).unwrap();
    client.learn_context().await;
    assert_eq!(client.info().context_tokens, Some(12_345));
    assert_eq!(
        server.seen()[0].line,
        "GET /v1/models/anthropic%2Fclaude-sonnet-4.6%3Abeta"
    );
}

#[tokio::test]
async fn an_unreported_context_size_is_requested_once_and_an_unsafe_model_name_never() {
    for answer in ["{}", "[]", "nonsense"] {
        let server = Loopback::start(move |_| Answer::json(answer)).await;
        let client = client(&server);
        for _ in 0..2 {
            client.learn_context().await;
            assert_eq!(client.info().context_tokens, None);
        }
        assert_eq!(server.seen().len(), 1, "{answer}");
    }
    let server = Loopback::start(|_| Answer::json("{}")).await;
    let mut odd = config(&server);
    odd.model = "../../elsewhere".to_owned();
    AnthropicClient::new(odd).unwrap().learn_context().await;
    assert!(server.seen().is_empty(), "such a name leads elsewhere");
}

#[tokio::test]
async fn requests_go_through_the_configured_proxy() {
    let proxy = Loopback::start(|_| Answer::json(r#"{"data":[]}"#)).await;
    let mut config = AnthropicConfig::new("m");
    config.base_url = "http://models.example".to_owned();
    config.proxy = Some(proxy.url());
    let client = AnthropicClient::new(config).unwrap();
    client.models(WITHIN).await.unwrap();
    assert_eq!(
        proxy.seen()[0].line,
        "GET http://models.example/v1/models?limit=1000"
    );
}

#[test]
fn an_unreadable_ca_file_or_invalid_header_is_named() {
    let mut unreadable = AnthropicConfig::new("m");
    unreadable.ca_file = Some("/nowhere/ca.pem".into());
    let error = AnthropicClient::new(unreadable).unwrap_err();
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    let mut odd = AnthropicConfig::new("m");
    odd.betas = vec!["a\nb".to_owned()];
    let error = AnthropicClient::new(odd).unwrap_err();
    let header = "anthropic-beta".to_owned();
    assert_eq!(
        error,
        AnthropicError::Endpoint(EndpointError::HeaderValue(header))
    );
}

/// Connects as a configuration would.
fn connect(config: AnthropicConfig) -> Result<Connection, ConnectError> {
    config.connect(&ConnectContext {
        role: &Role::REASONING,
        key: Some(Secret::new(CANARY)),
        headers: Vec::new(),
        secrets: &[],
        shared: &Shared::default(),
    })
}

#[tokio::test]
async fn a_configuration_without_a_model_can_only_list_models() {
    let server = Loopback::start(|seen| {
        assert!(seen.headers.contains(&format!("x-api-key: {CANARY}")));
        Answer::json(r#"{"data":[{"id":"claude-opus-5-5"}]}"#)
    })
    .await;
    for model in ["", "claude-opus-5-5"] {
        let mut config = config(&server);
        config.api_key = None;
        config.model = model.to_owned();
        assert_eq!(config.base_url(), Some(&*server.url()));
        let connection = connect(config).unwrap();
        assert_eq!(connection.client.is_some(), !model.is_empty());
        let offer = connection.source.offer(WITHIN).await.unwrap();
        assert_eq!(offer.models, ["claude-opus-5-5"]);
    }
}

#[test]
fn a_configuration_error_names_its_key() {
    for (key, text) in [
        ("betas", r#"betas = ["a\nb"]"#),
        ("version", r#"version = "\n""#),
        ("thinking_budget", "thinking_budget = 1"),
        ("show_thinking", r#"show_thinking = "omitted""#),
        ("base_url", r#"base_url = "nowhere""#),
        ("ca_file", r#"ca_file = "/nowhere/ca.pem""#),
    ] {
        let mut config: AnthropicConfig = toml::from_str(text).unwrap();
        config.model = "m".to_owned();
        assert_eq!(connect(config).unwrap_err().key(), key);
    }
}

#[tokio::test]
async fn a_short_model_name_matches_the_same_model_with_a_date() {
    let server = Loopback::start(|_| Answer::json("{}")).await;
    let client = client(&server);
    for (asked, offered, expected) in [
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", true),
        ("claude-opus-5-5", "claude-opus-5-5", true),
        (
            "claude-3-7-sonnet-latest",
            "claude-3-7-sonnet-20250219",
            true,
        ),
        ("claude-opus-5", "claude-opus-5-5", false),
        ("claude-opus-5", "claude-opus-5-5-20260901", false),
        ("claude-opus-5", "claude-opus", false),
    ] {
        assert_eq!(
            client.is_asked(asked, offered),
            expected,
            "{asked} {offered}"
        );
    }
}
