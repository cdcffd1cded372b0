//! OpenAI's API, so that clients written for it work unchanged: Chat Completions and Responses beneath `/v1`, streamed
//! or not, and the list of models, which here are agents and roles.
//!
//! A request becomes a governed run like any other. The server's own tools run inside it; calls of the client's tools
//! are returned to the client. Questions and answers are stored as a session. Unknown fields are ignored, because
//! clients of many versions send them.
//!
//! Unlike on the server's own API, a client that disconnects ends its run. Not for approvals, which clients of this API
//! cannot give: such a run waits, and its answer says so.

mod calls;
mod chat;
mod client_request;
mod content;
mod error;
mod events_from_records;
mod models;
mod responses;
mod run;
mod stream;
mod thoughts;
mod tools;
mod waits;

use neuraxis::core::Message;
use neuraxis_app::Scope;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::OF_POLICY;
use crate::limits::ServerState;
use crate::openapi::{DescribedRouter, Operation, Problems, Tag, operation};
use crate::problem::{
    AT_WORK_ELSEWHERE, INVALID_FIELD, INVALID_JSON, NO_SUCH_MODEL, NO_SUCH_RESPONSE,
    NO_SUCH_SESSION, Problem, RUN_UNRECORDED, SESSION_ALTERED, SESSION_BUSY, SHUTTING_DOWN,
    TOO_MANY_OWN_RUNS, TOO_MANY_RUNS,
};
use crate::request_body;

pub(crate) use error::{ErrorBody, SHOULD_RETRY, convert_problems};

/// Lists the routes beneath `/v1`, for clients that request another one there.
pub(crate) const NOTHING_HERE: &str = "not found; the routes under /v1 are /v1/chat/completions, /v1/responses and \
                                       /v1/models";

/// The maximum length of the path of an invalid field in an error message, in characters.
const MAX_ERROR_CHARS: usize = 300;

/// The problems that can prevent a request from becoming a run.
const OF_RUNS: Problems = &[
    &NO_SUCH_MODEL,
    &NO_SUCH_SESSION,
    &SESSION_BUSY,
    &SESSION_ALTERED,
    &AT_WORK_ELSEWHERE,
    &RUN_UNRECORDED,
    &TOO_MANY_RUNS,
    &TOO_MANY_OWN_RUNS,
    &SHUTTING_DOWN,
];

/// Returns the routes of this API.
pub(crate) fn routes() -> DescribedRouter<ServerState> {
    let chat = described("openai_chat", "Chat Completions: answers a conversation.")
        .description(CHAT_ABOUT)
        .body::<chat::ChatRequest>(CHAT)
        .answers::<chat::Completion>("The answer.")
        .answers_their_events("The answer, or its pieces as they arrive.")
        .problems(OF_POLICY)
        .problems(OF_RUNS);
    let respond = described("openai_respond", "Responses: answers an input.")
        .description(RESPONSE_ABOUT)
        .body::<responses::ResponseRequest>(RESPONSE)
        .answers::<responses::ResponseOut>("The response.")
        .answers_their_events("The response, or its events as they happen.")
        .leads_to("openai_response", &[("id", "/id")])
        .problems(OF_POLICY)
        .problems(OF_RUNS);
    let response = described("openai_response", "Retrieves a response.")
        .path::<String>(
            "id",
            "The id of the response: `resp_` and the id of its run.",
        )
        .query::<responses::RetrieveQuery>()
        .answers::<responses::ResponseOut>("The response as far as it is known.")
        .problems(&[&INVALID_FIELD, &NO_SUCH_RESPONSE]);
    let models = described(
        "openai_models",
        "Lists the agents and roles that can answer.",
    )
    .answers::<models::Models>("The models.");
    let model = described("openai_model", "Shows whether an agent or role can answer.")
        .path::<String>("id", "The name of an agent or role.")
        .answers::<models::Model>("The model.")
        .problems(&[&NO_SUCH_MODEL]);
    DescribedRouter::new()
        .post("/v1/chat/completions", Scope::Turns, chat::complete, chat)
        .post("/v1/responses", Scope::Turns, responses::create, respond)
        .get(
            "/v1/responses/{id}",
            Scope::Read,
            responses::retrieve,
            response,
        )
        .get("/v1/models", Scope::Read, models::list, models)
        .get("/v1/models/{id}", Scope::Read, models::show, model)
}

/// The description of the route for chats.
const CHAT_ABOUT: &str = "platform.openai.com/docs/api-reference/chat. A failed run is a 500, or a 429 with the code \
                          `insufficient_quota` if a budget is used up; both have `X-Should-Retry: false`.";

/// The description of the route for responses.
const RESPONSE_ABOUT: &str = "platform.openai.com/docs/api-reference/responses. A failed run is a 500, or a 429 with \
                              the code `insufficient_quota` if a budget is used up; both have `X-Should-Retry: false`.";

/// An example of a chat.
const CHAT: &str =
    r#"{ "model": "neuraxis", "messages": [{ "role": "user", "content": "What time is it?" }] }"#;

/// An example of a request for a response.
const RESPONSE: &str = r#"{ "model": "neuraxis", "input": "What time is it?" }"#;

fn described(id: &'static str, summary: &'static str) -> Operation {
    operation(id, Tag::Protocols, summary)
        .in_openais_form()
        .uses_store()
}

/// How U+0000, which some stores cannot hold, is written within JSON strings. It has no other form there.
const NUL: &[u8] = br"\u0000";

/// Parses a body. Unknown fields are ignored.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Bodies may be large, so they are parsed a second time only if necessary.
    if bytes.windows(NUL.len()).any(|part| part == NUL)
        && let Ok(body) = serde_json::from_slice::<Value>(bytes)
        && let Some(path) = request_body::find_nul(&body)
    {
        return Err(request_body::nul_problem(&path));
    }
    if request_body::is_list(bytes) {
        let detail = "the body must be a JSON object, not a list";
        return Err(Problem::new(&INVALID_FIELD, detail));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(request_body::empty_body());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let (text, place) = request_body::json_error(error.inner());
        let text = format!("{text}{place}");
        if error.inner().classify() != serde_json::error::Category::Data {
            return Problem::new(
                &INVALID_JSON,
                format!("cannot parse the body as JSON: {text}"),
            );
        }
        match error.path().to_string().as_str() {
            "" | "." => Problem::new(&INVALID_FIELD, text),
            path => {
                let path: String = path.chars().take(MAX_ERROR_CHARS).collect();
                Problem::invalid(&path, text)
            }
        }
    })
}

/// Validates a sampling temperature, from 0 to 2 as in OpenAI's API
/// (platform.openai.com/docs/api-reference/chat/create).
fn temperature(value: Option<f64>) -> Result<Option<f32>, Problem> {
    match value {
        Some(temperature) if !(0.0..=2.0).contains(&temperature) => Err(Problem::invalid(
            "temperature",
            "expected a number from 0 to 2",
        )),
        // Requests to models use this precision.
        value => Ok(value.map(|temperature| temperature as f32)),
    }
}

/// Validates the maximum number of tokens of a reply, which must be at least 1.
fn at_least_one(field: &str, value: Option<u32>) -> Result<Option<u32>, Problem> {
    match value {
        Some(0) => Err(Problem::invalid(field, "expected at least 1")),
        value => Ok(value),
    }
}

/// Refuses a conversation that leaves nothing to answer. Providers treat a trailing answer differently: some continue
/// its text, some answer again, some refuse.
fn check_answerable(field: &str, messages: Vec<Message>) -> Result<Vec<Message>, Problem> {
    let why = match messages.last() {
        Some(Message::User { .. } | Message::Tool(_)) => return Ok(messages),
        Some(Message::Assistant(_)) => {
            "nothing to answer: the last message is an answer; omit it to have it generated again, or \
             add the results of its calls or a user message such as \"Continue.\""
        }
        None => {
            "nothing to answer: it is missing or empty, or has only system messages; the last one must be a user \
             message or the result of a call"
        }
        _ => "the last one must be a user message or the result of a call",
    };
    Err(Problem::invalid(field, why))
}
