//! Turns that are sent again with the same `Idempotency-Key`.

use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::{Client, Frame, Program};

fn hello() -> Value {
    json!({"message": "What can you do?"})
}

/// A turn of a session with a key.
fn keyed(client: &Client, session: &str, key: &str, body: &Value) -> RequestBuilder {
    client.turn(session, body).header("idempotency-key", key)
}

async fn heard(client: &Client, session: &str, key: &str, body: &Value) -> Vec<Frame> {
    let request = keyed(client, session, key, body);
    client.events(request).await.rest().await
}

/// Returns the records among the events, as they were sent.
fn records(frames: &[Frame]) -> Vec<&Value> {
    let records = frames.iter().filter(|frame| frame.id.is_some());
    records.map(|frame| &frame.data).collect()
}

fn is_replayed(response: &Response) -> bool {
    let header = response.headers().get("idempotency-replayed");
    header.is_some_and(|value| value == "true")
}

#[tokio::test]
async fn a_repeated_turn_returns_its_result_and_starts_nothing() {
    let program = Program::start().await;
    let client = program.client();
    let request = || keyed(&client, "s", "k1", &hello());
    let first = request().send().await.unwrap();
    assert!(!is_replayed(&first));
    let first = first.text().await.unwrap();
    for _ in 0..2 {
        let again = request().send().await.unwrap();
        assert_eq!(again.status(), 200);
        assert!(is_replayed(&again));
        assert_eq!(again.text().await.unwrap(), first);
    }
    // Different JSON with the same meaning is the same request.
    let same = json!({"channel": "chat", "mode": "moderate", "message": "What can you do?"});
    let (status, same) = answer(keyed(&client, "s", "k1", &same)).await;
    assert_eq!((status, same.to_string().len()), (200, first.len()));

    let frames = heard(&client, "s", "k1", &hello()).await;
    assert_eq!(frames.last().unwrap().event, "final");
    let received = records(&frames);
    assert_eq!(received[0]["run_id"], same["run_id"]);
    assert!(received.iter().zip(1..).all(|(it, seq)| it["seq"] == seq));
    // With another key or without one, it is another turn.
    let next = heard(&client, "s", "k2", &hello()).await;
    assert_ne!(records(&next)[0]["run_id"], same["run_id"]);
    let again = heard(&client, "s", "k2", &hello()).await;
    assert_eq!(records(&again), records(&next));
    let [(_, one), (_, other)] = [
        client.ask("s", &hello()).await,
        client.ask("s", &hello()).await,
    ];
    assert_ne!(one["run_id"], other["run_id"]);
}

#[tokio::test]
async fn a_different_turn_under_the_same_key_is_refused_with_only_the_differing_fields() {
    let program = Program::start_in(tempfile::tempdir().unwrap(), |command| {
        command.env("NEURAXIS_SERVER__MODES", r#"["moderate", "exploratory"]"#);
    });
    let program = program.await;
    let client = program.client();
    let body = json!({"message": "s3cret one", "channel": "code_task", "mode": "exploratory"});
    let (status, first) = answer(keyed(&client, "s", "k1", &body)).await;
    assert_eq!(status, 200);
    for (changes, differs) in [
        (json!({"message": "s3cret two"}), json!(["message"])),
        (json!({"mode": "moderate"}), json!(["mode"])),
        (json!({"channel": "chat"}), json!(["channel"])),
        (
            json!({"message": "s3cret two", "mode": "YOLO", "channel": "nowhere"}),
            json!(["message", "mode", "channel"]),
        ),
    ] {
        let mut other = body.clone();
        let changes = changes.as_object().unwrap().clone();
        other.as_object_mut().unwrap().extend(changes);
        let asked = keyed(&client, "s", "k1", &other).header("x-request-id", "it");
        let (status, problem) = answer(asked).await;
        assert_eq!(status, 422, "{problem}");
        assert_eq!(problem["type"], "/errors/idempotency-key-reused");
        assert_eq!(problem["differs"], differs);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("use a new key"), "{detail}");
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
        let listening = keyed(&client, "s", "k1", &other).header("x-request-id", "it");
        let listening = listening.header("accept", "text/event-stream");
        assert_eq!(answer(listening).await, (422, problem));
    }
    let (_, again) = answer(keyed(&client, "s", "k1", &body)).await;
    assert_eq!(again, first);
}

#[tokio::test]
async fn an_invalid_idempotency_key_is_refused_with_the_reason() {
    let program = Program::start().await;
    let client = program.client();
    let long = "k".repeat(256);
    let values = [
        &b""[..],
        b"two words",
        b"a\tb",
        b"\xc3\xb6",
        long.as_bytes(),
    ];
    for value in values {
        let value = HeaderValue::from_bytes(value).unwrap();
        let request = client.turn("s", &hello()).header("idempotency-key", value);
        let (status, problem) = answer(request).await;
        assert_eq!(status, 400, "{problem}");
        assert_eq!(problem["type"], "/errors/invalid-idempotency-key");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("1 to 255 visible ASCII"), "{detail}");
    }
    let twice = keyed(&client, "s", "k1", &hello()).header("idempotency-key", "k2");
    let (status, problem) = answer(twice).await;
    assert_eq!(status, 400);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("more than once"), "{detail}");
    let longest = keyed(&client, "s", &long[1..], &hello());
    assert_eq!(answer(longest).await.0, 200);
    // A refused turn has not used its key.
    let empty = keyed(&client, "s", "k3", &json!({"message": ""}));
    assert_eq!(answer(empty).await.0, 400);
    assert_eq!(answer(keyed(&client, "s", "k3", &hello())).await.0, 200);
}

/// A client that knows the key of another session learns nothing: the answer is that for an unused key.
#[tokio::test]
async fn a_key_of_another_session_is_treated_as_unknown() {
    let program = Program::start().await;
    let client = program.client();
    let body = json!({"message": "s3cret"});
    let (_, theirs) = answer(keyed(&client, "theirs", "k1", &body)).await;
    let response = keyed(&client, "mine", "k1", &hello()).send().await.unwrap();
    assert!(!is_replayed(&response));
    let known: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    let (_, unknown) = answer(keyed(&client, "mine2", "k9", &hello())).await;
    let names = |answer: &Value| {
        answer
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&known), names(&unknown));
    assert_eq!(known["reply"], unknown["reply"]);
    assert_ne!(known["run_id"], theirs["run_id"]);
    assert!(!known.to_string().contains("s3cret"), "{known}");
    // Guessing ids does not help: they contain nothing of the key.
    let tail = |answer: &Value| answer["run_id"].as_str().unwrap()[14..].to_owned();
    assert_ne!(tail(&known), tail(&theirs));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn simultaneous_turns_with_one_key_start_one_run_that_all_of_them_receive() {
    use crate::support::gate::{gated_program, waiting_turn};

    let (program, mut gate) = gated_program().await;
    let client = program.client();
    let spawn = |number: usize| {
        let client = client.clone();
        tokio::spawn(async move {
            if number.is_multiple_of(2) {
                let frames = heard(&client, "s", "k1", &waiting_turn()).await;
                assert_eq!(frames.last().unwrap().event, "final");
                records(&frames)[0]["run_id"].clone()
            } else {
                let (status, result) = answer(keyed(&client, "s", "k1", &waiting_turn())).await;
                assert_eq!((status, &result["status"]), (200, &json!("done")));
                result["run_id"].clone()
            }
        })
    };
    let early: Vec<_> = (0..6).map(spawn).collect();
    gate.reached().await;
    let late: Vec<_> = (6..10).map(spawn).collect();
    let (status, problem) = answer(keyed(&client, "s", "k1", &hello())).await;
    assert_eq!(status, 422, "{problem}");
    let (status, _) = answer(keyed(&client, "s", "k2", &hello())).await;
    assert_eq!(status, 409, "the session is busy for others");
    gate.open().await;
    let mut runs = Vec::new();
    for asked in early.into_iter().chain(late) {
        runs.push(asked.await.unwrap());
    }
    assert!(runs.iter().all(|run| run == &runs[0]), "{runs:?}");
    // A second run would have reached the gate too, and found it closed.
    let frames = heard(&client, "s", "k1", &waiting_turn()).await;
    let received = serde_json::to_string(&records(&frames)).unwrap();
    assert!(received.contains("the gate was open"), "{received}");
}

/// A client that joins halfway receives the run from its start, and one that leaves does not affect the others.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_lost_its_connection_can_return_to_its_run() {
    use crate::support::gate::{gated_program, waiting_turn};

    let (program, mut gate) = gated_program().await;
    let client = program.client();
    let request = keyed(&client, "s", "k1", &waiting_turn()).header("accept", "text/event-stream");
    let lost = request.send().await.unwrap();
    gate.reached().await;
    drop(lost);
    let back = tokio::spawn({
        let client = client.clone();
        async move { heard(&client, "s", "k1", &waiting_turn()).await }
    });
    gate.open().await;
    let frames = back.await.unwrap();
    let received = records(&frames);
    assert_eq!(received[0]["type"], "run_started");
    assert!(received.iter().zip(1..).all(|(it, seq)| it["seq"] == seq));
    assert_eq!(frames.last().unwrap().event, "final");
}

#[tokio::test]
async fn the_events_of_a_repeated_turn_start_after_the_last_record_the_client_had() {
    let program = Program::start().await;
    let client = program.client();
    let all = heard(&client, "s", "k1", &hello()).await;
    let all = records(&all);
    let after = async |last: &'static str| {
        let request = keyed(&client, "s", "k1", &hello()).header("last-event-id", last);
        client.events(request).await.rest().await
    };
    for last in ["0", "1", "3"] {
        let frames = after(last).await;
        let skipped: usize = last.parse().unwrap();
        assert_eq!(records(&frames), all[skipped..], "{last}");
    }
    let number = all.len().to_string().leak();
    assert!(after(number).await.is_empty(), "it had everything");
    // No client can have a record of a run that starts now.
    let request = keyed(&client, "s", "k2", &hello()).header("last-event-id", "3");
    let fresh = client.events(request).await.rest().await;
    assert_eq!(records(&fresh)[0]["seq"], 1);
}
