//! `POST /api/v1/runs/{id}/fork`: a new session that begins with the conversation up to a turn of a run and then
//! diverges.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use neuraxis::core::log::RunView;
use neuraxis::core::{AgentName, Decision, Record, RunId, Turn, last_turn, with_causes};
use neuraxis::engine::{ForkError, ForkOptions, UuidV7};
use neuraxis::ports::Ids as _;
use neuraxis::{Channel, Mode, SessionId, UserRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::run_id;
use crate::access::detached;
use crate::attached::{self, Attached, MAX_BODY_BYTES};
use crate::body;
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::permits::StartPermit;
use crate::problem::{INVALID_IDEMPOTENCY_KEY, Problem, SESSION_EXISTS};
use crate::refusal::internal;
use crate::request_body::{self, MAX_WHOLE_NUMBER, RequestBody};
use crate::turns;

/// The body of a request to fork a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "an object that may have the field message"
)]
pub(super) struct Fork {
    /// The new user message. Without one and without attachments, the conversation continues from where it was.
    message: Option<String>,
    /// Files that go with the message or are the message, as for a turn.
    #[serde(default)]
    attachments: Vec<Attached>,
    /// The turn of the run after which to fork; 0 is before the model's first reply. The default is the last turn.
    #[serde(default, deserialize_with = "request_body::whole_number_if_any")]
    #[schemars(range(max = MAX_WHOLE_NUMBER))]
    turn: Option<u64>,
    /// The id of the new session. By default, the server generates one.
    session: Option<SessionId>,
    /// What kind of request it is. The default is the run's channel.
    channel: Option<Channel>,
    /// How much freedom the new run has. The default is the run's mode.
    mode: Option<Mode>,
    /// The agent that answers. The default is the run's agent.
    agent: Option<AgentName>,
}

impl RequestBody for Fork {
    const FIELDS: &'static [&'static str] = &[
        "message",
        "attachments",
        "turn",
        "session",
        "channel",
        "mode",
        "agent",
    ];
}

impl Fork {
    /// Returns the turn after which to fork.
    fn turn_of(&self, records: &[Arc<Record>]) -> Result<Turn, Problem> {
        // Everything, including what came after the last turn.
        let Some(turn) = self.turn else {
            return Ok(Turn(u32::MAX));
        };
        let last = last_turn(records).0;
        match u32::try_from(turn) {
            Ok(turn) if turn <= last => Ok(Turn(turn)),
            _ => {
                let why = format!(
                    "the run has no turn {turn}; its last turn is {last}; omit turn to continue from the end"
                );
                Err(Problem::invalid("turn", why))
            }
        }
    }

    /// Returns the options of the new run. Settings that the request omits are taken from the original run's decision,
    /// so content kept from that run's log or model is kept from the new run's too.
    fn options(
        &self,
        session: SessionId,
        decided: Option<&Decision>,
        (caller, state): (&Caller, &ServerState),
    ) -> Result<ForkOptions, Problem> {
        let mut options = ForkOptions::new(session);
        let channel = self.channel.as_ref().or(decided.map(|it| &it.channel));
        let mode = self.mode.as_ref().or(decided.map(|it| &it.mode));
        (options.channel, options.mode) =
            caller.channel_and_mode(state, channel.cloned(), mode.cloned());
        let agent = self.agent.as_ref();
        let agent = agent.or(decided.and_then(|it| it.agent.as_ref()));
        options.agent = agent.cloned();
        options.message.clone_from(&self.message);
        options.attachments = attached::parts(&self.attachments)?;
        Ok(options)
    }
}

/// The run that continues in the new session.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Forked {
    /// The new session.
    session_id: SessionId,
    /// Its run.
    run_id: RunId,
}

/// `POST /api/v1/runs/{id}/fork`
pub(crate) async fn fork(
    State(state): State<ServerState>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Forked>), Problem> {
    let id = run_id(id)?;
    if headers.contains_key(turns::KEY) {
        let detail = "a fork takes no Idempotency-Key; choose the id of the new session in the field session instead: \
                      sent again, the request is then refused with session-exists";
        let problem = Problem::new(&INVALID_IDEMPOTENCY_KEY, detail);
        return Err(problem.with("header", turns::KEY.as_str()));
    }
    let body: Fork = match body::json_of_if_any(&headers, body, MAX_BODY_BYTES).await? {
        Some(bytes) => request_body::parse(&bytes)?,
        None => Fork::default(),
    };
    request_body::check_no_nul("message", body.message.as_deref().unwrap_or_default())?;
    let session = match &body.session {
        Some(session) => session.clone(),
        None => UuidV7
            .new_id()
            .to_string()
            .parse()
            .map_err(|error| internal(&error))?,
    };
    let orchestrator = state.orchestrator().clone();
    let run = caller.run(&orchestrator, id).await?;
    if body.message.is_some() || !body.attachments.is_empty() {
        caller.check_may_message(&state, &run)?;
    }
    let records = orchestrator.sessions().records(id).await?;
    let at = body.turn_of(&records)?;
    let view = RunView::of(&records);
    let mut options = body.options(session, view.decision().map(Arc::as_ref), (&caller, &state))?;
    // What the caller may not choose for a turn, it may not choose here either.
    let mut turn = UserRequest::new(options.session_id.clone(), "");
    turn.channel.clone_from(&options.channel);
    turn.mode.clone_from(&options.mode);
    turn.agent.clone_from(&options.agent);
    let turn = caller.apply(&state, turn)?;
    (options.plan, options.trace) = (turn.plan, turn.trace);
    let StartPermit {
        pending_start,
        held,
    } = state.take_permit(&caller)?;
    let begun = detached(async move {
        let handle = orchestrator.runs().fork(id, at, options).await?;
        drop(pending_start);
        let run = handle.clone();
        tokio::spawn(async move {
            // However the run ended, it no longer needs its permit.
            let _ = run.result().await;
            drop(held);
        });
        Ok(Forked {
            session_id: handle.session_id().clone(),
            run_id: handle.run_id(),
        })
    });
    let begun = begun.await?;
    Ok((StatusCode::ACCEPTED, Json(begun.map_err(not_forked)?)))
}

fn not_forked(error: ForkError) -> Problem {
    let text = error.to_string();
    match error {
        ForkError::SessionExists(session) => {
            Problem::new(&SESSION_EXISTS, text).with("session_id", session.as_str())
        }
        ForkError::NothingToAnswer => Problem::invalid("message", text),
        ForkError::Store(error) => error.into(),
        ForkError::Request(error) => error.into(),
        other => internal(&with_causes(&other)),
    }
}
