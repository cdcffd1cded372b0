//! Files that change while the user is asked about a change to them: no lines are lost unseen.

use std::fs::File;
use std::time::SystemTime;

use crate::machine::Machine;
use crate::person::{open_terminal, type_line, wait_for_exit};
use crate::scripted::{Scripted, Turn};

const CALLS: [(&str, &str); 1] = [("write_file", r#"{"path":"a.txt","content":"one\n"}"#)];
const STORE: [&str; 2] = ["--set", "store.url=sqlite://sessions.db"];

/// Leaves a run waiting for an answer; returns the name of its question.
fn left_waiting(machine: &Machine) -> String {
    let with_store = |arguments: &[&'static str]| [arguments, &STORE[..]].concat();
    let ask = ["ask", "--session", "s", "--channel", "code_task", "Go on."];
    let mut pty = open_terminal(machine, &with_store(&ask));
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "l");
    assert_eq!(wait_for_exit(&mut pty), 5);

    let mut show = machine.command(with_store(&["approvals", "show", "last"]));
    let shown = show.env("MY_KEY", "k").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let name = shown.strip_prefix("question ").unwrap();
    name.lines().next().unwrap().to_owned()
}

#[test]
fn a_file_changed_after_its_question_is_shown_again_before_it_is_overwritten() {
    let model = Scripted::start([Turn::Calls(&CALLS), Turn::Says(&["Well.\n"])]);
    let machine = model.machine().with_file("a.txt", "two\n");
    let name = left_waiting(&machine);
    std::fs::write(machine.path("a.txt"), "two\nthree\n").unwrap();
    // As when `cp -p` restores a file.
    let back = File::options().write(true).open(machine.path("a.txt"));
    back.unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let approve = [&["approvals", "approve", "last", name.as_str()], &STORE[..]].concat();
    let mut pty = open_terminal(&machine, &approve);
    pty.exp_string("a.txt was changed after this question was asked")
        .unwrap();
    pty.exp_string("-three").unwrap();
    pty.exp_string("Allow it?").unwrap();
    std::fs::write(machine.path("a.txt"), "two\nthree\nfour\n").unwrap();
    type_line(&mut pty, "y");
    pty.exp_string("changed since it was shown").unwrap();
    pty.exp_string("-four").unwrap();
    pty.exp_string("Allow it?").unwrap();
    type_line(&mut pty, "n");
    assert_eq!(wait_for_exit(&mut pty), 1);
    let text = std::fs::read_to_string(machine.path("a.txt")).unwrap();
    assert_eq!(text, "two\nthree\nfour\n");
}

#[test]
fn replaced_arguments_are_shown_with_their_actual_effect() {
    let model = Scripted::start([Turn::Calls(&CALLS), Turn::Says(&["Well.\n"])]);
    let machine = model.machine().with_file("a.txt", "two\n");
    let name = left_waiting(&machine);
    std::fs::write(machine.path("b.txt"), "mine\n").unwrap();
    let given = r#"{"path":"b.txt","content":"edited\n"}"#;
    let approve = ["approvals", "approve", "last", &name, "--arguments", given];
    let mut pty = open_terminal(&machine, &[&approve[..], &STORE[..]].concat());
    for said in [
        "b.txt was changed after this question was asked",
        "-mine",
        "+edited",
        "with arguments that you edited",
        "Allow it?",
    ] {
        pty.exp_string(said).unwrap();
    }
    type_line(&mut pty, "n");
    assert_eq!(wait_for_exit(&mut pty), 1);
    let text = std::fs::read_to_string(machine.path("b.txt")).unwrap();
    assert_eq!(text, "mine\n");
}
