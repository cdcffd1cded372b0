//! What probing a server reports.

use std::time::Duration;

use neuraxis_core::{LlmErrorKind, ModelRef};
use neuraxis_llama::{LateSystem, LlamaClient, LlamaConfig, Server, ServerState};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};

use crate::client;

const SECONDS: Duration = Duration::from_secs(10);

const MODELS: &str = r#"{"models":[{"name":"tiny"}],"object":"list","data":[{"id":"tiny","aliases":[],"meta":{"n_ctx":4096,"n_ctx_train":8192}}]}"#;
const PROPS: &str = r#"{"default_generation_settings":{"id":0,"n_ctx":2048,"params":{}},"total_slots":2,"model_alias":"tiny","build_info":"b1-7e4c0a9","chat_template_caps":{"supports_tools":true,"supports_parallel_tool_calls":false}}"#;
const REFUSAL: &str = r#"{"error":{"code":500,"message":"Jinja Exception: System message must be at the beginning.","type":"server_error"}}"#;

fn llama_server(line: &str, template: impl Fn() -> Answer) -> Answer {
    match line {
        "GET /v1/models" => Answer::json(MODELS),
        "GET /props" => Answer::json(PROPS),
        _ => template(),
    }
}

#[tokio::test]
async fn a_llama_server_reports_its_model_context_and_template_features() {
    let server = Loopback::start(|seen| {
        llama_server(&seen.line, || {
            Answer::whole(500, "content-type: application/json", REFUSAL)
        })
    })
    .await;
    let probe = client(&server).probe(SECONDS).await.unwrap();
    assert_eq!(probe.state, ServerState::Ready);
    assert_eq!(probe.models, ["tiny"]);
    assert_eq!(probe.context_tokens, Some(2_048), "that of one slot");
    assert_eq!(probe.slots, Some(2));
    assert_eq!(probe.build.as_deref(), Some("b1-7e4c0a9"));
    assert_eq!(probe.supports_tools, Some(true));
    assert_eq!(probe.supports_parallel_calls, Some(false));
    assert_eq!(probe.accepts_late_system, Some(false));
    assert_eq!(server.seen()[2].line, "POST /apply-template");

    let config = LlamaConfig::new(server.url()).informed_by(&probe);
    assert_eq!(config.late_system, LateSystem::User);
    let info = LlamaClient::new(config).unwrap().info();
    assert_eq!(info.model, ModelRef::new("llama", "tiny"));
    assert_eq!(info.context_tokens, None, "it asks by itself");
}

#[tokio::test]
async fn a_template_that_takes_a_late_system_message_is_recognized() {
    let server =
        Loopback::start(|seen| llama_server(&seen.line, || Answer::json(r#"{"prompt":"a"}"#)))
            .await;
    let probe = client(&server).probe(SECONDS).await.unwrap();
    assert_eq!(probe.accepts_late_system, Some(true));
}

#[tokio::test]
async fn a_loading_server_is_recognized() {
    let server = Loopback::start(|_| {
        let body = r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
        Answer::whole(503, "content-type: application/json", body)
    })
    .await;
    let probe = client(&server).probe(SECONDS).await.unwrap();
    assert_eq!(probe.state, ServerState::Loading);
    assert!(probe.models.is_empty());
}

#[tokio::test]
async fn other_servers_are_asked_only_for_their_models() {
    for (kind, body, models, context) in [
        (
            Server::Ollama,
            r#"{"object":"list","data":null}"#,
            vec![],
            None,
        ),
        (
            Server::LmStudio,
            r#"{"data":[{"id":"text-embedding-nomic"},{"id":"qwen"},{"id":"bad\u001b[2J"},{"id":""}]}"#,
            vec!["qwen", "text-embedding-nomic"],
            None,
        ),
        (
            Server::Vllm,
            r#"{"data":[{"id":"m","max_model_len":4096}]}"#,
            vec!["m"],
            Some(4_096),
        ),
    ] {
        let server = Loopback::start(move |_| Answer::json(body)).await;
        let mut config = LlamaConfig::new(server.url());
        config.server = kind;
        let probe = LlamaClient::new(config)
            .unwrap()
            .probe(SECONDS)
            .await
            .unwrap();
        assert_eq!(probe.models, models);
        assert_eq!(probe.context_tokens, context);
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_is_not_from_a_model_server_is_an_error() {
    for answer in [r#"{"hello":"world"}"#, r#"{"data":"none"}"#, "[]", "hello"] {
        let server = Loopback::start(move |_| Answer::json(answer)).await;
        let error = client(&server).probe(SECONDS).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{answer}");
    }
    let server = Loopback::start(|_| {
        Answer::whole(200, "content-type: text/html", "<html>").then(Act::Close)
    })
    .await;
    let error = client(&server).probe(SECONDS).await.unwrap_err();
    assert!(error.message.contains("text/html"), "{error}");
}

#[tokio::test]
async fn an_endless_model_list_is_aborted() {
    const HEAD: &[u8] = b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\n\r\n";
    const SPACES: &[u8] = &[b' '; 64 * 1024];
    let server = Loopback::start(|_| {
        let head = Act::Send(HEAD.to_vec());
        Answer::nothing().then(head).then(Act::Forever(SPACES))
    })
    .await;
    let error = client(&server).probe(SECONDS).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    server.hung_up().await;
}

#[tokio::test]
async fn a_wrong_key_is_detected_by_the_probe() {
    let server = Loopback::start(|seen| match seen.line.as_str() {
        "GET /v1/models" => Answer::json(MODELS),
        _ => Answer::whole(401, "x: y", "Invalid API Key"),
    })
    .await;
    let error = client(&server).probe(SECONDS).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Unauthorized);
}

#[tokio::test]
async fn a_probe_of_an_unresponsive_server_times_out() {
    let server = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    let soon = Duration::from_millis(50);
    let error = client(&server).probe(soon).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    server.hung_up().await;
}
