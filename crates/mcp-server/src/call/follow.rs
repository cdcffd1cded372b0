//! Follows a run to where it ends or waits, and tells the client how it gets on.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use neuraxis_core::{LiveBody, RecordBody, RunId, Seq, SessionId, with_causes};
use neuraxis_engine::{Event, Events, NoResult, OrchestratorResult, ResumeError, RunHandle, Runs};
use tokio::time::timeout;

use super::{Asking, Call};
use crate::server::McpServer;
use crate::sessions::address;

/// How long a client may take what was not told it yet of a run that has ended.
const LAST_PROGRESS: Duration = Duration::from_secs(1);

/// Why a run has not ended that its engine left.
const LEFT: &str =
    "its server stops or was given another configuration, and the next one goes on with it";

/// A run that is followed to where it ends or asks.
pub(super) struct Followed {
    events: Option<Events>,
    result: BoxFuture<'static, Result<OrchestratorResult, String>>,
}

/// How far a run was followed.
pub(super) enum Reached {
    /// To where it ended, or was put aside with its questions.
    Result(Box<OrchestratorResult>),
    /// To where a tool asks the client, by the result of the call, and waits.
    Question,
}

/// Why a call has no result of its run.
pub(super) enum Stopped {
    /// The client wants none.
    GivenUp,
    /// There is none, and why.
    Failed(String),
}

impl Call<'_> {
    /// Waits for a run to end or to ask, and tells the client how it gets on.
    pub(super) async fn follow(&mut self, followed: Followed) -> Result<Reached, Stopped> {
        let Followed { events, mut result } = followed;
        let reached = |result: Result<OrchestratorResult, String>| {
            let result = result.map_err(Stopped::Failed)?;
            Ok(Reached::Result(Box::new(result)))
        };
        let Some(mut events) = events else {
            return tokio::select! {
                () = self.given_up.cancelled() => Err(Stopped::GivenUp),
                result = result => reached(result),
            };
        };
        let (runs, asking) = (self.runs(), self.asking);
        let (progress, messages) = (&mut self.progress, &mut self.messages);
        let mut told = pin!(async {
            while let Some(event) = events.next().await {
                progress.hear(&event).await;
                messages.hear(&event).await;
                match ends_here(&runs, &event) {
                    Some(Halt::PutAside) if asking != Asking::Nobody => return None,
                    Some(Halt::Question) if asking == Asking::InResult => {
                        return Some(Reached::Question);
                    }
                    _ => {}
                }
            }
            None
        });
        let mut is_told = false;
        loop {
            tokio::select! {
                biased;
                () = self.given_up.cancelled() => return Err(Stopped::GivenUp),
                asks = &mut told, if !is_told => match asks {
                    Some(asks) => return Ok(asks),
                    None => is_told = true,
                },
                result = &mut result => {
                    // A run that was left may be told of for as long as the next engine drives it.
                    if !is_told && result.is_ok() {
                        // Whoever does not take it in time has the result all the same.
                        let _ = timeout(LAST_PROGRESS, told).await;
                    }
                    return reached(result);
                }
            }
        }
    }

    /// Follows a run on from one of its records, whoever lets it go on.
    pub(super) async fn follow_on(
        &self,
        run: RunId,
        last: Option<Seq>,
    ) -> Result<Followed, String> {
        let runs = self.runs();
        let events = match last {
            Some(last) => Some(
                runs.attach(run, last)
                    .await
                    .map_err(|error| lost(run, &error))?,
            ),
            None => None,
        };
        let server = self.server.clone();
        let result = async move {
            match runs.result(run).await {
                Ok(result) => Ok(result),
                Err(ResumeError::ShuttingDown) => Err(left(&server, run).await),
                Err(error) => Err(lost(run, &error)),
            }
        };
        Ok(Followed {
            events,
            result: result.boxed(),
        })
    }
}

/// Where a run does not go on by itself.
enum Halt {
    /// It is silent until somebody decides.
    PutAside,
    /// A tool waits for an answer.
    Question,
}

/// Tells whether an event is one with which a run halts. Whoever comes later hears of questions that are settled, too.
fn ends_here(runs: &Runs, event: &Event) -> Option<Halt> {
    match event {
        Event::Record(record) => {
            matches!(record.body, RecordBody::Waiting(_)).then_some(Halt::PutAside)
        }
        Event::Live(live) => {
            let LiveBody::Question(question) = &live.body else {
                return None;
            };
            let mut open = runs.questions(live.run_id).unwrap_or_default().into_iter();
            open.any(|it| it.question_id == question.question_id)
                .then_some(Halt::Question)
        }
    }
}

impl Followed {
    /// Follows a run that was begun here.
    pub(super) fn here(run: RunHandle, server: &McpServer) -> Self {
        let events = run.events();
        let server = server.clone();
        let result = async move {
            let result = run.result().await;
            result.map_err(|why| no_result(&server, &run, &why))
        };
        Self {
            events: Some(events),
            result: result.boxed(),
        }
    }
}

/// Says why a run that was begun here has no result.
fn no_result(server: &McpServer, run: &RunHandle, why: &NoResult) -> String {
    let (id, session) = (run.run_id(), run.session_id());
    match why {
        NoResult::Stopped if server.orchestrator.is_shutting_down() => {
            unended(server, id, session, LEFT)
        }
        NoResult::Unrecorded(error) => {
            let why = format!(
                "what it did next could not be recorded ({}), and it goes on once it is taken up",
                with_causes(error)
            );
            unended(server, id, session, &why)
        }
        why => format!(
            "run {id} of session {session} has no result: {}",
            with_causes(why)
        ),
    }
}

/// Says that a run which was followed on was left.
async fn left(server: &McpServer, run: RunId) -> String {
    match server.orchestrator.sessions().run(run).await {
        Ok(summary) => unended(server, run, &summary.session, LEFT),
        Err(error) => lost(run, &error),
    }
}

/// Says of a run that goes on elsewhere where its answer will be: who asks again has the work done twice.
fn unended(server: &McpServer, run: RunId, session: &SessionId, why: &str) -> String {
    let resource = match server.shows_sessions {
        true => format!(" (resource {})", address(session)),
        false => String::new(),
    };
    format!(
        "run {run} of session {session} has not ended: {why}. Do not ask the same again, which would begin another run: what it \
         comes to will stand in its session{resource}, with which a later call goes on that names it as `session`"
    )
}

/// Says that a run cannot be followed.
pub(super) fn lost(run: RunId, error: &dyn std::error::Error) -> String {
    format!("run {run} cannot be followed: {}", with_causes(error))
}
