//! Errors in the form that OpenAI's clients expect: `{"error": {"message", "type", "param", "code"}}`.
//!
//! A request of this API is refused with a [`Problem`], by its route or by a layer in front of it. The answer is
//! converted to this form on its way out.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use neuraxis::FinishReason;
use neuraxis::core::RunId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::run::{ClientOutcome, RunRef, gave_up_on_structure, is_out_of_budget};
use crate::problem::{Details, Problem};

/// Tells OpenAI's own clients whether to resend a request, regardless of the status: once a run has started, a request
/// must not be resent, because the run's tools may already have had effects.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The code and type of the error for an exhausted budget, which in OpenAI's API is credit.
const OUT_OF_BUDGET: &str = "insufficient_quota";

/// An error in the body of an answer, or within a stream.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiErrorBody")]
pub(crate) struct ErrorBody {
    error: ErrorFields,
}

/// The fields of an error, for users and, by its code, for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiError")]
struct ErrorFields {
    /// What was wrong, where, and what to do.
    message: String,
    /// The type that OpenAI uses for errors of this status.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The invalid field, if there is one.
    param: Option<String>,
    /// The name of the problem, with `_` for `-`; for a failed run, the reason.
    code: String,
    /// The run that failed or that blocks the request, and its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    neuraxis: Option<RunRef>,
}

impl ErrorBody {
    /// Describes why a run produced no answer.
    pub(super) fn of_outcome(outcome: &ClientOutcome) -> Self {
        let result = &outcome.result;
        let run = RunRef::begun(result.session_id.clone(), result.run_id).with_outcome(outcome);
        Self::of_run(result.reply.clone(), &error_code(outcome), Some(run))
    }

    /// Describes a failure of a run that started.
    pub(super) fn of_run(message: String, code: &str, run: Option<RunRef>) -> Self {
        let kind = match code {
            OUT_OF_BUDGET => OUT_OF_BUDGET,
            _ => "server_error",
        };
        Self {
            error: ErrorFields {
                message,
                kind,
                param: None,
                code: code.to_owned(),
                neuraxis: run,
            },
        }
    }

    fn of(details: &Details) -> Self {
        let field = details.members.get("field").and_then(Value::as_str);
        let here = field.and_then(chosen_by);
        let message = match here {
            Some(here) => format!("{}; set another in the field {here}", details.detail),
            None => details.detail.clone(),
        };
        Self {
            error: ErrorFields {
                message,
                kind: kind_of(details.status),
                param: here.or(field).map(str::to_owned),
                code: details.name.replace('-', "_"),
                neuraxis: run_of(details),
            },
        }
    }
}

/// Returns the field that requests of this API use for a field of the server's own requests, or `None` if the name is
/// the same.
fn chosen_by(field: &str) -> Option<&'static str> {
    match field {
        "agent" => Some("model"),
        "mode" => Some("neuraxis.mode"),
        "channel" => Some("neuraxis.channel"),
        _ => None,
    }
}

/// Answers that a run produced no answer.
pub(super) fn unanswered(outcome: &ClientOutcome) -> Response {
    let body = ErrorBody::of_outcome(outcome);
    let status = match body.error.code.as_str() {
        OUT_OF_BUDGET => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, Json(body)).into_response()
}

/// Returns an error code for why there is no answer.
pub(super) fn error_code(outcome: &ClientOutcome) -> String {
    let result = &outcome.result;
    if let Some(failure) = outcome.model_failure {
        return failure.to_owned();
    }
    if is_out_of_budget(result) {
        return OUT_OF_BUDGET.to_owned();
    }
    if gave_up_on_structure(result) {
        return FinishReason::InvalidAnswer(String::new()).name().to_owned();
    }
    let reason = serde_json::to_value(&result.finish_reason).unwrap_or_default();
    let name = match &reason {
        Value::String(name) => Some(name.as_str()),
        Value::Object(fields) => fields.keys().next().map(String::as_str),
        _ => None,
    };
    name.unwrap_or("failed").to_owned()
}

/// Marks an answer so that the client does not resend a request that started a run, whatever the outcome.
pub(super) fn without_retry(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    let headers = response.headers_mut();
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    // Other clients would interpret this header as advice to resend.
    headers.remove(header::RETRY_AFTER);
    response
}

/// Returns the run that a problem names, with its session.
fn run_of(details: &Details) -> Option<RunRef> {
    let text = |name: &str| details.members.get(name).and_then(Value::as_str);
    let run = text("run_id")?.parse().ok().map(RunId)?;
    Some(RunRef::begun(text("session_id")?.parse().ok()?, run))
}

/// Describes a problem within a stream.
pub(super) fn in_stream(problem: &Problem) -> ErrorBody {
    ErrorBody::of(&problem.details())
}

/// Returns the type that OpenAI uses for errors of this status (platform.openai.com/docs/guides/error-codes).
const fn kind_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        StatusCode::SERVICE_UNAVAILABLE => "service_unavailable_error",
        StatusCode::INTERNAL_SERVER_ERROR => "server_error",
        _ => "invalid_request_error",
    }
}

/// Converts problems to the form of this API for requests of this API.
pub(crate) async fn convert_problems(request: Request, next: Next) -> Response {
    let is_ours = request.uri().path().starts_with("/v1/");
    let mut response = next.run(request).await;
    if !is_ours {
        return response;
    }
    let Some(details) = response.extensions_mut().remove::<Details>() else {
        return response;
    };
    let (head, _) = response.into_parts();
    let mut answer = (head.status, Json(ErrorBody::of(&details))).into_response();
    for (name, value) in &head.headers {
        if !answer.headers().contains_key(name) {
            answer.headers_mut().append(name, value.clone());
        }
    }
    // These include the caller, for the access log.
    *answer.extensions_mut() = head.extensions;
    answer.extensions_mut().insert(details);
    answer
}
