//! Ctrl-C: the first one stops the work in an orderly way, the second one at once.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio::signal::ctrl_c;

use crate::error::INTERRUPTED;

/// Listens for Ctrl-C.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt {
    happened: Arc<AtomicBool>,
}

impl Interrupt {
    /// Stops the work with `stop` on the first Ctrl-C, and ends the process on the second.
    pub(crate) async fn watch(stop: impl FnOnce() + Send + 'static) -> Self {
        let happened = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&happened);
        let mut first = Box::pin(ctrl_c());
        // From here on Ctrl-C no longer kills; where there is no such signal to listen for, it never comes.
        let listens = poll_fn(|context| Poll::Ready(first.as_mut().poll(context).is_pending()));
        if listens.await {
            tokio::spawn(async move {
                if first.await.is_err() {
                    return;
                }
                flag.store(true, Ordering::SeqCst);
                let second = ctrl_c();
                stop();
                if second.await.is_ok() {
                    std::process::exit(i32::from(INTERRUPTED));
                }
            });
        }
        Self { happened }
    }

    /// Tells whether there was a Ctrl-C.
    pub(crate) fn happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }
}
