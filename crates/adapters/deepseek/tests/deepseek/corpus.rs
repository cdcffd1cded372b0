//! A corpus of texts with calls written into them: each gives the same result whole and character by character. The
//! fuzz target starts from the same corpus.

use neuraxis_core::{LlmError, LlmErrorKind, Reply};
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::{Value, json};

use crate::shapes::events;
use crate::{client, streamed};

async fn reply(pieces: &[String]) -> Result<Reply, LlmError> {
    let pieces: Vec<Value> = pieces
        .iter()
        .map(|piece| json!({ "content": piece }))
        .collect();
    let stream = events(&pieces, "stop").concat();
    let server = Loopback::start(move |_| Answer::events([stream.as_bytes()])).await;
    streamed(&client(&server), &request("hi")).await
}

#[tokio::test]
async fn markup_of_the_corpus_is_read_the_same_whole_and_character_by_character() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/markup");
    let (mut replies, mut errors) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let letters: Vec<String> = text.chars().map(String::from).collect();
        match (reply(&[text]).await, reply(&letters).await) {
            (Ok(whole), Ok(split)) => {
                assert_eq!(whole, split, "{}", path.display());
                let shown = whole.text();
                assert!(!shown.contains("<｜DSML｜tool_calls>"), "{shown}");
                replies += 1;
            }
            (Err(whole), Err(split)) => {
                assert_eq!(whole.kind, LlmErrorKind::InvalidResponse);
                assert_eq!(whole.kind, split.kind, "{}", path.display());
                errors += 1;
            }
            (whole, split) => panic!("{}: {whole:?} or {split:?}", path.display()),
        }
    }
    assert!(replies >= 3 && errors >= 3, "{replies} and {errors}");
}
