//! Each check of the state after a fault detects its kind of violation.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use neuraxis_core::{
    Attempt, CallIndex, ContentHash, EffectId, JsonText, Record, RecordBody, ToolCallId,
    ToolCallStarted, ToolClass, ToolFailure, ToolKind, ToolOutcome, ToolOutput, ToolResult,
    ToolStatus,
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

fn call() -> RecordBody {
    let arguments = JsonText::from_text("{}");
    RecordBody::ToolCall(Box::new(ToolCallStarted {
        tool_call_id: ToolCallId::from_text("c1"),
        name: "pay".into(),
        index: CallIndex::default(),
        effect_id: effect(),
        attempt: Attempt(1),
        arguments_hash: ContentHash::of(b"{}"),
        arguments,
        class: ToolClass::Irreversible,
        kind: ToolKind::Server,
        origin: neuraxis_core::Origin::Model,
        agents: Vec::new(),
    }))
}

fn result(failure: Option<ToolFailure>) -> RecordBody {
    let (call, index) = (ToolCallId::from_text("c1"), CallIndex::default());
    let done = ToolOutcome::done(ToolOutput::new(JsonText::from_text("{}")));
    RecordBody::ToolResult(Box::new(ToolResult {
        effect_id: Some(effect()),
        attempt: Some(Attempt(1)),
        status: ToolStatus::Error,
        failure,
        ..ToolResult::of(call, "pay", index, done)
    }))
}

/// A run that started a call and ended without its result.
fn with_a_call() -> Vec<Arc<Record>> {
    let mut log = log();
    let started = log.started("Hello?");
    let call = log.record(call());
    vec![started, call, log.finished("Hi.")]
}

#[test]
fn a_complete_run_passes() {
    let records = whole();
    let told = [records[0].to_json()];
    let folder = tempfile::tempdir().unwrap();
    Aftermath::of(&records)
        .received(&told)
        .folder(folder.path())
        .canary("secret")
        .assert_ended();
}

#[test]
#[should_panic(expected = "I1")]
fn a_record_reported_but_not_stored_is_detected() {
    let records = whole();
    let told = [records[2].to_json()];
    Aftermath::of(&records[..2]).received(&told).assert_whole();
}

#[test]
#[should_panic(expected = "I2")]
fn a_call_without_a_result_is_detected() {
    Aftermath::of(&with_a_call()).assert_ended();
}

#[test]
#[should_panic(expected = "I3")]
fn an_effect_done_twice_is_detected() {
    let effects = [effect(), effect()];
    Aftermath::of(&with_a_call())
        .effects(&effects)
        .assert_whole();
}

#[test]
#[should_panic(expected = "was started, but is not in the journal")]
fn an_effect_without_a_record_is_detected() {
    let effects = [effect()];
    Aftermath::of(&whole()).effects(&effects).assert_whole();
}

#[test]
fn effects_of_another_run_are_ignored() {
    let mut other = effect();
    other.run = CountingIds::nth_run(2);
    Aftermath::of(&with_a_call())
        .effects(&[effect(), other])
        .assert_whole();
}

#[test]
#[should_panic(expected = "I4")]
fn a_gap_is_detected() {
    Aftermath::of(&whole()[1..]).assert_whole();
}

#[test]
#[should_panic(expected = "I5")]
fn a_run_without_an_end_is_detected() {
    Aftermath::of(&whole()[..2]).assert_ended();
}

#[test]
#[should_panic(expected = "I7")]
fn a_secret_in_a_file_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log"), "a secret, here").unwrap();
    let records = whole();
    Aftermath::of(&records)
        .folder(folder.path())
        .canary("secret")
        .assert_ended();
}

#[test]
#[should_panic(expected = "I2")]
fn a_second_result_of_a_call_is_detected() {
    let mut log = log();
    let mut records = vec![log.started("Hello?"), log.record(call())];
    records.extend([log.record(result(None)), log.record(result(None))]);
    records.push(log.finished("Hi."));
    Aftermath::of(&records).assert_ended();
}

#[test]
#[should_panic(expected = "I2: calls without results")]
fn a_history_with_an_unanswered_call_is_detected() {
    let mut log = log();
    let records = [
        log.started("Hello?"),
        log.replied(reply::calls([("pay", "{}")])),
        log.finished("Hi."),
    ];
    Aftermath::of(&records).assert_ended();
}

#[test]
#[should_panic(expected = "I3")]
fn an_unknown_outcome_of_a_call_not_in_the_journal_is_detected() {
    let mut log = log();
    let unknown = result(Some(ToolFailure::OutcomeUnknown));
    let records = [log.started("Hello?"), log.record(unknown)];
    Aftermath::of(&records).assert_whole();
}

#[test]
#[should_panic(expected = "I5")]
fn a_second_end_is_detected() {
    let mut log = log();
    let records = [
        log.started("Hello?"),
        log.finished("Hi."),
        log.finished("Hi."),
    ];
    Aftermath::of(&records).assert_ended();
}

#[test]
#[should_panic(expected = "I5: warning follows the end")]
fn a_record_after_the_end_is_detected() {
    let mut log = log();
    let records = [
        log.started("Hello?"),
        log.finished("Hi."),
        log.warned("slow"),
    ];
    Aftermath::of(&records).assert_ended();
}

#[test]
#[should_panic(expected = "I7: the secret is in")]
fn a_secret_in_a_record_is_detected() {
    Aftermath::of(&whole()).canary("Hello?").assert_whole();
}

/// A process that outlives the server that started it, and dies with the test.
#[cfg(target_os = "linux")]
struct Survivor(std::process::Child);

#[cfg(target_os = "linux")]
impl Survivor {
    fn start(command: &mut std::process::Command) -> Self {
        let command = command.stdin(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let line = format!("/proc/{}/cmdline", child.id());
        // A process is reported as started a moment before its command line can be read.
        while std::fs::read(&line).unwrap().is_empty() {
            assert_eq!(child.try_wait().unwrap(), None, "it ended at once");
            std::thread::yield_now();
        }
        Self(child)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Survivor {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[cfg(target_os = "linux")]
fn sleep() -> std::process::Command {
    let mut command = std::process::Command::new("/bin/sleep");
    command.arg("60").env_clear().current_dir("/");
    command
}

/// Checks that a process that has the folder in this way is found while it is alive, but no longer once it is dead.
#[cfg(target_os = "linux")]
fn assert_found(has_it: impl FnOnce(&std::path::Path, &mut std::process::Command)) {
    let folder = tempfile::tempdir().unwrap();
    let records = whole();
    let check = || {
        let aftermath = Aftermath::of(&records).folder(folder.path());
        std::panic::catch_unwind(|| aftermath.assert_whole())
    };
    assert!(check().is_ok(), "nothing was started yet");
    let mut command = sleep();
    has_it(folder.path(), &mut command);
    let survivor = Survivor::start(&mut command);
    let told = check().unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.starts_with("I6: a process is left: /proc/"), "{told}");
    drop(survivor);
    assert!(check().is_ok(), "it is dead");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_is_detected_by_its_arguments() {
    assert_found(|folder, command| {
        *command = std::process::Command::new("/usr/bin/tail");
        let file = folder.join("log");
        std::fs::write(&file, "").unwrap();
        command.arg("-f").arg(file).env_clear().current_dir("/");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_is_detected_by_its_environment() {
    assert_found(|folder, command| {
        command.env("HOME", folder);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_is_detected_by_its_working_directory() {
    assert_found(|folder, command| {
        command.current_dir(folder);
    });
}

/// The server is dead, and its child is dying.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_exits_shortly_afterwards_is_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("/bin/sleep");
    let mut dying = command
        .arg("0.3")
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    let reaper = std::thread::spawn(move || dying.wait().unwrap());
    Aftermath::of(&whole()).folder(folder.path()).assert_whole();
    reaper.join().unwrap();
}
