//! `POST /agui`: runs for the front ends of AG-UI 1.0 (docs.ag-ui.com).
//!
//! A thread is a session, and the server keeps it: of the messages that a front end sends, those are taken that the session
//! does not hold. A front end that leaves ends its run. What a person has to decide ends the run's stream with an interrupt, and
//! another request with the answers lets it go on.

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

use self::answer::{Telling, refused};
use self::followers::EndIfLeft;
use self::input::{Input, Wire};
use self::mapping::Mapping;
use self::messages::New;
use crate::access::detached;
use crate::api::OF_POLICY;
use crate::attached::MAX_BODY_BYTES;
use crate::caller::Caller;
use crate::events::Streams;
use crate::limits::Limited;
use crate::openapi::{Operation, Tag, operation};
use crate::problem::{
    AT_WORK_ELSEWHERE, INVALID_SESSION_ID, NO_SUCH_SESSION, Problem, SESSION_ALTERED, SESSION_BUSY,
    SHUTTING_DOWN, TOO_MANY_OWN_RUNS, TOO_MANY_RUNS,
};
use crate::refusal::refused_in;
use crate::slots::BeginningSlot;
use crate::{body, turns};

pub(crate) use self::followers::Followers;

/// Describes the route.
pub(crate) fn described() -> Operation {
    let example = r#"{ "threadId": "s1", "runId": "r1", "messages": [{ "id": "m1", "role": "user", "content": "What time is it?" }] }"#;
    operation(
        "run_agui",
        Tag::Protocols,
        "Begins a run for a front end of AG-UI, or lets one go on.",
    )
    .description(
        "docs.ag-ui.com: what fails once the run was taken is an event of its own, `RUN_ERROR`.",
    )
    .body::<Wire>(example)
    .answers_their_events("The events of the run, each with its `type`.")
    .stores()
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
    State(limited): State<Limited>,
    State(streams): State<Streams>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let input = Input::parse(&body::json_of(&headers, body, MAX_BODY_BYTES).await?)?;
    if !input.resume.is_empty() {
        match resume::resume(&limited, &caller, &input).await {
            Ok(Some(telling)) => return Ok(telling.answer(&streams)),
            // What the person said begins a run, or what the front end's tools found.
            Ok(None) => {}
            Err(problem) => return Ok(refused(&streams, input.named, &problem)),
        }
    }
    let orchestrator = limited.orchestrator().clone();
    let kept = kept(&orchestrator, &caller, &input.session).await?;
    let new = match new_to(&orchestrator, &kept, &input).await {
        Ok(new) => new,
        Err(problem) => match asked(&orchestrator, &caller, &input.session).await? {
            // It is what it has to say first.
            Some(asked) => return Ok(refused(&streams, input.named, &asked)),
            None => return Err(problem),
        },
    };
    // A session that holds something is told no answers.
    let untrusted = if kept.is_empty() {
        let answered_by = input.conversation.answered_by();
        caller.taint_of(&orchestrator, answered_by).await?
    } else {
        Taint::default()
    };
    let request = input.request(new, untrusted, &caller, &limited)?;
    let slot = limited.slot(&caller)?;
    let followers = limited.followers().clone();
    match begin(orchestrator.clone(), request, slot, followers).await {
        Ok((handle, events, end)) => {
            let run = handle.run_id();
            let mut mapping = Mapping::new(input.named, run, input.state, input.messages);
            mapping.begin();
            let telling = Telling {
                orchestrator,
                mapping,
                run,
                handle: Some(handle),
                events,
                known: None,
                end,
            };
            Ok(telling.answer(&streams))
        }
        Err(problem) if problem.is(&SESSION_BUSY) => {
            match asked(&orchestrator, &caller, &input.session).await? {
                Some(asked) => Ok(refused(&streams, input.named, &asked)),
                None => Err(problem),
            }
        }
        Err(problem) => Err(problem),
    }
}

/// Begins a run, also where the client leaves in the middle.
async fn begin(
    orchestrator: Orchestrator,
    request: UserRequest,
    slot: BeginningSlot,
    followers: Followers,
) -> Result<(RunHandle, Events, EndIfLeft), Problem> {
    let begun = detached(async move {
        let started = turns::start(orchestrator.clone(), request, Some(slot));
        let (handle, events) = started.await?;
        let end = followers.add(orchestrator.runs(), handle.run_id());
        Ok::<_, RequestError>((handle, events, end))
    });
    begun
        .await?
        .map_err(|error| refused_in("messages", "threadId", error))
}

/// Returns the messages that a session holds; none if there is no such session yet, or none that the caller may see.
async fn kept(
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

/// Returns what the session is told. After a run without an answer that are the results once more that it took: the front end
/// asks again, and has nothing new to say.
async fn new_to(
    orchestrator: &Orchestrator,
    kept: &[Arc<Message>],
    input: &Input,
) -> Result<New, Problem> {
    let new = input.conversation.new_to(kept);
    if new.is_err()
        && let Some(results) = input.conversation.results_again(kept)
        && !is_answered(orchestrator, &input.session).await?
    {
        return Ok(results);
    }
    new
}

/// Tells whether the last run of a session gave an answer.
async fn is_answered(orchestrator: &Orchestrator, session: &SessionId) -> Result<bool, Problem> {
    let runs = orchestrator.sessions().runs(session).await?;
    let last = runs.as_deref().and_then(<[_]>::last);
    Ok(last.is_none_or(|last| last.status == RunStatus::Done))
}

/// Returns what a client hears that begins a run while another one of the thread waits for its answers. `None` where none does
/// that the caller may see.
async fn asked(
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
        "interrupts of this thread are open: answer them by resume first: {}",
        open.join(", ")
    );
    Ok(Some(Problem::new(&SESSION_BUSY, detail)))
}
