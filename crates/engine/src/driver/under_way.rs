//! What a run waits for.

use std::future::pending;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use neuraxis_core::{CallModel, Input};
use neuraxis_ports::CancellationToken;

use crate::driver::model_call::ModelAttempt;

/// Something that was under way and is over.
pub(super) enum Work {
    /// One attempt of a model call.
    Model(Box<(CallModel, ModelAttempt)>),
    /// An answer for the machine.
    Answer(Box<Input>),
    /// A question that will be answered some other way.
    Later,
    /// The engine, which is shutting down.
    Engine,
}

/// The calls and questions of a run that are under way, and the engine itself.
///
/// There is always one future that is not ready, so that the set never polls all there is: at that point
/// `FuturesUnordered` wakes its own task once more, which also wakes another thread, for every call of every run.
pub(super) struct UnderWay(FuturesUnordered<BoxFuture<'static, Work>>);

impl UnderWay {
    /// Begins with nothing but the engine, which tells once when it shuts down.
    pub(super) fn new(shutdown: CancellationToken) -> Self {
        let all = FuturesUnordered::new();
        let engine: BoxFuture<'static, Work> = Box::pin(async move {
            shutdown.cancelled_owned().await;
            Work::Engine
        });
        all.push(engine);
        Self(all)
    }

    pub(super) fn push(&self, work: BoxFuture<'static, Work>) {
        self.0.push(work);
    }

    /// Tells whether nothing but the engine is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() <= 1
    }

    /// Waits for something to be over.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Work {
        match self.0.next().await {
            Some(Work::Engine) => {
                self.0.push(Box::pin(pending()));
                Work::Engine
            }
            Some(work) => work,
            None => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake};

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn waiting_for_one_call_does_not_wake_the_run_again_and_again() {
        let wakes = Arc::new(Wakes::default());
        let waker = Arc::clone(&wakes).into();
        let mut context = Context::from_waker(&waker);
        let mut under_way = UnderWay::new(CancellationToken::new());
        for _ in 0..5 {
            let (answer, asked) = tokio::sync::oneshot::channel::<()>();
            under_way.push(Box::pin(async move {
                let _ = asked.await;
                Work::Later
            }));
            let before = wakes.0.load(Ordering::Relaxed);
            assert!(pin!(under_way.next()).poll(&mut context).is_pending());
            assert!(pin!(under_way.next()).poll(&mut context).is_pending());
            // Once, when the engine itself is first looked at.
            let own = wakes.0.load(Ordering::Relaxed) - before;
            assert_eq!(own, usize::from(before == 0));
            answer.send(()).unwrap();
            let ready = pin!(under_way.next()).poll(&mut context);
            assert!(matches!(ready, Poll::Ready(Work::Later)));
            assert!(under_way.is_empty());
        }
    }

    #[tokio::test]
    async fn the_engine_is_heard_once() {
        let shutdown = CancellationToken::new();
        let mut under_way = UnderWay::new(shutdown.clone());
        assert!(under_way.is_empty());
        shutdown.cancel();
        assert!(matches!(under_way.next().await, Work::Engine));
        under_way.push(Box::pin(async { Work::Later }));
        assert!(!under_way.is_empty());
        assert!(matches!(under_way.next().await, Work::Later));
        assert!(under_way.is_empty());
    }
}
