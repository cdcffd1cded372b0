//! Every input has an id: a duplicate or a late one changes nothing; an impossible one is an error value and changes
//! nothing either.

use std::time::Duration;

use neuraxis_core::uuid::Uuid;
use neuraxis_core::{
    Advice, Advised, EffectId, Input, InputError, NextAttempt, RunId, Stamp, jiff::Timestamp,
};

use crate::support::*;

fn never_asked(number: u32) -> EffectId {
    EffectId {
        run: run_id(),
        number,
    }
}

fn with_effect(mut input: Input, effect: EffectId) -> Input {
    match &mut input {
        Input::ModelReplied(input) => input.effect_id = effect,
        Input::ModelFailed(input) => input.effect_id = effect,
        Input::Vetted(input) => input.effect_id = effect,
        Input::ToolFinished(input) => input.effect_id = effect,
        Input::Advised(input) => input.effect_id = effect,
        _ => panic!("not the answer to an effect"),
    }
    input
}

/// A run that has reached a running tool, with one answer of every kind.
fn at_a_tool() -> (Script, Vec<Input>) {
    let mut run = Script::start(spec());
    let replied = run.replied(calls_to(&[READ, SEND]));
    run.send(replied.clone());
    let vetted = run.vetted([reads(), asks()]);
    run.send(vetted.clone());
    let finished = run.finished(0, done("0"));
    let advised = Input::Advised(Advised {
        effect_id: run.to_vet().effect_id,
        advice: Advice::Continue,
    });
    (run, vec![replied, vetted, finished, advised])
}

#[test]
fn a_repeated_answer_changes_nothing() {
    let (mut run, answers) = at_a_tool();
    run.send(answers[2].clone());
    for answer in answers {
        run.send_in_vain(answer);
    }
}

#[test]
fn a_repeated_decision_changes_nothing() {
    let (mut run, _) = at_a_tool();
    let decided = run.decided(approve());
    run.send(decided.clone());
    run.send_in_vain(decided);
}

#[test]
fn a_repeated_report_of_a_failed_attempt_changes_nothing() {
    let mut run = Script::start(spec());
    run.fail_model(1, NextAttempt::Follows);
    let Some(again) = run.records.last().unwrap().cause() else {
        panic!("a cause")
    };
    run.send_in_vain(again);
}

#[test]
fn an_answer_to_an_effect_that_was_never_requested_is_refused() {
    let (mut run, answers) = at_a_tool();
    for effect in [
        never_asked(0),
        never_asked(999),
        EffectId {
            run: RunId(Uuid::nil()),
            number: 1,
        },
    ] {
        for answer in &answers {
            let error = run.refused(with_effect(answer.clone(), effect));
            assert_eq!(error, InputError::UnknownEffect(effect));
        }
    }
}

#[test]
fn an_answer_of_the_wrong_kind_is_refused() {
    let (mut run, answers) = at_a_tool();
    let (tool, person) = (run.started(0).effect_id, run.asked().effect_id);
    for (effect, right) in [(tool, Some("tool_result")), (person, None)] {
        for answer in answers.iter().filter(|answer| Some(answer.kind()) != right) {
            let input = answer.kind();
            let error = run.refused(with_effect(answer.clone(), effect));
            assert_eq!(error, InputError::WrongAnswer { effect, input });
        }
    }
    let mut run = Script::start(spec());
    let effect = run.model_call().effect_id;
    for answer in answers.iter().filter(|answer| answer.kind() != "llm_call") {
        let input = answer.kind();
        let error = run.refused(with_effect(answer.clone(), effect));
        assert_eq!(error, InputError::WrongAnswer { effect, input });
    }
}

#[test]
fn verdicts_that_do_not_match_the_calls_are_refused() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ]));
    let effect = run.to_vet().effect_id;
    for answered in [0, 1, 3] {
        let input = run.vetted(vec![reads(); answered]);
        let error = InputError::VerdictCount {
            effect,
            asked: 2,
            answered,
        };
        assert_eq!(run.refused(input), error);
    }
}

#[test]
fn active_time_cannot_decrease() {
    let mut run = Script::start(spec());
    run.at(100).reply(calls_to(&[READ]));
    let vetted = run.vetted([reads()]);
    assert_eq!(run.at(99).refused(vetted.clone()), InputError::TimeReversed);
    run.at(100).send(vetted);
}

#[test]
fn an_ignored_input_does_not_advance_the_clock() {
    let mut run = Script::start(spec());
    run.at(500).send_in_vain(Input::TimePassed);
    run.at(400).reply(says("Blue."));
}

#[test]
fn a_run_that_has_ended_accepts_no_input() {
    let (mut run, answers) = at_a_tool();
    run.cancel();
    let ended = run.tree.clone();
    for answer in answers {
        run.send_in_vain(answer);
    }
    run.at(u64::MAX >> 20).send_in_vain(Input::TimePassed);
    let decided = run.decided(approve());
    assert!(matches!(run.refused(decided), InputError::NotWaiting(_)));
    assert!(run.tree == ended);
}

#[test]
fn times_finer_than_a_millisecond_are_truncated_for_replay() {
    let fine = Stamp::new(
        Timestamp::UNIX_EPOCH + Duration::from_micros(1_500),
        Duration::from_nanos(2_000_001),
    );
    assert_eq!(fine.at, Timestamp::UNIX_EPOCH + Duration::from_millis(1));
    assert_eq!(fine.active_elapsed, Duration::from_millis(2));
}
