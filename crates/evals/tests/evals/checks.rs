//! Each check passes when it should, and otherwise fails with what was found instead.

use std::time::Duration;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{FinishReason, MicroUsd, Reply, Usage};
use neuraxis_evals::{Case, Check, CheckOutcome, Evals};
use neuraxis_testkit::{ScriptedModel, reply};
use serde_json::json;

use crate::{builder, found};

const ANSWER: &str = " {\"city\": \"Delft\", \"rain\": [1, 2.5]}\n";

fn model() -> ScriptedModel {
    let calls = [
        ("weather", r#"{"city":"Delft","days":2}"#),
        ("refund", r#"{"order":17}"#),
    ];
    let first = reply::using(reply::calls(calls), 100, 20);
    let second = reply::using(reply::text(ANSWER), 200, 30);
    ScriptedModel::new().then(first).then(second)
}

/// The prices of the test's model: a micro-dollar per token.
const PRICES: &str = "[prices.\"testkit/scripted\"]\nprompt = 1.0\ncompletion = 1.0\n";

fn schema(kind: &str) -> Check {
    Check::json_schema(json!({"type": "object", "properties": {"city": {"type": kind}}})).unwrap()
}

#[tokio::test]
async fn every_check_passes_and_fails() {
    let path = |path: &str| Check::json_path(path).unwrap();
    let equals = |path: &str, value| Check::json_path_equals(path, value).unwrap();
    let pairs = [
        (Check::exact(ANSWER), Check::exact("Delft")),
        (Check::contains("Delft"), Check::contains("delft")),
        (Check::not_contains("delft"), Check::not_contains("Delft")),
        (
            Check::regex("(?i)^.*DELFT").unwrap(),
            Check::regex("^Delft$").unwrap(),
        ),
        (schema("string"), schema("integer")),
        (path("$.rain[1]"), path("$.rain[2]")),
        (
            equals("$.rain[*]", json!(2.5)),
            equals("$.rain[*]", json!(3)),
        ),
        (
            equals("$", json!({"city": "Delft"})),
            equals("$.nowhere", json!(1)),
        ),
        (Check::tool_called("weather"), Check::tool_called("time")),
        (
            Check::tool_called("weather").with_arguments(json!({"city": "Delft"})),
            Check::tool_called("weather").with_arguments(json!({"city": "Oslo"})),
        ),
        (
            Check::tool_called("*").times(2),
            Check::tool_called("weather").times(2),
        ),
        (
            Check::tool_called("refund").succeeded(false),
            Check::tool_called("refund").succeeded(true),
        ),
        (Check::tool_not_called("time"), Check::tool_not_called("*")),
        (
            Check::tool_not_called("refund").with_arguments(json!({"order": 18})),
            Check::tool_not_called("refund").with_arguments(json!({"order": 17})),
        ),
        (
            Check::finish_reason(&FinishReason::Stop),
            Check::finish_reason(&FinishReason::MaxTurns),
        ),
        (Check::max_turns(2), Check::max_turns(1)),
        (Check::max_tool_calls(2), Check::max_tool_calls(1)),
        (Check::max_tokens(350), Check::max_tokens(349)),
        (
            Check::max_cost(MicroUsd(350)),
            Check::max_cost(MicroUsd(349)),
        ),
        (
            Check::max_time(Duration::from_secs(600)),
            Check::max_time(Duration::ZERO),
        ),
    ];
    let (good, bad): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let mut cases = [Case::new("good", "Rain?"), Case::new("bad", "Rain?")];
    (cases[0].checks, cases[1].checks) = (good, bad);
    let mut told = String::new();
    for case in cases {
        let wanted = if case.name == "good" {
            CheckOutcome::Passed
        } else {
            CheckOutcome::Failed
        };
        let policy = Policy::layered(PolicyConfig::from_toml(PRICES).unwrap()).unwrap();
        let orchestrator = builder(model()).policy(policy).build().unwrap();
        let report = Evals::new(&orchestrator).run(&[case]).await;
        for check in found(&report) {
            // A run may take no time at all.
            if check.check != "max_time 0s" {
                assert_eq!(check.verdict, wanted, "{check:?}");
                let message = check.message.as_deref().unwrap_or("passed");
                told.push_str(&format!("{}: {message}\n", check.check));
            }
        }
    }
    insta::assert_snapshot!(told);
}

#[tokio::test]
async fn an_unpriced_model_or_a_non_json_answer_fails_its_check() {
    let model = ScriptedModel::new().then(reply::text("Hello."));
    let case = Case::new("a", "Hello")
        .check(Check::max_cost(MicroUsd(1_000_000)))
        .check(schema("string"));
    let report = crate::run(model, case).await;
    let told: Vec<_> = found(&report)
        .iter()
        .map(|it| it.message.as_deref().unwrap())
        .collect();
    let unpriced = "testkit/scripted has no price: set one in [prices]";
    assert_eq!(told[0], unpriced);
    assert!(told[1].starts_with("the answer is not JSON ("), "{told:?}");
    assert_eq!(crate::verdicts(&report), [CheckOutcome::Failed; 2]);
}

#[tokio::test]
async fn a_schema_violation_is_reported_briefly_and_redacted() {
    let long = json!({"city": "x".repeat(5_000)}).to_string();
    let secret = json!({"city": "canary"}).to_string();
    let name = json!({"canary": "x"}).to_string();
    for (answer, expected) in [
        (long, "at /city: value is not of type \"integer\""),
        (
            secret,
            "at /city: \"[redacted]\" is not of type \"integer\"",
        ),
        (name, "at /[redacted]: \"x\" is not of type \"integer\""),
    ] {
        let model = ScriptedModel::new().then(reply::text(answer));
        let orchestrator = builder(model).build().unwrap();
        let evals = Evals::new(&orchestrator).redact(|text| text.replace("canary", "[redacted]"));
        let integers = json!({"additionalProperties": {"type": "integer"}});
        let check = Check::json_schema(integers).unwrap();
        let case = Case::new("a", "Hello").check(check);
        let report = evals.run(&[case]).await;
        assert_eq!(found(&report)[0].message.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn max_cost_fails_when_the_provider_reports_no_usage() {
    let uncounted = Reply {
        usage: Usage::UNKNOWN,
        ..reply::text("Hello.")
    };
    let case = Case::new("a", "Hello").check(Check::max_cost(MicroUsd(1_000_000)));
    let policy = Policy::layered(PolicyConfig::from_toml(PRICES).unwrap()).unwrap();
    let model = ScriptedModel::new().then(uncounted);
    let orchestrator = builder(model).policy(policy).build().unwrap();
    let report = Evals::new(&orchestrator).run(&[case]).await;
    let found = found(&report);
    assert_eq!(
        found[0].message.as_deref().unwrap(),
        "a provider did not report what a call used, so its cost is unknown"
    );
    assert_eq!(crate::verdicts(&report), [CheckOutcome::Failed]);
}
