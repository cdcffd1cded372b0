//! Event streams: many listeners of one run, including slow ones.

use neuraxis_testkit::{Script, ScriptedModel, reply};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::Client;
use crate::support::client::{Frame, answer};
use crate::support::in_process::InProcess;

/// The size of a reply that fits into no buffer on its way, in bytes.
const LARGE: usize = 7 * 1024 * 1024;

async fn only_run(client: &Client) -> String {
    loop {
        let (_, page) = answer(client.get("/api/v1/runs?session=s")).await;
        if let Some(run) = page["runs"][0]["run_id"].as_str() {
            return run.to_owned();
        }
        tokio::task::yield_now().await;
    }
}

/// Returns what a listener has at the end: its records, and the model's text.
fn heard(frames: &[Frame]) -> (Vec<u64>, String) {
    let ids = frames.iter().filter_map(|frame| frame.id).collect();
    let deltas = frames.iter().filter(|frame| frame.event == "text_delta");
    let text = deltas.map(|frame| frame.data["text"].as_str().unwrap_or_default());
    (ids, text.collect())
}

#[tokio::test]
async fn a_listener_that_reads_nothing_does_not_slow_others_of_the_same_run() {
    let text = "x".repeat(LARGE);
    let slowly = Script::from(reply::text(text.clone())).after(Duration::from_millis(300));
    let server = InProcess::of(ScriptedModel::always(slowly)).await;
    let client = server.client();
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    let body = "{\"message\": \"hello\"}";
    let request = format!(
        "POST /api/v1/sessions/s/turns HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    silent.write_all(request.as_bytes()).await.unwrap();
    let run = only_run(&client).await;
    let path = format!("/api/v1/runs/{run}/events");
    let listeners: Vec<_> = (0..4)
        .map(|_| {
            let (client, path) = (client.clone(), path.clone());
            tokio::spawn(async move { client.events(client.get(&path)).await.rest().await })
        })
        .collect();
    for listener in listeners {
        let frames = listener.await.unwrap();
        assert_eq!(frames.last().unwrap().event, "final");
        let (ids, said) = heard(&frames);
        let gapless: Vec<u64> = (1..).take(ids.len()).collect();
        assert_eq!(ids, gapless);
        assert!(said == text, "{} bytes", said.len());
    }
    drop(silent);
}

#[tokio::test]
async fn all_listeners_of_a_run_receive_the_same_records() {
    let slowly = Script::from(reply::text("forty-two")).after(Duration::from_millis(300));
    let server = InProcess::of(ScriptedModel::always(slowly)).await;
    let client = server.client();
    let begun = client.listen("s", &json!({"message": "hello"})).await;
    let run = only_run(&client).await;
    let path = format!("/api/v1/runs/{run}/events");
    let (one, two) = tokio::join!(
        client.events(client.get(&path)),
        client.events(client.get(&path))
    );
    let (begun, one, two) = tokio::join!(begun.rest(), one.rest(), two.rest());
    let records = |frames: &[Frame]| -> Vec<(Option<u64>, String, Value)> {
        let records = frames.iter().filter(|frame| frame.id.is_some());
        let records = records.map(|it| (it.id, it.event.clone(), it.data.clone()));
        records.collect()
    };
    assert!(!records(&begun).is_empty());
    assert_eq!(records(&begun), records(&one));
    assert_eq!(records(&begun), records(&two));
    assert_eq!(heard(&begun).1, "forty-two");
    assert_eq!(heard(&one).1, "forty-two");
    let late = client.get(&path).header("last-event-id", "2");
    let late = client.events(late).await.rest().await;
    let all = records(&begun);
    assert_eq!(
        records(&late),
        all[2..],
        "what came after the second record"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stopping_server_ends_a_hundred_streams_that_can_be_resumed() {
    use crate::support::Program;
    use crate::support::gate::{gated_program, waiting_turn};
    use rustix::process::Signal;

    let (program, mut gate) = gated_program().await;
    let client = program.client();
    let mut first = client.listen("s", &waiting_turn()).await;
    gate.reached().await;
    let run = first.next().await.unwrap().data["run_id"].clone();
    let path = format!("/api/v1/runs/{}/events", run.as_str().unwrap());
    let mut listeners = Vec::new();
    for _ in 0..100 {
        let mut frames = client.events(client.get(&path)).await;
        assert_eq!(frames.next().await.unwrap().event, "run_started");
        listeners.push(frames);
    }
    program.signal(Signal::TERM);
    gate.open().await;
    let mut last = None;
    for frames in listeners {
        let rest = frames.rest().await;
        assert_eq!(rest.last().unwrap().event, "final");
        last = rest.last().unwrap().id;
    }
    let again = Program::start_in(program.stopped().await, |_| {}).await;
    let client = again.client();
    let before = last.unwrap() - 1;
    let resumed = client.get(&path).header("last-event-id", before);
    let rest = client.events(resumed).await.rest().await;
    let heard: Vec<_> = rest.iter().map(|frame| (frame.id, &*frame.event)).collect();
    assert_eq!(heard, [(last, "final")]);
}
