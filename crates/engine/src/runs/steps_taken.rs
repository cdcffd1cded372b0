//! A run that is driven step by step, by whoever holds it: for a driver that keeps a journal of its own, such as one on a
//! durable-execution engine.
//!
//! Each step is the driver's own ([`Driver::go_on`]), so that a run goes the same way whoever drives it; what differs is who
//! decides when the next one begins.

use std::time::Duration;

use neuraxis_core::{Effect, RunId, RunStatus, Step};
use neuraxis_ports::StoreError;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::lease_wait::LeaseWait;
use super::resume::Prepared;
use super::slot::after_drop;
use super::{HeldRun, ResumeError, Runs, Taker};
use crate::driver::{Driver, Standing};

/// The pause before it is looked again whether a run is free: all runs of a worker that died are waited for at the same time, by
/// as many questions to the store.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A run that was taken up and goes on while somebody asks for its next step. Dropped, it is left as it is on record, free to be
/// taken up at once; outside of a runtime, once its lease has run out.
#[must_use = "dropped, the run is left again"]
pub struct SteppedRun {
    run_id: RunId,
    /// `None` once it is over here.
    driver: Option<Box<Driver>>,
    step: Step,
    tasks: TaskTracker,
}

/// What a step of a run led to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunProgress {
    /// Something was answered, and that is on record. Nothing of what follows from it has begun.
    GoesOn {
        /// What the next step begins, such as `model` or the name of a tool.
        next: Vec<String>,
    },
    /// The run waits for somebody who is not here, and was given back.
    Waits {
        /// Whether something was posted to it meanwhile, so that it is to be taken up again at once.
        posted: bool,
    },
    /// The run has ended.
    Ended,
    /// The run has not ended, and cannot go on here: its records cannot be kept, or another process has it.
    Lost(StoreError),
}

impl Runs {
    /// Takes a run up to be driven step by step: one that was dispatched, that a dead process left, or that was posted to.
    /// Where another process holds it, its lease is waited for.
    ///
    /// # Errors
    ///
    /// As [`resume`](Self::resume); [`ResumeError::Alive`] if the holder turns out to live, [`ResumeError::Ended`] also where
    /// another run goes on in its place.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the run may stay leased to this process, which can take it up again.
    pub async fn take_up(&self, run_id: RunId) -> Result<SteppedRun, ResumeError> {
        let mut wait = LeaseWait::default();
        let prepared = loop {
            match self.prepare(run_id, Vec::new(), Taker::Engine).await {
                Err(ResumeError::Store(StoreError::SessionBusy { .. })) => {
                    let paused = async |_: &HeldRun| {
                        sleep(LOOK_EVERY).await;
                        Ok::<_, ResumeError>(())
                    };
                    let store = self.parts.store.as_ref();
                    wait.until_free(store, run_id, paused).await?;
                }
                prepared => break prepared?,
            }
        };
        let Prepared::Ready(run) = prepared else {
            return Err(ResumeError::Ended(run_id));
        };
        let (driver, step, handle) = self.begin(run.slot, run.scope, run.ready).await?;
        // What is posted here reaches it at once.
        driver.show(&handle);
        Ok(SteppedRun {
            run_id,
            driver: Some(driver),
            step,
            tasks: self.parts.engine.tasks.clone(),
        })
    }
}

impl SteppedRun {
    /// Returns the run.
    #[must_use]
    pub const fn run_id(&self) -> RunId {
        self.run_id
    }

    /// Goes on until something is answered that was waited for, and that is on record.
    ///
    /// Called again once the run has ended, waits or is lost, it says that it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next call goes on. What is under way goes on only while one is awaited.
    pub async fn step(&mut self) -> RunProgress {
        while let Some(driver) = &mut self.driver {
            match driver.go_on(&mut self.step).await {
                Standing::AtWork => {}
                Standing::StandsStill => return self.put_aside().await,
                Standing::Over => return self.conclude(),
            }
            // An end is carried out at once, and so is what follows without waiting: time that passed, a check of calls.
            let is_followed = self.step.status.is_ended() || driver.has_answers();
            if self.step.records.is_empty() || is_followed || only_checks(&self.step) {
                continue;
            }
            if !driver.record(&mut self.step).await {
                return self.conclude();
            }
            return RunProgress::GoesOn { next: self.next() };
        }
        RunProgress::Ended
    }

    /// Leaves the run as it is on record, free to be taken up at once. What is under way is stopped: it is made again, or told
    /// as unknown, as its class allows.
    pub async fn leave(mut self) {
        if let Some(driver) = self.driver.take() {
            driver.leave().await;
        }
    }

    async fn put_aside(&mut self) -> RunProgress {
        match self.driver.take() {
            Some(driver) => RunProgress::Waits {
                posted: driver.put_aside().await,
            },
            None => RunProgress::Ended,
        }
    }

    fn conclude(&mut self) -> RunProgress {
        let Some(driver) = self.driver.take() else {
            return RunProgress::Ended;
        };
        let lost = driver.lost().cloned();
        driver.conclude();
        lost.map_or(RunProgress::Ended, RunProgress::Lost)
    }

    fn next(&self) -> Vec<String> {
        let names = self.step.effects.iter().filter_map(|effect| match effect {
            Effect::CallModel(_) => Some("model".to_owned()),
            Effect::RunTool(run) => Some(run.name.to_string()),
            Effect::AskApproval(_) => Some("approval".to_owned()),
            Effect::Consult(_) => Some("advice".to_owned()),
            Effect::Vet(_) | Effect::CancelTool(_) | Effect::CancelModel(_) | Effect::Finish(_) => {
                None
            }
        });
        match self.step.status {
            RunStatus::Waiting => vec!["wait".to_owned()],
            _ => names.collect(),
        }
    }
}

fn only_checks(step: &Step) -> bool {
    let is_check = |effect: &Effect| matches!(effect, Effect::Vet(_));
    !step.effects.is_empty() && step.effects.iter().all(is_check)
}

impl std::fmt::Debug for SteppedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedRun")
            .field("run_id", &self.run_id)
            .finish_non_exhaustive()
    }
}

impl Drop for SteppedRun {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            after_drop(&self.tasks, driver.leave());
        }
    }
}
