//! The service for runs: begins them, takes up again what nobody drives, reaches those at work, and shows what they do.
//!
//! - *Begin*: `start` leads from a request to a run that is driven, after `govern` decided about it; `fork` begins one in the
//!   middle of another. What governance decides alike is in `decision_cache`, which sessions were found whole in `verified`,
//!   which ones are there in `known`; `owner` says who may enter a session, and `attachments` which roles' models take what
//!   is attached.
//! - *Hold*: `slot` is a run's place in this process and its lease; `lease_wait` waits for another process's; `former` are the
//!   engines whose place this one took, which have their runs still.
//! - *Go on*: `resume` takes a run up, `recheck` is what is checked anew before, `restored` reads it back, `recover` finds what
//!   a dead process left, `lost` remembers what this one lost, `close` ends what nobody can go on with, and `suspend` leaves
//!   runs to the next process.
//! - *Elsewhere*: `elsewhere` has runs driven by other processes, to which `dispatching` hands them, and follows them; `hearing`
//!   has those at work here hear of what other processes post to them, as `post` does; `steps_taken` is a run that is driven step by
//!   step, by whoever holds it.
//! - *Show*: `attach` follows a run from any record on, `outcome` is what it came to, `stored` is the handle of one that nobody drives.
//!
//! Not for what is on record of them, which [`Sessions`](crate::Sessions) shows, nor for deciding about calls that wait for a
//! person, which [`Approvals`](crate::Approvals) does. What tools ask a person in the middle of a call is in `questions.rs`.

mod attach;
mod attachments;
mod close;
mod decision_cache;
mod dispatching;
mod elsewhere;
mod fork;
mod former;
mod govern;
mod hearing;
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
mod steps_taken;
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
pub use recheck::{OpenCall, Taker};
pub use recover::{Recovered, is_session_of_eval};
pub(crate) use restored::{client_finished, is_first_step, recorded_trace};
pub use resume::{Answer, ResumeError};
pub(crate) use slot::{ActiveRuns, Reached, RunSlot};
pub use steps_taken::{RunProgress, SteppedRun};
pub(crate) use verified::VerifiedSessions;

/// The runs of an orchestrator. Cloning is cheap and shares the orchestrator's engine and store.
#[derive(Debug, Clone)]
pub struct Runs {
    pub(crate) parts: Arc<Parts>,
    /// What runs that are taken up are given.
    context: RequestContext,
    /// What each of those is given that nobody asked for.
    recovering: Option<recover::ContextOfEach>,
}

impl Runs {
    pub(crate) fn new(parts: &Arc<Parts>) -> Self {
        Self {
            parts: Arc::clone(parts),
            context: RequestContext::default(),
            recovering: None,
        }
    }

    /// Returns what reaches a run in this process: here, or in an engine whose place this one took.
    pub(crate) fn reach(&self, run: RunId) -> Reached {
        match self.parts.active.reach(run) {
            Reached::No => self.parts.former.reach(run),
            reached => reached,
        }
    }

    fn approvals(&self) -> Approvals {
        Approvals::new(&self.parts)
    }
}
