//! What a run continues with: an answer that is available, or whatever happens first.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use neuraxis_core::{ApprovalDecision, Cancelled, Input, InputId};
use neuraxis_ports::StoreError;
use tokio::time::Instant;

use crate::driver::Driver;
use crate::driver::under_way::Work;

/// What ended a run's wait.
enum Happened {
    /// An input was sent to it in this process.
    Input(Box<Input>),
    /// The engine shuts down.
    ShutDown,
    /// Something in progress is complete.
    Over(Work),
    /// Another process has posted to it.
    Posted,
    /// One of its limits, or the renewal of its lease, is due.
    Due,
}

impl Driver {
    /// Waits for what happens next; `None` if that is nothing for the machine. Fails once the run is lost to this
    /// process.
    pub(super) async fn next_input(
        &mut self,
        wake_at: Option<Duration>,
    ) -> Result<Option<Input>, StoreError> {
        if self.journal.is_inbox_due() {
            self.read_inbox().await;
        }
        if let Some(input) = self.ready.pop_front() {
            return Ok(self.inspect_result(input));
        }
        self.hold_clock();
        let limit = wake_at.and_then(|wake_at| self.active.instant_of(wake_at));
        let heartbeat = self.journal.heartbeat();
        let due = match (limit, heartbeat) {
            (Some(limit), Some(heartbeat)) => Some(limit.min(heartbeat)),
            (limit, heartbeat) => limit.or(heartbeat),
        };
        match self.happens(due).await {
            // An earlier decision may be stored and not received yet.
            Happened::Input(input) | Happened::Over(Work::Answer(input)) if is_expiry(&input) => {
                self.read_inbox().await;
                self.ready.push_back(*input);
                return Ok(None);
            }
            Happened::Input(mut input) => {
                self.engine
                    .approval_key
                    .sign_input(self.scope.run_id, &mut input);
                return Ok(self.inspect_result(*input));
            }
            Happened::ShutDown => {
                let id = InputId::new(format!("shutdown-{}", self.scope.run_id));
                let cancelled = Cancelled::new(id, "the engine is shutting down");
                return Ok(Some(Input::Cancelled(cancelled)));
            }
            Happened::Over(work) => return self.work_over(work),
            Happened::Posted => {
                self.read_inbox().await;
                return Ok(None);
            }
            Happened::Due => {}
        }
        if heartbeat.is_some_and(|heartbeat| Instant::now() >= heartbeat) {
            self.journal.renew().await?;
            self.read_inbox().await;
        }
        if limit.is_some_and(|limit| Instant::now() >= limit) {
            let input = self.limit_is_due();
            return Ok(self.inspect_result(input));
        }
        Ok(None)
    }

    /// Waits for whatever happens first.
    async fn happens(&mut self, due: Option<Instant>) -> Happened {
        let Self {
            inbox,
            work,
            interrupts,
            journal,
            alarm,
            ..
        } = self;
        let mut posted = pin!(journal.until_posted_to());
        let mut rings = pin!(alarm.rings_at(due));
        interrupts.renew();
        // In this order, so that a cancellation is received before more is begun, and a run always behaves the same
        // way.
        poll_fn(|cx| {
            let waker = interrupts.due(cx.waker());
            let mut seldom = waker.as_ref().map(Context::from_waker);
            if let Some(cx) = &mut seldom {
                // A closed channel yields nothing more.
                if let Poll::Ready(Some(input)) = inbox.poll_recv(cx) {
                    return Poll::Ready(Happened::Input(input));
                }
                if interrupts.poll_shutdown(cx).is_ready() {
                    return Poll::Ready(Happened::ShutDown);
                }
            }
            if let Poll::Ready(over) = work.poll_next(cx) {
                return Poll::Ready(Happened::Over(over));
            }
            if let Some(cx) = &mut seldom {
                if posted.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Happened::Posted);
                }
                if rings.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Happened::Due);
                }
            }
            Poll::Pending
        })
        .await
    }

    fn work_over(&mut self, work: Work) -> Result<Option<Input>, StoreError> {
        Ok(match work {
            Work::Model(over) => {
                let (call, attempt) = *over;
                self.no_longer_running(call.effect_id);
                self.attempt_over(call, attempt)
            }
            Work::Paused(paused) => {
                self.pause_over(*paused);
                None
            }
            Work::Answer(input) => {
                if let Input::ToolFinished(finished) = input.as_ref() {
                    self.no_longer_running(finished.effect_id);
                }
                Some(*input)
            }
            Work::Advised(calls) => {
                self.judge(*calls);
                None
            }
            Work::Later => None,
            Work::Lost(error) => return Err(error),
        })
    }
}

/// Returns whether an input says that a question expired.
fn is_expiry(input: &Input) -> bool {
    let Input::ApprovalDecided(decided) = input else {
        return false;
    };
    decided.decision == ApprovalDecision::Expired
}
