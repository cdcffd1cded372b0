//! A streamed answer, in either of OpenAI's protocols. A client that stops reading ends the run, because no other
//! client waits for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::response::Response;
use futures_util::Stream;
use neuraxis::{Event, Events};

use super::error::{ErrorBody, in_stream, not_again};
use super::run::{Ended, Held, RunRef};
use crate::events::{Cut, Source, Streams};
use crate::problem::{KEY_NEEDED, Problem};

/// Whether something could be serialized as JSON.
pub(super) type Written = Result<(), serde_json::Error>;

/// Writes an answer in one protocol, appending to a piece.
pub(super) trait Writer: Unpin + Send + 'static {
    /// Writes what precedes the answer.
    fn begin(&mut self, piece: &mut Vec<u8>) -> Written;

    /// Writes a client's view of an event, which may be nothing.
    fn hear(&mut self, event: &Event, piece: &mut Vec<u8>) -> Written;

    /// Writes the outcome of the run.
    fn end(&mut self, ended: &Ended, piece: &mut Vec<u8>) -> Written;

    /// Writes why there is no outcome.
    fn fail(&mut self, error: &ErrorBody, piece: &mut Vec<u8>) -> Written;
}

/// Streams what a writer produces from a run.
pub(super) fn answer_as_it_comes(
    streams: &Streams,
    held: Held,
    events: Events,
    writer: impl Writer,
) -> Response {
    not_again(streams.send(Answer {
        held: Some(held),
        stage: Stage::First,
        events,
        writer,
    }))
}

/// An answer in progress.
struct Answer<W> {
    /// The run, until it has ended.
    held: Option<Held>,
    stage: Stage,
    events: Events,
    writer: W,
}

/// What is sent next.
enum Stage {
    First,
    Events,
    End(Pin<Box<dyn Future<Output = Result<Ended, Problem>> + Send>>),
    Nothing,
}

impl<W: Writer> Source for Answer<W> {
    fn poll_write(&mut self, cx: &mut Context<'_>, piece: &mut Vec<u8>) -> Poll<Option<Written>> {
        let written = match &mut self.stage {
            Stage::First => {
                self.stage = Stage::Events;
                self.writer.begin(piece)
            }
            Stage::Events => {
                if let Some(event) = ready!(Pin::new(&mut self.events).poll_next(cx)) {
                    self.writer.hear(&event, piece)
                } else {
                    self.stage = match self.held.take() {
                        Some(held) => Stage::End(Box::pin(async move { held.ended().await })),
                        None => Stage::Nothing,
                    };
                    Ok(())
                }
            }
            Stage::End(ended) => {
                let ended = ready!(ended.as_mut().poll(cx));
                self.stage = Stage::Nothing;
                match ended {
                    Ok(ended) => self.writer.end(&ended, piece),
                    Err(problem) => self.writer.fail(&in_stream(&problem), piece),
                }
            }
            Stage::Nothing => return Poll::Ready(None),
        };
        Poll::Ready(Some(written))
    }

    /// Reports that the run ends. Dropping the answer ends it.
    fn write_cut(&mut self, why: Cut, piece: &mut Vec<u8>) -> Written {
        // The end was already sent.
        if matches!(self.stage, Stage::Nothing) {
            return Ok(());
        }
        let told = format!("{why}; the run was cancelled");
        let run = self.held.as_ref().map(RunRef::of);
        let body = match why {
            Cut::Untaken(_) => ErrorBody::of_run(told, "dropped", run),
            Cut::NoKey => in_stream(&Problem::new(&KEY_NEEDED, told)),
        };
        self.writer.fail(&body, piece)
    }
}
