//! Short ways to write what governance decided.

use std::time::Duration;

use neuraxis_core::{
    Attempt, BudgetMeasure, BudgetScope, Channel, Clarification, ContentHash, Decision, Escalation,
    Input, LlmError, LlmErrorKind, Mode, ModelFailed, NextAttempt, Role, Routing, RunSpec,
    SelfCheck, SpentBudget, Transcript,
};

use super::{Script, assert_gives_back, spec};

/// A run whose decision is changed by the test.
pub(crate) fn governed(change: impl FnOnce(&mut Decision)) -> RunSpec {
    let mut spec = spec();
    spec.decision = Some(decided(change).into());
    spec
}

/// A decision without options except those that the test adds.
pub(crate) fn decided(change: impl FnOnce(&mut Decision)) -> Decision {
    let hash = ContentHash::of(b"policy");
    let mut decision = Decision::new(Mode::MODERATE, Channel::CHAT, Role::REASONING, hash);
    change(&mut decision);
    decision
}

pub(crate) fn asks_back(decision: &mut Decision) {
    decision.clarify = Some(Clarification {
        question: "Which file?".to_owned(),
        reason: "It names nothing.".to_owned(),
    });
}

pub(crate) fn has_spent(decision: &mut Decision, measure: BudgetMeasure) {
    decision.spent = Some(SpentBudget {
        scope: BudgetScope::Day,
        measure,
        reply: "Please come back tomorrow.".to_owned(),
    });
}

pub(crate) fn routes(decision: &mut Decision) {
    decision.routing = Some(Routing {
        asks: Role::ROUTER,
        prompt: "Which role?".to_owned(),
        choices: vec![Role::REASONING, Role::ROUTER, Role::CODING],
        max_output_tokens: 16,
    });
}

pub(crate) fn checks(decision: &mut Decision) {
    decision.self_check = Some(SelfCheck {
        role: Role::ROUTER,
        prompt: "Check it.".to_owned(),
        reason: "it is hard".to_owned(),
    });
}

pub(crate) fn escalates(decision: &mut Decision, after_failures: u32, person: bool) {
    decision.escalation = Some(Escalation {
        role: Some(Role::CODING),
        after_failures,
        person,
    });
}

impl Script {
    /// Returns the types of all records.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.records
            .iter()
            .map(|record| record.body.kind())
            .collect()
    }

    /// Sends the machine the input that time has passed.
    pub(crate) fn pass(&mut self) -> &mut Self {
        self.send(Input::TimePassed)
    }

    /// Creates the final failure of the last model call.
    pub(crate) fn model_failed(&self, kind: LlmErrorKind) -> ModelFailed {
        let call = self.model_call();
        ModelFailed {
            cost: None,
            cost_label: Default::default(),
            model: None,
            effect_id: call.effect_id,
            attempt: Attempt(1),
            error: LlmError::new(kind, "so it said"),
            next: NextAttempt::None,
            served_by: call.role.clone(),
            downgraded: None,
            degraded: None,
            duration: Duration::ZERO,
        }
    }

    /// Checks that the log reproduces this run.
    pub(crate) fn assert_replays(&self) {
        assert_gives_back(&Transcript::default(), &self.records, &self.tree);
    }
}
