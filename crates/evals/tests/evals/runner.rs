//! How cases are run: bounded, repeated, stopped, governed, and independently of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use neuraxis_core::{BudgetKind, LlmError, LlmErrorKind, ModelRef, Role, SessionId, Transcript};
use neuraxis_engine::{Orchestrator, UserRequest};
use neuraxis_evals::{
    CallPattern, Case, CaseStatus, Check, CheckOutcome, EvalFile, Evals, HistoryMessage, LeftOut,
    Source, is_session_of_eval,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{CancellationToken, StatsFilter};
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};

use crate::{asked, builder, found, run, verdicts};

fn yes() -> Check {
    Check::exact("yes")
}

#[tokio::test(start_paused = true)]
async fn no_more_attempts_run_at_once_than_jobs_allows() {
    let model = ScriptedModel::always(
        Script::from(reply::text("yes")).after(std::time::Duration::from_secs(1)),
    );
    let model = Arc::new(model);
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, model.clone())
        .store(Arc::new(MemoryStore::default()))
        .build()
        .unwrap();
    let cases: Vec<Case> = (0..5)
        .map(|number| Case::new(format!("{number}"), "Hello").check(yes()))
        .collect();
    let report = Evals::new(&orchestrator)
        .jobs(3)
        .repeat(2)
        .run(&cases)
        .await;
    assert!(report.passed(), "{report}");
    assert_eq!(model.most_open_calls(), 3);
    let names: Vec<_> = report.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "2", "3", "4"], "in the order of the file");
    assert!(report.cases.iter().all(|case| case.attempts.len() == 2));
}

#[tokio::test]
async fn a_case_passes_if_enough_of_its_attempts_do() {
    let model = || {
        let answers = ["yes", "no", "yes", "yes"].map(reply::text);
        answers
            .into_iter()
            .fold(ScriptedModel::new(), ScriptedModel::then)
    };
    let case = |rate| {
        Case::new("a", "Hello")
            .check(yes())
            .repeat(4)
            .pass_rate(rate)
    };
    for (rate, status) in [(0.75, CaseStatus::Passed), (0.8, CaseStatus::Failed)] {
        let report = run(model(), case(rate)).await;
        assert_eq!(report.cases[0].status, status);
        assert_eq!(
            (report.cases[0].passes(), report.cases[0].rate()),
            (3, 0.75)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_is_an_error_of_its_own_case_only() {
    let model = ScriptedModel::answering(|request| -> Script {
        match asked(request).as_str() {
            "fail" => LlmError::new(LlmErrorKind::Unauthorized, "the key is wrong").into(),
            _ => reply::text("yes").into(),
        }
    });
    let orchestrator = builder(model).build().unwrap();
    let cases = ["fail", "fine"].map(|name| Case::new(name, name).check(yes()));
    let report = Evals::new(&orchestrator).run(&cases).await;
    let statuses: Vec<_> = report.cases.iter().map(|case| case.status).collect();
    assert_eq!(statuses, [CaseStatus::Error, CaseStatus::Passed]);
    let error = report.cases[0].attempts[0].error.as_deref().unwrap();
    assert!(error.contains("the key is wrong"), "{error}");
}

#[tokio::test]
async fn a_case_can_expect_its_run_to_fail() {
    let failing = || ScriptedModel::new().then(LlmError::new(LlmErrorKind::Unauthorized, "no"));
    let wanted = neuraxis_core::FinishReason::Failed(String::new());
    let case = Case::new("a", "Hello").check(Check::finish_reason(&wanted));
    let report = run(failing(), case).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test]
async fn a_run_without_an_answer_fails_unless_a_check_expects_how_it_ended() {
    let calling = || ScriptedModel::always(reply::calls([("weather", "{}")]));
    let case = || Case::new("a", "Hello").check(Check::tool_not_called("refund"));
    let report = run(calling(), case()).await;
    assert_eq!(
        verdicts(&report),
        [CheckOutcome::Failed, CheckOutcome::Passed]
    );
    assert_eq!(found(&report)[0].check, "the run produces an answer");
    let end = neuraxis_core::FinishReason::Budget(BudgetKind::RepeatedCalls);
    let wanted = run(calling(), case().check(Check::finish_reason(&end))).await;
    assert!(wanted.passed(), "{wanted}");
    let silent = run(ScriptedModel::always(reply::text(" ")), case()).await;
    assert_eq!(
        found(&silent)[0].message.as_deref(),
        Some("the answer is empty")
    );
}

#[tokio::test]
async fn a_failing_provider_is_an_error_when_a_check_expects_another_finish_reason() {
    let failing = ScriptedModel::new().then(LlmError::new(LlmErrorKind::Unauthorized, "no"));
    let wanted = neuraxis_core::FinishReason::Stop;
    let case = Case::new("a", "Hello").check(Check::finish_reason(&wanted));
    let report = run(failing, case).await;
    assert_eq!(report.cases[0].status, CaseStatus::Error, "{report}");
}

#[tokio::test]
async fn a_missing_recording_is_an_error_even_when_a_check_expects_failure() {
    let stale = ScriptedModel::new().then(LlmError::new(LlmErrorKind::NotRecorded, "not there"));
    let wanted = neuraxis_core::FinishReason::Failed(String::new());
    let case = Case::new("a", "Hello").check(Check::finish_reason(&wanted));
    let report = run(stale, case).await;
    assert_eq!(report.cases[0].status, CaseStatus::Error, "{report}");
    let error = report.cases[0].attempts[0].error.as_deref().unwrap();
    assert!(error.contains("not there"), "{error}");
}

#[tokio::test]
async fn a_reply_that_is_no_answer_is_an_error_whatever_checks_expect() {
    let model = ScriptedModel::answering(|request| {
        let mut reply = reply::text(asked(request));
        if reply.text() != "yes" {
            reply.model = ModelRef::no_model();
        }
        reply
    });
    let orchestrator = builder(model).build().unwrap();
    let cases = ["I am no model.\n\nAsk tools instead.", "yes"].map(|said| {
        Case::new(said, said)
            .check(Check::not_contains("secret"))
            .check(Check::finish_reason(&neuraxis_core::FinishReason::Stop))
    });
    let report = Evals::new(&orchestrator).run(&cases).await;
    let statuses: Vec<_> = report.cases.iter().map(|case| case.status).collect();
    assert_eq!(statuses, [CaseStatus::Error, CaseStatus::Passed]);
    assert_eq!(
        report.cases[0].attempts[0].error.as_deref(),
        Some("no model was available to answer: I am no model.")
    );
}

#[test]
fn an_eval_session_id_needs_both_the_prefix_and_a_uuid() {
    let is_of_eval = |id: &str| is_session_of_eval(&id.parse().unwrap());
    assert!(is_of_eval("eval-0199f3a1-0000-7000-8000-000000000001"));
    for other in [
        "eval-notes",
        "0199f3a1-0000-7000-8000-000000000001",
        "eval-",
    ] {
        assert!(!is_of_eval(other), "{other}");
    }
}

#[tokio::test]
async fn the_reason_of_a_failed_run_is_redacted() {
    let ends = [
        neuraxis_core::FinishReason::Failed(String::new()),
        neuraxis_core::FinishReason::Stop,
    ];
    let mut of_its_end = Case::new("a", "Hello");
    for end in &ends {
        of_its_end = of_its_end.check(Check::finish_reason(end));
    }
    for case in [Case::new("a", "Hello").check(yes()), of_its_end] {
        let error = LlmError::new(LlmErrorKind::Unauthorized, "no canary here");
        let orchestrator = builder(ScriptedModel::new().then(error)).build().unwrap();
        let evals = Evals::new(&orchestrator).redact(|text| text.replace("canary", "[redacted]"));
        let report = evals.run(&[case]).await;
        let told = report.cases[0].reasons().join("; ");
        assert!(told.contains("no [redacted] here"), "{told}");
    }
}

#[tokio::test]
async fn the_reason_for_a_missing_run_is_short_and_redacted() {
    let missing = format!("canary-{}.jsonl", "x".repeat(2_000));
    let case = Case::of("a", Source::Log(missing.into())).check(yes());
    let orchestrator = builder(ScriptedModel::new()).build().unwrap();
    let evals = Evals::new(&orchestrator).redact(|text| text.replace("canary", "[redacted]"));
    let report = evals.run(&[case]).await;
    let error = report.cases[0].attempts[0].error.as_deref().unwrap();
    assert!(error.starts_with("[redacted]-x"), "{error}");
    assert!(error.chars().count() < 1_100, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_eval_keeps_finished_cases_and_skips_the_rest() {
    let model = ScriptedModel::answering(|request| -> Script {
        match asked(request).as_str() {
            "hang" => Script::hanging(),
            _ => reply::text("yes").into(),
        }
    });
    let orchestrator = builder(model).build().unwrap();
    let cases = ["fine", "hang", "later"].map(|name| Case::new(name, name).check(yes()));
    let stop = CancellationToken::new();
    let evals = Evals::new(&orchestrator).jobs(1).stop_on(stop.clone());
    let is_first = AtomicBool::new(true);
    let stopping = stop.clone();
    let report = evals.run_watched(&cases, |_, _| {
        if is_first.swap(false, Ordering::SeqCst) {
            let stop = stopping.clone();
            // Once the second case is in progress.
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                stop.cancel();
            });
        }
    });
    let report = report.await;
    let statuses: Vec<_> = report.cases.iter().map(|case| case.status).collect();
    assert_eq!(
        statuses,
        [CaseStatus::Passed, CaseStatus::Error, CaseStatus::NotRun]
    );
    assert_eq!(
        report.cases[1].attempts[0].error.as_deref(),
        Some("the run was cancelled")
    );
    assert_eq!(
        report.totals.to_string(),
        "1 passed, 0 failed, 1 error, 1 not run"
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_is_shown_again_one_second_after_an_attempt_ends() {
    let model = ScriptedModel::answering(|request| -> Script {
        match asked(request).as_str() {
            "hang" => Script::hanging(),
            _ => reply::text("yes").into(),
        }
    });
    let orchestrator = builder(model).build().unwrap();
    let cases = ["fine", "good", "hang"].map(|name| Case::new(name, name).check(yes()));
    let stop = CancellationToken::new();
    let evals = Evals::new(&orchestrator).jobs(1).stop_on(stop.clone());
    let (begun, mut shown) = (tokio::time::Instant::now(), Vec::new());
    let report = evals.run_watched(&cases, |report, case| {
        let seconds = begun.elapsed().as_secs();
        shown.push((case, report.totals.passed, seconds));
        // Once the report was shown again, and long enough for any further time.
        if seconds > 0 {
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                stop.cancel();
            });
        }
    });
    report.await;
    let again: Vec<_> = shown.iter().filter(|(case, ..)| case.is_none()).collect();
    assert_eq!(again.last(), Some(&&(None, 2, 1)), "{shown:?}");
    assert!(shown.len() <= 5, "{shown:?}");
}

#[tokio::test]
async fn a_case_that_cannot_run_is_refused_with_its_line() {
    let orchestrator = builder(ScriptedModel::new()).build().unwrap();
    let evals = Evals::new(&orchestrator);
    for (line, told) in [
        ("channel = 'chatt'", "unknown channel \"chatt\""),
        ("mode = 'moderat'", "unknown mode \"moderat\""),
        ("agent = 'nobody'", "unknown agent \"nobody\""),
        ("plan = 'gold'", "unknown plan \"gold\""),
        (
            "role = 'painting'",
            "the policy does not allow role painting here",
        ),
        ("log = 'no.jsonl'", "no.jsonl cannot be read"),
        (
            "check = [{ tool_not_called = 'weathr' }]",
            "tool_not_called \"weathr\": there is no such tool",
        ),
        (
            "check = [{ tool_called = 'weathr', times = 0 }]",
            "tool_called \"weathr\": there is no such tool",
        ),
        (
            "approve = ['weather', 'wether']",
            "approve \"wether\": there is no such tool",
        ),
        (
            "check = [{ judge = 'It is kind.' }]",
            "the judge: unknown agent",
        ),
    ] {
        let check = match line.starts_with("check") {
            true => "",
            false => "check = [{ max_turns = 1 }]",
        };
        let text = format!("\n[[case]]\nname = 'a'\nmessage = 'b'\n{line}\n{check}\n");
        let file = EvalFile::from_toml(&text).unwrap();
        let fault = evals.check(&file.cases, |tool| tool == "weather");
        let fault = fault.unwrap_err().to_string();
        let expected = format!("line 2: case \"a\": {told}");
        assert!(fault.starts_with(&expected), "{fault}");
    }
    let known = Case::new("a", "b").check(Check::tool_not_called("weather"));
    let any = Case::new("a", "b").check(Check::tool_not_called("*"));
    let checked = evals.check(&[known, any], |tool| tool == "weather");
    assert_eq!(checked, Ok(()));
}

#[tokio::test]
async fn only_calls_approved_by_the_case_run_when_policy_requires_approval() {
    for (approved, runs) in [(None, 0), (Some(17), 1), (Some(18), 0)] {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", r#"{"order":17}"#)]))
            .then(reply::text("yes"));
        let refund = Arc::new(ScriptedTool::echoing(spec("refund")));
        let orchestrator = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(model))
            .tool(refund.clone())
            .store(Arc::new(MemoryStore::default()))
            .build()
            .unwrap();
        let mut case = Case::new("a", "Pay it back").check(yes());
        if let Some(order) = approved {
            let arguments = Some(serde_json::json!({ "order": order }));
            case = case.approve(CallPattern {
                arguments,
                ..CallPattern::of("refund")
            });
        }
        let report = Evals::new(&orchestrator).run(&[case]).await;
        assert!(report.passed(), "{report}");
        assert_eq!(refund.count(), runs, "{approved:?}");
    }
}

#[tokio::test]
async fn an_approval_never_overrides_a_policy_denial() {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", "{}")]))
        .then(reply::text("yes"));
    let refund = Arc::new(ScriptedTool::echoing(spec("refund")));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(refund.clone())
        .store(Arc::new(MemoryStore::default()))
        .build()
        .unwrap();
    let case = Case::new("a", "Pay it back")
        .mode(neuraxis_core::Mode::CONSERVATIVE)
        .approve(CallPattern::of("*"))
        .check(yes());
    Evals::new(&orchestrator).run(&[case]).await;
    assert_eq!(refund.count(), 0);
}

#[tokio::test]
async fn a_resumed_eval_runs_only_cases_without_a_verdict_and_adds_up_all_of_them() {
    let case = |name: &str| Case::new(name, "Hello").check(yes()).repeat(2);
    let cases = ["passed", "failed", "stopped", "error", "new"].map(case);
    let earlier = {
        let model = ScriptedModel::always(reply::using(reply::text("yes"), 100, 20));
        let orchestrator = builder(model).build().unwrap();
        let mut report = Evals::new(&orchestrator).run(&cases[..4]).await;
        for attempt in &mut report.cases[1].attempts {
            attempt.verdict = CheckOutcome::Failed;
        }
        report.cases[2].attempts.pop();
        report.cases[3].attempts[1].verdict = CheckOutcome::Error;
        report
    };
    let model = ScriptedModel::always(reply::using(reply::text("yes"), 10, 2));
    let orchestrator = builder(model).build().unwrap();
    let resumed = Evals::new(&orchestrator).resume(earlier.clone());
    let report = resumed.clone().run(&cases).await;
    let statuses: Vec<_> = report.cases.iter().map(|it| it.status).collect();
    let [passed, failed] = [CaseStatus::Passed, CaseStatus::Failed];
    assert_eq!(statuses, [passed, failed, passed, passed, passed]);
    assert_eq!(report.cases[0], earlier.cases[0]);
    assert_eq!(report.totals.tokens, 4 * 120 + 6 * 12);
    let sessions = orchestrator.sessions();
    let stats = sessions.stats(&StatsFilter::default()).await.unwrap();
    assert_eq!(stats.total().runs, 6);

    // By another number of attempts, nothing is known yet.
    let report = resumed.clone().repeat(1).run(&cases).await;
    assert_eq!(report.totals.tokens, 5 * 12);
    // The share that must pass is the present one.
    let [_, case, ..] = cases;
    let report = resumed.run(&[case.pass_rate(0.001)]).await;
    assert_eq!(report.cases[0].status, failed);
}

#[tokio::test]
async fn a_stored_run_is_checked_once_and_without_a_model() {
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", r#"{"city":"Delft"}"#)]))
        .then(reply::using(reply::text("Wet."), 100, 20));
    let orchestrator = builder(model).build().unwrap();
    let session: SessionId = "s".parse().unwrap();
    let done = orchestrator
        .handle(UserRequest::new(session, "Rain?"))
        .await
        .unwrap();
    let id = done.run_id.to_string();
    let case = Case::of("a", Source::Run(id.clone()))
        .check(Check::exact("Wet."))
        .check(Check::tool_called("weather"))
        .check(Check::contains("dry"))
        .repeat(3);
    let unknown = Case::of("b", Source::Run("ffffffff".to_owned())).check(yes());
    let live = Case::new("c", "Hello").check(yes());
    let evals = Evals::of_stored_runs(orchestrator.sessions());
    let report = evals.run(&[case, unknown, live]).await;
    assert_eq!(report.cases[0].attempts.len(), 1);
    assert_eq!(
        verdicts(&report),
        [
            CheckOutcome::Passed,
            CheckOutcome::Passed,
            CheckOutcome::Failed
        ]
    );
    let attempt = &report.cases[0].attempts[0];
    assert_eq!(attempt.run_id, Some(done.run_id));
    // Its usage was paid for when it ran.
    assert!(attempt.tokens >= 120, "{}", attempt.tokens);
    assert_eq!(
        (report.totals.tokens, report.totals.cost_micro_usd),
        (0, Some(0))
    );
    let error = report.cases[1].attempts[0].error.as_deref().unwrap();
    assert!(error.contains("ffffffff"), "{error}");
    let error = report.cases[2].attempts[0].error.as_deref();
    assert_eq!(error, Some("there is no model to ask"));
}

#[tokio::test]
async fn a_case_made_from_a_run_passes_when_the_model_replies_the_same() {
    let model = || {
        ScriptedModel::new()
            .then(reply::text("Noted."))
            .then(reply::calls([("weather", r#"{"city":"Delft"}"#)]))
            .then(reply::text("Wet."))
    };
    let orchestrator = builder(model()).build().unwrap();
    let session: SessionId = "s".parse().unwrap();
    let request = |text: &str| UserRequest::new(session.clone(), text);
    orchestrator
        .handle(request("I live in Delft."))
        .await
        .unwrap();
    let done = orchestrator.handle(request("Rain?")).await.unwrap();
    let sessions = orchestrator.sessions();
    let records = sessions.records(done.run_id).await.unwrap();
    let history = sessions.history_before(done.run_id).await.unwrap();
    let case = Case::of_run("rain", &history, &records).unwrap();
    assert_eq!(case.message, "Rain?");
    let said = [
        HistoryMessage::User("I live in Delft.".to_owned()),
        HistoryMessage::Assistant("Noted.".to_owned()),
    ];
    assert_eq!(case.history, said);
    let written = case.to_toml().unwrap();
    insta::assert_snapshot!(written);
    let defaults = "[defaults]\nchannel = 'code_task'\nmode = 'conservative'\n";
    let file = EvalFile::from_toml(&format!("{defaults}{written}")).unwrap();
    let read = &file.cases[0];
    assert_eq!((&read.channel, &read.mode), (&case.channel, &case.mode));

    let again = ScriptedModel::new()
        .then(reply::calls([("weather", r#"{"city":"Delft"}"#)]))
        .then(reply::text("Wet."));
    let report = run(again, case.clone()).await;
    assert!(report.passed(), "{report}");
    let otherwise = ScriptedModel::new().then(reply::text("Dry."));
    let report = run(otherwise, case).await;
    assert_eq!(verdicts(&report)[0], CheckOutcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_case_made_from_a_run_reports_delivered_steering_as_left_out() {
    let second = std::time::Duration::from_secs(1);
    let slow = |text: &str| Script::from(reply::text(text)).after(second * 10);
    let model = || ScriptedModel::new().then(slow("Wet.")).then(slow("Nat."));
    for (is_heard, left_out) in [(true, &[LeftOut::Steered][..]), (false, &[])] {
        let orchestrator = builder(model()).build().unwrap();
        let request = UserRequest::new("s".parse().unwrap(), "Rain?");
        let (handle, _) = orchestrator.stream(request).await.unwrap();
        tokio::time::sleep(second).await;
        handle.steer("And in Dutch.").unwrap();
        if !is_heard {
            tokio::time::sleep(second).await;
            handle.cancel("enough").unwrap();
        }
        handle.result().await.unwrap();
        let records = handle.records();
        assert_eq!(Case::left_out(&Transcript::default(), &records), left_out);
    }
}
