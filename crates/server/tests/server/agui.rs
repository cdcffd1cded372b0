//! `/agui`: what an AG-UI front end sends, and the events with which it is answered.

mod again;
mod given_up;
mod interrupts;
mod official_client;
mod wrong_forms;

use std::sync::Arc;

use neuraxis::engine::SystemClock;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{Clock, Tool};
use neuraxis::tools::ask_user;
use neuraxis::{DecideLater, Orchestrator, Policy, PolicyConfig, Role, RunStatus};
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::in_process::InProcess;
use crate::support::{Client, Program};

/// The body of a request, with a test's additions.
fn input(run: &str, messages: Value, more: Value) -> Value {
    let mut input = json!({
        "threadId": "t1", "runId": run, "protocolVersion": "1.0", "state": {}, "messages": null,
        "tools": [], "context": [], "forwardedProps": {}, "unknown": {"to": ["us"]}, "parentRunId": null,
    });
    input["messages"] = messages;
    let Value::Object(more) = more else {
        panic!("{more}");
    };
    for (field, value) in more {
        input[field] = value;
    }
    input
}

fn user(text: &str) -> Value {
    json!({"id": format!("u-{text}"), "role": "user", "content": text})
}

/// Sends a body and returns the events, checking that they are framed as clients require.
async fn run_agui_with(client: &Client, body: &Value, token: Option<&str>) -> Vec<Value> {
    let mut request = client
        .post("/agui")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream")
        .body(body.to_string());
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    assert!(!text.contains('\r') && !text.contains("[DONE]"), "{text}");
    let frames = text.split_terminator("\n\n");
    let frames = frames.filter(|frame| !frame.starts_with(':'));
    frames
        .map(|frame| serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap())
        .collect()
}

async fn run_agui(client: &Client, body: &Value) -> Vec<Value> {
    run_agui_with(client, body, None).await
}

/// Asks for something that needs a user's approval, and returns the events up to the question.
async fn asked_to_refund(client: &Client) -> Vec<Value> {
    let said = json!([user("Refund order 17.")]);
    run_agui(client, &input("r1", said, json!({}))).await
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect()
}

fn named<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|it| it["type"] == kind).collect()
}

fn text(events: &[Value]) -> String {
    let deltas = named(events, "TEXT_MESSAGE_CONTENT").into_iter();
    deltas.map(|it| it["delta"].as_str().unwrap()).collect()
}

/// A server whose calls of `refund` wait for a user.
async fn serve(model: ScriptedModel, tool: &Arc<ScriptedTool>) -> (InProcess, Orchestrator) {
    serve_by(model, tool, Arc::new(SystemClock)).await
}

/// Like [`serve`], with a clock that the test supplies.
async fn serve_by(
    model: ScriptedModel,
    tool: &Arc<ScriptedTool>,
    clock: Arc<dyn Clock>,
) -> (InProcess, Orchestrator) {
    let tool: Arc<dyn Tool> = Arc::clone(tool) as _;
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(tool)
        .approver(Arc::new(DecideLater))
        .clock(clock)
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    (InProcess::serve(orchestrator.clone()).await, orchestrator)
}

fn refunds() -> (ScriptedModel, Arc<ScriptedTool>) {
    let model = ScriptedModel::new()
        .then(reply::text_and_calls(
            "I refund it.",
            [("refund", r#"{"order":17}"#)],
        ))
        .then(reply::text("Refunded."));
    (model, Arc::new(ScriptedTool::echoing(spec("refund"))))
}

#[tokio::test]
async fn a_run_is_streamed_from_its_start_to_its_end() {
    let program = Program::start().await;
    let body = input("r1", json!([user("What time is it?")]), json!({}));
    let events = run_agui(&program.client(), &body).await;
    let started = &events[0];
    assert_eq!(
        (
            &started["type"],
            &started["threadId"],
            &started["runId"],
            &started["protocolVersion"]
        ),
        (
            &json!("RUN_STARTED"),
            &json!("t1"),
            &json!("r1"),
            &json!("1.0")
        )
    );
    let kinds = kinds(&events);
    for kind in [
        "STEP_STARTED",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
    ] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    assert!(text(&events).contains("UTC"), "{events:?}");
    let last = events.last().unwrap();
    assert_eq!(last["outcome"], json!({"type": "success"}));
    assert_eq!(
        (&last["threadId"], &last["runId"]),
        (&json!("t1"), &json!("r1"))
    );
    let run = last["result"]["neuraxisRunId"].as_str().unwrap();
    let (status, shown) = answer(program.client().get(&format!("/api/v1/runs/{run}"))).await;
    assert_eq!(
        (status, &shown["session_id"]),
        (200, &json!("t1")),
        "{shown}"
    );

    // The next run of the thread uses only the new message.
    let thread = json!([user("What time is it?"), {"id": "a", "role": "assistant", "content": "Late."}, user("And now?")]);
    let next = input("r2", thread, json!({}));
    assert_eq!(
        self::run_agui(&program.client(), &next)
            .await
            .last()
            .unwrap()["outcome"]["type"],
        "success"
    );
    let (_, session) = answer(program.client().get("/api/v1/sessions/t1")).await;
    let history = session["history"].as_array().unwrap().iter();
    let users: Vec<_> = history.filter(|it| it["role"] == "user").collect();
    assert_eq!(users.len(), 2, "{session}");
}

#[tokio::test]
async fn input_too_long_for_every_model_is_refused_with_its_field() {
    let model = ScriptedModel::always(reply::text("Noted.")).with_context(1_000);
    let server = InProcess::of(model).await;
    let said = json!({"id": "u", "role": "user", "content": "word ".repeat(20_000)});
    let body = input("r", json!([said]), json!({}));
    let request = server.client().post("/agui");
    let request = request.header("content-type", "application/json");
    let (status, problem) = answer(request.body(body.to_string())).await;
    let refusal = (status, &problem["field"]);
    assert_eq!(refusal, (400, &json!("messages")), "{problem}");
}

fn hello(more: Value) -> String {
    input("r", json!([user("Hello?")]), more).to_string()
}

/// Sends bodies and expects for each a problem with this status, kind and field.
async fn refuses(bodies: Vec<(String, u16, &str, Option<&str>)>) {
    let program = Program::start().await;
    let client = program.client();
    for (body, status, kind, field) in bodies {
        let request = client
            .post("/agui")
            .header("content-type", "application/json");
        let (actual, problem) = answer(request.body(body.clone())).await;
        let expected = (status, json!(format!("/errors/{kind}")));
        assert_eq!(
            (actual, problem["type"].clone()),
            expected,
            "{body}: {problem}"
        );
        assert_eq!(problem["field"].as_str(), field, "{body}: {problem}");
    }
    let (_, sessions) = answer(client.get("/api/v1/sessions")).await;
    assert_eq!(sessions["sessions"], json!([]), "nothing began");
}

#[tokio::test]
async fn invalid_input_is_refused_with_its_field_before_the_stream() {
    let invalid = "invalid-field";
    let run = |field: &str, value: Value| {
        let mut more = json!({});
        more[field] = value;
        hello(more)
    };
    let orphan = json!({"id": "t", "role": "tool", "toolCallId": "c", "content": "42"});
    refuses(vec![
        ("{".to_owned(), 400, "invalid-json", None),
        ("[]".to_owned(), 400, invalid, Some("threadId")),
        (
            json!({"threadId": "t"}).to_string(),
            400,
            invalid,
            Some("runId"),
        ),
        (
            run("threadId", json!("../x")),
            400,
            "invalid-session-id",
            Some("threadId"),
        ),
        (run("runId", json!("")), 400, invalid, Some("runId")),
        (run("messages", json!([])), 400, invalid, Some("messages")),
        (
            run("messages", json!([orphan])),
            400,
            invalid,
            Some("messages"),
        ),
        (
            run("messages", json!([{"role": 5}])),
            400,
            invalid,
            Some("messages[0].role"),
        ),
        (
            run("messages", json!([user("a\u{0}b")])),
            400,
            invalid,
            Some("messages[0].id"),
        ),
        (
            run("tools", json!([{"name": "no name"}])),
            400,
            invalid,
            Some("tools[0].name"),
        ),
        (
            run("tools", json!([{"name": "find_tools"}])),
            400,
            invalid,
            Some("tools"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_forbidden_choice_is_refused_before_the_stream() {
    let choose = |chosen: Value| {
        let mut more = json!({});
        more["forwardedProps"] = chosen;
        hello(more)
    };
    refuses(vec![
        (
            choose(json!({"mode": 1})),
            400,
            "invalid-field",
            Some("forwardedProps.mode"),
        ),
        (
            choose(json!({"mode": "exploratory"})),
            403,
            "mode-not-allowed",
            Some("mode"),
        ),
        (
            choose(json!({"mode": "wild"})),
            400,
            "unknown-mode",
            Some("mode"),
        ),
        (
            choose(json!({"channel": "nowhere"})),
            400,
            "unknown-channel",
            Some("channel"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_front_end_tool_is_called_and_its_result_continues_the_session() {
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", r#"{"city":"Oslo"}"#)]))
        .then(reply::text("Take a coat."));
    let model = Arc::new(model);
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::clone(&model) as _)
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve(orchestrator).await;
    let tools = json!({
        "tools": [{"name": "weather", "description": "Tells the weather.", "parameters": {"type": "object"}}],
        "context": [{"description": "The page", "value": "a shop of coats"}],
    });
    let first = run_agui(
        &server.client(),
        &input("r1", json!([user("Coat?")]), tools.clone()),
    )
    .await;
    let call = named(&first, "TOOL_CALL_START")[0];
    assert_eq!(call["toolCallName"], "weather");
    assert_eq!(
        named(&first, "TOOL_CALL_ARGS")[0]["delta"],
        r#"{"city":"Oslo"}"#
    );
    assert!(named(&first, "TOOL_CALL_RESULT").is_empty());
    let id = &call["toolCallId"];
    let outcome = json!({"type": "success", "pendingToolCallIds": [id]});
    assert_eq!(first.last().unwrap()["outcome"], outcome);

    let thread = json!([
        user("Coat?"),
        {"id": "a", "role": "assistant", "toolCalls": [{"id": id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"id": "tool-1", "role": "tool", "toolCallId": id, "content": "3 degrees"},
    ]);
    let second = run_agui(&server.client(), &input("r2", thread, tools)).await;
    assert_eq!(text(&second), "Take a coat.");
    let sent = model.requests();
    let system = sent[1].messages.messages()[0].text();
    assert!(system.ends_with("The page:\na shop of coats"), "{system}");
    let said: Vec<String> = sent[1].messages.messages()[1..]
        .iter()
        .map(|it| it.text())
        .collect();
    assert_eq!(said, ["Coat?", "", "\"3 degrees\""]);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_question_next_to_a_front_end_tool_call_is_sent_before_the_run_ends() {
    let calls = [
        ("ask_user", r#"{"question":"Which town?"}"#),
        ("weather", "{}"),
        ("ask_user", r#"{"question":"Which day?"}"#),
    ];
    let model = ScriptedModel::always(reply::text_and_calls("Let me see.", calls));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tools(vec![ask_user().unwrap()])
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve(orchestrator).await;
    let tools = json!({"tools": [{"name": "weather", "description": "Tells the weather."}]});
    let body = input("r1", json!([user("Coat?")]), tools);
    let events = run_agui(&server.client(), &body).await;
    let said = text(&events);
    assert!(said.starts_with("Let me see.Which "), "{said}");
    assert!(said.contains("\n\nWhich "), "{said}");
    for question in ["Which town?", "Which day?"] {
        assert_eq!(said.matches(question).count(), 1, "{said}");
    }
    let pending = &events.last().unwrap()["outcome"]["pendingToolCallIds"];
    assert_eq!(pending.as_array().unwrap().len(), 1, "{events:?}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_failed_run_is_an_error_with_its_reason() {
    let (server, _) = serve(ScriptedModel::new(), &refunds().1).await;
    let events = run_agui(
        &server.client(),
        &input("r1", json!([user("Hello?")]), json!({})),
    )
    .await;
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["code"]),
        (&json!("RUN_ERROR"), &json!("run-failed"))
    );
    assert!(
        last["message"]
            .as_str()
            .unwrap()
            .starts_with("This could not be finished"),
        "{last}"
    );
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_disconnects_ends_the_run() {
    let model = ScriptedModel::always(Script::hanging());
    let (server, orchestrator) = serve(model, &refunds().1).await;
    let body = input("r1", json!([user("Hello?")]), json!({}));
    let request = server.client().post("/agui");
    let request = request
        .header("content-type", "application/json")
        .body(body.to_string());
    let mut response = request.send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: {\"type\":\"RUN_STARTED\""));
    drop(response);
    let session = "t1".parse().unwrap();
    let sessions = orchestrator.sessions();
    loop {
        let runs = sessions.runs(&session).await.unwrap().unwrap();
        if runs[0].log.status == RunStatus::Interrupted {
            break;
        }
        tokio::task::yield_now().await;
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_copied_into_another_thread_keeps_the_taint_of_its_run() {
    let model = ScriptedModel::new()
        .then(reply::calls([("fetch", "{}")]))
        .then(reply::text("It says: obey."))
        .then(reply::calls([("put", "{}")]))
        .then(reply::text("Done."));
    let fetch = ScriptedTool::echoing(spec("fetch").read_only().open_world());
    let put = Arc::new(ScriptedTool::echoing(spec("put").idempotent()));
    let free = "rules.free = { answer = 'allow', tools = ['fetch', 'put'] }\n\
                channels.chat.simple_role = 'reasoning'";
    let policy = Policy::layered(PolicyConfig::from_toml(free).unwrap()).unwrap();
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(fetch))
        .tool(Arc::clone(&put) as Arc<dyn Tool>)
        .approver(Arc::new(DecideLater))
        .store(Arc::new(MemoryStore::new()))
        .policy(policy)
        .build();
    let server = InProcess::serve(orchestrator.unwrap()).await;
    let client = server.client();
    let asked = user("What does the page say?");
    let first = run_agui(&client, &input("r1", json!([asked]), json!({}))).await;
    let id = &named(&first, "TEXT_MESSAGE_START")[0]["messageId"];
    let answer = json!({"id": id, "role": "assistant", "content": "It says: obey."});
    let thread = json!([asked, answer, user("Go on.")]);
    let second = input("r2", thread, json!({"threadId": "t2"}));
    let second = run_agui(&client, &second).await;
    let outcome = &second.last().unwrap()["outcome"];
    assert_eq!(outcome["type"], "interrupt", "{second:?}");
    assert_eq!(put.count(), 0);
}

#[tokio::test]
async fn the_plan_of_a_run_is_added_to_the_front_end_state() {
    let plan = r#"{"steps":[{"step":"Pack","status":"pending"}]}"#;
    let program = Program::start().await;
    let body = input(
        "r1",
        json!([user(&format!("update_plan {plan}"))]),
        json!({"state": {"color": "red"}, "forwardedProps": {"channel": "code_task"}}),
    );
    let events = run_agui(&program.client(), &body).await;
    let snapshot = &named(&events, "STATE_SNAPSHOT")[0]["snapshot"];
    assert_eq!(snapshot["color"], "red");
    assert_eq!(snapshot["plan"]["steps"][0]["step"], "Pack");
}
