//! Runs that wait for approval, decided from another process.

use std::fs;

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};
use crate::sessions::tamper;

const SETTINGS: [&str; 4] = [
    "--set",
    "store.url=sqlite://sessions.db",
    "--set",
    "modes.moderate.tools.read_only=ask",
];

const NOTE: &str = "note: no model configured: answering offline, by rules (export OPENAI_API_KEY, DEEPSEEK_API_KEY or ANTHROPIC_API_KEY, or run `neuraxis setup`)\n";

fn run(machine: &Machine, arguments: &[&str]) -> Done {
    machine.run([arguments, &SETTINGS].concat())
}

/// Leaves a run waiting and returns its id.
fn leave_waiting(machine: &Machine) -> (String, String) {
    let complaint = run(
        machine,
        &["ask", "--wait", "--session", "s", "What time is it?"],
    );
    let complaint = complaint.complaint(5);
    let complaint = complaint.strip_prefix(NOTE).unwrap().to_owned();
    let run = complaint.split("run ").nth(1).unwrap();
    let run = run.split(' ').next().unwrap().to_owned();
    (run, complaint)
}

#[test]
fn the_approval_list_mentions_that_questions_of_an_active_run_are_missing() {
    const ASKS: [&str; 2] = ["--set", "modes.moderate.tools.read_only=ask"];
    let machine = Machine::new();
    let run = |arguments: &[&str]| machine.run([arguments, &ASKS].concat());
    run(&["ask", "--wait", "--session", "s", "What time is it?"]).complaint(5);
    // As if another process has the run and its sub-agents continue meanwhile.
    tamper(
        &machine,
        "UPDATE runs SET leased_until = 9000000000000, lease_ms = 9000000000000",
    );
    let id = machine.runs("s").swap_remove(0);
    let list = run(&["approvals", "list"]).stdout_of(0);
    assert!(
        list.contains("except a question of an active run"),
        "{list}"
    );
    assert!(list.contains(&format!("approvals show {id}`")), "{list}");
    run(&["approvals", "show", &id]).stdout_of(0);
}

#[test]
fn approvals_list_names_the_sub_agent_that_asks() {
    const AGENTS: &str =
        "[agents.lead]\nagents = ['tech']\n[agents.tech]\ntools = ['write_file']\n";
    let model = Scripted::start([
        Turn::Calls(&[("tech", r#"{"task":"Write it."}"#)]),
        Turn::Calls(&[("write_file", r#"{"path":"a.txt","content":"a"}"#)]),
    ]);
    let machine = model.machine();
    let text = fs::read_to_string(machine.path("neuraxis.toml")).unwrap() + AGENTS;
    let machine = machine.with_file("neuraxis.toml", text);
    let lead = ["--agent", "lead", "--channel", "code_task"];
    let ask = [&["ask", "--wait"][..], &lead, &["Write a file."]].concat();
    machine.run_with_key(ask).complaint(5);
    let list = machine.run_with_key(["approvals", "list"]).stdout_of(0);
    let asker = "  asked by a sub-agent at depth 1: tech\n";
    assert!(list.contains(asker), "{list}");
}

/// Returns the name of the question that a run waits for.
fn question(machine: &Machine, id: &str) -> String {
    let shown = run(machine, &["approvals", "show", id]).stdout_of(0);
    let name = shown.strip_prefix("question ").unwrap();
    name.lines().next().unwrap().to_owned()
}

/// Replaces the names of questions with a placeholder, since they contain the ids of their runs.
fn without_names(text: &str) -> String {
    let name = regex::Regex::new(r"\b[0-9a-f]{16}\b").unwrap();
    name.replace_all(text, "QUESTION").into_owned()
}

#[test]
fn a_waiting_run_names_the_commands_that_answer_it() {
    let machine = Machine::new();
    let (run, complaint) = leave_waiting(&machine);
    assert!(complaint.contains(&question(&machine, &run)), "{complaint}");
    insta::assert_snapshot!(without_names(&complaint.replace(&run, "RUN")));
}

#[test]
fn an_answer_must_name_the_question_that_is_currently_waiting() {
    let model = Scripted::start([
        Turn::Calls(&[("current_time", r#"{"time_zone":"Asia/Tokyo"}"#)]),
        Turn::Calls(&[("current_time", r#"{"time_zone":"Europe/Paris"}"#)]),
        Turn::Says(&["Both.\n"]),
    ]);
    let machine = model.machine();
    let run = |arguments: &[&str]| -> Done {
        let mut command = machine.command(arguments);
        let command = command.args(SETTINGS).env("MY_KEY", "k");
        command.output().unwrap().into()
    };
    run(&["ask", "--wait", "--session", "s", "Where?"]).complaint(5);
    let asked = || -> (String, String) {
        let list = run(&["approvals", "list", "--format", "json"]).stdout_of(0);
        let list: Vec<Value> = serde_json::from_str(&list).unwrap();
        let text = |key: &str| list[0][key].as_str().unwrap().to_owned();
        (text("run_id"), text("question"))
    };
    let (id, first) = asked();
    let unnamed = run(&["approvals", "approve", &id]).complaint(2);
    assert!(unnamed.contains("name the question"), "{unnamed}");
    assert!(unnamed.contains(&first), "{unnamed}");
    run(&["approvals", "approve", &id, &first]).complaint(5);
    // Meanwhile the same run has another question.
    let (_, second) = asked();
    assert_ne!(first, second);
    let records = || run(&["runs", "show", &id, "--format", "events"]).stdout;
    let before = records();
    for answer in ["approve", "deny"] {
        let late = run(&["approvals", answer, &id, &first]).complaint(1);
        assert!(
            late.contains("is not waiting for an answer to question"),
            "{late}"
        );
        let unnamed = run(&["approvals", answer, &id]).complaint(2);
        assert!(unnamed.contains("name the question"), "{unnamed}");
    }
    assert_eq!(records(), before, "nothing was written");
    let done = run(&["approvals", "approve", &id, &second]);
    assert_eq!(done.stdout_of(0), "Both.\n");
}

#[test]
fn waiting_calls_are_listed_shown_and_answered_by_another_process() {
    let machine = Machine::new();
    let (id, _) = leave_waiting(&machine);

    let list = run(&machine, &["approvals", "list", "--format", "json"]).stdout_of(0);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["run_id"], id.as_str());
    assert_eq!(
        (&list[0]["name"], &list[0]["session_id"]),
        (&"current_time".into(), &"s".into())
    );
    let call = list[0]["tool_call_id"].as_str().unwrap();
    let text = run(&machine, &["approvals", "list", "--session", "s"]).stdout_of(0);
    assert!(text.contains(&id) && text.contains(call), "{text}");

    let shown = run(&machine, &["approvals", "show", &id]).stdout_of(0);
    let time = regex::Regex::new("expires: [0-9]{4}-[-0-9]+ [0-9:]+\n").unwrap();
    insta::assert_snapshot!(without_names(&time.replace(&shown, "expires: TIME\n")));

    let name = list[0]["question"].as_str().unwrap();
    assert!(shown.contains(name) && text.contains(name), "{shown}{text}");
    let done = run(&machine, &["approvals", "approve", &id, name]);
    assert!(done.stdout_of(0).starts_with("It is "));
    let list = run(&machine, &["approvals", "list"]).stdout_of(0);
    assert_eq!(list, "nothing is waiting for your approval\n");
    let again = run(&machine, &["approvals", "approve", &id]).complaint(2);
    assert!(again.contains("is not waiting for an approval"), "{again}");
}

#[test]
fn a_question_shows_its_expiry_and_cannot_be_approved_afterwards() {
    let machine = Machine::new();
    let brief = [
        &SETTINGS[..],
        &["--set", "modes.moderate.approval_expires=1ms"],
    ]
    .concat();
    let ask = ["ask", "--wait", "--session", "s", "What time is it?"];
    let complaint = machine.run([&ask, &brief[..]].concat()).complaint(5);
    let id = regex::Regex::new("run ([0-9a-f-]{36})").unwrap();
    let id = id.captures(&complaint).unwrap()[1].to_owned();

    let list = run(&machine, &["approvals", "list", "--format", "json"]).stdout_of(0);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    assert!(list[0]["expires_at"].is_string(), "{list:?}");
    for tell in [&["approvals", "list"][..], &["approvals", "show", &id]] {
        let told = run(&machine, tell).stdout_of(0);
        assert!(told.contains("expired: 2"), "{told}");
    }

    let name = question(&machine, &id);
    let late = run(&machine, &["approvals", "approve", &id, &name]);
    assert_eq!(late.code, Some(1), "{}", late.stderr);
    assert!(late.stderr.contains("came too late"), "{}", late.stderr);
    let records = run(&machine, &["runs", "show", &id, "--format", "events"]).stdout;
    assert!(!records.contains(r#""decision":"approve""#), "{records}");
    let again = run(&machine, &["approvals", "approve", &id]).complaint(2);
    assert!(again.contains("is not waiting for an approval"), "{again}");
}

#[test]
fn an_expired_question_is_reported_and_the_run_resumes_without_the_other() {
    let model = Scripted::start([
        Turn::Calls(&[
            ("current_time", r#"{"time_zone":"Asia/Tokyo"}"#),
            ("current_time", r#"{"time_zone":"Europe/Paris"}"#),
        ]),
        Turn::Says(&["Nobody knows.\n"]),
    ]);
    let machine = model.machine();
    let run = |arguments: &[&str]| machine.run_with_key([arguments, &SETTINGS[..]].concat());
    let brief = ["--set", "modes.moderate.approval_expires=1ms"];
    let ask = ["ask", "--wait", "--session", "s", "Where?"];
    run(&[&ask[..], &brief[..]].concat()).complaint(5);
    let list = run(&["approvals", "list", "--format", "json"]).stdout_of(0);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let text = |key: &str| list[0][key].as_str().unwrap();
    let (id, first) = (text("run_id"), text("question"));
    let late = run(&["approvals", "approve", id, first]).complaint(1);
    for told in ["waits for your approval of a call", "came too late"] {
        assert!(late.contains(told), "{late}");
    }
    let busy = run(&["ask", "--session", "s", "And now?"]).complaint(1);
    let way =
        format!(" runs resume {id}` continues without the calls that were not decided in time");
    assert!(busy.contains(&way), "{busy}");
    let resumed = run(&["runs", "resume", id]);
    assert_eq!(resumed.stdout_of(0), "Nobody knows.\n");
}

#[test]
fn a_denial_reaches_the_model_with_its_reason_and_records_the_user() {
    let machine = Machine::new();
    let (id, _) = leave_waiting(&machine);
    let name = question(&machine, &id);
    let deny = [
        "approvals",
        "deny",
        &id,
        &name,
        "--reason",
        "not now",
        "--format",
        "events",
    ];
    let events = run(&machine, &deny).events();
    let decided = events
        .iter()
        .find(|event| event["type"] == "approval_decided");
    let decided = decided.unwrap();
    assert_eq!(
        (&decided["decision"], &decided["reason"]),
        (&"deny".into(), &"not now".into())
    );
    assert_eq!(decided["by"], "tester, at the terminal");
    let result = events.iter().find(|event| event["type"] == "tool_result");
    assert!(
        result.unwrap()["value"].to_string().contains("not now"),
        "{events:?}"
    );
    assert_eq!(events.last().unwrap()["type"], "final");
}

#[test]
fn arguments_can_be_replaced_on_approval_and_are_validated_again() {
    let machine = Machine::new();
    let (id, _) = leave_waiting(&machine);
    let name = question(&machine, &id);
    let with = |arguments: &str| {
        let approve = ["approvals", "approve", &id, &name, "--arguments", arguments];
        run(&machine, &approve)
    };
    let refused = with("{").complaint(2);
    assert!(refused.contains("it must be JSON"), "{refused}");
    let refused = with(r#"{"zone":1}"#).complaint(2);
    assert!(refused.contains("the call is still waiting"), "{refused}");
    let answer = with(r#"{"time_zone":"Asia/Tokyo"}"#).stdout_of(0);
    assert!(answer.contains("Asia/Tokyo"), "{answer}");
}

/// Returns the commands that hints propose, in order.
fn proposed(stderr: &str) -> Vec<Vec<String>> {
    let hints = stderr.lines().filter(|line| line.starts_with("hint: "));
    let commands = hints.flat_map(|hint| hint.split('`').skip(1).step_by(2));
    let commands = commands.filter_map(|command| command.strip_prefix("neuraxis "));
    commands
        .map(|command| command.split(' ').map(str::to_owned).collect())
        .collect()
}

#[test]
fn following_the_hints_of_a_run_that_waits_for_two_calls_completes_it() {
    let model = Scripted::start([
        Turn::Calls(&[
            ("current_time", r#"{"time_zone":"Asia/Tokyo"}"#),
            ("current_time", r#"{"time_zone":"Europe/Paris"}"#),
        ]),
        Turn::Says(&["Both.\n"]),
    ]);
    let machine = model.machine();
    let with_key = |arguments: &[String]| -> Done {
        let mut command = machine.command(arguments);
        command.env("MY_KEY", "k").output().unwrap().into()
    };
    let ask = [
        &["ask", "--wait", "--session", "s"],
        &SETTINGS[..],
        &["Where?"],
    ]
    .concat();
    let ask: Vec<String> = ask.into_iter().map(str::to_owned).collect();
    let mut done = with_key(&ask);
    let first = done.stderr.clone();
    let id = regex::Regex::new("run ([0-9a-f-]{36})").unwrap();
    let id = id.captures(&first).unwrap()[1].to_owned();
    let mut followed = 0;
    while done.code != Some(0) {
        let commands = proposed(&done.stderr);
        let shown = with_key(&commands[0]).stdout_of(0);
        assert!(shown.contains("asks for your approval"), "{shown}");
        done = with_key(&commands[1]);
        followed += 1;
        assert!(followed < 3, "{done:?}");
    }
    assert_eq!((done.stdout.as_str(), followed), ("Both.\n", 2));
    insta::assert_snapshot!(without_names(&first.replace(&id, "RUN")));
}

#[test]
fn a_run_can_be_named_by_a_prefix_of_its_id() {
    let machine = Machine::new();
    let (id, _) = leave_waiting(&machine);
    let name = question(&machine, &id);
    let whole = run(&machine, &["approvals", "show", &id]).stdout_of(0);
    let part = run(&machine, &["approvals", "show", &id[..20], &name]).stdout_of(0);
    assert_eq!(part, whole);
    run(&machine, &["approvals", "approve", &id[..20], &name]).stdout_of(0);
}

#[test]
fn identical_calls_have_distinct_question_names() {
    const CALLS: [(&str, &str); 11] = [("current_time", r#"{"time_zone":"Asia/Tokyo"}"#); 11];
    let model = Scripted::start([Turn::Calls(&CALLS)]);
    let machine = model.machine();
    let run = |arguments: &[&str]| -> Done {
        let mut command = machine.command(arguments);
        let command = command.args(SETTINGS).env("MY_KEY", "k");
        command.output().unwrap().into()
    };
    run(&["ask", "--wait", "--session", "s", "Where?"]).complaint(5);
    let list = run(&["approvals", "list", "--format", "json"]).stdout_of(0);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let id = list[0]["run_id"].as_str().unwrap();
    let names = list.iter().map(|call| call["question"].as_str().unwrap());
    let names: std::collections::BTreeSet<&str> = names.collect();
    assert_eq!(names.len(), CALLS.len());
    for name in names.into_iter().take(2) {
        let shown = run(&["approvals", "show", id, name]).stdout_of(0);
        assert_eq!(shown.matches("your approval").count(), 1);
        assert!(shown.starts_with(&format!("question {name}\n")), "{shown}");
    }
}

#[test]
fn an_empty_question_name_is_refused() {
    let machine = Machine::new();
    let (id, _) = leave_waiting(&machine);
    let complaint = run(&machine, &["approvals", "approve", &id, ""]).complaint(2);
    assert!(complaint.contains("[QUESTION]"), "{complaint}");
}

#[test]
fn an_unknown_run_or_question_is_refused_with_a_hint() {
    let machine = Machine::new();
    let unknown = "01990000-0000-7000-8000-000000000000";
    for (arguments, told) in [
        (["approvals", "approve", unknown], "runs list"),
        (["approvals", "approve", "nonsense"], "there is no run"),
    ] {
        let complaint = run(&machine, &arguments).complaint(2);
        assert!(complaint.contains(told), "{complaint}");
    }
    let (id, _) = leave_waiting(&machine);
    let complaint = run(&machine, &["approvals", "deny", &id, "0123456789abcdef"]).complaint(1);
    assert!(
        complaint.contains("question 0123456789abcdef"),
        "{complaint}"
    );
}

#[test]
fn a_run_cannot_wait_in_a_memory_store() {
    let done = Machine::new().run([
        "ask",
        "--wait",
        "--set",
        "store.url=memory:",
        "What time is it?",
    ]);
    let complaint = done.complaint(2);
    assert!(
        complaint.contains("a run cannot wait in memory"),
        "{complaint}"
    );
}

#[test]
fn a_damaged_run_is_named_in_the_approval_list() {
    const ASKS: [&str; 2] = ["--set", "modes.moderate.tools.read_only=ask"];
    let machine = Machine::new();
    let run = |arguments: &[&str]| machine.run([arguments, &ASKS].concat());
    for session in ["s", "t"] {
        run(&["ask", "--wait", "--session", session, "What time is it?"]).complaint(5);
    }
    let damaged = machine.runs("s").swap_remove(0);
    let whole = machine.runs("t").swap_remove(0);
    tamper(
        &machine,
        "UPDATE steps SET body = CAST('{' AS BLOB) WHERE run = 1",
    );
    let warning = format!("warning: run {damaged} is damaged, so its questions are unknown: ");
    let list = run(&["approvals", "list"]);
    assert!(list.stderr.contains(&warning), "{list:?}");
    let listed = list.stdout_of(0);
    assert!(listed.contains(&whole), "{listed}");
    assert!(!listed.contains(&damaged), "{listed}");
    let of_session = run(&["approvals", "list", "--session", "s"]);
    assert!(of_session.stderr.contains(&warning), "{of_session:?}");
}

#[test]
fn a_call_whose_channel_is_not_configured_here_keeps_waiting() {
    let machine = Machine::new().with_file(
        "mine.toml",
        "[channels.mine]\nrole = 'reasoning'\ntools = ['current_time']\n",
    );
    let there =
        |arguments: &[&str]| run(&machine, &[&["--config", "mine.toml"], arguments].concat());
    let ask = ["ask", "--channel", "mine", "--wait", "What time is it?"];
    there(&ask).complaint(5);
    let list = run(&machine, &["approvals", "list", "--format", "json"]).stdout_of(0);
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    let text = |key: &str| list[0][key].as_str().unwrap();
    let (id, question) = (text("run_id"), text("question"));
    for command in [
        &["approvals", "approve", id, question][..],
        &["approvals", "deny", id, question],
        &["runs", "resume", id],
    ] {
        let refused = run(&machine, command).complaint(2);
        assert!(
            refused.contains("channel mine, which is not configured"),
            "{refused}"
        );
    }
    let allowed = there(&["approvals", "approve", id, question]);
    assert!(allowed.stdout_of(0).contains("It is "));
}
