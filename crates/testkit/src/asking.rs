//! How the tests of a provider call its client: no call may hang, and no error may contain the key, which contains
//! `canary`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails if its call hangs or sends invalid JSON"
)]

use std::time::Duration;

use futures_util::TryStreamExt;
use neuraxis_core::{
    AssistantMessage, LlmError, Message, ModelRequest, Part, Reply, ReplyAssembler, ReplyPart,
    ToolCall, ToolCallId,
};
use neuraxis_ports::LlmClient;
use serde_json::Value;

use crate::call_context;
use crate::loopback::Seen;

/// Requests a whole reply.
///
/// # Errors
///
/// The client's error.
pub async fn respond(client: &impl LlmClient, request: &ModelRequest) -> Result<Reply, LlmError> {
    let ctx = call_context();
    promptly(client.respond(request, &ctx)).await
}

/// Requests a streamed reply, and assembles it.
///
/// # Errors
///
/// The client's error, or that of assembling the reply.
pub async fn stream(client: &impl LlmClient, request: &ModelRequest) -> Result<Reply, LlmError> {
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

/// Waits at most 20 seconds for a call that must not hang, and panics if its error contains the key.
///
/// # Errors
///
/// The call's error.
pub async fn promptly<T>(call: impl Future<Output = Result<T, LlmError>>) -> Result<T, LlmError> {
    let result = tokio::time::timeout(Duration::from_secs(20), call).await;
    let result = result.expect("the call hangs");
    if let Err(error) = &result {
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
    result
}

/// Returns the body of a request as JSON.
#[must_use]
pub fn json(seen: &Seen) -> Value {
    serde_json::from_str(&seen.body).unwrap()
}

/// Turns a reply into the message that the loop keeps of it.
#[must_use]
pub fn message_of(reply: Reply) -> Message {
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
