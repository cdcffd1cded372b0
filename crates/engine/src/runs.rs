//! The service for runs: begins them, takes up again what nobody drives, and reaches those at work.
//!
//! Not for what is on record of them, which [`Sessions`](crate::Sessions) shows, nor for deciding about calls that wait for a
//! person, which [`Approvals`](crate::Approvals) does.

mod lease_wait;

use std::sync::Arc;

use crate::approvals::Approvals;
use crate::orchestrator::Parts;

pub(crate) use lease_wait::LeaseWait;
pub use lease_wait::{HeldRun, TakenUpBy, WaitedFor};

/// The runs of an orchestrator. Cloning is cheap and shares the orchestrator's engine and store.
#[derive(Debug, Clone)]
pub struct Runs {
    pub(crate) parts: Arc<Parts>,
}

impl Runs {
    pub(crate) fn approvals(&self) -> Approvals {
        Approvals {
            parts: Arc::clone(&self.parts),
        }
    }
}
