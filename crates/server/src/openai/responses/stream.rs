//! A response as it comes.

use std::convert::Infallible;

use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use neuraxis::Events;

use super::output::ResponseOut;
use super::writer::Writer;
use crate::events::DO_NOT_BUFFER;
use crate::openai::error::not_again;
use crate::openai::run::Held;

/// Answers with the events as they come. The run ends with the answer: whoever stops reading ends it.
pub(super) fn answer(held: Held, events: Events, response: ResponseOut, at_once: bool) -> Response {
    let writer = Writer::to_client(response, at_once);
    let state = (held, Some(events), writer);
    let frames = stream::unfold(state, |(held, mut events, mut writer)| async move {
        while writer.is_empty() {
            match events.as_mut()?.next().await {
                Some(event) => writer.hear(&event),
                None => {
                    match held.ended().await {
                        Ok(ended) => writer.end(&ended),
                        Err(problem) => writer.fail(&problem),
                    }
                    events = None;
                }
            }
        }
        let frames = writer.take();
        Some((frames, (held, events, writer)))
    });
    let frames = futures_util::StreamExt::flat_map(frames, |frames| {
        stream::iter(frames.into_iter().map(Ok::<_, Infallible>))
    });
    let stream = Sse::new(frames).keep_alive(KeepAlive::default());
    not_again(([DO_NOT_BUFFER], stream).into_response())
}
