//! Everyday use: another model, the last session, short ids, and the chat commands about the conversation.

use std::process::Stdio;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

fn chat(machine: &Machine, arguments: &[&str], lines: &str) -> Done {
    let input = machine.root().join("lines");
    std::fs::write(&input, lines).unwrap();
    let mut command = machine.command([&["chat"], arguments].concat());
    command
        .env("MY_KEY", "k")
        .stdin(Stdio::from(std::fs::File::open(input).unwrap()));
    command.output().unwrap().into()
}

#[test]
fn the_model_option_selects_another_model_or_a_role_the_policy_allows() {
    let model = Scripted::start([Turn::Says(&["One."]), Turn::Says(&["Two."])]);
    let machine = model.machine();
    machine
        .run_with_key(["-m", "gpt-other", "Who are you?"])
        .stdout_of(0);
    assert_eq!(model.asked_for(), "gpt-other");
    let more = [
        "--set",
        "models.coding.provider=openai",
        "--set",
        "models.coding.api=chat",
        "--set",
        "models.coding.model=coder",
        "--set",
        "models.coding.api_key_env=MY_KEY",
        "--set",
    ];
    let address = format!("models.coding.base_url={}/v1", model.url());
    let more = [&more[..], &[&address]].concat();
    let coding =
        |mode: &'static str| [&more[..], &["-m", "coding", "--mode", mode, "Hi there"]].concat();
    machine.run_with_key(coding("moderate")).stdout_of(0);
    assert_eq!(model.asked_for(), "coder");
    let restricted = [
        &["--set", "modes.conservative.roles=[\"reasoning\"]"],
        &coding("conservative")[..],
    ];
    let complaint = machine.run_with_key(restricted.concat()).complaint(2);
    assert!(
        complaint.contains("policy does not allow role coding"),
        "{complaint}"
    );
}

#[test]
fn an_unavailable_model_is_refused_with_a_hint() {
    let complaint = Machine::new().run(["-m", "x", "Hi there"]).complaint(2);
    assert!(complaint.contains("neuraxis setup"), "{complaint}");
    let complaint = Machine::new()
        .run(["-m", "openai/x", "Hi there"])
        .complaint(2);
    assert!(complaint.contains("export OPENAI_API_KEY"), "{complaint}");
}

#[test]
fn continue_uses_the_last_session_and_an_id_can_be_given_by_its_end() {
    let model = Scripted::start(std::iter::repeat_n(Turn::Says(&["Yes."]), 4));
    let machine = model.machine();
    machine.run_with_key(["I live in Oslo."]).stdout_of(0);
    machine.run_with_key(["Another session."]).stdout_of(0);
    machine.run_with_key(["-c", "And here?"]).stdout_of(0);
    assert_eq!(model.heard(), ["Another session.", "And here?"]);
    let list = machine
        .run_with_key(["sessions", "list", "--format", "json"])
        .stdout_of(0);
    let list: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
    let oslo = list[1]["id"].as_str().unwrap();
    machine
        .run_with_key(["ask", "--session", &oslo[9..], "And now?"])
        .stdout_of(0);
    assert_eq!(model.heard(), ["I live in Oslo.", "And now?"]);
    let shown = machine.run_with_key(["runs", "show", "last"]).stdout_of(0);
    assert!(shown.contains("And now?"), "{shown}");
    let shown = machine
        .run_with_key(["sessions", "show", "last"])
        .stdout_of(0);
    assert!(shown.contains("Oslo"), "{shown}");
}

#[test]
fn without_a_terminal_a_number_names_a_new_session_and_another_id_end_is_noted() {
    let model = Scripted::start(std::iter::repeat_n(Turn::Says(&["Yes."]), 3));
    let machine = model.machine();
    let theirs = "01a22a7a-e2b2-73f3-b5b8-314e25995882";
    for (session, heard) in [(theirs, 1), ("5882", 1), ("e25995882", 2)] {
        let done = machine.run_with_key(["ask", "-q", "--session", session, "Hello?"]);
        let note = format!("{session} is part of the id of session {theirs}");
        assert_eq!(done.stderr.contains(&note), heard == 2, "{done:?}");
        done.stdout_of(0);
        assert_eq!(model.heard().len(), heard, "{session}");
    }
}

#[test]
fn there_is_no_session_to_continue_at_first() {
    let complaint = Machine::new().run(["-c", "And now?"]).complaint(2);
    assert!(complaint.contains("no session to continue"), "{complaint}");
}

#[test]
fn a_probable_typo_in_a_session_name_is_reported_and_a_new_name_is_not() {
    let machine = Machine::new();
    let ask = |session: &str| machine.run(["ask", "--session", session, "What time is it?"]);
    assert!(!ask("trip").stderr.contains("no session"));
    assert!(!ask("garden").stderr.contains("no session"));
    let told = ask("tripp").stderr;
    assert!(told.contains("did you mean trip?"), "{told}");
    for session in ["night-1.txt", "night-2.txt", "api-1041.txt", "q1", "q7-b"] {
        let told = ask(session).stderr;
        assert!(!told.contains("did you mean"), "{told}");
    }
    let told = ask("deadbeef").stderr;
    assert!(told.contains("there is no session deadbeef yet"), "{told}");
}

#[test]
fn a_conversation_continues_with_its_last_settings_but_not_a_more_permissive_mode() {
    let model = Scripted::start(std::iter::repeat_n(Turn::Says(&["Well."]), 4));
    let machine = model.machine();
    for (mode, expected) in [
        ("conservative", "conservative*"),
        ("exploratory", "moderate*"),
    ] {
        let asked = ["ask", "--channel", "code_task", "--mode", mode, "Hello?"];
        machine.run_with_key(asked).stdout_of(0);
        let done = chat(&machine, &["-c"], "/channel\n/mode\n");
        assert_eq!(
            done.stderr
                .contains("--mode exploratory keeps the earlier mode"),
            mode == "exploratory",
            "{done:?}"
        );
        let seen = done.stdout_of(0);
        assert!(seen.contains("code_task*"), "{seen}");
        assert!(seen.contains(expected), "{seen}");
    }
    for noted in [true, false] {
        let done = machine.run_with_key(["ask", "-c", "And now?"]);
        let note = "the session's last run used --channel code_task, and this one does not";
        assert_eq!(done.stderr.contains(note), noted, "{done:?}");
        done.stdout_of(0);
    }
    let seen = chat(&machine, &["-c", "--channel", "chat"], "/channel\n").stdout_of(0);
    assert!(seen.contains("chat*"), "{seen}");
    let seen = chat(&machine, &["--channel", "code_task"], "/session\n").stdout_of(0);
    assert!(seen.contains(" --channel code_task`"), "{seen}");
}

#[test]
fn a_session_reports_that_another_role_serves_it_than_its_last_run() {
    let model = Scripted::start(std::iter::repeat_n(Turn::Says(&["Well."]), 3));
    let machine = model.machine_with_roles();
    let ask = |more: &[&str]| machine.run_with_key([&["ask"][..], more, &["Hi there"]].concat());
    ask(&["--session", "s", "-m", "coding"]).stdout_of(0);
    let note = "role coding served the session's last run, but reasoning serves now; -m coding keeps the earlier one";
    for (arguments, noted) in [(&["-c"][..], true), (&["-c", "-m", "coding"][..], false)] {
        let done = chat(&machine, arguments, "/mode\n");
        assert_eq!(done.stderr.contains(note), noted, "{done:?}");
        done.stdout_of(0);
    }
    for noted in [true, false] {
        let done = ask(&["-c"]);
        assert_eq!(done.stderr.contains(note), noted, "{done:?}");
        done.stdout_of(0);
    }
}

#[cfg(unix)]
#[test]
fn at_a_terminal_a_mistyped_session_is_not_created_without_confirmation() {
    use rexpect::session::spawn_command;

    let machine = Machine::new();
    machine
        .run(["ask", "--session", "trip", "What time is it?"])
        .stdout_of(0);
    let mut command = machine.command(["chat", "--session", "trpi"]);
    command.env("TERM", "dumb").stdin(Stdio::inherit());
    let mut person = spawn_command(command, Some(60_000)).unwrap();
    person.exp_string("did you mean trip?").unwrap();
    person.send_line("n").unwrap();
    person.exp_string("no session was started").unwrap();
    let _ = person.exp_eof();
    let sessions = machine.run(["sessions", "list"]).stdout_of(0);
    assert!(!sessions.contains("trpi"), "{sessions}");
}

#[cfg(unix)]
#[test]
fn resuming_a_chat_shows_the_last_exchange() {
    use rexpect::session::spawn_command;

    let model = Scripted::start([Turn::Says(&["Noted: Oslo."])]);
    let machine = model.machine();
    machine
        .run_with_key(["ask", "--session", "trip", "I live in Oslo."])
        .stdout_of(0);
    let mut command = machine.command(["chat", "-c"]);
    command
        .env("TERM", "dumb")
        .env("MY_KEY", "k")
        .stdin(Stdio::inherit());
    let mut person = spawn_command(command, Some(60_000)).unwrap();
    person.exp_string("I live in Oslo.").unwrap();
    person.exp_string("Noted: Oslo.").unwrap();
    person.exp_string("chat/moderate>").unwrap();
    person.send_line("exit").unwrap();
    let _ = person.exp_eof();
}

#[cfg(unix)]
#[test]
fn leaving_after_an_undo_names_the_command_that_continues_without_the_undone() {
    use crate::screen::{self, PROMPT};

    for said in [&["first"][..], &["first", "second"]] {
        let model = Scripted::start(std::iter::repeat_n(Turn::Says(&["Noted."]), 3));
        let machine = model.machine();
        let mut screen = screen::chat(&machine, 160, true);
        let typed = said.iter().map(|message| (*message, "Noted."));
        for (typed, expected) in typed.chain([("/undo", "undone: ")]) {
            screen.until("the prompt", |seen| seen.ends_with(PROMPT));
            screen.wipe();
            screen.types(&format!("{typed}\r"));
            screen.until(typed, |seen| {
                seen.contains(expected) && seen.ends_with(PROMPT)
            });
        }
        screen.types("/mode moderate\r");
        screen.until("the mode", |seen| seen.ends_with("code_task/moderate>"));
        screen.wipe();
        screen.types("/quit\r");
        let told = screen.at_its_end();
        let command = told.split("to continue: neuraxis ").nth(1);
        if said.len() == 1 {
            assert_eq!(command, None, "nothing is left to go on with");
            continue;
        }
        let command = command.unwrap_or_else(|| panic!("{told}"));
        // Without it, the fork would have the mode of the run.
        assert!(command.contains(" --mode moderate --message "), "{told}");
        let mut words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words.pop(), Some("TEXT"), "{told}");
        words.push("third");
        machine.run_with_key(words).stdout_of(0);
        assert_eq!(model.heard(), ["first", "third"]);
    }
}

#[test]
fn the_chat_can_retry_undo_show_and_export_messages() {
    let says = ["Zero.", "One.", "Again.", "Two."];
    let turns = says.map(|text| Turn::Says(Box::leak(Box::new([text]))));
    let model = Scripted::start(turns);
    let machine = model.machine();
    let lines = "zeroth\nfirst\n/retry\n/undo\n/session\nsecond\n/history\n/cost\n/export talk.md\n/sessions\n";
    let done = chat(&machine, &["--session", "s"], lines);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        model.heard(),
        ["zeroth", "second"],
        "what was taken back is not sent"
    );
    let written = std::fs::read_to_string(machine.path("talk.md")).unwrap();
    assert_eq!(
        written,
        "## You\n\nzeroth\n\n## Neuraxis\n\nZero.\n\n## You\n\nsecond\n\n## Neuraxis\n\nTwo.\n\n"
    );
    assert!(done.stdout.contains("model call"), "{done:?}");
    let go_on = "; to continue without what was undone: `neuraxis runs fork ";
    assert!(done.stdout.contains(go_on), "{done:?}");
    // The original session keeps its messages.
    let shown = machine.run_with_key(["sessions", "show", "s"]).stdout_of(0);
    assert!(shown.contains("first") && shown.contains("One."), "{shown}");
}

#[test]
fn a_switched_model_answers_from_then_on_and_receives_the_history() {
    let model = Scripted::start([Turn::Says(&["One."]), Turn::Says(&["Two."])]);
    let machine = model.machine();
    let memory = ["--set", "store.url=memory:"];
    let done = chat(&machine, &memory, "first\n/model gpt-other\nsecond\n");
    assert!(done.stdout.contains("gpt-other)*"), "{done:?}");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(model.asked_for(), "gpt-other");
    assert_eq!(model.heard(), ["first", "second"]);
}

#[test]
fn a_failing_chat_command_changes_nothing() {
    let machine = Machine::new();
    machine
        .run(["ask", "--session", "other", "What time is it?"])
        .stdout_of(0);
    let lines = "/resume nope\n/resume other\n/session\n/channel deep_research\n/channel\n/undo\n/new now\n/session\n";
    let done = chat(&machine, &["--session", "s"], lines);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(done.stdout.matches("session s;").count(), 2, "{done:?}");
    assert!(done.stdout.contains("chat*"), "{done:?}");
    assert!(done.stderr.contains("/mode exploratory first"), "{done:?}");
}

#[test]
fn a_named_file_is_sent_with_the_message_and_an_unknown_name_stays_text() {
    let model = Scripted::start([Turn::Says(&["Dark."])]);
    let machine = model.machine().with_file("notes.md", "It was dark.\n");
    let said = "Read @notes.md, @note.md and @notes.md, and ask @ada\n";
    let done = chat(&machine, &[], said);
    let told = "there is no file note.md here: @note.md is sent as written";
    assert_eq!(done.stderr.matches(told).count(), 1, "{done:?}");
    assert!(!done.stderr.contains("@ada"), "{done:?}");
    done.stdout_of(0);
    let sent = model.heard().concat();
    assert!(sent.starts_with(said.trim()), "{sent}");
    assert_eq!(sent.matches("[file ").count(), 1, "{sent}");
    assert!(sent.contains("It was dark."), "{sent}");
}

#[test]
fn times_are_shown_in_the_local_time_zone() {
    let machine = Machine::new();
    machine.run(["What time is it?"]).stdout_of(0);
    let hour = |zone: &str| -> u32 {
        let mut command = machine.command(["sessions", "list"]);
        let done: Done = command.env("TZ", zone).output().unwrap().into();
        let list = done.stdout_of(0);
        let clock = list
            .lines()
            .nth(1)
            .unwrap()
            .split_whitespace()
            .nth(2)
            .unwrap();
        clock[..2].parse().unwrap()
    };
    assert_eq!((hour("Etc/UTC") + 9) % 24, hour("Asia/Tokyo"));
}
