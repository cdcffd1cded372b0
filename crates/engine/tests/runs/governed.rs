//! What a decision requires in addition to models, tools and limits: clarifying questions, budgets of sessions and
//! days, choice of the role, checks of drafts, escalation, prices.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    BudgetKind, Channel, FinishReason, LlmError, LlmErrorKind, MicroUsd, Mode, PlanName,
    PromptReason, RecordBody, Role, RunStatus,
};
use neuraxis_engine::{
    ClientInput, Orchestrator, OrchestratorBuilder, RetryPolicy, StepType, UserRequest,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::SessionIndex as _;
use neuraxis_testkit::{
    Act, CallMode, ScriptedModel, ScriptedTool, VirtualClock, assert_paired, reply, spec,
};

use crate::support::{
    FinishedRun, builder, failing_store, history, policy, request, run_to_end, session,
};

fn governed(model: ScriptedModel, more: &str) -> OrchestratorBuilder {
    builder(model).policy(policy(more))
}

fn with_plan(message: &str) -> UserRequest {
    let mut request = request(message);
    request.plan = Some(PlanName::new("team"));
    request
}

fn step_types(finished: &FinishedRun) -> Vec<StepType> {
    finished.result.steps.iter().map(|step| step.kind).collect()
}

#[test]
fn an_unknown_default_plan_is_refused_at_build() {
    let of = |plan| {
        let builder = governed(ScriptedModel::new(), "[plans.team]\nmax_turns = 3");
        builder.default_plan(PlanName::new(plan)).build()
    };
    assert!(of("team").is_ok());
    assert_eq!(
        of("teem").unwrap_err().to_string(),
        "`default_plan` names plan teem, which the policy does not have; its plans are: basic, full, team"
    );
}

#[tokio::test]
async fn a_vague_first_request_is_answered_with_a_question() {
    let model = Arc::new(ScriptedModel::new().then(reply::text("Done.")));
    let store = Arc::new(MemoryStore::new());
    let orchestrator = builder(model.clone())
        .policy(policy("channels.chat.clarify = 'vague'"))
        .store(store.clone())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("Fix it, please!")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Clarify));
    assert!(
        finished
            .result
            .reply
            .ends_with("describe the result you expect."),
        "{}",
        finished.result.reply
    );
    assert_eq!(finished.kinds(), ["run_started", "decision", "final"]);
    assert_eq!(model.calls().len(), 0);
    // From then on, the conversation makes clear what is meant.
    let again = run_to_end(&orchestrator, request("Fix it, please!")).await;
    assert_eq!(again.result.reply, "Done.");
    assert_eq!(
        model.requests()[0].messages.len(),
        3 + 1,
        "system prompt, question, answer, request"
    );
    assert_paired(history(store.as_ref()).await.messages());
}

#[tokio::test]
async fn a_used_up_session_budget_ends_runs_with_an_answer() {
    for (limit, kind) in [
        ("max_tokens = 15", BudgetKind::Tokens),
        ("max_cost_micro_usd = 30", BudgetKind::Cost),
        ("max_tool_calls = 1", BudgetKind::ToolCalls),
        ("max_time = '1ms'", BudgetKind::Time),
    ] {
        let model = ScriptedModel::new()
            .then(reply::using(reply::calls([("look", "{}")]), 0, 0))
            .then(reply::using(reply::text("fine"), 10, 5));
        let slow = Act::value("1").after(Duration::from_millis(5));
        let look = ScriptedTool::always(spec("look").read_only(), slow);
        let prices = "prices.'testkit/*' = { prompt = 2.0, completion = 2.0 }\n";
        let plan = format!("{prices}plans.team.session = {{ {limit} }}\n");
        let orchestrator = governed(model, &plan).tool(Arc::new(look)).build().unwrap();
        let first = run_to_end(&orchestrator, with_plan("first")).await;
        assert_eq!(
            first.result.status,
            RunStatus::Done,
            "{limit}: {:?}",
            first.result
        );
        let ended = Some(FinishReason::Budget(kind));
        if kind == BudgetKind::Time {
            // The rest of the session's time is the run's deadline: the tool was stopped when that was over.
            assert_eq!(first.result.finish_reason, Some(FinishReason::Deadline));
        }
        let second = run_to_end(&orchestrator, with_plan("second")).await;
        second.assert_valid(RunStatus::Done);
        assert_eq!(second.result.finish_reason, ended, "{limit}");
        assert!(
            second.result.reply.contains("this session's budget"),
            "{}",
            second.result.reply
        );
        assert_eq!(
            second.kinds(),
            ["run_started", "decision", "limit_reached", "final"]
        );
        assert_eq!(step_types(&second), [StepType::Warning]);
    }
}

#[tokio::test]
async fn a_used_up_daily_budget_is_available_again_the_next_day() {
    let clock = Arc::new(VirtualClock::new());
    let model = ScriptedModel::always(reply::using(reply::text("fine"), 10, 5));
    let orchestrator = governed(model, "plans.team.day = { max_tokens = 15 }\n")
        .clock(clock.clone())
        .build()
        .unwrap();
    let ask = async |session: &str| {
        let mut request = with_plan("Hello there");
        request.session_id = session.parse().unwrap();
        orchestrator.handle(request).await.unwrap()
    };
    assert_eq!(ask("one").await.reply, "fine");
    // The daily budget covers all sessions of the same owner.
    let refused = ask("two").await;
    assert_eq!(
        refused.finish_reason,
        Some(FinishReason::Budget(BudgetKind::Tokens))
    );
    assert!(
        refused.reply.contains("come back after midnight UTC"),
        "{}",
        refused.reply
    );
    clock.advance(Duration::from_secs(86_400));
    assert_eq!(ask("two").await.reply, "fine");
}

#[tokio::test]
async fn without_a_budget_the_store_is_not_queried_for_usage() {
    let store = failing_store();
    let hang = || neuraxis_testkit::Fault::Hang;
    store.fail_next(neuraxis_testkit::StoreOperation::Metrics, hang());
    store.fail_next(neuraxis_testkit::StoreOperation::UsageSince, hang());
    let model = ScriptedModel::always(reply::text("fine"));
    let orchestrator = governed(model, "plans.team.max_turns = 4\n")
        .store(store)
        .build()
        .unwrap();
    for text in ["first", "second"] {
        assert_eq!(
            run_to_end(&orchestrator, with_plan(text))
                .await
                .result
                .reply,
            "fine"
        );
    }
}

#[tokio::test]
async fn a_run_cannot_cost_more_than_its_plan_allows() {
    let model = ScriptedModel::answering(|request| {
        let reply = if request.tool_choice == neuraxis_core::ToolChoice::None {
            reply::text("what I have")
        } else {
            reply::calls([("look", "{}")])
        };
        reply::using(reply, 10, 0)
    });
    let look = ScriptedTool::echoing(spec("look").read_only());
    let more = "prices.'testkit/*' = { prompt = 1.0, completion = 0.0 }\nplans.team.max_cost_micro_usd = 45\n";
    let orchestrator = governed(model, more).tool(Arc::new(look)).build().unwrap();
    let finished = run_to_end(&orchestrator, with_plan("first")).await;
    finished.assert_valid(RunStatus::Done);
    let reason = Some(FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(
        (
            finished.result.finish_reason.clone(),
            finished.result.reply.as_str()
        ),
        (reason, "what I have")
    );
    let costs = finished
        .records()
        .into_iter()
        .filter_map(|record| match &record.body {
            RecordBody::LlmCall(call) => Some(call.cost),
            _ => None,
        });
    let costs: Vec<_> = costs.collect();
    assert!(
        costs.iter().all(|cost| *cost == Some(MicroUsd(10))),
        "{costs:?}"
    );
    assert!(costs.len() <= 4, "{costs:?}");
}

#[tokio::test]
async fn without_a_price_the_cost_of_a_call_is_unknown() {
    let orchestrator = governed(ScriptedModel::always(reply::text("fine")), "")
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("first")).await;
    let unknown = |record: &std::sync::Arc<neuraxis_core::Record>| matches!(&record.body, RecordBody::LlmCall(call) if call.cost.is_none());
    assert!(finished.records().iter().any(unknown));
}

#[tokio::test]
async fn a_model_can_choose_the_role_that_serves() {
    let router = Arc::new(ScriptedModel::new().then(reply::text("coding")));
    let coder = Arc::new(ScriptedModel::new().then(reply::text("fn main() {}")));
    let orchestrator = governed(ScriptedModel::new(), "channels.chat.router = 'router'\n")
        .model(Role::ROUTER, router.clone())
        .model(Role::CODING, coder)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("Write a program.")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "fn main() {}");
    assert_eq!(
        step_types(&finished),
        [StepType::LlmCall, StepType::LlmCall]
    );
    assert_eq!(router.calls()[0].mode, CallMode::Whole);
}

#[tokio::test]
async fn a_failing_router_leaves_the_choice_to_the_rules() {
    let router = ScriptedModel::always(LlmError::new(LlmErrorKind::Unauthorized, "no"));
    let answers = ScriptedModel::always(reply::text("fine"));
    let orchestrator = governed(answers, "channels.chat.router = 'router'\n")
        .model(Role::ROUTER, Arc::new(router))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("Write a program.")).await;
    assert_eq!(finished.result.reply, "fine");
    assert_eq!(
        step_types(&finished),
        [StepType::Warning, StepType::LlmCall]
    );
}

#[tokio::test]
async fn a_draft_is_checked_by_one_call_and_is_not_streamed() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::text("It is 41."))
            .then(reply::text("It is 42.")),
    );
    let store = Arc::new(MemoryStore::new());
    let orchestrator = governed(
        ScriptedModel::new(),
        "channels.chat.self_check = 'always'\n",
    )
    .model(Role::REASONING, model.clone())
    .store(store.clone())
    .build()
    .unwrap();
    let finished = run_to_end(&orchestrator, request("What is it?")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "It is 42.");
    assert_eq!(
        step_types(&finished),
        [StepType::LlmCall, StepType::LlmCall, StepType::Summary]
    );
    assert!(
        model
            .calls()
            .iter()
            .all(|call| call.mode == CallMode::Whole)
    );
    let live = finished
        .events
        .iter()
        .any(|event| matches!(event, neuraxis_engine::Event::Live(_)));
    assert!(!live, "a draft was shown");
    let told = history(store.as_ref()).await;
    let texts: Vec<_> = told
        .messages()
        .iter()
        .map(|message| message.text())
        .collect();
    assert_eq!(texts, ["What is it?", "It is 42."]);
}

#[tokio::test]
async fn a_role_named_by_the_request_checks_its_own_draft_and_is_not_escalated() {
    let more = "channels.chat.self_check = 'always'\n\
                channels.chat.escalate = { role = 'coding', after_failures = 1 }\n";
    let coder = Arc::new(
        ScriptedModel::new()
            .then(reply::text("It is 41."))
            .then(reply::text("It is 42.")),
    );
    let orchestrator = governed(ScriptedModel::new(), more)
        .model(Role::CODING, coder.clone())
        .build()
        .unwrap();
    let named = request("What is it?").with_client_input(ClientInput::default().role(Role::CODING));
    let finished = run_to_end(&orchestrator, named).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "It is 42.");
    assert_eq!(coder.calls().len(), 2);
    let records = finished.records();
    let decided = records.iter().find_map(|record| match &record.body {
        RecordBody::Decision(decision) => Some(decision),
        _ => None,
    });
    let decision = decided.unwrap();
    assert_eq!(decision.escalation, None);
    let reason = "Role coding serves, because the request asks for it.";
    assert!(
        decision.reasons.iter().any(|told| told == reason),
        "{:?}",
        decision.reasons
    );
}

#[tokio::test]
async fn a_failing_check_keeps_the_draft() {
    let model = ScriptedModel::new()
        .then(reply::text("It is 42."))
        .then(LlmError::new(LlmErrorKind::BadRequest, "no"));
    let orchestrator = governed(model, "channels.chat.self_check = 'always'\n")
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("What is it?")).await;
    assert_eq!(finished.result.reply, "It is 42.");
    assert_eq!(
        step_types(&finished),
        [StepType::LlmCall, StepType::Warning]
    );
}

#[tokio::test]
async fn repeated_failures_escalate_to_a_larger_role_and_then_to_the_user() {
    let failing = || ScriptedModel::always(LlmError::new(LlmErrorKind::BadRequest, "too hard"));
    let escalate =
        "channels.chat.escalate = { role = 'coding', after_failures = 1, person = true }\n";
    let answers = |coding: ScriptedModel| {
        let builder = governed(failing(), escalate).retry(RetryPolicy::never());
        builder
            .model(Role::CODING, Arc::new(coding))
            .build()
            .unwrap()
    };
    let served = answers(ScriptedModel::always(reply::text("fine")));
    let finished = run_to_end(&served, request("first")).await;
    assert_eq!(finished.result.reply, "fine");
    let escalated = &finished.result.steps[1];
    assert_eq!(
        escalated.description,
        "coding takes over after 1 failures in a row".into()
    );
    assert_eq!(escalated.metadata.get("to").unwrap(), "coding");
    let finished = run_to_end(&answers(failing()), request("first")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Clarify));
    assert!(
        finished.result.reply.contains("tell me how to continue"),
        "{}",
        finished.result.reply
    );
}

#[tokio::test]
async fn a_role_without_a_model_is_served_by_an_allowed_one_without_downgrade() {
    let coder = Arc::new(ScriptedModel::always(reply::text("fine")));
    let orchestrator = Orchestrator::builder()
        .model(Role::CODING, coder)
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    // If there is only one model, it serves all roles that may serve.
    let asked = UserRequest::new(session(), "What time is it?").mode(Mode::MODERATE);
    let finished = run_to_end(&orchestrator, asked).await;
    assert_eq!(finished.result.reply, "fine");
    assert!(!finished.kinds().contains(&"role_downgraded"));
}

#[tokio::test]
async fn a_mode_without_a_model_for_its_roles_is_refused() {
    let coder = Arc::new(ScriptedModel::always(reply::text("fine")));
    let store = Arc::new(MemoryStore::new());
    let orchestrator = Orchestrator::builder()
        .model(Role::CODING, coder.clone())
        .store(store.clone())
        .build()
        .unwrap();
    let asked = UserRequest::new(session(), "What time is it?").mode(Mode::CONSERVATIVE);
    let refused = orchestrator.stream(asked).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no model for channel chat in mode conservative: the roles that may serve are reasoning, router, and those with a model are coding"
    );
    assert_eq!(coder.calls().len(), 0);
    let no_session = store.session(&session()).await;
    assert!(
        no_session.is_err(),
        "a refused request leaves nothing behind"
    );
}

#[tokio::test]
async fn a_sub_agent_gets_no_more_than_the_request_that_starts_it() {
    let helper = crate::support::helper("helper", &["look", "change"])
        .max_output_tokens(100_000)
        .max_turns(99)
        .build()
        .unwrap();
    let orchestrator = governed(ScriptedModel::always(reply::text("fine")), "")
        .model(Role::CODING, Arc::new(ScriptedModel::new()))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .tool(Arc::new(ScriptedTool::echoing(spec("change"))))
        .agent_tool(helper)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("first").mode(Mode::CONSERVATIVE)).await;
    let RecordBody::RunStarted(started) = &finished.records()[0].body else {
        panic!("a log begins with its start")
    };
    let helper = &started.spec.agents.values().next().unwrap();
    assert_eq!(
        helper.role,
        Role::REASONING,
        "coding may not serve in this mode"
    );
    let tools: Vec<_> = helper.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["look", "read_output"]);
    assert_eq!(helper.limits.max_turns, Some(3));
    assert_eq!(helper.max_output_tokens, Some(1_024));
}

#[tokio::test]
async fn the_main_thread_digests_more_than_two_results_and_the_supervisor_does_not() {
    for (channel, calls, digests) in [
        (Channel::CHAT, 2, 0),
        (Channel::CHAT, 3, 1),
        (Channel::CODE_TASK, 3, 1),
        (Channel::DEEP_RESEARCH, 3, 0),
    ] {
        let zones = [r#"{"zone":"a"}"#, r#"{"zone":"b"}"#, r#"{"zone":"c"}"#];
        let looks = zones.into_iter().take(calls);
        let model = ScriptedModel::new()
            .then(reply::calls(looks.map(|zone| ("current_time", zone))))
            .then(reply::text("So it is."))
            .then(reply::text("So it is."));
        let tool = ScriptedTool::echoing(spec("current_time").read_only());
        let orchestrator = governed(model, "").tool(Arc::new(tool)).build().unwrap();
        let finished = run_to_end(
            &orchestrator,
            request("Look around").channel(channel.clone()),
        )
        .await;
        let records = finished.records();
        let injected = records.iter().filter_map(|record| match &record.body {
            RecordBody::PromptInjected(injected) => Some(injected.reason),
            _ => None,
        });
        let digest = injected.filter(|reason| *reason == PromptReason::DigestResults);
        assert_eq!(digest.count(), digests, "{channel}, {calls}");
    }
}
