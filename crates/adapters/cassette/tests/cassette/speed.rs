//! When pieces arrive.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use neuraxis_cassette::Speed;
use neuraxis_core::{LlmErrorKind, Role};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{Script, ScriptedModel, call_context, reply, request};
use tokio::time::Instant;

use crate::support::{CassetteFile, open, stream};

/// Records a stream of three pieces and an end, 50 ms apart.
async fn cassette_file() -> CassetteFile {
    let cassette_file = CassetteFile::new();
    let script = Script::from(reply::text("abcdef"))
        .split(2)
        .paced(Duration::from_millis(50));
    let (recording, client) = cassette_file.record(ScriptedModel::always(script));
    stream(&client, &request("hello")).await.unwrap();
    recording.finish().unwrap();
    cassette_file
}

#[tokio::test(start_paused = true)]
async fn at_recorded_speed_each_piece_arrives_at_its_recorded_time() {
    let cassette_file = cassette_file().await;
    let mut config = cassette_file.config();
    config.speed = Speed::Recorded;
    let client = open(&config).client(Role::REASONING);
    let started = Instant::now();
    let mut stream = client
        .stream_respond(&request("hello"), &call_context())
        .await
        .unwrap();
    let mut times = vec![started.elapsed().as_millis()];
    while stream.next().await.is_some() {
        times.push(started.elapsed().as_millis());
    }
    assert_eq!(times, [50, 50, 100, 150, 200]);
}

#[tokio::test(start_paused = true)]
async fn at_instant_speed_a_replay_does_not_wait() {
    let client = cassette_file().await.open().client(Role::REASONING);
    let reply = client
        .respond(&request("hello"), &call_context())
        .now_or_never();
    assert_eq!(reply.unwrap().unwrap().text(), "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_replay_waiting_for_its_next_piece_can_be_cancelled() {
    let cassette_file = cassette_file().await;
    let mut config = cassette_file.config();
    config.speed = Speed::Recorded;
    let client = open(&config).client(Role::REASONING);
    let ctx = call_context();
    let mut stream = client
        .stream_respond(&request("hello"), &ctx)
        .await
        .unwrap();
    stream.next().await.unwrap().unwrap();
    assert!(stream.next().now_or_never().is_none(), "it waits");
    ctx.cancellation.cancel();
    let last = stream.next().await.unwrap().unwrap_err();
    assert_eq!(last.kind, LlmErrorKind::Cancelled);
    assert!(stream.next().await.is_none());
}
