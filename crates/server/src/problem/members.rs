//! The members of problem documents that only some kinds have, for the description of the API.
//!
//! Only the schema is used: a problem's members are collected where it is created. The tests compare every answer with
//! the schema.

use schemars::JsonSchema;
use serde_json::Value;

/// The optional members.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Members {
    /// The id of the request, as in the header `X-Request-Id` and in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// The session that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// The run that the problem is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// How that run ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_status: Option<String>,
    /// The field of the request that is wrong, such as `attachments` or `schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The header of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    /// The names that would have been known.
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<Vec<String>>,
    /// What would have been allowed: names, or a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<Value>,
    /// The scope that the key lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// The parts of the request that differ from the one that was sent before with the same `Idempotency-Key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<Vec<String>>,
    /// The name of the question that the call waits with.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    /// How the call was decided: `approve`, `deny` or `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<String>,
    /// The maximum size of the body, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
    /// The newest record of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_event_id: Option<u64>,
    /// The line of the body at which its JSON is invalid, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// The column in that line.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
}
