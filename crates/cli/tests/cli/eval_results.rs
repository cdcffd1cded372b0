//! The results of `neuraxis eval`, as shown and as written.

use std::fs;

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

#[test]
fn a_failed_case_names_the_run_of_a_failed_attempt() {
    let model = Scripted::start([Turn::Says(&["yes"]), Turn::Says(&["no"])]);
    let case = "[[case]]\nname = 'a'\nmessage = 'Hello'\nrepeat = 2\ncheck = [{ exact = 'yes' }]\n";
    let machine = model.machine().with_file("evals.toml", case);
    let mut eval = machine.command(["eval", "evals.toml", "--jobs", "1", "--out", "now.json"]);
    let done: Done = eval
        .env("MY_KEY", "canary-key-1234")
        .output()
        .unwrap()
        .into();
    assert_eq!(done.code, Some(1), "{done:?}");
    let report = fs::read_to_string(machine.path("now.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let attempts = &report["cases"][0]["attempts"];
    assert_eq!(attempts[1]["verdict"], "failed", "{report}");
    let run = attempts[1]["run_id"].as_str().unwrap();
    let line = format!("runs show {run}\n");
    assert!(done.stdout.contains(&line), "{}", done.stdout);
}

#[test]
fn results_are_redacted_by_patterns_and_can_still_be_compared() {
    let case = ["CUST-17", "CUST-18"].map(|of| {
        format!("[[case]]\nname = 'of {of}'\nmessage = 'What time is it?'\ncheck = [{{ exact = '{of}' }}]\n")
    });
    let patterns = "[telemetry]\nredact = ['CUST-\\d+', '\\d{4}-\\d{2}-\\d{2}']\n";
    let machine = Machine::new()
        .with_file(
            "neuraxis.toml",
            format!("[models.reasoning]\nprovider = 'offline'\n{patterns}"),
        )
        .with_file("evals.toml", case.concat());
    let eval = ["eval", "evals.toml"];
    let written = ["--out", "now.json", "--junit", "now.xml"];
    let table = machine.run([&eval[..], &written].concat()).stdout_of(1);
    let read = |name: &str| fs::read_to_string(machine.path(name)).unwrap();
    for text in [table, read("now.json"), read("now.xml")] {
        assert!(text.contains("of [redacted]"), "{text}");
        assert!(!text.contains("CUST-1"), "{text}");
    }
    let compare = ["--compare", "now.json", "--format", "json"];
    let compared = machine.run([&eval[..], &compare].concat()).stdout_of(0);
    let report: Value = serde_json::from_str(&compared).unwrap();
    assert_eq!(
        report["comparison"]["still_failing"],
        serde_json::json!(["of [redacted]", "of [redacted]"])
    );
}

#[test]
fn a_stopped_eval_continues_with_the_cases_that_have_no_verdict() {
    let case = |name: &str, repeat: u32| {
        let check = "check = [{ exact = 'no' }]";
        format!(
            "[[case]]\nname = '{name}'\nmessage = 'What time is it?'\nrepeat = {repeat}\n{check}\n"
        )
    };
    let patterns = "[telemetry]\nredact = ['CUST-\\d+']\n";
    let machine = Machine::new()
        .with_file(
            "neuraxis.toml",
            format!("[models.reasoning]\nprovider = 'offline'\n{patterns}"),
        )
        .with_file(
            "evals.toml",
            [case("of CUST-17", 1), case("of CUST-18", 2)].concat(),
        );
    let results = || -> Value {
        let text = fs::read_to_string(machine.path("now.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    machine
        .run(["eval", "evals.toml", "--out", "now.json"])
        .stdout_of(1);
    let mut stopped = results();
    let cases = stopped["cases"].as_array_mut().unwrap();
    let first = cases[0]["attempts"][0]["run_id"].clone();
    cases[1]["attempts"].as_array_mut().unwrap().pop();
    fs::write(machine.path("now.json"), stopped.to_string()).unwrap();
    let resume = ["--resume", "now.json", "--out", "now.json"];
    machine
        .run([&["eval", "evals.toml"][..], &resume].concat())
        .stdout_of(1);
    let done = results();
    assert_eq!(done["cases"][0]["attempts"][0]["run_id"], first);
    assert_eq!(done["cases"][1]["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(done["totals"]["not_run"], 0);
    let stats = machine.run(["stats", "--format", "json"]).stdout_of(0);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["total"]["runs"], 3 + 2, "the first case ran once");
    let complaint = machine
        .run(["eval", "evals.toml", "--resume", "evals.toml"])
        .complaint(2);
    assert!(
        complaint.contains("cannot resume evals.toml"),
        "{complaint}"
    );
}

#[test]
fn last_ignores_runs_of_evals() {
    let case =
        "[[case]]\nname = 'a'\nmessage = 'What time is it?'\ncheck = [{ contains = 'It is' }]\n";
    let machine = Machine::new().with_file("evals.toml", case);
    machine.run(["eval", "evals.toml"]).stdout_of(0);
    for words in [&["runs", "show", "last"][..], &["-c", "And now?"]] {
        let complaint = machine.run(words).complaint(2);
        assert!(
            complaint.contains("runs of evals do not count"),
            "{complaint}"
        );
    }
    let ask = ["ask", "--session", "mine", "What time is it in Asia/Tokyo?"];
    machine.run(ask).stdout_of(0);
    machine.run(["eval", "evals.toml"]).stdout_of(0);
    let said = machine.run(["-c", "And in Asia/Kathmandu?"]).stdout_of(0);
    assert!(said.contains("Asia/Kathmandu"), "{said}");
    machine.run(["eval", "evals.toml"]).stdout_of(0);
    let last = ["ask", "--session", "last", "And in Europe/Berlin?"];
    machine.run(last).stdout_of(0);
    assert_eq!(machine.runs("mine").len(), 3);
    machine.run(["eval", "evals.toml"]).stdout_of(0);
    let shown = machine.run(["runs", "show", "last"]).stdout_of(0);
    assert!(shown.contains("Europe/Berlin"), "{shown}");
    let followed = machine.run(["runs", "tail"]);
    assert!(followed.stderr.contains("eval-"), "{followed:?}");
}

#[test]
fn no_run_is_named_when_none_was_stored() {
    let case = "[[case]]\nname = 'a'\nmessage = 'What time is it?'\ncheck = [{ exact = 'no' }]\n";
    let stored = "[[case]]\nname = 'b'\nlog = 'b.jsonl'\ncheck = [{ exact = 'no' }]\n";
    let machine = Machine::offline_with_cases(case).with_file("stored.toml", stored);
    let told = machine.run(["eval", "evals.toml"]).stdout_of(1);
    let (_, run) = told.split_once("runs show ").unwrap();
    let run = run.split_whitespace().next().unwrap();
    let events = machine.run(["runs", "show", run, "--format", "events"]);
    fs::write(machine.path("b.jsonl"), events.stdout_of(0)).unwrap();
    for arguments in [
        &["eval", "evals.toml", "--set", "store.url=memory:"][..],
        &["eval", "stored.toml"],
    ] {
        let told = machine.run(arguments).stdout_of(1);
        assert!(told.contains("FAILED"), "{told}");
        assert!(!told.contains("runs show "), "{told}");
    }
}

#[test]
fn an_unrecorded_judge_request_shows_the_difference_and_names_its_run() {
    let case = |rubric: &str| {
        format!(
            "[[case]]\nname = 'a'\nmessage = 'Hello'\ncheck = [{{ judge = '{rubric}' }}]\n[judge]\nrole = 'reasoning'\n"
        )
    };
    let model = Scripted::start([
        Turn::Says(&["Hello you."]),
        Turn::Says(&["{\"reason\":\"It does.\",\"passed\":true}"]),
    ]);
    let machine = model.machine().with_file("evals.toml", case("It greets."));
    let mut record = machine.command(["eval", "evals.toml", "--record", "../a.cassette"]);
    let done: Done = record
        .env("MY_KEY", "canary-key-1234")
        .output()
        .unwrap()
        .into();
    done.stdout_of(0);
    let machine = machine.with_file("evals.toml", case("It is polite."));
    let replay = [
        "eval",
        "evals.toml",
        "--replay",
        "../a.cassette",
        "--out",
        "now.json",
    ];
    let told = machine.run(replay).stdout_of(1);
    let report = fs::read_to_string(machine.path("now.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let check = &report["cases"][0]["attempts"][0]["checks"][0];
    let judge = check["judge_run"].as_str().unwrap();
    assert!(told.contains(&format!("runs show {judge}\n")), "{told}");
    for expected in [
        "this request was not recorded",
        "It greets.",
        "It is polite.",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn a_judged_case_replays_with_differing_tool_results_if_they_are_ignored() {
    let case = "[judge]\nrole = 'reasoning'\n[[case]]\nname = 'a'\nmessage = 'What time is it?'\ncheck = [{ judge = 'It says it.' }]\n";
    let model = Scripted::start([
        Turn::Calls(&[("current_time", "{}")]),
        Turn::Says(&["It is late."]),
        Turn::Says(&["{\"reason\":\"It does.\",\"passed\":true}"]),
    ]);
    let machine = model.machine().with_file("evals.toml", case);
    let mut record = machine.command(["eval", "evals.toml", "--record", "../a.cassette"]);
    let record = record.env("MY_KEY", "canary-key-1234").env("TZ", "Etc/UTC");
    let done: Done = record.output().unwrap().into();
    done.stdout_of(0);
    for (results, code) in [("ignore", 0), ("compare", 1)] {
        let mut replay = machine.command(["eval", "evals.toml", "--replay", "../a.cassette"]);
        let replay = replay.args(["--tool-results", results]);
        let done: Done = replay.env("TZ", "Europe/Berlin").output().unwrap().into();
        done.stdout_of(code);
    }
}

#[test]
fn a_recording_does_not_answer_after_a_call_that_now_fails() {
    let case = "[[case]]\nname = 'a'\nmessage = 'How long is it?'\nchannel = 'code_task'\ncheck = [{ exact = 'One line.' }]\n";
    let model = Scripted::start([
        Turn::Calls(&[("read_file", "{\"path\": \"data.txt\"}")]),
        Turn::Says(&["One line."]),
    ]);
    let machine = model.machine().with_file("evals.toml", case);
    let machine = machine.with_file("data.txt", "one\n");
    let mut record = machine.command(["eval", "evals.toml", "--record", "../a.cassette"]);
    let done: Done = record.env("MY_KEY", "k").output().unwrap().into();
    done.stdout_of(0);
    let replay = ["eval", "evals.toml", "--replay", "../a.cassette"];
    let machine = machine.with_file("data.txt", "another\n");
    machine.run(replay).stdout_of(0);
    fs::remove_file(machine.path("data.txt")).unwrap();
    machine.run(replay).stdout_of(0);
    let denies = "rules.private={ answer = 'deny', tools = ['read_file'], paths = ['data.txt'] }";
    let replay = [&replay[..], &["--set", denies]].concat();
    let told = machine.run(&replay).stdout_of(1);
    assert!(told.contains("this request was not recorded"), "{told}");
    machine
        .run([&replay[..], &["--out", "none.json"]].concat())
        .stdout_of(1);
    // As bad as before, but it cannot be judged.
    let done = machine.run([&replay[..], &["--compare", "none.json"]].concat());
    assert!(done.stderr.contains("no case could be judged"), "{done:?}");
    done.stdout_of(1);
}

#[test]
fn a_case_made_from_a_run_with_an_approved_call_requires_the_call_to_succeed() {
    let write = || {
        let arguments = "{\"path\": \"note.txt\", \"content\": \"hello\"}";
        Turn::Calls(Vec::leak(vec![("write_file", arguments)]))
    };
    let says = || Turn::Says(&["Done."]);
    let model = Scripted::start([write(), says(), write(), says()]);
    let defaults = "[defaults]\nagent = 'deep_research'\n";
    let machine = model.machine().with_file("others.toml", defaults);
    let run = |arguments: &[&str]| -> Done {
        let mut command = machine.command(arguments);
        command.env("MY_KEY", "k").output().unwrap().into()
    };
    let ask = ["ask", "--wait", "--session", "s", "--channel", "code_task"];
    run(&[&ask[..], &["Write a note"]].concat()).complaint(5);
    let list = run(&["approvals", "list", "--format", "json"]).stdout_of(0);
    let list: Value = serde_json::from_str(&list).unwrap();
    let text = |key: &str| list[0][key].as_str().unwrap().to_owned();
    let (id, question) = (text("run_id"), text("question"));
    run(&["approvals", "approve", &id, &question]).stdout_of(0);
    fs::remove_file(machine.path("note.txt")).unwrap();
    run(&["eval", "add", "evals.toml", &id]).stdout_of(0);
    let made = fs::read_to_string(machine.path("evals.toml")).unwrap();
    assert!(made.contains("Calls of write_file were approved"), "{made}");
    let told = run(&["eval", "evals.toml"]).stdout_of(1);
    assert!(told.contains("write_file that succeeded"), "{told}");
    assert!(!machine.path("note.txt").exists());
    let added = run(&["eval", "add", "others.toml", &id]);
    let expected = "the case takes the one that [defaults] of others.toml names";
    assert!(added.stderr.contains(expected), "{added:?}");
}

#[test]
fn a_case_with_an_unknown_name_reports_the_untrusted_configuration() {
    let case = "[[case]]\nname = 'a'\nmessage = 'What time is it?'\nagent = 'lead'\ncheck = [{ max_turns = 9 }]\n";
    let lead = "[agents.lead]\ninstructions = 'You lead.'\n";
    let machine = Machine::offline_with_cases(case).with_untrusted(lead);
    let complaint = machine.run(["eval", "evals.toml"]).complaint(2);
    assert!(complaint.contains("unknown agent \"lead\""), "{complaint}");
    assert!(
        complaint.contains("add --config neuraxis.toml"),
        "{complaint}"
    );
    let done = machine.run(["eval", "evals.toml", "--config", "neuraxis.toml"]);
    assert_ne!(done.code, Some(2), "{done:?}");
}

#[test]
fn results_never_overwrite_files_that_are_read_or_recorded_to() {
    let case = "[[case]]\nname = 'a'\nmessage = 'Hello'\ncheck = [{ max_turns = 1 }]\n";
    let recorded = "[[case]]\nname = 'b'\nmessage = 'Hello'\ncassette = 'b.cassette'\ncheck = [{ max_turns = 1 }]\n";
    let stored = "[[case]]\nname = 'c'\nlog = 'c.jsonl'\ncheck = [{ max_turns = 1 }]\n";
    let machine = Machine::offline_with_cases(case)
        .with_file("files.toml", [case, recorded, stored].concat());
    let eval = ["eval", "evals.toml", "--out", "base.json"];
    let done = machine.run(eval);
    assert_ne!(done.code, Some(2), "{done:?}");
    let read = |name: &str| fs::read_to_string(machine.path(name)).ok();
    for name in ["r.cassette", "b.cassette", "c.jsonl"] {
        fs::write(machine.path(name), "mine").unwrap();
    }
    for (arguments, file) in [
        (&["evals.toml", "--replay", "r.cassette"][..], "r.cassette"),
        (
            &["evals.toml", "--record", "new.cassette"][..],
            "new.cassette",
        ),
        (&["evals.toml", "--compare", "base.json"][..], "base.json"),
        (&["files.toml", "--case", "a"][..], "b.cassette"),
        (&["files.toml"][..], "c.jsonl"),
    ] {
        for option in ["--out", "--junit"] {
            let before = read(file);
            let complaint = machine
                .run([&["eval"][..], arguments, &[option, file]].concat())
                .complaint(2);
            assert!(complaint.contains("would replace"), "{complaint}");
            assert_eq!(read(file), before, "{arguments:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn results_written_to_standard_output_are_appended_to_its_log() {
    let case = "[[case]]\nname = 'a'\nmessage = 'What time is it?'\ncheck = [{ tool_called = 'current_time' }]\n";
    let machine = Machine::offline_with_cases(case);
    for (name, link) in [("out.log", "/dev/stdout"), ("err.log", "/dev/stderr")] {
        let log = fs::File::create(machine.path(name)).unwrap();
        std::io::Write::write_all(&mut &log, b"before\n").unwrap();
        let mut eval = machine.command(["eval", "evals.toml", "--junit", link]);
        eval.stdout(log.try_clone().unwrap())
            .stderr(log.try_clone().unwrap());
        assert!(eval.status().unwrap().success());
        std::io::Write::write_all(&mut &log, b"after\n").unwrap();
        let text = fs::read_to_string(machine.path(name)).unwrap();
        assert!(text.starts_with("before\n<?xml"), "{text}");
        assert!(text.contains("1 passed, 0 failed"), "{text}");
        assert!(text.ends_with("after\n"), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn the_mode_of_a_results_file_follows_the_umask() {
    use std::os::unix::fs::PermissionsExt;

    let case = "[[case]]\nname = 'a'\nmessage = 'What time is it?'\ncheck = [{ tool_called = 'current_time' }]\n";
    let machine = Machine::offline_with_cases(case);
    for (umask, mode) in [("077", 0o600), ("002", 0o664)] {
        let file = format!("{umask}.json");
        let script = format!("umask {umask}; exec \"$0\" eval evals.toml --out {file}");
        let done: Done = machine.shell(&script).output().unwrap().into();
        done.stdout_of(0);
        let permissions = fs::metadata(machine.path(&file)).unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{umask}");
    }
}
