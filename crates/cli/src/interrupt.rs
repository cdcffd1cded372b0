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

    /// Stops the work with `stop` on the first Ctrl-C, says with `hint` on the second that it is ending, and ends the
    /// process on the third. Listens until the listening is dropped; the process lives on.
    pub(crate) fn listen(
        stop: impl Fn() + Send + 'static,
        hint: impl Fn() + Send + 'static,
    ) -> Listening {
        let happened = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&happened);
        let task = tokio::spawn(async move {
            // Where there is no such signal to listen for, it never comes.
            for count in 0_u8.. {
                if ctrl_c().await.is_err() {
                    return;
                }
                match count {
                    0 => {
                        flag.store(true, Ordering::SeqCst);
                        stop();
                    }
                    1 => hint(),
                    _ => std::process::exit(i32::from(INTERRUPTED)),
                }
            }
        });
        Listening {
            interrupt: Self { happened },
            task,
        }
    }

    /// Keeps Ctrl-C from ending the process from now on, whether somebody listens or not.
    pub(crate) async fn disarm() {
        let mut first = Box::pin(ctrl_c());
        // Polled once, it is set up; nobody has to wait for it.
        poll_fn(|context| {
            let _ = first.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
    }

    /// Notes a Ctrl-C that came as a key and not as a signal.
    pub(crate) fn note(&self) {
        self.happened.store(true, Ordering::SeqCst);
    }

    /// Tells whether there was a Ctrl-C.
    pub(crate) fn happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }
}

/// Listens for Ctrl-C until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) interrupt: Interrupt,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}
