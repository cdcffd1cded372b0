//! How the server is reached: through a proxy, with certificates, and with a limit on concurrent replies.

use std::time::Duration;

use neuraxis_core::LlmErrorKind;
use neuraxis_llama::{EndpointError, LlamaClient, LlamaConfig, MaxConcurrent, Server};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::{call_context, request};

fn config(url: &str) -> LlamaConfig {
    let mut config = LlamaConfig::new(url);
    config.server = Server::Vllm;
    config
}

#[tokio::test]
async fn requests_go_through_the_configured_proxy() {
    let proxy = Loopback::start(|_| Answer::json(r#"{"data":[]}"#)).await;
    let mut config = config("http://models.example");
    config.proxy = Some(proxy.url());
    let client = LlamaClient::new(config).unwrap();
    client.probe(Duration::from_secs(10)).await.unwrap();
    assert_eq!(proxy.seen()[0].line, "GET http://models.example/v1/models");
}

#[test]
fn an_unreadable_ca_file_is_named() {
    let mut config = config("https://models.example");
    config.ca_file = Some("/nowhere/ca.pem".into());
    let error = LlamaClient::new(config).unwrap_err();
    assert!(matches!(error, EndpointError::CaFile { .. }), "{error}");
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}

#[tokio::test]
async fn concurrent_replies_are_limited_across_clients() {
    let server = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    let mut config = config(&server.url());
    config.max_concurrent = Some(MaxConcurrent::new(std::num::NonZeroUsize::MIN));
    let first = LlamaClient::new(config.clone()).unwrap();
    config.timeouts.total = Some(Duration::from_millis(50));
    let second = LlamaClient::new(config).unwrap();
    let (request, ctx) = (request("hi"), call_context());
    let mut stalled = std::pin::pin!(first.respond(&request, &ctx));
    assert!(futures_util::poll!(&mut stalled).is_pending());
    let error = second.respond(&request, &ctx).await.unwrap_err();
    let busy = LlmErrorKind::RateLimited { retry_after: None };
    assert_eq!(error.kind, busy);
    assert!(error.message.contains("max_concurrent"), "{error}");
    assert!(server.seen().len() <= 1, "the second was sent");
}
