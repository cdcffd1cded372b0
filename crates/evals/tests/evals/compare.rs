//! What got worse and what got better.

use neuraxis_core::CountLabel;
use neuraxis_evals::{Case, CaseStatus, Check, CheckOutcome, Evals, Report, ReportFault};
use neuraxis_testkit::{ScriptedModel, reply};
use serde_json::Value;

use crate::{asked, builder};

/// Runs cases with these names. The model answers with the question's text, and each case expects "yes".
async fn report(cases: &[(&str, &str)]) -> Report {
    let model = ScriptedModel::answering(|request| reply::text(asked(request)));
    let orchestrator = builder(model).build().unwrap();
    let cases: Vec<Case> = cases
        .iter()
        .map(|(name, message)| Case::new(*name, *message).check(Check::exact("yes")))
        .collect();
    Evals::new(&orchestrator).run(&cases).await
}

#[tokio::test]
async fn cases_are_compared_by_name() {
    let earlier = report(&[
        ("a", "yes"),
        ("b", "yes"),
        ("c", "no"),
        ("d", "no"),
        ("e", "yes"),
    ])
    .await;
    let now = report(&[
        ("x", "yes"),
        ("y", "no"),
        ("a", "yes"),
        ("b", "no"),
        ("c", "yes"),
        ("d", "no"),
    ])
    .await;
    let earlier = Report::from_json(&earlier.to_json()).unwrap();
    let mut comparison = now.compare(&earlier);
    let usage = comparison.usage.take().unwrap();
    assert_eq!((usage.was.cases, usage.now.cases), (4, 4));
    insta::assert_json_snapshot!(comparison);
    assert_eq!(
        comparison.worse[0].to_string(),
        "b: passed 100% → failed 0%"
    );
    assert!(!comparison.is_fine());
    let same = now.compare(&now);
    assert!(same.is_fine(), "what fails as before is no regression");
    assert!(!now.passed());
}

#[tokio::test]
async fn a_failure_without_a_previous_verdict_is_a_new_failure() {
    let now = report(&[("a", "yes"), ("b", "no"), ("c", "no"), ("d", "yes")]).await;
    let mut before = now.clone();
    for (case, status) in before.cases.iter_mut().zip([
        CaseStatus::NotRun,
        CaseStatus::NotRun,
        CaseStatus::Error,
        CaseStatus::Error,
    ]) {
        case.status = status;
        case.attempts.clear();
    }
    let comparison = now.compare(&before);
    assert_eq!(comparison.new, ["a"]);
    assert_eq!(comparison.new_failures, ["b", "c"]);
    assert_eq!(comparison.better[0].name, "d");
    assert!(comparison.gone.is_empty() && comparison.still_failing.is_empty());
    assert!(!comparison.is_fine());
    let both = before.compare(&before);
    assert_eq!(both.still_failing, ["c", "d"], "an error still is one");
}

#[tokio::test]
async fn cases_with_the_same_name_are_compared_in_order() {
    let report = report(&[("a", "yes"), ("a", "no")]).await;
    let comparison = report.compare(&report);
    assert_eq!(
        (comparison.unchanged, comparison.still_failing.len()),
        (1, 1)
    );
    assert!(comparison.is_fine());
}

#[tokio::test]
async fn a_case_that_passes_in_fewer_attempts_is_reported_although_nothing_is_worse() {
    let model = ScriptedModel::always(reply::text("yes"));
    let orchestrator = builder(model).build().unwrap();
    let case = Case::new("a", "Really?").check(Check::exact("yes"));
    let case = case.repeat(4).pass_rate(0.5);
    let before = Evals::new(&orchestrator).run(&[case]).await;
    let mut now = before.clone();
    now.cases[0].attempts[1].verdict = CheckOutcome::Failed;
    let comparison = now.compare(&before);
    assert_eq!(
        comparison.less_often[0].to_string(),
        "a: passed 100% → passed 75%"
    );
    assert_eq!((comparison.unchanged, comparison.worse.len()), (1, 0));
    assert!(comparison.is_fine());
    let back = before.compare(&now);
    assert!(back.less_often.is_empty() && back.is_fine());
}

#[tokio::test]
async fn compared_usage_is_that_of_one_attempt_of_each_case_that_was_judged_both_times() {
    let mut before = report(&[("a", "yes"), ("b", "yes"), ("gone", "yes")]).await;
    for case in &mut before.cases {
        let attempt = &mut case.attempts[0];
        (attempt.tokens, attempt.cost_micro_usd) = (100, Some(30));
        (attempt.tokens_label, attempt.cost_label) = (CountLabel::Measured, CountLabel::Measured);
        (attempt.active_ms, attempt.models) = (7, vec!["openai/big".to_owned()]);
    }
    let mut now = before.clone();
    now.cases[2].name = "new".to_owned();
    now.cases[1].attempts[0].verdict = CheckOutcome::Error;
    let mut again = now.cases[0].attempts[0].clone();
    (again.tokens, again.cost_micro_usd) = (203, Some(33));
    again.cost_label = CountLabel::Estimated;
    again.models = vec!["openai/small".to_owned()];
    now.cases[0].attempts.push(again);

    let usage = now.compare(&before).usage.unwrap();
    assert_eq!((usage.was.cases, usage.now.cases), (1, 1));
    assert_eq!((usage.was.tokens, usage.now.tokens), (100, 152));
    assert_eq!(usage.was.cost_micro_usd, Some(30));
    assert_eq!(usage.now.cost_micro_usd, Some(32));
    let labels = (usage.was.cost_label, usage.now.cost_label);
    assert_eq!(labels, (CountLabel::Measured, CountLabel::Estimated));
    assert_eq!(usage.now.active_ms, 7);
    assert_eq!((usage.was.models.len(), usage.now.models.len()), (1, 2));

    now.cases[0].attempts[0].cost_micro_usd = None;
    let usage = now.compare(&before).usage.unwrap();
    assert_eq!(usage.now.cost_micro_usd, None, "a model has no price");
    before.cases[0].stored = true;
    assert_eq!(now.compare(&before).usage, None);
}

#[tokio::test]
async fn costs_in_a_report_that_does_not_say_how_reliable_they_are_are_lower_bounds() {
    let report = report(&[("a", "yes")]).await;
    assert_eq!(report.totals.cost_label, CountLabel::Unknown, "no price");
    assert_eq!(report.cases[0].attempts[0].models.len(), 1);
    let mut older: Value = serde_json::from_str(&report.to_json()).unwrap();
    for place in ["/totals", "/cases/0/attempts/0"] {
        let part = older.pointer_mut(place).and_then(Value::as_object_mut);
        assert!(part.unwrap().remove("cost_label").is_some(), "{place}");
    }
    let older = Report::from_json(&older.to_string()).unwrap();
    assert_eq!(older.totals.cost_label, CountLabel::Unknown);
    let attempt = &older.cases[0].attempts[0];
    assert_eq!(attempt.cost_label, CountLabel::Unknown);
}

#[tokio::test]
async fn a_report_round_trips_and_another_format_is_refused() {
    let written = report(&[("a", "yes"), ("b", "no")]).await;
    assert_eq!(Report::from_json(&written.to_json()).unwrap(), written);
    assert_eq!(written.cases[1].status, CaseStatus::Failed);
    let other = written
        .to_json()
        .replacen("\"format\": 1", "\"format\": 2", 1);
    let fault = Report::from_json(&other).unwrap_err();
    assert!(
        matches!(fault, ReportFault::OtherFormat { found: 2 }),
        "{fault}"
    );
    assert!(matches!(Report::from_json("{}"), Err(ReportFault::Json(_))));
}
