//! A corpus of good and hostile streams of Responses: none makes a client panic or hang, and each is the same whole and byte
//! by byte. Those whose names begin with `good` are replies, all others errors. A fuzz target begins with the same corpus.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuraxis_core::{LlmError, LlmErrorKind, Reply};
use neuraxis_openai::Api;
use neuraxis_testkit::request;

use crate::loopback::{Answer, Loopback};
use crate::{client, respond, stream};

/// Asks for a stream, and for a whole reply, which gets the same bytes.
async fn ask(server: &Loopback) -> [Result<Reply, LlmError>; 2] {
    let (client, request) = (client(server, Api::Responses), request("hi"));
    [
        stream(&client, &request).await,
        respond(&client, &request).await,
    ]
}

/// Answers a stream alternately whole and byte by byte, and a request for a whole reply with the same bytes.
async fn serve(bytes: Vec<u8>) -> Loopback {
    let streams = AtomicUsize::new(0);
    Loopback::start(move |seen| {
        if !seen.body.contains("\"stream\":true") {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            return Answer::json(&text);
        }
        let is_first = streams.fetch_add(1, Ordering::SeqCst) == 0;
        let size = if is_first { bytes.len().max(1) } else { 1 };
        Answer::events(bytes.chunks(size))
    })
    .await
}

#[tokio::test]
async fn streams_of_responses_are_replies_or_errors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/responses");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let server = serve(std::fs::read(&path).unwrap()).await;
        let [whole, no_stream] = ask(&server).await;
        let [split, _] = ask(&server).await;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(whole.is_ok(), name.starts_with("good"), "{name}: {whole:?}");
        assert!(no_stream.is_err(), "{name}: a stream is no document");
        match (whole, split) {
            (Ok(whole), Ok(split)) => assert_eq!(whole, split, "{name}"),
            (whole, split) => {
                assert_eq!(whole.unwrap_err().kind, split.unwrap_err().kind, "{name}");
            }
        }
        count += 1;
    }
    assert!(count >= 15, "the corpus is not where it should be");
}

#[tokio::test]
async fn a_stream_of_chat_completions_is_no_reply() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/corpus/chat/good-text");
    let server = serve(std::fs::read(path).unwrap()).await;
    for reply in ask(&server).await {
        assert_eq!(reply.unwrap_err().kind, LlmErrorKind::InvalidResponse);
    }
}
