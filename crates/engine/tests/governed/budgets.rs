//! Budgets of sessions and days over several runs: cost by a table of prices, and active time.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    ApprovalDecision, BudgetKind, Channel, FinishReason, LlmError, LlmErrorKind, MicroUsd, Mode,
    ModelRef, PlanName, RunStatus, SessionMetrics, TokenCount, ToolFailure, Turn, Usage,
};
use neuraxis_engine::{
    AnswerSchema, ForkOptions, ImportError, Sessions, UnfinishedRuns, UserRequest,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::SessionIndex as _;
use neuraxis_testkit::{Act, ScriptedApprover, ScriptedTool, reply, spec};

use crate::support::{Ran, World, later, nobody, session};

/// A token costs a millionth of a dollar.
const PRICES: &str = "[prices.'testkit/*']\nprompt = 1.0\ncompletion = 1.0\n";

fn world(policy: &str, approver: ScriptedApprover) -> World {
    let hang = ScriptedTool::always(spec("hang").read_only(), Act::hanging());
    World::with(&format!("{PRICES}{policy}"), approver, |builder| {
        builder
            .default_plan(PlanName::new("team"))
            .tool(Arc::new(hang))
    })
}

/// Requests an answer that costs the given number of millionths of a dollar.
async fn ask(world: &World, session: &str, cost: u64) -> Ran {
    world
        .model
        .push(reply::using(reply::text("Done."), cost, 0));
    world.ask(session, Mode::EXPLORATORY).await
}

async fn used(store: &MemoryStore) -> SessionMetrics {
    store.metrics(&session("s")).await.unwrap()
}

#[tokio::test]
async fn the_cost_budget_of_a_session_counts_the_costs_of_its_runs() {
    let world = world("[plans.team.session]\nmax_cost_micro_usd = 50", nobody());
    for cost in [20, 30] {
        let ran = ask(&world, "s", cost).await;
        assert_eq!(ran.result.finish_reason, Some(FinishReason::Stop), "{cost}");
    }
    assert_eq!(used(&world.store).await.cost, MicroUsd(50));
    let refused = world.ask("s", Mode::EXPLORATORY).await;
    let money = Some(FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(refused.result.finish_reason, money);
    assert!(
        refused
            .result
            .reply
            .contains("this session's budget of money"),
        "{}",
        refused.result.reply
    );
    assert_eq!(world.model.calls().len(), 2, "no model is asked");
    let other = ask(&world, "t", 20).await;
    assert_eq!(other.result.finish_reason, Some(FinishReason::Stop));
}

#[tokio::test]
async fn the_daily_cost_budget_covers_all_sessions_and_renews_the_next_day() {
    let world = world("[plans.team.day]\nmax_cost_micro_usd = 50", nobody());
    for (session, cost) in [("s", 20), ("t", 30)] {
        let ran = ask(&world, session, cost).await;
        assert_eq!(ran.result.finish_reason, Some(FinishReason::Stop), "{cost}");
    }
    let refused = world.ask("u", Mode::EXPLORATORY).await;
    let money = Some(FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(refused.result.finish_reason, money);
    assert!(
        refused.result.reply.contains("today's budget of money"),
        "{}",
        refused.result.reply
    );
    world.clock.advance(Duration::from_secs(86_400));
    let next_day = ask(&world, "u", 20).await;
    assert_eq!(next_day.result.finish_reason, Some(FinishReason::Stop));
}

#[tokio::test]
async fn a_fork_cannot_exceed_the_rest_of_the_daily_budget() {
    let world = world("[plans.team.day]\nmax_cost_micro_usd = 50", nobody());
    let ran = ask(&world, "s", 50).await;
    let options = ForkOptions::new(session("fork")).message("And then?");
    let runs = world.orchestrator.runs();
    let fork = runs.fork(ran.result.run_id, Turn(9), options).await;
    let forked = fork.unwrap().result().await.unwrap();
    let money = Some(FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(forked.finish_reason, money);
    assert_eq!(world.model.calls().len(), 1, "no model is asked");
}

#[tokio::test]
async fn a_resumed_run_cannot_exceed_the_rest_of_the_daily_budget() {
    for (others, is_over) in [(5, false), (49, true)] {
        let policy = "[plans.team.day]\nmax_cost_micro_usd = 50";
        let world = world(policy, later(1));
        let calls = reply::calls([("put", "{}")]);
        world.model.push(reply::using(calls, 1, 0));
        let waiting = world.ask("s", Mode::MODERATE).await;
        assert_eq!(waiting.result.status, RunStatus::Waiting);
        let other = ask(&world, "t", others).await;
        assert_eq!(other.result.finish_reason, Some(FinishReason::Stop));

        world.model.push(reply::using(reply::text("Done."), 1, 0));
        let asked = world.orchestrator.approvals().list().await.unwrap();
        world.decide(&asked[0], ApprovalDecision::APPROVE).await;

        let records = world.records_of(&waiting).await;
        let kinds: Vec<_> = records.iter().map(|record| record.body.kind()).collect();
        assert_eq!(kinds.last(), Some(&"final"), "{kinds:?}");
        assert_eq!(kinds.contains(&"limit_reached"), is_over, "{kinds:?}");
        assert_eq!(world.tools.put.count(), 1, "a person allowed it");
    }
}

#[tokio::test]
async fn a_resumed_run_with_a_smaller_budget_does_not_repeat_open_approvals() {
    let world = world("[plans.team.day]\nmax_cost_micro_usd = 50", later(2));
    let calls = reply::calls([("put", r#"{"n":1}"#), ("put", r#"{"n":2}"#)]);
    world.model.push(reply::using(calls, 1, 0));
    world.ask("s", Mode::MODERATE).await;
    ask(&world, "t", 5).await;

    world.model.push(reply::using(reply::text("Done."), 1, 0));
    let asked = world.orchestrator.approvals().list().await.unwrap();
    world.decide(&asked[0], ApprovalDecision::APPROVE).await;
    let left = world.orchestrator.approvals().list().await.unwrap();
    assert_eq!(left.len(), 1, "the other question is still open");
    world.decide(&left[0], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.put.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn usage_of_a_run_stopped_at_its_deadline_counts() {
    let policy =
        "[modes.exploratory]\ndeadline = '20s'\n[plans.team.session]\nmax_cost_micro_usd = 200";
    let world = world(policy, nobody());
    let calls = reply::calls([("hang", "{}")]);
    world.model.push(reply::using(calls, 40, 0));
    let ran = ask(&world, "s", 160).await;
    assert_eq!(ran.result.finish_reason, Some(FinishReason::Deadline));
    assert_eq!(
        ran.results()[0].duration,
        None,
        "nobody said how long it took"
    );
    let used = used(&world.store).await;
    assert_eq!((used.llm_calls, used.tool_calls), (2, 1));
    assert_eq!(used.cost, MicroUsd(200));
    let worked = used.worked.as_secs();
    assert!((10..=20).contains(&worked), "{worked} s");
    let refused = world.ask("s", Mode::EXPLORATORY).await;
    let money = Some(FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(refused.result.finish_reason, money);
}

#[tokio::test]
async fn a_reply_from_another_model_is_priced_as_the_requested_model() {
    let policy = "[prices.'testkit/scripted']\nprompt = 1.0\ncompletion = 0.0\n\
                  [prices.'testkit/*']\nprompt = 0.1\ncompletion = 0.0\n\
                  [plans.team.session]\nmax_cost_micro_usd = 50";
    let world = World::with(policy, nobody(), |builder| {
        builder.default_plan(PlanName::new("team"))
    });
    for (model, cost) in [("scripted-2026-11-01", 20), ("eu.other", 30)] {
        let mut answer = reply::using(reply::text("Done."), cost, 0);
        answer.model = ModelRef::new("testkit", model);
        world.model.push(answer);
        let ran = world.ask("s", Mode::EXPLORATORY).await;
        assert_eq!(ran.result.cost, Some(MicroUsd(cost)), "{model}");
    }
    let refused = world.ask("s", Mode::EXPLORATORY).await;
    let money = Some(FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(refused.result.finish_reason, money);
}

#[tokio::test]
async fn a_failed_attempt_costs_the_usage_its_provider_reports() {
    let world = world("[plans.team.session]\nmax_cost_micro_usd = 50", nobody());
    let usage = Usage {
        prompt: TokenCount::measured(50),
        ..Usage::default()
    };
    let refusal = LlmError::new(LlmErrorKind::ContentFiltered, "no").with_usage(usage);
    world.model.push(refusal);
    let failed = world.ask("s", Mode::EXPLORATORY).await;
    assert_eq!(failed.result.status, RunStatus::Failed);
    let used = used(&world.store).await;
    assert_eq!((used.llm_failures, used.cost), (1, MicroUsd(50)));
    let refused = world.ask("s", Mode::EXPLORATORY).await;
    let money = Some(FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(refused.result.finish_reason, money);
}

#[tokio::test]
async fn calls_that_never_ran_use_none_of_the_session_s_tool_calls() {
    let world = world("[plans.team.session]\nmax_tool_calls = 2", nobody());
    let calls = [("nonsense", "{}"), ("look", "no JSON")];
    let ran = world.calls(Mode::EXPLORATORY, &calls).await;
    let results = ran.results();
    let failures: Vec<_> = results.iter().map(|result| result.failure).collect();
    let (unknown, invalid) = (ToolFailure::UnknownTool, ToolFailure::InvalidArguments);
    assert_eq!(failures, [Some(unknown), Some(invalid)]);
    let before = used(&world.store).await;
    assert_eq!((before.tool_calls, before.counted_tool_calls()), (2, 0));
    let ran = world.calls(Mode::EXPLORATORY, &[("look", "{}")]).await;
    assert_eq!(ran.result.finish_reason, Some(FinishReason::Stop));
    let after = used(&world.store).await;
    assert_eq!((after.tool_calls, after.counted_tool_calls()), (3, 1));
}

#[tokio::test]
async fn a_call_that_delivers_the_answer_uses_none_of_the_session_s_tool_calls() {
    let world = world("[plans.team.session]\nmax_tool_calls = 1", nobody());
    let schema = r#"{"title":"Place","type":"object","required":["city"],
        "properties":{"city":{"type":"string"}}}"#;
    for answer in [r#"{"city":"Delft"}"#, r#"{"city":"Gouda"}"#] {
        world.model.push(reply::calls([("final_answer", answer)]));
        let request = UserRequest::new(session("s"), "Where do I live?")
            .mode(Mode::EXPLORATORY)
            .channel(Channel::CODE_TASK)
            .answer(AnswerSchema::from_json(schema).unwrap());
        let (handle, _) = world.orchestrator.stream(request).await.unwrap();
        let result = handle.result().await.unwrap();
        assert_eq!(result.finish_reason, Some(FinishReason::Stop));
        assert_eq!(result.reply, answer);
    }
    let used = used(&world.store).await;
    assert_eq!((used.tool_calls, used.counted_tool_calls()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn session_time_excludes_waiting_for_approval_and_is_the_same_after_import() {
    let world = world("[plans.team.session]\nmax_time = '20s'", later(1));
    world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    tokio::time::advance(Duration::from_secs(3_600)).await;
    world.clock.advance(Duration::from_secs(3_600));
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.put.count(), 1);
    let before = used(&world.store).await;
    assert!(
        before.worked < Duration::from_secs(1),
        "{:?}",
        before.worked
    );
    world.model.push(reply::calls([("hang", "{}")]));
    let stopped = ask(&world, "s", 1).await;
    assert_eq!(stopped.result.finish_reason, Some(FinishReason::Deadline));
    let used_here = used(&world.store).await;
    assert!(
        used_here.worked > Duration::from_secs(10),
        "{:?}",
        used_here.worked
    );

    let mut archive = Vec::new();
    let here = Sessions::new(world.store.clone());
    here.export(&session("s"), &mut archive).await.unwrap();
    let elsewhere = Arc::new(MemoryStore::new());
    let (kept, nobody) = (Sessions::new(elsewhere.clone()), async |_: &_| {
        Ok::<_, ImportError>(())
    });
    let mut archive = Cursor::new(archive);
    let imported = kept.import(&mut archive, UnfinishedRuns::Refused, nobody);
    imported.await.unwrap();
    assert_eq!(used(&elsewhere).await, used_here);
}
