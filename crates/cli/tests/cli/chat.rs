//! `neuraxis chat` through pipes.

use std::process::Stdio;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

fn chat(machine: &Machine, arguments: &[&str], lines: &str) -> Done {
    let arguments = [&["chat", "--session", "s"], arguments].concat();
    machine.run_with_input(arguments, lines)
}

fn with_model(model: &Scripted, lines: &str) -> Done {
    with_model_on(&model.machine(), &[], lines)
}

fn with_model_on(machine: &Machine, arguments: &[&str], lines: &str) -> Done {
    let input = machine.root().join("lines");
    std::fs::write(&input, lines).unwrap();
    let mut command = machine.command([&["chat", "--session", "s"], arguments].concat());
    command
        .env("MY_KEY", "k")
        .stdin(Stdio::from(std::fs::File::open(input).unwrap()));
    command.output().unwrap().into()
}

#[test]
fn each_line_is_a_message_or_a_command_and_errors_do_not_end_the_chat() {
    let lines = "/help\n/mode\n/mode conservative\n/mode expl\n/channel system\n/zzz\n\n/tools\n/approvals\n\
        /resume\n/session\nWhat is 2?\n/quit\nnever read\n";
    let done = chat(&Machine::new(), &["--set", "store.url=memory:"], lines);
    assert_eq!(done.code, Some(1), "{done:?}");
    insta::assert_snapshot!("piped_chat_stdout", done.stdout);
    insta::assert_snapshot!("piped_chat_stderr", done.stderr);
}

#[test]
fn reasoning_before_the_first_answer_reports_that_there_is_none() {
    let lines = "/reasoning\n/quit\n";
    let done = chat(&Machine::new(), &["--set", "store.url=memory:"], lines);
    assert!(done.stdout.contains("here is no answer yet"), "{done:?}");
}

#[test]
fn answers_are_written_to_standard_output_exactly_as_the_model_wrote_them() {
    let model = Scripted::start([
        Turn::Says(&["# One\n", "**bo", "ld**"]),
        Turn::Says(&["two \u{1b}[1m\n"]),
    ]);
    let done = with_model(&model, "first\nsecond\n");
    assert_eq!(done.stderr, "note: session s\n");
    assert_eq!(done.stdout_of(0), "# One\n**bold**\ntwo \u{1b}[1m\n");
}

#[test]
fn traces_keep_their_destination_after_the_model_is_switched() {
    let model = Scripted::start([Turn::Says(&["One."]), Turn::Says(&["Two."])]);
    let machine = model.machine();
    let traces = machine.path("traces.jsonl");
    let to_file = format!("telemetry.json_lines.path={}", traces.display());
    let lines = "first\n/model gpt-other\nsecond\n";
    with_model_on(&machine, &["--set", &to_file], lines).stdout_of(0);
    let traces = std::fs::read_to_string(traces).unwrap();
    let traces = traces
        .lines()
        .map(|line| -> serde_json::Value { serde_json::from_str(line).unwrap() });
    let ended = traces.filter(|trace| trace["type"] == "final");
    assert_eq!(ended.count(), 2);
}

#[test]
fn a_model_not_listed_by_its_server_is_reported_at_once_and_used_anyway() {
    let list = r#"{"object":"list","data":[{"id":"gpt-test","object":"model","owned_by":"me"}]}"#;
    let model = Scripted::with_detail(list, [Turn::Says(&["One."])]);
    let done = with_model(&model, "/model gpt-test\n/model gpt-tset\nHello?\n");
    let told = "gpt-tset is not one of the models that its server lists; using it anyway";
    assert!(done.stderr.contains(told), "{done:?}");
    let notes = done.stderr.matches("not one of the models").count();
    assert_eq!(notes, 1, "{done:?}");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(model.asked_for(), "gpt-tset");
}

#[test]
fn the_agent_command_switches_agents_and_suggests_the_nearest_name() {
    let model = Scripted::start([Turn::Says(&["Tick."])]);
    let helper = ["--set", "agents.helper.instructions=You help with clocks."];
    let lines = "/agent\n/agent helpr\n/agent helper\nWhat time is it?\n";
    let done = with_model_on(&model.machine(), &helper, lines);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("did you mean helper?"), "{done:?}");
    let listed: Vec<_> = done.stdout.lines().collect();
    assert!(listed[0].contains("main_thread*"), "{done:?}");
    assert!(listed[1].contains("helper*"), "{done:?}");
    assert_eq!(listed[2], "Tick.");
    assert_eq!(model.told(), ["You help with clocks."]);
}

#[test]
fn attached_files_are_sent_with_the_next_message_only() {
    let model = Scripted::start([Turn::Says(&["Dark."]), Turn::Says(&["Yes."])]);
    let machine = model.machine().with_file("my notes.md", "It was dark.\n");
    let lines = "/attach\n/attach nothing.png\n/attach my notes.md\nHow was it?\n";
    let done = with_model_on(&machine, &[], lines);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stderr.contains("cannot attach nothing.png"),
        "{done:?}"
    );
    let said: Vec<_> = done.stdout.lines().collect();
    let attached = "attached to the next message: my notes.md";
    let expected = ["nothing is attached to the next message", attached, "Dark."];
    assert_eq!(said, expected);
    let sent = model.parts();
    assert!(sent.to_string().contains("It was dark."), "{sent}");
    with_model_on(&machine, &[], "/attach my notes.md\nAgain?\nSure?\n").stdout_of(0);
    assert_eq!(model.parts(), "Sure?");
}

#[test]
fn a_file_that_cannot_be_sent_does_not_block_later_messages() {
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let machine = Machine::new().with_file("shot.png", picture);
    let named = chat(&machine, &[], "What is @shot.png?\nWhat time is it?\n");
    assert_eq!(
        named.stderr.matches("cannot be sent").count(),
        1,
        "{named:?}"
    );
    assert!(named.stdout.starts_with("It is "), "{named:?}");
    let lines = "/attach shot.png\nWhat is it?\n/attach none\nWhat time is it?\n";
    let attached = chat(&machine, &[], lines);
    assert!(
        attached
            .stderr
            .contains("/attach none removes all attachments"),
        "{attached:?}"
    );
    let said: Vec<_> = attached.stdout.lines().collect();
    assert_eq!(said[1], "nothing is attached to the next message");
    assert!(said[2].starts_with("It is "), "{attached:?}");
}

#[test]
fn named_files_are_sent_and_reported_except_hidden_secret_or_outside_ones() {
    let model = Scripted::start([Turn::Says(&["Dark."])]);
    let machine = model
        .machine()
        .with_file("notes.md", "It was dark.\n")
        .with_file(".env", "TOKEN=canary\n")
        .with_file("server.pem", "canary\n")
        .with_private("elsewhere.md", "canary\n");
    let message = "Read @notes.md, @.env, @server.pem and @../home/elsewhere.md\n";
    let done = with_model_on(&machine, &[], message);
    let goes = "note: sending with this message: notes.md (13 bytes)\n";
    assert!(done.stderr.contains(goes), "{done:?}");
    let stays = "without .env (13 bytes), server.pem (7 bytes), ../home/elsewhere.md (7 bytes): ";
    assert!(done.stderr.contains(stays), "{done:?}");
    assert!(done.stderr.contains("/attach FILE sends one"), "{done:?}");
    let sent = model.heard().concat();
    assert!(sent.contains("It was dark."), "{sent}");
    assert!(!sent.contains("canary"), "{sent}");
}

#[test]
fn a_file_name_with_a_space_is_quoted_or_escaped_with_a_backslash() {
    let model = Scripted::start([Turn::Says(&["Dark."]), Turn::Says(&["Cold."])]);
    let machine = model
        .machine()
        .with_file("my notes.md", "It was dark.\n")
        .with_file("my other.md", "And cold.\n");
    let done = with_model_on(&machine, &[], "How was it, @\"my notes.md\"?\n");
    let goes = "note: sending with this message: my notes.md (13 bytes)\n";
    assert!(done.stderr.contains(goes), "{done:?}");
    let lines = "And @my\\ other.md, @\"no notes\" and @\"my?\n";
    let done = with_model_on(&machine, &[], lines);
    let goes = "note: sending with this message: my other.md (10 bytes)\n";
    assert!(done.stderr.contains(goes), "{done:?}");
    let none = "there is no file no notes here: ";
    assert_eq!(
        done.stderr.matches("there is no file").count(),
        1,
        "{done:?}"
    );
    assert!(done.stderr.contains(none), "{done:?}");
    let sent = model.heard().concat();
    assert!(sent.contains("And cold."), "{sent}");
}

#[test]
fn pending_attachments_are_dropped_when_the_session_changes() {
    let machine = Machine::new().with_file("notes.md", "It was dark.\n");
    for leave in ["/new", "/session other"] {
        let done = chat(
            &machine,
            &[],
            &format!("/attach notes.md\n{leave}\n/attach\n"),
        );
        let last = "nothing is attached to the next message\n";
        assert!(done.stdout.ends_with(last), "{done:?}");
    }
}

#[test]
fn files_are_sent_with_the_first_message_after_an_undo() {
    let model = Scripted::start(std::iter::repeat_n(Turn::Says(&["Yes."]), 4));
    let machine = model
        .machine()
        .with_file("notes.md", "It was dark.\n")
        .with_file("more.md", "And cold.\n");
    let lines = "first\nsecond\n/undo\n/attach more.md\n/attach more.md\nRead @notes.md\nthird\n";
    let said = with_model_on(&machine, &[], lines).stdout_of(0);
    assert!(!said.contains("attach them again"), "{said}");
    let heard = model.heard().join("\n");
    for said in ["first", "It was dark.", "And cold.", "third"] {
        assert_eq!(heard.matches(said).count(), 1, "{heard}");
    }
    assert!(!heard.contains("second"), "{heard}");
}

#[test]
fn undo_reports_that_the_files_of_the_message_are_no_longer_attached() {
    let model = Scripted::start(std::iter::repeat_n(Turn::Says(&["Yes."]), 2));
    let machine = model.machine().with_file("notes.md", "It was dark.\n");
    let lines = "/attach notes.md\nfirst\n/retry\n/undo\n/attach\n";
    let said = with_model_on(&machine, &[], lines).stdout_of(0);
    let end = "only if you attach them again\nnothing is attached to the next message\n";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn a_truncated_answer_is_followed_by_a_warning() {
    let model = Scripted::start([Turn::IsCut("Once upon a")]);
    let done = with_model(&model, "A story?\n");
    let told = "warning: the answer was cut off: the model reached its limit after 3 tokens ";
    assert!(done.stderr.contains(told), "{done:?}");
    assert_eq!(done.stdout_of(0), "Once upon a\n");
}

#[test]
fn the_conversation_includes_earlier_messages() {
    let model = Scripted::start([Turn::Says(&["yes"]), Turn::Says(&["again yes"])]);
    with_model(&model, "first\n//second\n").stdout_of(0);
    assert_eq!(model.heard(), ["first", "/second"]);
}

#[test]
fn an_unknown_mode_is_refused_with_the_nearest_one() {
    let done = Machine::new().run_with_input(["chat", "--mode", "moderat"], "");
    let complaint = done.complaint(2);
    assert!(complaint.contains("did you mean moderate?"), "{complaint}");
}

#[test]
fn a_session_continues_after_another_chat() {
    let store = ["--set", "store.url=sqlite://sessions.db"];
    let machine = Machine::new();
    let first = chat(&machine, &store, "What time is it?\n").stdout_of(0);
    assert!(first.starts_with("It is "), "{first}");
    let events = machine.run(
        [
            &["ask", "--session", "s", "--format", "events"],
            &store[..],
            &["And now?"],
        ]
        .concat(),
    );
    assert!(events.stdout_of(0).contains("\"history\":{\"count\":4"));
}

#[test]
fn a_waiting_run_is_named_and_no_approval_is_requested_through_a_pipe() {
    let settings = [
        "--set",
        "store.url=sqlite://sessions.db",
        "--set",
        "modes.moderate.tools.read_only=ask",
    ];
    let machine = Machine::new();
    let waits = [
        &["ask", "--session", "s", "--wait"],
        &settings[..],
        &["What time is it?"],
    ];
    machine.run(waits.concat()).complaint(5);
    let lines = "/resume\nAnd now?\n/approvals\n/history\n/export\n";
    let done = chat(&machine, &settings, lines);
    assert_eq!(done.code, Some(1));
    for expected in [
        "which waits for your approval of a call: /resume continues it",
        "waits for an approval, but nobody can be asked here",
        "error: wrong usage: the last message is not answered yet",
        "error: a message was not answered, and 2 commands failed",
    ] {
        assert!(
            done.stderr.contains(expected),
            "{expected}: {}",
            done.stderr
        );
    }
    assert!(done.stdout.contains("current_time {"), "{}", done.stdout);
    let open = "the last message is not answered yet: /resume continues it\n";
    assert!(done.stdout.ends_with(open), "{}", done.stdout);
}
