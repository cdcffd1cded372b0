//! Replies that need no model: a budget that is used up, and a clarifying question.

use neuraxis_core::{BudgetKind, BudgetMeasure, Effect, FinishReason, Message, RunStatus};

use crate::support::*;

fn ended(run: &Script) -> (FinishReason, String) {
    let [Effect::Finish(outcome)] = &run.effects[..] else {
        panic!("{:?}", run.effects)
    };
    (outcome.finish_reason.clone(), outcome.content.clone())
}

#[test]
fn an_exhausted_budget_ends_the_run_with_its_message_and_calls_no_model() {
    for (measure, kind, limit) in [
        (BudgetMeasure::Tokens, BudgetKind::Tokens, "tokens"),
        (BudgetMeasure::Cost, BudgetKind::Cost, "cost"),
        (BudgetMeasure::Time, BudgetKind::Time, "time"),
        (
            BudgetMeasure::ToolCalls,
            BudgetKind::ToolCalls,
            "tool_calls",
        ),
    ] {
        let run = Script::start(governed(|decision| has_spent(decision, measure)));
        assert_eq!(
            run.kinds(),
            ["run_started", "decision", "limit_reached", "final"]
        );
        assert!(
            run.records[2]
                .to_json()
                .contains(&format!("\"limit\":\"{limit}\""))
        );
        let expected = (
            FinishReason::Budget(kind),
            "Please come back tomorrow.".to_owned(),
        );
        assert_eq!(ended(&run), expected);
        assert_eq!(run.tree.status(), RunStatus::Done);
    }
}

#[test]
fn a_vague_request_is_answered_with_the_question() {
    let run = Script::start(governed(asks_back));
    assert_eq!(run.kinds(), ["run_started", "decision", "final"]);
    assert_eq!(
        ended(&run),
        (FinishReason::Clarify, "Which file?".to_owned())
    );
}

#[test]
fn an_exhausted_budget_takes_precedence_over_questions_and_role_choices() {
    let run = Script::start(governed(|decision| {
        asks_back(decision);
        routes(decision);
        has_spent(decision, BudgetMeasure::Cost);
    }));
    assert_eq!(ended(&run).0, FinishReason::Budget(BudgetKind::Cost));
}

#[test]
fn a_reply_without_a_model_call_appears_in_the_history() {
    for spec in [
        governed(asks_back),
        governed(|decision| has_spent(decision, BudgetMeasure::Tokens)),
    ] {
        let run = Script::start(spec);
        let told = ended(&run).1;
        let last = Message::assistant(told);
        assert_eq!(run.tree.messages().last().map(|it| &**it), Some(&last));
        assert_tells_messages(&run.records, &run.tree, 0);
        run.assert_replays();
    }
}
