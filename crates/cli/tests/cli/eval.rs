//! `neuraxis eval`.

use std::fs;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;

use crate::attach::PNG;
use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

/// Cases that the offline model answers: it calls the tools that a question names.
const CASES: &str = r#"
[[case]]
name = "the sum"
message = 'calculate {"expression": "17 * 23"}'
check = [{ contains = "391" }, { tool_called = "calculate" }, { max_turns = 3 }]

[[case]]
name = "the time"
message = "What time is it?"
check = [{ tool_called = "current_time" }, { contains = "half past <never> & \"so\" on\u0007" }]
repeat = 2
"#;

fn offline() -> Machine {
    Machine::offline_with_cases(CASES)
}

/// Replaces what differs each time: ids of runs, and times.
fn steady(text: &str) -> String {
    let ids = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let times = Regex::new(r"\d+(\.\d)? m?s\b").unwrap();
    let clock = Regex::new(r#"the answer is ("|&quot;).*("|&quot;)"#).unwrap();
    let text = ids.replace_all(text, "ID");
    let text = times.replace_all(&text, "TIME");
    clock.replace_all(&text, "the answer is …").into_owned()
}

/// Reads results.
fn results(machine: &Machine, file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(machine.path(file)).unwrap()).unwrap()
}

#[test]
fn results_are_printed_in_file_order_and_determine_the_exit_code() {
    let machine = offline();
    let done = machine.run(["eval", "evals.toml"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    insta::assert_snapshot!(steady(&done.stdout));
    assert!(!done.stdout.contains('\u{1b}') && !done.stdout.contains('\u{7}'));
    assert!(
        done.stderr.ends_with("error: 1 of 2 cases did not pass\n"),
        "{}",
        done.stderr
    );
    let done = machine.run(["eval", "--case", "sum", "evals.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.contains("1 passed, 0 failed in "),
        "{}",
        done.stdout
    );
    assert_eq!(done.stderr, "", "nobody watches, so that nothing is told");
}

#[test]
fn runs_of_cases_are_stored_like_any_other() {
    let machine = offline();
    let done = machine.run(["eval", "evals.toml", "--format", "json"]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let run = report["cases"][0]["attempts"][0]["run_id"]
        .as_str()
        .unwrap();
    let shown = machine.run(["runs", "show", run]).stdout_of(0);
    assert!(
        shown.contains("eval-") && shown.contains("calculate"),
        "{shown}"
    );
    let attempts = report["cases"][1]["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{report}");
}

#[test]
fn results_are_written_as_json_and_as_valid_junit_xml() {
    let machine = offline();
    let ask = [
        "eval",
        "evals.toml",
        "--out",
        "now.json",
        "--junit",
        "now.xml",
    ];
    machine.run(ask).stdout_of(1);
    let report = results(&machine, "now.json");
    assert_eq!(report["format"], 1);
    assert_eq!(report["cases"][1]["attempts"].as_array().unwrap().len(), 2);
    let xml = fs::read_to_string(machine.path("now.xml")).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suites = document.root_element();
    assert_eq!(suites.attribute("tests"), Some("2"));
    assert_eq!(suites.attribute("failures"), Some("1"));
    let cases: Vec<_> = document
        .descendants()
        .filter(|it| it.has_tag_name("testcase"))
        .collect();
    let names: Vec<_> = cases
        .iter()
        .map(|case| case.attribute("name").unwrap())
        .collect();
    assert_eq!(names, ["the sum", "the time"]);
    assert!(!cases[0].children().any(|it| it.has_tag_name("failure")));
    let failure = cases[1]
        .children()
        .find(|it| it.has_tag_name("failure"))
        .unwrap();
    let message = failure.attribute("message").unwrap();
    assert!(
        message.starts_with("contains \"half past <never> & \\\"so\\\" on"),
        "{message}"
    );
    let shape = Regex::new(r#"(time|timestamp)="[^"]*""#).unwrap();
    let xml = shape.replace_all(&xml, "$1=\"…\"");
    let outputs = Regex::new("(?s)<system-out>.*?</system-out>").unwrap();
    insta::assert_snapshot!(steady(
        &outputs.replace_all(&xml, "<system-out>…</system-out>")
    ));
}

#[cfg(target_os = "linux")]
#[test]
fn results_are_written_once_to_a_pipe_without_replacing_it() {
    let script =
        "mkfifo pipe; timeout 60 cat pipe > now.json & \"$0\" eval --out pipe evals.toml; wait $!";
    let machine = offline();
    let output = machine.shell(script).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(results(&machine, "now.json")["totals"]["passed"], 1);
}

#[cfg(target_os = "linux")]
#[test]
fn eval_add_can_write_a_case_to_standard_output() {
    let machine = offline();
    machine.run(["ask", "What time is it?"]).stdout_of(0);
    let script = "timeout 60 \"$0\" eval add /dev/stdout last | cat";
    let output = machine.shell(script).output().unwrap();
    let case = String::from_utf8(output.stdout).unwrap();
    assert!(case.contains("\n[[case]]\n"), "{case}");
    assert!(!case.contains("added case"), "{case}");
}

#[cfg(target_os = "linux")]
#[test]
fn results_are_shown_even_if_the_output_file_cannot_be_written() {
    let done = offline().run(["eval", "evals.toml", "--out", "/dev/full"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("cannot write /dev/full"), "{done:?}");
    assert!(done.stdout.contains("1 passed, "), "{done:?}");
}

#[test]
fn with_compare_only_regressions_determine_the_exit_code() {
    let machine = offline();
    machine
        .run(["eval", "evals.toml", "--out", "before.json"])
        .stdout_of(1);
    let compare = ["eval", "evals.toml", "--compare", "before.json"];
    let done = machine.run(compare);
    assert_eq!(
        done.code,
        Some(0),
        "what fails as before is no regression: {done:?}"
    );
    let worse = CASES.replace("contains = \"391\"", "contains = \"392\"");
    let machine = machine.with_file("evals.toml", worse);
    let done = machine.run(compare);
    assert_eq!(done.code, Some(1), "{done:?}");
    insta::assert_snapshot!(steady(&done.stdout));
    assert!(
        done.stderr.ends_with("error: of the cases 1 got worse\n"),
        "{}",
        done.stderr
    );
    let json = machine.run([
        "eval",
        "evals.toml",
        "--compare",
        "before.json",
        "--format",
        "json",
    ]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["comparison"]["worse"][0]["name"], "the sum");
}

#[test]
fn a_case_that_was_not_selected_is_not_reported_as_gone() {
    let machine = offline();
    machine
        .run(["eval", "evals.toml", "--out", "before.json"])
        .stdout_of(1);
    let compare = ["evals.toml", "--compare", "before.json", "--format", "json"];
    let gone = |machine: &Machine, more: &[&str]| {
        let done = machine.run([&["eval"][..], &compare, more].concat());
        let report: Value = serde_json::from_str(&done.stdout).unwrap();
        report["comparison"]["gone"].clone()
    };
    assert_eq!(gone(&machine, &["--case", "sum"]), serde_json::json!([]));
    let sum = CASES.split("[[case]]").nth(1).unwrap();
    let machine = machine.with_file("evals.toml", format!("[[case]]{sum}"));
    let all = gone(&machine, &["--case", "sum"]);
    assert_eq!(all, serde_json::json!(["the time"]));
}

#[test]
fn a_stored_run_becomes_a_passing_case_in_each_form() {
    let machine = offline();
    machine
        .run([
            "ask",
            "--session",
            "s",
            "calculate {\"expression\": \"17 * 23\"}",
        ])
        .stdout_of(0);
    let run = &machine.runs("s")[0];
    let add = |more: &[&str]| machine.run([&["eval", "add", "made.toml", run][..], more].concat());
    let said = add(&[]).stdout_of(0);
    assert_eq!(
        said,
        "made.toml: added case \"calculate {\"expression\": \"17 * 23\"}\" with 3 checks\n"
    );
    add(&["--stored"]).stdout_of(0);
    add(&["--cassette", "sum.cassette", "--name", "as it was said"]).stdout_of(0);
    let complaint = add(&["--name", "as it was said"]).complaint(2);
    assert!(complaint.contains("choose another --name"), "{complaint}");
    insta::assert_snapshot!(steady(
        &fs::read_to_string(machine.path("made.toml")).unwrap()
    ));
    let done = machine.run(["eval", "made.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("3 passed"), "{}", done.stdout);
}

#[test]
fn cases_based_on_recordings_and_stored_runs_call_no_model() {
    let model = Scripted::start([
        Turn::Calls(&[("calculate", "{\"expression\": \"6*7\"}")]),
        Turn::Says(&["It is 42."]),
    ]);
    let machine = model.machine().with_file("cases.toml", "");
    let with_key = |arguments: &[&str]| -> Done {
        machine
            .command(arguments)
            .env("MY_KEY", "canary-key-1234")
            .output()
            .unwrap()
            .into()
    };
    with_key(&["ask", "--session", "s", "What is 6*7?"]).stdout_of(0);
    let run = &machine.runs("s")[0];
    with_key(&[
        "eval",
        "add",
        "cases.toml",
        run,
        "--cassette",
        "six.cassette",
    ])
    .stdout_of(0);
    with_key(&["eval", "add", "cases.toml", run, "--stored"]).stdout_of(0);
    let log = with_key(&["runs", "show", run, "--format", "events"]).stdout_of(0);
    fs::write(machine.path("six.jsonl"), log).unwrap();
    let more = "[[case]]\nname = 'log'\nlog = 'six.jsonl'\ncheck = [{ exact = 'It is 42.' }]\n";
    let text = fs::read_to_string(machine.path("cases.toml")).unwrap();
    fs::write(machine.path("cases.toml"), format!("{text}\n{more}")).unwrap();
    let asked = model.asked();
    // Without the key, no model can be called.
    let done = machine.run(["eval", "cases.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("3 passed"), "{}", done.stdout);
    let done = machine.run(["eval", "--record", "all.cassette", "cases.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let said = "no case asks a model: all.cassette is not created";
    assert!(done.stderr.contains(said), "{done:?}");
    let complaint = machine
        .run(["eval", "--replay", "all.cassette", "cases.toml"])
        .complaint(2);
    assert!(complaint.contains("all.cassette"), "{complaint}");
    assert_eq!(model.asked(), asked);
}

/// Runs a command with the key of the model.
fn with_key(machine: &Machine, arguments: &[&str]) -> Done {
    let mut command = machine.command(arguments);
    command
        .env("MY_KEY", "canary-key-1234")
        .output()
        .unwrap()
        .into()
}

#[test]
fn a_recording_that_cannot_answer_its_case_is_refused_with_the_reason() {
    let model = Scripted::start([
        Turn::Calls(&[("calculate", "{\"expression\": \"6*7\"}")]),
        Turn::Says(&["It is 42."]),
        Turn::Says(&["It is 84."]),
        Turn::Says(&["A boat."]),
        Turn::Says(&["A note."]),
        Turn::Says(&["Hello, boat."]),
    ]);
    let machine = model.machine().with_file("shot.png", PNG);
    let machine = machine.with_file("note.md", "A note.\n");
    let ask = |more: &[&str]| with_key(&machine, &[&["ask", "--session"][..], more].concat());
    ask(&["calls", "What is 6*7?"]).stdout_of(0);
    ask(&["calls", "And twice that?"]).stdout_of(0);
    ask(&["attached", "--attach", "shot.png", "What is it?"]).stdout_of(0);
    ask(&["text", "--attach", "note.md", "What is it?"]).stdout_of(0);
    let machine = machine.with_file("AGENTS.md", "Always answer in verse.\n");
    machine.run(["trust", "add", "--yes"]).stdout_of(0);
    with_key(&machine, &["ask", "--session", "told", "Who are you?"]).stdout_of(0);
    for (session, reason) in [
        ("calls", "tool calls of earlier runs"),
        ("attached", "attachments"),
        ("text", "attachments"),
        ("told", "AGENTS.md"),
    ] {
        let run = &machine.runs(session)[0];
        let add = ["eval", "add", "cases.toml", run];
        let recorded = [&add[..], &["--cassette", "its.cassette"]].concat();
        let complaint = with_key(&machine, &recorded).complaint(1);
        assert!(complaint.contains(reason), "{complaint}");
        assert!(complaint.contains("--stored"), "{complaint}");
        assert!(!machine.path("its.cassette").exists());
        with_key(&machine, &add).stdout_of(0);
        let text = fs::read_to_string(machine.path("cases.toml")).unwrap();
        let note = text.lines().find(|line| line.contains(reason));
        assert!(note.is_some_and(|note| note.starts_with("# ")), "{text}");
    }
}

#[test]
fn a_case_with_a_redacted_word_gives_a_warning_and_needs_no_key() {
    let model = Scripted::start([Turn::Says(&["No."])]);
    let machine = model.machine();
    let with_word = |arguments: &[&str]| -> Done {
        let mut command = machine.command(arguments);
        command.env("MY_KEY", "zebra").output().unwrap().into()
    };
    with_word(&["ask", "Is a horse a zebra?"]).stdout_of(0);
    let add = ["eval", "add", "cases.toml", "last"];
    let added = with_word(&[&add[..], &["--cassette", "its.cassette"]].concat());
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(
        added.stderr.contains("read what the case asks"),
        "{added:?}"
    );
    assert!(!added.stderr.contains("can only answer"), "{added:?}");
    machine.run(["eval", "cases.toml"]).stdout_of(0);
}

#[test]
fn a_run_served_by_another_role_becomes_a_case_for_the_same_role() {
    let model = Scripted::start([Turn::Says(&["Hello."]), Turn::Says(&["Hello there."])]);
    let machine = model.machine_with_roles();
    let ask = |more: &[&str]| with_key(&machine, &[&["ask", "--session"][..], more].concat());
    ask(&["named", "-m", "coding", "Hi there"]).stdout_of(0);
    ask(&["usual", "Hi there"]).stdout_of(0);
    for (session, role) in [("named", Some("role = \"coding\"")), ("usual", None)] {
        let run = &machine.runs(session)[0];
        let (file, recording) = (format!("{session}.toml"), format!("{session}.cassette"));
        let add = ["eval", "add", &file, run, "--cassette", &recording];
        with_key(&machine, &add).stdout_of(0);
        let text = fs::read_to_string(machine.path(&file)).unwrap();
        let line = text.lines().find(|line| line.starts_with("role"));
        assert_eq!(line, role, "{text}");
        let done = machine.run(["eval", &file]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

#[test]
fn cases_are_recorded_once_and_replayed_without_the_model() {
    let machine = offline();
    machine
        .run(["eval", "--record", "all.cassette", "evals.toml"])
        .stdout_of(1);
    let replay = [
        "eval",
        "--replay",
        "all.cassette",
        "--case",
        "sum",
        "evals.toml",
    ];
    let done = machine.run(replay);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("no model is asked"), "{}", done.stderr);
}

#[test]
fn cases_that_cannot_run_leave_no_recording() {
    let gone = "[[case]]\nname = 'b'\nmessage = 'c'\ncassette = 'no.cassette'\ncheck = [{ max_turns = 1 }]\n";
    let machine = offline().with_file("evals.toml", format!("{CASES}\n{gone}"));
    let done = machine.run(["eval", "--record", "all.cassette", "evals.toml"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("no.cassette"), "{done:?}");
    assert!(!machine.path("all.cassette").exists());
}

#[test]
fn a_failing_model_is_an_error_of_each_case_that_called_it() {
    let machine = Machine::new()
        .with_file(
            "neuraxis.toml",
            "[models.reasoning]\nprovider = 'openai'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1/v1'\napi_key_env = 'MY_KEY'\n",
        )
        .with_file("evals.toml", CASES);
    let mut eval = machine.command(["eval", "evals.toml", "--out", "now.json"]);
    let done: Done = eval
        .env("MY_KEY", "canary-key-1234")
        .output()
        .unwrap()
        .into();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.stdout.contains("0 passed, 0 failed, 2 errors"),
        "{}",
        done.stdout
    );
    let all = format!("{done:?}{}", results(&machine, "now.json"));
    assert!(!all.contains("canary"), "{all}");
}

#[test]
fn approvals_in_a_case_file_apply_only_with_the_approve_option() {
    let case = "[[case]]\nname = 'note'\nmessage = 'Write a note'\nchannel = 'code_task'\n\
        approve = [{ tool = 'write_file', arguments = { path = 'note.txt' } }]\n\
        check = [{ tool_called = 'write_file', succeeded = true }]\n";
    let turns = || {
        [
            Turn::Calls(&[(
                "write_file",
                "{\"path\": \"note.txt\", \"content\": \"hello\"}",
            )]),
            Turn::Says(&["Done."]),
        ]
    };
    let model = Scripted::start(turns());
    let machine = model.machine().with_file("evals.toml", case);
    let run = |arguments: &[&str]| -> Done {
        machine
            .command(arguments)
            .env("MY_KEY", "k")
            .output()
            .unwrap()
            .into()
    };
    let complaint = run(&["eval", "evals.toml"]).complaint(2);
    assert!(
        complaint.contains("write_file {\"path\":\"note.txt\"}"),
        "{complaint}"
    );
    assert!(complaint.contains("--approve"), "{complaint}");
    assert_eq!(model.asked(), 0, "nothing was run");
    run(&["eval", "--approve", "evals.toml"]).stdout_of(0);
    assert_eq!(
        fs::read_to_string(machine.path("note.txt")).unwrap(),
        "hello"
    );

    let model = Scripted::start(turns());
    let unapproved = case.replace(
        "approve = [{ tool = 'write_file', arguments = { path = 'note.txt' } }]\n",
        "",
    );
    let machine = model.machine().with_file("evals.toml", unapproved);
    let mut eval = machine.command(["eval", "--approve", "evals.toml"]);
    let done: Done = eval.env("MY_KEY", "k").output().unwrap().into();
    done.stdout_of(1);
    assert!(!machine.path("note.txt").exists());
}

#[test]
fn a_file_that_is_not_toml_is_reported_as_no_case_file() {
    let machine = offline().with_file("notes.md", "Not TOML.\n");
    let told = machine.run(["eval", "notes.md"]).complaint(2);
    assert!(told.contains("notes.md is not a file of cases"), "{told}");
}

#[test]
fn invalid_arguments_and_files_are_refused_before_any_case_runs() {
    let machine = offline()
        .with_file("slip.toml", "[[case]]\nname = 'a'\nmesage = 'b'\n")
        .with_file("none.toml", "# nothing yet\n")
        .with_file("gone.toml", "[[case]]\nname = 'a'\nmessage = 'b'\ncassette = 'no.cassette'\ncheck = [{ max_turns = 1 }]\n")
        .with_file("report.json", "{}");
    let mut told = String::new();
    for arguments in [
        &["no.toml"][..],
        &["slip.toml"],
        &["none.toml"],
        &["gone.toml"],
        &["evals.toml", "--case", "sum", "--case", "nobody"],
        &["evals.toml", "--compare", "report.json"],
        &["evals.toml", "--compare", "no.json"],
        &["evals.toml", "--out", "no/such/folder.json"],
        &["evals.toml", "--junit", "."],
        &["evals.toml", "--out", "./evals.toml"],
        &["evals.toml", "--out", "now", "--junit", "now"],
        &["evals.toml", "--jobs", "0"],
        &["add", "slip.toml", "0199f3a1"],
    ] {
        let complaint = machine.run([&["eval"], arguments].concat()).complaint(2);
        told.push_str(&format!(
            "$ neuraxis eval {}\n{complaint}\n",
            arguments.join(" ")
        ));
    }
    insta::assert_snapshot!(told);
    let list = machine
        .run(["sessions", "list", "--format", "json"])
        .stdout_of(0);
    assert_eq!(list.trim(), "[]");
}

#[test]
fn unknown_names_in_a_case_are_refused_before_any_case_runs() {
    let machine = offline();
    for (line, told) in [
        ("channel = 'chatt'", "unknown channel \"chatt\""),
        ("role = 'painting'", "policy does not allow role painting"),
        ("log = 'no.jsonl'", "no.jsonl cannot be read"),
        (
            "check = [{ tool_not_called = 'calculat' }]",
            "there is no such tool",
        ),
        (
            "check = [{ tool_not_called = 'shop__buy' }]",
            "there is no such tool",
        ),
    ] {
        let check = match line.starts_with("check") {
            true => "",
            false => "check = [{ max_turns = 1 }]",
        };
        let case = format!("\n[[case]]\nname = 'a'\nmessage = 'b'\n{line}\n{check}\n");
        fs::write(machine.path("slip.toml"), format!("{CASES}{case}")).unwrap();
        let complaint = machine.run(["eval", "slip.toml"]).complaint(2);
        let at = CASES.lines().count() + 2;
        let because = format!("because: line {at}: case \"a\": ");
        assert!(complaint.contains(&because), "{complaint}");
        assert!(complaint.contains(told), "{complaint}");
    }
    // Tools that are only offered in other circumstances are not typos.
    let others = ["run_command", "web_search"];
    let others = others.map(|tool| format!("{{ tool_not_called = '{tool}' }}"));
    let others = others.join(", ");
    let case = "[[case]]\nname = 'a'\nmessage = 'What time is it?'\n";
    fs::write(
        machine.path("fine.toml"),
        format!("{case}check = [{others}]\n"),
    )
    .unwrap();
    machine.run(["eval", "fine.toml"]).stdout_of(0);
    let list = ["sessions", "list", "--format", "json"];
    let list: Value = serde_json::from_str(&machine.run(list).stdout_of(0)).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
}

#[test]
fn finished_results_are_written_while_other_cases_still_run() {
    use std::process::Stdio;

    let model = Scripted::start([
        Turn::Says(&["yes"]),
        Turn::Says(&["yes"]),
        Turn::Stalls("wait"),
    ]);
    let cases = ["one", "two", "stalls"].map(|name| {
        format!("[[case]]\nname = '{name}'\nmessage = 'Hello'\ncheck = [{{ exact = 'yes' }}]\n")
    });
    let machine = model.machine().with_file("evals.toml", cases.concat());
    let mut eval = machine.command(["eval", "--jobs", "1", "--out", "now.json", "evals.toml"]);
    let eval = eval.env("MY_KEY", "k").stdout(Stdio::null());
    let mut child = eval.stderr(Stdio::null()).spawn().unwrap();
    while model.asked() < 3 {
        std::thread::yield_now();
    }
    let patience = Instant::now() + Duration::from_secs(60);
    while results(&machine, "now.json")["totals"]["passed"] != 2 {
        assert!(Instant::now() < patience, "the second result is not kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_evaluation_with_the_results_so_far() {
    use std::process::Stdio;

    let model = Scripted::start([Turn::Says(&["yes"]), Turn::Stalls("wait")]);
    let cases = ["fine", "stalls", "later"].map(|name| {
        format!("[[case]]\nname = '{name}'\nmessage = 'Hello'\ncheck = [{{ exact = 'yes' }}]\n")
    });
    let machine = model.machine().with_file("evals.toml", cases.concat());
    let eval = [
        "eval",
        "--jobs",
        "1",
        "--out",
        "now.json",
        "--junit",
        "now.xml",
        "evals.toml",
    ];
    let mut eval = machine.command(eval);
    let eval = eval
        .env("MY_KEY", "k")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = eval.spawn().unwrap();
    // The second question is in progress, and the result of the first has been written by then.
    while model.asked() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(results(&machine, "now.json")["totals"]["passed"], 1);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done: Done = child.wait_with_output().unwrap().into();
    assert_eq!(done.code, Some(130), "{done:?}");
    assert!(
        done.stdout
            .contains("1 passed, 0 failed, 1 error, 1 not run"),
        "{}",
        done.stdout
    );
    let report = results(&machine, "now.json");
    assert_eq!(report["cases"][2]["status"], "not_run");
    let xml = fs::read_to_string(machine.path("now.xml")).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    assert_eq!(document.root_element().attribute("skipped"), Some("1"));
}

#[test]
fn a_judge_is_a_model_that_is_asked_with_its_rubric() {
    let case = "[judge]\nrole = 'reasoning'\n[[case]]\nname = 'polite'\nmessage = 'Hello'\ncheck = [{ judge = 'It greets.' }]\n";
    for (judgment, code, expected) in [
        ("{\"reason\":\"It does.\",\"passed\":true}", 0, "1 passed"),
        (
            "{\"reason\":\"Rude.\",\"passed\":false}",
            1,
            "judge \"It greets.\": Rude.",
        ),
        (
            "Hm.",
            1,
            "judge \"It greets.\": the judge gave no judgment: ",
        ),
    ] {
        let texts: &'static [&'static str] = Vec::leak(vec![&*String::leak(judgment.to_owned())]);
        let turns = [
            Turn::Says(&["Hello you."]),
            Turn::Says(texts),
            Turn::Says(texts),
        ];
        let model = Scripted::start(turns);
        let machine = model.machine().with_file("evals.toml", case);
        let mut eval = machine.command(["eval", "evals.toml"]);
        let done: Done = eval.env("MY_KEY", "k").output().unwrap().into();
        assert!(done.stdout.contains(expected), "{done:?}");
        assert_eq!(done.code, Some(code), "{done:?}");
        let read = model.heard().concat();
        assert!(read.contains("\"answer\":\"Hello you.\""), "{read}");
    }
}

#[test]
fn results_contain_no_key_even_if_the_model_repeats_it() {
    let says = || Turn::Says(&["Your key is canary-key-1234."]);
    let model = Scripted::start([says(), says()]);
    let case = "[[case]]\nname = 'a'\nmessage = 'Hello'\ncheck = [{ exact = 'no' }]\n";
    let machine = model.machine().with_file("evals.toml", case);
    let eval = [
        "eval",
        "evals.toml",
        "--out",
        "now.json",
        "--junit",
        "now.xml",
    ];
    for format in ["text", "json"] {
        let mut eval = machine.command(eval.iter().chain(&["--format", format]));
        let done: Done = eval
            .env("MY_KEY", "canary-key-1234")
            .output()
            .unwrap()
            .into();
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(!format!("{done:?}").contains("canary"), "{done:?}");
    }
    for file in ["now.json", "now.xml"] {
        let text = fs::read_to_string(machine.path(file)).unwrap();
        assert!(text.contains("[redacted]"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn a_case_is_not_added_to_a_file_that_lists_cases_inline() {
    let list = "case = [{ name = 'a', message = 'b', check = [{ max_turns = 1 }] }]\n";
    let machine = offline().with_file("list.toml", list);
    machine
        .run(["ask", "--session", "s", "What time is it?"])
        .stdout_of(0);
    let run = &machine.runs("s")[0];
    let add = [
        "eval",
        "add",
        "list.toml",
        run,
        "--cassette",
        "its.cassette",
    ];
    let complaint = machine.run(add).complaint(2);
    assert!(
        complaint.contains("hint: write its cases as [[case]]"),
        "{complaint}"
    );
    assert_eq!(fs::read_to_string(machine.path("list.toml")).unwrap(), list);
    assert!(!machine.path("its.cassette").exists());
}

#[test]
fn the_cases_in_the_guide_are_valid_and_its_first_file_passes_offline() {
    let guide = include_str!("../../../../docs/evals.md");
    let blocks: Vec<&str> = guide
        .split("```toml\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 3, "the guide has its examples");
    for block in &blocks {
        let read = neuraxis::evals::EvalFile::from_toml(block);
        assert!(read.is_ok(), "{read:?}: {block}");
    }
    let machine = offline().with_file("evals.toml", blocks[0]);
    let done = machine.run(["eval", "evals.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}
