//! What a run waits for.

use std::future::pending;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use neuraxis_core::{CallModel, Input};
use neuraxis_ports::StoreError;

use crate::driver::loading::Paused;
use crate::driver::model_call::ModelAttempt;
use crate::driver::vet::CallsToJudge;

/// A piece of the run's work that has completed.
pub(super) enum Work {
    /// One attempt of a model call.
    Model(Box<(Box<CallModel>, ModelAttempt)>),
    /// Calls about which the program's hooks were asked; they are yet to be checked.
    Advised(Box<CallsToJudge>),
    /// An answer for the machine.
    Answer(Box<Input>),
    /// The pause before a server is asked again whether it has loaded its model.
    Paused(Box<Paused>),
    /// A question that will be answered in another way, or a call that was cancelled before it was repeated.
    Later,
    /// A call that was not begun because this process may no longer have the run.
    Lost(StoreError),
}

/// The calls and questions of a run that are in progress.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Most of the time a run waits for one thing, which needs no set.
    one: Option<BoxFuture<'static, Work>>,
    /// Work that was added while there was already one. If not empty, one of its futures is never ready, so the set
    /// never polls all of its futures: if it did, `FuturesUnordered` would wake its own task once more, which also
    /// wakes another thread.
    more: Option<FuturesUnordered<BoxFuture<'static, Work>>>,
}

impl UnderWay {
    pub(super) fn push(&mut self, work: BoxFuture<'static, Work>) {
        if self.one.is_none() {
            self.one = Some(work);
            return;
        }
        let more = self.more.get_or_insert_with(|| {
            let never: BoxFuture<'static, Work> = Box::pin(pending());
            FuturesUnordered::from_iter([never])
        });
        more.push(work);
    }

    /// Returns the amount of work in progress.
    pub(super) fn len(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| more.len() - 1);
        usize::from(self.one.is_some()) + more
    }

    /// Returns whether no work is left.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns completed work. Polling it without waiting loses nothing.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Work> {
        if let Some(one) = &mut self.one
            && let Poll::Ready(work) = one.as_mut().poll(cx)
        {
            self.one = None;
            return Poll::Ready(work);
        }
        match self.more.as_mut().map(|more| more.poll_next_unpin(cx)) {
            Some(Poll::Ready(Some(work))) => Poll::Ready(work),
            Some(Poll::Ready(None) | Poll::Pending) | None => Poll::Pending,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// Counts how often a task is woken.
    #[derive(Default)]
    pub(in crate::driver) struct Wakes(pub(in crate::driver) AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn waiting_for_one_call_does_not_wake_the_run_repeatedly() {
        let wakes = Arc::new(Wakes::default());
        let waker = Arc::clone(&wakes).into();
        let mut context = Context::from_waker(&waker);
        let mut under_way = UnderWay::default();
        for _ in 0..5 {
            let (answer, answered) = tokio::sync::oneshot::channel::<()>();
            under_way.push(Box::pin(async move {
                let _ = answered.await;
                Work::Later
            }));
            let before = wakes.0.load(Ordering::Relaxed);
            assert!(under_way.poll_next(&mut context).is_pending());
            assert!(under_way.poll_next(&mut context).is_pending());
            assert_eq!(wakes.0.load(Ordering::Relaxed), before);
            answer.send(()).unwrap();
            let ready = under_way.poll_next(&mut context);
            assert!(matches!(ready, Poll::Ready(Work::Later)));
            assert!(under_way.is_empty());
        }
    }

    #[tokio::test]
    async fn each_of_several_calls_is_reported_in_any_order_of_completion() {
        let mut under_way = UnderWay::default();
        let mut waited_for = Vec::new();
        for _ in 0..3 {
            let (answer, answered) = tokio::sync::oneshot::channel::<()>();
            waited_for.push(answer);
            under_way.push(Box::pin(async move {
                let _ = answered.await;
                Work::Later
            }));
        }
        while let Some(answer) = waited_for.pop() {
            assert!(!under_way.is_empty());
            answer.send(()).unwrap();
            assert!(matches!(
                poll_fn(|cx| under_way.poll_next(cx)).await,
                Work::Later
            ));
            let wakes = Arc::new(Wakes::default());
            let waker = Arc::clone(&wakes).into();
            let mut context = Context::from_waker(&waker);
            for _ in 0..2 {
                assert!(under_way.poll_next(&mut context).is_pending());
            }
            assert!(
                wakes.0.load(Ordering::Relaxed) <= 1,
                "woken again and again"
            );
        }
        assert!(under_way.is_empty());
    }
}
