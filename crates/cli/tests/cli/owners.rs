//! `neuraxis sessions delete --owner`: everything of one owner is deleted, and what cannot be deleted is named.

use crate::machine::Machine;
use crate::sessions::tamper;

const DELETE: [&str; 4] = ["sessions", "delete", "--owner", "ada"];

/// Returns a machine with two sessions of an owner and one of another. A server creates such sessions.
fn shared_machine() -> Machine {
    let machine = Machine::new();
    for session in ["first", "second", "other"] {
        let ask = ["ask", "--session", session, "What time is it?"];
        machine.run(ask).stdout_of(0);
    }
    tamper(
        &machine,
        "UPDATE sessions SET owner = CASE id WHEN 'other' THEN 'bob' ELSE 'ada' END",
    );
    machine
}

#[test]
fn the_sessions_of_an_owner_are_deleted_and_no_others() {
    let machine = shared_machine();
    let asked = machine.run(DELETE).complaint(2);
    assert!(asked.contains("add --yes"), "{asked}");
    let deleted = machine.run([&DELETE[..], &["--yes"]].concat()).stdout_of(0);
    assert_eq!(deleted, "deleted second\ndeleted first\n");
    let left = machine.run(["sessions", "list", "--format", "json"]);
    let left: serde_json::Value = serde_json::from_str(&left.stdout_of(0)).unwrap();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["id"], "other");
    let again = machine.run([&DELETE[..], &["--yes"]].concat()).complaint(1);
    assert!(again.contains("\"ada\" owns no session"), "{again}");
}

#[test]
fn an_unfinished_run_keeps_only_its_own_session_from_deletion_by_owner() {
    let machine = shared_machine();
    let wait = [
        "ask",
        "--wait",
        "--session",
        "waits",
        "--set",
        "modes.moderate.tools.read_only=ask",
        "What time is it?",
    ];
    machine.run(wait).complaint(5);
    tamper(
        &machine,
        "UPDATE sessions SET owner = 'ada' WHERE id = 'waits'",
    );
    let run = machine.runs("waits").swap_remove(0);
    let done = machine.run([&DELETE[..], &["--yes"]].concat());
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(done.stdout, "deleted second\ndeleted first\n");
    let named = format!("session waits was not deleted, because its run {run} has not ended");
    assert!(done.stderr.contains(&named), "{done:?}");
    assert!(
        done.stderr
            .contains("1 session of \"ada\" could not be deleted"),
        "{done:?}"
    );
    machine.run(["runs", "resume", &run, "--cancel"]);
    let deleted = machine.run([&DELETE[..], &["--yes"]].concat()).stdout_of(0);
    assert_eq!(deleted, "deleted waits\n");
}
