//! Approval for calls whose arguments meet a condition of the program.

use std::sync::Arc;

use neuraxis_core::{Mode, RunStatus};
use neuraxis_engine::OrchestratorBuilder;
use neuraxis_testkit::{ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};
use serde::Deserialize;

use crate::support::{builder, policy, request, run_to_end};

#[derive(Deserialize)]
struct Refund {
    amount: u32,
}

fn asking(builder: OrchestratorBuilder, tool: &str) -> OrchestratorBuilder {
    builder.ask_when(tool, "It is above 100.", |refund: &Refund| {
        refund.amount > 100
    })
}

#[tokio::test]
async fn only_calls_that_meet_a_condition_or_cannot_be_parsed_need_approval() {
    let model = ScriptedModel::new()
        .then(reply::calls([
            ("refund", r#"{"amount":100}"#),
            ("refund", r#"{"amount":101}"#),
            ("refund", r#"{"amount":"all"}"#),
            ("look", r#"{"amount":500}"#),
        ]))
        .then(reply::text("Done."));
    let approver = Arc::new(ScriptedApprover::new().approve().deny("too vague"));
    let refund = Arc::new(ScriptedTool::echoing(spec("refund").idempotent()));
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let builder = builder(model).tool(refund.clone()).tool(look.clone());
    let orchestrator = asking(builder, "refund").approver(approver.clone());
    let orchestrator = orchestrator.build().unwrap();
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::EXPLORATORY)).await;
    finished.assert_valid(RunStatus::Done);
    let asks = approver.asks();
    let asked: Vec<&str> = asks.iter().map(|ask| ask.arguments.as_str()).collect();
    assert_eq!(asked, [r#"{"amount":101}"#, r#"{"amount":"all"}"#]);
    assert!(asks.iter().all(|ask| ask.reason == "It is above 100."));
    assert_eq!((refund.count(), look.count()), (2, 1));
}

#[test]
fn a_condition_on_a_missing_tool_is_refused_at_build() {
    let of = |tool: &str| {
        let refund = Arc::new(ScriptedTool::echoing(spec("refund")));
        asking(builder(ScriptedModel::new()).tool(refund), tool).build()
    };
    let error = of("refnd").unwrap_err().to_string();
    let expected = "`ask_when` names the unknown tool refnd; the tools are: refund";
    assert!(error.starts_with(expected), "{error}");
    // Tools of servers can change.
    assert!(of("shop__refund").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_rule_decides_by_its_named_function_and_an_unknown_one_is_an_error() {
    let rules = "[rules.large]\nanswer = 'deny'\ntools = ['refund']\nwhen = 'is_large'";
    let model = || {
        let model = ScriptedModel::new().then(reply::calls([
            ("refund", r#"{"amount":500}"#),
            ("refund", r#"{"amount":5}"#),
        ]));
        model.then(reply::text("Done."))
    };
    let refund = || Arc::new(ScriptedTool::echoing(spec("refund").idempotent()));
    let tool = refund();
    let with = builder(model()).policy(policy(rules));
    let orchestrator = with
        .tool(tool.clone())
        .rule_function("is_large", |refund: &Refund| refund.amount > 100)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(tool.count(), 1);
    assert!(finished.results()[0].failure.is_some() && finished.results()[1].failure.is_none());
    let without = builder(model()).policy(policy(rules));
    let error = without.tool(refund()).build().unwrap_err().to_string();
    assert_eq!(
        error,
        "rules.large.when: unknown function \"is_large\"; there are none: supply it with `rule_function`"
    );
}
