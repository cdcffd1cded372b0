//! A client's own tools on the server's own API: a turn waits with a call of one, and resumes with its result.

use neuraxis_testkit::{ScriptedModel, reply};
use serde_json::{Value, json};

use crate::support::client::{Frame, answer};
use crate::support::in_process::InProcess;
use crate::support::{Client, Program};

fn weather() -> Value {
    json!({
        "name": "weather",
        "description": "Tells the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    })
}

/// A turn in which the offline model calls the client's tool.
fn turn() -> Value {
    json!({"message": r#"weather {"city": "Oslo"}"#, "tools": [weather()]})
}

/// A call that waits for its result.
struct Handed {
    run: String,
    /// The address for the result.
    path: String,
}

async fn handed(client: &Client, session: &str, body: &Value) -> Handed {
    let (status, result) = client.ask(session, body).await;
    assert_eq!(
        (status, &result["status"]),
        (200, &json!("waiting")),
        "{result}"
    );
    let pending = &result["pending"][0];
    assert_eq!(
        (&pending["kind"], &pending["name"], &pending["arguments"]),
        (
            &json!("client_tool"),
            &json!("weather"),
            &json!(r#"{"city": "Oslo"}"#)
        ),
        "{result}"
    );
    assert_eq!(pending.get("question"), None, "nobody decides about it");
    let run = result["run_id"].as_str().unwrap().to_owned();
    let call = pending["tool_call_id"].as_str().unwrap();
    Handed {
        path: format!("/api/v1/runs/{run}/tools/{call}"),
        run,
    }
}

async fn bring(client: &Client, path: &str, body: Value) -> (u16, Value) {
    let request = client.post(path).header("content-type", "application/json");
    answer(request.body(body.to_string())).await
}

/// Follows a run to its end.
async fn rest(client: &Client, run: &str) -> Vec<Frame> {
    let path = format!("/api/v1/runs/{run}/events");
    client.events(client.get(&path)).await.rest().await
}

fn result_of(frames: &[Frame]) -> &Value {
    let result = frames.iter().find(|frame| frame.event == "tool_result");
    &result.unwrap().data
}

#[tokio::test]
async fn a_turn_waits_for_a_client_tool_and_continues_once_with_its_result() {
    let program = Program::start().await;
    let client = program.client();
    let call = handed(&client, "s", &turn()).await;
    let (status, kept) = bring(&client, &call.path, json!({"result": {"celsius": 3}})).await;
    assert_eq!((status, &kept["run_id"]), (202, &json!(call.run)));
    let frames = rest(&client, &call.run).await;
    assert_eq!(result_of(&frames)["value"], json!({"celsius": 3}));
    let by = result_of(&frames).get("by");
    assert_eq!(by, None, "without keys, nobody is known");
    assert_eq!(frames.last().unwrap().event, "final");
    let again = bring(&client, &call.path, json!({"result": {"celsius": 3}})).await;
    assert_eq!(again, (202, kept), "its answer may have been lost");
    let (status, problem) = bring(&client, &call.path, json!({"result": 4})).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/run-ended")),
        "a second result is none"
    );
    let (_, session) = answer(client.get("/api/v1/sessions/s")).await;
    let said = session["history"].to_string();
    assert!(said.contains("celsius") && !said.contains(": 4"), "{said}");
}

#[tokio::test]
async fn the_error_of_a_client_tool_becomes_the_result_of_its_call() {
    let program = Program::start().await;
    let client = program.client();
    let call = handed(&client, "s", &turn()).await;
    let (status, _) = bring(&client, &call.path, json!({"error": "no such city"})).await;
    assert_eq!(status, 202);
    let frames = rest(&client, &call.run).await;
    let result = result_of(&frames);
    assert_eq!(result["failure"], "error", "{result}");
    assert!(result.to_string().contains("no such city"), "{result}");
}

#[tokio::test]
async fn a_result_for_a_call_that_is_not_waiting_is_refused_and_the_others_still_wait() {
    let model = ScriptedModel::new()
        .then(reply::calls([
            ("weather", r#"{"city": "Oslo"}"#),
            ("weather", r#"{"city": "Rome"}"#),
        ]))
        .then(reply::text("Take a coat to Oslo."));
    let server = InProcess::of(model).await;
    let client = server.client();
    let body = json!({"message": "Coat?", "tools": [weather()]});
    let (_, result) = client.ask("s", &body).await;
    let calls: Vec<&str> = result["pending"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["tool_call_id"].as_str().unwrap())
        .collect();
    assert_eq!(calls.len(), 2, "{result}");
    let run = result["run_id"].as_str().unwrap();
    let path = |call: &str| format!("/api/v1/runs/{run}/tools/{call}");
    let not_waiting = (409, json!("/errors/not-waiting"));
    let (status, problem) = bring(&client, &path("call_of_nobody"), json!({"result": 1})).await;
    assert_eq!((status, problem["type"].clone()), not_waiting);

    let events = format!("/api/v1/runs/{run}/events");
    let mut frames = client.events(client.get(&events)).await;
    let (status, _) = bring(&client, &path(calls[0]), json!({"result": "3 degrees"})).await;
    assert_eq!(status, 202);
    frames.next_named("tool_result").await;
    let (status, problem) = bring(&client, &path(calls[0]), json!({"result": "9 degrees"})).await;
    assert_eq!((status, problem["type"].clone()), not_waiting);
    let (status, _) = bring(&client, &path(calls[0]), json!({"result": "3 degrees"})).await;
    assert_eq!(status, 202, "nothing differs from the first");
    let (status, _) = bring(&client, &path(calls[1]), json!({"result": "20 degrees"})).await;
    assert_eq!(status, 202);
    let last = frames.rest().await.pop().unwrap();
    assert_eq!(last.data["content"], "Take a coat to Oslo.");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_result_after_the_run_was_cancelled_is_refused() {
    let program = Program::start().await;
    let client = program.client();
    let call = handed(&client, "s", &turn()).await;
    let cancel = client.post(&format!("/api/v1/runs/{}/cancel", call.run));
    assert_eq!(answer(cancel).await.0, 202);
    let last = rest(&client, &call.run).await.pop().unwrap();
    assert_eq!(last.data["finish_reason"], "cancelled");
    let (status, problem) = bring(&client, &call.path, json!({"result": 1})).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/run-ended"))
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_client_tool_call_waits_through_a_restart_and_a_repeated_request_finds_it() {
    let program = Program::start().await;
    let client = program.client();
    let keyed = |client: &Client| client.turn("s", &turn()).header("idempotency-key", "k");
    let (status, first) = answer(keyed(&client)).await;
    assert_eq!((status, &first["status"]), (200, &json!("waiting")));
    let program = Program::start_in(program.stopped().await, |_| {}).await;
    let client = program.client();
    let (status, again) = answer(keyed(&client)).await;
    assert_eq!((status, &again["pending"]), (200, &first["pending"]));
    let mut other = turn();
    other["tools"][0]["description"] = json!("Tells something else.");
    let other = client.turn("s", &other).header("idempotency-key", "k");
    assert_eq!(answer(other).await.0, 422, "its tools are of the request");

    let run = first["run_id"].as_str().unwrap();
    let call = first["pending"][0]["tool_call_id"].as_str().unwrap();
    let path = format!("/api/v1/runs/{run}/tools/{call}");
    assert_eq!(bring(&client, &path, json!({"result": 3})).await.0, 202);
    assert_eq!(rest(&client, run).await.last().unwrap().event, "final");
}

#[tokio::test]
async fn invalid_client_tools_are_refused_with_their_field() {
    let program = Program::start().await;
    let client = program.client();
    let many: Vec<Value> = (0..129)
        .map(|at| json!({"name": format!("t{at}")}))
        .collect();
    for tools in [
        json!(many),
        json!([weather(), weather()]),
        json!([{"name": "no spaces"}]),
        json!([{"name": "find_tools"}]),
        json!([{"description": "It has no name."}]),
        json!([{"name": "t", "parameters": []}]),
        json!([{"name": "t", "parameters": {"type": 7}}]),
        json!([{"name": "t", "description": "\0"}]),
        json!([{"name": "t", "parameters": {"title": "\0"}}]),
        json!([{"name": "t", "color": "red"}]),
        json!({"name": "t"}),
    ] {
        let body = json!({"message": "hello", "tools": tools});
        let (status, problem) = client.ask("s", &body).await;
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("/errors/invalid-field")),
            "{problem}"
        );
        let field = problem["field"].as_str().unwrap();
        assert!(field.starts_with("tools"), "{problem}");
    }
    let (_, runs) = answer(client.get("/api/v1/runs")).await;
    assert_eq!(runs["runs"], json!([]), "none of them began");
}
