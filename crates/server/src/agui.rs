//! `POST /agui`: runs for the front ends of AG-UI 1.0 (docs.ag-ui.com).
//!
//! A thread is a session, and the server keeps it: of the messages that a front end sends, those are taken that the session
//! does not hold. A front end that leaves ends its run. What a person has to decide ends the run's stream with an interrupt, and
//! another request with the answers lets it go on.

mod answer;
mod event;
mod input;
mod mapping;
mod messages;
mod resume;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use neuraxis::ports::StoreError;
use neuraxis::{Message, Orchestrator, SessionId};

use self::answer::{Telling, refused};
use self::input::Input;
use self::mapping::Mapping;
use self::resume::GoesOn;
use crate::limits::Limited;
use crate::problem::{Problem, SESSION_BUSY};
use crate::{body, turns};

/// The most bytes of a request, which holds a whole thread and may hold images.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// `POST /agui`
pub(crate) async fn run(
    State(limited): State<Limited>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let input = Input::parse(&body::json_up_to(MAX_BYTES, &headers, body).await?)?;
    if !input.resume.is_empty() {
        return Ok(match go_on(&limited, &headers, &input).await {
            Ok(telling) => telling.answer(),
            Err(problem) => refused(input.named, &problem),
        });
    }
    let orchestrator = limited.orchestrator().clone();
    let kept = kept(&orchestrator, &input.session).await?;
    let request = input.request(&kept)?;
    limited.check(&request.channel, &request.mode)?;
    let place = limited.place()?;
    let begun = turns::begin(orchestrator.clone(), request, Some(place)).await;
    let (handle, events) = match begun {
        Ok(begun) => begun,
        Err(problem) if problem.is(&SESSION_BUSY) => {
            return match asked(&orchestrator, &input.session).await? {
                Some(asked) => Ok(refused(input.named, &asked)),
                None => Err(problem),
            };
        }
        Err(problem) => return Err(problem),
    };
    let run = handle.run_id();
    let telling = Telling {
        orchestrator,
        mapping: Mapping::new(input.named, run, input.state, input.messages),
        run,
        handle: Some(handle),
        events,
    };
    Ok(telling.answer())
}

/// Lets the run go on whose questions the client answers.
async fn go_on(limited: &Limited, headers: &HeaderMap, input: &Input) -> Result<Telling, Problem> {
    let GoesOn {
        run,
        handle,
        events,
        past,
    } = resume::resume(limited, headers, input).await?;
    let (state, messages) = (input.state.clone(), input.messages.clone());
    let mut mapping = Mapping::new(input.named.clone(), run, state, messages);
    mapping.recall(past.iter().map(Arc::as_ref));
    Ok(Telling {
        orchestrator: limited.orchestrator().clone(),
        mapping,
        run,
        handle,
        events,
    })
}

/// Returns the messages that a session holds; none if there is no such session yet.
async fn kept(
    orchestrator: &Orchestrator,
    session: &SessionId,
) -> Result<Vec<Arc<Message>>, Problem> {
    match orchestrator.sessions().history(session).await {
        Ok(history) => Ok(history.messages().to_vec()),
        Err(StoreError::NoSuchSession(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns what a client hears that begins a run while another one of the thread waits for its answers.
async fn asked(
    orchestrator: &Orchestrator,
    session: &SessionId,
) -> Result<Option<Problem>, Problem> {
    let open = orchestrator.approvals().of_session(session).await?;
    if open.is_empty() {
        return Ok(None);
    }
    let open: Vec<String> = open.iter().map(|waiting| waiting.question()).collect();
    let detail = format!(
        "interrupts of this thread are open: answer them by resume first: {}",
        open.join(", ")
    );
    Ok(Some(Problem::new(&SESSION_BUSY, detail)))
}
