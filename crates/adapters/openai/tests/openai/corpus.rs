//! The corpus of Responses streams, from which the fuzz target also starts.

use std::path::Path;

use neuraxis_core::{LlmError, LlmErrorKind, Reply};
use neuraxis_openai::Api;
use neuraxis_testkit::loopback::Loopback;
use neuraxis_testkit::request;
use neuraxis_testkit::streams::{are_replies_or_errors, serve};

use crate::{client, respond, stream};

/// Requests a stream and a whole reply, which gets the same bytes.
async fn ask(server: &Loopback) -> [Result<Reply, LlmError>; 2] {
    let (client, request) = (client(server, Api::Responses), request("hi"));
    [
        stream(&client, &request).await,
        respond(&client, &request).await,
    ]
}

#[tokio::test]
async fn every_responses_stream_of_the_corpus_is_a_reply_or_an_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/responses");
    are_replies_or_errors(&folder, ask).await;
}

#[tokio::test]
async fn a_chat_completions_stream_is_no_responses_reply() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/corpus/chat/good-text");
    let server = serve(std::fs::read(path).unwrap()).await;
    for reply in ask(&server).await {
        assert_eq!(reply.unwrap_err().kind, LlmErrorKind::InvalidResponse);
    }
}
