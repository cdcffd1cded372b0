//! A user at a terminal: types, reads, is asked, and presses Ctrl-C. Everything here runs in a real terminal.

use rexpect::reader::Options;
use rexpect::session::{PtySession, spawn_with_options};

use crate::killed::killed;
use crate::machine::Machine;
use crate::scripted::{Scripted, Turn};

/// How long the terminal may stay silent, in milliseconds, before a test fails.
const PATIENCE: u64 = 60_000;

const READING_ASKS: [&str; 2] = ["--set", "modes.moderate.tools.read_only=ask"];
const UP: &str = "\u{1b}[A";

/// Starts a command in a terminal. Sequences that only change colors or move the cursor are stripped.
pub(crate) fn open_terminal(machine: &Machine, arguments: &[&str]) -> PtySession {
    let options = Options::new().strip_ansi_escape_codes(true);
    open_terminal_with(machine, arguments, options)
}

fn open_terminal_with(machine: &Machine, arguments: &[&str], options: Options) -> PtySession {
    let mut command = machine.command(arguments);
    command
        .env("TERM", "xterm-256color")
        .env("MY_KEY", "k")
        // The terminal becomes all three standard streams.
        .stdin(std::process::Stdio::inherit());
    spawn_with_options(command, options.timeout_ms(Some(PATIENCE))).unwrap()
}

fn chat(machine: &Machine, arguments: &[&str]) -> PtySession {
    let arguments = [&["chat", "--session", "s"], arguments].concat();
    let mut pty = open_terminal(machine, &arguments);
    pty.exp_string("chat/moderate>").unwrap();
    pty
}

pub(crate) fn type_line(pty: &mut PtySession, line: &str) {
    pty.send(line).unwrap();
    pty.send("\r").unwrap();
    pty.flush().unwrap();
}

/// Reads to the end and returns the exit code.
#[track_caller]
pub(crate) fn wait_for_exit(pty: &mut PtySession) -> i32 {
    let _ = pty.exp_eof();
    // The type of a status belongs to a crate that this one does not re-export. It reads `Exited(Pid(1234), 0)`.
    let status = format!("{:?}", pty.process().wait().unwrap());
    let code = status.strip_prefix("Exited(").and_then(|rest| {
        let (_, code) = rest.strip_suffix(')')?.rsplit_once(' ')?;
        code.parse().ok()
    });
    code.unwrap_or_else(|| panic!("{status}"))
}

#[test]
fn a_chat_has_answers_commands_completion_and_history() {
    let machine = Machine::new();
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "What time is it?");
    pty.exp_string("It is ").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/halp");
    pty.exp_string("did you mean /help?").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    // A tab completes the command and then its argument.
    type_line(&mut pty, "/mod\t exp\t");
    pty.exp_string("exploratory*").unwrap();
    pty.exp_string("chat/exploratory>").unwrap();
    // The history returns what was typed.
    type_line(&mut pty, &format!("{UP}{UP}{UP}"));
    pty.exp_string("It is ").unwrap();
    pty.exp_string("chat/exploratory>").unwrap();
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn the_input_history_is_stored_privately_and_recalled() {
    use std::os::unix::fs::PermissionsExt;

    let machine = Machine::new();
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "/tools");
    pty.exp_string("current_time").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, " /quit");
    assert_eq!(wait_for_exit(&mut pty), 0);

    let file = machine.root().join("home/state/neuraxis/chat-history");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&file) & 0o777, 0o600);
    assert_eq!(mode(file.parent().unwrap()) & 0o777, 0o700);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("/tools"), "{text}");
    assert!(
        !text.contains("/quit"),
        "after a space nothing is remembered: {text}"
    );

    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, UP);
    pty.exp_string("current_time").unwrap();
    // While no editor reads, the terminal itself receives the keys.
    pty.exp_string("chat/moderate>").unwrap();
    pty.send_control('d').unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn the_input_history_is_not_stored_when_text_may_not_be_stored() {
    let machine = Machine::new();
    let mut pty = chat(&machine, &["--set", "channels.chat.data.text=false"]);
    type_line(&mut pty, "What time is it?");
    pty.exp_string("It is ").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
    let file = machine.root().join("home/state/neuraxis/chat-history");
    assert!(!file.exists(), "{file:?}");
}

#[test]
fn a_message_may_have_several_lines() {
    let model = Scripted::start([Turn::Says(&["Understood.\n"])]);
    let machine = model.machine();
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "one\\");
    type_line(&mut pty, "two");
    pty.exp_string("Understood.").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    assert_eq!(model.heard(), ["one\ntwo"]);
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn a_pasted_command_keeps_its_backslashes() {
    let model = Scripted::start([Turn::Says(&["Understood.\n"])]);
    let machine = model.machine();
    let mut pty = chat(&machine, &[]);
    pty.send("What is this?\\\r").unwrap();
    pty.send("\u{1b}[200~docker run \\\r  -p 80:80 \\\r  image\u{1b}[201~")
        .unwrap();
    type_line(&mut pty, "");
    pty.exp_string("Understood.").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    let expected = "What is this?\ndocker run \\\n  -p 80:80 \\\n  image";
    assert_eq!(model.heard(), [expected]);
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn no_file_question_is_asked_for_a_message_that_cannot_be_sent() {
    let machine = Machine::new()
        .with_file(".env", "TOKEN=canary\n")
        .with_file("bin.dat", b"\xff\xfe\x00\x01");
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "Read @.env and @bin.dat");
    let before = pty.exp_string("cannot attach bin.dat").unwrap();
    assert!(!before.contains("Send .env"), "{before}");
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn each_line_typed_ahead_is_a_message() {
    let model = Scripted::start([Turn::Says(&["First.\n"]), Turn::Says(&["Second.\n"])]);
    let machine = model.machine();
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "one\rtwo");
    pty.exp_string("First.").unwrap();
    pty.exp_string("Second.").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    assert_eq!(model.heard(), ["one", "two"]);
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn text_pasted_while_an_answer_streams_is_one_message() {
    let model = Scripted::start([
        Turn::Stalls("# Beginning\nand then"),
        Turn::Says(&["Understood.\n"]),
    ]);
    let machine = model.machine();
    let mut pty = open_terminal_with(&machine, &["chat", "--session", "s"], Options::new());
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "Hello?");
    // The terminal was told to mark pasted text, so it does.
    pty.exp_string("\u{1b}[?2004h").unwrap();
    pty.exp_string("Beginning").unwrap();
    pty.send("\u{1b}[200~one\r  two\r\rthree\u{1b}[201~")
        .unwrap();
    pty.send_control('c').unwrap();
    pty.exp_string("interrupted").unwrap();
    pty.exp_string("three").unwrap();
    type_line(&mut pty, "");
    pty.exp_string("Understood.").unwrap();
    assert_eq!(model.heard(), ["Hello?", "one\n  two\n\nthree"]);
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn a_long_line_pasted_while_an_answer_streams_is_one_message() {
    use rexpect::process::Signal;

    let model = Scripted::start([
        Turn::Stalls("# Beginning\nand then"),
        Turn::Says(&["Understood.\n"]),
    ]);
    let machine = model.machine();
    let mut pty = open_terminal_with(&machine, &["chat", "--session", "s"], Options::new());
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "Hello?");
    pty.exp_string("\u{1b}[?2004h").unwrap();
    pty.exp_string("Beginning").unwrap();
    let line = "x".repeat(6_000);
    pty.send(&format!("\u{1b}[200~{line}\u{1b}[201~")).unwrap();
    pty.flush().unwrap();
    // After that much input, the terminal would hold back a Ctrl-C.
    pty.process_mut().signal(Signal::SIGINT).unwrap();
    pty.exp_string("interrupted").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "");
    pty.exp_string("Understood.").unwrap();
    assert_eq!(model.heard(), ["Hello?", line.as_str()]);
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn input_that_is_not_utf8_is_dropped_and_the_chat_continues() {
    use std::io::Write;

    let model = Scripted::start([Turn::Says(&["Understood.\n"])]);
    let machine = model.machine();
    let mut pty = chat(&machine, &[]);
    let mut keyboard = pty.process().get_file_handle().unwrap();
    keyboard.write_all(b"caf\xe9 au lait\r").unwrap();
    pty.exp_string("is not valid UTF-8").unwrap();
    pty.exp_string("everything after it").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "Hello?");
    pty.exp_string("Understood.").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    assert_eq!(model.heard(), ["Hello?"]);
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn ctrl_c_cancels_the_run_and_the_chat_continues() {
    let model = Scripted::start([
        Turn::Stalls("# Beginning\nand then"),
        Turn::Says(&["Here I am.\n"]),
    ]);
    let machine = model.machine();
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "Hello?");
    pty.exp_string("Beginning").unwrap();
    pty.send_control('c').unwrap();
    pty.exp_string("interrupted").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "Still there?");
    pty.exp_string("Here I am.").unwrap();
    assert_eq!(model.said(), ["# Beginning\nand then\n\n[interrupted]"]);
    pty.exp_string("chat/moderate>").unwrap();
    // At the prompt, one says how to leave and two leave, unless something was typed in between.
    for typed in ["", "a draft"] {
        pty.send(typed).unwrap();
        pty.send_control('c').unwrap();
        pty.exp_string("Ctrl-C again, or Ctrl-D, to leave").unwrap();
        pty.exp_string("chat/moderate>").unwrap();
    }
    pty.send_control('c').unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn ctrl_c_stops_waiting_for_a_run_and_the_chat_continues() {
    let model = Scripted::start([Turn::Stalls("well")]);
    let machine = model.machine();
    killed(&machine);
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "/resume");
    pty.exp_string("note: another process is driving run")
        .unwrap();
    pty.send_control('c').unwrap();
    pty.exp_string("interrupted").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

/// A shell's user also types in a line editor, which is not the program's own.
#[test]
fn a_background_command_ends_without_changing_terminal_settings() {
    let model = Scripted::start([Turn::Stalls("well")]);
    let machine = model.machine();
    let script = "set -m; mkfifo said; \"$0\" ask --format events 'Hello?' > said & \
                  exec 3< said; dd bs=4 count=1 <&3 2> /dev/null; stty -icanon; kill -TERM %1; wait %1; \
                  echo \" ended with $?, $(stty -a | grep -c -e -icanon) as the shell wants it\"";
    let mut shell = machine.shell(script);
    shell
        .env("MY_KEY", "k")
        .stdin(std::process::Stdio::inherit());
    let options = Options::new().timeout_ms(Some(PATIENCE));
    let mut pty = spawn_with_options(shell, options).unwrap();
    pty.exp_string(" ended with 143, 1 as the shell wants it")
        .unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn a_question_is_shown_again_after_the_program_is_stopped_and_continued() {
    use rexpect::process::Signal;

    let machine = Machine::new();
    let question = [&["ask"], &READING_ASKS[..], &["What time is it?"]].concat();
    let mut pty = open_terminal(&machine, &question);
    pty.exp_string("your answer:").unwrap();
    let stop_and_go_on = |pty: &mut PtySession| {
        for signal in [Signal::SIGSTOP, Signal::SIGCONT] {
            pty.process_mut().signal(signal).unwrap();
        }
        pty.exp_string("asks for your approval").unwrap();
    };
    stop_and_go_on(&mut pty);
    pty.exp_string("your answer:").unwrap();
    // Also after an invalid answer.
    type_line(&mut pty, "zz");
    pty.exp_string("not one of the choices").unwrap();
    pty.exp_string("your answer:").unwrap();
    stop_and_go_on(&mut pty);
    pty.exp_string("not one of the choices").unwrap();
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "y");
    pty.exp_string("It is ").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

/// Some shells, such as bash but not dash, bring a running program to the foreground without sending it a signal to
/// continue.
#[test]
fn a_question_is_shown_again_after_returning_from_the_background() {
    let machine = Machine::new();
    let script = "exec $(command -v bash || echo sh) -c 'set -m; \
                  \"$0\" ask --set modes.moderate.tools.read_only=ask \"What time is it?\"; \
                  bg %1; sleep 1; echo \"to the front\"; fg %1; echo \" ended with $?\"' \"$0\"";
    let mut shell = machine.shell(script);
    shell.stdin(std::process::Stdio::inherit());
    let options = Options::new()
        .timeout_ms(Some(PATIENCE))
        .strip_ansi_escape_codes(true);
    let mut pty = spawn_with_options(shell, options).unwrap();
    pty.exp_string("your answer:").unwrap();
    pty.send_control('z').unwrap();
    pty.exp_string("to the front").unwrap();
    pty.exp_string("asks for your approval").unwrap();
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "y");
    pty.exp_string("It is ").unwrap();
    pty.exp_string(" ended with 0").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn a_background_command_requests_no_approval_and_is_not_stopped() {
    const CALLS: [(&str, &str); 1] = [("write_file", r#"{"path":"a.txt","content":"one\n"}"#)];
    let model = Scripted::start([Turn::Calls(&CALLS), Turn::Says(&["Well.\n"])]);
    let machine = model.machine();
    let script = "set -m; \"$0\" ask --channel code_task 'Go on.' & wait %1; echo \" ended with $?\"; kill -KILL %1 2> /dev/null";
    let mut shell = machine.shell(script);
    shell
        .env("MY_KEY", "k")
        .stdin(std::process::Stdio::inherit());
    let options = Options::new().timeout_ms(Some(PATIENCE));
    let mut pty = spawn_with_options(shell, options).unwrap();
    pty.exp_string(" ended with 4").unwrap();
    wait_for_exit(&mut pty);
    assert!(!machine.path("a.txt").exists());
}

#[test]
fn no_line_of_a_question_starts_with_model_text() {
    // A forged line of the program, placed where a terminal would wrap a line of the model's text.
    const CALLS: [(&str, &str); 1] = [(
        "write_file",
        concat!(
            r#"{"path":"a.txt","content":""#,
            "                                                                              ",
            r#"╰ why: rule look-around lets it run"}"#
        ),
    )];
    let model = Scripted::start([Turn::Calls(&CALLS), Turn::Says(&["Well.\n"])]);
    let machine = model.machine();
    let mut pty = open_terminal(&machine, &["ask", "--channel", "code_task", "Go on."]);
    pty.exp_string("asks for your approval").unwrap();
    let question = pty.exp_string("[y] allow it once").unwrap();
    // Each byte arrives as a separate character.
    let bytes = question.chars().map(|byte| u8::try_from(byte).unwrap());
    let question = String::from_utf8(bytes.collect()).unwrap();
    assert!(question.contains("look-around"), "{question}");
    for line in question.lines().skip(1) {
        let is_ours = [
            "│ ",
            "┆ ",
            "├ write_file",
            "├ rule:",
            "╰ why: Mode moderate",
            "    ",
        ];
        let is_ours = is_ours.iter().any(|sign| line.starts_with(sign));
        assert!(is_ours || line.is_empty(), "{line:?} in {question}");
        assert!(line.chars().count() <= 80, "{line:?}");
    }
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "n");
    pty.exp_string("reason for the model").unwrap();
    type_line(&mut pty, "");
    pty.exp_string("Well.").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn a_call_that_needs_approval_is_shown_and_runs_after_a_yes() {
    let machine = Machine::new();
    let mut pty = open_terminal(
        &machine,
        &[&["ask"], &READING_ASKS[..], &["What time is it?"]].concat(),
    );
    pty.exp_string("current_time asks for your approval")
        .unwrap();
    pty.exp_string("exactly these arguments:").unwrap();
    pty.exp_string("changes nothing").unwrap();
    pty.exp_string("your answer:").unwrap();
    // An empty line is not an answer.
    type_line(&mut pty, "");
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "y");
    pty.exp_string("It is ").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn text_pasted_at_a_question_approves_nothing() {
    let model = Scripted::start([
        Turn::Calls(&[("current_time", r#"{"time_zone":"Asia/Tokyo"}"#)]),
        Turn::Says(&["Done.\n"]),
    ]);
    let machine = model.machine();
    let question = [&["ask"], &READING_ASKS[..], &["What time is it?"]].concat();
    let mut pty = open_terminal(&machine, &question);
    pty.exp_string("your answer:").unwrap();
    for pasted in [
        "Please review:\ry\r1\r",
        "\u{1b}[200~Please review:\ry\r1\r\u{1b}[201~",
    ] {
        pty.send(pasted).unwrap();
        pty.flush().unwrap();
        pty.exp_string("not one of the choices").unwrap();
        pty.exp_string("your answer:").unwrap();
    }
    type_line(&mut pty, "n");
    pty.exp_string("reason for the model").unwrap();
    type_line(&mut pty, "");
    pty.exp_string("Done.").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
    assert!(
        !model.results().contains("Asia/Tokyo"),
        "{}",
        model.results()
    );
}

#[test]
fn several_calls_are_approved_one_by_one_and_a_denial_gives_the_model_the_reason() {
    let model = Scripted::start([
        Turn::Calls(&[
            ("current_time", r#"{"time_zone":"Asia/Tokyo"}"#),
            ("current_time", r#"{"time_zone":"Europe/Paris"}"#),
        ]),
        Turn::Says(&["Done.\n"]),
    ]);
    let machine = model.machine();
    let mut pty = chat(&machine, &READING_ASKS);
    type_line(&mut pty, "What time is it in Tokyo and Paris?");
    pty.exp_string("Asia/Tokyo").unwrap();
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "n");
    pty.exp_string("reason for the model").unwrap();
    type_line(&mut pty, "not there");
    pty.exp_string("Europe/Paris").unwrap();
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "yes");
    pty.exp_string("Done.").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    let results = model.results();
    assert!(
        results.contains("not there") && results.contains("Europe/Paris"),
        "{results}"
    );
    assert!(!results.contains("Asia/Tokyo"), "{results}");
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn arguments_can_be_edited_in_an_external_editor_before_the_call_runs() {
    let model = Scripted::start([
        Turn::Calls(&[("current_time", r#"{"time_zone":"Asia/Tokyo"}"#)]),
        Turn::Says(&["Done.\n"]),
    ]);
    let machine = model.machine();
    let question = [&["ask"], &READING_ASKS[..], &["What time is it?"]].concat();
    let mut command = machine.command(question);
    command
        .env("TERM", "xterm-256color")
        .env("MY_KEY", "k")
        .env("EDITOR", "sed -i s/Tokyo/Seoul/")
        .stdin(std::process::Stdio::inherit());
    let options = Options::new().strip_ansi_escape_codes(true);
    let mut pty = spawn_with_options(command, options.timeout_ms(Some(PATIENCE))).unwrap();
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "e");
    pty.exp_string("Asia/Seoul").unwrap();
    pty.exp_string("that you edited").unwrap();
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "y");
    pty.exp_string("Done.").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
    assert!(
        model.results().contains("Asia/Seoul"),
        "{}",
        model.results()
    );
}

#[test]
fn ctrl_c_at_a_question_stops_the_run() {
    let machine = Machine::new();
    let mut pty = open_terminal(
        &machine,
        &[&["ask"], &READING_ASKS[..], &["What time is it?"]].concat(),
    );
    pty.exp_string("your answer:").unwrap();
    pty.send_control('c').unwrap();
    pty.exp_string("interrupted").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 130);
}

#[test]
fn a_postponed_question_is_asked_again_when_the_chat_is_resumed() {
    let store = ["--set", "store.url=sqlite://sessions.db"];
    let settings = [&READING_ASKS[..], &store].concat();
    let machine = Machine::new();
    let mut pty = chat(&machine, &settings);
    type_line(&mut pty, "What time is it?");
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "l");
    pty.exp_string("waits for your approval of a call").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "And now?");
    pty.exp_string("/resume continues it").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    pty.send_control('d').unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);

    let mut pty = open_terminal(
        &machine,
        &[&["chat", "--session", "s"], &settings[..]].concat(),
    );
    pty.exp_string("your approval of a call: /resume continues it")
        .unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/approvals");
    pty.exp_string("current_time").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/resume");
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "y");
    pty.exp_string("It is ").unwrap();
    pty.exp_string("2 model calls").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn a_question_decided_elsewhere_is_withdrawn_and_names_the_user() {
    let store = ["--set", "store.url=sqlite://sessions.db"];
    let settings = [&READING_ASKS[..], &store].concat();
    let machine = Machine::new();
    let question = [
        &["ask", "--session", "s"],
        &settings[..],
        &["What time is it?"],
    ]
    .concat();
    let mut pty = open_terminal(&machine, &question);
    pty.exp_string("your answer:").unwrap();
    pty.send("half an ans").unwrap();
    pty.flush().unwrap();
    let list = [&["runs", "list", "--format", "json"], &store[..]].concat();
    let list = machine.run(list).stdout_of(0);
    let run: serde_json::Value = serde_json::from_str(&list).unwrap();
    let run = run[0]["run_id"].as_str().unwrap();
    let show = [&["approvals", "show", run], &settings[..]].concat();
    let shown = machine.run(show).stdout_of(0);
    let name = shown.strip_prefix("question ").unwrap().lines().next();
    let deny = [
        "approvals",
        "deny",
        run,
        name.unwrap(),
        "--reason",
        "not now",
    ];
    let note = machine.run([&deny, &settings[..]].concat());
    assert_eq!(note.code, Some(0), "{note:?}");
    assert!(note.stderr.contains("the decision is stored"), "{note:?}");
    pty.exp_string("decided elsewhere: denied by tester, at the terminal (not now); an answer")
        .unwrap();
    pty.exp_string("not now").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

/// While the user's slow editor is open, the decision is made elsewhere.
#[test]
fn a_late_answer_is_reported_as_too_late() {
    use std::os::unix::fs::PermissionsExt;

    let script = "#!/bin/sh\nrun=$(\"$OURS\" runs list --set store.url=sqlite://sessions.db --format json \
        | sed -n 's/.*\"run_id\":\"\\([^\"]*\\)\".*/\\1/p')\n\
        question=$(\"$OURS\" approvals show \"$run\" --set store.url=sqlite://sessions.db | sed -n 's/^question //p')\n\
        \"$OURS\" approvals deny \"$run\" \"$question\" --reason 'not now' --set store.url=sqlite://sessions.db\n\
        until \"$OURS\" runs list --set store.url=sqlite://sessions.db --format json | grep -q done; do sleep 0.1; done\n\
        echo '{\"time_zone\":\"Asia/Seoul\"}' > \"$1\"\n";
    let machine = Machine::new().with_file("slow-editor", script);
    let editor = machine.path("slow-editor");
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
    let store = ["--set", "store.url=sqlite://sessions.db"];
    let question = [&["ask"], &READING_ASKS[..], &store, &["What time is it?"]].concat();
    let mut command = machine.command(question);
    let ours = command.get_program().to_owned();
    command
        .env("TERM", "xterm-256color")
        .env("EDITOR", editor)
        .env("OURS", ours)
        .stdin(std::process::Stdio::inherit());
    let options = Options::new().strip_ansi_escape_codes(true);
    let mut pty = spawn_with_options(command, options.timeout_ms(Some(PATIENCE))).unwrap();
    pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "e");
    pty.exp_string("with arguments that you edited").unwrap();
    pty.exp_string("denied by tester, at the terminal (not now); an answer")
        .unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn a_long_paragraph_is_shown_while_it_is_being_written() {
    let model = Scripted::start([Turn::Stalls("This **is** all that there is so f")]);
    let machine = model.machine();
    let mut pty = chat(&machine, &[]);
    type_line(&mut pty, "Hello?");
    pty.exp_string("This is all that there is so").unwrap();
    pty.send_control('c').unwrap();
    // Text that was held back is not lost.
    pty.exp_string(" f").unwrap();
    pty.exp_string("interrupted").unwrap();
    pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
}

#[test]
fn no_control_character_from_a_model_reaches_the_terminal() {
    let model = Scripted::start([
        Turn::Thinks(
            "\u{1b}]0;pwned-thought\u{7}",
            "# \u{1b}]0;pwned-title\u{7}\n&#27;]0;pwned-entity&#7; \u{9b}31;45mpwned\u{202e}\u{e0041}\n\nThe end.\n",
        ),
        Turn::Calls(&[
            ("\u{1b}]0;pwned-name\u{7}", "{}"),
            (
                "current_time",
                "{\"time_zone\":\"\u{1b}]0;pwned-raw\u{7}\"}",
            ),
            (
                "current_time",
                r#"{"time_zone":"\u001b]0;pwned-argument\u0007\u202e\u200b"}"#,
            ),
        ]),
        Turn::Says(&["Done.\n"]),
    ]);
    let machine = model.machine();
    let mut pty = open_terminal_with(
        &machine,
        &[&["chat", "--session", "s"], &READING_ASKS[..]].concat(),
        Options::new(),
    );
    let mut seen = pty.exp_string("chat/moderate>").unwrap();
    type_line(&mut pty, "Hello?");
    seen += &pty.exp_string("The end.").unwrap();
    type_line(&mut pty, "And then?");
    seen += &pty.exp_string("your answer:").unwrap();
    type_line(&mut pty, "y");
    seen += &pty.exp_string("Done.").unwrap();
    type_line(&mut pty, "/quit");
    seen += &pty.exp_eof().unwrap();
    // Each byte was read as a separate character.
    let bytes = seen.chars().map(|byte| u8::try_from(byte).unwrap());
    let seen = String::from_utf8(bytes.collect()).unwrap();
    assert!(
        seen.contains("pwned-title") && seen.contains("pwned-argument"),
        "{seen:?}"
    );
    for hostile in [
        "\u{1b}]0;",
        "\u{7}",
        "\u{9b}",
        "\u{202e}",
        "\u{200b}",
        "\u{e0041}",
    ] {
        assert!(!seen.contains(hostile), "{hostile:?} is in {seen:?}");
    }
}

const LOOSER: &str = "[modes.moderate]\nmax_turns = 30\n";

/// Returns whether the file of the working directory is trusted.
fn is_trusted(machine: &Machine) -> bool {
    let shown = machine.run(["config", "show"]).stdout_of(0);
    shown
        .lines()
        .any(|line| line.starts_with("modes.moderate.max_turns = 30"))
}

#[test]
fn trust_in_a_file_is_asked_once_and_a_no_is_remembered() {
    let machine = Machine::new().with_untrusted(LOOSER);
    let mut pty = open_terminal(&machine, &["ask", "What time is it?"]);
    pty.exp_string("modes.moderate.max_turns = 30").unwrap();
    pty.exp_string("loosens the policy: it raises a limit")
        .unwrap();
    pty.exp_string("Trust it?").unwrap();
    type_line(&mut pty, "n");
    pty.exp_string("is not trusted; ignored: modes.moderate.max_turns")
        .unwrap();
    pty.exp_string("It is ").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
    assert!(!is_trusted(&machine));

    // The next time no question is asked, and the notice stays.
    let mut pty = open_terminal(&machine, &["chat", "--session", "s"]);
    let before = pty.exp_string("chat/moderate>").unwrap();
    assert!(!before.contains("Trust it?"), "{before}");
    assert!(before.contains("is not trusted; ignored"), "{before}");
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);

    // Changed content is asked about again.
    let machine = machine.with_untrusted(format!("{LOOSER}#"));
    let mut pty = open_terminal(&machine, &["chat", "--session", "s"]);
    pty.exp_string("Trust it?").unwrap();
    type_line(&mut pty, "y");
    let before = pty.exp_string("chat/moderate>").unwrap();
    assert!(!before.contains("ignored"), "{before}");
    type_line(&mut pty, "/quit");
    assert_eq!(wait_for_exit(&mut pty), 0);
    assert!(is_trusted(&machine));
}

#[test]
fn only_an_explicit_no_to_a_trust_question_is_remembered() {
    let machine = Machine::new().with_untrusted(LOOSER);
    for answer in ["", "later"] {
        let mut pty = open_terminal(&machine, &["ask", "What time is it?"]);
        let before = pty.exp_string("Trust it?").unwrap();
        assert!(!before.contains("to trust it, run"), "{before}");
        type_line(&mut pty, answer);
        pty.exp_string("is not trusted; ignored").unwrap();
        pty.exp_string("It is ").unwrap();
        assert_eq!(wait_for_exit(&mut pty), 0);
    }
    let mut pty = open_terminal(&machine, &["ask", "What time is it?"]);
    pty.exp_string("[y/N]").unwrap();
    pty.send_control('d').unwrap();
    pty.exp_string("It is ").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
    let shown = machine.run(["trust"]).stdout_of(0);
    assert!(shown.contains("neuraxis.toml: not trusted\n"), "{shown}");
}

#[test]
fn deletion_is_confirmed_with_complete_ids() {
    const IDS: [&str; 3] = [
        "a-trip-to-the-other-end-of-the-world",
        "a-trip-to-the-very-middle-of-the-earth",
        "a-trip-to-the-moon-and-back-again",
    ];
    let machine = Machine::new();
    for id in IDS {
        machine
            .run(["ask", "--session", id, "What time is it?"])
            .stdout_of(0);
    }
    let mut pty = open_terminal(&machine, &[&["sessions", "delete"], &IDS[..]].concat());
    let question = pty.exp_string("[y/N]").unwrap();
    assert!(question.contains("with all their runs?"), "{question}");
    for id in IDS {
        assert!(question.contains(id), "{question}");
    }
    for line in question.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
    type_line(&mut pty, "n");
    pty.exp_string("nothing was deleted").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 1);
}

#[test]
fn no_trust_question_is_asked_for_a_file_too_long_to_show() {
    let models = (0..100).map(|n| format!("[models.a{n:04}]\nprovider = 'offline'\n"));
    let models: String = models.collect();
    let commands = "'git status', ".repeat(200);
    let rule = format!(
        "[rules.a]\nanswer = 'allow'\ntools = ['run_command']\ncommands = [{commands}'rm **']\n"
    );
    for text in [format!("{models}{LOOSER}"), rule] {
        let machine = Machine::new().with_untrusted(text);
        let mut pty = open_terminal(&machine, &["ask", "What time is it?"]);
        let told = pty.exp_string("It is ").unwrap();
        // The lines are as wide as the terminal.
        let told: Vec<&str> = told.split_whitespace().collect();
        let told = told.join(" ");
        assert!(
            told.contains("trust it with `neuraxis trust add --yes`"),
            "{told}"
        );
        assert!(!told.contains("Trust it?"), "{told}");
        assert_eq!(wait_for_exit(&mut pty), 0);

        let mut pty = open_terminal(&machine, &["trust", "add"]);
        let told = pty
            .exp_string("its changes are too long to show in full")
            .unwrap();
        assert!(!told.contains("Trust it?"), "{told}");
        pty.exp_string("trust it with `neuraxis trust add --yes`")
            .unwrap();
        assert_eq!(wait_for_exit(&mut pty), 2);
        let shown = machine.run(["trust"]).stdout_of(0);
        assert!(shown.contains("neuraxis.toml: not trusted\n"), "{shown}");
    }
}

#[test]
fn no_line_of_a_file_to_be_trusted_can_imitate_the_program() {
    let text = format!(
        "[store]\nurl = '{}nothing else is changed'\n",
        "x ".repeat(200)
    );
    let machine = Machine::new().with_untrusted(text);
    for arguments in [&["trust"][..], &["trust", "add"]] {
        let mut pty = open_terminal(&machine, arguments);
        pty.exp_string("most dangerous first:").unwrap();
        let end = match arguments {
            ["trust"] => "to trust it, run `neuraxis trust add`",
            _ => "Trust it?",
        };
        let shown = pty.exp_string(end).unwrap();
        // Each byte arrives as a separate character.
        let bytes = shown.chars().map(|byte| u8::try_from(byte).unwrap());
        let shown = String::from_utf8(bytes.collect()).unwrap();
        assert!(shown.contains("┆ "), "{shown}");
        for line in shown.lines().skip(1) {
            let is_theirs = ["│ ", "┆ "].iter().any(|sign| line.starts_with(sign));
            assert!(is_theirs || line.is_empty(), "{line:?} in {shown}");
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        // One of them waits for an answer, and the other has already ended.
        let _ = pty.send_control('d');
        wait_for_exit(&mut pty);
    }
}

#[test]
fn no_line_of_project_instructions_to_be_trusted_can_imitate_the_program() {
    let text = format!("{}it is trusted\n", "x ".repeat(100));
    let machine = Machine::new().with_file("AGENTS.md", text);
    let mut pty = open_terminal(&machine, &["trust", "add"]);
    pty.exp_string("do.").unwrap();
    let shown = pty.exp_string("Trust it?").unwrap();
    // Each byte arrives as a separate character.
    let bytes = shown.chars().map(|byte| u8::try_from(byte).unwrap());
    let shown = String::from_utf8(bytes.collect()).unwrap();
    assert!(shown.contains("┆ "), "{shown}");
    for line in shown.lines().skip(1) {
        let is_theirs = ["│ ", "┆ "].iter().any(|sign| line.starts_with(sign));
        assert!(is_theirs || line.is_empty(), "{line:?} in {shown}");
    }
    // The command waits for an answer.
    pty.send_control('d').unwrap();
    wait_for_exit(&mut pty);
}

#[test]
fn no_trust_question_is_asked_with_machine_readable_output() {
    let machine = Machine::new().with_untrusted(LOOSER);
    for format in ["json", "events"] {
        let mut pty = open_terminal(&machine, &["ask", "--format", format, "What time is it?"]);
        let told = pty.exp_eof().unwrap();
        assert!(!told.contains("Trust it?"), "{told}");
        assert!(told.contains("is not trusted; ignored"), "{told}");
    }
    assert!(!is_trusted(&machine));
}

#[test]
fn trust_applies_to_the_content_that_was_shown() {
    let machine = Machine::new().with_untrusted(LOOSER);
    let mut pty = open_terminal(&machine, &["trust", "add"]);
    pty.exp_string("Trust it?").unwrap();
    // The file changes while the question is open.
    let machine = machine.with_untrusted("[modes.moderate]\nmax_turns = 40\n");
    type_line(&mut pty, "y");
    pty.exp_string("trusted ").unwrap();
    assert_eq!(wait_for_exit(&mut pty), 0);
    let shown = machine.run(["config", "show"]).stdout_of(0);
    assert!(
        shown.contains("modes.moderate.max_turns = 10  # default"),
        "{shown}"
    );
    assert!(is_trusted(&machine.with_untrusted(LOOSER)));
}
