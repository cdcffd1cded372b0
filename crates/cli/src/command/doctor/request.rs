//! The tiny requests that are sent to a model.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use neuraxis::core::{
    EffectId, JsonText, LlmError, LlmErrorKind, Message, ModelRequest, Reply, ReplyAssembler,
    ReplyFormat, RunId, ToolChoice, ToolClass, ToolSpec,
};
use neuraxis::engine::UuidV7;
use neuraxis::ports::{CallContext, Ids, LlmClient, TraceContext};
use tokio::time::timeout;

/// The time limit of a tiny request: a local server may have to load its model first.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of tokens of a tiny reply. OpenAI accepts no less than 16.
const FEW: u32 = 16;

/// The maximum number of tokens of a reply with a tool call: a model that thinks first needs some for that.
pub(super) const ENOUGH_FOR_A_CALL: u32 = 512;

/// The temperature of mode `moderate`. Some models accept none, or only one value.
const TEMPERATURE: f32 = 0.7;

/// The tool to be called. It does not exist: only the call is wanted.
pub(super) const TOOL: &str = "ping";

/// Requests a reply as a whole.
pub(super) async fn whole(
    client: &dyn LlmClient,
    request: ModelRequest,
) -> Result<Reply, LlmError> {
    let context = context();
    let reply = client.respond(&request, &context);
    timeout(TIMEOUT, reply).await.map_err(|_| late())?
}

/// Requests a streamed reply.
pub(super) async fn streamed(
    client: &dyn LlmClient,
    request: ModelRequest,
) -> Result<Reply, LlmError> {
    let context = context();
    let asked = async {
        let mut stream = client.stream_respond(&request, &context).await?;
        let mut reply = ReplyAssembler::default();
        while let Some(delta) = stream.next().await {
            reply.push(delta?)?;
        }
        reply.finish()
    };
    timeout(TIMEOUT, asked).await.map_err(|_| late())?
}

fn late() -> LlmError {
    let seconds = TIMEOUT.as_secs();
    let message = format!("no answer within {seconds} s");
    LlmError::new(LlmErrorKind::Timeout, message)
}

/// Builds a request that costs next to nothing.
pub(super) fn tiny() -> ModelRequest {
    ModelRequest {
        messages: [Message::user("Answer with the one word: ok")]
            .into_iter()
            .collect(),
        tools: Arc::default(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: Some(FEW),
        temperature: Some(TEMPERATURE),
        reply_format: ReplyFormat::Text,
    }
}

/// Builds a request that should be answered with a tool call.
pub(super) fn calling() -> ModelRequest {
    let tool = TOOL.parse().map(|name| {
        ToolSpec::new(name, "Answers at once. Takes nothing.")
            .parameters(JsonText::from_text(r#"{"type":"object","properties":{}}"#))
            .class(ToolClass::ReadOnly)
    });
    ModelRequest {
        messages: [Message::user("Call the tool ping, and say nothing else.")]
            .into_iter()
            .collect(),
        tools: tool.into_iter().collect(),
        max_output_tokens: Some(ENOUGH_FOR_A_CALL),
        ..tiny()
    }
}

/// Returns the context of a request that belongs to no run.
fn context() -> CallContext {
    let run = RunId(UuidV7.new_id());
    let trace = TraceContext {
        trace_id: run.0.as_u128(),
        span_id: 1,
        sampled: false,
        state: None,
    };
    CallContext::new(EffectId { run, number: 1 }, trace)
}
