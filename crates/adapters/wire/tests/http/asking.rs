//! How the tests of a provider's own protocol ask its client: none may hang, and no error may tell the key.

use std::time::Duration;

use futures_util::TryStreamExt;
use neuraxis_core::{
    AssistantMessage, LlmError, Message, ModelRequest, Part, Reply, ReplyAssembler, ReplyPart,
    ToolCall, ToolCallId,
};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::call_context;
use serde_json::Value;

use crate::loopback::Seen;

pub(crate) async fn respond(
    client: &impl LlmClient,
    request: &ModelRequest,
) -> Result<Reply, LlmError> {
    let ctx = call_context();
    promptly(client.respond(request, &ctx)).await
}

pub(crate) async fn stream(
    client: &impl LlmClient,
    request: &ModelRequest,
) -> Result<Reply, LlmError> {
    promptly(async {
        let ctx = call_context();
        let mut deltas = client.stream_respond(request, &ctx).await?;
        let mut assembler = ReplyAssembler::default();
        while let Some(delta) = deltas.try_next().await? {
            assembler.push(delta)?;
        }
        assembler.finish()
    })
    .await
}

/// Waits for what must not hang, and lets no error pass that tells the key.
async fn promptly<T>(call: impl Future<Output = Result<T, LlmError>>) -> Result<T, LlmError> {
    let result = tokio::time::timeout(Duration::from_secs(20), call).await;
    let result = result.expect("the call hangs");
    if let Err(error) = &result {
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
    result
}

/// Returns the body of a request.
pub(crate) fn json(seen: &Seen) -> Value {
    serde_json::from_str(&seen.body).unwrap()
}

/// Turns a reply into the message that the loop keeps of it.
pub(crate) fn message_of(reply: Reply) -> Message {
    let mut number = 0;
    let parts = reply.parts.into_iter().map(|part| match part {
        ReplyPart::Text(part) => Part::Text(part),
        ReplyPart::Reasoning(part) => Part::Reasoning(part),
        ReplyPart::ToolCall(call) => {
            number += 1;
            Part::ToolCall(ToolCall {
                id: ToolCallId::from_text(format!("loop-{number}")),
                name: call.name,
                arguments: call.arguments,
                provider_id: call.provider_id,
                state: call.state,
            })
        }
    });
    Message::Assistant(AssistantMessage {
        parts: parts.collect(),
        model: Some(reply.model),
    })
}
