//! `POST /v1/responses`, and a response again by its id.
//!
//! Wire: platform.openai.com/docs/api-reference/responses. A response is a run, its id that of the run: what
//! `previous_response_id` names goes on in the same session.

mod input;
mod output;
mod stream;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use neuraxis::Orchestrator;
use neuraxis::core::RunId;
use serde::Deserialize;
use serde_json::Value;

use self::stream::ResponseEvents;
use super::asked::{Asked, Own};
use super::run::{self, Ended};
use super::stream::answer_as_it_comes;
use super::tools::{FormatIn, ToolIn, answer, tool_choice, tools};
use super::{error, invalid, parse};
use crate::attached::MAX_BODY_BYTES;
use crate::body;
use crate::caller::Caller;
use crate::events::Streams;
use crate::limits::Limited;
use crate::problem::{NO_SUCH_RESPONSE, Problem};
use input::{Input, conversation};
use output::ResponseOut;

/// What stands before the id of a run in that of a response.
const ID: &str = "resp_";

/// What a client sends. What else it sends is left alone.
#[derive(Debug, Deserialize)]
struct ResponseRequest {
    model: Option<String>,
    input: Option<Input>,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    tools: Option<Vec<ToolIn>>,
    #[serde(default)]
    tool_choice: Value,
    text: Option<TextIn>,
    temperature: Option<f32>,
    max_output_tokens: Option<u32>,
    stream: Option<bool>,
    background: Option<bool>,
    neuraxis: Option<Own>,
}

#[derive(Debug, Deserialize)]
struct TextIn {
    format: Option<FormatIn>,
}

/// Takes a request.
pub(super) async fn create(
    State(limited): State<Limited>,
    State(streams): State<Streams>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let bytes = body::json_of(&headers, body, MAX_BODY_BYTES).await?;
    let said: ResponseRequest = parse(&bytes)?;
    drop(bytes);
    let is_stream = said.stream.unwrap_or_default();
    let previous = said.previous_response_id.clone();
    let asked = said.asked()?;
    let model = asked.model.clone().unwrap_or_else(|| "neuraxis".to_owned());
    let has_form = asked.answer.is_some();
    let request = asked.into_request(limited.orchestrator(), &caller).await?;
    let (held, events) = run::begin(&limited, &caller, request).await?;
    let begun = ResponseOut::begun(held.handle().run_id(), held.created(), model, previous);
    if is_stream {
        let told = ResponseEvents::new(begun, has_form);
        return Ok(answer_as_it_comes(&streams, held, events, told));
    }
    drop(events);
    let ended = held.ended().await?;
    let code = super::chat::error_code(&ended.result);
    if !ended.is_answered() {
        return Ok(error::failed(ended.result.reply, &code));
    }
    let items = output::items(&ended);
    Ok(error::not_again(
        Json(begun.ended(&ended, items)).into_response(),
    ))
}

/// `GET /v1/responses/{id}`: a response of a run that has ended.
pub(super) async fn retrieve(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<ResponseOut>, Problem> {
    let run = run_of(&id).ok_or_else(no_such)?;
    if !caller.sees_run(&orchestrator, run).await? {
        return Err(no_such());
    }
    let records = orchestrator.sessions().records(run).await?;
    let begun = ResponseOut::begun(run, run::created(&records), "neuraxis".to_owned(), None);
    if !records.last().is_some_and(|last| last.ends_the_run()) {
        return Ok(Json(begun));
    }
    let result = orchestrator.runs().result(run).await?;
    let calls = run::handed_over(&records);
    let ended = Ended { result, calls };
    let items = output::items(&ended);
    Ok(Json(begun.ended(&ended, items)))
}

fn run_of(id: &str) -> Option<RunId> {
    id.strip_prefix(ID)?.parse().ok().map(RunId)
}

fn no_such() -> Problem {
    Problem::new(&NO_SUCH_RESPONSE, "there is no such response").with("field", "response_id")
}

impl ResponseRequest {
    fn asked(self) -> Result<Asked, Problem> {
        if self.background == Some(true) {
            let why = "responses are not made in the background: stream, or wait";
            return Err(invalid("background", why));
        }
        let previous = self.previous_response_id.as_deref().map(|id| {
            let why = "there is no such response";
            run_of(id).ok_or_else(|| invalid("previous_response_id", why))
        });
        let (messages, in_input) = match self.input {
            Some(input) => conversation(input)?,
            None => (Vec::new(), Vec::new()),
        };
        let instructions = self.instructions.into_iter().chain(in_input);
        let format = self.text.and_then(|text| text.format);
        let answer = format.map(|format| answer("text.format", format));
        Ok(Asked {
            model: self.model,
            messages,
            instructions: instructions.collect(),
            tools: tools(self.tools.unwrap_or_default())?,
            tool_choice: tool_choice(&self.tool_choice)?,
            answer: answer.transpose()?.flatten(),
            temperature: self.temperature,
            max_output_tokens: self.max_output_tokens,
            previous: previous.transpose()?,
            own: self.neuraxis.unwrap_or_default(),
        })
    }
}
