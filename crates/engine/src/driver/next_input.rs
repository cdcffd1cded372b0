//! What a run goes on with: an answer that is at hand, or whatever happens first.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use neuraxis_core::{ApprovalDecision, Cancelled, Input, InputId};
use neuraxis_ports::StoreError;
use tokio::time::Instant;

use crate::driver::Driver;
use crate::driver::under_way::Work;

/// What a run waited for.
enum Happened {
    /// Somebody here has something for it.
    Input(Box<Input>),
    /// The engine shuts down.
    ShutDown,
    /// Something that was under way is over.
    Over(Work),
    /// Another process has something for it.
    Posted,
    /// One of its limits, or its lease, is due.
    Due,
}

impl Driver {
    /// Waits for what happens next; `None` if that is nothing for the machine. Fails once the run is lost to this process.
    pub(super) async fn next_input(
        &mut self,
        wake_at: Option<Duration>,
    ) -> Result<Option<Input>, StoreError> {
        if self.journal.is_inbox_due() {
            self.read_inbox().await;
        }
        if let Some(input) = self.ready.pop_front() {
            return Ok(self.look_at_result(input));
        }
        self.hold_clock();
        let limit = wake_at.and_then(|wake_at| self.active.instant_of(wake_at));
        let heartbeat = self.journal.heartbeat();
        let due = match (limit, heartbeat) {
            (Some(limit), Some(heartbeat)) => Some(limit.min(heartbeat)),
            (limit, heartbeat) => limit.or(heartbeat),
        };
        match self.happens(due).await {
            // What people decided before may be kept and not heard yet.
            Happened::Input(input) | Happened::Over(Work::Answer(input)) if is_expiry(&input) => {
                self.read_inbox().await;
                self.ready.push_back(*input);
                return Ok(None);
            }
            Happened::Input(mut input) => {
                self.engine
                    .approval_key
                    .sign_input(self.scope.run_id, &mut input);
                return Ok(self.look_at_result(*input));
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
            return Ok(self.look_at_result(input));
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
        let mut posted = pin!(journal.is_posted_to());
        let mut rings = pin!(alarm.rings_at(due));
        interrupts.renew();
        // In this order: a wish to end is heard before more is begun, and the same run goes the same way each time.
        poll_fn(|cx| {
            let waker = interrupts.due(cx.waker());
            let mut seldom = waker.as_ref().map(Context::from_waker);
            if let Some(cx) = &mut seldom {
                // Once it is closed nothing comes any more.
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

/// Tells whether an input says that nobody decided in time.
fn is_expiry(input: &Input) -> bool {
    let Input::ApprovalDecided(decided) = input else {
        return false;
    };
    decided.decision == ApprovalDecision::Expired
}
