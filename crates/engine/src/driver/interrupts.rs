//! What may interrupt a run's wait for its model or its tools: an input or a post from outside, a limit, the engine's
//! shutdown.
//!
//! All of these are rare, but a streamed reply wakes its run for every piece. Polling them all for every piece would
//! take longer than the engine's own part in it, so they wake the run through a separate waker, which notes that it was
//! one of them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use neuraxis_ports::CancellationToken;
use tokio_util::sync::WaitForCancellationFutureOwned;

/// When the interrupts of one run must be polled, and the engine's shutdown, which is one of them.
pub(super) struct Interrupts {
    /// Wakes the task that polled the interrupts last.
    relay: Option<Arc<Relay>>,
    /// The engine's shutdown, until it was reported.
    shutdown: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

/// Wakes a run's task, and notes that an interrupt woke it.
#[derive(Debug)]
struct Relay {
    has_woken: AtomicBool,
    task: Waker,
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Set before the task is woken, since the task checks it.
        self.has_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl Interrupts {
    /// Starts with only the engine's shutdown, which is reported once.
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        Self {
            relay: None,
            shutdown: Some(Box::pin(shutdown.cancelled_owned())),
        }
    }

    /// Notes that there are new interrupts, which have not been polled yet.
    pub(super) fn renew(&self) {
        if let Some(relay) = &self.relay {
            relay.has_woken.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the waker with which all interrupts must be polled; `None` if none can be ready: they were polled
    /// before, and none has woken the task since.
    pub(super) fn due(&mut self, task: &Waker) -> Option<Waker> {
        match &self.relay {
            Some(relay) if relay.task.will_wake(task) => {
                let is_due = relay.has_woken.swap(false, Ordering::Acquire);
                is_due.then(|| Waker::from(Arc::clone(relay)))
            }
            _ => {
                let relay = Arc::new(Relay {
                    has_woken: AtomicBool::new(false),
                    task: task.clone(),
                });
                self.relay = Some(Arc::clone(&relay));
                Some(Waker::from(relay))
            }
        }
    }

    /// Reports once that the engine is shutting down.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(shutdown) = &mut self.shutdown {
            ready!(shutdown.as_mut().poll(cx));
            self.shutdown = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::under_way::tests::Wakes;

    #[test]
    fn interrupts_are_polled_at_first_after_a_wake_and_after_renewal() {
        let wakes = Arc::new(Wakes::default());
        let task = Waker::from(Arc::clone(&wakes));
        let mut interrupts = Interrupts::new(CancellationToken::new());
        let waker = interrupts.due(&task).unwrap();
        assert!(interrupts.due(&task).is_none());
        waker.wake_by_ref();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(interrupts.due(&task).is_some());
        assert!(interrupts.due(&task).is_none());
        interrupts.renew();
        assert!(interrupts.due(&task).is_some());
        assert!(interrupts.due(&task).is_none());
    }

    #[test]
    fn polling_in_another_task_moves_the_wakeup_there() {
        let tasks = [Arc::new(Wakes::default()), Arc::new(Wakes::default())];
        let [one, other] = tasks.clone().map(Waker::from);
        let mut interrupts = Interrupts::new(CancellationToken::new());
        let _ = interrupts.due(&one).unwrap();
        let waker = interrupts.due(&other).unwrap();
        waker.wake();
        let woken = tasks.map(|wakes| wakes.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
        assert!(interrupts.due(&other).is_some());
    }

    #[test]
    fn a_shutdown_is_reported_only_once() {
        let shutdown = CancellationToken::new();
        let mut interrupts = Interrupts::new(shutdown.clone());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(interrupts.poll_shutdown(&mut cx).is_pending());
        shutdown.cancel();
        assert!(interrupts.poll_shutdown(&mut cx).is_ready());
        assert!(interrupts.poll_shutdown(&mut cx).is_pending());
    }
}
