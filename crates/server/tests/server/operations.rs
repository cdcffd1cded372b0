//! What an operator uses: request ids, the access log and the metrics of `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use neuraxis::memory::MemoryStore;
use neuraxis::{Orchestrator, Role};
use neuraxis_server::{Metrics, Server, Stop};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::support::client::answer;
use crate::support::in_process::InProcess;
use crate::support::program::{id_of, make_key};
use crate::support::{Client, Program};

const ID: &str = "x-request-id";

#[tokio::test]
async fn tools_receive_the_id_of_their_request() {
    let model = ScriptedModel::new().then(reply::calls([("look", "{}")]));
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model.then(reply::text("Seen."))))
        .tool(look.clone())
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve(orchestrator).await;
    let turn = server.client().post("/api/v1/sessions/s1/turns");
    let turn = turn.header(ID, "ours-1").json(&json!({"message": "Look."}));
    assert!(turn.send().await.unwrap().status().is_success());
    assert_eq!(look.calls()[0].context.request_id(), Some("ours-1"));
}

#[tokio::test]
async fn every_answer_carries_its_request_id_and_so_does_the_problem_body() {
    let program = Program::start().await;
    let client = program.client();
    for path in ["/healthz", "/nowhere", "/api/v1/runs/none", "/metrics"] {
        let asked = client.get(path).header(ID, "ours-1.a:b/c+d=");
        let response = asked.send().await.unwrap();
        assert_eq!(response.headers()[ID], "ours-1.a:b/c+d=", "{path}");
        let is_problem = !response.status().is_success();
        let text = response.text().await.unwrap();
        assert_eq!(
            text.contains("\"request_id\":\"ours-1.a:b/c+d=\""),
            is_problem,
            "{text}"
        );
    }
    let made = client.get("/healthz").send().await.unwrap();
    assert_eq!(made.headers()[ID].len(), 36);
}

#[tokio::test]
async fn a_request_id_that_could_forge_a_log_line_is_replaced() {
    let program = Program::start().await;
    let long = "x".repeat(129);
    for id in ["a b", "a\"b", "{}", "a,b", long.as_str()] {
        let asked = program.client().get("/nowhere").header(ID, id);
        let response = asked.send().await.unwrap();
        let given = response.headers()[ID].to_str().unwrap().to_owned();
        assert_eq!(given.len(), 36, "{given}");
        let text = response.text().await.unwrap();
        let problem: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(problem["request_id"], *given);
    }
}

/// Stops the program and returns what it logged.
#[cfg(unix)]
async fn logged(program: Program) -> String {
    let folder = program.stopped().await;
    std::fs::read_to_string(folder.path().join("log")).unwrap()
}

async fn with_log(form: &str, level: &str) -> Program {
    let variables = [
        ("NEURAXIS_SERVER__ACCESS_LOG", form),
        ("NEURAXIS_LOG", level),
    ];
    Program::start_in(tempfile::tempdir().unwrap(), |command| {
        command.envs(variables);
    })
    .await
}

#[cfg(unix)]
#[tokio::test]
async fn the_json_access_log_has_a_line_per_answer_without_client_content() {
    let program = with_log("json", "warn").await;
    let client = program.client();
    let turn = client.turn("secret-session", &json!({"message": "secret words"}));
    let (status, answered) = answer(turn.header(ID, "turn-1")).await;
    assert_eq!(status, 200);
    let forged = "/api/v1/sessions/%0a%7b%22status%22:200%7d";
    let (status, _) = answer(client.get(forged).header(ID, "show-1")).await;
    assert!(status >= 400);
    client
        .get("/secret/path")
        .header(ID, "none-1")
        .send()
        .await
        .unwrap();
    let frames = client.events(
        client
            .turn("s", &json!({"message": "hello"}))
            .header(ID, "sse-1"),
    );
    let last = frames.await.rest().await;
    assert_eq!(last.last().unwrap().event, "final");

    let log = logged(program).await;
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4, "{log}");
    let of = |id: &str| lines.iter().find(|line| line["id"] == id).unwrap();
    let turn = of("turn-1");
    assert_eq!(turn["message"], "answered");
    assert_eq!(turn["level"], "INFO");
    assert_eq!(turn["method"], "POST");
    assert_eq!(turn["route"], "/api/v1/sessions/{id}/turns");
    assert_eq!(
        (&turn["status"], &turn["run"]),
        (&json!(200), &answered["run_id"])
    );
    assert_eq!(turn["complete"], true);
    assert!(turn["bytes"].as_u64().unwrap() > 100 && turn["ms"].is_u64());
    assert!(turn["timestamp"].is_string() && turn.get("problem").is_none());
    assert_eq!(of("show-1")["route"], "/api/v1/sessions/{id}");
    assert_eq!(of("none-1")["route"], "none");
    assert_eq!(of("none-1")["problem"], "not-found");
    let stream = of("sse-1");
    assert!(stream["bytes"].as_u64().unwrap() > 1_000, "{stream}");
    assert!(stream["run"].is_string(), "{stream}");
    assert_eq!(stream["complete"], true);
    assert!(!log.contains("secret"), "{log}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_answer_without_a_body_is_logged_as_complete() {
    let program = with_log("json", "warn").await;
    let client = program.client();
    let made = client.post("/api/v1/sessions").json(&json!({"id": "s"}));
    assert_eq!(answer(made).await.0, 201);
    let page = client.get("/").send().await.unwrap();
    let tag = page.headers()["etag"].clone();
    page.bytes().await.unwrap();
    let bare = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = [
        (bare.head(format!("{}/healthz", program.url())), 200),
        (client.get("/").header("if-none-match", tag), 304),
        (client.delete("/api/v1/sessions/s"), 204),
    ];
    for (request, expected) in asked {
        let request = request.header(ID, format!("bare-{expected}"));
        assert_eq!(request.send().await.unwrap().status(), expected);
    }
    let log = logged(program).await;
    for expected in ["bare-200", "bare-304", "bare-204"] {
        let line = log.lines().find(|line| line.contains(expected)).unwrap();
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["complete"], &line["bytes"]),
            (&json!(true), &json!(0)),
            "{line}"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_access_log_names_the_owner_and_id_of_a_key_and_never_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = make_key(folder.path(), &["--owner", "ada", "--scope", "read"]).await;
    let program = Program::start_in(folder, |command| {
        command.env("NEURAXIS_SERVER__ACCESS_LOG", "json");
    })
    .await;
    let ada = Client::with_key(program.url(), &key);
    for (client, id, expected) in [(&ada, "hers", 200), (&program.client(), "nobodys", 401)] {
        let list = client.get("/api/v1/sessions").header(ID, id);
        assert_eq!(answer(list).await.0, expected);
    }
    let about = "0199f3a1-0000-7000-8000-000000000001";
    let show = ada.get(&format!("/api/v1/runs/{about}"));
    assert_eq!(answer(show.header(ID, "of-a-run")).await.0, 404);
    let refused = ada.turn("s", &json!({"message": "hello"}));
    assert_eq!(answer(refused.header(ID, "refused")).await.0, 403);
    let chat = ada.post("/v1/chat/completions").json(&json!({
        "model": "main_thread", "messages": [{"role": "user", "content": "hello"}]
    }));
    assert_eq!(answer(chat.header(ID, "refused-chat")).await.0, 403);
    let log = logged(program).await;
    let lines = log.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |id: &str| lines.iter().find(|line| line["id"] == id).unwrap();
    for id in ["hers", "refused", "refused-chat"] {
        assert_eq!(of(id)["owner"], "ada");
        assert_eq!(of(id)["key"], id_of(&key));
    }
    assert!(of("nobodys").get("owner").is_none());
    assert_eq!(of("of-a-run")["run"], about);
    assert!(of("hers").get("run").is_none());
    assert!(!log.contains(&key), "{log}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_access_log_names_the_owner_of_a_session_another_user_reads_or_deletes() {
    let folder = tempfile::tempdir().unwrap();
    let hers = make_key(folder.path(), &["--owner", "ada"]).await;
    let admin = ["--owner", "dpo", "--scope", "admin"];
    let admin = make_key(folder.path(), &admin).await;
    let program = Program::start_in(folder, |command| {
        command.env("NEURAXIS_SERVER__ACCESS_LOG", "json");
    })
    .await;
    let token = program.folder().join(".local/share/neuraxis/server.token");
    let token = std::fs::read_to_string(token).unwrap();
    let client = |key: &str| Client::with_key(program.url(), key.trim());
    let (ada, dpo, local) = (client(&hers), client(&admin), client(&token));
    let (_, said) = ada.ask("hers", &json!({"message": "hello"})).await;
    let run = format!("/api/v1/runs/{}", said["run_id"].as_str().unwrap());
    let session = "/api/v1/sessions/hers";
    for (client, path, id) in [
        (&ada, session, "own"),
        (&dpo, session, "look"),
        (&dpo, run.as_str(), "run"),
    ] {
        let (status, _) = answer(client.get(path).header(ID, id)).await;
        assert_eq!(status, 200, "{id}");
    }
    let gone = local.delete(session).header(ID, "gone").send().await;
    assert_eq!(gone.unwrap().status(), 204);
    let log = logged(program).await;
    let lines = log.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let line = |id: &str| lines.iter().find(|line| line["id"] == id).unwrap();
    assert!(line("own").get("of").is_none(), "{log}");
    for id in ["look", "run"] {
        assert_eq!(
            (&line(id)["owner"], &line(id)["of"]),
            (&json!("dpo"), &json!("ada"))
        );
    }
    let gone = line("gone");
    assert_eq!(
        (&gone["key"], &gone["of"]),
        (&json!("server.token"), &json!("ada"))
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_text_access_log_writes_its_lines_among_the_others() {
    let program = with_log("text", "info").await;
    program
        .client()
        .get("/healthz")
        .header(ID, "text-1")
        .send()
        .await
        .unwrap();
    let log = logged(program).await;
    let mut lines = log.lines();
    let line = lines.find(|line| line.contains("text-1")).unwrap();
    for part in [" INFO ", "answered", "route=\"/healthz\"", "status=200"] {
        assert!(line.contains(part), "{line}");
    }
}

/// Reads the metrics.
async fn figures(client: &Client) -> String {
    let response = client.get("/metrics").send().await.unwrap();
    assert_eq!(response.status(), 200);
    let form = response.headers()["content-type"].to_str().unwrap();
    assert!(form.starts_with("application/openmetrics-text"), "{form}");
    response.text().await.unwrap()
}

#[track_caller]
fn has(text: &str, line: &str) {
    let mut lines = text.lines();
    assert!(lines.any(|other| other == line), "no {line} in {text}");
}

#[tokio::test]
async fn the_figures_count_requests_problems_runs_and_tokens() {
    let program = Program::start().await;
    let client = program.client();
    assert_eq!(client.ask("s", &json!({"message": "hello"})).await.0, 200);
    assert_eq!(client.ask("s", &json!({"massage": "hello"})).await.0, 400);
    client.get("/nowhere/1").send().await.unwrap();
    client.get("/nowhere/2").send().await.unwrap();
    let text = figures(&client).await;
    for line in [
        "neuraxis_http_requests_total{method=\"POST\",route=\"/api/v1/sessions/{id}/turns\",status=\"200\"} 1",
        "neuraxis_http_requests_total{method=\"POST\",route=\"/api/v1/sessions/{id}/turns\",status=\"400\"} 1",
        "neuraxis_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"} 2",
        "neuraxis_http_problems_total{kind=\"unknown-field\"} 1",
        "neuraxis_http_problems_total{kind=\"run-unrecorded\"} 0",
        "neuraxis_http_request_duration_seconds_count{method=\"POST\",route=\"/api/v1/sessions/{id}/turns\"} 2",
        "neuraxis_runs_begun_total 1",
        "neuraxis_runs_ended_total{reason=\"stop\"} 1",
        "neuraxis_runs_ended_total{reason=\"deadline\"} 0",
        "neuraxis_runs_allowed 1024",
        "neuraxis_streams_open 0",
        "neuraxis_model_calls_total{role=\"reasoning\",outcome=\"done\"} 1",
    ] {
        has(&text, line);
    }
    assert!(text.contains("neuraxis_build_info{version=\""), "{text}");
    assert!(text.contains("neuraxis_tokens_total{role=\"reasoning\",kind=\"prompt\"}"));
    assert!(text.ends_with("# EOF\n"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_request_whose_client_left_before_its_answer_is_logged_and_counted() {
    use crate::support::gate::{gated_program_with, waiting_turn};

    let variables = [("NEURAXIS_SERVER__ACCESS_LOG", "json")];
    let (program, mut gate) = gated_program_with(&variables).await;
    let token = program.folder().join(".local/share/neuraxis/server.token");
    let token = std::fs::read_to_string(token).unwrap();
    let client = program.client();
    let turn = client.turn("s", &waiting_turn()).bearer_auth(token.trim());
    let asking = tokio::spawn(turn.header(ID, "gone-1").send());
    gate.reached().await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    let route = "method=\"POST\",route=\"/api/v1/sessions/{id}/turns\"";
    let left = format!("neuraxis_http_requests_total{{{route},status=\"499\"}} 1");
    let counted = async {
        loop {
            let text = figures(&client).await;
            if text.contains(&left) {
                break text;
            }
        }
    };
    let text = timeout(Duration::from_secs(30), counted).await.unwrap();
    has(
        &text,
        &format!("neuraxis_http_request_duration_seconds_count{{{route}}} 1"),
    );
    gate.open().await;
    let log = logged(program).await;
    let line = log.lines().find(|line| line.contains("gone-1")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["status"], &line["complete"], &line["key"]),
        (&json!(499), &json!(false), &json!("server.token")),
        "{line}"
    );
    assert!(line["run"].is_string(), "{line}");
}

#[tokio::test]
async fn a_tool_name_invented_by_a_model_is_not_a_metrics_label() {
    let made_up = "made_up_by_the_model";
    let model = ScriptedModel::new()
        .then(reply::calls([(made_up, "{}")]))
        .then(reply::text("done"));
    let metrics = Metrics::new();
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .store(Arc::new(MemoryStore::new()))
        .trace_sink(metrics.trace_sink())
        .build()
        .unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(listen, orchestrator).await.unwrap();
    let server = server.with_metrics(metrics);
    let client = Client::new(&server.url());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async move {
        let _ = stopped.await;
        Stop::Cancel
    }));
    assert_eq!(client.ask("s", &json!({"message": "hello"})).await.0, 200);
    let text = figures(&client).await;
    assert!(!text.contains(made_up), "{text}");
    has(
        &text,
        "neuraxis_tool_calls_total{tool=\"other\",outcome=\"unknown_tool\"} 1",
    );
    has(&text, "neuraxis_runs_at_work 0");
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn streams_and_refused_turns_are_counted_while_in_progress() {
    use crate::support::gate::{gated_program_with, waiting_turn};

    let variables = [("NEURAXIS_SERVER__MAX_RUNS", "1")];
    let (program, mut gate) = gated_program_with(&variables).await;
    let client = program.client();
    let frames = client.listen("s", &waiting_turn()).await;
    gate.reached().await;
    assert_eq!(client.ask("t", &json!({"message": "hello"})).await.0, 503);
    let text = figures(&client).await;
    has(&text, "neuraxis_streams_open 1");
    has(&text, "neuraxis_runs_at_work 1");
    has(&text, "neuraxis_runs_allowed 1");
    has(
        &text,
        "neuraxis_http_problems_total{kind=\"too-many-runs\"} 1",
    );
    gate.open().await;
    frames.rest().await;
    let text = figures(&client).await;
    has(&text, "neuraxis_streams_open 0");
    has(
        &text,
        "neuraxis_tool_calls_total{tool=\"system_health\",outcome=\"done\"} 1",
    );
}
