//! What a run that has not ended reports about itself: its progress and its usage.

use neuraxis_core::{Role, RunStatus};

use crate::support::*;

fn tokens(run: &Script) -> u64 {
    let usage = run.tree.usage();
    let reasoning = usage.roles.get(&Role::REASONING);
    reasoning.map_or(0, |usage| usage.total.tokens)
}

#[test]
fn a_turn_counts_once_as_soon_as_its_reply_has_calls() {
    let mut run = Script::start(spec());
    assert_eq!(run.tree.turns(), 0, "nobody has replied");
    run.reply(calls_to(&[SEND])).vet([asks()]);
    assert_eq!(
        (run.step.status, run.tree.turns()),
        (RunStatus::Waiting, 1),
        "the turn that waits"
    );
    run.decide(approve()).vet([asks()]).finish(0, done("1"));
    assert_eq!(run.tree.turns(), 1, "its results are in");
    run.reply(says("Sent."));
    assert_eq!((run.tree.turns(), run.outcome().turns), (2, 2));
}

#[test]
fn a_waiting_run_reports_the_usage_of_itself_and_its_agents() {
    let mut run = Script::start(researching());
    assert_eq!(tokens(&run), 0);
    run.reply(research(&["sky"])).allow();
    run.reply_as(1, calls_to(&[SEND])).vet_as(1, [asks()]);
    assert_eq!((run.step.status, tokens(&run)), (RunStatus::Waiting, 24));
    assert_eq!(run.tree.turns(), 1, "of the root agent");
}
