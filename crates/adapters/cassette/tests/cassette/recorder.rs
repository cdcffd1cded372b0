//! How a recorder affects the calls it records, and what it records of calls that fail.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, future};
use neuraxis_core::{LlmErrorKind, Role};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{Script, ScriptedModel, call_context, reply, request};

use crate::support::{CassetteFile, open, stream};

#[tokio::test(start_paused = true)]
async fn stream_pieces_pass_through_as_they_arrive() {
    let cassette_file = CassetteFile::new();
    let script = Script::from(reply::text("abcd"))
        .split(2)
        .paced(Duration::from_millis(50));
    let (_, client) = cassette_file.record(ScriptedModel::always(script));
    let mut stream = client
        .stream_respond(&request("hello"), &call_context())
        .await
        .unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(
        stream.next().now_or_never().is_none(),
        "the second piece is not there yet"
    );
}

#[tokio::test]
async fn an_abandoned_stream_is_recorded_up_to_where_it_was_dropped() {
    let cassette_file = CassetteFile::new();
    let (recording, client) = cassette_file.record(ScriptedModel::always(
        Script::from(reply::text("abcdef")).split(2),
    ));
    let mut left = client
        .stream_respond(&request("hello"), &call_context())
        .await
        .unwrap();
    let first = left.next().await.unwrap();
    drop(left);
    recording.finish().unwrap();

    let played = stream(
        &cassette_file.open().client(Role::REASONING),
        &request("hello"),
    )
    .await
    .unwrap();
    assert_eq!(played.len(), 2);
    assert_eq!(played[0], first);
    assert_eq!(
        played[1].as_ref().unwrap_err().kind,
        LlmErrorKind::Incomplete
    );
}

#[tokio::test]
async fn a_call_abandoned_while_waiting_replays_as_incomplete() {
    let cassette_file = CassetteFile::new();
    let (recording, client) = cassette_file.record(ScriptedModel::always(Script::hanging()));
    assert!(
        client
            .respond(&request("hello"), &call_context())
            .now_or_never()
            .is_none()
    );
    assert!(
        client
            .stream_respond(&request("hello"), &call_context())
            .now_or_never()
            .is_none()
    );
    assert_eq!(recording.finish().unwrap().exchanges, 2);

    let client = open(&cassette_file.strict()).client(Role::REASONING);
    let error = client
        .respond(&request("hello"), &call_context())
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Incomplete);
    let error = stream(&client, &request("hello")).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Incomplete);
}

#[tokio::test]
async fn a_stream_dropped_after_its_final_piece_is_recorded_whole() {
    let cassette_file = CassetteFile::new();
    let (recording, client) = cassette_file.record(ScriptedModel::always(reply::text("abc")));
    let mut left = client
        .stream_respond(&request("hello"), &call_context())
        .await
        .unwrap();
    left.next().await.unwrap().unwrap();
    left.next().await.unwrap().unwrap();
    drop(left);
    recording.finish().unwrap();
    let played = stream(
        &cassette_file.open().client(Role::REASONING),
        &request("hello"),
    )
    .await
    .unwrap();
    assert!(played.iter().all(Result::is_ok) && played.len() == 2);
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_are_recorded_and_replayed_separately() {
    let cassette_file = CassetteFile::new();
    let model = ScriptedModel::answering(|request| {
        let asked = request.messages.messages()[0].text();
        let wait = Duration::from_millis(u64::from(asked.len() % 7 == 0) * 30 + 5);
        Script::from(reply::text(format!("you asked {asked}")))
            .split(3)
            .paced(wait)
    });
    let (recording, client) = cassette_file.record(model);
    let client: Arc<dyn LlmClient> = Arc::new(client);
    let requests: Vec<_> = (0..40).map(|number| request("x".repeat(number))).collect();
    let recorded = future::join_all(
        requests
            .iter()
            .map(|request| stream(client.as_ref(), request)),
    )
    .await;
    assert_eq!(recording.finish().unwrap().exchanges, 40);

    let cassette = open(&cassette_file.strict());
    let player = cassette.client(Role::REASONING);
    let played = future::join_all(
        requests
            .iter()
            .rev()
            .map(|request| stream(&player, request)),
    )
    .await;
    assert!(played.iter().rev().eq(recorded.iter()));
    cassette.finish().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn identical_requests_from_many_tasks_each_get_one_recording() {
    let cassette_file = CassetteFile::new();
    let model = (0..50).fold(ScriptedModel::new(), |model, number| {
        model.then(reply::text(number.to_string()))
    });
    let (recording, client) = cassette_file.record(model);
    let client = Arc::new(client);
    let ask = |client: Arc<dyn LlmClient>| async move {
        client
            .respond(&request("hello"), &call_context())
            .await
            .unwrap()
            .text()
    };
    let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(ask(client.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    recording.finish().unwrap();

    let cassette = open(&cassette_file.strict());
    let player: Arc<dyn LlmClient> = Arc::new(cassette.client(Role::REASONING));
    let tasks: Vec<_> = (0..50)
        .map(|_| tokio::spawn(ask(Arc::clone(&player))))
        .collect();
    let mut played = Vec::new();
    for task in tasks {
        played.push(task.await.unwrap().parse::<u32>().unwrap());
    }
    played.sort_unstable();
    assert!(played.into_iter().eq(0..50));
    cassette.finish().unwrap();
}

#[tokio::test]
async fn the_recording_client_has_the_info_of_its_model() {
    let cassette_file = CassetteFile::new();
    let (_, client) = cassette_file.record(ScriptedModel::new());
    assert_eq!(client.info(), ScriptedModel::new().info());
}
