//! `/api/v1/runs` and `/api/v1/stats`: lists runs and adds them up, returns a run's result and its events from any
//! record on, and passes messages, results and cancellations to a run in progress.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::log::Stats;
use neuraxis::core::{
    InputId, JsonText, OpenQuestion, RunId, RunStatus, Seq, ToolCallId, ToolFailure, ToolOutcome,
    ToolOutput,
};
use neuraxis::engine::ResumeError;
use neuraxis::ports::{RunFilter, RunSummary, StatsFilter};
use neuraxis::{Orchestrator, OrchestratorResult, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::sessions::page_size;
use super::{call_of, questions, repeats, run_id};
use crate::body;
use crate::caller::Caller;
use crate::events::{self, Streams};
use crate::limits::ServerState;
use crate::problem::{INVALID_FIELD, NOT_WAITING, Problem, RUN_ENDED};
use crate::query::Parameters;
use crate::request_body::{self, RequestBody};
use crate::turns::idempotency_key;

/// How long reading a run's result may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the driver of a run may take to suspend it: clients learn that the run waits as soon as that is recorded.
const SUSPEND_TIMEOUT: Duration = Duration::from_millis(600);

/// The reason recorded for a run that a client cancelled without giving one.
const CANCELLED: &str = "cancelled by a client";

/// The page of a list to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunsQuery {
    /// Only runs of this session.
    session: Option<SessionId>,
    /// Only runs of this owner.
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    owner: Option<String>,
    /// The maximum number of runs; 50 by default.
    #[schemars(range(min = 1, max = RunFilter::MAX_LIMIT - 1))]
    limit: Option<usize>,
    /// Only runs after this one, the last of the previous page.
    after: Option<RunId>,
}

/// A page of runs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunPage")]
pub(crate) struct Page {
    /// The runs.
    runs: Vec<RunSummary>,
    /// The value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<RunId>,
}

/// `GET /api/v1/runs`
pub(crate) async fn list(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    Parameters(query): Parameters<RunsQuery>,
) -> Result<Json<Page>, Problem> {
    let most = page_size(query.limit, RunFilter::MAX_LIMIT)?;
    let mut filter = RunFilter::default().limited_to(most + 1);
    filter.owner = caller.list_owner_for(query.owner)?;
    if let Some(session) = query.session {
        filter = filter.of_session(session);
    }
    if let Some(after) = query.after {
        filter = filter.after(after);
    }
    let mut each = orchestrator.sessions().each_run(filter);
    let mut page = Vec::new();
    while page.len() <= most
        && let Some(run) = each.next().await?
    {
        page.push(run);
    }
    let is_more = page.len() > most;
    page.truncate(most);
    let next = page.last().filter(|_| is_more).map(|run| run.run_id);
    Ok(Json(Page { runs: page, next }))
}

/// The runs to add up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatsQuery {
    /// Only runs that began at this time or later; all by default.
    since: Option<Timestamp>,
    /// Only runs that began before this time; all by default.
    before: Option<Timestamp>,
    /// Only runs of this owner.
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    owner: Option<String>,
}

/// `GET /api/v1/stats`
pub(crate) async fn stats(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    Parameters(query): Parameters<StatsQuery>,
) -> Result<Json<Stats>, Problem> {
    let mut filter = StatsFilter::default();
    filter.owner = caller.list_owner_for(query.owner)?;
    filter.since = query.since;
    filter.before = query.before;
    Ok(Json(orchestrator.sessions().stats(&filter).await?))
}

/// A run, with its result if it has one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Run {
    #[serde(flatten)]
    summary: RunSummary,
    /// The answer to the turn, once the run has ended or while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<OrchestratorResult>,
    /// What the run's tools ask in the middle of their calls, oldest first, while the run is in progress on this
    /// server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<Arc<OpenQuestion>>,
}

/// `GET /api/v1/runs/{id}`
pub(crate) async fn show(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Run>, Problem> {
    let id = run_id(id)?;
    let summary = caller.run(&orchestrator, id).await?;
    let result = result_if_settled(&orchestrator, &summary).await?;
    let questions = questions::open(&orchestrator, id);
    Ok(Json(Run {
        summary,
        result,
        questions,
    }))
}

/// Returns the result of a run, or what it waits for. Returns `None` while the run is in progress.
pub(crate) async fn result_if_settled(
    orchestrator: &Orchestrator,
    run: &RunSummary,
) -> Result<Option<OrchestratorResult>, Problem> {
    let waits = run.status == RunStatus::Waiting && !run.has_mail;
    let patience = match (run.ended_at, run.leased_until) {
        (None, _) if !waits => return Ok(None),
        (None, Some(_)) => SUSPEND_TIMEOUT,
        _ => READ_TIMEOUT,
    };
    let runs = orchestrator.runs();
    match timeout(patience, runs.result(run.run_id)).await {
        Ok(result) => Ok(Some(result?)),
        // Either an answer arrived meanwhile and the run is in progress again, or a terminal whose user decides holds
        // the run.
        Err(_) => Ok(None),
    }
}

/// `GET /api/v1/runs/{id}/events`: from the first event, or after the record that the header `Last-Event-ID` names.
pub(crate) async fn events(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    State(streams): State<Streams>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = run_id(id)?;
    let last = events::last_of(&headers)?;
    let run = caller.run(&orchestrator, id).await?;
    events::check_last(last, Seq(run.records))?;
    if run.ended_at.is_some() && last == Seq(run.records) {
        // After any other end, a browser's `EventSource` would reconnect indefinitely.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let events = orchestrator.runs().attach(id, last).await?;
    Ok(streams.answer(id, events, last))
}

/// What was accepted: it is stored, and the run receives it in one of its next steps.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Taken {
    /// The run.
    run_id: RunId,
    /// For a message: the `id` in its `steered` record.
    #[serde(skip_serializing_if = "Option::is_none")]
    input_id: Option<InputId>,
}

fn accepted(run_id: RunId, input_id: Option<InputId>) -> (StatusCode, Json<Taken>) {
    (StatusCode::ACCEPTED, Json(Taken { run_id, input_id }))
}

/// The body of a request to end a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "an object that may have the field reason"
)]
pub(crate) struct Cancel {
    /// The reason, for the log.
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    reason: Option<String>,
}

impl RequestBody for Cancel {
    const FIELDS: &'static [&'static str] = &["reason"];
}

/// `POST /api/v1/runs/{id}/cancel`
pub(crate) async fn cancel(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Taken>), Problem> {
    let id = run_id(id)?;
    let body = match body::json_if_any(&headers, body).await? {
        Some(bytes) => request_body::parse(&bytes)?,
        None => Cancel::default(),
    };
    request_body::check_no_nul("reason", body.reason.as_deref().unwrap_or_default())?;
    unended_run(&orchestrator, &caller, id).await?;
    let reason = body.reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.unwrap_or_else(|| CANCELLED.to_owned());
    let runs = orchestrator.runs().sent_by(caller.name());
    match runs.cancel(id, reason).await {
        // The run is ending: that is already on record, or will be in a moment.
        Err(ResumeError::Ended(_)) => {
            unended_run(&orchestrator, &caller, id).await?;
        }
        result => result?,
    }
    Ok(accepted(id, None))
}

/// The body of a request to add a message to a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with the field message")]
pub(crate) struct Steer {
    /// The message. It is added after the current batch of tool calls.
    #[schemars(regex(pattern = request_body::NOT_BLANK))]
    message: String,
}

impl RequestBody for Steer {
    const FIELDS: &'static [&'static str] = &["message"];
}

/// `POST /api/v1/runs/{id}/steer`
pub(crate) async fn steer(
    State(orchestrator): State<Orchestrator>,
    State(state): State<ServerState>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Taken>), Problem> {
    let id = run_id(id)?;
    let key = idempotency_key(&headers)?;
    let body: Steer = request_body::parse(&body::json(&headers, body).await?)?;
    request_body::check_no_nul("message", &body.message)?;
    if body.message.trim().is_empty() {
        return Err(Problem::invalid("message", "must not be empty"));
    }
    let run = caller.run(&orchestrator, id).await?;
    if key.is_none() {
        check_unended(&run)?;
    }
    caller.check_may_message(&state, &run)?;
    caller.check_may_join(&state, id).await?;
    let by = caller.name();
    let runs = orchestrator.runs().sent_by(by.clone());
    let input_id = match key {
        Some(key) => {
            let posted = repeats::steer_once(&runs, id, &key, body.message, by).await;
            posted.map_err(|problem| match check_unended(&run) {
                // It also says how the run ended.
                Err(ended) if problem.is(&RUN_ENDED) => ended,
                _ => problem,
            })?
        }
        None => runs.steer(id, body.message).await?,
    };
    Ok(accepted(id, Some(input_id)))
}

/// The outcome of a tool that the client ran.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(
    rename = "ToolResultOfClient",
    extend("anyOf" = [
        { "required": ["result"], "properties": { "result": { "not": { "type": "null" } }, "error": { "type": "null" } } },
        { "required": ["error"], "properties": { "error": { "type": "string" }, "result": { "type": "null" } } },
    ])
)]
#[serde(
    deny_unknown_fields,
    expecting = "an object with the field result or error"
)]
pub(crate) struct ToolResultBody {
    /// The tool's result: any JSON value but null.
    #[schemars(with = "Option<Value>")]
    result: Option<Box<RawValue>>,
    /// Why the tool failed.
    error: Option<String>,
    /// How long the tool took, in milliseconds.
    #[serde(default, deserialize_with = "request_body::whole_number")]
    #[schemars(range(max = request_body::MAX_WHOLE_NUMBER))]
    duration_ms: u64,
}

impl RequestBody for ToolResultBody {
    const FIELDS: &'static [&'static str] = &["result", "error", "duration_ms"];
}

impl ToolResultBody {
    fn outcome(self) -> Result<(ToolOutcome, Duration), Problem> {
        let outcome = match (self.result, self.error) {
            (Some(result), None) => {
                let value = JsonText::from_text(result.get());
                ToolOutcome::done(ToolOutput::new(value))
            }
            (None, Some(error)) => ToolOutcome::failed(ToolFailure::Error, &error),
            _ => {
                let detail = "the body must have either result or error";
                return Err(Problem::new(&INVALID_FIELD, detail).with("field", "result"));
            }
        };
        Ok((outcome, Duration::from_millis(self.duration_ms)))
    }
}

/// `POST /api/v1/runs/{id}/tools/{call_id}`
pub(crate) async fn submit_tool_result(
    State(orchestrator): State<Orchestrator>,
    State(state): State<ServerState>,
    caller: Caller,
    ids: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Taken>), Problem> {
    let (id, call) = call_of(ids)?;
    let bytes = body::json(&headers, body).await?;
    let (outcome, took) = request_body::parse::<ToolResultBody>(&bytes)?.outcome()?;
    let run = caller.run(&orchestrator, id).await?;
    caller.check_may_join(&state, id).await?;
    match supply(&state, &caller, &run, &call, outcome.clone(), took).await {
        // The same result sent again changes nothing, so its sender is told the same.
        Err(problem) if problem.is(&RUN_ENDED) || problem.is(&NOT_WAITING) => {
            let records = orchestrator.sessions().records(id).await?;
            match repeats::has_result(&records, &call, &outcome) {
                true => Ok(accepted(id, None)),
                false => Err(problem),
            }
        }
        supplied => supplied.map(|()| accepted(id, None)),
    }
}

async fn supply(
    state: &ServerState,
    caller: &Caller,
    run: &RunSummary,
    call: &ToolCallId,
    outcome: ToolOutcome,
    took: Duration,
) -> Result<(), Problem> {
    check_unended(run)?;
    let context = caller.resume_context(state, &run.session).await?;
    let runs = state.orchestrator().runs().with_context(context);
    let runs = runs.sent_by(caller.name());
    Ok(runs.supply_result(run.run_id, call, outcome, took).await?)
}

/// Returns a run that has not ended. Refuses one that has, because nothing can reach it any more.
pub(super) async fn unended_run(
    orchestrator: &Orchestrator,
    caller: &Caller,
    id: RunId,
) -> Result<RunSummary, Problem> {
    let run = caller.run(orchestrator, id).await?;
    check_unended(&run)?;
    Ok(run)
}

/// Refuses a run that has ended.
pub(super) fn check_unended(run: &RunSummary) -> Result<(), Problem> {
    if run.ended_at.is_none() {
        return Ok(());
    }
    let (id, status) = (run.run_id, run.status.as_str());
    let detail = format!(
        "the run has ended: GET /api/v1/runs/{id} has its result, and a new turn continues its session"
    );
    Err(Problem::new(&RUN_ENDED, detail).with("run_status", status))
}
