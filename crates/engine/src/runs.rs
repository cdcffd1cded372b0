//! The service for runs: starts them, resumes those that no process drives, reaches those in progress, and shows what
//! they do.
//!
//! - *Start*: `start` leads from a request to a run that is driven, after `govern` has decided about it; `fork` starts
//!   a run from the middle of another. `decision_cache` holds decisions that are the same for many requests, `verified`
//!   the sessions that were found unaltered, and `known` the sessions that exist; `owner` decides who may enter a
//!   session, and `attachments` which roles' models accept the attachments.
//! - *Hold*: `slot` is a run's place in this process and its lease; `lease_wait` waits for another process's lease;
//!   `former` holds the engines that this one replaced, which still have their runs.
//! - *Continue*: `resume` resumes a run, `recheck` checks it first, `restored` reads it back, `recover` finds runs that
//!   a dead process left, `lost` remembers runs that this process lost, `close` ends runs that cannot continue, and
//!   `suspend` leaves runs to the next process.
//! - *Elsewhere*: `elsewhere` has runs driven by other processes, to which `dispatching` hands them, and creates the
//!   handles that follow them; `inbox_checks` notifies runs in progress here of what other processes post to them, and
//!   `post` does the posting; `stepped_run` is a run that its holder drives step by step.
//! - *Show*: `attach` follows a run from any record on, `outcome` is the result of a run, and `stored` is the handle of
//!   a run that no process drives.
//!
//! Not for the stored records of runs, which [`Sessions`](crate::Sessions) shows, nor for deciding about calls that
//! wait for approval, which [`Approvals`](crate::Approvals) does. Questions that tools ask the user during a call are
//! in `questions.rs`.

mod attach;
mod attachments;
mod close;
mod decision_cache;
#[cfg(test)]
mod defects;
mod dispatching;
mod elsewhere;
mod fork;
mod former;
mod govern;
mod inbox_checks;
mod known;
mod lease_wait;
mod lost;
mod outcome;
mod owner;
mod post;
mod recheck;
mod recover;
mod restored;
mod resume;
mod slot;
mod start;
mod stepped_run;
mod stored;
mod suspend;
mod verified;

use std::sync::Arc;

use neuraxis_core::RunId;
use neuraxis_ports::RequestContext;

use crate::approvals::Approvals;
use crate::orchestrator::Parts;

pub(crate) use decision_cache::DecisionCache;
pub(crate) use dispatching::Dispatches;
pub use fork::{ForkError, ForkOptions};
pub(crate) use former::{FormerEngines, Successor};
pub(crate) use known::KnownSessions;
pub(crate) use lease_wait::LeaseWait;
pub use lease_wait::{HeldRun, WaitedFor};
pub(crate) use lost::LostRuns;
pub use recheck::{RecheckedCall, ResumedBy};
pub use recover::{RecoveryReport, is_session_of_eval};
pub(crate) use restored::{client_finished, is_first_step, recorded_trace};
pub use resume::{Answer, ResumeError};
pub(crate) use slot::{ActiveRuns, Reachability, RunSlot};
pub use stepped_run::{RunProgress, SteppedRun};
pub(crate) use verified::VerifiedSessions;

/// The runs of an orchestrator. Cloning is cheap and shares the orchestrator's engine and store.
#[derive(Debug, Clone)]
pub struct Runs {
    pub(crate) parts: Arc<Parts>,
    /// The context that resumed runs get.
    context: RequestContext,
    /// The context that each automatically recovered run gets.
    recovering: Option<recover::ContextOfEach>,
    /// Who sends what is sent to runs through this service, for their records.
    by: Option<String>,
}

impl Runs {
    pub(crate) fn new(parts: &Arc<Parts>) -> Self {
        Self {
            parts: Arc::clone(parts),
            context: RequestContext::default(),
            recovering: None,
            by: None,
        }
    }

    /// Sets who sends what [`steer`](Self::steer), [`cancel`](Self::cancel) and [`supply_result`](Self::supply_result)
    /// send: the records then name the sender, as those of decisions do. By default, they name nobody.
    #[must_use]
    pub fn sent_by(mut self, by: Option<String>) -> Self {
        self.by = by;
        self
    }

    /// Returns how a run can be reached in this process: in this engine, or in one that this engine replaced.
    pub(crate) fn reach(&self, run: RunId) -> Reachability {
        match self.parts.active.reach(run) {
            Reachability::Absent => self.parts.former.reach(run),
            reached => reached,
        }
    }

    fn approvals(&self) -> Approvals {
        Approvals::new(&self.parts)
    }
}
