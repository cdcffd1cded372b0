//! The server's count equals the number of tokens it processes.

use std::time::Duration;

use neuraxis_core::{LlmErrorKind, Message, TokenCount};
use neuraxis_testkit::request;

use crate::running::Running;
use crate::{go_on, respond, with_tools};

const SECONDS: Duration = Duration::from_secs(10);

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_count_is_exact_for_every_prompt_of_a_conversation() {
    let server = Running::start(&[]);
    let client = server.client();
    let mut request = with_tools([
        Message::system("Be brief: é and 🦀."),
        Message::user("think about two calls"),
    ]);
    for _ in 0..2 {
        let counted = client.count_tokens(&request, SECONDS).await.unwrap();
        let reply = respond(&client, &request).await.unwrap();
        assert_eq!(counted, reply.usage.prompt);
        go_on(&mut request, &reply);
    }
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn the_count_equals_the_tokens_reported_by_an_overflow() {
    let server = Running::start(&[]);
    let client = server.client();
    let request = request("x".repeat(40_000));
    let counted = client.count_tokens(&request, SECONDS).await.unwrap();
    let error = respond(&client, &request).await.unwrap_err();
    let LlmErrorKind::ContextOverflow {
        needed: Some(needed),
        ..
    } = error.kind
    else {
        unreachable!("{error}");
    };
    assert_eq!(counted, TokenCount::measured(needed));
}
