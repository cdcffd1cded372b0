//! Sessions that fork from a run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::program::make_keys_of_ada;
use crate::support::{Client, Program};

async fn fork(client: &Client, run: &str, body: Value) -> (u16, Value) {
    let request = client.post(&format!("/api/v1/runs/{run}/fork"));
    let request = request.header("content-type", "application/json");
    answer(request.body(body.to_string())).await
}

#[tokio::test]
async fn a_fork_starts_a_session_with_the_conversation_and_leaves_the_old_one_unchanged() {
    let program = Program::start().await;
    let client = program.client();
    let (_, first) = client
        .ask("s", &json!({"message": "What time is it?"}))
        .await;
    let run = first["run_id"].as_str().unwrap();
    let (status, forked) = fork(&client, run, json!({"message": "calculate 6 * 7"})).await;
    assert_eq!(status, 202, "{forked}");
    let session = forked["session_id"].as_str().unwrap();
    let events = format!("/api/v1/runs/{}/events", forked["run_id"].as_str().unwrap());
    let frames = client.events(client.get(&events)).await.rest().await;
    assert_eq!(frames.last().unwrap().event, "final");
    let (_, shown) = answer(client.get(&format!("/api/v1/sessions/{session}"))).await;
    let history = shown["history"].to_string();
    for said in ["What time is it?", "calculate 6 * 7"] {
        assert!(history.contains(said), "{history}");
    }
    let (_, old) = answer(client.get("/api/v1/sessions/s")).await;
    assert_eq!(old["runs"].as_array().unwrap().len(), 1);
    assert!(!old["history"].to_string().contains("6 * 7"));

    for (body, status, kind) in [
        (json!({}), 400, "invalid-field"),
        (
            json!({"message": "x", "session": "s"}),
            409,
            "session-exists",
        ),
        (
            json!({"message": "x", "mode": "exploratory"}),
            403,
            "mode-not-allowed",
        ),
        (json!({"mesage": "x"}), 400, "unknown-field"),
        (json!({"message": "a\u{0}b"}), 400, "invalid-field"),
        (json!({"message": "x", "turn": 99}), 400, "invalid-field"),
        (
            json!({"message": "x", "turn": 4_294_967_297_u64}),
            400,
            "invalid-field",
        ),
    ] {
        let (got, problem) = fork(&client, run, body).await;
        assert_eq!(
            (got, &problem["type"]),
            (status, &json!(format!("/errors/{kind}"))),
            "{problem}"
        );
    }
    for nobody in ["01955f00-7a00-7000-8000-000000000001", "nobody"] {
        let (status, problem) = fork(&client, nobody, json!({"message": "x"})).await;
        assert_eq!(
            (status, &problem["type"]),
            (404, &json!("/errors/no-such-run"))
        );
    }
}

#[tokio::test]
async fn a_fork_accepts_files_with_its_message_like_a_turn() {
    let program = Program::start().await;
    let client = program.client();
    let (_, first) = client
        .ask("s", &json!({"message": "What time is it?"}))
        .await;
    let run = first["run_id"].as_str().unwrap();
    let file = |name: &str, content: &[u8]| json!({"name": name, "data": STANDARD.encode(content)});
    // More than the limit of a body without files.
    let long = vec![b'a'; 1024 * 1024];
    let files = json!([file("list.txt", b"Milk."), file("long.txt", &long)]);
    let body = json!({"message": "What is to be bought?", "attachments": files});
    let (status, forked) = fork(&client, run, body).await;
    assert_eq!(status, 202, "{forked}");
    let events = format!("/api/v1/runs/{}/events", forked["run_id"].as_str().unwrap());
    client.events(client.get(&events)).await.rest().await;
    let session = forked["session_id"].as_str().unwrap();
    let (_, shown) = answer(client.get(&format!("/api/v1/sessions/{session}"))).await;
    let history = shown["history"].to_string();
    assert!(history.contains("What is to be bought?"));
    assert!(history.contains("[file list.txt]") && history.contains("Milk."));
    let alone = json!({"attachments": [file("list.txt", b"Milk.")]});
    let (status, forked) = fork(&client, run, alone).await;
    assert_eq!(status, 202, "{forked}");
    let keyed = client.post(&format!("/api/v1/runs/{run}/fork"));
    let (status, problem) = answer(keyed.header("idempotency-key", "k1")).await;
    assert_eq!(
        (status, &problem["type"]),
        (400, &json!("/errors/invalid-idempotency-key"))
    );

    for (body, expected) in [
        (
            json!({"message": "Look", "attachments": [{"name": "a", "data": "not base64!"}]}),
            "attachment 1 cannot be sent: its content is not base64",
        ),
        (
            json!({"message": "Look", "attachments": [{"name": "a"}]}),
            "attachments[0]: missing field `data`",
        ),
    ] {
        let (status, problem) = fork(&client, run, body).await;
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("/errors/invalid-field")),
            "{detail}"
        );
        assert!(detail.contains(expected), "{detail}");
    }
}

#[tokio::test]
async fn a_fork_is_limited_to_what_its_key_allows_for_a_turn() {
    let folder = tempfile::tempdir().unwrap();
    let narrower: [&[&str]; 4] = [
        &[],
        &["--max-mode", "conservative"],
        &["--channels", "system_health"],
        &["--agents", "researcher"],
    ];
    let keys = make_keys_of_ada(folder.path(), &narrower).await;
    let program = Program::start_in(folder, |_| {}).await;
    let ada = Client::with_key(program.url(), &keys[0]);
    let (_, first) = ada.ask("s", &json!({"message": "What time is it?"})).await;
    let run = first["run_id"].as_str().unwrap();
    for (key, mode, kind) in [
        (&keys[1], "moderate", "mode-not-allowed"),
        (&keys[2], "conservative", "channel-not-allowed"),
        (&keys[3], "moderate", "agent-not-allowed"),
    ] {
        let client = Client::with_key(program.url(), key);
        let body = json!({"message": "and now?", "mode": mode, "channel": "chat"});
        let (status, problem) = fork(&client, run, body).await;
        assert_eq!(
            (status, &problem["type"]),
            (403, &json!(format!("/errors/{kind}"))),
            "{problem}"
        );
    }
    // Omitted settings are those of the run, and are checked too.
    for (key, expected) in keys.iter().zip([202, 403, 403, 403]) {
        let client = Client::with_key(program.url(), key);
        let (status, received) = fork(&client, run, json!({"message": "and now?"})).await;
        assert_eq!(status, expected, "{received}");
    }
}

#[tokio::test]
async fn a_fork_without_channel_or_mode_uses_those_of_its_run() {
    let program = Program::start().await;
    let client = program.client();
    let asked = json!({
        "message": "What time is it?", "channel": "system_health", "mode": "conservative"
    });
    let (_, first) = client.ask("s", &asked).await;
    let run = first["run_id"].as_str().unwrap();
    let (status, forked) = fork(&client, run, json!({"message": "and now?"})).await;
    assert_eq!(status, 202, "{forked}");
    let run = forked["run_id"].as_str().unwrap();
    let events = client.get(&format!("/api/v1/runs/{run}/events"));
    let frames = client.events(events).await.rest().await;
    let decision = frames.iter().find(|frame| frame.event == "decision");
    let decision = &decision.unwrap().data;
    assert_eq!(
        (&decision["channel"], &decision["mode"]),
        (&json!("system_health"), &json!("conservative"))
    );
}
