//! `neuraxis ask` end to end.

use std::io;

use crate::machine::Machine;

const NOTE: &str = "note: no model configured: answering offline, by rules (export OPENAI_API_KEY, DEEPSEEK_API_KEY or ANTHROPIC_API_KEY, or run `neuraxis setup`)\n";

#[test]
fn a_question_about_this_machine_is_answered_from_its_readings() {
    let done = Machine::new().run(["ask", "--channel", "system_health", "How is this machine?"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("Memory: "), "{}", done.stdout);
    assert!(done.stdout.ends_with('\n') && !done.stdout.ends_with("\n\n"));
    assert_eq!(
        done.stderr, NOTE,
        "where nobody watches, only notes and warnings are told"
    );
}

#[test]
fn a_configured_model_needs_no_note() {
    let machine =
        Machine::new().with_file("neuraxis.toml", "[models.reasoning]\nprovider = 'offline'");
    let done = machine.run(["ask", "What time is it?"]);
    assert_eq!(done.code, Some(0));
    assert_eq!(done.stderr, "");
}

#[test]
fn a_question_is_read_from_standard_input_when_none_is_given() {
    let machine = Machine::new();
    for arguments in [&["ask"][..], &["ask", "-"]] {
        let answer = machine
            .run_with_input(arguments, "What time is it?\n")
            .stdout_of(0);
        assert!(answer.starts_with("It is "), "{arguments:?}: {answer}");
    }
}

#[test]
fn piped_input_that_cannot_be_sent_is_refused_instead_of_dropped() {
    let done = Machine::new().run_with_input(["ask", "What time is it?"], [0xff; 10]);
    let complaint = done.complaint(2);
    assert!(
        complaint.contains("cannot send the piped input"),
        "{complaint}"
    );
}

#[test]
fn the_file_tools_see_the_working_directory() {
    let machine = Machine::new().with_file("notes.txt", "the treasure is under the oak\n");
    let question = ["ask", "--channel", "code_task", "Read notes.txt"];
    let answer = machine.run(question).stdout_of(0);
    assert!(answer.contains("under the oak"), "{answer}");
}

#[test]
fn a_missing_file_is_reported_by_the_model_and_the_run_continues() {
    let question = ["ask", "--channel", "code_task", "Read missing.txt"];
    let answer = Machine::new().run(question).stdout_of(0);
    assert!(answer.contains("there is no \"missing.txt\""), "{answer}");
}

#[test]
fn without_a_terminal_a_call_that_needs_approval_is_denied_with_a_warning() {
    let read_only_asks = "modes.moderate.tools.read_only=ask";
    let done = Machine::new().run(["ask", "--set", read_only_asks, "What time is it?"]);
    assert_eq!(done.code, Some(4), "{done:?}");
    insta::assert_snapshot!(done.stderr.strip_prefix(NOTE).unwrap());
}

#[test]
fn wait_is_not_suggested_when_the_data_policy_does_not_let_calls_wait() {
    let settings = [
        ["--set", "modes.moderate.tools.read_only=ask"],
        ["--set", "channels.chat.data.reasoning=false"],
    ];
    for wait in [&["--wait"][..], &[]] {
        let ask = [
            &["ask"][..],
            settings.as_flattened(),
            wait,
            &["What time is it?"],
        ]
        .concat();
        let done = Machine::new().run(ask);
        assert_eq!(done.code, Some(4), "{done:?}");
        let why = "nobody could be asked for approval, and the data policy does not let calls wait";
        assert!(done.stderr.contains(why), "{done:?}");
        assert!(!done.stderr.contains("--wait"), "{done:?}");
    }
}

#[test]
fn a_closed_output_pipe_ends_the_command_without_an_error_message() {
    // The code of a program that a closed pipe ended, since nothing read its output.
    const UNHEARD: Option<i32> = Some(141);
    for (arguments, code) in [
        (&["ask", "What time is it?"][..], UNHEARD),
        (&["ask", "--format", "json", "What time is it?"], UNHEARD),
        (&["ask", "--format", "events", "What time is it?"], UNHEARD),
        (&["tools", "list"], UNHEARD),
        (&["tools", "call", "current_time"], UNHEARD),
        (&["config", "show"], UNHEARD),
        (&["completions", "bash"], UNHEARD),
        (&["--help"], Some(0)),
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let output = Machine::new()
            .command(arguments)
            .stdout(writer)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), code, "{arguments:?}: {stderr}");
        assert!(
            ["", NOTE].contains(&stderr.as_str()),
            "{arguments:?}: {stderr}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Machine::new()
        .command(["ask", "What time is it?"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("error: cannot write to standard output\n  because: "),
        "{stderr}"
    );
}
