//! Rule 1: which calls of one reply run at the same time, and the order of their results.

use std::time::Duration;

use neuraxis_core::{Effect, Parallel, RunTool};

use crate::support::*;

fn timeouts(script: &Script) -> Vec<Duration> {
    let runs = script.effects.iter().filter_map(|effect| match effect {
        Effect::RunTool(RunTool { timeout, .. }) => Some(*timeout),
        _ => None,
    });
    runs.collect()
}

#[test]
fn adjacent_read_only_calls_run_in_parallel_and_others_alone_in_call_order() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ, SEND, READ])).allow();
    assert_eq!(run.just_started(), [0, 1]);
    run.finish(1, done("1"));
    assert_eq!(
        run.just_started(),
        [0; 0],
        "the write waits for every read before it"
    );
    run.finish(0, done("0"));
    assert_eq!(run.just_started(), [2], "the write runs alone");
    run.finish(2, done("2"));
    assert_eq!(run.just_started(), [3]);
    run.finish(3, done("3"));
    assert_eq!(run.model_call().turn.0, 2);
}

#[test]
fn an_idempotent_call_also_runs_alone() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[PUT, PUT])).allow();
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("0"));
    assert_eq!(run.just_started(), [1]);
}

#[test]
fn the_vetted_class_decides_not_the_class_the_tool_claims() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ])).vet([writes(), writes()]);
    assert_eq!(run.just_started(), [0]);
}

#[test]
fn with_parallel_all_every_call_starts_immediately() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.parallel = Parallel::All;
    }));
    run.reply(calls_to(&[SEND, READ, SEND])).allow();
    assert_eq!(run.just_started(), [0, 1, 2]);
}

#[test]
fn with_parallel_none_calls_run_one_after_another_in_call_order() {
    let mut run = Script::start(spec_with_profile(|profile| {
        profile.parallel = Parallel::None;
    }));
    run.reply(calls_to(&[READ, READ, READ])).allow();
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("0"));
    assert_eq!(run.just_started(), [1]);
    run.finish(1, done("1"));
    assert_eq!(run.just_started(), [2]);
}

#[test]
fn a_call_that_is_not_run_does_not_block_those_after_it() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND, SEND])).vet([denies(), writes()]);
    assert_eq!(run.just_started(), [1]);
}

#[test]
fn a_call_refused_at_its_start_does_not_block_those_after_it() {
    // The tool has no agent, so the call ends at the moment it would start.
    let mut run = Script::start(spec());
    run.reply(calls_to(&[RESEARCH, SEND, READ])).allow();
    assert_eq!(run.just_started(), [1]);
    run.finish(1, done("1")).finish(2, done("2"));
    assert_eq!(run.model_call().turn.0, 2);
}

#[test]
fn a_read_never_overtakes_a_write_that_waits_for_approval() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, SEND, READ]))
        .vet([reads(), asks(), reads()]);
    assert_eq!(run.just_started(), [0]);
    run.finish(0, done("0"));
    assert_eq!(run.just_started(), [0; 0]);
    run.decide(approve()).vet([asks()]);
    assert_eq!(run.just_started(), [1]);
    run.finish(1, done("1"));
    assert_eq!(run.just_started(), [2]);
}

#[test]
fn results_arrive_as_they_complete_but_history_is_in_call_order() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ, READ])).allow();
    run.finish(2, done("2"));
    assert_eq!(run.just_recorded(), ["tool_result"]);
    assert_eq!(run.tool_messages(), [""; 0]);
    run.finish(0, done("0")).finish(1, done("1"));
    assert_eq!(run.tool_messages(), ["0", "1", "2"]);
    let call = run.model_call();
    assert_eq!(call.request.messages.messages(), run.tree.messages());
    assert_valid(run.tree.messages());
}

#[test]
fn one_failing_call_never_cancels_its_siblings() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ, SEND])).allow();
    run.finish(0, failed("no such file"));
    assert_eq!(run.step.effects, []);
    run.finish(1, done("1"));
    assert_eq!(run.just_started(), [2]);
    run.finish(2, done("2"));
    assert_eq!(
        run.tool_messages(),
        [r#"{"error":"no such file"}"#, "1", "2"]
    );
}

#[test]
fn a_call_may_take_30_seconds_unless_its_tool_sets_a_timeout() {
    let mut spec = spec();
    let mut tools = tools();
    tools[0].timeout = Some(Duration::from_secs(5));
    spec.root.tools = tools.into();
    let mut run = Script::start(spec);
    run.reply(calls_to(&[READ, NOTE])).allow();
    assert_eq!(
        timeouts(&run),
        [Duration::from_secs(5), Duration::from_secs(30)]
    );
}

#[test]
fn every_call_is_journaled_before_it_starts_with_the_hash_of_its_arguments() {
    let mut run = Script::start(spec());
    run.reply(calls("", &[(SEND, r#"{ "to": "bob" }"#)]))
        .allow();
    let [Effect::RunTool(effect)] = run.step.effects.as_slice() else {
        panic!("one tool runs")
    };
    let entry = run.started(0);
    assert_eq!(entry.effect_id, effect.effect_id);
    assert_eq!(entry.arguments.as_str(), r#"{ "to": "bob" }"#);
    assert_eq!(entry.arguments_hash, effect.arguments.hash());
    assert_eq!(entry.class, effect.class);
}
