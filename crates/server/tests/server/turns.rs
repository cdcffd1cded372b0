//! Turns that succeed: as JSON, as events, and with the same result either way.

use std::fs;

use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::program::folder_with;
use crate::support::{Frame, Program};

#[tokio::test]
async fn the_probes_return_ok() {
    let program = Program::start().await;
    for path in ["/healthz", "/readyz"] {
        let (status, body) = answer(program.client().get(path)).await;
        assert_eq!((status, body), (200, json!({"status": "ok"})), "{path}");
    }
}

#[tokio::test]
async fn a_turn_as_json_returns_the_result_of_its_run() {
    let program = Program::start().await;
    let question = json!({"message": "What time is it?"});
    let response = program
        .client()
        .turn("my-session", &question)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let result: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(result["status"], "done");
    assert_eq!(result["finish_reason"], "stop");
    assert_eq!(result["session_id"], "my-session");
    assert!(
        result["reply"].as_str().unwrap().contains("UTC"),
        "{result}"
    );
    let steps = result["steps"].as_array().unwrap().iter();
    let steps: Vec<_> = steps.map(|step| step["type"].as_str().unwrap()).collect();
    assert_eq!(steps, ["llm_call", "tool_call", "llm_call"]);
}

#[tokio::test]
async fn a_turn_as_events_returns_every_record_in_order_with_its_number_as_id() {
    let program = Program::start().await;
    let question = json!({"message": "What time is it?"});
    let frames = program.client().listen("s", &question).await.rest().await;

    let records: Vec<&Frame> = frames.iter().filter(|frame| frame.id.is_some()).collect();
    let ids: Vec<u64> = records.iter().filter_map(|frame| frame.id).collect();
    assert_eq!(ids, (1..=records.len() as u64).collect::<Vec<_>>());
    for frame in &records {
        assert_eq!(frame.data["seq"], frame.id.unwrap());
    }
    assert_eq!(records.first().unwrap().event, "run_started");
    assert_eq!(records.last().unwrap().event, "final");
    assert_eq!(
        frames.last().unwrap().event,
        "final",
        "nothing comes after the end"
    );

    let mut last = 0;
    for frame in &frames {
        assert_eq!(frame.data["type"], frame.event);
        match frame.id {
            Some(id) => last = id,
            None => assert_eq!(frame.data["after"], last, "{frame:?}"),
        }
    }
}

#[tokio::test]
async fn the_streamed_text_is_the_answer() {
    let program = Program::start().await;
    let question = json!({"message": "What can you do?"});
    let frames = program.client().listen("s", &question).await.rest().await;
    let deltas = frames.iter().filter(|frame| frame.event == "text_delta");
    let deltas: Vec<_> = deltas
        .map(|frame| frame.data["text"].as_str().unwrap())
        .collect();
    assert!(deltas.len() > 1 || !deltas.concat().is_empty());
    assert_eq!(deltas.concat(), frames.last().unwrap().data["content"]);
}

#[tokio::test]
async fn the_same_question_has_the_same_answer_as_json_and_as_events() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("recipe.txt"), "two eggs\n").unwrap();
    let program = Program::start_in(folder, |_| {}).await;
    let question =
        json!({"message": "read_file {\"path\": \"recipe.txt\"}", "channel": "code_task"});
    let (status, result) = program.client().ask("one", &question).await;
    let frames = program
        .client()
        .listen("other", &question)
        .await
        .rest()
        .await;
    assert_eq!(status, 200);
    assert!(
        result["reply"].as_str().unwrap().contains("two eggs"),
        "{result}"
    );
    let end = &frames.last().unwrap().data;
    assert_eq!(end["content"], result["reply"]);
    assert_eq!(end["turns"], result["turns"]);
    assert_eq!(end["finish_reason"], result["finish_reason"]);
}

#[tokio::test]
async fn mode_and_channel_come_from_the_request_or_the_defaults() {
    let program = Program::start().await;
    for (session, body, mode, channel) in [
        ("a", json!({"message": "hello"}), "moderate", "chat"),
        (
            "b",
            json!({"message": "hello", "mode": null, "channel": null}),
            "moderate",
            "chat",
        ),
        (
            "c",
            json!({"message": "hello", "mode": "conservative", "channel": "code_task"}),
            "conservative",
            "code_task",
        ),
    ] {
        let mut frames = program.client().listen(session, &body).await;
        let decision = frames.next_named("decision").await.data;
        assert_eq!(
            (&decision["mode"], &decision["channel"]),
            (&json!(mode), &json!(channel))
        );
    }
}

#[tokio::test]
async fn the_next_turn_of_a_session_includes_its_history() {
    let program = Program::start().await;
    let question = json!({"message": "What can you do?"});
    program.client().ask("s", &question).await;
    let mut frames = program.client().listen("s", &question).await;
    let started = frames.next_named("run_started").await.data;
    assert_eq!(started["history"]["count"], 2, "a question and its answer");
}

#[tokio::test]
async fn conversation_content_is_not_logged_even_at_trace_level() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start_in(folder, |command| {
        command.env("NEURAXIS_LOG", "trace");
    });
    let program = program.await;
    let message = json!({"message": "canary-7d1f What time is it?"});
    program.client().ask("s", &message).await;
    program
        .client()
        .ask("s", &json!({"message": "x", "canary-7d1f": 1}))
        .await;
    let request = program.client().turn("canary-7d1f", &message);
    request
        .header("authorization", "Bearer canary-7d1f")
        .send()
        .await
        .unwrap();
    let log = program.log();
    assert!(
        log.contains("/api/v1/sessions/{id}/turns"),
        "requests are logged: {log}"
    );
    assert!(!log.contains("canary-7d1f"), "{log}");
}

#[tokio::test]
async fn the_plan_of_the_server_limits_every_request_as_json_or_events() {
    let plan = "[server]\nplan = \"team\"\n[plans.team.session]\nmax_tool_calls = 2\n";
    let program = Program::start_in(folder_with(plan), |_| {}).await;
    let question = json!({"message": "What time is it?"});
    let (_, first) = program.client().ask("s", &question).await;
    assert_eq!(first["finish_reason"], "stop", "{first}");
    let (_, second) = program.client().ask("s", &question).await;
    assert_eq!(second["finish_reason"]["budget"], "tool_calls", "{second}");
    let frames = program.client().listen("s", &question).await.rest().await;
    let last = &frames.last().unwrap().data;
    assert_eq!(last["finish_reason"]["budget"], "tool_calls", "{last}");
    // Another session has a separate one.
    let (_, other) = program.client().ask("t", &question).await;
    assert_eq!(other["finish_reason"], "stop", "{other}");
}
