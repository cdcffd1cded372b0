//! Piped input, files, and the exit codes that scripts rely on.

use std::io::Read;
use std::process::Stdio;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// Runs a command with the key that the model expects and with this standard input.
fn pipe(machine: &Machine, arguments: &[&str], input: impl AsRef<[u8]>) -> Done {
    let file = machine.root().join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = machine.command(arguments);
    let input = std::fs::File::open(file).unwrap();
    command.env("MY_KEY", "k").stdin(Stdio::from(input));
    command.output().unwrap().into()
}

fn run(machine: &Machine, arguments: &[&str]) -> Done {
    pipe(machine, arguments, "")
}

#[test]
fn a_question_without_a_command_is_asked_with_the_piped_input() {
    let model = Scripted::start([Turn::Says(&["A bug."])]);
    let machine = model.machine();
    let done = pipe(&machine, &["Review this change"], "+let x = 1;\n");
    assert_eq!(done.stdout_of(0), "A bug.\n");
    let sent = model.heard().concat();
    assert!(sent.starts_with("Review this change"), "{sent}");
    assert!(sent.contains("+let x = 1;"), "{sent}");
    assert!(sent.contains("standard input"), "{sent}");
}

#[test]
fn several_words_are_one_question_and_nothing_is_attached_without_piped_input() {
    let model = Scripted::start([Turn::Says(&["Noon."])]);
    let done = run(&model.machine(), &["what", "time", "is", "it"]);
    assert_eq!(done.stdout_of(0), "Noon.\n");
    assert_eq!(model.heard(), ["what time is it"]);
}

#[test]
fn an_image_can_be_piped_in_or_given_as_a_file() {
    for is_piped in [true, false] {
        let model = Scripted::start([Turn::Says(&["A cat."])]);
        let machine = model.machine().with_file("shot.png", PNG);
        let done = match is_piped {
            true => pipe(&machine, &["What is it?"], PNG),
            false => run(&machine, &["-f", "shot.png", "What is it?"]),
        };
        assert_eq!(done.stdout_of(0), "A cat.\n");
        let parts = model.parts();
        let url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==";
        assert_eq!(parts[1]["image_url"]["url"], url, "{parts}");
    }
}

#[test]
fn unsendable_piped_input_is_refused_before_any_model_call() {
    let model = Scripted::start([]);
    let archive = b"PK\x03\x04 in truth an archive\0";
    let complaint = pipe(&model.machine(), &["What is it?"], archive).complaint(2);
    assert!(
        complaint.contains("cannot send the piped input"),
        "{complaint}"
    );
    assert_eq!(model.asked(), 0);
}

#[test]
fn a_mistyped_command_is_not_a_question() {
    for (line, meant) in [
        (&["sesions", "list"][..], "did you mean sessions?"),
        (&["doctr"], "did you mean doctor?"),
        (&["mdoels"], "did you mean models?"),
        (&["runs", "shw"], "did you mean show?"),
    ] {
        let complaint = Machine::new().run(line).complaint(2);
        assert!(complaint.contains(meant), "{complaint}");
    }
}

#[test]
fn a_failure_leaves_standard_output_empty() {
    let machine = Machine::new().with_file(
        "neuraxis.toml",
        "[models.reasoning]\nprovider = 'llama'\nbase_url = 'http://127.0.0.1:9'\n",
    );
    let complaint = machine.run(["Hello?"]).complaint(1);
    assert!(
        complaint.contains("no connection to the model server"),
        "{complaint}"
    );
    assert!(complaint.contains("neuraxis doctor"), "{complaint}");
}

#[test]
fn a_run_that_ends_at_a_limit_without_an_answer_has_its_own_exit_code() {
    const CALL: Turn = Turn::Calls(&[("calculate", r#"{"expression":"1+1"}"#)]);
    let limit = ["--set", "modes.moderate.max_turns=1", "Add up"];
    // Neither the last answer nor the call without tools returns any text.
    let model = Scripted::start([CALL, CALL, CALL, CALL]);
    let complaint = run(&model.machine(), &limit).complaint(3);
    assert!(complaint.contains("maximum number of turns"), "{complaint}");
    let model = Scripted::start([CALL, Turn::Says(&["Two."])]);
    assert_eq!(run(&model.machine(), &limit).stdout_of(0), "Two.\n");
}

#[test]
fn a_call_denied_because_no_approval_was_possible_has_its_own_exit_code() {
    const WRITE: Turn = Turn::Calls(&[("write_file", r#"{"path":"a","content":"b"}"#)]);
    let model = Scripted::start([WRITE, Turn::Says(&["I may not."])]);
    let done = run(&model.machine(), &["--channel", "code_task", "Write it"]);
    assert!(done.stderr.contains("nobody could be asked"), "{done:?}");
    assert_eq!(done.stdout_of(4), "I may not.\n");
}

#[test]
fn a_run_that_waits_as_requested_is_not_an_error() {
    let ask = [
        "ask",
        "--wait",
        "--set",
        "modes.moderate.tools.read_only=ask",
    ];
    let done = Machine::new().run(ask.iter().chain(&["What time is it?"]));
    let told = done.complaint(5);
    assert!(told.contains("waits for your approval"), "{told}");
    assert!(!told.contains("error"), "{told}");
}

#[test]
fn a_run_whose_output_is_not_read_does_not_exit_successfully() {
    let machine = Machine::new();
    let mut command = machine.command(["ask", "--session", "s", "What time is it?"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let done: Done = child.wait_with_output().unwrap().into();
    assert_eq!(done.code, Some(141), "{done:?}");
    assert!(!done.stderr.contains("error"), "{done:?}");
}

#[cfg(unix)]
#[test]
fn approvals_are_requested_at_the_terminal_even_if_input_is_piped() {
    use rexpect::reader::Options;
    use rexpect::session::spawn_with_options;

    const WRITE: Turn = Turn::Calls(&[("write_file", r#"{"path":"made","content":"b"}"#)]);
    for (script, says) in [
        (
            "printf 'some data' | \"$0\" --channel code_task 'Write it'",
            "Done so.",
        ),
        (
            "printf 'Write it\\n' | \"$0\" chat --channel code_task",
            "Done so.",
        ),
    ] {
        let model = Scripted::start([WRITE, Turn::Says(&["Done so.\n"])]);
        let machine = model.machine();
        let mut command = machine.shell(script);
        command
            .env("TERM", "xterm-256color")
            .env("MY_KEY", "k")
            .stdin(Stdio::inherit());
        let options = Options::new().strip_ansi_escape_codes(true);
        let mut person = spawn_with_options(command, options.timeout_ms(Some(60_000))).unwrap();
        person.exp_string("your answer").unwrap();
        person.send("y\r").unwrap();
        person.flush().unwrap();
        person.exp_string(says).unwrap();
        let _ = person.exp_eof();
        assert_eq!(std::fs::read_to_string(machine.path("made")).unwrap(), "b");
    }
}

#[cfg(unix)]
#[test]
fn waiting_for_standard_input_is_reported() {
    let machine = Machine::new();
    let mut command = machine.command(["What time is it?"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = vec![0; 24];
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_exact(&mut told).unwrap();
    assert_eq!(told, b"note: waiting for the en");
    drop(child.stdin.take());
    let done: Done = child.wait_with_output().unwrap().into();
    assert!(done.stdout_of(0).contains("It is"));
}
