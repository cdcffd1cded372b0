//! A streamed answer, in either of OpenAI's protocols. A client that stops reading ends the run, because no other
//! client waits for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::response::Response;
use futures_util::Stream;
use neuraxis::{Event, Events};

use super::error::{ErrorBody, in_stream, without_retry};
use super::run::{ClientOutcome, GuardedRun, RunRef};
use crate::events::{CutReason, Source, Streams};
use crate::problem::{KEY_NEEDED, Problem};

/// Whether something could be serialized as JSON.
pub(super) type Written = Result<(), serde_json::Error>;

/// Writes an answer in one protocol, appending to a piece.
pub(super) trait Writer: Unpin + Send + 'static {
    /// Writes what precedes the answer.
    fn write_start(&mut self, piece: &mut Vec<u8>) -> Written;

    /// Writes a client's view of an event, which may be nothing.
    fn write_event(&mut self, event: &Event, piece: &mut Vec<u8>) -> Written;

    /// Writes the outcome of the run.
    fn write_outcome(&mut self, outcome: &ClientOutcome, piece: &mut Vec<u8>) -> Written;

    /// Writes why there is no outcome.
    fn write_error(&mut self, error: &ErrorBody, piece: &mut Vec<u8>) -> Written;
}

/// Streams what a writer produces from a run.
pub(super) fn stream_answer(
    streams: &Streams,
    guarded: GuardedRun,
    events: Events,
    writer: impl Writer,
) -> Response {
    without_retry(streams.send(Answer {
        guarded: Some(guarded),
        stage: Stage::First,
        events,
        writer,
    }))
}

/// An answer in progress.
struct Answer<W> {
    /// The run, until it has ended.
    guarded: Option<GuardedRun>,
    stage: Stage,
    events: Events,
    writer: W,
}

/// What is sent next.
enum Stage {
    First,
    Events,
    End(Pin<Box<dyn Future<Output = Result<ClientOutcome, Problem>> + Send>>),
    Nothing,
}

impl<W: Writer> Source for Answer<W> {
    fn poll_write(&mut self, cx: &mut Context<'_>, piece: &mut Vec<u8>) -> Poll<Option<Written>> {
        let written = match &mut self.stage {
            Stage::First => {
                self.stage = Stage::Events;
                self.writer.write_start(piece)
            }
            Stage::Events => {
                if let Some(event) = ready!(Pin::new(&mut self.events).poll_next(cx)) {
                    self.writer.write_event(&event, piece)
                } else {
                    self.stage = match self.guarded.take() {
                        Some(guarded) => {
                            Stage::End(Box::pin(async move { guarded.outcome().await }))
                        }
                        None => Stage::Nothing,
                    };
                    Ok(())
                }
            }
            Stage::End(outcome) => {
                let outcome = ready!(outcome.as_mut().poll(cx));
                self.stage = Stage::Nothing;
                match outcome {
                    Ok(outcome) => self.writer.write_outcome(&outcome, piece),
                    Err(problem) => self.writer.write_error(&in_stream(&problem), piece),
                }
            }
            Stage::Nothing => return Poll::Ready(None),
        };
        Poll::Ready(Some(written))
    }

    /// Reports that the run ends. Dropping the answer ends it.
    fn write_cut(&mut self, why: CutReason, piece: &mut Vec<u8>) -> Written {
        // The end was already sent.
        if matches!(self.stage, Stage::Nothing) {
            return Ok(());
        }
        let message = format!("{why}; the run was cancelled");
        let run = self.guarded.as_ref().map(RunRef::of);
        let body = match why {
            CutReason::ClientStalled(_) => ErrorBody::of_run(message, "dropped", run),
            CutReason::KeyInvalid => in_stream(&Problem::new(&KEY_NEEDED, message)),
        };
        self.writer.write_error(&body, piece)
    }
}
