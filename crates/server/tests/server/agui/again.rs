//! Runs without an answer, for which a front end asks again.

use std::sync::Arc;

use neuraxis::core::{LlmError, LlmErrorKind};
use neuraxis::memory::MemoryStore;
use neuraxis::{Orchestrator, Role, RunStatus};
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use super::interrupts::resume;
use super::{input, kinds, named, run_agui, run_agui_with, serve, text, user};
use crate::support::client::answer;
use crate::support::in_process::{InProcess, TOKEN};

/// A server whose model calls the front end's tool, and the body that carries the result.
async fn with_result(model: &Arc<ScriptedModel>) -> (InProcess, Orchestrator, Value) {
    model.push(reply::calls([("weather", "{}")]));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::clone(model) as _)
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve(orchestrator.clone()).await;
    let tools = json!({"tools": [{"name": "weather", "description": "Tells the weather."}]});
    let first = input("r1", json!([user("Coat?")]), tools.clone());
    let first = run_agui(&server.client(), &first).await;
    let id = &named(&first, "TOOL_CALL_START")[0]["toolCallId"];
    let thread = json!([
        user("Coat?"),
        {"id": "a", "role": "assistant", "toolCalls": [{"id": id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"id": "t", "role": "tool", "toolCallId": id, "content": "3 degrees"},
    ]);
    (server, orchestrator, input("r2", thread, tools))
}

/// Sends the body again, and checks that it is answered from what the session holds, and only once.
async fn assert_answered(server: &InProcess, model: &ScriptedModel, body: &Value) {
    model.push(reply::text("Take a coat."));
    let again = run_agui(&server.client(), body).await;
    assert_eq!(text(&again), "Take a coat.");
    assert_eq!(*kinds(&again).last().unwrap(), "RUN_FINISHED");
    let requests = model.requests();
    let messages = requests.last().unwrap().messages.messages();
    let said: Vec<_> = messages[1..].iter().map(|it| it.text()).collect();
    assert_eq!(said, ["Coat?", "", "\"3 degrees\""]);

    let request = server.client().post("/agui");
    let request = request.header("content-type", "application/json");
    let (status, problem) = answer(request.body(body.to_string())).await;
    let refusal = (status, &problem["field"]);
    assert_eq!(refusal, (400, &json!("messages")), "{problem}");
}

#[tokio::test]
async fn a_result_can_be_sent_again_after_a_model_failure() {
    let model = Arc::new(ScriptedModel::new());
    let (server, _, body) = with_result(&model).await;
    for _ in 0..2 {
        model.push(LlmError::new(LlmErrorKind::Unauthorized, "wrong key"));
        let failed = run_agui(&server.client(), &body).await;
        assert_eq!(*kinds(&failed).last().unwrap(), "RUN_ERROR");
    }
    assert_answered(&server, &model, &body).await;
}

#[tokio::test]
async fn a_result_can_be_sent_again_after_a_broken_connection() {
    let model = Arc::new(ScriptedModel::new());
    let (server, orchestrator, body) = with_result(&model).await;
    model.push(Script::hanging());
    let request = server.client().post("/agui");
    let request = request.header("content-type", "application/json");
    let mut response = request.body(body.to_string()).send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    drop(response);
    let session = "t1".parse().unwrap();
    let sessions = orchestrator.sessions();
    loop {
        let runs = sessions.runs(&session).await.unwrap().unwrap();
        if runs[1].status == RunStatus::Interrupted {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_answered(&server, &model, &body).await;
}

#[tokio::test]
async fn a_decision_with_a_result_can_be_sent_again_after_a_failure_and_after_success() {
    let calls = [("pick", "{}"), ("refund", r#"{"order":17}"#)];
    let model = ScriptedModel::new()
        .then(reply::calls(calls))
        .then(LlmError::new(LlmErrorKind::Unauthorized, "wrong key"))
        .then(reply::text("Done."));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, orchestrator) = serve(model, &tool).await;
    let client = server.client();
    let tools =
        json!([{"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}]);
    let asks = json!([user("Refund order 17.")]);
    let first = run_agui(&client, &input("r1", asks, json!({"tools": tools}))).await;
    let starts = named(&first, "TOOL_CALL_START");
    let ids: Vec<&Value> = starts.iter().map(|it| &it["toolCallId"]).collect();
    let called = ids.iter().zip(calls).map(|(id, (name, arguments))| {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    let thread = json!([
        user("Refund order 17."),
        {"id": "a", "role": "assistant", "toolCalls": called.collect::<Vec<_>>()},
        {"id": "t", "role": "tool", "toolCallId": ids[0], "content": "red"},
    ]);
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0]["id"];
    let approved = json!({"approved": true});
    let answers = json!([{"interruptId": interrupt, "status": "resolved", "payload": approved}]);
    let approve = input("r2", thread, json!({"tools": tools, "resume": answers}));
    let send = async || run_agui_with(&client, &approve, Some(TOKEN)).await;

    let gone_on = send().await;
    let pending = &gone_on.last().unwrap()["outcome"]["pendingToolCallIds"];
    assert_eq!(*pending, json!([ids[0]]), "{gone_on:?}");
    let failed = send().await;
    assert_eq!(*kinds(&failed).last().unwrap(), "RUN_ERROR");
    let mut answered = Vec::new();
    for _ in 0..2 {
        let again = send().await;
        assert_eq!(text(&again), "Done.", "{again:?}");
        assert_eq!(*kinds(&again).last().unwrap(), "RUN_FINISHED");
        answered.push(again[0]["metadata"]["neuraxisRunId"].clone());
    }
    assert_eq!(answered[0], answered[1]);
    let runs = orchestrator.sessions().runs(&"t1".parse().unwrap()).await;
    assert_eq!(runs.unwrap().unwrap().len(), 3);
    assert_eq!(tool.count(), 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_continues_until_its_last_follower_disconnects() {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(Script::hanging());
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, orchestrator) = serve(model, &tool).await;
    let client = server.client();
    let asks = input("r1", json!([user("Refund order 17.")]), json!({}));
    let first = run_agui(&client, &asks).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    let approve = resume("r2", interrupt, json!({"approved": true})).to_string();
    let follow = async || {
        let request = client
            .post("/agui")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {TOKEN}"));
        let mut response = request.body(approve.clone()).send().await.unwrap();
        let chunk = response.chunk().await.unwrap().unwrap();
        assert!(chunk.starts_with(b"data: {\"type\":\"RUN_STARTED\""));
        response
    };
    let (stale, live) = (follow().await, follow().await);
    let session = "t1".parse().unwrap();
    let status = async || {
        let runs = orchestrator.sessions().runs(&session).await;
        runs.unwrap().unwrap()[0].log.status
    };
    drop(stale);
    loop {
        let figures = client.get("/metrics").send().await.unwrap();
        let figures = figures.text().await.unwrap();
        if figures.contains("neuraxis_streams_open 1\n") {
            break;
        }
    }
    for _ in 0..100 {
        assert_ne!(status().await, RunStatus::Interrupted);
        tokio::task::yield_now().await;
    }
    drop(live);
    while status().await != RunStatus::Interrupted {
        tokio::task::yield_now().await;
    }
    server.stop().await.unwrap();
}
