//! Rule 10 for calls, tokens and money: one tree of budgets, a reserve for the last answer, and nothing resets them.

use std::time::Duration;

use neuraxis_core::{
    Attempt, BudgetKind, CountLabel, FinishReason, Input, LimitKind, LlmError, LlmErrorKind,
    MicroUsd, ModelFailed, NextAttempt, Purpose, RecordBody, Reply, RunSpec, ToolFailure,
    Transcript, Usage,
};

use crate::support::*;

/// The assumed size of the first model call of [`measured`]: 12 bytes of English, the overhead of a message, the tool
/// definitions and the reply.
const FIRST_CALL: u64 = 3 + 4 + DEFINITIONS + 50;

/// A run whose model replies are assumed to have 50 tokens each.
fn measured(change: impl FnOnce(&mut RunSpec)) -> RunSpec {
    let mut spec = researching();
    spec.root.max_output_tokens = Some(50);
    let researcher = researcher(&mut spec);
    researcher.max_output_tokens = Some(50);
    researcher.system_prompt = None;
    change(&mut spec);
    spec
}

/// How a run is limited, and the limit in its record and in its finish reason.
type Limited = (fn(&mut RunSpec), BudgetKind);

fn limit_of(run: &Script) -> LimitKind {
    let RecordBody::LimitReached(reached) = &run.recorded("limit_reached").last().unwrap().body
    else {
        panic!("a limit")
    };
    reached.limit
}

/// Answers the last model call, at a cost.
fn reply_for(run: &mut Script, agent: u32, reply: Reply, cost: u64) {
    let mut input = run.replied_to(run.call_of(agent), reply);
    if let Input::ModelReplied(input) = &mut input {
        input.cost = Some(MicroUsd(cost));
    }
    run.send(input);
}

#[test]
fn tool_calls_of_sub_agents_count_for_all_agents_above_them() {
    let mut spec = researching();
    spec.root.limits.max_tool_calls = Some(3);
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    run.reply_as(1, research(&["b"])).allow_as(1);
    run.reply_as(2, calls_to(&[READ, READ])).allow_as(2);
    assert_eq!(
        run.just_started(),
        [0],
        "the third call of the run is the last"
    );
    assert_eq!(run.result(1).failure, Some(ToolFailure::LimitReached));
    run.finish_as(2, 0, done("1"));
    assert_eq!(run.call_of(2).purpose, Purpose::LastAnswer);
    let reason = FinishReason::Budget(BudgetKind::ToolCalls);
    run.reply_as(2, says("B."));
    assert_eq!(run.answer_of(2).finish_reason, reason);
    assert_eq!(run.call_of(1).purpose, Purpose::LastAnswer);
    run.reply_as(1, says("A."));
    assert_eq!(run.call_of(0).purpose, Purpose::LastAnswer);
    run.reply(says("Done."));
    assert_eq!(run.outcome().finish_reason, reason);
}

/// A run with a limit of this many tool calls, including the one that starts these agents.
fn shared(calls: u32, topics: &[&str]) -> Script {
    let mut spec = researching();
    spec.root.limits.max_tool_calls = Some(calls);
    let mut run = Script::start(spec);
    run.reply(research(topics)).allow();
    run
}

#[test]
fn an_agent_uses_only_its_share_while_others_work() {
    let mut run = shared(1 + 6, &["a", "b"]);
    run.reply_as(1, calls_to(&[READ; 5])).allow_as(1);
    assert_eq!(run.just_started(), [0, 1, 2], "three for each");
    assert_eq!(run.result(3).failure, Some(ToolFailure::LimitReached));
    run.reply_as(2, calls_to(&[READ; 3])).allow_as(2);
    assert_eq!(run.just_started(), [0, 1, 2], "and the other has its own");
    for index in 0..3 {
        run.finish_as(1, index, done("1"));
    }
    assert_eq!(run.call_of(1).purpose, Purpose::LastAnswer);
    let reason = FinishReason::Budget(BudgetKind::ToolCalls);
    run.reply_as(1, says("A."));
    assert_eq!(run.answer_of(1).finish_reason, reason);
}

#[test]
fn an_unused_share_returns_to_the_other_agents_and_the_parent() {
    let mut run = shared(1 + 6, &["a", "b"]);
    run.reply_as(2, says("B."));
    run.reply_as(1, calls_to(&[READ; 5])).allow_as(1);
    assert_eq!(run.just_started(), [0, 1, 2, 3, 4]);
    for index in 0..5 {
        run.finish_as(1, index, done("1"));
    }
    assert_eq!(run.call_of(1).purpose, Purpose::Turn);
    run.reply_as(1, says("A."));
    assert_eq!(run.call_of(0).purpose, Purpose::Turn, "one is left");
}

#[test]
fn a_queued_agent_also_has_a_share() {
    let mut spec = researching();
    spec.root.profile.parallel_agents = 1;
    spec.root.limits.max_tool_calls = Some(1 + 4);
    let mut run = Script::start(spec);
    run.reply(research(&["a", "b"])).allow();
    run.reply_as(1, calls_to(&[READ; 3])).allow_as(1);
    assert_eq!(run.just_started(), [0, 1]);
    run.finish_as(1, 0, done("1")).finish_as(1, 1, done("1"));
    run.reply_as(1, says("A."));
    run.reply_as(2, calls_to(&[READ; 3])).allow_as(2);
    assert_eq!(run.just_started(), [0, 1]);
}

#[test]
fn agents_started_by_an_agent_share_its_share_only() {
    let mut run = shared(1 + 8, &["a", "b"]);
    run.reply_as(1, research(&["c", "d"])).allow_as(1);
    // One of its four calls started them, so three are left.
    run.reply_as(3, calls_to(&[READ; 4])).allow_as(3);
    assert_eq!(run.just_started(), [0, 1]);
    run.reply_as(4, calls_to(&[READ; 4])).allow_as(4);
    assert_eq!(run.just_started(), [0]);
    run.reply_as(2, calls_to(&[READ; 5])).allow_as(2);
    assert_eq!(run.just_started(), [0, 1, 2, 3]);
}

#[test]
fn tokens_and_cost_are_divided_like_tool_calls() {
    // Each of two agents needs three calls of 198 tokens to begin; their parent produced 12 and reserves two calls of
    // 62.
    let (agent, parent) = (1 + 4 + DEFINITIONS + 50, 12 + 50);
    let needed = 12 + 2 * parent + 2 * 3 * agent;
    for (tokens, purpose) in [(needed, Purpose::Turn), (needed - 1, Purpose::LastAnswer)] {
        let mut run = Script::start(measured(|spec| spec.root.limits.max_tokens = Some(tokens)));
        run.reply(research(&["a", "b"])).allow();
        assert_eq!(run.call_of(1).purpose, Purpose::Turn, "{tokens} tokens");
        assert_eq!(run.call_of(2).purpose, purpose, "{tokens} tokens");
    }
    // Of 150, the parent spent 10 and reserves 20: 60 for each. A call, the last answer and its retry each cost as much
    // as the call before.
    for (cost, purpose) in [(15, Purpose::Turn), (16, Purpose::LastAnswer)] {
        let mut run = Script::start(measured(|spec| {
            spec.root.limits.max_cost = Some(MicroUsd(150));
        }));
        reply_for(&mut run, 0, research(&["a", "b"]), 10);
        run.allow();
        reply_for(&mut run, 1, calls_to(&[READ]), cost);
        run.allow_as(1).finish_as(1, 0, done("1"));
        assert_eq!(run.call_of(1).purpose, purpose, "{cost}");
        assert_eq!(run.call_of(2).purpose, Purpose::Turn);
    }
}

#[test]
fn agents_that_start_with_nothing_left_end_immediately_without_a_model_call() {
    let mut run = Script::start(measured(|spec| {
        spec.root.limits.max_cost = Some(MicroUsd(5));
    }));
    reply_for(&mut run, 0, research(&["a", "b"]), 10);
    run.allow();
    for agent in [1, 2] {
        let answer = run.answer_of(agent);
        assert_eq!(answer.finish_reason, FinishReason::Budget(BudgetKind::Cost));
        assert_eq!(
            answer.content,
            "I reached the cost limit before I could answer. Ask me to continue, or ask for less at once."
        );
    }
    assert_eq!(run.just_asking(), [0]);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
}

#[test]
fn an_agent_that_cannot_afford_one_call_leaves_its_share_to_the_others() {
    // One call of each, with a long reply, beside what their parent produced and reserves.
    let (agent, parent) = (1 + 4 + DEFINITIONS + 900, 12 + 50);
    let both = 12 + 2 * parent + 2 * agent;
    for (tokens, asking) in [(both, &[1, 2][..]), (both - 1, &[1])] {
        let mut run = Script::start(measured(|spec| {
            spec.root.limits.max_tokens = Some(tokens);
            researcher(spec).max_output_tokens = Some(900);
        }));
        run.reply(research(&["a", "b"])).allow();
        assert_eq!(run.just_asking(), asking, "{tokens} tokens");
        if asking.len() == 1 {
            let reason = FinishReason::Budget(BudgetKind::Tokens);
            assert_eq!(run.answer_of(2).finish_reason, reason);
        }
    }
}

#[test]
fn the_own_limit_of_an_agent_ends_it_but_not_its_parent() {
    let mut spec = researching();
    researcher(&mut spec).limits.max_tool_calls = Some(1);
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    run.reply_as(1, calls_to(&[READ]))
        .allow_as(1)
        .finish_as(1, 0, done("1"));
    assert_eq!(run.call_of(1).purpose, Purpose::LastAnswer);
    run.reply_as(1, says("A."));
    assert_eq!(run.call_of(0).purpose, Purpose::Turn);
}

#[test]
fn a_turn_starts_only_if_the_last_answer_and_its_retry_still_fit_the_tokens() {
    let with = |tokens| Script::start(measured(|spec| spec.root.limits.max_tokens = Some(tokens)));
    assert_eq!(with(3 * FIRST_CALL).model_call().purpose, Purpose::Turn);
    let mut run = with(3 * FIRST_CALL - 1);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Tokens));
    run.reply(says("This much I know."));
    assert_eq!(
        run.outcome().finish_reason,
        FinishReason::Budget(BudgetKind::Tokens)
    );
    assert_eq!(run.outcome().content, "This much I know.");
}

#[test]
fn the_token_reserve_follows_the_measurements_of_the_provider() {
    // After a call of 300 and 2 tokens, with a result of 1 byte: 302 + (1 + 4) + 50 per call, and 302 are spent.
    let needed = 302 + 3 * (302 + 5 + 50);
    for (tokens, purpose) in [(needed, Purpose::Turn), (needed - 1, Purpose::LastAnswer)] {
        let mut run = Script::start(measured(|spec| spec.root.limits.max_tokens = Some(tokens)));
        let mut reply = calls_to(&[READ]);
        reply.usage = usage(300, 2);
        run.reply(reply).allow().finish(0, done("1"));
        assert_eq!(run.model_call().purpose, purpose, "{tokens} tokens");
    }
}

#[test]
fn a_turn_of_a_sub_agent_reserves_the_last_answers_of_all_agents_above() {
    // The agent's task is 1 byte. Its parent has produced 12 tokens.
    let (agent, parent) = (1 + 4 + DEFINITIONS + 50, 12 + 50);
    let needed = 12 + 3 * agent + 2 * parent;
    for (tokens, purpose) in [(needed, Purpose::Turn), (needed - 1, Purpose::LastAnswer)] {
        let mut run = Script::start(measured(|spec| spec.root.limits.max_tokens = Some(tokens)));
        run.reply(research(&["a"])).allow();
        assert_eq!(run.call_of(1).purpose, purpose, "{tokens} tokens");
    }
}

#[test]
fn tokens_of_sub_agents_count_for_the_agents_above() {
    let mut run = Script::start(measured(|spec| spec.root.limits.max_tokens = Some(1_000)));
    run.reply(research(&["a"])).allow();
    let mut reply = says("A.");
    reply.usage = usage(900, 2);
    run.reply_as(1, reply);
    assert_eq!(run.call_of(0).purpose, Purpose::LastAnswer);
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Tokens));
}

/// Returns how often a run warned that a reply came without counts.
fn warned(run: &Script) -> usize {
    let warnings = run.records.iter().filter(
        |record| matches!(&record.body, RecordBody::Warning(said) if said.code == "uncounted"),
    );
    warnings.count()
}

#[test]
fn a_reply_without_a_count_uses_estimated_tokens_and_causes_one_warning() {
    let uncounted = |turn| Reply {
        usage: Usage::UNKNOWN,
        ..another_call_to(READ, turn)
    };
    let mut run = Script::start(measured(|spec| spec.root.limits.max_tokens = Some(950)));
    for turn in 1..=2 {
        assert_eq!(run.model_call().purpose, Purpose::Turn);
        run.reply(uncounted(turn)).allow().finish(0, done("1"));
    }
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Tokens));
    assert_eq!(warned(&run), 1);
    run.reply(says("Enough."));
    let used = run.outcome().usage.total.total;
    assert_eq!((used.tokens, used.label), (12, CountLabel::Unknown));
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);

    let money = Some(MicroUsd(100));
    for (limit, warnings) in [(money, 1), (None, 0)] {
        let mut run = Script::start(measured(|spec| spec.root.limits.max_cost = limit));
        run.reply(uncounted(1));
        assert_eq!(warned(&run), warnings, "{limit:?}");
    }
}

#[test]
fn a_failed_attempt_also_uses_tokens() {
    let mut run = Script::start(measured(|spec| spec.root.limits.max_tokens = Some(1_000)));
    let error = neuraxis_core::LlmError::new(neuraxis_core::LlmErrorKind::Incomplete, "cut")
        .with_usage(usage(900, 50));
    run.fail_model_with(error, 1, neuraxis_core::NextAttempt::Follows);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Tokens));
}

#[test]
fn the_cost_limit_reserves_the_last_answer_and_its_retry() {
    for (most, purpose) in [(40, Purpose::Turn), (39, Purpose::LastAnswer)] {
        let mut run = Script::start(measured(|spec| {
            spec.root.limits.max_cost = Some(MicroUsd(most));
        }));
        reply_for(&mut run, 0, calls_to(&[READ]), 10);
        run.allow().finish(0, done("1"));
        assert_eq!(run.model_call().purpose, purpose);
        if purpose == Purpose::LastAnswer {
            assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Cost));
            run.reply(says("Enough."));
            assert_eq!(
                run.outcome().finish_reason,
                FinishReason::Budget(BudgetKind::Cost)
            );
        }
    }
}

#[test]
fn a_failed_attempt_is_paid_for_and_unknown_cost_does_not_look_free() {
    let mut run = Script::start(measured(|spec| {
        spec.root.limits.max_cost = Some(MicroUsd(40));
    }));
    reply_for(&mut run, 0, calls_to(&[READ]), 10);
    run.allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    let call = run.model_call();
    let failed = ModelFailed {
        effect_id: call.effect_id,
        attempt: Attempt(1),
        error: LlmError::new(LlmErrorKind::Incomplete, "cut off").with_usage(usage(9, 6)),
        next: NextAttempt::Follows,
        served_by: call.role.clone(),
        downgraded: None,
        degraded: None,
        cost: Some(MicroUsd(15)),
        cost_label: Default::default(),
        model: None,
        duration: Duration::from_secs(1),
    };
    run.send(Input::ModelFailed(failed));
    run.reply(calls_to(&[READ])).allow().finish(0, done("2"));
    // 25 are spent, and the next turn, the last answer and its retry may each cost 15 again.
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Cost));
}

#[test]
fn a_price_without_a_token_count_does_not_make_the_next_call_look_free() {
    let mut run = Script::start(measured(|spec| {
        spec.root.limits.max_cost = Some(MicroUsd(40));
    }));
    reply_for(&mut run, 0, calls_to(&[READ]), 10);
    run.allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    let mut input = run.replied(another_call_to(READ, 2));
    if let Input::ModelReplied(input) = &mut input {
        (input.cost, input.cost_label) = (Some(MicroUsd(1)), CountLabel::Unknown);
    }
    run.send(input).allow().finish(0, done("2"));
    // At least 11 are spent, and the next turn, the last answer and its retry may each cost 10 again.
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Cost));
}

#[test]
fn the_cost_of_sub_agents_counts_for_their_parent() {
    let mut run = Script::start(measured(|spec| {
        spec.root.limits.max_cost = Some(MicroUsd(100));
    }));
    reply_for(&mut run, 0, research(&["a"]), 10);
    run.allow();
    reply_for(&mut run, 1, calls_to(&[READ]), 80);
    run.allow_as(1).finish_as(1, 0, done("1"));
    assert_eq!(run.call_of(1).purpose, Purpose::LastAnswer);
    reply_for(&mut run, 1, says("A."), 5);
    assert_eq!(run.call_of(0).purpose, Purpose::LastAnswer);
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::Cost));
}

#[test]
fn without_any_price_only_recorded_cost_counts() {
    let mut run = Script::start(measured(|spec| {
        spec.root.limits.max_cost = Some(MicroUsd(1));
    }));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    let run = Script::start(measured(|spec| {
        spec.root.limits.max_cost = Some(MicroUsd(0));
    }));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
}

#[test]
fn neither_approvals_nor_crashes_nor_messages_reset_a_budget() {
    let mut spec = spec_with_limits(|limits| limits.max_tool_calls = Some(2));
    spec.root.profile.repeats.warn = 0;
    let mut run = Script::start(spec);
    run.reply(calls_to(&[SEND])).vet([asks()]).resume();
    run.decide(approve()).vet([asks()]);
    run.steer("Quick.").resume();
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    run.reply(calls_to(&[READ, READ])).allow();
    assert_eq!(run.just_started(), [0]);
    assert_eq!(run.result(1).failure, Some(ToolFailure::LimitReached));
    run.resume().finish(0, done("1"));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert_eq!(limit_of(&run), LimitKind::Budget(BudgetKind::ToolCalls));
}

#[test]
fn every_limit_is_named_to_the_model_and_the_caller() {
    let ends: [Limited; 4] = [
        (
            |spec| spec.root.limits.max_tool_calls = Some(1),
            BudgetKind::ToolCalls,
        ),
        (
            |spec| spec.root.limits.max_tokens = Some(150),
            BudgetKind::Tokens,
        ),
        (
            |spec| spec.root.limits.max_cost = Some(MicroUsd(25)),
            BudgetKind::Cost,
        ),
        (
            |spec| spec.root.profile.repeats.stop = 1,
            BudgetKind::RepeatedCalls,
        ),
    ];
    for (limit, budget) in ends {
        let mut run = Script::start(measured(limit));
        if run.model_call().purpose == Purpose::Turn {
            reply_for(&mut run, 0, calls("So far.", &[(READ, "{}")]), 10);
            if budget != BudgetKind::RepeatedCalls {
                run.allow().finish(0, done("1"));
            }
        }
        assert_eq!(limit_of(&run), LimitKind::Budget(budget));
        let sent = run.model_call().request.messages.clone();
        let prompt = sent.messages().last().unwrap().text();
        assert!(prompt.starts_with("You have reached the "), "{prompt}");
        run.reply(says("This much."));
        assert_eq!(run.outcome().finish_reason, FinishReason::Budget(budget));
        assert_eq!(run.outcome().content, "This much.");
        assert_valid(run.tree.messages());
    }
}
