//! The trace that a client's request belongs to, on each route that starts a turn.

use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::{Client, Program};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn post(client: &Client, path: &str, body: &Value) {
    let request = client
        .post(path)
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"))
        .body(body.to_string());
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    assert!(status.is_success(), "{path}: {status}: {text}");
}

#[tokio::test]
async fn every_route_that_starts_a_turn_joins_the_trace_of_its_client() {
    let program = Program::start().await;
    let client = program.client();
    let said = "What time is it?";
    let message = json!([{"role": "user", "content": said}]);
    let front_end = json!({
        "threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "u1", "role": "user", "content": said}],
    });
    let routes = [
        ("/api/v1/sessions/own/turns", json!({"message": said})),
        (
            "/v1/chat/completions",
            json!({"model": "neuraxis", "messages": message}),
        ),
        ("/v1/responses", json!({"model": "neuraxis", "input": said})),
        ("/agui", front_end),
    ];
    for (path, body) in &routes {
        post(&client, path, body).await;
    }
    let (_, page) = answer(client.get("/api/v1/runs")).await;
    let runs = page["runs"].as_array().unwrap();
    assert_eq!(runs.len(), routes.len(), "{page}");
    let first = runs[0]["run_id"].as_str().unwrap();
    // A fork is a turn too.
    let fork = format!("/api/v1/runs/{first}/fork");
    post(&client, &fork, &json!({"message": "And tomorrow?"})).await;
    let (_, page) = answer(client.get("/api/v1/runs")).await;
    for run in page["runs"].as_array().unwrap() {
        let path = format!("/api/v1/runs/{}/events", run["run_id"].as_str().unwrap());
        let frames = client.events(client.get(&path)).await.rest().await;
        let trace = &frames[0].data["spec"]["trace"]["traceparent"];
        assert!(trace.as_str().unwrap().contains(TRACE), "{trace}");
    }
}
