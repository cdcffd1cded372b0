//! `POST /v1/chat/completions`
//!
//! Wire format: platform.openai.com/docs/api-reference/chat. Thoughts are sent as `reasoning_content`, like DeepSeek's
//! API and those that follow it.

mod stream;

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use neuraxis::core::{AssistantMessage, JsonText, Message, Part, ToolCall, ToolCallId, Usage};
use neuraxis::{FinishReason, OrchestratorResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::calls::Calls;
use super::client_request::{ClientRequest, NeuraxisOptions};
use super::content::Content;
use super::run::{self, ClientOutcome, GuardedRun, RunRef, StructuredReply};
use super::stream::stream_answer;
use super::tools::{FormatIn, ToolIn, answer, offered};
use super::{
    at_least_one, check_answerable, error, events_from_records, models, parse, temperature,
    thoughts,
};
use crate::attached::MAX_BODY_BYTES;
use crate::body;
use crate::caller::Caller;
use crate::events::Streams;
use crate::limits::ServerState;
use crate::problem::Problem;

/// A request. Unknown fields are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiChat")]
#[serde(expecting = "an object with the field messages")]
pub(super) struct ChatRequest {
    /// The agent or role that answers. By default, the policy chooses.
    model: Option<String>,
    /// The conversation.
    messages: Vec<MessageIn>,
    /// Tools that the client runs.
    tools: Option<Vec<ToolIn>>,
    /// `none`, `auto`, `required`, a function's name, or a subset of the tools as `allowed_tools`.
    #[serde(default)]
    tool_choice: Value,
    /// Not supported: send tools as `tools`.
    #[serde(default)]
    functions: Value,
    /// The format of the answer.
    response_format: Option<FormatIn>,
    /// The sampling temperature.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// The maximum number of tokens of a reply.
    #[schemars(range(min = 1))]
    max_tokens: Option<u32>,
    /// The maximum number of tokens of a reply, under its newer name.
    #[schemars(range(min = 1))]
    max_completion_tokens: Option<u32>,
    /// Must be 1.
    #[schemars(range(min = 1, max = 1))]
    n: Option<u32>,
    /// Whether to stream the answer.
    stream: Option<bool>,
    /// Options for streaming.
    stream_options: Option<StreamOptions>,
    /// Options that OpenAI's API lacks.
    neuraxis: Option<NeuraxisOptions>,
}

/// Options for streaming.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiStreamOptions")]
#[serde(default, expecting = "an object that may have the field include_usage")]
struct StreamOptions {
    /// Whether the last chunk contains the usage.
    include_usage: Option<bool>,
}

/// A message of the conversation.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiMessage")]
#[serde(expecting = "a message, which is an object with the field role")]
struct MessageIn {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    role: String,
    /// Its text, or its parts: text, images, files.
    content: Option<Content>,
    /// For an answer without content: the reason.
    refusal: Option<String>,
    /// For an answer: its calls.
    tool_calls: Option<Vec<CallIn>>,
    /// For the result of a call: the id of the call.
    tool_call_id: Option<String>,
}

/// A call as it was sent to the client.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiCall")]
#[serde(expecting = "a call, which is an object with the fields id and function")]
struct CallIn {
    /// Its id.
    id: String,
    /// The function that was called, with its arguments.
    function: FunctionIn,
}

/// The function that is called.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiCalled")]
#[serde(expecting = "an object with the fields name and arguments")]
struct FunctionIn {
    /// The name of the function.
    name: String,
    /// The arguments, as JSON text.
    arguments: Option<String>,
}

/// Handles a request.
pub(super) async fn complete(
    State(state): State<ServerState>,
    State(streams): State<Streams>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bytes = body::json_of(&headers, body, MAX_BODY_BYTES).await?;
    let body: ChatRequest = parse(&bytes)?;
    drop(bytes);
    let is_stream = body.stream.unwrap_or_default();
    let with_usage = body.stream_options.unwrap_or_default().include_usage;
    let client_request = body.into_client_request()?;
    let model = client_request
        .model
        .clone()
        .unwrap_or_else(|| models::DEFAULT.to_owned());
    let request = client_request
        .into_request(&state, &caller, "messages")
        .await?;
    let (guarded, events) = run::begin(&state, &caller, request, "messages").await?;
    if is_stream {
        let chunks = stream::Chunks::new(&guarded, model, with_usage.unwrap_or_default());
        return Ok(stream_answer(&streams, guarded, events, chunks));
    }
    drop(events);
    Ok(error::without_retry(completed(&guarded, model).await))
}

/// Waits for the complete answer.
async fn completed(guarded: &GuardedRun, model: String) -> Result<Response, Problem> {
    let outcome = guarded.outcome().await?;
    if !outcome.is_answered() {
        return Ok(error::unanswered(&outcome));
    }
    Ok(Json(Completion::new(guarded, model, &outcome)).into_response())
}

impl ChatRequest {
    fn into_client_request(self) -> Result<ClientRequest, Problem> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(Problem::invalid("n", "only 1 is supported"));
        }
        let functions = self.functions.as_array();
        if functions.is_some_and(|functions| !functions.is_empty()) {
            let why = "not supported; use tools, and tool_choice instead of function_call";
            return Err(Problem::invalid("functions", why));
        }
        let most = at_least_one("max_completion_tokens", self.max_completion_tokens)?;
        let old_most = at_least_one("max_tokens", self.max_tokens)?;
        let (messages, system) = conversation(self.messages)?;
        let answer = self
            .response_format
            .map(|format| answer("response_format", format));
        let (tools, tool_choice) = offered(self.tools.unwrap_or_default(), &self.tool_choice)?;
        Ok(ClientRequest {
            model: self.model,
            messages: check_answerable("messages", messages)?,
            instructions: None,
            system,
            tools,
            tool_choice,
            answer: answer.transpose()?.flatten(),
            temperature: temperature(self.temperature)?,
            max_output_tokens: most.or(old_most),
            previous: None,
            answered_by: BTreeSet::new(),
            own: self.neuraxis.unwrap_or_default(),
        })
    }
}

/// Parses a conversation. System messages are returned separately.
fn conversation(sent: Vec<MessageIn>) -> Result<(Vec<Message>, Vec<String>), Problem> {
    let (mut messages, mut system) = (Vec::with_capacity(sent.len()), Vec::new());
    let mut calls = Calls::default();
    for (at, message) in sent.into_iter().enumerate() {
        let field = |name: &str| format!("messages[{at}].{name}");
        let content = message.content;
        let text = |content: Option<Content>| match content {
            Some(content) => content.text(&field("content")),
            None => Ok(String::new()),
        };
        let lines = |content: Option<Content>| match content {
            Some(content) => content.lines(&field("content")),
            None => Ok(String::new()),
        };
        match message.role.as_str() {
            "system" | "developer" => system.push(lines(content)?),
            "user" => {
                let missing =
                    || Problem::invalid(&field("content"), "a user message needs content");
                let parts = content.ok_or_else(missing)?.parts(&field("content"))?;
                messages.push(Message::User { parts });
            }
            "assistant" => {
                let mut text = text(content)?;
                if text.is_empty() {
                    text = message.refusal.unwrap_or_default();
                }
                let mut parts = Vec::new();
                if !text.is_empty() {
                    parts.push(Part::text(text));
                }
                for call in message.tool_calls.into_iter().flatten() {
                    let call = call_of(call);
                    calls.take(call.id.clone(), call.name.to_string());
                    parts.push(Part::ToolCall(call));
                }
                messages.push(Message::Assistant(AssistantMessage { parts, model: None }));
            }
            "tool" => {
                let why = "the result of a call must name the call";
                let id_field = field("tool_call_id");
                let id = message
                    .tool_call_id
                    .ok_or_else(|| Problem::invalid(&id_field, why))?;
                let id = ToolCallId::from_text(id);
                messages.push(calls.answer(id, &lines(content)?, &id_field)?);
            }
            _ => {
                let why = "expected system, developer, user, assistant or tool";
                return Err(Problem::invalid(&field("role"), why));
            }
        }
    }
    Ok((messages, system))
}

fn call_of(call: CallIn) -> ToolCall {
    ToolCall {
        id: ToolCallId::from_text(call.id),
        name: call.function.name.into(),
        arguments: JsonText::from_text(call.function.arguments.unwrap_or_default()),
        provider_id: None,
        state: None,
    }
}

/// A complete answer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiCompletion")]
pub(super) struct Completion {
    id: String,
    object: &'static str,
    created: i64,
    model: String,
    choices: [Choice; 1],
    usage: UsageOut,
    neuraxis: RunRef,
}

/// The only choice of an answer.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiChoice")]
struct Choice {
    index: u32,
    message: MessageOut,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

/// The agent's message.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiAnswer")]
struct MessageOut {
    role: &'static str,
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut>,
}

/// A call that the client must run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiCallOfAnswer")]
struct CallOut {
    /// Its index among the calls, only in streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut,
}

/// The function to call.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiFunctionOfAnswer")]
struct FunctionOut {
    name: String,
    arguments: String,
}

impl Completion {
    fn new(guarded: &GuardedRun, model: String, outcome: &ClientOutcome) -> Self {
        let ClientOutcome { result, calls, .. } = outcome;
        let records = guarded.handle().records();
        let StructuredReply { content, refusal } =
            match run::is_structured(&records) || outcome.lacks_call {
                true => outcome.structured_reply(),
                false => StructuredReply {
                    content: Some(events_from_records::full_text(&records, outcome))
                        .filter(|text| calls.is_empty() || !text.is_empty()),
                    refusal: None,
                },
            };
        Self {
            id: id_of(guarded),
            object: "chat.completion",
            created: guarded.created(),
            model,
            choices: [Choice {
                index: 0,
                message: MessageOut {
                    role: "assistant",
                    content,
                    reasoning_content: thoughts::all(&records),
                    refusal,
                    tool_calls: calls.iter().map(|call| CallOut::new(None, call)).collect(),
                },
                logprobs: None,
                finish_reason: finish_reason(result),
            }],
            usage: UsageOut::new(&result.usage.total),
            neuraxis: RunRef::of(guarded).with_outcome(outcome),
        }
    }
}

impl CallOut {
    fn new(index: Option<usize>, call: &ToolCall) -> Self {
        Self {
            index,
            id: call.id.to_string(),
            kind: "function",
            function: FunctionOut {
                name: call.name.to_string(),
                arguments: call.arguments.as_str().to_owned(),
            },
        }
    }
}

fn id_of(guarded: &GuardedRun) -> String {
    format!("chatcmpl-{}", guarded.handle().run_id())
}

/// Returns the finish reason in OpenAI's terms.
fn finish_reason(result: &OrchestratorResult) -> &'static str {
    match &result.finish_reason {
        Some(FinishReason::ClientTools) => "tool_calls",
        // As OpenAI reports a model that refuses a structured answer: clients show a refusal, but treat
        // `content_filter` as a failure.
        Some(FinishReason::Refused) if result.answer_fault.is_some() => "stop",
        Some(FinishReason::ContentFilter | FinishReason::Refused) => "content_filter",
        Some(reason) if *reason == FinishReason::Length || reason.ends_at_a_limit() => "length",
        _ => "stop",
    }
}

/// The usage of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiChatUsage")]
struct UsageOut {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

/// Details of the prompt tokens.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiPromptDetails")]
struct PromptDetails {
    cached_tokens: u64,
}

/// Details of the completion tokens.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiCompletionDetails")]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl UsageOut {
    fn new(usage: &Usage) -> Self {
        Self {
            prompt_tokens: usage.prompt.tokens,
            completion_tokens: usage.completion.tokens,
            total_tokens: usage.all_tokens(),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached.tokens,
            },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning.tokens,
            },
        }
    }
}
