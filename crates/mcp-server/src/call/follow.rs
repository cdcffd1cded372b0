//! Follows a run until it ends or waits, and reports its progress to the client.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use neuraxis_core::{LiveBody, RecordBody, RunId, Seq, SessionId, with_causes};
use neuraxis_engine::{Event, Events, NoResult, OrchestratorResult, ResumeError, RunHandle, Runs};
use tokio::time::timeout;

use super::{AskMode, Call};
use crate::server::McpServer;
use crate::sessions::address;

/// How long to wait for a client to receive the remaining events of a run that has ended.
const LAST_PROGRESS: Duration = Duration::from_secs(1);

/// Why a run that its engine left has not ended.
const LEFT: &str = "its server is stopping or was reconfigured, and the next one resumes it";

/// A run that is followed until it ends or asks.
pub(super) struct FollowedRun {
    events: Option<Events>,
    result: BoxFuture<'static, Result<OrchestratorResult, String>>,
}

/// How far a run was followed.
pub(super) enum FollowOutcome {
    /// Until it ended, or was suspended with its questions.
    Result(Box<OrchestratorResult>),
    /// Until a tool asked a question that goes to the client in the result of the call.
    Question,
}

/// Why a call has no result of its run.
pub(super) enum FollowError {
    /// The client no longer wants one.
    Cancelled,
    /// There is no result, for this reason.
    Failed(String),
}

impl Call<'_> {
    /// Waits for a run to end or to ask, and reports its progress to the client.
    pub(super) async fn follow(
        &mut self,
        followed: FollowedRun,
    ) -> Result<FollowOutcome, FollowError> {
        let FollowedRun { events, mut result } = followed;
        let reached = |result: Result<OrchestratorResult, String>| {
            let result = result.map_err(FollowError::Failed)?;
            Ok(FollowOutcome::Result(Box::new(result)))
        };
        let Some(mut events) = events else {
            return tokio::select! {
                () = self.given_up.cancelled() => Err(FollowError::Cancelled),
                result = result => reached(result),
            };
        };
        let (runs, asking) = (self.runs(), self.asking);
        let (progress, messages) = (&mut self.progress, &mut self.messages);
        let mut reporting = pin!(async {
            while let Some(event) = events.next().await {
                progress.report(&event).await;
                messages.forward(&event).await;
                match halt_of(&runs, &event) {
                    Some(Halt::Parked) if asking != AskMode::Nobody => return None,
                    Some(Halt::Question) if asking == AskMode::InResult => {
                        return Some(FollowOutcome::Question);
                    }
                    _ => {}
                }
            }
            None
        });
        let mut is_reported = false;
        loop {
            tokio::select! {
                biased;
                () = self.given_up.cancelled() => return Err(FollowError::Cancelled),
                asks = &mut reporting, if !is_reported => match asks {
                    Some(asks) => return Ok(asks),
                    None => is_reported = true,
                },
                result = &mut result => {
                    // Events of a run that this engine left may keep coming for as long as the next engine drives it.
                    if !is_reported && result.is_ok() {
                        // A client that does not receive them in time still gets the result.
                        let _ = timeout(LAST_PROGRESS, reporting).await;
                    }
                    return reached(result);
                }
            }
        }
    }

    /// Continues to follow a run after one of its records, regardless of who resumes it.
    pub(super) async fn follow_on(
        &self,
        run: RunId,
        last: Option<Seq>,
    ) -> Result<FollowedRun, String> {
        let runs = self.runs();
        let events = match last {
            Some(last) => Some(
                runs.attach(run, last)
                    .await
                    .map_err(|error| cannot_follow(run, &error))?,
            ),
            None => None,
        };
        let server = self.server.clone();
        let result = async move {
            match runs.result(run).await {
                Ok(result) => Ok(result),
                Err(ResumeError::ShuttingDown) => Err(describe_left(&server, run).await),
                Err(error) => Err(cannot_follow(run, &error)),
            }
        };
        Ok(FollowedRun {
            events,
            result: result.boxed(),
        })
    }
}

/// Why a run stops until it gets an answer.
enum Halt {
    /// The run is suspended until a decision is made.
    Parked,
    /// A tool waits for an answer.
    Question,
}

/// Returns why a run halts with this event, if it does. A late subscriber also receives questions that are already
/// settled, which do not halt the run.
fn halt_of(runs: &Runs, event: &Event) -> Option<Halt> {
    match event {
        Event::Record(record) => {
            matches!(record.body, RecordBody::Waiting(_)).then_some(Halt::Parked)
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

impl FollowedRun {
    /// Follows a run that was started here.
    pub(super) fn started_here(run: RunHandle, server: &McpServer) -> Self {
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

/// Describes why a run that was started here has no result.
fn no_result(server: &McpServer, run: &RunHandle, why: &NoResult) -> String {
    let (id, session) = (run.run_id(), run.session_id());
    match why {
        NoResult::Stopped if server.orchestrator.is_shutting_down() => {
            unended(server, id, session, LEFT)
        }
        NoResult::Unrecorded(error) => {
            let why = format!(
                "its next step could not be recorded ({}), and it continues once it is resumed",
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

/// Describes a run that was being followed and that the engine left.
async fn describe_left(server: &McpServer, run: RunId) -> String {
    match server.orchestrator.sessions().run(run).await {
        Ok(summary) => unended(server, run, &summary.session, LEFT),
        Err(error) => cannot_follow(run, &error),
    }
}

/// Describes where the answer of a run that continues elsewhere will be: repeating the request would do the work twice.
fn unended(server: &McpServer, run: RunId, session: &SessionId, why: &str) -> String {
    let resource = match server.shows_sessions {
        true => format!(" (resource {})", address(session)),
        false => String::new(),
    };
    format!(
        "run {run} of session {session} has not ended: {why}. Do not repeat the request, which would start another \
         run: the result will be in the session{resource}; name it as `session` in a later call to continue"
    )
}

/// Describes that a run cannot be followed.
pub(super) fn cannot_follow(run: RunId, error: &dyn std::error::Error) -> String {
    format!("cannot follow run {run}: {}", with_causes(error))
}
