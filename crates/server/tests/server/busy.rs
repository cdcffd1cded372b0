//! Busy sessions, and clients that do not wait.

use serde_json::json;

use crate::support::Program;
use crate::support::client::answer;
use crate::support::gate::{Gate, gated_program, waiting_turn};

/// The messages of a run through the gate: the question, the call, its result, the answer.
const MESSAGES_OF_A_WHOLE_RUN: u64 = 4;

#[tokio::test]
async fn a_second_turn_of_a_busy_session_is_a_conflict_naming_the_run() {
    let (program, mut gate) = gated_program().await;
    let client = program.client();
    let mut frames = client.listen("s", &waiting_turn()).await;
    let run = frames.next().await.unwrap().data["run_id"].clone();
    gate.reached().await;

    let (status, problem) = client.ask("s", &json!({"message": "and now?"})).await;
    assert_eq!(status, 409);
    assert_eq!(problem["type"], "/errors/session-busy");
    assert_eq!(
        (&problem["session_id"], &problem["run_id"]),
        (&json!("s"), &run)
    );
    let (status, problem) = answer(client.delete("/api/v1/sessions/s")).await;
    assert_eq!((status, &problem["run_id"]), (409, &run));
    let detail = problem["detail"].as_str().unwrap();
    let advice = "; delete it once the run has ended, or cancel the run first";
    assert!(detail.ends_with(advice), "{detail}");
    let (status, _) = client.ask("another", &json!({"message": "and now?"})).await;
    assert_eq!(status, 200, "other sessions are not busy");

    gate.open().await;
    assert_eq!(frames.rest().await.last().unwrap().event, "final");
    let (status, _) = client.ask("s", &json!({"message": "and now?"})).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_client_that_leaves_during_the_events_leaves_its_run_running() {
    let (program, mut gate) = gated_program().await;
    let frames = program.client().listen("s", &waiting_turn()).await;
    gate.reached().await;
    drop(frames);
    assert_goes_on_to_its_end(&program, gate).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_its_json_arrives_leaves_its_run_running() {
    let (program, mut gate) = gated_program().await;
    let client = program.client();
    let asking = tokio::spawn(async move { client.ask("s", &waiting_turn()).await });
    gate.reached().await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert_goes_on_to_its_end(&program, gate).await;
}

/// Checks that the run of session `s` still waits at the gate, and that it ends normally once the gate is open,
/// although no client listens.
async fn assert_goes_on_to_its_end(program: &Program, mut gate: Gate) {
    let client = program.client();
    let next = json!({"message": "What can you do?"});
    let (status, _) = client.ask("s", &next).await;
    assert_eq!(status, 409, "the run is still at work");
    gate.open().await;
    let started = loop {
        let request = client
            .turn("s", &next)
            .header("accept", "text/event-stream");
        let response = request.send().await.unwrap();
        if response.status() == 200 {
            break response.text().await.unwrap();
        }
        assert_eq!(response.status(), 409);
    };
    let expected = format!("\"history\":{{\"count\":{MESSAGES_OF_A_WHOLE_RUN},");
    assert!(started.contains(&expected), "{started}");
}
