//! A session as a virtual object of Restate: each of its runs is an invocation that is driven step by step.
//!
//! After a crash, Restate repeats a whole step. Nothing here decides what that means for the call that was in flight:
//! the run is resumed from its log, whose machine decides by the call's class, or treats its outcome as unknown.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Interruption, RunId};
use neuraxis_engine::{ResumeError, RunProgress, Runs, SteppedRun};
use neuraxis_ports::StoreError;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cancel_watch::StepsInProgress;
use crate::refusals::Refusals;

/// The name under which Restate knows sessions.
pub(crate) const OBJECT: &str = "NeuraxisSession";

/// The signal that something was posted to a run.
const POSTED: &str = "posted";

/// The name of the step that resumes a run.
const RESUME_STEP: &str = "take up";

/// The error code with which Restate ends an awaited operation when its invocation is cancelled.
const CANCELLED: u16 = 409;

/// The error code for a run that no worker can continue.
const REFUSED: u16 = 422;

/// The run to drive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) run: RunId,
}

/// The invocation that must look into its run's inbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WakeRequest {
    pub(crate) invocation: String,
    /// Its run. Older builds leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<RunId>,
}

/// The result of a step, as stored in the journal. Older builds replay what newer ones wrote and the other way round,
/// so variants may only be added.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "run", rename_all = "snake_case")]
enum Stepped {
    /// Something was answered; the next step begins what has these names.
    GoesOn { next: Vec<String> },
    /// The run was released, and needs no worker until something is posted to it.
    Waits,
    /// The store has the end of the run.
    Ended,
}

/// Drives the runs of sessions in a worker.
#[derive(Debug, Clone)]
pub(crate) struct SessionRuns {
    runs: Runs,
    /// Cancelled when the worker must resume no more runs and leave those that it drives.
    stopping: CancellationToken,
    steps_in_progress: StepsInProgress,
    refusals: Refusals,
}

/// A run while one attempt of its invocation drives it.
type SharedRun = Arc<Mutex<Option<SteppedRun>>>;

/// The run and invocation that a step belongs to.
#[derive(Debug, Clone)]
struct StepContext {
    run: RunId,
    invocation: String,
    /// How many cancellations of the invocation its run was notified of so far.
    cancelled: u64,
}

// The limits on the time of a step and on waiting are set where the worker is bound. Restate forgets an invocation's id
// once its run has ended, since the store keeps it. An invocation that has failed for days is killed: a server then
// hands its run over again, and it goes to workers that are alive. A paused one would keep its session until an
// operator resumed it by hand.
#[restate_sdk::object(
    name = "NeuraxisSession",
    idempotency_retention = "1s",
    invocation_retry_policy(
        initial_interval = "100ms",
        factor = 2.0,
        max_interval = "2s",
        max_attempts = 100_000,
        on_max_attempts = "kill"
    )
)]
impl SessionRuns {
    /// Drives a run to its end.
    #[handler]
    async fn drive(&self, ctx: ObjectContext<'_>, ticket: Json<Ticket>) -> HandlerResult<()> {
        let run = ticket.into_inner().run;
        let held = SharedRun::default();
        let mut name = RESUME_STEP.to_owned();
        let mut context = StepContext {
            run,
            invocation: ctx.invocation_id().to_owned(),
            cancelled: 0,
        };
        loop {
            let (worker, held, at) = (self.clone(), Arc::clone(&held), context.clone());
            let step = ctx
                .run(move || async move { Ok(Json::from(worker.step(&held, &at).await?)) })
                .name(name)
                .await;
            let waited = match step.map(Json::into_inner) {
                Ok(Stepped::GoesOn { next }) => {
                    name = next.join(", ");
                    continue;
                }
                Ok(Stepped::Waits) => ctx.signal::<()>(POSTED).await,
                Ok(Stepped::Ended) => return Ok(()),
                Err(error) => Err(error),
            };
            name = RESUME_STEP.to_owned();
            match waited {
                Ok(()) => {}
                // Cancelling an invocation means cancelling its run, which ends in its own way.
                Err(error) if error.code() == CANCELLED => {
                    context.cancelled += 1;
                    let worker = self.clone();
                    let cancel = move || async move { Ok(worker.cancel(run).await?) };
                    ctx.run(cancel).name("cancel").await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a run look into its inbox.
    #[handler]
    async fn wake(
        &self,
        ctx: SharedObjectContext<'_>,
        posted: Json<WakeRequest>,
    ) -> HandlerResult<()> {
        let posted = posted.into_inner();
        // If this worker is driving the run, the run does not have to wait for its next look.
        if let Some(run) = posted.run {
            self.runs.check_inbox(run);
        }
        let invocation = ctx.invocation_handle(posted.invocation);
        invocation.signal(POSTED).resolve(());
        Ok(())
    }
}

impl SessionRuns {
    /// Drives runs until `stopping` is cancelled. A run that is refused for longer than `refused_for`, because it works
    /// in a different folder, is ended.
    pub(crate) fn new(runs: Runs, stopping: CancellationToken, refused_for: Duration) -> Self {
        Self {
            runs,
            stopping,
            steps_in_progress: StepsInProgress::default(),
            refusals: Refusals::new(refused_for),
        }
    }

    /// Returns the steps in progress, updated as steps begin and end.
    pub(crate) fn steps_in_progress(&self) -> StepsInProgress {
        self.steps_in_progress.clone()
    }

    /// Performs one step of a run. If this attempt does not hold the run yet, it is resumed first.
    async fn step(&self, held: &SharedRun, context: &StepContext) -> HandlerResult<Stepped> {
        let run = context.run;
        let mut held = held.lock().await;
        let mut stepped = match held.take() {
            Some(stepped) => stepped,
            None => match self.until_stopping(self.runs.resume_stepwise(run)).await? {
                Ok(stepped) => {
                    self.refusals.forget(run);
                    stepped
                }
                Err(error) => return self.on_resume_error(run, error).await,
            },
        };
        let advancing = self.advance(&mut stepped, context);
        let progress = match self.until_stopping(advancing).await {
            Ok(progress) => progress,
            Err(stopping) => {
                stepped.release().await;
                return Err(stopping);
            }
        };
        match progress {
            RunProgress::Continues { next } => {
                *held = Some(stepped);
                Ok(Stepped::GoesOn { next })
            }
            RunProgress::Waits { posted: true } => Ok(Stepped::GoesOn {
                next: vec![RESUME_STEP.to_owned()],
            }),
            RunProgress::Waits { posted: false } => Ok(Stepped::Waits),
            RunProgress::Ended => Ok(Stepped::Ended),
            RunProgress::Lost(error) => Err(error.into()),
            // Retried from what is on record; a run that fails so repeatedly is ended as it is resumed.
            RunProgress::Defect(error) => Err(error.into()),
            other => Err(format!("this build cannot continue from {other:?}").into()),
        }
    }

    /// Advances a run by one step. If its invocation is cancelled in the meantime, the run is notified and ends the
    /// work in progress.
    async fn advance(&self, stepped: &mut SteppedRun, context: &StepContext) -> RunProgress {
        let watched = self
            .steps_in_progress
            .begin(&context.invocation, context.cancelled);
        let mut step = pin!(stepped.step());
        tokio::select! {
            biased;
            progress = &mut step => return progress,
            () = watched.cancelled() => {}
        }
        if let Err(error) = self.cancel(context.run).await {
            let error: Box<dyn Error> = error.into();
            tracing::warn!(run = %context.run, error = %error, "cannot yet notify a run that its invocation was cancelled");
        }
        step.await
    }

    async fn until_stopping<T>(&self, work: impl Future<Output = T>) -> HandlerResult<T> {
        let done = self.stopping.run_until_cancelled(work).await;
        done.ok_or_else(|| "this worker is stopping; another one continues".into())
    }

    async fn cancel(&self, run: RunId) -> Result<(), ResumeError> {
        match self.runs.cancel(run, "its invocation was cancelled").await {
            Ok(()) | Err(ResumeError::Ended(_)) => Ok(()),
            Err(ResumeError::Store(StoreError::NoSuchRun(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns what it means for the invocation that its run could not be resumed. Errors that may pass, or that
    /// another worker may not have, are retried.
    async fn on_resume_error(&self, run: RunId, error: ResumeError) -> HandlerResult<Stepped> {
        match error {
            ResumeError::Ended(_) | ResumeError::Closed { .. } => Ok(Stepped::Ended),
            ResumeError::Store(StoreError::NoSuchRun(_)) => Ok(Stepped::Ended),
            ResumeError::NothingToDo => Ok(Stepped::Waits),
            ResumeError::Store(_)
            | ResumeError::AtWork(_)
            | ResumeError::Alive(_)
            | ResumeError::ShuttingDown => Err(error.into()),
            ResumeError::Elsewhere { .. } | ResumeError::NoFolder(_) => {
                let records = self.runs.summary(run).await?.records;
                if !self.refusals.note(run, records) {
                    return Err(error.into());
                }
                self.give_up(run, &error.to_string()).await
            }
            refused => {
                tracing::warn!(error = %refused, "a run cannot be resumed automatically");
                Err(TerminalError::new_with_code(REFUSED, refused.to_string()).into())
            }
        }
    }

    /// Ends a run that no worker can resume, so that the client waiting for it learns why.
    async fn give_up(&self, run: RunId, why: &str) -> HandlerResult<Stepped> {
        let cause = Interruption::NoWorker;
        let why = format!("{cause}: {why} (their tools.root is another folder)");
        match self.runs.close_as(run, cause, &why).await {
            Ok(()) | Err(ResumeError::Ended(_)) => {
                self.refusals.forget(run);
                Ok(Stepped::Ended)
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use restate_sdk::discovery::RetryPolicyOnMaxAttempts;
    use restate_sdk::service::Discoverable as _;

    use super::*;

    #[test]
    fn an_invocation_that_keeps_failing_is_killed() {
        let offered = SessionRuns::discover();
        let at_last = offered.retry_policy_on_max_attempts;
        assert_eq!(at_last, Some(RetryPolicyOnMaxAttempts::Kill));
    }
}
