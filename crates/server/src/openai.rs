//! OpenAI's API, so that clients written for it work unchanged: Chat Completions and Responses beneath `/v1`, streamed and not,
//! and the list of models, which here are agents and roles.
//!
//! A request becomes a governed run like any other. The server's own tools run inside it; calls of tools that the client sent
//! are given back to it. What was asked and answered is kept as a session. Fields that nothing here knows are left alone, since
//! clients of many versions send them.
//!
//! Here, unlike on the server's own API, a client that leaves ends its run. Not for approvals, which clients of this API cannot
//! give: such a run waits, and says so in its answer.

mod asked;
mod chat;
mod content;
mod error;
mod models;
mod responses;
mod run;
mod stream;
mod tools;

use axum::Router;
use axum::routing::{get, post};
use serde::de::DeserializeOwned;

use crate::limits::Limited;
use crate::problem::{INVALID_FIELD, INVALID_JSON, Problem};

pub(crate) use error::in_their_shape;

/// The most characters of what is said about a body that cannot be read.
const MAX_COMPLAINT_CHARS: usize = 300;

/// Returns the routes of this API.
pub(crate) fn routes() -> Router<Limited> {
    Router::new()
        .route("/chat/completions", post(chat::complete))
        .route("/responses", post(responses::create))
        .route("/responses/{id}", get(responses::retrieve))
        .route("/models", get(models::list))
        .route("/models/{id}", get(models::show))
}

/// Reads a body, whatever else it holds.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let text: String = error.inner().to_string();
        let text: String = text.chars().take(MAX_COMPLAINT_CHARS).collect();
        if error.inner().classify() != serde_json::error::Category::Data {
            return Problem::new(
                &INVALID_JSON,
                format!("the body cannot be read as JSON: {text}"),
            );
        }
        match error.path().to_string().as_str() {
            "" | "." => Problem::new(&INVALID_FIELD, text),
            path => {
                let path: String = path.chars().take(MAX_COMPLAINT_CHARS).collect();
                invalid(&path, &text)
            }
        }
    })
}

/// Refuses a value of a field.
fn invalid(field: &str, why: &str) -> Problem {
    Problem::new(&INVALID_FIELD, format!("{field}: {why}")).with("field", field)
}
