//! A configuration that changes while the server runs.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::keyed_mcp;
use crate::mcp::{Posting, message_with};
use crate::questions::{self, local};
use crate::support::client::answer;
use crate::support::program::folder_with;
use crate::support::{Client, Program};

/// Writes a configuration with a mode of this name.
fn configure(folder: &Path, mode: &str) {
    let text = format!("[modes.{mode}]\nroles = ['*']\ntools.read_only = 'allow'\n");
    fs::write(folder.join("neuraxis.toml"), text).unwrap();
}

async fn in_mode(client: &Client, mode: &str) -> u16 {
    let body = json!({"message": "hello", "mode": mode});
    client.ask("s", &body).await.0
}

async fn hash(client: &Client) -> Value {
    answer(client.get("/api/v1/policy")).await.1["policy_hash"].clone()
}

/// Waits until the log, since the program was told to reload its configuration, contains these words.
async fn wait_for_log(program: &Program, before: usize, words: &str) {
    while !program.log()[before..].contains(words) {
        assert!(program.log().len() < 1_000_000);
        // The answer does not matter.
        program.client().get("/healthz").send().await.unwrap();
    }
}

#[tokio::test]
async fn new_turns_use_a_changed_configuration_and_an_invalid_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    configure(folder.path(), "first");
    let program = Program::start_in(folder, |_| {}).await;
    let client = program.client();
    assert_eq!(in_mode(&client, "first").await, 200);
    assert_eq!(in_mode(&client, "second").await, 400);
    let first = hash(&client).await;

    let before = program.log().len();
    configure(program.folder(), "second");
    program.signal(Signal::HUP);
    wait_for_log(&program, before, "reloaded the configuration").await;
    while hash(&client).await == first {}
    // The session continues in the new engine, over an existing connection.
    assert_eq!(in_mode(&client, "second").await, 200);
    assert_eq!(in_mode(&client, "first").await, 400);
    let (_, session) = answer(client.get("/api/v1/sessions/s")).await;
    assert_eq!(session["runs"].as_array().unwrap().len(), 2, "{session}");

    let (second, before) = (hash(&client).await, program.log().len());
    fs::write(program.folder().join("neuraxis.toml"), "[modes.third\n").unwrap();
    program.signal(Signal::HUP);
    wait_for_log(&program, before, "the previous one remains in force").await;
    assert!(
        program.log()[before..].contains("neuraxis.toml:1"),
        "{}",
        program.log()
    );
    assert_eq!(hash(&client).await, second);
    assert_eq!(in_mode(&client, "second").await, 200);
}

#[tokio::test]
async fn a_change_that_needs_a_restart_is_reported_until_it_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("neuraxis.toml");
    let allowing = |runs: u32| fs::write(&file, format!("[server]\nmax_runs = {runs}\n")).unwrap();
    allowing(7);
    let program = Program::start_in(folder, |_| {}).await;
    for (runs, is_told) in [(8, true), (8, true), (7, false)] {
        let before = program.log().len();
        allowing(runs);
        program.signal(Signal::HUP);
        wait_for_log(&program, before, "reloaded the configuration").await;
        let log = program.log();
        let said = log[before..].contains("server.max_runs has changed");
        assert_eq!(said, is_told, "{runs}: {log}");
    }
}

#[tokio::test]
async fn the_log_names_the_policy_and_changed_models_of_new_turns() {
    let naming = |port: u16| {
        format!(
            "[models.coding]\nprovider = 'openai'\nmodel = 'm1'\napi_key_env = 'MODEL_KEY'\n\
             base_url = 'http://127.0.0.1:{port}/v1'\n"
        )
    };
    let program = Program::start_in(folder_with(&naming(7)), |command| {
        command.env("MODEL_KEY", "a-key-of-a-model");
    })
    .await;
    let policy = hash(&program.client()).await;
    for (port, models) in [(7, None), (8, Some("coding: openai/m1 at 127.0.0.1:8"))] {
        let before = program.log().len();
        fs::write(program.folder().join("neuraxis.toml"), naming(port)).unwrap();
        program.signal(Signal::HUP);
        wait_for_log(&program, before, "reloaded the configuration").await;
        let log = program.log();
        let mut lines = log[before..].lines();
        let line = lines
            .find(|line| line.contains("reloaded the configuration"))
            .unwrap();
        assert!(line.contains(policy.as_str().unwrap()), "{line}");
        assert_eq!(line.contains("models="), models.is_some(), "{line}");
        assert!(line.contains(models.unwrap_or_default()), "{line}");
    }
}

#[tokio::test]
async fn a_worker_survives_the_reload_signal() {
    let text = "[driver]\nkind = 'restate'\n[driver.restate]\nlisten = '127.0.0.1:0'\n\
        ingress = 'http://127.0.0.1:9'\nadmin = 'http://127.0.0.1:9'\n";
    let mut worker = Program::start_in(folder_with(text), |command| {
        command.arg("worker");
    })
    .await;
    worker.signal(Signal::HUP);
    worker.signal(Signal::TERM);
    let ended = worker.exit().await;
    assert!(ended.success(), "{ended}: {}", worker.log());
}

#[tokio::test]
async fn a_changed_address_is_not_reported_when_the_command_line_sets_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("neuraxis.toml");
    let naming = |port: u16| {
        let text = format!("[server]\nlisten = '127.0.0.1:{port}'\nmax_runs = {port}\n");
        fs::write(&file, text).unwrap();
    };
    naming(7);
    let program = Program::start_in(folder, |_| {}).await;
    let before = program.log().len();
    naming(8);
    program.signal(Signal::HUP);
    wait_for_log(&program, before, "reloaded the configuration").await;
    let log = program.log();
    assert!(
        log[before..].contains("server.max_runs has changed"),
        "{log}"
    );
    assert!(
        !log[before..].contains("server.listen has changed"),
        "{log}"
    );
}

#[tokio::test]
async fn what_a_previous_configuration_redacted_remains_redacted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("neuraxis.toml");
    let redacting = |pattern: &str| format!("[telemetry]\nredact = ['{pattern}']\n");
    fs::write(&file, redacting("FORMER-\\d+")).unwrap();
    let program = Program::start_in(folder, |_| {}).await;
    let before = program.log().len();
    fs::write(&file, redacting("LATTER-\\d+")).unwrap();
    program.signal(Signal::HUP);
    wait_for_log(&program, before, "reloaded the configuration").await;
    for secret in ["FORMER-17", "LATTER-17"] {
        let body = json!({"model": secret, "messages": [{"role": "user", "content": "hello"}]});
        let asked = program.client().post("/v1/chat/completions");
        let asked = asked.header("content-type", "application/json");
        let (status, received) = answer(asked.body(body.to_string())).await;
        assert_eq!(status, 404, "{received}");
        let message = received["error"]["message"].as_str().unwrap();
        assert!(message.contains("[redacted]"), "{message}");
        assert!(!message.contains(secret), "{message}");
    }
}

#[tokio::test]
async fn files_named_by_a_previous_configuration_remain_unreadable_to_tools() {
    let archiving = |folder: &str| format!("[store]\nkeep = '90d'\narchive = '{folder}'\n");
    let folder = folder_with(&archiving("former"));
    for name in ["former", "latter", "free"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("it.txt"), "CANARY\n").unwrap();
    }
    let program = Program::start_in(folder, |_| {}).await;
    fs::write(program.folder().join("neuraxis.toml"), archiving("latter")).unwrap();
    reload(&program).await;
    for (name, is_read) in [("former", false), ("latter", false), ("free", true)] {
        let message = format!("read_file {{\"path\": \"{name}/it.txt\"}}");
        let question = json!({"message": message, "channel": "code_task"});
        let (_, result) = program.client().ask(name, &question).await;
        let reply = result["reply"].as_str().unwrap();
        assert_eq!(reply.contains("CANARY"), is_read, "{name}: {result}");
    }
}

/// Returns the result of an answer, in JSON or as an event.
fn result_in(said: &str) -> Value {
    let mut lines = said.lines().map(|line| line.trim_start_matches("data:"));
    let message: Option<Value> = lines.find_map(|line| serde_json::from_str(line).ok());
    message.unwrap()["result"].clone()
}

/// Makes the program reload its configuration.
async fn reload(program: &Program) {
    let before = program.log().len();
    program.signal(Signal::HUP);
    wait_for_log(program, before, "reloaded the configuration").await;
}

/// Has a client without sessions asked in its call, reloads the configuration, and sends the answer. Returns the result
/// of the call.
async fn answered_at_the_new_engine(program: &Program, message: &str, content: Value) -> Value {
    let client = local(program);
    let arguments = json!({"message": message});
    let asked = result_in(&keyed_mcp::ask(&client, arguments.clone()).await);
    let questions = asked["inputRequests"].as_object().unwrap();
    let question = questions.keys().next().unwrap();

    reload(program).await;
    let brought = json!({
        "name": "ask",
        "arguments": arguments,
        "requestState": asked["requestState"],
        "inputResponses": {question: {"action": "accept", "content": content}},
    });
    let (status, said) = keyed_mcp::call(&client, "tools/call", "ask", brought).await;
    assert_eq!(status, 200, "{said}");
    result_in(&said)
}

#[tokio::test]
async fn an_mcp_answer_to_a_question_of_the_old_engine_is_accepted_by_the_new_one() {
    let asks = "[rules.clock]\nanswer = 'ask'\ntools = ['current_time']\nreason = 'Private.'\n";
    let program = Program::start_in(folder_with(asks), |_| {}).await;
    let approve = json!({"decision": "approve"});
    let done = answered_at_the_new_engine(&program, "What time is it?", approve).await;
    assert_eq!(done["structuredContent"]["status"], "done", "{done}");
}

#[tokio::test]
async fn a_tool_waiting_in_the_old_engine_receives_an_mcp_answer_sent_to_the_new_one() {
    let program = questions::program("").await;
    let large = json!({"size": "l"});
    let done = answered_at_the_new_engine(&program, "shop__look {}", large).await;
    assert_eq!(done["structuredContent"]["status"], "done", "{done}");
}

/// Has a client with a session asked in its call, and reloads the configuration. Returns the result of the call.
async fn left_by_the_former_engine(program: &Program, message: &str) -> Value {
    let client = Posting::begin(local(program)).await;
    let params = json!({"name": "ask", "arguments": {"message": message}});
    let call = json!({"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": params});
    let mut stream = client.send(call).await;
    message_with(&mut stream, "elicitation/create").await;
    reload(program).await;
    let left = message_with(&mut stream, "structuredContent").await;
    left["result"]["structuredContent"]["status"].clone()
}

#[tokio::test]
async fn an_mcp_client_is_no_longer_asked_when_its_answer_would_have_no_effect() {
    let asks = "[rules.clock]\nanswer = 'ask'\ntools = ['current_time']\nreason = 'Private.'";
    let program = questions::program(asks).await;
    // A waiting tool keeps its run in the former engine.
    let waits = json!({"message": "shop__look {}"});
    keyed_mcp::ask(&local(&program), waits).await;
    let status = left_by_the_former_engine(&program, "What time is it?").await;
    assert_eq!(status, "waiting");
}

#[tokio::test]
async fn a_tool_that_asked_an_mcp_client_learns_at_once_that_no_answer_will_arrive() {
    let program = questions::program("").await;
    let status = left_by_the_former_engine(&program, "shop__look {}").await;
    assert_eq!(status, "done");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_turn_in_progress_keeps_its_engine_and_ends_with_the_server() {
    use crate::support::gate::{gated_program, waiting_turn};

    let (mut program, mut gate) = gated_program().await;
    let client = program.client();
    for number in 0..2 {
        let session = format!("s{number}");
        let frames = client.listen(&session, &waiting_turn()).await;
        gate.reached().await;
        let before = program.log().len();
        program.signal(Signal::HUP);
        wait_for_log(&program, before, "reloaded the configuration").await;
        if number == 0 {
            gate.open().await;
            let rest = frames.rest().await;
            assert_eq!(rest.last().unwrap().data["finish_reason"], "stop");
            continue;
        }
        program.signal(Signal::INT);
        let rest = frames.rest().await;
        let last = rest.last().unwrap();
        assert_eq!(last.data["finish_reason"], "cancelled", "{last:?}");
        assert_eq!(program.exit().await.code(), Some(0));
        break;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stopping_server_no_longer_reloads_its_configuration() {
    use crate::support::gate::{gated_program, waiting_turn};

    let (mut program, mut gate) = gated_program().await;
    let _frames = program.client().listen("s", &waiting_turn()).await;
    gate.reached().await;
    program.signal(Signal::TERM);
    while !program.log().contains("SIGTERM") {
        tokio::task::yield_now().await;
    }
    program.signal(Signal::HUP);
    // The gate opens automatically after three seconds, in which the configuration could be reloaded many times.
    assert_eq!(program.exit().await.code(), Some(0));
    let log = program.log();
    assert!(!log.contains("reloaded the configuration"), "{log}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_turn_in_progress_can_be_steered_and_cancelled_through_the_new_engine() {
    use crate::support::gate::{gated_program, waiting_turn};

    let (program, mut gate) = gated_program().await;
    let client = program.client();
    for (route, body, finish) in [
        ("steer", json!({"message": "please be brief"}), "stop"),
        ("cancel", json!({}), "cancelled"),
    ] {
        let mut frames = client.listen(route, &waiting_turn()).await;
        let first = frames.next().await.unwrap();
        gate.reached().await;
        let before = program.log().len();
        program.signal(Signal::HUP);
        wait_for_log(&program, before, "reloaded the configuration").await;
        let run = first.data["run_id"].as_str().unwrap();
        let request = client.post(&format!("/api/v1/runs/{run}/{route}"));
        let request = request.header("content-type", "application/json");
        let (status, _) = answer(request.body(body.to_string())).await;
        assert_eq!(status, 202);
        gate.open().await;
        let rest = frames.rest().await;
        let last = rest.last().unwrap();
        assert_eq!(last.data["finish_reason"], finish, "{last:?}");
        assert!(rest.iter().all(|frame| frame.event != "resumed"));
    }
    let log = program.log();
    assert!(!log.contains("another process holds the run"), "{log}");
}
