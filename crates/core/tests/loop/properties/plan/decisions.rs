//! What governance may have decided in addition to models, tools and limits.

use neuraxis_core::{
    BudgetMeasure, BudgetScope, Channel, Clarification, ContentHash, Decision, Escalation, Mode,
    Role, Routing, SelfCheck, SpentBudget,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Usually none, or one that uses some of the options of a decision.
pub(super) fn decision() -> impl Strategy<Value = Option<Decision>> {
    let decision = (
        seldom(clarification()),
        seldom(spent()),
        prop::option::of(Just(routing())),
        prop::option::of(Just(self_check())),
        prop::option::of(escalation()),
    )
        .prop_map(|(clarify, spent, routing, self_check, escalation)| {
            let hash = ContentHash::of(b"policy");
            let mut decision = Decision::new(Mode::MODERATE, Channel::CHAT, Role::REASONING, hash);
            decision.clarify = clarify;
            decision.spent = spent;
            decision.routing = routing;
            decision.self_check = self_check;
            decision.escalation = escalation;
            decision
        });
    prop_oneof![1 => Just(None), 1 => decision.prop_map(Some)]
}

fn seldom<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop_oneof![12 => Just(None), 1 => value.prop_map(Some)]
}

fn clarification() -> impl Strategy<Value = Clarification> {
    Just(Clarification {
        question: "Which one?".to_owned(),
        reason: "It names nothing.".to_owned(),
    })
}

fn spent() -> impl Strategy<Value = SpentBudget> {
    select(BudgetMeasure::ALL.to_vec()).prop_map(|measure| SpentBudget {
        scope: BudgetScope::Day,
        measure,
        reply: "It is used up.".to_owned(),
    })
}

/// The replies of models in these tests name no role except "One.".
fn routing() -> Routing {
    Routing {
        asks: Role::ROUTER,
        prompt: "Choose.".to_owned(),
        choices: vec![Role::REASONING, Role::new("one")],
        max_output_tokens: 16,
    }
}

fn self_check() -> SelfCheck {
    SelfCheck {
        role: Role::ROUTER,
        prompt: "Check.".to_owned(),
        reason: "it is hard".to_owned(),
    }
}

fn escalation() -> impl Strategy<Value = Escalation> {
    (
        prop::option::of(Just(Role::CODING)),
        1..4_u32,
        any::<bool>(),
    )
        .prop_map(|(role, after_failures, person)| Escalation {
            role,
            after_failures,
            person,
        })
}
