//! `neuraxis ask` through a real llama-server, with the scripted model that `cargo xtask test` provides.

use neuraxis_testkit::LlamaServer;
use serde_json::Value;

use crate::machine::Machine;

const NEEDED: &str = "\n[models.reasoning]\nprovider = 'llama'\n";

fn machine(server: &LlamaServer) -> Machine {
    let base_url = format!("base_url = '{}'\n", server.base_url());
    Machine::new().with_file("neuraxis.toml", format!("{NEEDED}{base_url}"))
}

/// Asks and returns the events.
fn events(server: &LlamaServer, arguments: &[&str]) -> Vec<Value> {
    let command = [&["ask", "--format", "events"], arguments].concat();
    let done = machine(server).run(command);
    assert_eq!(done.code, Some(0), "{done:?}");
    done.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    kinds.dedup();
    kinds
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn system_health_answers_from_readings_of_the_real_tool() {
    let server = LlamaServer::start();
    let events = events(
        &server,
        &["--channel", "system_health", "How is this machine?"],
    );
    let purposes: Vec<_> = of_kind(&events, "llm_call")
        .iter()
        .map(|call| call["purpose"].clone())
        .collect();
    assert_eq!(purposes, ["gather", "turn"]);
    let result = of_kind(&events, "tool_result")[0];
    assert_eq!(
        (&result["name"], &result["status"]),
        (&"system_health".into(), &"done".into())
    );
    assert!(result["value"]["memory"]["total_bytes"].as_u64().unwrap() > 0);
    let answer = events.last().unwrap();
    assert_eq!(answer["type"], "final");
    assert!(
        answer["content"]
            .as_str()
            .unwrap()
            .contains("Tool results read: 1"),
        "{answer}"
    );
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn a_tool_call_is_streamed_run_and_followed_by_a_streamed_answer() {
    let server = LlamaServer::start();
    let events = events(&server, &["What time is it?"]);
    let delta = of_kind(&events, "tool_call_delta")[0];
    assert_eq!(delta["name"], "current_time");
    let streamed: String = of_kind(&events, "text_delta")
        .iter()
        .map(|delta| delta["text"].as_str().unwrap())
        .collect();
    assert_eq!(streamed, events.last().unwrap()["content"]);
    // A tool this quick may end before its start could be shown.
    let told = kinds(&events)
        .into_iter()
        .filter(|kind| *kind != "tool_start");
    let expected = [
        "run_started",
        "decision",
        "tool_call_delta",
        "llm_call",
        "verdict",
        "tool_call",
        "tool_result",
        "text_delta",
        "llm_call",
        "final",
    ];
    assert!(told.clone().eq(expected), "{:?}", told.collect::<Vec<_>>());
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn a_model_that_keeps_calling_tools_is_stopped_at_max_turns_and_still_answers() {
    let server = LlamaServer::start();
    let events = events(&server, &["--mode", "conservative", "Go on forever."]);
    assert_eq!(of_kind(&events, "max_turns_reached")[0]["turns"], 3);
    let last: Vec<_> = of_kind(&events, "llm_call")
        .into_iter()
        .filter(|call| call["purpose"] == "last_answer")
        .collect();
    assert_eq!(
        last.len(),
        2,
        "the first last answer is a call written out as text"
    );
    assert!(last[0].to_string().contains("<tool_call>"), "{}", last[0]);
    let answer = events.last().unwrap();
    assert_eq!(
        (&answer["type"], &answer["finish_reason"]),
        (&"final".into(), &"max_turns".into())
    );
    let content = answer["content"].as_str().unwrap();
    assert!(
        content.starts_with("This is the final answer") && !content.contains("tool_call"),
        "{content}"
    );
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn two_calls_in_one_reply_run_as_one_batch() {
    let server = LlamaServer::start();
    let events = events(&server, &["Please make two calls."]);
    let calls = of_kind(&events, "tool_call");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0]["content_index"], calls[1]["content_index"]);
    let order: Vec<_> = calls.iter().map(|call| call["index"].clone()).collect();
    assert_eq!(order, [0, 1]);
    assert!(
        events.last().unwrap()["content"]
            .as_str()
            .unwrap()
            .contains("Tool results read: 2")
    );
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn reasoning_is_streamed_separately_from_the_answer() {
    let server = LlamaServer::start();
    // In conservative mode, in which it calls nothing, the model is told not to think: a longer reply leaves room for
    // it.
    let room = ["--set", "modes.conservative.max_output_tokens=2048"];
    let mode = ["--channel", "code_task", "--mode", "conservative"];
    let events = events(&server, &[&room[..], &mode, &["Please think."]].concat());
    let thoughts: String = of_kind(&events, "reasoning_delta")
        .iter()
        .map(|delta| delta["text"].as_str().unwrap())
        .collect();
    assert!(thoughts.contains("thinking"), "{thoughts:?}");
    assert_eq!(events.last().unwrap()["content"], "This is a plain answer.");
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn the_models_of_a_real_server_are_listed_with_its_context_size() {
    let server = LlamaServer::start();
    let listed = machine(&server).run(["models", "--format", "json"]);
    let list: Value = serde_json::from_str(&listed.stdout_of(0)).unwrap();
    assert_eq!(list[0]["role"], "reasoning");
    assert_eq!(list[0]["loading"], false);
    assert!(list[0]["context_tokens"].as_u64().unwrap() > 0, "{list}");
    assert_eq!(list[0]["models"].as_array().unwrap().len(), 1, "{list}");
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn doctor_checks_a_real_server_with_and_without_streaming() {
    let server = LlamaServer::start();
    let done = machine(&server).run(["doctor", "--format", "json"]);
    let report: Value = serde_json::from_str(&done.stdout_of(0)).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let outcome = |name: &str| {
        let mut checks = checks.iter().filter(|check| check["check"] == name);
        checks.next().unwrap()["outcome"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for name in ["reachable", "model", "answers", "streams"] {
        assert_eq!(outcome(name), "ok", "{report:#}");
    }
    // The scripted model only calls the tools in its script, which the doctor warns of.
    assert_ne!(outcome("tools"), "failed", "{report:#}");
}

#[test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
fn a_recording_of_a_real_server_replays_without_it() {
    let server = LlamaServer::start();
    let machine = machine(&server);
    let recorded = machine.run(["ask", "--record", "it.cassette", "What time is it?"]);
    let answer = recorded.stdout_of(0);
    drop(server);
    let replay = [
        "ask",
        "--replay",
        "it.cassette",
        "--strict",
        "What time is it?",
    ];
    assert_eq!(machine.run(replay).stdout_of(0), answer);
}
