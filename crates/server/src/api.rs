//! The server's own API, beneath `/api/v1`: sessions and their turns, runs and their events, decisions that wait for a
//! user, and the available tools, models, agents and modes.
//!
//! A run does not depend on a connection: it continues when its client disconnects, and any client can follow it,
//! starting after any record.

mod approvals;
mod fork;
mod introspection;
mod questions;
mod repeats;
mod routes;
mod runs;
mod session_part;
mod sessions;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use neuraxis::SessionId;
use neuraxis::core::{RunId, ToolCallId};

pub(crate) use routes::{OF_POLICY, routes};
pub(crate) use runs::result_if_settled;

use crate::problem::{INVALID_SESSION_ID, Problem};
use crate::refusal::no_such_run;

/// Parses the id of a session from the address.
pub(crate) fn session_id(id: Result<Path<String>, PathRejection>) -> Result<SessionId, Problem> {
    let Ok(Path(id)) = id else {
        // The only way for a path segment not to be a string.
        return Err(Problem::new(
            &INVALID_SESSION_ID,
            "the session id is not UTF-8",
        ));
    };
    id.parse().map_err(|error: neuraxis::core::InvalidId| {
        Problem::new(&INVALID_SESSION_ID, error.to_string())
    })
}

/// Parses the id of a run from the address. An invalid id is treated as an unknown run.
fn run_id(id: Result<Path<String>, PathRejection>) -> Result<RunId, Problem> {
    let id = id.ok().and_then(|Path(id)| id.parse().ok());
    id.map(RunId).ok_or_else(no_such_run)
}

/// Parses the ids of a run and of one of its calls from the address.
fn call_of(
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<(RunId, ToolCallId), Problem> {
    let Ok(Path((run, call))) = ids else {
        return Err(no_such_run());
    };
    let run = run.parse().map(RunId).map_err(|_| no_such_run())?;
    Ok((run, ToolCallId::from_text(call)))
}
