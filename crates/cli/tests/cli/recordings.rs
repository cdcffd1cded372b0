//! `neuraxis ask --record` and `--replay`.

use std::fs;

use crate::machine::{Done, Machine};
use crate::provider::{ANSWER, Behavior, Provider};
use crate::providers::machine;
use crate::scripted::{Scripted, Turn};

const QUESTION: &str = "What time is it?";

fn offline() -> Machine {
    Machine::new().with_file(
        "neuraxis.toml",
        "[models.reasoning]\nprovider = 'offline'\n",
    )
}

/// Makes a recording in the file `it.cassette`, and returns the answer.
fn recorded(machine: &Machine, question: &[&str]) -> String {
    let ask = [&["ask", "--record", "it.cassette"], question].concat();
    machine.run(ask).stdout_of(0)
}

#[test]
fn a_recording_replays_without_a_server_and_without_the_key() {
    let provider = Provider::start(Behavior::Works);
    let section = format!(
        "provider = 'openai'\nmodel = 'gpt-test'\nbase_url = '{}'",
        provider.url()
    );
    let machine = machine(&section);
    let mut ask = machine.command(["ask", "--record", "it.cassette", QUESTION]);
    let done = ask.env("MY_KEY", "my-canary-key").output().unwrap();
    assert_eq!(
        String::from_utf8(done.stdout).unwrap(),
        format!("{ANSWER}\n")
    );
    let recording = fs::read_to_string(machine.path("it.cassette")).unwrap();
    assert!(!recording.contains("canary"), "{recording}");
    let asked = provider.seen().len();
    assert_eq!(asked, 2);

    for speed in ["instant", "recorded"] {
        let replay = [
            "ask",
            "--replay",
            "it.cassette",
            "--speed",
            speed,
            "--strict",
            QUESTION,
        ];
        let done = machine.run(replay);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(done.stdout, format!("{ANSWER}\n"));
        assert_eq!(
            done.stderr,
            "note: replaying it.cassette: no model is asked\n"
        );
    }
    assert_eq!(provider.seen().len(), asked, "the server was asked again");
}

#[test]
fn a_run_with_changing_readings_replays_unless_tool_results_are_compared() {
    let machine = offline();
    let question = ["--channel", "system_health", "How is this machine?"];
    let answer = recorded(&machine, &question);
    let replay = [&["ask", "--replay", "it.cassette"], &question[..]].concat();
    assert_eq!(machine.run(&replay).stdout_of(0), answer);
    let compared = [&replay[..], &["--tool-results", "compare"]].concat();
    let done = machine.run(compared);
    assert_eq!(done.code, Some(1), "{done:?}");
}

#[test]
fn a_recording_in_the_project_replays_and_does_not_restrict_commands() {
    let turns = [
        Turn::Calls(&[(
            "run_command",
            r#"{"command": "echo hi > made.txt; echo x > it.cassette"}"#,
        )]),
        Turn::Says(&["Done."]),
    ];
    let model = Scripted::start(turns);
    let machine = model.machine();
    let case = "[[case]]\nname = 'a'\nmessage = 'Make it'\nchannel = 'code_task'\n\
        approve = ['run_command']\ncheck = [{ exact = 'Done.' }]\n";
    let machine = machine.with_file("evals.toml", case);
    let eval = ["eval", "--approve", "evals.toml"];
    let mut command = machine.command(eval);
    let recording = command.args(["--record", "it.cassette"]);
    let done: Done = recording.env("MY_KEY", "k").output().unwrap().into();
    assert_eq!(done.code, Some(0), "{done:?}");
    // The result must be the same as without a recording: commands do not run everywhere.
    let other = r#"{"command": "echo hi > other.txt"}"#;
    let mut called = machine.command(["tools", "call", "run_command", other]);
    called.env("MY_KEY", "k").output().unwrap();
    let is_made = |name: &str| machine.path(name).exists();
    assert_eq!(is_made("made.txt"), is_made("other.txt"));
    let replay = [&eval[..], &["--replay", "it.cassette"]].concat();
    let done = machine.run(replay);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_replay_uses_the_context_size_of_the_recorded_model() {
    let model = Scripted::start([Turn::Says(&["I am."])]);
    // Too few tokens for the definitions of all tools.
    let section = format!(
        "[models.reasoning]\nprovider = 'llama'\nbase_url = '{}'\ncontext_tokens = 500\n",
        model.url()
    );
    let machine = Machine::new().with_file("neuraxis.toml", section);
    let question = "Are you there?";
    assert_eq!(recorded(&machine, &[question]), "I am.\n");
    let recording = fs::read_to_string(machine.path("it.cassette")).unwrap();
    assert!(recording.contains("\"context_tokens\":500,"), "{recording}");
    let done = machine.run(["ask", "--replay", "it.cassette", "--strict", question]);
    assert_eq!(done.stdout_of(0), "I am.\n");
    assert_eq!(model.asked(), 1);
}

#[test]
fn a_question_that_was_not_recorded_fails_and_shows_the_difference() {
    let machine = offline();
    recorded(&machine, &[QUESTION]);
    let done = machine.run(["ask", "--replay", "it.cassette", "How late is it?"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    for expected in [
        "it.cassette: this request was not recorded; the closest recording is exchange 1 (line 2) (- recorded, + requested):\n",
        "\n    - ",
        "What time is it?",
        "\n    + ",
        "How late is it?",
        "\nhint: record it again with --record, or ask what was recorded\n",
    ] {
        assert!(
            done.stderr.contains(expected),
            "{expected:?}: {}",
            done.stderr
        );
    }
}

#[test]
fn unplayed_recordings_are_a_warning_and_with_strict_an_error() {
    let machine = offline().with_file("notes.txt", "the treasure is under the oak\n");
    recorded(&machine, &[QUESTION]);
    // The same recording, followed by another one.
    let first = fs::read_to_string(machine.path("it.cassette")).unwrap();
    fs::remove_file(machine.path("it.cassette")).unwrap();
    recorded(&machine, &["--channel", "code_task", "Read notes.txt"]);
    let other = fs::read_to_string(machine.path("it.cassette")).unwrap();
    let behind = other.split_once('\n').unwrap().1;
    let behind = behind.replace("{\"number\":1,", "{\"number\":3,");
    let behind = behind.replace("{\"number\":2,", "{\"number\":4,");
    let machine = machine.with_file("both.cassette", format!("{first}{behind}"));

    let done = machine.run(["ask", "--replay", "both.cassette", QUESTION]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let expected = "warning: 2 of 4 recordings were not played; the first is exchange ";
    assert!(done.stderr.contains(expected), "{}", done.stderr);
    let done = machine.run(["ask", "--replay", "both.cassette", "--strict", QUESTION]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stderr
            .contains("2 recordings were never played: exchange "),
        "{}",
        done.stderr
    );
}

#[test]
fn recording_a_request_that_contains_the_key_as_a_word_gives_a_warning() {
    let model = Scripted::start([Turn::Says(&["Yes."]), Turn::Says(&["Yes."])]);
    let machine = model.machine();
    for (key, file, is_told) in [
        ("nothing", "word.cassette", true),
        ("canary-key-1234", "key.cassette", false),
    ] {
        let mut ask = machine.command(["ask", "--record", file, "All or nothing?"]);
        let done: Done = ask.env("MY_KEY", key).output().unwrap().into();
        assert_eq!(done.code, Some(0), "{done:?}");
        let told = "answers only where the same secret is configured";
        assert_eq!(done.stderr.contains(told), is_told, "{done:?}");
    }
}

#[test]
fn a_recording_that_cannot_be_created_or_read_is_refused_with_a_hint() {
    let machine = offline()
        .with_file("there.cassette", "mine")
        .with_file("wrong.cassette", "hello\n");
    for (flag, file, code, expected) in [
        (
            "--record",
            "there.cassette",
            2,
            "there.cassette already exists",
        ),
        (
            "--record",
            "no/such/folder.cassette",
            2,
            "no/such/folder.cassette\n  because: No such file",
        ),
        (
            "--replay",
            "none.cassette",
            2,
            "error: wrong usage: cannot read none.cassette\n  because: No such file",
        ),
        (
            "--replay",
            "wrong.cassette",
            2,
            "wrong.cassette, line 1: not a cassette",
        ),
    ] {
        let complaint = machine.run(["ask", flag, file, QUESTION]).complaint(code);
        assert!(complaint.contains(expected), "{complaint}");
        assert!(complaint.contains("\nhint: "), "{complaint}");
    }
    assert_eq!(
        fs::read_to_string(machine.path("there.cassette")).unwrap(),
        "mine"
    );
    // A device must not be removed.
    let complaint = machine.run(["ask", "--record", "/dev/null", QUESTION]);
    let complaint = complaint.complaint(2);
    assert!(
        complaint.contains("\nhint: record to another file"),
        "{complaint}"
    );
}

#[test]
fn a_refused_question_leaves_no_recording() {
    let machine = offline();
    let ask = ["ask", "--record", "it.cassette", "--mode", "yolo", QUESTION];
    machine.run(ask).complaint(2);
    assert!(!machine.path("it.cassette").exists());
}

#[test]
fn a_recording_can_serve_a_role() {
    let machine = offline();
    let answer = recorded(&machine, &[QUESTION]);
    let machine = machine.with_file(
        "neuraxis.toml",
        "[models.reasoning]\nprovider = 'cassette'\nfile = 'it.cassette'\ntool_results = 'ignore'\n",
    );
    let done = machine.run(["ask", QUESTION]);
    assert_eq!(done.stdout, answer, "{done:?}");
    assert!(
        done.stderr
            .starts_with("note: reasoning: not a model but a recording: "),
        "{}",
        done.stderr
    );
}

#[test]
fn a_recording_that_serves_a_role_answers_a_redacted_question() {
    let model = Scripted::start([Turn::Says(&["A customer."])]);
    let machine = model.machine();
    let telemetry = "[telemetry]\nredact = ['CUST-\\d+']\n";
    let models = fs::read_to_string(machine.path("neuraxis.toml")).unwrap();
    let machine = machine.with_file("neuraxis.toml", format!("{models}{telemetry}"));
    let question = "Who is CUST-17?";
    let mut ask = machine.command(["ask", "--record", "it.cassette", question]);
    let done = ask.env("MY_KEY", "my-canary-key").output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let recording = fs::read_to_string(machine.path("it.cassette")).unwrap();
    assert!(!recording.contains("CUST-17"), "{recording}");
    let behind = "[models.reasoning]\nprovider = 'cassette'\nfile = 'it.cassette'\n";
    let machine = machine.with_file("neuraxis.toml", format!("{behind}{telemetry}"));
    let answer = machine.run(["ask", question]).stdout_of(0);
    assert_eq!(answer, "A customer.\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_recording_on_a_full_disk_ends_before_the_exchange_that_does_not_fit() {
    let machine = offline();
    let flags = ["--set", "store.url=memory:", "--record"];
    let question = "What time is it?";
    let ask = [&["ask"][..], &flags, &["whole.cassette", question]].concat();
    machine.run(ask).stdout_of(0);
    let whole = fs::read_to_string(machine.path("whole.cassette")).unwrap();
    let first = whole.find("{\"exchange\":{\"number\":2").unwrap();
    // In blocks of 512 bytes: first there is room for one of two exchanges, and then for none.
    for (blocks, exchanges) in [(first / 512 + 1, 1), (2, 0)] {
        let script = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" ask {} it.cassette '{question}'",
            flags.join(" ")
        );
        let output = machine.shell(&script).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("it.cassette"), "{told}");
        let file = machine.path("it.cassette");
        if exchanges == 0 {
            // It would only prevent the next recording with its name.
            assert!(!file.exists());
            continue;
        }
        let recording = fs::read_to_string(&file).unwrap();
        assert_eq!(recording.matches("{\"exchange\":").count(), exchanges);
        assert!(recording.ends_with("\"how\":\"ended\"}}\n"), "{recording}");
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn contradictory_recording_options_are_a_usage_error() {
    for flags in [
        &["--record", "a", "--replay", "b"][..],
        &["--speed", "recorded"],
        &["--strict"],
        &["--replay", "a", "--speed", "slow"],
    ] {
        Machine::new()
            .run([&["ask", "Hi"], flags].concat())
            .complaint(2);
    }
}
