//! What the user sees after a failure: the actual cause, and a next step that works.

use sqlx::Connection;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};
use crate::sessions::{tamper, used_machine};

const STORE: [&str; 2] = ["--set", "store.url=sqlite://sessions.db"];

#[test]
fn an_empty_answer_is_an_error() {
    for format in ["text", "json", "events"] {
        let model = Scripted::start([Turn::Says(&[""])]);
        let done = model
            .machine()
            .run_with_key(["ask", "--format", format, "Well?"]);
        assert_eq!(done.code, Some(1), "{done:?}");
        let told = "the model ended without an answer: its reply is empty";
        assert!(done.stderr.contains(told), "{done:?}");
        assert!(done.stderr.contains("-m MODEL"), "{done:?}");
    }
}

#[test]
fn a_truncated_answer_is_followed_by_a_warning() {
    let model = Scripted::start([Turn::IsCut("Once upon a")]);
    let done = model.machine().run_with_key(["ask", "A story?"]);
    assert_eq!(
        done.stderr,
        "warning: the answer was cut off: the model reached its limit after 3 tokens (the model server's own, or \
         the mode's max_output_tokens)\n"
    );
    assert_eq!(done.stdout_of(0), "Once upon a\n");
}

#[test]
fn messages_after_a_reply_start_on_a_new_line_when_both_outputs_share_a_file() {
    let model = Scripted::start([Turn::Says(&["one two"])]);
    let machine = model.machine();
    let mut shell = machine.shell("\"$0\" -v 'Well?' 2>&1");
    let done: Done = shell.env("MY_KEY", "k").output().unwrap().into();
    let told = done.stdout_of(0);
    assert!(told.starts_with("one two\n"), "{told}");
}

#[test]
fn an_answer_cut_off_by_a_content_filter_is_followed_by_a_warning() {
    let model = Scripted::start([Turn::IsWithheld("Once upon a"), Turn::IsWithheld("")]);
    let machine = model.machine();
    let done = machine.run_with_key(["ask", "A story?"]);
    let told =
        "warning: the answer was cut off: the provider's content filter withheld the rest of it";
    assert!(done.stderr.starts_with(told), "{done:?}");
    assert_eq!(done.stdout_of(0), "Once upon a\n");
    let nothing = machine.run_with_key(["ask", "A story?"]).stderr;
    assert!(nothing.contains("withheld the answer"), "{nothing}");
    assert!(!nothing.contains("the rest of it"), "{nothing}");
}

#[test]
fn a_refusal_by_the_model_is_followed_by_a_warning_about_the_refusal() {
    let model = Scripted::start([Turn::Refuses("I can't help with that.")]);
    let done = model.machine().run_with_key(["ask", "A lock?"]);
    assert_eq!(
        done.stderr,
        "warning: the model refused to answer; rephrase the request\n"
    );
    assert_eq!(done.stdout_of(0), "I can't help with that.\n");
}

#[test]
fn an_answer_with_a_call_written_as_text_is_followed_by_a_warning() {
    let model = Scripted::start([
        Turn::Says(&["Let me see.\n<tool_call>\n{}\n</tool_call>"]),
        Turn::Says(&["It looks so:\n```\n<tool_call>\n```"]),
    ]);
    let machine = model.machine();
    let done = machine.run_with_key(["ask", "6 * 7?"]);
    let told = "warning: the answer contains a tool call written as text, which was not run";
    assert!(done.stderr.starts_with(told), "{done:?}");
    assert!(done.stdout_of(0).contains("<tool_call>"));
    let done = machine.run_with_key(["ask", "How is a tool called?"]);
    assert_eq!(done.stderr, "");
}

#[test]
fn a_case_with_invalid_arguments_fails() {
    let case = "[[case]]\nchannel = 'code_task'\ntool = 'run_command'\narguments = { cmd = 'ls' }\nexpect = 'ask'\n";
    let machine = Machine::new().with_file("cases.toml", case);
    let told = machine.run(["policy", "test", "cases.toml"]).stdout_of(1);
    let refused = "FAILED case 1: the call is refused before it is judged: ";
    assert!(told.starts_with(refused), "{told}");
    assert!(told.ends_with(" 1 failed\n"), "{told}");
}

#[test]
fn a_truncated_or_foreign_file_is_not_replayed() {
    let machine = used_machine();
    let exported = machine.run(["sessions", "export", "trip"]).stdout_of(0);
    let lines: Vec<&str> = exported.lines().collect();
    let cut = lines[..3].join("\n");
    let foreign = exported.replacen(r#""format":1"#, r#""format":2"#, 1);
    assert_ne!(foreign, exported);
    let machine = machine
        .with_file("cut.jsonl", cut)
        .with_file("foreign.jsonl", foreign);
    for (file, expected) in [
        ("cut.jsonl", "cut off"),
        ("foreign.jsonl", "format 2; this program reads format 1"),
    ] {
        let told = machine.run(["runs", "replay", file]).complaint(1);
        assert!(told.contains(expected), "{file}: {told}");
    }
}

const IMPATIENT: [&str; 2] = ["--set", "store.patience_ms=20"];

#[test]
fn readers_do_not_wait_for_a_locked_database_and_writers_report_it() {
    let machine = used_machine();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let url = format!("sqlite://{}", machine.database().display());
    let holder = runtime.block_on(async {
        let mut holder = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let begin = sqlx::query("BEGIN EXCLUSIVE");
        begin.execute(&mut holder).await.unwrap();
        holder
    });
    for reading in [
        vec!["sessions", "list"],
        vec!["runs", "list"],
        vec!["approvals", "list"],
        vec!["sessions", "export", "--all"],
    ] {
        let done = machine.run([reading.as_slice(), &IMPATIENT].concat());
        assert_eq!(done.code, Some(0), "{reading:?}: {done:?}");
    }
    let ask = [["ask", "Hello?"], IMPATIENT].concat();
    let told = machine.run(ask).complaint(1);
    assert!(told.contains("database is locked"), "{told}");
    assert!(told.contains("hint: try again in a moment"), "{told}");
    assert!(!told.contains("wrong configuration"), "{told}");
    // It checks everything, and reports that nothing can be stored.
    let diagnosis = machine.run([["doctor", "--offline"], IMPATIENT].concat());
    assert_eq!(diagnosis.code, Some(1), "{diagnosis:?}");
    let locked = "another program has locked it";
    assert!(diagnosis.stdout.contains(locked), "{diagnosis:?}");
    runtime.block_on(holder.close()).unwrap();
}

#[test]
fn doctor_does_not_upgrade_an_older_store_and_other_commands_announce_it() {
    let machine = Machine::new();
    let file = machine.database();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../adapters/sql/tests/sql");
    std::fs::copy(format!("{fixtures}/schema-8.db"), &file).unwrap();
    let before = std::fs::read(&file).unwrap();
    let diagnosis = machine.run(["doctor", "--offline"]);
    assert!(
        diagnosis.stdout.contains("has schema version 8"),
        "{diagnosis:?}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before, "it was changed");
    let told = "has schema version 8 and is being upgraded to ";
    for times in [1, 0] {
        let listed = machine.run(["sessions", "list"]);
        assert_eq!(listed.stderr.matches(told).count(), times, "{listed:?}");
        listed.stdout_of(0);
    }
}

#[test]
fn an_unreachable_database_server_is_reported_as_a_server() {
    let machine = Machine::new();
    let away = ["--set", "store.url=postgres://me@127.0.0.1:1/x"];
    let told = machine.run([["runs", "list"], away].concat()).complaint(1);
    assert!(told.contains("the database cannot be opened\n"), "{told}");
    assert!(!told.contains("wrong configuration"), "{told}");
    let diagnosis = machine.run([["doctor", "--offline"], away].concat());
    let fix = "check that the server is running and reachable";
    assert!(diagnosis.stdout.contains(fix), "{diagnosis:?}");
    assert!(!diagnosis.stdout.contains("memory:"), "{diagnosis:?}");
}

const UNTRUSTED: &str = "[taint]\ntools = ['current_time']\n[modes.moderate]\nafter_untrusted = 'ask'\n\
    [rules.writes]\nanswer = 'allow'\ntools = ['write_file']\n";

#[test]
fn no_rule_is_proposed_when_untrusted_content_is_the_cause() {
    let model = Scripted::start([
        Turn::Calls(&[("current_time", "{}")]),
        Turn::Calls(&[("write_file", r#"{"path":"a.txt","content":"x"}"#)]),
        Turn::Says(&["Done."]),
    ]);
    let machine = model.machine();
    let file = std::fs::read_to_string(machine.path("neuraxis.toml")).unwrap_or_default();
    let machine = machine.with_file("neuraxis.toml", format!("{file}\n{UNTRUSTED}"));
    let done = machine.run_with_key(["ask", "--channel", "code_task", "Write."]);
    // Wherever its lines are wrapped.
    let stderr = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "approvals`; no rule can change that, because untrusted content is the cause",
        "the mode's `after_untrusted` decides",
        "`open_world = false` in [trust.NAME]",
    ] {
        assert!(stderr.contains(told), "{told}: {done:?}");
    }
    let results = model.results();
    assert!(
        results.contains("if only the mode asks, a rule that allows it"),
        "{results}"
    );
    assert!(!done.stderr.contains("allow it with a rule"), "{done:?}");
}

#[test]
fn no_allow_rule_is_proposed_when_a_rule_asks() {
    let rule = "rules.all={answer='ask',tools=['current_time']}";
    let done = Machine::new().run(["ask", "--set", rule, "What time is it?"]);
    assert_eq!(done.code, Some(4), "{done:?}");
    // Wherever its lines are wrapped.
    let stderr = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "no allow rule can change that, because a rule asks: change that rule";
    assert!(stderr.contains(told), "{done:?}");
    assert!(!stderr.contains("allow it with a rule"), "{done:?}");
}

#[test]
fn a_chat_suggests_no_option_that_it_does_not_have() {
    let chat = ["chat", "--set", "modes.moderate.tools.read_only=ask"];
    let done = Machine::new().run_with_input(chat, "What time is it?\n");
    assert!(
        done.stderr.contains("ask --wait` to decide later"),
        "{done:?}"
    );
    assert!(!done.stderr.contains("add --wait"), "{done:?}");
}

#[test]
fn deleting_a_session_that_awaits_approval_reports_the_waiting_call() {
    let machine = Machine::new();
    let asks = ["--set", "modes.moderate.tools.read_only=ask"];
    let ask = ["ask", "--wait", "--session", "s", "What time is it?"];
    machine.run([&ask[..], &STORE, &asks].concat()).complaint(5);
    let delete = ["sessions", "delete", "--yes", "s"];
    let told = machine.run([&delete[..], &STORE].concat()).complaint(1);
    assert!(told.contains("waits for your approval of a call"), "{told}");
    assert!(told.contains("--cancel"), "{told}");
    assert!(!told.contains("unless its process is alive"), "{told}");
}

#[test]
fn a_reached_turn_limit_is_named_and_announces_one_last_answer() {
    let turns = || {
        Scripted::start([
            Turn::Calls(&[("current_time", "{}")]),
            Turn::Says(&["It is late."]),
        ])
    };
    let limited = |limit: &str| {
        let model = turns();
        let set = format!("modes.moderate.{limit}=1");
        model
            .machine()
            .run_with_key(["ask", "--set", &set, "Well?"])
            .stderr
    };
    let told = limited("max_turns");
    assert!(
        told.contains("the limit of 1 turn is reached: one last answer"),
        "{told}"
    );
}

#[test]
fn an_existing_recording_is_refused_without_suggesting_a_missing_option() {
    let machine = Machine::new().with_file("there.cassette", "mine");
    let ask = ["ask", "--record", "there.cassette", "Hi"];
    let told = machine.run(ask).complaint(2);
    assert!(!told.contains("ask for it to be replaced"), "{told}");
    assert!(told.contains("record to another file"), "{told}");
}

#[test]
fn an_altered_session_is_shown_with_a_warning() {
    let machine = used_machine();
    let run = machine.runs("trip")[0].clone();
    tamper(
        &machine,
        "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'Asia/Tokyo', 'Asia/Osaka') AS BLOB) \
         WHERE run = 1 AND first_seq = 1",
    );
    for show in [["sessions", "show", "trip"], ["runs", "show", &run]] {
        let done = machine.run(show);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(
            done.stderr.contains("does not match what was stored"),
            "{done:?}"
        );
    }
    let told = machine.run(["ask", "--session", "trip", "Hi"]).complaint(1);
    assert!(told.contains("not whether its text was altered"), "{told}");
}

#[test]
fn an_impossible_log_copy_is_refused_at_its_location() {
    for (log, expected) in [
        ("folder = ''", "neuraxis.toml:2:10: "),
        ("folder = 'log'\nfiles = 0", "neuraxis.toml:3:9: "),
        ("folder = 'log'\nmax_bytes = 1", "neuraxis.toml:3:13: "),
    ] {
        let machine = Machine::new().with_file("neuraxis.toml", format!("[store.log]\n{log}\n"));
        let told = machine.run(["sessions", "list"]).complaint(2);
        assert!(told.contains(expected), "{log}: {told}");
    }
    // A file is in the place of the folder.
    let in_the_way = "[store]\nurl = 'memory:'\n[store.log]\nfolder = 'log/copy'\n";
    let machine = Machine::new()
        .with_file("mine.toml", in_the_way)
        .with_file("log", "");
    let told = machine
        .run(["--config", "mine.toml", "sessions", "list"])
        .complaint(2);
    assert!(
        told.contains("mine.toml:4:1: store.log.folder: the log cannot be copied there"),
        "{told}"
    );
}

#[test]
fn the_records_of_a_memory_store_are_copied_to_the_log() {
    let memory = "[store]\nurl = 'memory:'\n[store.log]\nfolder = 'log'\n";
    let machine = Machine::new().with_file("mine.toml", memory);
    let ask = |question| {
        let arguments = [
            "--config",
            "mine.toml",
            "ask",
            "--format",
            "events",
            question,
        ];
        let events = machine.run(arguments).events();
        events
            .into_iter()
            .filter(|event| event.get("seq").is_some())
    };
    let mut told: Vec<_> = ask("What time is it?").collect();
    let copied = || {
        let text = std::fs::read_to_string(machine.path("log/records.jsonl")).unwrap();
        crate::machine::events(&text)
    };
    assert!(told.len() > 4, "{told:?}");
    assert_eq!(copied(), told);
    // The next process continues where this one stopped.
    told.extend(ask("And in Asia/Tokyo, what time is it?"));
    assert_eq!(copied(), told);
    assert!(!machine.database().exists());
}
