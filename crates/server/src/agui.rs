//! `POST /agui`: runs for the front ends of AG-UI 1.0 (docs.ag-ui.com).
//!
//! A thread is a session, and the server stores it: of the messages that a front end sends, only those that the session
//! lacks are used. A front end that disconnects ends its run. If a user must decide something, the stream of the run
//! ends with an interrupt, and a further request with the answers resumes the run.

mod answer;
mod event;
mod followers;
mod input;
mod mapping;
mod messages;
mod questions;
mod resume;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use neuraxis::core::Taint;
use neuraxis::engine::{RequestError, WaitingApproval};
use neuraxis::{Events, Message, Orchestrator, RunHandle, RunStatus, SessionId, UserRequest};

use self::answer::{RunFeed, refused};
use self::followers::FollowerGuard;
use self::input::{Input, Wire};
use self::mapping::Mapping;
use self::messages::NewMessages;
use crate::access::detached;
use crate::api::OF_POLICY;
use crate::attached::MAX_BODY_BYTES;
use crate::caller::Caller;
use crate::events::Streams;
use crate::limits::ServerState;
use crate::openapi::{Operation, Tag, operation};
use crate::permits::StartPermit;
use crate::problem::{
    AT_WORK_ELSEWHERE, INVALID_SESSION_ID, NO_SUCH_SESSION, Problem, SESSION_ALTERED, SESSION_BUSY,
    SHUTTING_DOWN, TOO_MANY_OWN_RUNS, TOO_MANY_RUNS,
};
use crate::refusal::refused_in;
use crate::{body, turns};

pub(crate) use self::followers::Followers;

/// Describes the route.
pub(crate) fn described() -> Operation {
    let example = r#"{ "threadId": "s1", "runId": "r1", "messages": [{ "id": "m1", "role": "user", "content": "What time is it?" }] }"#;
    operation(
        "run_agui",
        Tag::Protocols,
        "Starts or resumes a run for an AG-UI front end.",
    )
    .description(
        "docs.ag-ui.com: failures after the run was accepted are sent as an event, `RUN_ERROR`.",
    )
    .body::<Wire>(example)
    .answers_their_events("The events of the run, each with its `type`.")
    .uses_store()
    .problems(OF_POLICY)
    .problems(&[
        &INVALID_SESSION_ID,
        &NO_SUCH_SESSION,
        &SESSION_BUSY,
        &SESSION_ALTERED,
        &AT_WORK_ELSEWHERE,
        &TOO_MANY_RUNS,
        &TOO_MANY_OWN_RUNS,
        &SHUTTING_DOWN,
    ])
}

/// `POST /agui`
pub(crate) async fn run(
    State(state): State<ServerState>,
    State(streams): State<Streams>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let input = Input::parse(&body::json_of(&headers, body, MAX_BODY_BYTES).await?)?;
    if !input.resume.is_empty() {
        match resume::resume(&state, &caller, &input).await {
            Ok(Some(feed)) => return Ok(feed.answer(&streams)),
            // The user's message, or the results of the front end's tools, start a run.
            Ok(None) => {}
            Err(problem) => return Ok(refused(&streams, input.ids, &problem)),
        }
    }
    let orchestrator = state.orchestrator().clone();
    let stored = stored_messages(&orchestrator, &caller, &input.session).await?;
    let new = match new_to(&orchestrator, &stored, &input).await {
        Ok(new) => new,
        Err(problem) => {
            match open_interrupts_problem(&orchestrator, &caller, &input.session).await? {
                // The open interrupts take precedence over this problem.
                Some(open_interrupts) => return Ok(refused(&streams, input.ids, &open_interrupts)),
                None => return Err(problem),
            }
        }
    };
    // If the session already holds messages, no earlier answers are added to it.
    let untrusted = if stored.is_empty() {
        let answered_by = input.conversation.answered_by();
        caller.taint_of(&orchestrator, answered_by).await?
    } else {
        Taint::default()
    };
    let request = input.request(new, untrusted, &caller, &state)?;
    let permit = state.take_permit(&caller)?;
    let followers = state.followers().clone();
    match begin(orchestrator.clone(), request, permit, followers).await {
        Ok((handle, events, guard)) => {
            let run = handle.run_id();
            let mut mapping = Mapping::new(input.ids, run, input.state, input.messages);
            mapping.begin();
            let feed = RunFeed {
                orchestrator,
                mapping,
                run,
                handle: Some(handle),
                events,
                known: None,
                guard,
            };
            Ok(feed.answer(&streams))
        }
        Err(problem) if problem.is(&SESSION_BUSY) => {
            match open_interrupts_problem(&orchestrator, &caller, &input.session).await? {
                Some(open_interrupts) => Ok(refused(&streams, input.ids, &open_interrupts)),
                None => Err(problem),
            }
        }
        Err(problem) => Err(problem),
    }
}

/// Starts a run, even if the client disconnects halfway.
async fn begin(
    orchestrator: Orchestrator,
    request: UserRequest,
    permit: StartPermit,
    followers: Followers,
) -> Result<(RunHandle, Events, FollowerGuard), Problem> {
    let begun = detached(async move {
        let started = turns::start(orchestrator.clone(), request, Some(permit));
        let (handle, events) = started.await?;
        let guard = followers.add(orchestrator.runs(), handle.run_id());
        Ok::<_, RequestError>((handle, events, guard))
    });
    begun
        .await?
        .map_err(|error| refused_in("messages", "threadId", error))
}

/// Returns the messages of a session; none if it does not exist yet or the caller may not see it.
async fn stored_messages(
    orchestrator: &Orchestrator,
    caller: &Caller,
    session: &SessionId,
) -> Result<Vec<Arc<Message>>, Problem> {
    match caller.session(orchestrator, session).await {
        Ok(session) => {
            let history = orchestrator.sessions().history(&session.id).await?;
            Ok(history.messages().to_vec())
        }
        Err(problem) if problem.is(&NO_SUCH_SESSION) => Ok(Vec::new()),
        Err(problem) => Err(problem),
    }
}

/// Returns what to add to the session. After a run without an answer, a front end that has nothing new to say asks
/// again: then these are the results that the run was started with.
async fn new_to(
    orchestrator: &Orchestrator,
    stored: &[Arc<Message>],
    input: &Input,
) -> Result<NewMessages, Problem> {
    let new = input.conversation.new_to(stored);
    if new.is_err()
        && let Some(results) = input.conversation.results_again(stored)
        && !is_answered(orchestrator, &input.session).await?
    {
        return Ok(results);
    }
    new
}

/// Returns whether the last run of a session gave an answer.
async fn is_answered(orchestrator: &Orchestrator, session: &SessionId) -> Result<bool, Problem> {
    let runs = orchestrator.sessions().runs(session).await?;
    let last = runs.as_deref().and_then(<[_]>::last);
    Ok(last.is_none_or(|last| last.status == RunStatus::Done))
}

/// Returns the problem for a client that starts a run while another run of the thread waits for answers, or `None` if
/// no such run is visible to the caller.
async fn open_interrupts_problem(
    orchestrator: &Orchestrator,
    caller: &Caller,
    session: &SessionId,
) -> Result<Option<Problem>, Problem> {
    if caller.session(orchestrator, session).await.is_err() {
        return Ok(None);
    }
    let open = orchestrator.approvals().of_session(session).await?;
    if open.is_empty() {
        return Ok(None);
    }
    let open: Vec<String> = open.iter().map(WaitingApproval::question).collect();
    let detail = format!(
        "this thread has open interrupts; answer them with resume first: {}",
        open.join(", ")
    );
    Ok(Some(Problem::new(&SESSION_BUSY, detail)))
}
