//! The client that plays recordings.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuraxis_core::{LlmError, LlmErrorKind, ModelRef, ModelRequest, Reply, ReplyAssembler, Role};
use neuraxis_ports::{
    CallContext, CancellationToken, LlmClient, ModelInfo, ReplyStream, async_trait,
};
use tokio::time::Instant;

use super::{Cassette, mismatch};
use crate::config::Speed;
use crate::exchange::{Ended, Event, Exchange, Mode};

/// A client that answers with the recordings of one role.
///
/// A reply recorded as a stream can be requested whole, and the other way round. If the caller gave up a call during
/// recording, it plays what had arrived by then and fails with [`Incomplete`](neuraxis_core::LlmErrorKind::Incomplete).
#[derive(Debug, Clone)]
pub struct CassetteClient {
    cassette: Cassette,
    role: Role,
}

impl CassetteClient {
    pub(super) const fn new(cassette: Cassette, role: Role) -> Self {
        Self { cassette, role }
    }

    fn begin(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
        mode: Mode,
    ) -> Result<Playback, LlmError> {
        if ctx.cancellation.is_cancelled() {
            return Err(cancelled());
        }
        let recordings = &self.cassette.recordings;
        let found = recordings.play(&self.role, request, mode);
        let exchange = found
            .map_err(|missing| mismatch::error(&self.cassette, &self.role, request, missing))?;
        Ok(Playback {
            events: events(&exchange, mode),
            started: Instant::now(),
            speed: self.cassette.speed,
            cancellation: ctx.cancellation.clone(),
        })
    }
}

#[async_trait]
impl LlmClient for CassetteClient {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let mut playing = self.begin(request, ctx, Mode::Whole)?;
        let mut assembler = ReplyAssembler::default();
        while let Some(event) = playing.next().await? {
            match event {
                Event::Open => {}
                Event::Delta(delta) => assembler.push(delta)?,
                Event::Reply(reply) => return Ok(reply),
                Event::Error(error) => return Err(error),
            }
        }
        assembler.finish()
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let mut playing = self.begin(request, ctx, Mode::Streamed)?;
        match playing.next().await? {
            Some(Event::Error(error)) => return Err(error),
            None => return Ok(stream::empty().boxed()),
            Some(Event::Open | Event::Delta(_) | Event::Reply(_)) => {}
        }
        let pieces = stream::unfold(playing, async |mut playing| {
            let piece = match playing.next().await {
                Ok(Some(Event::Delta(delta))) => Ok(delta),
                Ok(Some(Event::Error(error))) => Err(error),
                Ok(Some(Event::Open | Event::Reply(_)) | None) => return None,
                Err(error) => {
                    playing.events.clear();
                    Err(error)
                }
            };
            Some((piece, playing))
        });
        Ok(pieces.boxed())
    }

    fn info(&self) -> ModelInfo {
        let recorded = || self.cassette.exchanges_of(&self.role);
        let model = recorded().next().map_or_else(
            || ModelRef::new("cassette", "nothing-recorded"),
            |exchange| exchange.model.clone(),
        );
        let mut info = ModelInfo::new(model);
        // It may not have been known at the first call, only later.
        info.context_tokens = recorded().find_map(|exchange| exchange.context_tokens);
        let file = self.cassette.name().display();
        let (by, at) = (
            &self.cassette.header.recorded_by,
            self.cassette.header.recorded_at,
        );
        info.notice = Some(format!(
            "not a model but a recording: {file}, made by {by} at {at}"
        ));
        info
    }
}

/// The rest of an exchange being played.
struct Playback {
    events: VecDeque<(u64, Event)>,
    started: Instant,
    speed: Speed,
    cancellation: CancellationToken,
}

impl Playback {
    /// Returns the next event, when its time has come.
    async fn next(&mut self) -> Result<Option<Event>, LlmError> {
        let Some((ms, event)) = self.events.pop_front() else {
            return Ok(None);
        };
        if self.cancellation.is_cancelled() {
            return Err(cancelled());
        }
        if self.speed == Speed::Recorded {
            let due = Duration::from_millis(ms).saturating_sub(self.started.elapsed());
            let wait = tokio::time::sleep(due);
            let waited = self.cancellation.run_until_cancelled(wait).await;
            waited.ok_or_else(cancelled)?;
        }
        Ok(Some(event))
    }
}

/// Returns the events that an exchange plays in a given mode.
fn events(exchange: &Arc<Exchange>, mode: Mode) -> VecDeque<(u64, Event)> {
    let mut events: VecDeque<(u64, Event)> = match (exchange.mode, mode) {
        (Mode::Whole, Mode::Streamed) => exchange.events.iter().flat_map(pieces).collect(),
        _ => exchange.events.iter().cloned().collect(),
    };
    if exchange.ended == Ended::Abandoned {
        let error = LlmError::new(
            LlmErrorKind::Incomplete,
            "the recording ends here because its caller abandoned the call",
        );
        events.push_back((exchange.ended_ms, Event::Error(error)));
    }
    events
}

/// Returns a whole reply as the events of a stream.
fn pieces((ms, event): &(u64, Event)) -> Vec<(u64, Event)> {
    let Event::Reply(reply) = event else {
        return vec![(*ms, event.clone())];
    };
    let deltas = reply.clone().into_deltas();
    let deltas = deltas.into_iter().map(Event::Delta);
    std::iter::once(Event::Open)
        .chain(deltas)
        .map(|event| (*ms, event))
        .collect()
}

fn cancelled() -> LlmError {
    LlmError::new(LlmErrorKind::Cancelled, "abandoned by its caller")
}
