//! The size of a model's context, as servers report it when they are asked before a run.

use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_llama::{LlamaClient, LlamaConfig, Server};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::{call_context, request};

use crate::client;

const LOADING: &str =
    r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;

/// Serves only these pages.
async fn serving(pages: &'static [(&'static str, &'static str)]) -> Loopback {
    Loopback::start(move |seen| {
        let page = pages.iter().find(|(line, _)| *line == seen.line);
        match page {
            Some((_, body)) => Answer::json(body),
            None => Answer::whole(404, "content-type: text/plain", ""),
        }
    })
    .await
}

#[tokio::test]
async fn the_context_size_is_read_from_each_kind_of_server() {
    type Pages = &'static [(&'static str, &'static str)];
    const PROPS: &str = r#"{"default_generation_settings":{"n_ctx":2048}}"#;
    const NONE: &str = r#"{"default_generation_settings":{"n_ctx":0}}"#;
    const META: &str =
        r#"{"data":[{"id":"other","meta":{"n_ctx":1}},{"id":"tiny","meta":{"n_ctx":4096}}]}"#;
    const LENGTH: &str = r#"{"data":[{"id":"served-as","max_model_len":8192}]}"#;
    const LM_STUDIO: &str =
        r#"{"data":[{"id":"tiny","max_context_length":9,"loaded_context_length":512},{"id":"b"}]}"#;
    const OLLAMA: &str = r#"{"models":[{"name":"tiny:latest","context_length":1024}]}"#;
    let table: [(Server, Pages, Option<u64>); 9] = [
        (Server::LlamaServer, &[("GET /props", PROPS)], Some(2_048)),
        (
            Server::LlamaServer,
            &[("GET /props", NONE), ("GET /v1/models", META)],
            Some(4_096),
        ),
        (Server::LlamaServer, &[("GET /props", "<html>")], None),
        (Server::LlamaServer, &[], None),
        (Server::Vllm, &[("GET /v1/models", LENGTH)], Some(8_192)),
        (
            Server::LmStudio,
            &[("GET /api/v0/models", LM_STUDIO)],
            Some(512),
        ),
        (Server::LmStudio, &[], None),
        (Server::Ollama, &[("GET /api/ps", OLLAMA)], Some(1_024)),
        (Server::Ollama, &[("GET /api/ps", r#"{"models":[]}"#)], None),
    ];
    for (kind, pages, tokens) in table {
        let server = serving(pages).await;
        let mut config = LlamaConfig::new(server.url());
        (config.server, config.model) = (kind, Some("tiny".to_owned()));
        let client = LlamaClient::new(config).unwrap();
        assert_eq!(client.info().context_tokens, None);
        client.learn_context().await;
        assert_eq!(client.info().context_tokens, tokens, "{kind:?}: {pages:?}");
        // A server that was recently asked without success is not asked again.
        let asked = server.seen().len();
        client.learn_context().await;
        let is_asked = server.seen().len() > asked;
        assert_eq!(is_asked, tokens.is_some(), "{kind:?}: {pages:?}");
    }
}

#[tokio::test]
async fn a_loading_server_is_asked_again_once_it_is_ready() {
    static IS_THERE: AtomicBool = AtomicBool::new(false);
    let server = Loopback::start(|_| {
        if IS_THERE.load(Ordering::SeqCst) {
            Answer::json(r#"{"default_generation_settings":{"n_ctx":2048}}"#)
        } else {
            Answer::whole(503, "content-type: application/json", LOADING)
        }
    })
    .await;
    let client = client(&server);
    client.learn_context().await;
    assert_eq!(client.info().context_tokens, None);
    IS_THERE.store(true, Ordering::SeqCst);
    client.learn_context().await;
    assert_eq!(client.info().context_tokens, Some(2_048));
}

#[tokio::test]
async fn a_configured_context_size_is_not_requested() {
    let server = serving(&[]).await;
    let mut config = LlamaConfig::new(server.url());
    config.context_tokens = Some(7);
    let client = LlamaClient::new(config).unwrap();
    client.learn_context().await;
    assert_eq!(client.info().context_tokens, Some(7));
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_hanging_server_delays_a_run_only_briefly() {
    let server = Loopback::start(|_| Answer::nothing()).await;
    let client = client(&server);
    let started = std::time::Instant::now();
    client.learn_context().await;
    assert!(started.elapsed().as_secs() < 5);
    assert_eq!(client.info().context_tokens, None);
}

#[tokio::test]
async fn a_llama_server_reports_which_media_it_accepts() {
    const SEES: &str =
        r#"{"default_generation_settings":{"n_ctx":8},"modalities":{"vision":true,"audio":false}}"#;
    const BLIND: &str = r#"{"default_generation_settings":{"n_ctx":8},"modalities":{"vision":false,"audio":false}}"#;
    const SILENT: &str = r#"{"default_generation_settings":{"n_ctx":8}}"#;
    const PAGES: [&[(&str, &str)]; 3] = [
        &[("GET /props", SEES)],
        &[("GET /props", BLIND)],
        &[("GET /props", SILENT)],
    ];
    for (pages, sees) in PAGES.into_iter().zip([Some(true), Some(false), None]) {
        for asks_context_first in [true, false] {
            let server = serving(pages).await;
            let client = LlamaClient::new(LlamaConfig::new(server.url())).unwrap();
            if asks_context_first {
                client.learn_context().await;
            }
            client.learn_media().await;
            let media = client.info().media;
            assert_eq!(media.takes("image/png"), sees == Some(true), "{pages:?}");
            assert_eq!(media.refuses("image/png"), sees == Some(false), "{pages:?}");
            let asked = server.seen().len();
            client.learn_media().await;
            let is_asked = server.seen().len() > asked;
            assert_eq!(is_asked, sees.is_some(), "{pages:?}");
        }
    }
}

#[tokio::test]
async fn an_overflow_clears_the_context_size_and_a_restart_is_noticed() {
    const FORMER: &str = r#"{"default_generation_settings":{"n_ctx":8192},"modalities":{"vision":false,"audio":false}}"#;
    const NEW: &str = r#"{"default_generation_settings":{"n_ctx":16384},"modalities":{"vision":true,"audio":false}}"#;
    const OVERFLOW: &str = r#"{"error":{"code":400,"message":"request (1381 tokens) exceeds the available context size (1024 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1381,"n_ctx":1024}}"#;
    static IS_NEW: AtomicBool = AtomicBool::new(false);
    let server = Loopback::start(|seen| match &*seen.line {
        "GET /props" if IS_NEW.load(Ordering::SeqCst) => Answer::json(NEW),
        "GET /props" => Answer::json(FORMER),
        _ => Answer::whole(400, "content-type: application/json", OVERFLOW),
    })
    .await;
    let client = client(&server);
    let (ctx, request) = (call_context(), request("hi"));
    for is_streamed in [false, true] {
        client.learn_context().await;
        assert_eq!(client.info().context_tokens, Some(8_192));
        let is_refused = match is_streamed {
            true => client.stream_respond(&request, &ctx).await.is_err(),
            false => client.respond(&request, &ctx).await.is_err(),
        };
        assert!(is_refused);
        assert_eq!(client.info().context_tokens, None, "it is asked again");
    }
    assert!(client.info().media.refuses("image/png"));
    IS_NEW.store(true, Ordering::SeqCst);
    client.learn_media().await;
    assert!(client.info().media.takes("image/png"));
    client.learn_context().await;
    assert_eq!(client.info().context_tokens, Some(16_384));
}
