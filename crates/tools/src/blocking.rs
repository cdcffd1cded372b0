//! Runs work where it may block, and stops it when its result is no longer awaited.

use std::fmt;
use std::panic::resume_unwind;
#[cfg(feature = "files")]
use std::time::Duration;
use std::time::Instant;

use neuraxis_ports::{CancellationToken, ToolContext, ToolError};
use tokio::task::spawn_blocking;

/// The work was given up because its result is no longer awaited. Not a [`std::error::Error`]: any such error becomes a
/// [`ToolError`] that does not say whether a retry may succeed, and after this one it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled: the call was stopped before it finished")
    }
}

impl From<Cancelled> for ToolError {
    fn from(cancelled: Cancelled) -> Self {
        Self::temporary(cancelled)
    }
}

/// Tells blocking work when to give up.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    token: CancellationToken,
    /// When to give up even without cancellation; never if `None`.
    deadline: Option<Instant>,
}

impl Stop {
    /// Returns an error once the work should be given up. Long loops call this often.
    pub(crate) fn check(&self) -> Result<(), Cancelled> {
        let is_late = self.deadline.is_some_and(|it| it <= Instant::now());
        if is_late || self.token.is_cancelled() {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }

    /// Creates a stop that is never cancelled, but expires after `limit`.
    #[cfg(feature = "files")]
    pub(crate) fn within(limit: Duration) -> Self {
        Self {
            token: CancellationToken::new(),
            deadline: Instant::now().checked_add(limit),
        }
    }

    /// Creates a stop that never stops the work.
    #[cfg(all(test, feature = "files"))]
    pub(crate) fn never() -> Self {
        Self {
            token: CancellationToken::new(),
            deadline: None,
        }
    }
}

/// Runs work on a thread where it may block.
///
/// # Cancel safety
///
/// When the call is cancelled, this returns an error immediately. In that case, and when the future is dropped, the
/// work is told to stop; it continues until it next checks.
pub(crate) async fn run<Value, Failure>(
    ctx: &ToolContext,
    work: impl FnOnce(&Stop) -> Result<Value, Failure> + Send + 'static,
) -> Result<Value, ToolError>
where
    Value: Send + 'static,
    Failure: Into<ToolError> + Send + 'static,
{
    run_until(ctx.cancellation.child_token(), work).await
}

/// Like [`run`], for work that does not belong to a call.
#[cfg(feature = "files")]
pub(crate) async fn run_alone<Value, Failure>(
    work: impl FnOnce(&Stop) -> Result<Value, Failure> + Send + 'static,
) -> Result<Value, ToolError>
where
    Value: Send + 'static,
    Failure: Into<ToolError> + Send + 'static,
{
    run_until(CancellationToken::new(), work).await
}

async fn run_until<Value, Failure>(
    token: CancellationToken,
    work: impl FnOnce(&Stop) -> Result<Value, Failure> + Send + 'static,
) -> Result<Value, ToolError>
where
    Value: Send + 'static,
    Failure: Into<ToolError> + Send + 'static,
{
    let _stop_when_dropped = token.clone().drop_guard();
    let stop = Stop {
        token: token.clone(),
        deadline: None,
    };
    let task = spawn_blocking(move || work(&stop));
    match token.run_until_cancelled(task).await {
        None => Err(Cancelled.into()),
        Some(Ok(result)) => result.map_err(Into::into),
        // A panic continues in the caller's task: the engine handles it.
        Some(Err(failed)) => match failed.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(ToolError::temporary("the program is shutting down")),
        },
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::uuid::Uuid;
    use neuraxis_core::{AgentId, EffectId, RunId, ToolCallId, Turn};
    use neuraxis_ports::TurnContext;
    use tokio::select;
    use tokio::sync::oneshot;

    use super::*;

    fn context() -> ToolContext {
        let run = RunId(Uuid::nil());
        let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
        ToolContext::new(
            turn,
            ToolCallId::from_text("call_1"),
            EffectId { run, number: 1 },
        )
    }

    #[tokio::test]
    async fn dropping_a_call_stops_its_work_without_cancelling_the_run() {
        let ctx = context();
        let (started, has_started) = oneshot::channel();
        let (stopped, has_stopped) = oneshot::channel();
        let call = run(&ctx, move |stop| {
            started.send(()).unwrap();
            while stop.check().is_ok() {
                std::thread::yield_now();
            }
            stopped.send(()).unwrap();
            Ok::<_, Cancelled>(())
        });
        // When the second branch is ready first, the call is dropped.
        select! {
            _ = call => panic!("the work ended by itself"),
            started = has_started => started.unwrap(),
        }
        has_stopped.await.unwrap();
        assert!(
            !ctx.cancellation.is_cancelled(),
            "the whole run was cancelled"
        );
    }

    #[tokio::test]
    async fn a_cancelled_call_returns_without_waiting_for_its_work() {
        let ctx = context();
        let (release, released) = std::sync::mpsc::channel::<()>();
        ctx.cancellation.cancel();
        let result = run(&ctx, move |_| Ok::<_, Cancelled>(released.recv().is_ok())).await;
        assert_eq!(result, Err(Cancelled.into()));
        drop(release);
    }

    #[cfg(feature = "files")]
    #[test]
    fn work_stops_when_its_time_limit_expires() {
        assert_eq!(Stop::within(Duration::from_secs(100)).check(), Ok(()));
        assert_eq!(Stop::within(Duration::ZERO).check(), Err(Cancelled));
    }

    #[tokio::test]
    #[should_panic(expected = "as it was")]
    async fn a_panic_propagates_to_the_caller() {
        let _ = run::<(), Cancelled>(&context(), |_| panic!("as it was")).await;
    }
}
