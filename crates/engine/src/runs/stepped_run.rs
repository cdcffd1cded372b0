//! A run that its holder drives step by step: for a driver with its own journal, such as one on a durable-execution
//! engine.
//!
//! Each step is the driver's own ([`Driver::drive_step`]), so a run behaves the same whichever way it is driven; the
//! only difference is who decides when the next step begins.

use std::time::Duration;

use neuraxis_core::{Effect, InputError, RunId, RunStatus, Step};
use neuraxis_ports::StoreError;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

use super::lease_wait::LeaseWait;
use super::resume::Prepared;
use super::slot::after_drop;
use super::{HeldRun, ResumeError, ResumedBy, Runs};
use crate::driver::{DriveState, Driver, LeftBecause};

/// The pause before checking again whether a run is free. All runs of a dead worker are waited for at the same time,
/// each with its own queries to the store.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// A resumed run that continues only while its next step is requested. When dropped, it is left as it is on record,
/// free to be resumed immediately; outside of a runtime, once its lease has expired.
#[must_use = "when dropped, the run is left again"]
pub struct SteppedRun {
    run_id: RunId,
    /// `None` once the run is no longer driven here.
    driver: Option<Box<Driver>>,
    step: Step,
    tasks: TaskTracker,
}

/// The result of a step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunProgress {
    /// Something was answered and is on record. Nothing that results from it has begun.
    Continues {
        /// What the next step begins, such as `model` or the name of a tool.
        next: Vec<String>,
    },
    /// The run waits for an answer from outside, and was released.
    Waits {
        /// Whether something was posted to it meanwhile, so that it should be resumed immediately.
        posted: bool,
    },
    /// The run has ended.
    Ended,
    /// The run has not ended, and cannot continue here: its records cannot be stored, or another process has it.
    Lost(StoreError),
    /// The run has not ended, but its state contradicted itself, which only a defect can cause: it was left as it is on
    /// record, free to be resumed from there.
    Defect(InputError),
}

impl Runs {
    /// Resumes a run to be driven step by step: one that was dispatched, that a dead process left, or that was posted
    /// to. If another process holds it, waits for the end of its lease.
    ///
    /// # Errors
    ///
    /// Same as [`resume`](Self::resume); [`ResumeError::Alive`] if the holder turns out to be alive;
    /// [`ResumeError::Ended`] also if another run continues instead.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run may stay leased to this process, which can resume it again.
    pub async fn resume_stepwise(&self, run_id: RunId) -> Result<SteppedRun, ResumeError> {
        let mut wait = LeaseWait::default();
        let prepared = loop {
            match self.prepare(run_id, Vec::new(), ResumedBy::Engine).await {
                Err(ResumeError::Store(StoreError::SessionBusy { .. })) => {
                    let paused = async |_: &HeldRun| {
                        sleep(CHECK_EVERY).await;
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
        let begun = self.begin(run.slot, run.scope, run.ready);
        let (driver, step, handle) = begun.persist_first_step().await?;
        // Inputs posted in this process reach it immediately.
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

    /// Continues until something that was awaited is answered, and the answer is on record.
    ///
    /// Called again after the run has ended, waits or was left, it returns [`RunProgress::Ended`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next call continues. What is in progress proceeds only while a call is
    /// awaited.
    pub async fn step(&mut self) -> RunProgress {
        while let Some(driver) = &mut self.driver {
            match driver.drive_step(&mut self.step).await {
                DriveState::Running => {}
                DriveState::Waiting => return self.park().await,
                DriveState::Done => return self.conclude(),
            }
            // An end is carried out immediately, and so is what follows without waiting: the passing of time, and
            // checks of calls.
            let is_followed = self.step.status.is_ended() || driver.has_answers();
            if self.step.records.is_empty() || is_followed || only_checks(&self.step) {
                continue;
            }
            if !driver.record(&mut self.step).await {
                return self.conclude();
            }
            return RunProgress::Continues { next: self.next() };
        }
        RunProgress::Ended
    }

    /// Leaves the run as it is on record, free to be resumed immediately. What is in progress is stopped; later it is
    /// repeated or reported as unknown, depending on its class.
    pub async fn release(mut self) {
        if let Some(driver) = self.driver.take() {
            driver.release().await;
        }
    }

    async fn park(&mut self) -> RunProgress {
        match self.driver.take() {
            Some(driver) => RunProgress::Waits {
                posted: driver.park().await,
            },
            None => RunProgress::Ended,
        }
    }

    fn conclude(&mut self) -> RunProgress {
        let Some(driver) = self.driver.take() else {
            return RunProgress::Ended;
        };
        let left = driver.left().cloned();
        driver.conclude();
        match left {
            Some(LeftBecause::Lost(error)) => RunProgress::Lost(error),
            Some(LeftBecause::Defect(error)) => RunProgress::Defect(error),
            None => RunProgress::Ended,
        }
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
            after_drop(&self.tasks, driver.release());
        }
    }
}
