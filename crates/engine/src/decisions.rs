//! The decisions about requests that get the same one whatever they say.

use std::sync::{Arc, Mutex, PoisonError};

use neuraxis_core::{Decision, PlanName};

use crate::request::UserRequest;

/// How many decisions are kept. There is one per mode, channel and plan that are asked with.
const MOST: usize = 64;

/// The decisions that were made lately. Runs that were decided about in the same way share one: it is neither made again
/// nor kept twice.
#[derive(Debug, Default)]
pub(crate) struct Decisions(Mutex<Vec<Decided>>);

/// A decision, and the plan of the requests it is about.
type Decided = (Option<PlanName>, Arc<Decision>);

impl Decisions {
    /// Returns the decision about requests of this mode, channel and plan, or makes it.
    ///
    /// # Errors
    ///
    /// What making it comes to, which is not kept.
    pub(crate) fn of<E>(
        &self,
        request: &UserRequest,
        plan: Option<&PlanName>,
        decide: impl FnOnce() -> Result<Decision, E>,
    ) -> Result<Arc<Decision>, E> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(of_plan, decision): &&Decided| {
            decision.mode == request.mode
                && decision.channel == request.channel
                && of_plan.as_ref() == plan
        };
        if let Some((_, decision)) = kept.iter().find(is_it) {
            return Ok(Arc::clone(decision));
        }
        let decision = Arc::new(decide()?);
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push((plan.cloned(), Arc::clone(&decision)));
        Ok(decision)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use neuraxis_core::{Channel, ContentHash, Mode, Role};

    use super::*;

    fn request(mode: &str) -> UserRequest {
        UserRequest::new("s".parse().unwrap(), "hi").mode(Mode::new(mode.to_owned()))
    }

    fn made(mode: &str) -> Result<Decision, Infallible> {
        let mode = Mode::new(mode.to_owned());
        Ok(Decision::new(
            mode,
            Channel::CHAT,
            Role::REASONING,
            ContentHash::EMPTY,
        ))
    }

    #[test]
    fn one_decision_is_made_for_each_mode_and_plan() {
        let decisions = Decisions::default();
        let [small, large] = ["small", "large"].map(|name| PlanName::new(name.to_owned()));
        let of = |mode: &str, plan| decisions.of(&request(mode), plan, || made(mode)).unwrap();
        let first = of("a", Some(&small));
        assert!(Arc::ptr_eq(&first, &of("a", Some(&small))));
        for other in [of("a", Some(&large)), of("a", None), of("b", Some(&small))] {
            assert!(!Arc::ptr_eq(&first, &other));
        }
    }

    #[test]
    fn what_could_not_be_decided_is_asked_again() {
        let decisions = Decisions::default();
        assert_eq!(decisions.of(&request("a"), None, || Err("no")), Err("no"));
        let decision = decisions.of(&request("a"), None, || made("a"));
        assert_eq!(decision.unwrap().mode.as_str(), "a");
    }

    #[test]
    fn only_so_many_are_kept() {
        let decisions = Decisions::default();
        for number in 0..2 * MOST {
            let mode = format!("m{number}");
            decisions.of(&request(&mode), None, || made(&mode)).unwrap();
        }
        assert_eq!(decisions.0.lock().unwrap().len(), MOST);
    }
}
