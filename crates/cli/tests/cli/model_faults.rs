//! Model servers that fail: what the user sees, the exit code, what is recorded, and that the same session continues as
//! soon as the model works again.

use std::thread;

use neuraxis_testkit::{FaultyModelServer, ModelFault};
use serde_json::Value;

use crate::machine::{Done, Machine, events};

/// The expected result of a fault.
struct Case<'a> {
    /// What the user sees.
    told: &'a str,
    /// The recorded class of the error.
    kind: &'a str,
    /// What the recorded reason contains in addition.
    reason: &'a str,
}

fn machine(model: &FaultyModelServer) -> Machine {
    let configuration = format!(
        "[models.reasoning]\nprovider = 'llama'\nbase_url = '{}'\ntimeouts = {{ idle = '300ms', loading = '1s' }}\n",
        model.base_url()
    );
    Machine::new().with_file("neuraxis.toml", configuration)
}

fn ask(machine: &Machine, format: &str, question: &str) -> Done {
    let arguments = ["ask", "--session", "s", "--format", format, question];
    machine.run(arguments)
}

/// Asks a broken model, once for events and once for text, and then the repaired one in the same session. Returns the
/// events.
#[track_caller]
fn check(model: &FaultyModelServer, case: &Case<'_>) -> String {
    // On separate machines at the same time, since most of the time is spent waiting between attempts.
    let (reader, listener) = (machine(model), machine(model));
    let (read, heard) = thread::scope(|scope| {
        let heard = scope.spawn(|| ask(&listener, "events", "Hello?"));
        (ask(&reader, "text", "Hello?"), heard.join().unwrap())
    });
    assert_told(&read, case.told);
    assert_failed(&heard, case);
    model.repair();
    for machine in [reader, listener] {
        let answer = ask(&machine, "text", "And now?").stdout_of(0);
        assert_eq!(answer.trim_end(), FaultyModelServer::ANSWER);
        machine.run(["sessions", "verify", "s"]).stdout_of(0);
        let runs = machine.run(["sessions", "export", "s"]).stdout_of(0);
        assert_eq!(runs.matches(r#""type":"tool_result""#).count(), 1, "{runs}");
    }
    heard.stdout
}

/// Checks what the user sees: the outcome, in the program's own words.
#[track_caller]
fn assert_told(done: &Done, told: &str) {
    assert_eq!(done.code, Some(1), "{done:?}");
    let mut lines = done.stderr.lines();
    let error = lines.find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains(told), "{done:?}");
    assert!(!done.stdout.contains(told), "{done:?}");
    // No partial reply may be shown either.
    for theirs in [
        FaultyModelServer::WORDS,
        FaultyModelServer::ELSEWHERE,
        FaultyModelServer::HALF,
    ] {
        assert!(!done.stdout.contains(theirs), "{done:?}");
    }
    assert!(!done.stderr.contains("panicked"), "{done:?}");
}

/// Checks that the run failed as expected, and that its log ends properly with a valid history.
#[track_caller]
fn assert_failed(done: &Done, case: &Case<'_>) {
    assert_eq!(done.code, Some(1), "{done:?}");
    let events = events(&done.stdout);
    let records = events.iter().filter(|event| event.get("seq").is_some());
    let records: Vec<&Value> = records.collect();
    let seqs: Vec<u64> = records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
    let last = records.last().unwrap();
    assert_eq!(last["type"], "run_failed", "{}", done.stdout);
    let failed = records.iter().find(|record| record["type"] == "llm_failed");
    let failed = failed.unwrap();
    assert_eq!(
        failed.pointer("/error/kind").unwrap(),
        case.kind,
        "{failed}"
    );
    let reason = last.pointer("/finish_reason/failed").unwrap();
    let reason = reason.as_str().unwrap();
    assert!(reason.contains(case.reason), "{reason}");
    assert!(
        !done.stdout.contains("\"type\":\"tool_call\""),
        "a call of a broken reply was run"
    );
}

#[test]
fn an_unreachable_server_is_named() {
    let model = FaultyModelServer::start(ModelFault::Unreachable);
    let case = Case {
        told: "no connection to the model server",
        kind: "connection",
        reason: &model.address().to_string(),
    };
    check(&model, &case);
}

#[test]
fn a_server_that_is_still_loading_is_distinguished_from_one_that_fails() {
    let case = Case {
        told: "the model is still loading",
        kind: "loading",
        reason: "still loading",
    };
    check(&FaultyModelServer::start(ModelFault::Loading), &case);
}

#[test]
fn a_server_error_is_reported_with_its_status_and_message() {
    let case = Case {
        told: "the model server failed with status 500",
        kind: "server",
        reason: FaultyModelServer::WORDS,
    };
    check(&FaultyModelServer::start(ModelFault::Failing), &case);
}

#[test]
fn a_plain_text_server_error_is_reported_with_its_status_and_text() {
    let case = Case {
        told: "the model server failed with status 500",
        kind: "server",
        reason: FaultyModelServer::WORDS,
    };
    check(
        &FaultyModelServer::start(ModelFault::FailingInPlainText),
        &case,
    );
}

#[test]
fn a_web_page_instead_of_a_reply_is_recognized() {
    let case = Case {
        told: "the model server gave an invalid response",
        kind: "invalid_response",
        reason: "text/html",
    };
    check(&FaultyModelServer::start(ModelFault::WebPage), &case);
}

#[test]
fn a_redirect_is_not_followed_and_its_target_is_named() {
    let case = Case {
        told: "the provider refuses the request",
        kind: "bad_request",
        reason: FaultyModelServer::ELSEWHERE,
    };
    check(&FaultyModelServer::start(ModelFault::Redirect), &case);
}

#[test]
fn a_truncated_stream_is_retracted_and_reported_as_cut_off() {
    let case = Case {
        told: "the reply was cut off",
        kind: "incomplete",
        reason: "cut off",
    };
    let heard = check(&FaultyModelServer::start(ModelFault::CutOff), &case);
    assert!(heard.contains("\"type\":\"text_retracted\""), "{heard}");
}

#[test]
fn a_stalled_stream_times_out() {
    let case = Case {
        told: "the model did not answer in time",
        kind: "timeout",
        reason: "in time",
    };
    check(&FaultyModelServer::start(ModelFault::Stalling), &case);
}

#[test]
fn a_reset_connection_is_a_connection_error() {
    let case = Case {
        told: "no connection to the model server",
        kind: "connection",
        reason: "127.0.0.1",
    };
    check(&FaultyModelServer::start(ModelFault::Reset), &case);
}
