//! Deliberately slow clients. The server runs inside the test, with a virtual clock.

use std::time::Duration;

use neuraxis_testkit::{Script, ScriptedModel, reply};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::support::in_process::InProcess;
use crate::support::raw::read;

const PATIENCE: Duration = Duration::from_secs(30);

/// The time limit for a head.
const HEAD: Duration = Duration::from_secs(75);

/// The size of a reply, in bytes, whose events (which contain it three times) do not fit into the buffers of both
/// sockets.
const LARGE: usize = 7 * 1024 * 1024;

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_arrive_in_75_seconds_closes_the_connection() {
    let server = InProcess::of(ScriptedModel::new()).await;
    for start in ["", "GET /healthz HTTP/1.1\r\nHost: loc"] {
        let began = Instant::now();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(start.as_bytes()).await.unwrap();
        let answer = read(stream).await;
        assert!(!answer.0.contains("200"), "{answer:?}");
        assert!(
            began.elapsed() <= HEAD + Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_trickles_in_gets_no_extra_time() {
    let server = InProcess::of(ScriptedModel::new()).await;
    let turn = "POST /api/v1/sessions/s/turns HTTP/1.1\r\nHost: localhost\r\n\
        Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
    for (start, status, patience) in [("GET /", "", HEAD), (turn, " 408 ", PATIENCE)] {
        let began = Instant::now();
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        writer.write_all(start.as_bytes()).await.unwrap();
        let dribbling = tokio::spawn(async move {
            // Until the server no longer accepts it.
            while writer.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(5)).await;
            }
        });
        let mut answer = Vec::new();
        while let Ok(1..) = reader.read_buf(&mut answer).await {}
        let took = began.elapsed();
        dribbling.abort();
        let answer = String::from_utf8(answer).unwrap();
        assert!(took <= patience + Duration::from_secs(1), "{took:?}");
        assert!(
            answer.contains(status) && !answer.contains(" 200 "),
            "{answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_only_after_load_balancers_would_close_it() {
    let server = InProcess::of(ScriptedModel::new()).await;
    let began = Instant::now();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read(stream).await.statuses()[0], 200);
    let took = began.elapsed();
    assert!(took > Duration::from_secs(60), "{took:?}");
    assert!(took <= HEAD + Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_in_30_seconds_is_a_problem() {
    let server = InProcess::of(ScriptedModel::new()).await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request = "POST /api/v1/sessions/s/turns HTTP/1.1\r\nHost: localhost\r\n\
        Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = read(stream).await;
    assert_eq!(answer.statuses(), [408]);
    assert_eq!(answer.json()["type"], "/errors/body-timeout");
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_is_kept_alive_by_comments() {
    let model =
        ScriptedModel::always(Script::from(reply::text("42")).after(Duration::from_secs(100)));
    let server = InProcess::of(model).await;
    let mut stream = ask_for_events(&server).await;
    let mut received = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut received).await {
        if received.ends_with(b"0\r\n\r\n") {
            break;
        }
    }
    let received = String::from_utf8(received).unwrap();
    let comments = received
        .lines()
        .filter(|line| line.starts_with(':'))
        .count();
    assert!(
        (3..=7).contains(&comments),
        "one each 15 seconds: {received}"
    );
    assert!(received.contains("event: final"), "{received}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_for_30_seconds_is_dropped_and_its_run_continues() {
    let model = ScriptedModel::always(reply::text("x".repeat(LARGE)));
    let server = InProcess::of(model).await;
    let stream = ask_for_events(&server).await;
    sleep(2 * PATIENCE).await;
    // Data on its way takes real time to arrive.
    tokio::time::resume();
    let answer = read(stream).await;
    assert!(answer.0.starts_with("HTTP/1.1 200 OK"), "it begins well");
    assert!(!answer.0.contains("event: final"), "it was cut off");
    let figures = server.client().get("/metrics").send().await.unwrap();
    let figures = figures.text().await.unwrap();
    assert!(
        figures.contains("neuraxis_listeners_dropped_total 1\n"),
        "{figures}"
    );

    let mut next = ask_for_events(&server).await;
    let mut start = [0; 15];
    next.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK", "the session is not busy");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_another_protocol_that_reads_nothing_is_dropped_and_counted_too() {
    let hello = json!([{ "id": "m1", "role": "user", "content": "hello" }]);
    let front_end = json!({
        "threadId": "t", "runId": "r", "state": {}, "messages": hello, "tools": [], "context": [], "forwardedProps": {}
    });
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({ "messages": hello, "stream": true }),
        ),
        ("/v1/responses", json!({ "input": "hello", "stream": true })),
        ("/agui", front_end),
    ] {
        let model = ScriptedModel::always(reply::text("x".repeat(3 * LARGE)));
        let server = InProcess::of(model).await;
        let stream = ask(&server, path, &body.to_string()).await;
        sleep(2 * PATIENCE).await;
        tokio::time::resume();
        let answer = read(stream).await;
        assert!(answer.0.starts_with("HTTP/1.1 200 OK"), "{path}");
        let figures = server.client().get("/metrics").send().await.unwrap();
        let figures = figures.text().await.unwrap();
        let is_counted = figures.contains("neuraxis_listeners_dropped_total 1\n");
        assert!(is_counted, "{path}: {figures}");
        tokio::time::pause();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_does_not_keep_the_server_from_stopping() {
    let model = ScriptedModel::always(reply::text("x".repeat(LARGE)));
    let server = InProcess::of(model).await;
    let stream = ask_for_events(&server).await;
    stream.readable().await.unwrap();
    let began = Instant::now();
    server.stop().await.unwrap();
    drop(stream);
    assert!(
        began.elapsed() <= Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

/// Starts a turn.
async fn ask_for_events(server: &InProcess) -> TcpStream {
    let path = "/api/v1/sessions/s/turns";
    ask(server, path, "{\"message\": \"hello\"}").await
}

/// Sends a request, and reads nothing of its answer.
async fn ask(server: &InProcess, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}
