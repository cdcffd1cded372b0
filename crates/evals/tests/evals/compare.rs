//! What got worse and what got better.

use neuraxis_evals::{Case, CaseStatus, Check, Evals, Report, ReportFault};
use neuraxis_testkit::{ScriptedModel, reply};

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
    let comparison = now.compare(&earlier);
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
