//! Judges a tool call.

use neuraxis_core::{Decision, Verdict};

use crate::config::Answer;
use crate::policy::Policy;
use crate::request::Call;

impl Policy {
    /// Judges one call of a request that was decided about. Deny beats ask, and ask beats allow.
    ///
    /// What cannot be judged is denied: a tool that the decision does not offer, and a mode that this policy does not
    /// have, as after a change of policy.
    #[must_use]
    pub fn judge(&self, decision: &Decision, call: &Call<'_>) -> Verdict {
        let (tool, mode) = (call.tool, &decision.mode);
        let name = &tool.name;
        if !decision.tools.contains(name) {
            let channel = &decision.channel;
            let reason =
                format!("Tool {name} is not on offer on channel {channel} in mode {mode}.");
            return Verdict::Deny { reason };
        }
        let Some(rules) = self.modes.get(mode) else {
            let reason = format!(
                "Tool {name} cannot be judged, because the policy no longer has mode {mode}."
            );
            return Verdict::Deny { reason };
        };
        let answer = rules.tools.answer(tool);
        let because = || rules.tools.causes(tool, answer).join(" and ");
        match answer {
            Answer::Allow => Verdict::Allow,
            Answer::Ask => Verdict::Ask {
                reason: format!(
                    "Mode {mode} asks a person before {name} runs, because it {}.",
                    because()
                ),
            },
            Answer::Deny => Verdict::Deny {
                reason: format!("Mode {mode} denies {name}, because it {}.", because()),
            },
        }
    }
}
