//! Repeated prompts are not processed again, according to the server's own figures for its cache.

use neuraxis_core::{Message, ToolChoice, Usage};
use neuraxis_llama::{LlamaClient, ReasoningEcho};

use crate::running::Running;
use crate::{assembled, deltas, go_on, respond, with_tools};

/// The share of a prompt that the next one must find in the cache, in percent.
const REUSED: u64 = 95;

/// The length of the system message. The scripted model's template ends a prompt with about 1,060 tokens of script that
/// differ each time: in a conversation of this length, they are less than 4%.
const LONG: usize = 32_000;

/// Checks that a call found the prompt of the call before it in the cache.
fn assert_reused(before: &Usage, usage: &Usage) {
    let (read, cached) = (before.prompt.tokens, usage.cached.tokens);
    assert!(
        cached * 100 >= read * REUSED,
        "{cached} of {read} tokens were reused"
    );
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn the_prompt_cache_is_reused_from_the_second_turn_to_the_final_answer() {
    let server = Running::start(&["-np", "1"]);
    let mut config = server.config();
    // Otherwise, the reasoning that is dropped after the user's next message would change the prompt.
    config.echo_reasoning = ReasoningEcho::Always;
    let client = LlamaClient::new(config).unwrap();
    let system = "Be brief. ".repeat(LONG / 10);
    let user = "think about two calls, forever";
    let mut request = with_tools([Message::system(system), Message::user(user)]);
    // With fewer, it is told not to think.
    request.max_output_tokens = Some(1_025);
    let mut before: Option<Usage> = None;
    for turn in 0..4 {
        // To the cache, streamed and whole replies are one conversation.
        let reply = if turn % 2 == 0 {
            assembled(deltas(&client, &request).await)
        } else {
            respond(&client, &request).await.unwrap()
        };
        assert_eq!(reply.calls().count(), 2);
        assert!(!reply.reasoning().is_empty());
        if let Some(before) = &before {
            assert_reused(before, &reply.usage);
        }
        before = Some(reply.usage);
        go_on(&mut request, &reply);
    }
    request
        .messages
        .push(Message::system("Please provide an answer."));
    request.tool_choice = ToolChoice::None;
    let last = respond(&client, &request).await.unwrap();
    assert_reused(&before.unwrap(), &last.usage);
    // The user's next message continues the same conversation.
    go_on(&mut request, &last);
    request.messages.push(Message::user("hello"));
    request.tool_choice = ToolChoice::Auto;
    let next = respond(&client, &request).await.unwrap();
    assert_reused(&last.usage, &next.usage);
}
