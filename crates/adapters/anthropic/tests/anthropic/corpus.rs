//! The corpus of message streams, which the fuzz target also starts from.

use std::path::Path;

use neuraxis_testkit::loopback::Loopback;
use neuraxis_testkit::request;
use neuraxis_testkit::streams::are_replies_or_errors;

use crate::{client, respond, stream};

#[tokio::test]
async fn every_stream_of_the_corpus_is_a_reply_or_an_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/messages");
    let ask = async |server: &Loopback| {
        let (client, request) = (client(server), request("hi"));
        [
            stream(&client, &request).await,
            respond(&client, &request).await,
        ]
    };
    are_replies_or_errors(&folder, ask).await;
}
