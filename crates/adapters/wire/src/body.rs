//! A body being received, with its time limits and its caller's cancellation.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::CancellationToken;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::endpoint::cause;
use crate::errors::ServerErrors;

/// Time limits of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimits {
    /// The deadline for the first piece.
    pub(crate) first: Instant,
    /// The limit between two pieces.
    pub(crate) idle: Duration,
    /// The limit between two pieces with model output.
    pub(crate) output: Duration,
    /// The deadline for the whole body.
    pub(crate) end: Option<Instant>,
}

/// How many pieces may arrive without a pause before the clock is checked.
const PIECES_UNCHECKED: u32 = 64;

/// A body being read. Dropping it closes its connection, unless it was read to its end.
///
/// The clock is checked when the body has to wait: the limits apply to the server's pauses, not the reader's.
pub(crate) struct Body {
    source: reqwest::Body,
    limits: TimeLimits,
    has_begun: bool,
    /// When the last piece was received, as of the last check of the clock.
    last_piece: Instant,
    /// When the last piece with model output was received, as of the same check.
    last_output: Instant,
    arrived: Arrival,
    unchecked: u32,
    /// Wakes the reader no later than the next limit; created when there is first something to wait for.
    alarm: Option<Pin<Box<Sleep>>>,
    cancellation: CancellationToken,
    cancelled: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// The waker registered with both of them.
    reader: Option<Waker>,
    errors: Arc<ServerErrors>,
    /// The permit for this reply under the limit on concurrent replies; released when this is dropped.
    permit: Option<OwnedSemaphorePermit>,
}

/// What has arrived since the last check of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Nothing,
    Piece,
    Output,
}

impl Body {
    pub(crate) fn new(
        source: reqwest::Body,
        limits: TimeLimits,
        cancellation: CancellationToken,
        errors: Arc<ServerErrors>,
    ) -> Self {
        let now = Instant::now();
        Self {
            source,
            limits,
            has_begun: false,
            last_piece: now,
            last_output: now,
            arrived: Arrival::Nothing,
            unchecked: 0,
            alarm: None,
            cancellation,
            cancelled: None,
            reader: None,
            errors,
            permit: None,
        }
    }

    /// Holds the permit until this is dropped.
    pub(crate) fn hold(&mut self, permit: OwnedSemaphorePermit) {
        self.permit = Some(permit);
    }

    pub(crate) const fn errors(&self) -> &Arc<ServerErrors> {
        &self.errors
    }

    pub(crate) const fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Marks the last piece as model output.
    pub(crate) const fn mark_output(&mut self) {
        self.arrived = Arrival::Output;
    }

    /// Replaces the deadline for the whole body.
    pub(crate) fn end_within(&mut self, time: Duration) {
        self.limits.end = Some(after(Instant::now(), time));
        self.alarm = None;
    }

    /// Waits for the next piece.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, LlmError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the next piece, or `None` at the end. After an error there is nothing more to read.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, LlmError>>> {
        loop {
            let frame = match Pin::new(&mut self.source).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return self.poll_limits(cx).map(|error| Some(Err(error))),
            };
            let piece = match frame {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(self.cut_off(&error)))),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            if !piece.is_empty() {
                return Poll::Ready(Some(self.record_piece().map(|()| piece)));
            }
        }
    }

    /// Records the arrival of a piece.
    fn record_piece(&mut self) -> Result<(), LlmError> {
        if self.has_begun {
            if self.arrived == Arrival::Nothing {
                self.arrived = Arrival::Piece;
            }
        } else {
            self.has_begun = true;
            // From here on the limits for output apply, and pauses must be shorter.
            self.arrived = Arrival::Output;
            self.alarm = None;
        }
        self.unchecked += 1;
        if self.unchecked < PIECES_UNCHECKED {
            return Ok(());
        }
        // A body that never pauses must also respect the limits.
        self.unchecked = 0;
        let now = Instant::now();
        self.note_arrivals(now);
        self.check(now)
    }

    /// Waits for the first reason to stop reading.
    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Poll<LlmError> {
        if self.arrived != Arrival::Nothing {
            self.unchecked = 0;
            self.note_arrivals(Instant::now());
        }
        if self.cancellation.is_cancelled() {
            return Poll::Ready(cancelled_by_caller());
        }
        let is_known = self
            .reader
            .as_ref()
            .is_some_and(|reader| reader.will_wake(cx.waker()));
        let is_early = self.alarm.as_ref().is_some_and(|alarm| !alarm.is_elapsed());
        if is_known && is_early {
            return Poll::Pending;
        }
        self.reader = None;
        let cancelled = self
            .cancelled
            .get_or_insert_with(|| Box::pin(self.cancellation.clone().cancelled_owned()));
        if cancelled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(cancelled_by_caller());
        }
        loop {
            let (due, _) = self.due();
            // The limits only move later, so an alarm set for an earlier one fires too early at worst, and is then set
            // again.
            let alarm = self
                .alarm
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            if alarm.as_mut().poll(cx).is_pending() {
                // A task that has used up its budget is not registered for a wakeup; it only gets another turn.
                self.reader = has_budget_remaining().then(|| cx.waker().clone());
                return Poll::Pending;
            }
            if let Err(error) = self.check(Instant::now()) {
                return Poll::Ready(error);
            }
            self.alarm = None;
        }
    }

    const fn note_arrivals(&mut self, now: Instant) {
        if !matches!(self.arrived, Arrival::Nothing) {
            self.last_piece = now;
        }
        if matches!(self.arrived, Arrival::Output) {
            self.last_output = now;
        }
        self.arrived = Arrival::Nothing;
    }

    fn check(&self, now: Instant) -> Result<(), LlmError> {
        if self.cancellation.is_cancelled() {
            return Err(cancelled_by_caller());
        }
        let (due, complaint) = self.due();
        if now < due {
            return Ok(());
        }
        let said = format!("{} {complaint}", self.errors.server());
        Err(LlmError::new(LlmErrorKind::Timeout, said))
    }

    /// Returns when the next limit is reached, and the error message for it.
    fn due(&self) -> (Instant, &'static str) {
        let end = self
            .limits
            .end
            .map(|end| (end, "did not finish its reply in time"));
        let pause = if self.has_begun {
            self.longest_pause()
        } else {
            (
                self.limits.first,
                "did not begin its reply in time (timeouts.first_byte)",
            )
        };
        match end {
            Some(end) if end.0 < pause.0 => end,
            _ => pause,
        }
    }

    fn longest_pause(&self) -> (Instant, &'static str) {
        let idle = after(self.last_piece, self.limits.idle);
        let output = after(self.last_output, self.limits.output);
        if output < idle {
            let said = "keeps the connection alive but sends no model output (timeouts.output)";
            return (output, said);
        }
        let said = "stopped sending in the middle of its reply (timeouts.idle)";
        (idle, said)
    }

    fn cut_off(&self, error: &reqwest::Error) -> LlmError {
        let cause = self.errors.tidy(&cause(error));
        let said = format!("{} cut off its reply: {cause}", self.errors.server());
        LlmError::new(LlmErrorKind::Incomplete, said)
    }
}

/// Returns the error of a call that its caller cancelled.
pub(crate) fn cancelled_by_caller() -> LlmError {
    LlmError::new(LlmErrorKind::Cancelled, "cancelled by the caller")
}

/// Adds a duration that may be too long for the clock.
pub(crate) fn after(instant: Instant, time: Duration) -> Instant {
    const YEARS: Duration = Duration::from_secs(30 * 365 * 86_400);
    instant.checked_add(time.min(YEARS)).unwrap_or(instant)
}

#[cfg(test)]
mod tests;
