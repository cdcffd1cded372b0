//! What ended a run is data beside its finish reason: which model call failed, or why nothing could continue the run.

use std::sync::Arc;

use neuraxis_core::{
    DataPolicy, FinishReason, Interruption, LlmErrorKind, LogEnd, NextAttempt, Record, RecordBody,
    RunOutcome, RunTree, Transcript, closing_records,
};

use crate::support::*;

/// A run whose model answers after a failed attempt, and whose next call fails with the same error.
fn failed_run() -> Script {
    let mut run = Script::start(spec());
    run.fail_model(1, NextAttempt::Follows);
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    run.fail_model(1, NextAttempt::None);
    run
}

fn outcome(records: &[Arc<Record>]) -> &RunOutcome {
    match &records.last().unwrap().body {
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => outcome,
        other => panic!("a run ends with {}", other.kind()),
    }
}

fn closed(run: &Script, cause: Interruption, why: &str) -> Vec<Arc<Record>> {
    let last = run.records.last().unwrap();
    let end = LogEnd {
        run_id: last.run_id,
        last: last.seq,
        at: last.at,
    };
    closing_records(&run.records, end, cause, why)
}

#[test]
fn the_end_of_a_failed_run_names_the_model_call_that_failed() {
    let run = failed_run();
    let call = run.model_call().effect_id;
    assert_eq!(run.outcome().failed_call, Some(call));
    let failed = run.outcome().model_failure(&run.records).unwrap();
    assert_eq!((failed.effect_id, failed.next), (call, NextAttempt::None));
    assert_eq!(run.outcome().interruption, None);
    run.assert_replays();
}

#[test]
fn a_run_that_ended_for_another_reason_names_no_failed_call() {
    let mut run = Script::start(spec());
    run.fail_model(1, NextAttempt::Follows).cancel();
    assert_eq!(run.outcome().finish_reason, FinishReason::Cancelled);
    assert_eq!(run.outcome().failed_call, None);
    assert_eq!(run.outcome().model_failure(&run.records), None);
}

#[test]
fn the_failed_call_is_found_whatever_the_texts_say() {
    let mut run = Script::start(spec());
    run.fail_for(LlmErrorKind::Unauthorized);
    let mut outcome = run.outcome().clone();
    outcome.finish_reason = FinishReason::Failed("in other words".to_owned());
    let failed = outcome.model_failure(&run.records).unwrap();
    assert_eq!(failed.error.kind, LlmErrorKind::Unauthorized);
}

#[test]
fn an_earlier_log_without_the_failed_call_is_replayed_and_its_failure_is_found() {
    let run = failed_run();
    let mark = format!(r#","failed_call":"{}""#, run.model_call().effect_id);
    let lines = to_lines(&run.records);
    assert!(lines.last().unwrap().contains(&mark), "{lines:?}");
    let lines = lines.iter().map(|line| read_line(&line.replace(&mark, "")));
    let earlier: Vec<_> = lines.collect();
    let (replayed, _) = RunTree::restore(Transcript::default(), &earlier).unwrap();
    assert_eq!(replayed.status(), run.step.status);
    let failed = outcome(&earlier).model_failure(&earlier).unwrap();
    assert_eq!(failed.effect_id, run.model_call().effect_id);
    let other = RunOutcome {
        finish_reason: FinishReason::Failed("an internal error".to_owned()),
        ..outcome(&earlier).clone()
    };
    assert_eq!(other.model_failure(&earlier), None);
}

#[test]
fn a_log_that_names_another_failed_call_is_not_replayed() {
    let run = failed_run();
    let call = run.model_call().effect_id;
    let mut records = run.records.clone();
    let mut end = Record::clone(records.last().unwrap());
    let RecordBody::RunFailed(outcome) = &mut end.body else {
        panic!("{end:?}")
    };
    outcome.failed_call.as_mut().unwrap().number = call.number - 1;
    *records.last_mut().unwrap() = Arc::new(end);
    assert!(RunTree::restore(Transcript::default(), &records).is_err());
}

#[test]
fn what_ended_a_run_stays_in_a_log_without_texts() {
    let nothing = DataPolicy {
        text: false,
        tool_calls: false,
        tool_results: false,
        reasoning: false,
    };
    let run = failed_run();
    let stored = run.records.iter().map(|it| it.withheld(nothing).unwrap());
    let stored: Vec<_> = stored.map(Arc::new).collect();
    let failed = outcome(&stored).model_failure(&stored).unwrap();
    assert_eq!(failed.effect_id, run.model_call().effect_id);
    assert!(!failed.error.message.contains("60 s"), "{failed:?}");

    let run = Script::start(spec());
    let closed = closed(&run, Interruption::Defect, "its state contradicts itself");
    let stored = closed.last().unwrap().withheld(nothing).unwrap();
    let interruption = outcome(&[Arc::new(stored)]).interruption;
    assert_eq!(interruption, Some(Interruption::Defect));
}

#[test]
fn a_closed_log_names_the_cause_beside_the_sentence() {
    let run = Script::start(spec());
    let why = "it was resumed 3 times without progress";
    let records = closed(&run, Interruption::NoProgress, why);
    let ended = outcome(&records);
    assert_eq!(ended.interruption, Some(Interruption::NoProgress));
    assert_eq!(
        ended.finish_reason,
        FinishReason::Interrupted(why.to_owned())
    );
    let line = records.last().unwrap().to_json();
    let mark = r#","interruption":"no_progress""#;
    assert!(line.contains(mark), "{line}");
    assert_eq!(read_line(&line), *records.last().unwrap());
    let earlier = read_line(&line.replace(mark, ""));
    assert_eq!(outcome(&[earlier]).interruption, None);
}
