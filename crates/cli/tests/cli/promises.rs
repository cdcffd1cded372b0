//! What the rules of the loop and the policy promise, checked in the real program with a configured model.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

/// Returns a machine with a model on a llama-server, and further settings for it.
fn machine(model: &Scripted, more: &str) -> Machine {
    let url = model.url();
    let text = format!("[models.reasoning]\nprovider = 'llama'\nbase_url = '{url}'\n{more}");
    Machine::new().with_file("mine.toml", text)
}

fn run(machine: &Machine, arguments: &[&str]) -> Done {
    machine.run(["--config", "mine.toml"].iter().chain(arguments))
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_type = events.iter().filter(|event| event["type"] == kind);
    of_type.collect()
}

#[test]
fn the_model_is_asked_to_digest_more_than_two_results_of_a_turn() {
    const TWO: &[(&str, &str)] = &[
        ("calculate", r#"{"expression":"1+1"}"#),
        ("calculate", r#"{"expression":"2+2"}"#),
    ];
    const THREE: &[(&str, &str)] = &[TWO[0], TWO[1], ("calculate", r#"{"expression":"3+3"}"#)];
    for (channel, calls, digests) in [
        ("chat", TWO, 0),
        ("chat", THREE, 1),
        ("code_task", THREE, 1),
    ] {
        let model = Scripted::start([Turn::Calls(calls), Turn::Says(&["Six in all."])]);
        let machine = machine(&model, "");
        let arguments = ["ask", "--format", "events", "--channel", channel, "Add up"];
        let events = run(&machine, &arguments).events();
        let injected = of_type(&events, "prompt_injected");
        assert_eq!(injected.len(), digests, "{channel}: {injected:?}");
        let told = model.told();
        let digest = told
            .iter()
            .filter(|text| text.starts_with("You received several results"));
        assert_eq!(digest.count(), digests, "{channel}: {told:?}");
    }
}

/// Asks two questions that each fit a context of 2,048 tokens, but not together. Returns the events of the second.
fn two_long_questions(machine: &Machine) -> Vec<Value> {
    let question = "word ".repeat(900);
    let ask = ["ask", "--session", "s", "--format", "events", &question];
    let first = run(machine, &ask).events();
    assert!(of_type(&first, "context_trimmed").is_empty(), "{first:?}");
    run(machine, &ask).events()
}

#[test]
fn the_context_size_reported_by_the_server_is_respected_before_it_overflows() {
    const PROPERTIES: &str = r#"{"default_generation_settings":{"n_ctx":2048},"total_slots":1}"#;
    let answers = || std::iter::repeat_n(Turn::Says(&["So be it."]), 4);
    let model = Scripted::with_detail(PROPERTIES, answers());
    let events = two_long_questions(&machine(&model, ""));
    assert_eq!(of_type(&events, "context_trimmed").len(), 1, "{events:?}");
    // It would have summarized the removed part, but the model never gave an unstreamed reply.
    let failed = of_type(&events, "llm_failed");
    let of_summary = failed
        .iter()
        .all(|failed| failed["purpose"] == "compaction");
    assert!(of_summary, "{events:?}");
    assert_eq!(model.heard().last().unwrap(), &"word ".repeat(900));

    // The configuration takes precedence.
    let model = Scripted::with_detail(PROPERTIES, answers());
    let events = two_long_questions(&machine(&model, "context_tokens = 100_000\n"));
    assert!(of_type(&events, "context_trimmed").is_empty(), "{events:?}");
    assert_eq!(model.asked(), 2);
}

#[test]
fn waiting_for_a_model_that_is_loading_does_not_count_toward_the_deadline() {
    let loads = std::iter::repeat_n(Turn::Loads, 4);
    let model = Scripted::start(loads.chain([Turn::Says(&["Good morning."])]));
    let machine = machine(&model, "");
    let deadline = "modes.moderate.deadline=2s";
    let ask = ["ask", "--set", deadline, "Are you there?"];
    let done = run(&machine, &ask);
    assert_eq!(done.stdout, "Good morning.\n", "{done:?}");
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = done.stderr.matches("still loading").count();
    assert_eq!(told, 1, "{done:?}");
    assert_eq!(model.asked(), 5);
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_waiting_for_a_model_that_is_loading() {
    let model = Scripted::start(std::iter::repeat_n(Turn::Loads, 400));
    let machine = machine(&model, "");
    let arguments = [
        "--config",
        "mine.toml",
        "ask",
        "--format",
        "events",
        "Hello?",
    ];
    let mut child = machine
        .command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    while !lines.contains("\"type\":\"llm_failed\"") {
        assert_ne!(stdout.read_line(&mut lines).unwrap(), 0, "{lines}");
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    stdout.read_to_string(&mut lines).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{lines}");
    let events = crate::machine::events(&lines);
    assert_eq!(events.last().unwrap()["finish_reason"], "cancelled");
    assert_eq!(of_type(&events, "llm_failed").len(), 1, "{events:?}");
}

#[test]
fn a_server_that_stays_silent_until_the_deadline_is_named_as_the_reason() {
    let model = Scripted::start([Turn::Stalls(""), Turn::Stalls("")]);
    let machine = machine(&model, "");
    let deadline = "modes.moderate.deadline=1s";
    let done = run(&machine, &["ask", "--set", deadline, "Are you there?"]);
    assert!(
        done.stderr
            .contains("No model finished a reply in that time"),
        "{done:?}"
    );
}

#[test]
fn a_mode_whose_roles_have_no_model_is_refused_and_no_other_model_is_called() {
    let model = Scripted::start([Turn::Says(&["I should not have been asked."])]);
    let url = model.url();
    let text = format!("[models.coding]\nprovider = 'llama'\nbase_url = '{url}'\n");
    let machine = Machine::new().with_file("mine.toml", text);
    let done = run(&machine, &["ask", "--mode", "conservative", "Hello?"]);
    let told = done.complaint(2);
    assert!(
        told.contains("the roles that may serve are reasoning, router")
            && told.contains("those with a model are coding"),
        "{told}"
    );
    assert_eq!(model.asked(), 0);
    // If the mode allows it, the only available model serves.
    let done = run(&machine, &["ask", "Hello?"]);
    assert_eq!(done.stdout_of(0), "I should not have been asked.\n");
}

#[test]
fn policy_explain_names_the_role_and_model_that_answer() {
    let model = Scripted::start([Turn::Says(&["Noon."])]);
    let machine = machine(&model, "model = 'tiny'\n");
    let question = "What time is it?";
    let explain = ["policy", "explain", "--format", "json", question];
    let explained = run(&machine, &explain).stdout_of(0);
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let events = run(&machine, &["ask", "--format", "events", question]).events();
    let served = &of_type(&events, "llm_call")[0]["served_by"];
    assert_eq!(&explained["decision"]["role"], served);
    assert_eq!(explained["model"], "llama/tiny");
    let table = run(&machine, &["policy", "explain", question]).stdout_of(0);
    assert!(
        table.contains("\nrole        reasoning\nmodel       llama/tiny\n"),
        "{table}"
    );
    let why = "Role reasoning serves: channel chat sends simple requests (0 points";
    assert!(
        table.contains(why) && table.contains("which has no model."),
        "{table}"
    );
}

#[test]
fn config_show_includes_the_server_plan() {
    let machine = Machine::new();
    let arguments = ["config", "show", "--set", "server.plan=basic"];
    let shown = machine.run(arguments).stdout_of(0);
    assert!(
        shown.contains("server.plan = \"basic\"  # --set"),
        "{shown}"
    );
    let shown = machine.run(["config", "show"]).stdout_of(0);
    assert!(!shown.contains("server.plan"), "{shown}");
}
