//! The stream of events that a front end is answered with.

use std::collections::VecDeque;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use neuraxis::core::RunId;
use neuraxis::{Events, Orchestrator, RunHandle, RunStatus, Runs};
use tokio::runtime::Handle;

use super::event::{Body, PROTOCOL_VERSION, Told};
use super::input::Named;
use super::mapping::Mapping;
use crate::events::DO_NOT_BUFFER;
use crate::problem::Problem;
use crate::turns::no_result;

/// Why a run is ended whose client left.
const LEFT: &str = "the AG-UI client went away";

/// A run that is told to a front end, to its end or to where it waits.
pub(super) struct Telling {
    pub(super) orchestrator: Orchestrator,
    pub(super) mapping: Mapping,
    pub(super) run: RunId,
    pub(super) handle: Option<RunHandle>,
    pub(super) events: Events,
    pub(super) end: EndIfLeft,
}

/// Ends a run whose client left before it was told the end: nobody else waits for it.
#[derive(Debug)]
pub(super) struct EndIfLeft {
    runs: Runs,
    run: RunId,
    is_settled: bool,
}

impl EndIfLeft {
    pub(super) const fn new(runs: Runs, run: RunId) -> Self {
        Self {
            runs,
            run,
            is_settled: false,
        }
    }
}

impl Drop for EndIfLeft {
    fn drop(&mut self) {
        // Where the runtime is gone, so is the run.
        let (false, Ok(runtime)) = (self.is_settled, Handle::try_current()) else {
            return;
        };
        let (runs, run) = (self.runs.clone(), self.run);
        runtime.spawn(async move {
            if let Err(error) = runs.cancel(run, LEFT).await {
                tracing::debug!(%run, %error, "a client left, and its run was not ended");
            }
        });
    }
}

/// What is left to tell.
struct Left {
    telling: Telling,
    ready: VecDeque<Told>,
}

impl Telling {
    /// Answers with the run.
    pub(super) fn answer(mut self) -> Response {
        self.mapping.begin();
        let left = Left {
            ready: self.mapping.take().into(),
            telling: self,
        };
        let frames = stream::unfold(left, |mut left| async move {
            let told = left.next().await?;
            Some((frame(&told), left))
        });
        let keep_alive = KeepAlive::new().text("ping");
        let stream = Sse::new(frames).keep_alive(keep_alive);
        ([DO_NOT_BUFFER], stream).into_response()
    }

    /// Tells how the run ended, or that it waits.
    async fn settle(&mut self) {
        let ended = match &self.handle {
            Some(handle) => match handle.result().await {
                Ok(result) => Ok(result),
                Err(why) => Err(no_result(&self.orchestrator, handle, &why)),
            },
            None if self.mapping.waits() => {
                self.mapping.wait();
                return;
            }
            // Its last record was heard, or the engine stops.
            None if self.mapping.is_over() => {
                let result = self.orchestrator.runs().result(self.run).await;
                result.map_err(Problem::from)
            }
            None => Err(Problem::new(
                &crate::problem::SHUTTING_DOWN,
                "the server stopped before the run ended; the next one goes on with it",
            )),
        };
        match ended {
            Ok(result) if result.status == RunStatus::Waiting => self.mapping.wait(),
            Ok(result) => {
                let reason = result.finish_reason.as_ref();
                self.mapping.end(&result.reply, result.status, reason);
            }
            Err(problem) => {
                let told = problem.told();
                self.mapping.fail(told.detail, told.name);
            }
        }
    }
}

impl Left {
    async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told);
            }
            if self.telling.end.is_settled {
                return None;
            }
            let telling = &mut self.telling;
            // Elsewhere a run that waits is followed on: the client has to decide first.
            let is_told = telling.handle.is_none() && telling.mapping.waits();
            let event = match is_told {
                true => None,
                false => telling.events.next().await,
            };
            match event {
                Some(event) => telling.mapping.hear(&event),
                None => {
                    telling.settle().await;
                    telling.end.is_settled = true;
                }
            }
            self.ready = telling.mapping.take().into();
        }
    }
}

/// Answers that what was wanted of a run cannot be, once the client has to hear it as an event.
pub(super) fn refused(named: Named, problem: &Problem) -> Response {
    let Named {
        thread_id,
        run_id,
        parent_run_id,
    } = named;
    let started = Body::RunStarted {
        thread_id,
        run_id,
        protocol_version: PROTOCOL_VERSION,
        parent_run_id,
        metadata: None,
    };
    let told = problem.told();
    let failed = Body::RunError {
        message: told.detail,
        code: told.name.to_owned(),
        usage: Vec::new(),
    };
    let frames = [started, failed].map(|body| frame(&body.into()));
    let stream = Sse::new(stream::iter(frames));
    ([DO_NOT_BUFFER], stream).into_response()
}

fn frame(told: &Told) -> Result<sse::Event, axum::Error> {
    sse::Event::default().json_data(told)
}
