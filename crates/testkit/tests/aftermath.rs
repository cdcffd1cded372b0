//! Each check of what a fault left behind finds what it is for.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use neuraxis_core::{
    Attempt, CallIndex, ContentHash, EffectId, JsonText, Record, RecordBody, ToolCallId,
    ToolCallStarted, ToolClass, ToolKind,
};
use neuraxis_testkit::{Aftermath, CountingIds, RunLog, reply};

fn log() -> RunLog {
    RunLog::new(CountingIds::nth_run(1), "main".parse().unwrap())
}

fn whole() -> Vec<Arc<Record>> {
    let mut log = log();
    let (started, replied) = (log.started("Hello?"), log.replied(reply::text("Hi.")));
    vec![started, replied, log.finished("Hi.")]
}

fn effect() -> EffectId {
    EffectId {
        run: CountingIds::nth_run(1),
        number: 7,
    }
}

/// A run that began a call and ended without its result.
fn with_a_call() -> Vec<Arc<Record>> {
    let mut log = log();
    let started = log.started("Hello?");
    let arguments = JsonText::from_text("{}");
    let call = ToolCallStarted {
        tool_call_id: ToolCallId::from_text("c1"),
        name: "pay".to_owned(),
        index: CallIndex::default(),
        effect_id: effect(),
        attempt: Attempt(1),
        arguments_hash: ContentHash::of(b"{}"),
        arguments,
        class: ToolClass::Irreversible,
        kind: ToolKind::Server,
        origin: neuraxis_core::Origin::Model,
        agents: Vec::new(),
    };
    let call = log.record(RecordBody::ToolCall(Box::new(call)));
    vec![started, call, log.finished("Hi.")]
}

#[test]
fn a_whole_run_passes() {
    let records = whole();
    let told = [records[0].to_json()];
    let folder = tempfile::tempdir().unwrap();
    Aftermath::of(&records)
        .told(&told)
        .folder(folder.path())
        .canary("secret")
        .assert_ended();
}

#[test]
#[should_panic(expected = "I1")]
fn what_was_told_and_not_kept_is_found() {
    let records = whole();
    let told = [records[2].to_json()];
    Aftermath::of(&records[..2]).told(&told).assert_whole();
}

#[test]
#[should_panic(expected = "I2")]
fn a_call_without_a_result_is_found() {
    Aftermath::of(&with_a_call()).assert_ended();
}

#[test]
#[should_panic(expected = "I3")]
fn what_was_done_twice_is_found() {
    let effects = [effect(), effect()];
    Aftermath::of(&with_a_call())
        .effects(&effects)
        .assert_whole();
}

#[test]
#[should_panic(expected = "I4")]
fn a_gap_is_found() {
    Aftermath::of(&whole()[1..]).assert_whole();
}

#[test]
#[should_panic(expected = "I5")]
fn a_run_without_an_end_is_found() {
    Aftermath::of(&whole()[..2]).assert_ended();
}

#[test]
#[should_panic(expected = "I7")]
fn a_secret_in_a_file_is_found() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log"), "a secret, here").unwrap();
    let records = whole();
    Aftermath::of(&records)
        .folder(folder.path())
        .canary("secret")
        .assert_ended();
}
