//! `POST /v1/chat/completions`
//!
//! Wire: platform.openai.com/docs/api-reference/chat. Thoughts are told as `reasoning_content`, as DeepSeek's API and those
//! that follow it do.

mod stream;

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use neuraxis::core::{AssistantMessage, JsonText, Message, Part, ToolCall, ToolCallId, Usage};
use neuraxis::{FinishReason, OrchestratorResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::asked::{Asked, Own};
use super::content::{Content, result};
use super::run::{self, Ended, Held};
use super::stream::answer_as_it_comes;
use super::tools::{FormatIn, ToolIn, answer, tool_choice, tools};
use super::{error, invalid, parse};
use crate::attached::MAX_BODY_BYTES;
use crate::body;
use crate::caller::Caller;
use crate::events::Streams;
use crate::limits::Limited;
use crate::problem::Problem;

/// What a client sends. What else it sends is left alone.
#[derive(Debug, Deserialize)]
struct ChatRequest {
    model: Option<String>,
    messages: Vec<MessageIn>,
    tools: Option<Vec<ToolIn>>,
    #[serde(default)]
    tool_choice: Value,
    response_format: Option<FormatIn>,
    temperature: Option<f32>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    n: Option<u32>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    neuraxis: Option<Own>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct MessageIn {
    role: String,
    content: Option<Content>,
    tool_calls: Option<Vec<CallIn>>,
    tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct CallIn {
    id: String,
    function: FunctionIn,
}

#[derive(Debug, Deserialize)]
struct FunctionIn {
    name: String,
    #[serde(default)]
    arguments: String,
}

/// Takes a request.
pub(super) async fn complete(
    State(limited): State<Limited>,
    State(streams): State<Streams>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bytes = body::json_of(&headers, body, MAX_BODY_BYTES).await?;
    let said: ChatRequest = parse(&bytes)?;
    drop(bytes);
    let is_stream = said.stream.unwrap_or_default();
    let with_usage = said.stream_options.unwrap_or_default().include_usage;
    let asked = said.asked()?;
    let model = asked.model.clone().unwrap_or_else(|| "neuraxis".to_owned());
    let has_form = asked.answer.is_some();
    let request = asked.into_request(limited.orchestrator(), &caller).await?;
    let (held, events) = run::begin(&limited, &caller, request).await?;
    if is_stream {
        let chunks = stream::Chunks::new(&held, model, with_usage.unwrap_or_default(), has_form);
        return Ok(answer_as_it_comes(&streams, held, events, chunks));
    }
    drop(events);
    let ended = held.ended().await?;
    if !ended.is_answered() {
        let code = error_code(&ended.result);
        return Ok(error::failed(ended.result.reply, &code));
    }
    Ok(error::not_again(
        Json(Completion::new(&held, model, &ended)).into_response(),
    ))
}

impl ChatRequest {
    fn asked(self) -> Result<Asked, Problem> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(invalid("n", "one choice is made of a request: expected 1"));
        }
        let (messages, instructions) = conversation(self.messages)?;
        let answer = self
            .response_format
            .map(|format| answer("response_format", format));
        Ok(Asked {
            model: self.model,
            messages,
            instructions,
            tools: tools(self.tools.unwrap_or_default())?,
            tool_choice: tool_choice(&self.tool_choice)?,
            answer: answer.transpose()?.flatten(),
            temperature: self.temperature,
            max_output_tokens: self.max_completion_tokens.or(self.max_tokens),
            previous: None,
            own: self.neuraxis.unwrap_or_default(),
        })
    }
}

/// Reads a conversation, and the instructions in it.
fn conversation(said: Vec<MessageIn>) -> Result<(Vec<Message>, Vec<String>), Problem> {
    let (mut messages, mut instructions) = (Vec::with_capacity(said.len()), Vec::new());
    let mut names = BTreeMap::new();
    for (at, message) in said.into_iter().enumerate() {
        let field = |name: &str| format!("messages[{at}].{name}");
        let content = message.content;
        let text = |content: Option<Content>| match content {
            Some(content) => content.text(&field("content")),
            None => Ok(String::new()),
        };
        match message.role.as_str() {
            "system" | "developer" => instructions.push(text(content)?),
            "user" => {
                let missing = || invalid(&field("content"), "a user message has content");
                let parts = content.ok_or_else(missing)?.parts(&field("content"))?;
                messages.push(Message::User { parts });
            }
            "assistant" => {
                let text = text(content)?;
                let mut parts = Vec::new();
                if !text.is_empty() {
                    parts.push(Part::text(text));
                }
                for call in message.tool_calls.into_iter().flatten() {
                    names.insert(call.id.clone(), call.function.name.clone());
                    parts.push(Part::ToolCall(call_of(call)));
                }
                messages.push(Message::Assistant(AssistantMessage { parts, model: None }));
            }
            "tool" => {
                let why = "the result of a call names the call";
                let id = message.tool_call_id;
                let id = id.ok_or_else(|| invalid(&field("tool_call_id"), why))?;
                let name = names.get(&id).cloned().unwrap_or_else(|| "tool".to_owned());
                let id = ToolCallId::from_text(id);
                messages.push(Message::tool_result(id, name, result(&text(content)?)));
            }
            _ => {
                let why = "expected system, developer, user, assistant or tool";
                return Err(invalid(&field("role"), why));
            }
        }
    }
    Ok((messages, instructions))
}

fn call_of(call: CallIn) -> ToolCall {
    ToolCall {
        id: ToolCallId::from_text(call.id),
        name: call.function.name.into(),
        arguments: JsonText::from_text(call.function.arguments),
        provider_id: None,
        state: None,
    }
}

/// An answer in one piece.
#[derive(Debug, Serialize)]
struct Completion {
    id: String,
    object: &'static str,
    created: i64,
    model: String,
    choices: [Choice; 1],
    usage: UsageOut,
    neuraxis: Place,
}

#[derive(Debug, Serialize)]
struct Choice {
    index: u32,
    message: MessageOut,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct MessageOut {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut>,
}

/// A call that the client is to run.
#[derive(Debug, Serialize)]
struct CallOut {
    /// Its place among the calls, which only streams tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut,
}

#[derive(Debug, Serialize)]
struct FunctionOut {
    name: String,
    arguments: String,
}

/// Where the conversation and the run are found on the server's own API.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Place {
    session_id: String,
    run_id: String,
}

impl Place {
    pub(super) fn of(held: &Held) -> Self {
        Self {
            session_id: held.handle().session_id().to_string(),
            run_id: held.handle().run_id().to_string(),
        }
    }
}

impl Completion {
    fn new(held: &Held, model: String, ended: &Ended) -> Self {
        let Ended { result, calls } = ended;
        let content = match calls.is_empty() {
            true => Some(result.reply.clone()),
            false => Some(result.reply.clone()).filter(|text| !text.is_empty()),
        };
        Self {
            id: id_of(held),
            object: "chat.completion",
            created: held.created(),
            model,
            choices: [Choice {
                index: 0,
                message: MessageOut {
                    role: "assistant",
                    content,
                    refusal: None,
                    tool_calls: calls.iter().map(|call| CallOut::new(None, call)).collect(),
                },
                logprobs: None,
                finish_reason: finish_reason(result),
            }],
            usage: UsageOut::new(&result.usage.total),
            neuraxis: Place::of(held),
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

fn id_of(held: &Held) -> String {
    format!("chatcmpl-{}", held.handle().run_id())
}

/// Returns the word for why an answer ended that OpenAI's clients know.
fn finish_reason(result: &OrchestratorResult) -> &'static str {
    match &result.finish_reason {
        Some(FinishReason::ClientTools) => "tool_calls",
        Some(FinishReason::ContentFilter | FinishReason::Refused) => "content_filter",
        Some(reason) if *reason == FinishReason::Length || reason.ends_at_a_limit() => "length",
        _ => "stop",
    }
}

/// Returns a word for why there is no answer.
pub(super) fn error_code(result: &OrchestratorResult) -> String {
    let reason = serde_json::to_value(&result.finish_reason).unwrap_or_default();
    let name = match &reason {
        Value::String(name) => Some(name.as_str()),
        Value::Object(fields) => fields.keys().next().map(String::as_str),
        _ => None,
    };
    name.unwrap_or("failed").to_owned()
}

/// What a run used.
#[derive(Debug, Serialize)]
struct UsageOut {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl UsageOut {
    fn new(usage: &Usage) -> Self {
        let (prompt, completion) = (usage.prompt.tokens, usage.completion.tokens);
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: usage.total.tokens.max(prompt.saturating_add(completion)),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached.tokens,
            },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning.tokens,
            },
        }
    }
}
