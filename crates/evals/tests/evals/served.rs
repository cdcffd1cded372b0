//! Runs that say nothing about the agent or role that a case asks for: another role answered, an agent got no answer
//! from its model, or a budget was used up.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{LlmError, LlmErrorKind, Mode, PlanName, Role};
use neuraxis_engine::{Agent, Orchestrator, OrchestratorBuilder};
use neuraxis_evals::{Case, CaseStatus, Check, Evals, Report, Source, judge};
use neuraxis_memory::MemoryStore;
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};

use crate::{asked, builder, found};

fn down() -> LlmError {
    LlmError::new(LlmErrorKind::Connection, "gone")
}

/// Returns an orchestrator whose first role's model fails for this text, while the second role's model says yes.
fn flaky(silent: &'static str) -> OrchestratorBuilder {
    let first = ScriptedModel::answering(move |request| -> Script {
        match asked(request).contains(silent) {
            true => down().into(),
            false => reply::text("yes").into(),
        }
    });
    let judgment = r#"{"reason":"It does.","passed":true}"#;
    let other = ScriptedModel::answering(move |request| match asked(request).contains("rubric") {
        true => reply::text(judgment),
        false => reply::text("yes"),
    });
    let policy = "channels.chat.simple_role = 'reasoning'\n\
        modes.conservative.roles = ['reasoning', 'coding']\n";
    let policy = Policy::layered(PolicyConfig::from_toml(policy).unwrap()).unwrap();
    builder(first)
        .model(Role::CODING, Arc::new(other))
        .policy(policy)
}

fn error(report: &Report, case: usize) -> &str {
    let attempt = &report.cases[case].attempts[0];
    attempt.error.as_deref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_answered_by_a_fallback_role_is_an_error_with_the_reason() {
    let orchestrator = flaky("down").build().unwrap();
    let yes = || Check::exact("yes");
    let named = Case::new("named", "down").check(yes());
    let chosen = Case::new("chosen", "down").check(yes());
    let cases = [
        Case::new("fine", "up").check(yes()),
        named.role(Role::REASONING),
        chosen.check(Check::finish_reason(&neuraxis_core::FinishReason::Stop)),
    ];
    let report = Evals::new(&orchestrator).jobs(1).run(&cases).await;
    let statuses: Vec<_> = report.cases.iter().map(|case| case.status).collect();
    let expected = [CaseStatus::Passed, CaseStatus::Error, CaseStatus::Error];
    assert_eq!(statuses, expected, "{report}");
    for case in [1, 2] {
        let told = error(&report, case);
        let expected = "coding serves instead of reasoning: ";
        assert!(told.starts_with(expected), "{told}");
    }
    // A case about the stored run checks what actually happened.
    let run = report.cases[1].attempts[0].run_id.unwrap();
    let stored = Case::of("stored", Source::Run(run.to_string())).check(yes());
    let report = Evals::new(&orchestrator).run(&[stored]).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_judgment_by_a_fallback_role_is_an_error() {
    let orchestrator = flaky("rubric").agent(judge().unwrap()).build().unwrap();
    let case = Case::new("a", "Hello?").check(Check::judge("It greets."));
    let report = Evals::new(&orchestrator).run(&[case]).await;
    assert_eq!(report.cases[0].status, CaseStatus::Error, "{report}");
    let told = found(&report)[0].message.as_deref().unwrap();
    let expected = "the judge gave no judgment: coding serves instead of reasoning: ";
    assert!(told.starts_with(expected), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_with_a_failing_model_is_an_error_unless_a_check_expects_failed_calls() {
    let helper = || {
        let helper = Agent::builder("helper").instructions("You help.");
        helper.tools_named::<String>([]).build().unwrap()
    };
    let model = || {
        ScriptedModel::answering(|request| -> Script {
            match asked(request).as_str() {
                "Help me" => reply::calls([("helper", r#"{"task":"it"}"#)]).into(),
                "it" => LlmError::new(LlmErrorKind::Unauthorized, "no such key").into(),
                _ => reply::text("I cannot help.").into(),
            }
        })
    };
    let called = || Check::tool_called("helper");
    for (check, status) in [
        (called(), CaseStatus::Error),
        (called().succeeded(true), CaseStatus::Error),
        (called().succeeded(false), CaseStatus::Passed),
    ] {
        let orchestrator = builder(model()).agent_tool(helper()).build().unwrap();
        let case = Case::new("a", "Help me").check(check);
        let case = case.mode(Mode::EXPLORATORY);
        let report = Evals::new(&orchestrator).run(&[case]).await;
        assert_eq!(report.cases[0].status, status, "{report}");
        if status == CaseStatus::Error {
            let told = error(&report, 0);
            assert!(
                told.starts_with("an agent that was called failed: "),
                "{told}"
            );
            assert!(told.contains("no such key"), "{told}");
        }
    }
}

#[tokio::test]
async fn a_run_without_remaining_budget_is_an_error_whatever_checks_expect() {
    let policy = "plans.suite.day = { max_tokens = 100000 }\n";
    let policy = Policy::layered(PolicyConfig::from_toml(policy).unwrap()).unwrap();
    let model = ScriptedModel::always(reply::using(reply::text("yes"), 200_000, 0));
    let orchestrator = builder(model).policy(policy).build().unwrap();
    let budget = neuraxis_core::FinishReason::Budget(neuraxis_core::BudgetKind::Tokens);
    let cases = [
        ("fine", Check::exact("yes")),
        ("late", Check::exact("yes")),
        ("wanted", Check::finish_reason(&budget)),
    ]
    .map(|(name, check)| {
        let mut case = Case::new(name, "Hello").check(check);
        case.plan = Some(PlanName::new("suite"));
        case
    });
    let report = Evals::new(&orchestrator).jobs(1).run(&cases).await;
    let statuses: Vec<_> = report.cases.iter().map(|case| case.status).collect();
    let expected = [CaseStatus::Passed, CaseStatus::Error, CaseStatus::Error];
    assert_eq!(statuses, expected, "{report}");
    for case in [1, 2] {
        let told = error(&report, case);
        assert!(told.starts_with("no model was asked: "), "{told}");
        assert!(told.contains("today's budget"), "{told}");
    }
}

#[tokio::test]
async fn a_case_naming_a_tool_server_without_tools_is_an_error_and_calls_no_model() {
    let refund = || Check::tool_not_called("shop__refund");
    for (tool, status) in [
        ("bank__pay", CaseStatus::Error),
        ("shop__pay", CaseStatus::Passed),
    ] {
        let model = Arc::new(ScriptedModel::always(reply::text("yes")));
        let orchestrator = Orchestrator::builder()
            .model(Role::REASONING, model.clone())
            .tool(Arc::new(ScriptedTool::echoing(spec(tool))))
            .store(Arc::new(MemoryStore::default()))
            .build()
            .unwrap();
        let case = Case::new("a", "Hello").check(refund());
        let report = Evals::new(&orchestrator).run(&[case]).await;
        assert_eq!(report.cases[0].status, status, "{report}");
        if status == CaseStatus::Error {
            let told = error(&report, 0);
            assert!(
                told.contains("tool server shop currently has no tools"),
                "{told}"
            );
            assert!(model.calls().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_case_that_must_fail_is_failed_even_if_some_attempts_or_checks_are_errors() {
    let model = |answers: [&'static str; 3]| {
        let scripts = answers.map(|answer| match answer {
            "" => Script::from(LlmError::new(
                LlmErrorKind::Unauthorized,
                "the key is wrong",
            )),
            answer => reply::text(answer).into(),
        });
        let model = ScriptedModel::new();
        scripts.into_iter().fold(model, ScriptedModel::then)
    };
    for (answers, status) in [
        (["", "no", "no"], CaseStatus::Failed),
        (["", "yes", "no"], CaseStatus::Error),
        (["", "yes", "yes"], CaseStatus::Passed),
    ] {
        let case = Case::new("a", "Hello").check(Check::exact("yes"));
        let orchestrator = builder(model(answers)).build().unwrap();
        let evals = Evals::new(&orchestrator).jobs(1);
        let report = evals.run(&[case.repeat(3).pass_rate(0.6)]).await;
        assert_eq!(report.cases[0].status, status, "{report}");
        if status == CaseStatus::Failed {
            assert!(
                report.cases[0].reasons()[0].starts_with("exact"),
                "{report}"
            );
        }
    }
    // Without the judging agent there is no judgment.
    let case = Case::new("a", "Hello").check(Check::judge("It greets."));
    let model = ScriptedModel::always(reply::text("no"));
    let report = crate::run(model, case.check(Check::exact("yes"))).await;
    assert_eq!(report.cases[0].status, CaseStatus::Failed, "{report}");
}
