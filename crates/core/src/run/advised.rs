//! Handles a hook's answer.

use crate::error::InputError;
use crate::input::Advised;
use crate::run::RunTree;

impl RunTree {
    /// No profile's hooks are consulted yet in this loop version, so no answer can be due: one that names another kind
    /// of effect is wrong, one for a settled effect comes late.
    pub(super) fn advised(&self, advised: &Advised) -> Result<(), InputError> {
        let effect = advised.effect_id;
        let open_call = |agent: &super::agent::Agent| {
            agent
                .batch()
                .is_some_and(|batch| batch.calls.iter().any(|call| call.effect() == Some(effect)))
        };
        if self.open_model_call(effect).is_some() || self.agents.iter().any(open_call) {
            return Err(InputError::WrongAnswer {
                effect,
                input: "advised",
            });
        }
        self.late_or_unknown(effect)
    }
}
