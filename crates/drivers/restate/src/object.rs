//! A session as a virtual object of Restate: its runs, each an invocation that is driven step by step.
//!
//! What Restate repeats after a crash is a whole step. Nothing here decides what that means for the call that was in flight:
//! the run is taken up from its log, whose machine does (its class, or that its outcome is unknown).

use std::sync::Arc;

use neuraxis_core::RunId;
use neuraxis_engine::{ResumeError, RunProgress, Runs, SteppedRun};
use neuraxis_ports::StoreError;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The name under which Restate knows sessions.
pub(crate) const OBJECT: &str = "NeuraxisSession";

/// The signal that something was posted to a run.
const POSTED: &str = "posted";

/// The name of the step that takes a run up.
const TAKE_UP: &str = "take up";

/// The code with which Restate ends what is awaited in an invocation that somebody cancels.
const CANCELLED: u16 = 409;

/// The code of a run that no worker can go on with.
const REFUSED: u16 = 422;

/// Which run is to be driven.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) run: RunId,
}

/// Which invocation is to look into its run's inbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Posted {
    pub(crate) invocation: String,
}

/// What a step led to, as the journal has it. Older builds replay what newer ones wrote and the other way round, so that
/// variants are only ever added.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "run", rename_all = "snake_case")]
enum Stepped {
    /// Something was answered; the next step begins what has these names.
    GoesOn { next: Vec<String> },
    /// The run was given back, and needs no worker until something is posted to it.
    Waits,
    /// The store has the end of the run.
    Ended,
}

/// The sessions whose runs a worker drives.
#[derive(Debug, Clone)]
pub(crate) struct SessionRuns {
    runs: Runs,
    /// Cancelled once the worker is to take nothing more up, and to leave what it drives.
    stopping: CancellationToken,
}

/// A run while it is driven by one attempt of its invocation.
type Held = Arc<Mutex<Option<SteppedRun>>>;

// A step lasts as long as a model or a tool takes: it is given up after a day, and an invocation that waits for a signal leaves
// its worker after the minute that is usual. Restate forgets an invocation's id once its run has ended, since the store knows.
#[restate_sdk::object(
    name = "NeuraxisSession",
    abort_timeout = "24h",
    idempotency_retention = "1s",
    invocation_retry_policy(
        initial_interval = "100ms",
        factor = 2.0,
        max_interval = "5s",
        max_attempts = 100_000,
        on_max_attempts = "pause"
    )
)]
impl SessionRuns {
    /// Drives a run to its end.
    #[handler]
    async fn drive(&self, ctx: ObjectContext<'_>, ticket: Json<Ticket>) -> HandlerResult<()> {
        let run = ticket.into_inner().run;
        let held = Held::default();
        let mut name = TAKE_UP.to_owned();
        loop {
            let (worker, held) = (self.clone(), Arc::clone(&held));
            let step = ctx
                .run(move || async move { Ok(Json::from(worker.step(&held, run).await?)) })
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
            name = TAKE_UP.to_owned();
            match waited {
                Ok(()) => {}
                // Whoever cancels an invocation means its run, which ends in its own way.
                Err(error) if error.code() == CANCELLED => {
                    let worker = self.clone();
                    let cancel = move || async move { worker.cancel(run).await };
                    ctx.run(cancel).name("cancel").await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Has a run look into its inbox.
    #[handler]
    async fn wake(&self, ctx: SharedObjectContext<'_>, posted: Json<Posted>) -> HandlerResult<()> {
        let invocation = posted.into_inner().invocation;
        ctx.invocation_handle(invocation).signal(POSTED).resolve(());
        Ok(())
    }
}

impl SessionRuns {
    pub(crate) const fn new(runs: Runs, stopping: CancellationToken) -> Self {
        Self { runs, stopping }
    }

    /// Makes one step of a run, which is taken up first if this attempt does not hold it yet.
    async fn step(&self, held: &Held, run: RunId) -> HandlerResult<Stepped> {
        let mut held = held.lock().await;
        let mut stepped = match held.take() {
            Some(stepped) => stepped,
            None => match self.until_stopping(self.runs.take_up(run)).await? {
                Ok(stepped) => stepped,
                Err(error) => return not_taken_up(error),
            },
        };
        let progress = match self.until_stopping(stepped.step()).await {
            Ok(progress) => progress,
            Err(stopping) => {
                stepped.leave().await;
                return Err(stopping);
            }
        };
        match progress {
            RunProgress::GoesOn { next } => {
                *held = Some(stepped);
                Ok(Stepped::GoesOn { next })
            }
            RunProgress::Waits { posted: true } => Ok(Stepped::GoesOn {
                next: vec![TAKE_UP.to_owned()],
            }),
            RunProgress::Waits { posted: false } => Ok(Stepped::Waits),
            RunProgress::Ended => Ok(Stepped::Ended),
            RunProgress::Lost(error) => Err(error.into()),
            other => Err(format!("this build cannot go on from {other:?}").into()),
        }
    }

    async fn until_stopping<T>(&self, work: impl Future<Output = T>) -> HandlerResult<T> {
        let done = self.stopping.run_until_cancelled(work).await;
        done.ok_or_else(|| "this worker stops: another one goes on".into())
    }

    async fn cancel(&self, run: RunId) -> HandlerResult<()> {
        match self.runs.cancel(run, "its invocation was cancelled").await {
            Ok(()) | Err(ResumeError::Ended(_)) => Ok(()),
            Err(ResumeError::Store(StoreError::NoSuchRun(_))) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Says what it means for the invocation that its run was not taken up. What can go well another time is tried again.
fn not_taken_up(error: ResumeError) -> HandlerResult<Stepped> {
    match error {
        ResumeError::Ended(_) | ResumeError::Closed { .. } => Ok(Stepped::Ended),
        ResumeError::Store(StoreError::NoSuchRun(_)) => Ok(Stepped::Ended),
        ResumeError::NothingToDo => Ok(Stepped::Waits),
        ResumeError::Store(_)
        | ResumeError::AtWork(_)
        | ResumeError::Alive(_)
        | ResumeError::ShuttingDown => Err(error.into()),
        refused => {
            tracing::warn!(error = %refused, "a run cannot go on by itself");
            Err(TerminalError::new_with_code(REFUSED, refused.to_string()).into())
        }
    }
}
