//! The event stream that answers a front end.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::response::Response;
use futures_util::Stream;
use neuraxis::core::{RunId, Seq};
use neuraxis::{Event, Events, Orchestrator, RunHandle, RunStatus};

use super::event::{Body, Outgoing, PROTOCOL_VERSION};
use super::followers::FollowerGuard;
use super::input::ClientIds;
use super::mapping::Mapping;
use crate::events::{CutReason, Source, Streams, write_event};
use crate::problem::Problem;
use crate::turns::{RetryAdvice, no_result};

/// A run that is reported to a front end, until it ends or waits. The start has already been reported.
pub(super) struct RunFeed {
    pub(super) orchestrator: Orchestrator,
    pub(super) mapping: Mapping,
    pub(super) run: RunId,
    pub(super) handle: Option<RunHandle>,
    pub(super) events: Events,
    /// A record that has not been received yet: if the run waited before this record, it has resumed since.
    pub(super) known: Option<Seq>,
    pub(super) guard: FollowerGuard,
}

impl RunFeed {
    /// Answers with the run.
    pub(super) fn answer(self, streams: &Streams) -> Response {
        streams.send(FeedState::Events(Box::new(self)))
    }

    /// Returns the next event, or `None` at the end or if nothing more is to be reported.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        // Do not continue to follow a waiting run that another process drives: the client must decide first.
        if self.handle.is_none() && self.mapping.is_waiting() && self.known.is_none() {
            return Poll::Ready(None);
        }
        let event = ready!(Pin::new(&mut self.events).poll_next(cx));
        if let Some(Event::Record(record)) = &event
            && self.known.is_some_and(|known| record.seq >= known)
        {
            self.known = None;
        }
        Poll::Ready(event)
    }

    /// Reports how the run ended, or that it waits.
    async fn settle(&mut self) {
        let ended = match &self.handle {
            Some(handle) => match handle.result().await {
                Ok(result) => Ok(result),
                Err(why) => {
                    let advice = RetryAdvice::ReadSession;
                    Err(no_result(&self.orchestrator, handle, &why, advice))
                }
            },
            None if self.mapping.is_waiting() => {
                self.mapping.wait();
                return;
            }
            // Its last record was received, or the engine is stopping.
            None if self.mapping.has_ended() => {
                let result = self.orchestrator.runs().result(self.run).await;
                result.map_err(Problem::from)
            }
            None => Err(Problem::new(
                &crate::problem::SHUTTING_DOWN,
                "the server stopped before the run ended; the next one resumes it",
            )),
        };
        match ended {
            Ok(result) if result.status == RunStatus::Waiting => self.mapping.wait(),
            Ok(result) => {
                let reason = result.finish_reason.as_ref();
                let notice = result.notice.as_deref();
                self.mapping
                    .end(&result.reply, notice, result.status, reason);
            }
            Err(problem) => {
                let details = problem.details();
                self.mapping.fail(details.detail, details.name);
            }
        }
    }
}

/// What remains to be reported.
enum FeedState {
    Events(Box<RunFeed>),
    End(Pin<Box<dyn Future<Output = Box<RunFeed>> + Send>>),
    Nothing,
}

impl Source for FeedState {
    const COMMENT: &'static [u8] = b": ping\n\n";

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        piece: &mut Vec<u8>,
    ) -> Poll<Option<Result<(), serde_json::Error>>> {
        let events = match self {
            Self::Events(feed) => {
                let mut events = feed.mapping.take();
                // The start of the run is ready before any event is received.
                if events.is_empty() {
                    if let Some(event) = ready!(feed.poll_event(cx)) {
                        feed.mapping.apply(&event);
                        events = feed.mapping.take();
                    } else if let Self::Events(mut feed) = mem::replace(self, Self::Nothing) {
                        *self = Self::End(Box::pin(async move {
                            feed.settle().await;
                            feed
                        }));
                    }
                }
                events
            }
            Self::End(feed) => {
                let mut feed = ready!(feed.as_mut().poll(cx));
                feed.guard.is_settled = true;
                *self = Self::Nothing;
                feed.mapping.take()
            }
            Self::Nothing => return Poll::Ready(None),
        };
        let mut each = events.iter();
        Poll::Ready(Some(
            each.try_for_each(|event| write_event(piece, None, event)),
        ))
    }

    /// Reports that the run ends. Dropping this ends it if no other client follows it.
    fn write_cut(&mut self, why: CutReason, piece: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        // The end was already reported.
        if matches!(self, Self::Nothing) {
            return Ok(());
        }
        let code = match why {
            CutReason::ClientStalled(_) => "dropped",
            CutReason::KeyInvalid => "key-needed",
        };
        let failed = Body::RunError {
            message: format!("{why}; the run ends unless another connection follows it"),
            code: code.to_owned(),
            usage: Vec::new(),
        };
        write_event(piece, None, &Outgoing::from(failed))
    }
}

/// Answers that a request on a run failed, for clients that must receive this as an event.
pub(super) fn refused(streams: &Streams, ids: ClientIds, problem: &Problem) -> Response {
    let ClientIds {
        thread_id,
        run_id,
        parent_run_id,
    } = ids;
    let started = Body::RunStarted {
        thread_id,
        run_id,
        protocol_version: PROTOCOL_VERSION,
        parent_run_id,
        metadata: None,
    };
    let details = problem.details();
    let failed = Body::RunError {
        message: details.detail,
        code: details.name.to_owned(),
        usage: Vec::new(),
    };
    streams.send(RefusalEvents(vec![started, failed].into_iter()))
}

/// The events for a refused request.
struct RefusalEvents(std::vec::IntoIter<Body>);

impl Source for RefusalEvents {
    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        piece: &mut Vec<u8>,
    ) -> Poll<Option<Result<(), serde_json::Error>>> {
        let event = self.0.next().map(Outgoing::from);
        Poll::Ready(event.map(|event| write_event(piece, None, &event)))
    }

    /// All events are sent in one piece, so the stream cannot be cut off while a client waits.
    fn write_cut(&mut self, _: CutReason, _: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        Ok(())
    }
}
