//! The adapter against DeepSeek itself. Costs a little money, so it must be requested: with
//! `NEURAXIS_TEST_REAL_PROVIDERS=1` and a key in `DEEPSEEK_API_KEY`, run `cargo nextest run -p neuraxis-deepseek
//! --run-ignored all`. `NEURAXIS_TEST_DEEPSEEK_MODEL` names a model other than the default.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test tells what is wrong by a panic, and why it did nothing in its output"
)]

use std::time::Duration;

use futures_util::TryStreamExt;
use neuraxis_core::{
    AssistantMessage, Message, ModelRequest, Part, Reply, ReplyAssembler, ReplyFinish, ReplyPart,
    ToolCall, ToolCallId,
};
use neuraxis_deepseek::{DeepSeekClient, DeepSeekConfig, Secret};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{call_context, messages, request, request_of, spec};

/// Returns a client if this test was requested.
fn client() -> Option<DeepSeekClient> {
    let is_asked = std::env::var("NEURAXIS_TEST_REAL_PROVIDERS").is_ok_and(|value| value == "1");
    let key = std::env::var("DEEPSEEK_API_KEY").ok();
    let (true, Some(key)) = (is_asked, key) else {
        eprintln!("skipped: set NEURAXIS_TEST_REAL_PROVIDERS=1 and DEEPSEEK_API_KEY");
        return None;
    };
    let mut config = DeepSeekConfig::default();
    if let Ok(model) = std::env::var("NEURAXIS_TEST_DEEPSEEK_MODEL") {
        config.model = model;
    }
    config.api_key = Some(Secret::new(&key));
    Some(DeepSeekClient::new(config).unwrap())
}

async fn streamed(client: &DeepSeekClient, request: &ModelRequest) -> Reply {
    let stream = client.stream_respond(request, &call_context()).await;
    let deltas: Vec<_> = stream.unwrap().try_collect().await.unwrap();
    let mut assembler = ReplyAssembler::default();
    for delta in deltas {
        assembler.push(delta).unwrap();
    }
    assembler.finish().unwrap()
}

#[tokio::test]
#[ignore = "needs DeepSeek: asked for by NEURAXIS_TEST_REAL_PROVIDERS=1 and a key"]
async fn the_service_lists_its_models_and_answers() {
    let Some(client) = client() else { return };
    let models = client.models(Duration::from_secs(10)).await.unwrap();
    assert!(!models.is_empty());
    let request = request("Reply with the word pong.");
    let whole = client.respond(&request, &call_context()).await.unwrap();
    assert!(whole.text().to_lowercase().contains("pong"), "{whole:?}");
    let reply = streamed(&client, &request).await;
    assert!(reply.text().to_lowercase().contains("pong"), "{reply:?}");
    assert!(reply.usage.total.tokens > 0);
}

#[tokio::test]
#[ignore = "needs DeepSeek: asked for by NEURAXIS_TEST_REAL_PROVIDERS=1 and a key"]
async fn a_conversation_with_tools_is_never_refused() {
    let Some(client) = client() else { return };
    let place = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;
    let mut request = request_of([
        Message::system("Use the tools you are given."),
        Message::user("How warm is it in Rome?"),
    ]);
    request.tools = [spec("temperature").schema(place).build()].into();
    let reply = streamed(&client, &request).await;
    assert_eq!(reply.finish, ReplyFinish::ToolCalls, "{reply:?}");
    let mut results = Vec::new();
    let parts = reply.parts.into_iter().enumerate();
    let parts = parts.map(|(index, part)| match part {
        ReplyPart::Text(part) => Part::Text(part),
        ReplyPart::Reasoning(part) => Part::Reasoning(part),
        ReplyPart::ToolCall(call) => {
            let id = format!("loop-{index}");
            results.push(messages::result(&id, &call.name, r#"{"celsius":31}"#));
            Part::ToolCall(ToolCall {
                id: ToolCallId::from_text(id),
                name: call.name,
                arguments: call.arguments,
                provider_id: call.provider_id,
                state: call.state,
            })
        }
    });
    request.messages.push(Message::Assistant(AssistantMessage {
        parts: parts.collect(),
        model: Some(reply.model),
    }));
    for result in results {
        request.messages.push(result);
    }
    let answer = streamed(&client, &request).await;
    assert!(answer.text().contains("31"), "{answer:?}");
    // A reply of another provider in the middle of the conversation.
    request.messages.push(Message::assistant("It is 31 °C."));
    request.messages.push(Message::user("And is that hot?"));
    assert!(!streamed(&client, &request).await.text().is_empty());
}
