//! The corpus of Chat Completions streams, which the fuzz targets also start from.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::TryStreamExt;
use neuraxis_core::{LlmError, LlmErrorKind, Reply, ReplyAssembler};
use neuraxis_ports::ReplyStream;
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::streams::{are_replies_or_errors, serve};
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig};

use crate::{client_at, promptly, respond};

/// Requests a stream, and a whole reply, which gets the same bytes.
async fn ask(server: &Loopback) -> [Result<Reply, LlmError>; 2] {
    let endpoint = Arc::new(Endpoint::new(EndpointConfig::new(server.url())).unwrap());
    let (route, request, ctx) = (endpoint.route("x"), request("hi"), call_context());
    let client = ChatClient::new(endpoint, route, "m", Dialect::standard("test"));
    [
        promptly(async { collect(client.stream(&request, &ctx).await?).await }).await,
        promptly(client.respond(&request, &ctx)).await,
    ]
}

async fn collect(mut stream: ReplyStream) -> Result<Reply, LlmError> {
    let mut assembler = ReplyAssembler::default();
    while let Some(delta) = stream.try_next().await? {
        assembler.push(delta)?;
    }
    assembler.finish()
}

#[tokio::test]
async fn every_chat_completions_stream_of_the_corpus_is_a_reply_or_an_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/chat");
    are_replies_or_errors(&folder, ask).await;
}

#[tokio::test]
async fn a_responses_stream_is_no_chat_completions_reply() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../openai/tests/corpus/responses/good-text");
    let server = serve(std::fs::read(path).unwrap()).await;
    for reply in ask(&server).await {
        assert_eq!(reply.unwrap_err().kind, LlmErrorKind::InvalidResponse);
    }
}

/// The first line of such a file is the wait time that the server names; the rest is the body.
#[tokio::test]
async fn error_bodies_of_any_shape_become_short_errors_without_control_characters() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/errors");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (wait, body) = text.split_once('\n').unwrap_or_default();
        let statuses = [400, 401, 402, 404, 413, 422, 429, 500, 503];
        let answers: Vec<_> = statuses
            .map(|status| (status, format!("retry-after: {wait}"), body.to_owned()))
            .into();
        let asked = AtomicUsize::new(0);
        let server = Loopback::start(move |_| {
            let (status, headers, body) = &answers[asked.fetch_add(1, Ordering::SeqCst)];
            Answer::whole(*status, headers, body)
        })
        .await;
        let client = client_at(&server.url(), |_| {});
        for status in statuses {
            let error = respond(&client).await.unwrap_err();
            let said = error.message;
            assert_ne!(error.kind, LlmErrorKind::Connection, "{name}, {status}");
            assert!(said.chars().count() < 1_000, "{name}, {status}: {said}");
            assert!(!said.contains(char::is_control), "{name}: {said:?}");
        }
        count += 1;
    }
    assert!(count >= 15, "the corpus is not where it should be");
}
