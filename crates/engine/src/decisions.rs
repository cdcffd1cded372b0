//! The decisions about requests that get the same one whatever they say.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{Decision, PlanName};

use crate::request::UserRequest;

/// How many decisions are kept. There is one per mode, channel and plan that are asked with.
const MOST: usize = 64;

/// The decisions that were made lately. Runs that were decided about in the same way share one: it is neither made again
/// nor kept twice.
#[derive(Debug, Default)]
pub(crate) struct Decisions(Mutex<Vec<(Option<PlanName>, Arc<Decision>)>>);

impl Decisions {
    /// Returns the decision about requests of this mode, channel and plan.
    pub(crate) fn of(
        &self,
        request: &UserRequest,
        plan: Option<&PlanName>,
    ) -> Option<Arc<Decision>> {
        let kept = self.kept();
        let is_it = |(of_plan, decision): &&(Option<PlanName>, Arc<Decision>)| {
            decision.mode == request.mode
                && decision.channel == request.channel
                && of_plan.as_ref() == plan
        };
        kept.iter().find(is_it).map(|(_, it)| Arc::clone(it))
    }

    /// Keeps a decision for the next request of its mode, channel and plan.
    pub(crate) fn keep(&self, plan: Option<PlanName>, decision: Arc<Decision>) {
        let mut kept = self.kept();
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((plan, decision));
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Option<PlanName>, Arc<Decision>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
