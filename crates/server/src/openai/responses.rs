//! `POST /v1/responses`, and a stored response by its id.
//!
//! Wire format: platform.openai.com/docs/api-reference/responses. A response is a run, and its id is that of the run. A
//! `previous_response_id` continues in the same session.

mod input;
mod items;
mod output;
mod references;
mod repeated;
mod writer;

use std::collections::BTreeSet;
use std::mem;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use neuraxis::Orchestrator;
use neuraxis::core::{RunId, with_causes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::client_request::{ClientRequest, NeuraxisOptions};
use super::run::{self, ClientOutcome, GuardedRun};
use super::stream::stream_answer;
use super::tools::{FormatIn, ToolIn, answer, offered};
use super::{at_least_one, check_answerable, error, models, parse, temperature};
use crate::api::result_if_settled;
use crate::attached::MAX_BODY_BYTES;
use crate::body;
use crate::caller::Caller;
use crate::events::Streams;
use crate::limits::ServerState;
use crate::problem::{NO_SUCH_RESPONSE, Problem};
use crate::query::Parameters;
use crate::refusal::internal;
use input::{Input, conversation};
pub(super) use output::ResponseOut;
use repeated::{FormatOut, Repeated};
use writer::ResponseEvents;

/// The prefix of a response's id, before the id of the run.
pub(super) const ID: &str = "resp_";

/// A request. Unknown fields are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiResponseRequest")]
#[serde(expecting = "an object with the field input")]
pub(super) struct ResponseRequest {
    /// The agent or role that answers. By default, the policy chooses.
    model: Option<String>,
    /// A text, or the items of a conversation.
    input: Option<Input>,
    /// Additional instructions for the agent.
    instructions: Option<String>,
    /// The response whose conversation continues. It must be the last one there that has an answer.
    previous_response_id: Option<String>,
    /// Tools that the client runs.
    tools: Option<Vec<ToolIn>>,
    /// `none`, `auto`, `required`, a function's name, or a subset of the tools as `allowed_tools`.
    #[serde(default)]
    tool_choice: Value,
    /// The format of the answer.
    text: Option<TextIn>,
    /// The sampling temperature.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// The maximum number of tokens of a reply.
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    /// Whether to stream the response.
    stream: Option<bool>,
    /// Arbitrary data that the answer repeats. It is not stored.
    #[serde(default)]
    metadata: Value,
    /// Must be `false`: background responses are not supported.
    background: Option<bool>,
    /// Must be `null`: continue a conversation with `previous_response_id`, or with `session` in `neuraxis`.
    conversation: Option<Value>,
    /// Must be `null`: no prompts are stored here.
    prompt: Option<Value>,
    /// Options that OpenAI's API lacks.
    neuraxis: Option<NeuraxisOptions>,
}

/// The format of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiText")]
#[serde(expecting = "an object that may have the field format")]
struct TextIn {
    /// The format.
    format: Option<FormatIn>,
}

/// Handles a request.
pub(super) async fn create(
    State(state): State<ServerState>,
    State(streams): State<Streams>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bytes = body::json_of(&headers, body, MAX_BODY_BYTES).await?;
    let mut body: ResponseRequest = parse(&bytes)?;
    drop(bytes);
    let is_stream = body.stream.unwrap_or_default();
    let previous = body.previous_response_id.clone();
    let metadata = match mem::take(&mut body.metadata) {
        Value::Object(own) => own,
        _ => Map::new(),
    };
    let mut answered_by = BTreeSet::new();
    if let Some(Input::Items(items)) = &mut body.input {
        let continued = previous.as_deref().and_then(run_of);
        references::look_up(items, continued, state.orchestrator(), &caller).await?;
        answered_by = references::runs_of(items);
    }
    let format = body.text.as_ref().and_then(|text| text.format.as_ref());
    let format = format.map(|format| format.kind().to_owned());
    let mut client_request = body.into_client_request()?;
    client_request.answered_by = answered_by;
    if let Some(run) = client_request.previous {
        let mut before = system_before(state.orchestrator(), &caller, run).await?;
        // A repeated message is kept once.
        before.retain(|text| !client_request.system.contains(text));
        before.append(&mut client_request.system);
        client_request.system = before;
    }
    let format = format.map(|kind| FormatOut::new(&kind, client_request.answer.as_ref()));
    let repeated = Repeated {
        model: client_request
            .model
            .clone()
            .unwrap_or_else(|| models::DEFAULT.to_owned()),
        previous_response_id: previous,
        format: format.unwrap_or_default(),
        system: client_request.system.clone(),
    };
    let mut request = client_request
        .into_request(&state, &caller, "input")
        .await?;
    let context = mem::take(&mut request.context).with_stored(&repeated);
    request.context = context.map_err(|error| internal(&with_causes(&error)))?;
    let (guarded, events) = run::begin(&state, &caller, request, "input").await?;
    let handle = guarded.handle();
    let session = handle.session_id().clone();
    let begun = ResponseOut::begun(session, handle.run_id(), guarded.created(), repeated);
    let begun = begun.with_metadata(metadata);
    if is_stream {
        let events_out = ResponseEvents::to_client(begun, &handle.records());
        return Ok(stream_answer(&streams, guarded, events, events_out));
    }
    drop(events);
    Ok(error::without_retry(completed(&guarded, begun).await))
}

/// Returns the system messages of the conversation that continues from a run; none if no such run is visible to the
/// caller.
async fn system_before(
    orchestrator: &Orchestrator,
    caller: &Caller,
    run: RunId,
) -> Result<Vec<String>, Problem> {
    if caller.find_run(orchestrator, run).await?.is_none() {
        return Ok(Vec::new());
    }
    let records = orchestrator.sessions().records(run).await?;
    Ok(Repeated::of(&records).system)
}

/// Waits for the complete response.
async fn completed(guarded: &GuardedRun, begun: ResponseOut) -> Result<Response, Problem> {
    let outcome = guarded.outcome().await?;
    if !outcome.is_answered() {
        return Ok(error::unanswered(&outcome));
    }
    let records = guarded.handle().records();
    let response = ResponseEvents::whole(begun, &records, &outcome)
        .map_err(|error| internal(&with_causes(&error)))?;
    Ok(Json(response).into_response())
}

/// The query of a request for a stored response. Unknown fields are ignored.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RetrieveQuery {
    /// Must be `false`: an existing response cannot be streamed again.
    stream: Option<bool>,
}

/// `GET /v1/responses/{id}`: the response of a run that has ended or waits; for a run in progress, that it is in
/// progress.
pub(super) async fn retrieve(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    Parameters(query): Parameters<RetrieveQuery>,
) -> Result<Json<ResponseOut>, Problem> {
    if query.stream == Some(true) {
        let why = "a stored response cannot be streamed; retrieve it whole once its run has ended";
        return Err(Problem::invalid("stream", why));
    }
    let run = id.ok().and_then(|Path(id)| run_of(&id));
    let run = run.ok_or_else(no_such)?;
    let response = stored_response(&orchestrator, &caller, run).await?;
    response.map(Json).ok_or_else(no_such)
}

/// Returns a response from the records of its run, as far as it is known, or `None` if no such run is visible to the
/// caller.
async fn stored_response(
    orchestrator: &Orchestrator,
    caller: &Caller,
    run: RunId,
) -> Result<Option<ResponseOut>, Problem> {
    let Some(summary) = caller.find_run(orchestrator, run).await? else {
        return Ok(None);
    };
    let records = orchestrator.sessions().records(run).await?;
    let created = run::created(&records);
    let repeated = Repeated::of(&records);
    let begun = ResponseOut::begun(summary.session.clone(), run, created, repeated);
    let Some(mut result) = result_if_settled(orchestrator, &summary).await? else {
        return Ok(Some(begun));
    };
    run::set_waiting_notice(&mut result, &records);
    let outcome = ClientOutcome::new(result, &records);
    let response = ResponseEvents::whole(begun, &records, &outcome);
    Ok(Some(
        response.map_err(|error| internal(&with_causes(&error)))?,
    ))
}

fn run_of(id: &str) -> Option<RunId> {
    id.strip_prefix(ID)?.parse().ok().map(RunId)
}

fn no_such() -> Problem {
    Problem::new(&NO_SUCH_RESPONSE, "no such response").with("field", "response_id")
}

impl ResponseRequest {
    fn into_client_request(self) -> Result<ClientRequest, Problem> {
        if self.background == Some(true) {
            let why = "background responses are not supported; stream, or wait for the response";
            return Err(Problem::invalid("background", why));
        }
        if self.conversation.is_some() {
            let why = "conversation ids are not supported; use previous_response_id, or session in neuraxis";
            return Err(Problem::invalid("conversation", why));
        }
        if self.prompt.is_some() {
            let why = "stored prompts are not supported; send their text as instructions and input";
            return Err(Problem::invalid("prompt", why));
        }
        let previous = self.previous_response_id.as_deref().map(|id| {
            let why = "no such response";
            run_of(id).ok_or_else(|| Problem::invalid("previous_response_id", why))
        });
        let (messages, system) = match self.input {
            Some(input) => conversation(input)?,
            None => (Vec::new(), Vec::new()),
        };
        let format = self.text.and_then(|text| text.format);
        let answer = format.map(|format| answer("text.format", format));
        let (tools, tool_choice) = offered(self.tools.unwrap_or_default(), &self.tool_choice)?;
        Ok(ClientRequest {
            model: self.model,
            messages: check_answerable("input", messages)?,
            instructions: self.instructions,
            system,
            tools,
            tool_choice,
            answer: answer.transpose()?.flatten(),
            temperature: temperature(self.temperature)?,
            max_output_tokens: at_least_one("max_output_tokens", self.max_output_tokens)?,
            previous: previous.transpose()?,
            answered_by: BTreeSet::new(),
            own: self.neuraxis.unwrap_or_default(),
        })
    }
}
