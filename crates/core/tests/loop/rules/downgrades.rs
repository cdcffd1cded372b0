//! Roles that others serve for: recorded once, until they serve again.

use neuraxis_core::{Input, LlmErrorKind, RecordBody, Role, RoleDowngraded};

use crate::support::*;

fn by_router(run: &Script, text: &str) -> Input {
    let mut input = run.replied(if text.is_empty() {
        calls_to(&[READ])
    } else {
        says(text)
    });
    if let Input::ModelReplied(replied) = &mut input {
        replied.served_by = Role::ROUTER;
        replied.downgraded = Some(downgraded());
    }
    input
}

fn downgraded() -> Box<RoleDowngraded> {
    Box::new(RoleDowngraded {
        from: Role::REASONING,
        to: Role::ROUTER,
        reason: "it failed 3 times".to_owned(),
    })
}

fn records(run: &Script) -> usize {
    let is_it = |kind: &&&str| **kind == "role_downgraded";
    run.kinds().iter().filter(is_it).count()
}

#[test]
fn a_role_that_another_serves_for_is_recorded_once() {
    let mut run = Script::start(spec());
    let first = by_router(&run, "");
    run.send(first).allow().finish(0, done("1"));
    let last = by_router(&run, "Blue.");
    run.send(last);
    assert_eq!(records(&run), 1);
    assert!(run.records.iter().any(
        |record| matches!(&record.body, RecordBody::RoleDowngraded(it) if **it == *downgraded())
    ));
    run.assert_replays();
}

#[test]
fn once_it_has_served_again_the_next_time_is_recorded_anew() {
    let mut run = Script::start(spec());
    let first = by_router(&run, "");
    run.send(first).allow().finish(0, done("1"));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    let last = by_router(&run, "Blue.");
    run.send(last);
    assert_eq!(records(&run), 2);
}

#[test]
fn a_role_that_is_not_configured_is_no_downgrade() {
    let mut run = Script::start(spec());
    let mut input = run.replied(says("Blue."));
    if let Input::ModelReplied(replied) = &mut input {
        replied.served_by = Role::ROUTER;
    }
    run.send(input);
    assert_eq!(records(&run), 0);
}

#[test]
fn a_failure_that_degrades_a_role_says_so_in_a_warning() {
    let mut run = Script::start(spec());
    let mut input = run.model_failed(LlmErrorKind::Timeout);
    input.degraded = Some("reasoning did not answer in time 3 times".to_owned());
    run.send(Input::ModelFailed(input));
    assert_eq!(run.kinds()[1..], ["llm_failed", "warning", "run_failed"]);
}
