//! Traces and metrics as a backend receives them: decoded from OTLP using OpenTelemetry's definitions, for requests to
//! the program whose run has tools, a sub-agent, a failing attempt and a question to a user.

mod measured;
mod model;
mod receiver;

use std::collections::{BTreeSet, HashMap};
use std::fs;

use neuraxis::otel::is_known_attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use self::measured::Measured;
use self::model::{ANSWER, AT_ONCE, HELPER, Model};
use self::receiver::{Receiver, number, text};
use crate::support::Program;
use crate::support::client::answer;

/// The trace that a client's request belongs to.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Secrets that must not appear anywhere: the key of a model, the credential for export, a text that matches a pattern.
const KEY: &str = "sk-canary-0123456789abcdef";
const HEADER: &str = "canary-of-the-header";
const PATTERN: &str = "CANARY-4711";

/// Conversation content: exported only if enabled.
const SAID: &str = "the heron stands in the shallows";

/// A folder with a configuration for such a run.
fn folder(model: &Model, receiver: &Receiver, protocol: &str, content: bool) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let (model, endpoint) = (&model.url, &receiver.url);
    let text = format!(
        "[store]\nurl = 'sqlite://{place}/sessions.db'\n\
         [models.reasoning]\nprovider = 'openai'\napi = 'chat'\nmodel = 'scripted'\nbase_url = '{model}'\napi_key_env = 'MODEL_KEY'\n\
         [telemetry]\ncontent = {content}\nredact = ['CANARY-\\d+']\n\
         [telemetry.otlp]\nendpoint = '{endpoint}'\nprotocol = '{protocol}'\n\
         [telemetry.json_lines]\npath = 'traces.jsonl'\n\
         [agents.adder]\ndescription = 'Adds.'\ninstructions = '{HELPER}'\ntools = ['calculate']\n\
         [agents.main_thread]\nagents = ['adder']\n\
         [channels.chat]\ntools = ['current_time', 'calculate', 'adder']\n\
         [rules.time]\nanswer = 'ask'\ntools = ['current_time']\n"
    );
    fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    folder
}

fn variables(command: &mut Command) {
    command
        .env_remove("NEURAXIS_MODELS__REASONING__PROVIDER")
        .env("MODEL_KEY", KEY)
        .env("OTEL_EXPORTER_OTLP_HEADERS", format!("x-canary={HEADER}"))
        .env("OTEL_SERVICE_NAME", "heronry");
}

/// Takes a turn, has its question approved by a different process, and returns the result.
async fn run(folder: TempDir) -> (Value, String, TempDir) {
    let program = Program::start_in(folder, variables).await;
    let message = format!("Say that {SAID}, {PATTERN}, with {KEY}.");
    let turn = program
        .client()
        .turn("s", &json!({"message": message}))
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .header("tracestate", "vendor=1");
    let (status, waiting) = answer(turn).await;
    assert_eq!(
        (status, &waiting["status"]),
        (200, &json!("waiting")),
        "{waiting}"
    );
    assert_eq!(waiting["trace_id"], TRACE);
    let mut log = program.log();
    let folder = program.stopped().await;
    let program = Program::start_in(folder, variables).await;
    let (run, call) = (&waiting["run_id"], &waiting["pending"][0]["tool_call_id"]);
    let (run, call) = (run.as_str().unwrap(), call.as_str().unwrap());
    let question = &waiting["pending"][0]["question"];
    let token = program.folder().join(".local/share/neuraxis/server.token");
    let token = fs::read_to_string(token).unwrap();
    let path = format!("/api/v1/runs/{run}/approvals/{call}");
    let decided = program
        .client()
        .post(&path)
        .header("authorization", format!("Bearer {}", token.trim()))
        .header("content-type", "application/json")
        .body(json!({"decision": "approve", "question": question}).to_string());
    let (status, received) = answer(decided).await;
    assert_eq!(status, 202, "{received}");
    let events = program.client().get(&format!("/api/v1/runs/{run}/events"));
    let frames = program.client().events(events).await.rest().await;
    assert_eq!(frames.last().unwrap().event, "final");
    let shown = program.client().get(&format!("/api/v1/runs/{run}"));
    let (_, shown) = answer(shown).await;
    let (_, figures) = figures(&program).await;
    assert!(
        figures.contains("neuraxis_telemetry_dropped_total{sink=\"otlp\"} 0"),
        "{figures}"
    );
    log.push_str(&program.log());
    (shown["result"].clone(), log, program.stopped().await)
}

async fn figures(program: &Program) -> (u16, String) {
    let response = program.client().get("/metrics").send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

fn spans_of(tree: &Tree) -> impl Iterator<Item = &Span> {
    tree.0.values()
}

/// The spans of a run, by name and position.
struct Tree(HashMap<String, Span>);

impl Tree {
    /// Returns the trace that the client started.
    fn of(spans: Vec<Span>) -> Self {
        let spans = spans.into_iter();
        let spans = spans.filter(|span| hex(&span.trace_id) == TRACE);
        Self(spans.map(|span| (hex(&span.span_id), span)).collect())
    }

    /// Returns the path of span names from the root to a span.
    fn path(&self, span: &Span) -> String {
        match self.0.get(&hex(&span.parent_span_id)) {
            Some(parent) => format!("{} > {}", self.path(parent), span.name),
            None => span.name.clone(),
        }
    }

    fn paths(&self) -> Vec<String> {
        let spans = self.0.values();
        let spans = spans.filter(|span| !span.name.starts_with("store "));
        let mut paths: Vec<String> = spans.map(|span| self.path(span)).collect();
        paths.sort();
        paths
    }

    fn at(&self, path: &str) -> Vec<&Span> {
        let spans = self.0.values();
        let mut found: Vec<_> = spans.filter(|span| self.path(span) == path).collect();
        found.sort_by_key(|span| span.start_time_unix_nano);
        let all = || spans_of(self).map(|span| self.path(span));
        assert!(
            !found.is_empty(),
            "{path} is not among {:#?}",
            all().collect::<Vec<_>>()
        );
        found
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_run_across_two_processes_is_exported_whole_over_http() {
    let (receiver, model) = (Receiver::over_http().await, Model::start().await);
    let folder = folder(&model, &receiver, "http/protobuf", false);
    check(&receiver, &model, folder).await;
}

#[tokio::test]
async fn a_run_across_two_processes_is_exported_whole_over_grpc() {
    let (receiver, model) = (Receiver::over_grpc().await, Model::start().await);
    let folder = folder(&model, &receiver, "grpc", false);
    check(&receiver, &model, folder).await;
}

/// The request that starts the run, and the agent beneath it.
const REQUEST: &str = "POST /api/v1/sessions/{id}/turns";
const ROOT: &str = "POST /api/v1/sessions/{id}/turns > invoke_agent main_thread";

fn beneath(root: &str, path: &str) -> String {
    format!("{root} > {path}")
}

async fn check(receiver: &Receiver, model: &Model, folder: TempDir) {
    let (result, log, folder) = run(folder).await;
    assert_eq!(result["trace_id"], TRACE, "{result}");
    let tree = Tree::of(receiver.spans());
    let mut expected: Vec<String> = [
        "approval current_time",
        "chat scripted",
        "chat scripted",
        "execute_tool adder",
        "execute_tool adder > invoke_agent adder",
        "execute_tool adder > invoke_agent adder > chat scripted",
        "execute_tool adder > invoke_agent adder > chat scripted",
        "execute_tool adder > invoke_agent adder > execute_tool calculate",
        "execute_tool calculate",
        "execute_tool current_time",
    ]
    .map(|path| beneath(ROOT, path))
    .into();
    expected.splice(..0, [REQUEST.to_owned(), ROOT.to_owned()]);
    assert_eq!(tree.paths(), expected);
    for span in receiver.spans() {
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        for attribute in &span.attributes {
            assert!(is_known_attribute(&attribute.key), "{}", attribute.key);
        }
    }
    for span in tree.0.values() {
        assert_eq!(span.trace_state, "vendor=1");
        let run = text(&span.attributes, "neuraxis.run.id");
        let is_of_run = tree.path(span).starts_with(ROOT);
        let expected = result["run_id"].as_str().filter(|_| is_of_run);
        assert_eq!(run.as_deref(), expected, "{}", span.name);
    }
    check_request(tree.at(REQUEST)[0], &tree, &receiver.spans());
    check_root(tree.at(ROOT)[0], &tree);
    check_calls(&tree);
    // A model server can join the trace at exactly this call.
    let chats: BTreeSet<String> = tree
        .0
        .values()
        .filter(|span| span.name.starts_with("chat"))
        .map(|span| format!("00-{TRACE}-{}-01", hex(&span.span_id)))
        .collect();
    let received = model.traces();
    assert_eq!(received.len(), 5, "four calls, one of them twice");
    assert_eq!(received.into_iter().collect::<BTreeSet<_>>(), chats);
    check_metrics(receiver);
    assert!(receiver.services().iter().all(|name| name == "heronry"));
    assert!(receiver.was_shown(HEADER));
    let lines = fs::read_to_string(folder.path().join("traces.jsonl")).unwrap();
    assert_eq!(lines.matches(r#""type":"llm_call""#).count(), 4, "{lines}");
    for output in [receiver.everything(), log, lines] {
        for canary in [KEY, HEADER, PATTERN, SAID, ANSWER, HELPER] {
            assert!(!output.contains(canary), "{canary} is in {output}");
        }
    }
}

/// Store queries made while answering a request are beneath it, and health probes are not traced.
fn check_request(request: &Span, tree: &Tree, all: &[Span]) {
    assert_eq!(hex(&request.parent_span_id), PARENT);
    assert_eq!(request.kind, SpanKind::Server as i32);
    let status = number(&request.attributes, "http.response.status_code");
    assert_eq!(status, Some(200));
    assert!(text(&request.attributes, "neuraxis.request.id").is_some());
    let begun = tree.at(&beneath(REQUEST, "store begin"))[0];
    assert_eq!(begun.kind, SpanKind::Client as i32);
    let operation = text(&begun.attributes, "db.operation.name");
    assert_eq!(operation.as_deref(), Some("begin"));
    let decided = all
        .iter()
        .find(|span| span.name.ends_with("/approvals/{call_id}"));
    let decided = decided.expect("a request without a trace of its client's begins one");
    assert!(decided.parent_span_id.is_empty() && hex(&decided.trace_id) != TRACE);
    assert!(all.iter().all(|span| !span.name.ends_with("/metrics")));
}

fn check_root(root: &Span, tree: &Tree) {
    assert_eq!(root.kind, SpanKind::Internal as i32);
    let word = |key: &str| text(&root.attributes, key);
    assert_eq!(word("gen_ai.operation.name").unwrap(), "invoke_agent");
    assert_eq!(word("gen_ai.conversation.id").unwrap(), "s");
    assert_eq!(word("neuraxis.finish_reason").unwrap(), "stop");
    let events: Vec<&str> = root.events.iter().map(|it| it.name.as_str()).collect();
    assert!(events.contains(&"neuraxis.waiting"), "{events:?}");
    // It spans everything that happened, in both processes.
    for span in tree.0.values().filter(|it| {
        let path = tree.path(it);
        path.starts_with(ROOT) && it.name != "store commit"
    }) {
        assert!(
            root.start_time_unix_nano <= span.start_time_unix_nano,
            "{span:?}"
        );
        assert!(
            root.end_time_unix_nano >= span.end_time_unix_nano,
            "{span:?}"
        );
    }
}

fn check_calls(tree: &Tree) {
    let chats = tree.at(&beneath(ROOT, "chat scripted"));
    let first = chats[0];
    assert_eq!(first.kind, SpanKind::Client as i32);
    assert_eq!(number(&first.attributes, "neuraxis.attempts"), Some(2));
    assert_eq!(
        number(&first.attributes, "gen_ai.usage.input_tokens"),
        Some(50)
    );
    assert_eq!(
        number(&first.attributes, "gen_ai.usage.output_tokens"),
        Some(7)
    );
    assert_eq!(
        text(&first.attributes, "gen_ai.provider.name").unwrap(),
        "openai"
    );
    assert_eq!(first.events.len(), 1, "the attempt that failed");
    let reason = text(&first.events[0].attributes, "error.type");
    assert_eq!(reason.as_deref(), Some("server"));
    assert_eq!(
        first.status.as_ref().map_or(0, |it| it.code),
        0,
        "it went well in the end"
    );
    let word = |key: &str| text(&first.attributes, key);
    assert_eq!(word("gen_ai.request.model").unwrap(), "scripted");
    assert_eq!(word("gen_ai.response.model").unwrap(), "scripted");
    assert_eq!(word("server.address").unwrap(), "127.0.0.1");
    assert!(number(&first.attributes, "server.port").is_some());
    assert_eq!(word("gen_ai.output.type").unwrap(), "text");
    assert_eq!(word("neuraxis.usage.label").unwrap(), "measured");
    assert_eq!(word("neuraxis.cost.label").unwrap(), "unknown", "no price");
    let failed = tree.at(&beneath(ROOT, "execute_tool calculate"))[0];
    assert!(text(&failed.attributes, "gen_ai.tool.description").is_some());
    assert_eq!(failed.status.as_ref().unwrap().code, 2, "an error");
    assert!(text(&failed.attributes, "error.type").is_some());
    let asked = tree.at(&beneath(ROOT, "approval current_time"))[0];
    let decision = text(&asked.attributes, "neuraxis.approval.decision");
    assert_eq!(decision.as_deref(), Some("approve"));
    let commits = tree.0.values().filter(|span| span.name == "store commit");
    assert!(commits.count() > 5);
}

/// The metrics of the run, combined from two processes.
fn check_metrics(receiver: &Receiver) {
    let measured = Measured(receiver.metrics());
    let of = |name: &str| measured.total(name, &[]);
    // Four calls of 50 and 7 tokens.
    let input = [
        ("gen_ai.token.type", "input"),
        ("gen_ai.request.model", "scripted"),
    ];
    assert_eq!(measured.total("gen_ai.client.token.usage", &input), 200.0);
    let output = [
        ("gen_ai.token.type", "output"),
        ("gen_ai.provider.name", "openai"),
    ];
    assert_eq!(measured.total("gen_ai.client.token.usage", &output), 28.0);
    assert_eq!(measured.unit("gen_ai.client.token.usage"), "{token}");
    assert_eq!(measured.count("gen_ai.client.operation.duration", &[]), 5);
    let failed = [
        ("error.type", "server"),
        ("gen_ai.request.model", "scripted"),
    ];
    assert_eq!(
        measured.count("gen_ai.client.operation.duration", &failed),
        1
    );
    assert_eq!(measured.unit("gen_ai.client.operation.duration"), "s");
    let streamed = measured.count("gen_ai.client.operation.time_to_first_chunk", &[]);
    assert!((1..=4).contains(&streamed), "{streamed}");
    // The sub-agent and its own call, the one that fails, and the one that was approved.
    assert_eq!(measured.count("gen_ai.execute_tool.duration", &[]), 4);
    let adder = [("gen_ai.tool.name", "adder")];
    assert_eq!(measured.count("gen_ai.execute_tool.duration", &adder), 1);
    let agent = [
        ("gen_ai.agent.name", "main_thread"),
        ("neuraxis.finish_reason", "stop"),
    ];
    assert_eq!(measured.count("gen_ai.invoke_agent.duration", &agent), 1);
    let days = [
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
    ];
    assert!(days.iter().all(|it| measured.last_bound(it) > 80_000.0));
    assert_eq!(of("neuraxis.model.retries"), 1.0);
    assert_eq!(measured.unit("neuraxis.model.retries"), "{attempt}");
    assert!(measured.count("neuraxis.store.commit.duration", &[]) > 5);
    assert_eq!(
        of("neuraxis.runs.active"),
        0.0,
        "nothing is at work any more"
    );
    // The second process found it waiting when it started.
    assert_eq!(of("neuraxis.approvals.waiting"), 1.0);
    assert_eq!(measured.unit("neuraxis.approvals.waiting"), "{call}");
    assert!(
        !measured.names().contains("neuraxis.model.cost"),
        "no model has a price"
    );
}

#[tokio::test]
async fn the_span_of_a_streamed_request_ends_with_its_answer() {
    let (receiver, model) = (Receiver::over_http().await, Model::start().await);
    let folder = folder(&model, &receiver, "http/protobuf", false);
    let program = Program::start_in(folder, variables).await;
    let client = program.client();
    let turn = client
        .turn("s", &json!({"message": AT_ONCE}))
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"));
    let frames = client.events(turn).await.rest().await;
    assert_eq!(frames.last().unwrap().event, "final");
    program.stopped().await;
    let tree = Tree::of(receiver.spans());
    let (request, run) = (tree.at(REQUEST)[0], tree.at(ROOT)[0]);
    assert!(request.end_time_unix_nano >= run.end_time_unix_nano);
}

#[tokio::test]
async fn context_trims_are_counted() {
    let (receiver, model) = (Receiver::over_http().await, Model::start().await);
    let folder = folder(&model, &receiver, "http/protobuf", false);
    let file = folder.path().join("neuraxis.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("api = 'chat'\n", "api = 'chat'\ncontext_tokens = 8192\n");
    fs::write(&file, text).unwrap();
    let program = Program::start_in(folder, variables).await;
    let message = format!("{AT_ONCE} {}", "heron ".repeat(2_000));
    for _ in 0..4 {
        let turn = program.client().turn("s", &json!({ "message": message }));
        let (status, said) = answer(turn).await;
        assert_eq!((status, &said["status"]), (200, &json!("done")), "{said}");
    }
    program.stopped().await;
    let measured = Measured(receiver.metrics());
    assert!(measured.total("neuraxis.context.trims", &[]) >= 1.0);
    assert_eq!(measured.unit("neuraxis.context.trims"), "{trim}");
}

#[tokio::test]
async fn content_is_exported_when_enabled_and_secrets_never_are() {
    let (receiver, model) = (Receiver::over_http().await, Model::start().await);
    let folder = folder(&model, &receiver, "http/protobuf", true);
    let (_, log, folder) = run(folder).await;
    let lines = fs::read_to_string(folder.path().join("traces.jsonl")).unwrap();
    let tree = Tree::of(receiver.spans());
    let chat = tree.at(&beneath(ROOT, "chat scripted"))[0];
    let said = text(&chat.attributes, "gen_ai.input.messages").unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    let content = said[0]["parts"][0]["content"].as_str().unwrap();
    assert!(
        content.contains(SAID) && content.contains("[redacted]"),
        "{content}"
    );
    let tool = tree.at(&beneath(ROOT, "execute_tool adder"))[0];
    let result = text(&tool.attributes, "gen_ai.tool.call.result").unwrap();
    assert!(result.contains(ANSWER), "{result}");
    let arguments = text(&tool.attributes, "gen_ai.tool.call.arguments").unwrap();
    let arguments: Value = serde_json::from_str(&arguments).unwrap();
    assert_eq!(arguments["task"], "What is 1 + 1?");
    let helper = tree.at(&beneath(ROOT, "execute_tool adder > invoke_agent adder"))[0];
    let asked = text(&helper.attributes, "gen_ai.input.messages").unwrap();
    assert!(
        asked.contains("What is 1 + 1?") && !asked.contains(SAID),
        "{asked}"
    );
    let output: Value = {
        let said = text(&chat.attributes, "gen_ai.output.messages").unwrap();
        serde_json::from_str(&said).unwrap()
    };
    let parts = output[0]["parts"].as_array().unwrap();
    let calls = parts.iter().filter(|part| part["type"] == "tool_call");
    assert!(
        calls.map(|call| &call["arguments"]).all(Value::is_object),
        "{output}"
    );
    assert!(lines.contains(SAID), "{lines}");
    for output in [receiver.everything(), log, lines] {
        for canary in [KEY, HEADER, PATTERN] {
            assert!(!output.contains(canary), "{canary} is in {output}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_endpoint_fails_no_run_and_lost_spans_are_reported() {
    let (receiver, model) = (Receiver::over_http().await, Model::start().await);
    // No process listens there any more.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let receiver = receiver.at(url);
    let folder = folder(&model, &receiver, "http/protobuf", false);
    let program = Program::start_in(folder, variables).await;
    let (status, received) = program
        .client()
        .ask("s", &json!({"message": "Hello?"}))
        .await;
    assert_eq!(
        (status, &received["status"]),
        (200, &json!("waiting")),
        "{received}"
    );
    let folder = program.stopped().await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(
        log.contains("spans were not delivered to http://127.0.0.1:"),
        "{log}"
    );
}
