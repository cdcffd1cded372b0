//! Sub-agents: how a call starts them, how many there may be, and how their answers become its result.

use std::time::Duration;

use neuraxis_core::log::LogSummary;
use neuraxis_core::{
    AgentAtLimit, AgentId, AgentLimits, ApprovalDecision, Audience, BudgetKind, Effect,
    FinishReason, Input, LlmErrorKind, Message, Purpose, ReplyFinish, RunSpec, RunStatus,
    ToolClass, ToolErrors, ToolFailure, ToolStatus, UsageScope,
};

use crate::support::*;

/// A run whose root agent has had these topics researched, each by an agent whose model has been called.
fn researched(spec: RunSpec, topics: &[&str]) -> Script {
    let mut run = Script::start(spec);
    run.reply(research(topics)).allow();
    run
}

#[test]
fn each_list_item_gets_its_own_agent_with_prompt_task_and_tools() {
    let run = researched(researching(), &["cells", "yield"]);
    assert_eq!(run.just_recorded(), ["verdict", "tool_call"]);
    assert_eq!(run.just_asking(), [1, 2]);
    assert_eq!(run.started(0).agents, [AgentId(1), AgentId(2)]);
    for (agent, task) in [(1, "cells"), (2, "yield")] {
        let call = run.call_of(agent);
        let sent: Vec<Message> = call
            .request
            .messages
            .messages()
            .iter()
            .map(|m| (**m).clone())
            .collect();
        assert_eq!(
            sent,
            [Message::system("Research one topic."), Message::user(task)]
        );
        assert_eq!(call.request.tools.len(), tools().len());
        assert_eq!(call.audience, Audience::Person, "a person may look on");
        assert_eq!(call.turn.0, 1);
    }
    assert_eq!(run.step.status, RunStatus::Running);
}

#[test]
fn agent_answers_form_one_array_in_request_order_whichever_ends_first() {
    let mut run = researched(researching(), &["a", "b", "c"]);
    run.reply_as(3, says("C.")).reply_as(1, says("A."));
    assert_eq!(run.just_recorded(), ["llm_call", "final"]);
    assert_eq!(run.just_asking(), [] as [u32; 0]);
    run.reply_as(2, says("B."));
    assert_eq!(run.just_recorded(), ["llm_call", "final", "tool_result"]);
    assert_eq!(run.tool_messages(), [r#"["A.","B.","C."]"#]);
    assert_eq!(run.just_asking(), [0]);
    assert_eq!(run.result(0).effect_id, Some(run.started(0).effect_id));
}

#[test]
fn a_list_of_one_gives_an_array_of_one_and_an_empty_list_an_empty_array() {
    let mut run = researched(researching(), &["a"]);
    run.reply_as(1, says("A."));
    assert_eq!(run.tool_messages(), [r#"["A."]"#]);
    let run = researched(researching(), &[]);
    assert_eq!(run.tool_messages(), ["[]"]);
    assert_eq!(run.just_asking(), [0]);
}

#[test]
fn a_tool_without_fan_out_starts_one_agent_whose_answer_is_the_result() {
    let mut spec = researching();
    researcher(&mut spec).fan_out = None;
    let mut run = Script::start(spec);
    run.reply(calls("", &[(RESEARCH, r#"{"task":"cells"}"#)]))
        .allow();
    let sent = run.call_of(1).request.messages.messages();
    assert_eq!(*sent[1], Message::user("cells"));
    run.reply_as(1, says("They are cheap."));
    assert_eq!(run.tool_messages(), [r#""They are cheap.""#]);
}

#[test]
fn agent_answers_are_cut_to_leave_room_in_the_context_of_their_caller() {
    let mut spec = researching();
    spec.root.context_tokens = Some(4_000);
    let mut run = researched(spec, &["cells", "genes", "stars"]);
    run.reply_as(1, says("Short."));
    run.reply_as(2, says(&"x".repeat(9_000)));
    run.reply_as(3, says(&"y".repeat(9_000)));
    let told = run.tool_messages()[0];
    assert!(told.len() < 4_300, "{}", told.len());
    assert!(told.starts_with(r#"["Short.","xxx"#), "{told}");
    assert_eq!(
        told.matches("of 9000 bytes; ask for a shorter report")
            .count(),
        2,
        "{told}"
    );
    // The record contains what its model reads; the agents' own records contain their complete answers.
    assert!(
        run.records
            .iter()
            .any(|record| record.to_json().contains(&"x".repeat(9_000)))
    );
}

/// A run whose agent's report would be the answer, and is too long for the context of the one that asked for it.
fn asked_for_an_answer() -> Script {
    let mut spec = researching();
    spec.root.context_tokens = Some(4_000);
    spec.root.limits.deadline = Some(Duration::from_secs(100));
    spec.root.profile.stop_after = vec![RESEARCH.parse().unwrap()];
    researched(spec, &["cells"])
}

#[test]
fn a_report_that_is_the_answer_is_whole_and_one_that_is_not_is_cut_like_any_other() {
    let long = || says(&"x".repeat(20_000));
    let mut run = asked_for_an_answer();
    run.reply_as(1, long());
    assert!(run.outcome().content.len() >= 20_000);

    // A message must be answered first, so the agent goes on.
    let mut run = asked_for_an_answer();
    run.steer("In German.").reply_as(1, long());
    assert_eq!(run.just_asking(), [0]);
    let told = run.tool_messages()[0];
    assert!(told.contains("of 20000 bytes; ask for"), "{}", told.len());
    run.assert_replays();

    // Its time is nearly up, so a last answer is requested.
    let mut run = asked_for_an_answer();
    run.reply_as(1, calls(&"x".repeat(20_000), &[(SEND, "{}")]));
    run.allow_as(1).at(64_000).send(Input::TimePassed);
    run.at(80_000).send(Input::TimePassed);
    assert_eq!(run.call_of(0).purpose, Purpose::LastAnswer);
    assert!(run.tool_messages()[0].len() < 4_300);
    run.assert_replays();
}

#[test]
fn the_result_says_which_agents_ended_at_which_limit() {
    let mut spec = researching();
    researcher(&mut spec).limits.max_tool_calls = Some(1);
    let mut run = researched(spec, &["a", "b"]);
    run.reply_as(1, calls_to(&[READ, READ])).allow_as(1);
    run.finish_as(1, 0, done("1")).reply_as(1, says("A."));
    run.reply_as(2, says("B."));
    let limited = AgentAtLimit {
        agent: AgentId(1),
        reason: FinishReason::Budget(BudgetKind::ToolCalls),
    };
    assert_eq!(run.result(0).agents_at_limit, [limited]);
    let line = run.records.iter().map(|record| record.to_json());
    let reason = r#""agents_at_limit":[{"agent":"a1","reason":{"budget":"tool_calls"}}]"#;
    assert_eq!(line.filter(|line| line.contains(reason)).count(), 1);
    run.assert_replays();
}

#[test]
fn an_agent_stopped_by_an_error_names_the_error() {
    let mut spec = researching();
    researcher(&mut spec).fan_out = None;
    researcher(&mut spec).profile.tool_errors = ToolErrors::Stop;
    let mut run = Script::start(spec);
    run.reply(calls("", &[(RESEARCH, r#"{"task":"cells"}"#)]))
        .allow();
    // The second is abandoned, which is not reported.
    run.reply_as(1, calls_to(&[READ, SEND]));
    run.allow();
    run.finish(0, failed("use pytest here"));
    assert_eq!(
        run.tool_messages(),
        [r#"{"error":"the agent gave no answer: its call of read_file failed: use pytest here"}"#]
    );
}

#[test]
fn arguments_without_the_list_are_an_error_and_start_no_agent() {
    let mut run = Script::start(researching());
    run.reply(calls("", &[(RESEARCH, r#"{"topics":"cells"}"#)]))
        .allow();
    assert_eq!(run.result(0).failure, Some(ToolFailure::InvalidArguments));
    assert_eq!(
        run.tool_messages(),
        [r#"{"error":"topics: must be a list"}"#]
    );
    assert_eq!(run.just_asking(), [0]);
}

/// Denies the call that was asked about first; the most recent one has the same arguments.
fn deny_the_first(run: &mut Script) {
    let first = run.effects.iter().find_map(|effect| match effect {
        Effect::AskApproval(ask) => Some(ask.tool_call_id.clone()),
        _ => None,
    });
    let mut input = run.decided(ApprovalDecision::Deny { reason: None });
    if let Input::ApprovalDecided(decided) = &mut input {
        decided.tool_call_id = first.unwrap();
    }
    run.send(input);
}

#[test]
fn an_empty_task_list_does_not_end_a_wait_for_approval() {
    let mut run = Script::start(researching());
    let none = topics_of(&[]);
    run.reply(calls(
        "",
        &[("send_mail", "{}"), (RESEARCH, &none), ("send_mail", "{}")],
    ));
    run.vet([asks(), writes(), asks()]);
    deny_the_first(&mut run);
    assert_eq!(run.started(1).tool_call_id, run.result(1).tool_call_id);
    assert_eq!(run.step.status, RunStatus::Waiting);
    let said = LogSummary::of(&run.records);
    assert_eq!((said.status, said.pending.len()), (RunStatus::Waiting, 1));
}

#[test]
fn a_call_refused_at_its_start_does_not_end_calls_started_with_it() {
    let mut run = Script::start(researching());
    let wrong = r#"{"topics":"cells"}"#;
    run.reply(calls(
        "",
        &[(SEND, "{}"), (READ, "{}"), (RESEARCH, wrong), (SEND, "{}")],
    ));
    run.vet([asks(), reads(), reads(), asks()]);
    deny_the_first(&mut run);
    assert_eq!(run.just_started(), [1]);
    assert_eq!(run.result(2).failure, Some(ToolFailure::InvalidArguments));
    assert_eq!(run.step.status, RunStatus::Running);
    assert_eq!(LogSummary::of(&run.records).status, RunStatus::Running);
}

#[test]
fn parallel_agents_are_limited_and_the_others_follow_in_order() {
    let mut spec = researching();
    spec.root.profile.parallel_agents = 2;
    let mut run = researched(spec, &["a", "b", "c", "d"]);
    assert_eq!(run.just_asking(), [1, 2]);
    run.reply_as(2, says("B."));
    assert_eq!(run.just_asking(), [3]);
    run.reply_as(3, says("C."));
    assert_eq!(run.just_asking(), [4]);
    run.reply_as(4, says("D.")).reply_as(1, says("A."));
    assert_eq!(run.tool_messages(), [r#"["A.","B.","C.","D."]"#]);
}

#[test]
fn a_parallel_limit_of_zero_counts_as_one() {
    let mut spec = researching();
    spec.root.profile.parallel_agents = 0;
    let run = researched(spec, &["a", "b"]);
    assert_eq!(run.just_asking(), [1]);
}

#[test]
fn agents_of_two_calls_share_the_parallel_limit_of_their_parent() {
    let mut spec = researching();
    spec.root.profile.parallel_agents = 2;
    let mut run = Script::start(spec);
    let one = topics_of(&["a"]);
    let two = topics_of(&["b", "c"]);
    run.reply(calls("", &[(RESEARCH, &one), (RESEARCH, &two)]));
    let reads = [reads(), reads()];
    run.vet(reads);
    assert_eq!(
        run.just_asking(),
        [1, 2],
        "research that only reads runs in parallel"
    );
    run.reply_as(1, says("A."));
    assert_eq!(run.just_asking(), [3]);
    assert_eq!(run.result(0).value.as_str(), r#"["A."]"#);
}

#[test]
fn an_agent_at_the_maximum_depth_starts_no_agents() {
    let mut run = researched(researching(), &["a"]);
    run.reply_as(1, research(&["deeper"])).allow_as(1);
    assert_eq!(run.just_asking(), [2]);
    run.reply_as(2, research(&["too deep"])).allow_as(2);
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert!(run.result(0).value.as_str().contains("TOOL_NOT_ENABLED"));
    assert_eq!(run.just_asking(), [2], "it goes on without");
    run.reply_as(2, says("Deep.")).reply_as(1, says("Deeper."));
    run.reply(says("Done."));
    assert_eq!(run.outcome().content, "Done.");
}

#[test]
fn the_total_of_agents_is_limited_and_the_error_states_how_many_remain() {
    let mut spec = researching();
    spec.agent_limits = AgentLimits { depth: 2, total: 3 };
    let mut run = researched(spec, &["a", "b"]);
    run.reply_as(1, says("A.")).reply_as(2, says("B."));
    run.reply(research(&["c", "d"])).allow();
    assert_eq!(run.result(0).failure, Some(ToolFailure::LimitReached));
    let why =
        r#"{"error":"not run: this call would start 2 agents, and the run may start only 1 more"}"#;
    assert_eq!(run.result(0).value.as_str(), why);
    run.reply(research(&["c"])).allow();
    assert_eq!(run.just_asking(), [3]);
}

#[test]
fn an_agent_tool_without_an_agent_is_not_enabled() {
    let mut run = researched(spec(), &["a"]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    run.reply(says("Without."));
    assert_eq!(run.outcome().content, "Without.");
}

#[test]
fn a_failed_agent_is_an_error_at_its_position_and_the_call_fails_only_if_all_do() {
    let mut run = researched(researching(), &["a", "b"]);
    run.reply_as(1, says("A."));
    run.fail_for(LlmErrorKind::Unauthorized);
    let told = "[\"A.\",{\"error\":\"the agent gave no answer: failed: the provider refuses the key: so it said\"}]";
    assert_eq!(run.tool_messages(), [told]);
    assert_eq!(run.result(0).status, ToolStatus::Done);

    let mut run = researched(researching(), &["a"]);
    run.fail_for(LlmErrorKind::Unauthorized);
    assert_eq!(run.answer_of(1).status(), RunStatus::Failed);
    assert_eq!(run.result(0).failure, Some(ToolFailure::Error));
    assert_eq!(run.just_asking(), [0], "the parent hears of it and goes on");
}

#[test]
fn an_empty_agent_answer_is_an_error() {
    let mut run = researched(researching(), &["a"]);
    run.reply_as(1, says(" \n"));
    assert_eq!(run.result(0).failure, Some(ToolFailure::Error));
    let told = r#"{"error":"the agent gave no answer: its reply is empty"}"#;
    assert_eq!(run.tool_messages(), [told]);

    let mut run = researched(researching(), &["a", "b"]);
    run.reply_as(1, ended(says(""), ReplyFinish::Length))
        .reply_as(2, says("B."));
    let told =
        r#"[{"error":"the agent gave no answer: its reply was cut off at the length limit"},"B."]"#;
    assert_eq!(run.tool_messages(), [told]);
    assert_eq!(run.result(0).status, ToolStatus::Done);
}

#[test]
fn a_truncated_filtered_or_refused_agent_answer_says_so_to_its_caller() {
    for (finish, note) in [
        (
            ReplyFinish::Length,
            "the answer was cut off here at the length limit",
        ),
        (
            ReplyFinish::ContentFilter,
            "the provider's content filter withheld the rest",
        ),
        (
            ReplyFinish::Refused,
            "the agent refused; this is not an answer",
        ),
    ] {
        let mut run = researched(researching(), &["a"]);
        run.reply_as(1, ended(says("I can"), finish));
        let told = format!(r#"["I can\n[{note}]"]"#);
        assert_eq!(run.tool_messages(), [told]);
        assert_eq!(
            run.answer_of(1).content,
            "I can",
            "its own record is its own"
        );
    }
}

#[test]
fn text_an_agent_wrote_before_it_failed_is_not_lost() {
    let mut run = researched(researching(), &["a"]);
    run.reply_as(1, calls("Half of it.", &[(READ, "{}")]))
        .allow_as(1);
    run.finish_as(1, 0, done("1"));
    run.fail_for(LlmErrorKind::Unauthorized);
    assert_eq!(run.tool_messages(), [r#"["Half of it."]"#]);
}

#[test]
fn agents_that_run_in_parallel_share_one_content_numbering() {
    let mut run = researched(researching(), &["a", "b"]);
    let before = [run.call_of(1).content_index, run.call_of(2).content_index];
    run.reply_as(2, calls_to(&[READ]))
        .reply_as(1, calls_to(&[READ]));
    run.allow_as(1).allow_as(2);
    let batches: Vec<_> = run.recorded("tool_call")[1..]
        .iter()
        .map(|r| r.content_index.unwrap())
        .collect();
    assert_eq!(before.map(|index| index.0), [2, 3]);
    assert_eq!(
        batches.iter().map(|index| index.0).collect::<Vec<_>>(),
        [5, 4]
    );
}

#[test]
fn the_class_of_a_delegated_call_delays_the_calls_after_it() {
    let mut run = Script::start(researching());
    let topics = topics_of(&["a"]);
    run.reply(calls("", &[(RESEARCH, &topics), (READ, "{}")]))
        .allow();
    assert_eq!(run.just_started(), [] as [u32; 0], "it may write");
    assert_eq!(run.started(0).class, ToolClass::Irreversible);
    run.reply_as(1, says("A."));
    assert_eq!(run.just_started(), [1]);
}

#[test]
fn agent_usage_counts_for_agents_above_and_each_reports_its_own_or_all() {
    let mut run = researched(researching(), &["a"]);
    run.reply_as(1, says("A.")).reply(says("Done."));
    assert_eq!(run.answer_of(1).usage.total, usage(10, 2));
    assert_eq!(run.outcome().usage.total, usage(30, 6));

    let mut spec = researching();
    spec.root.profile.usage = UsageScope::Own;
    let mut run = researched(spec, &["a"]);
    run.reply_as(1, says("A.")).reply(says("Done."));
    assert_eq!(run.outcome().usage.total, usage(20, 4));
}

#[test]
fn a_parent_that_stops_at_errors_ends_when_its_agents_fail() {
    let mut spec = researching();
    spec.root.profile.tool_errors = neuraxis_core::ToolErrors::Stop;
    let mut run = researched(spec, &["a"]);
    run.fail_for(LlmErrorKind::Unauthorized);
    assert_eq!(run.outcome().finish_reason, FinishReason::ToolError);
    assert_valid(run.tree.messages());
}
