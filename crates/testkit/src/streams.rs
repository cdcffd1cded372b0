//! What the tests of every protocol check for a corpus of valid and hostile streams: none makes a client panic or hang,
//! and each gives the same result whole and byte by byte. Files whose names begin with `good` are replies, all others
//! errors.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails if its corpus cannot be read"
)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuraxis_core::{LlmError, Reply};

use crate::loopback::{Answer, Loopback};

/// Answers requests for a stream alternately whole and byte by byte, and requests for a whole reply with the same
/// bytes.
pub async fn serve(bytes: Vec<u8>) -> Loopback {
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

/// Checks each file of a folder. `ask` requests a stream and a whole reply; both get the same bytes.
pub async fn are_replies_or_errors(
    folder: &Path,
    ask: impl AsyncFn(&Loopback) -> [Result<Reply, LlmError>; 2],
) {
    let mut is_empty = true;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let server = serve(std::fs::read(&path).unwrap()).await;
        let [whole, no_stream] = ask(&server).await;
        let [split, _] = ask(&server).await;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(whole.is_ok(), name.starts_with("good"), "{name}: {whole:?}");
        assert!(no_stream.is_err(), "{name}: a stream is not a document");
        match (whole, split) {
            (Ok(whole), Ok(split)) => assert_eq!(whole, split, "{name}"),
            (whole, split) => {
                assert_eq!(whole.unwrap_err().kind, split.unwrap_err().kind, "{name}");
            }
        }
        is_empty = false;
    }
    assert!(!is_empty, "the corpus is not where it should be");
}
