//! How the program stops.

use std::fs;
use std::time::{Duration, Instant};

use neuraxis_testkit::mcp_script;
use rustix::process::Signal;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::support::Program;
use crate::support::client::answer;
use crate::support::program::folder_with;
use crate::support::raw::read;

const SOON: Duration = Duration::from_secs(2);

/// The polling interval.
const PAUSE: Duration = Duration::from_millis(5);

#[tokio::test]
async fn a_signal_stops_an_idle_server_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut program = Program::start().await;
        program
            .client()
            .ask("s", &json!({"message": "hello"}))
            .await;
        let began = Instant::now();
        program.signal(signal);
        assert_eq!(program.exit().await.code(), Some(0));
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_interrupt_ends_open_streams_with_their_last_record_within_two_seconds() {
    cancels(&[], Signal::INT).await;
}

/// A run that is only in memory cannot be resumed by any other process.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn with_an_in_memory_store_sigterm_cancels_runs_too() {
    cancels(&[("NEURAXIS_STORE__URL", "memory:")], Signal::TERM).await;
}

#[cfg(target_os = "linux")]
async fn cancels(variables: &[(&str, &str)], signal: Signal) {
    use crate::support::gate::{gated_program_with, waiting_turn};

    let (mut program, mut gate) = gated_program_with(variables).await;
    let frames = program.client().listen("s", &waiting_turn()).await;
    gate.reached().await;
    let began = Instant::now();
    program.signal(signal);
    let rest = frames.rest().await;
    let cancelled = rest
        .iter()
        .find(|frame| frame.event == "cancelled")
        .unwrap();
    let reason = cancelled.data.get("reason");
    assert_eq!(reason, Some(&json!("the engine is shutting down")));
    let last = rest.last().unwrap();
    assert_eq!(
        (last.event.as_str(), last.data.get("finish_reason")),
        ("final", Some(&json!("cancelled")))
    );
    assert_eq!(program.exit().await.code(), Some(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_turn_in_progress_ends_normally_after_sigterm() {
    use crate::support::gate::{gated_program, waiting_turn};

    let (mut program, mut gate) = gated_program().await;
    let frames = program.client().listen("s", &waiting_turn()).await;
    gate.reached().await;
    let mut idle = TcpStream::connect(program.address()).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    idle.readable().await.unwrap();
    program.signal(Signal::TERM);
    // It is closed at once, and no further client can connect.
    assert_eq!(read(idle).await.statuses(), [200]);
    TcpStream::connect(program.address()).await.unwrap_err();
    gate.open().await;
    let rest = frames.rest().await;
    let received =
        serde_json::to_string(&rest.iter().map(|it| &it.data).collect::<Vec<_>>()).unwrap();
    assert!(received.contains("the gate was open"), "{received}");
    let last = rest.last().unwrap();
    assert_eq!(
        (last.event.as_str(), &last.data["finish_reason"]),
        ("final", &json!("stop"))
    );
    assert_eq!(program.exit().await.code(), Some(0));
}

/// As with `neuraxis-server 2>&1 | less`.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_unread_log_delays_neither_requests_nor_the_stop() {
    let (unread, log) = std::io::pipe().unwrap();
    let mut program = Program::start_in(tempfile::tempdir().unwrap(), |command| {
        let command = command.env("NEURAXIS_SERVER__ACCESS_LOG", "json");
        command.stderr(log);
    })
    .await;
    let client = program.client();
    // More than twice the capacity of a pipe.
    for _ in 0..1_000 {
        let response = client.get("/healthz").send().await.unwrap();
        assert_eq!(response.status(), 200);
    }
    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await.code(), Some(0));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(unread);
}

/// An MCP server that never answers a call and ignores requests to end, as do its children.
const STUBBORN: &str = "call() {
    trap '' TERM HUP INT
    sleep 1000 & echo $$ $! > new; mv new called
    while :; do sleep 1; done
}";

fn lives(process: &str) -> bool {
    // A stopped process that has not been reaped is a zombie, which does nothing.
    let status = fs::read_to_string(format!("/proc/{process}/status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// Docker kills after 10 seconds.
#[tokio::test]
async fn the_server_stops_within_ten_seconds_despite_stuck_tools_and_exports() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = format!(
        "[mcp.servers.shop]\ncommand = '/bin/sh'\nargs = ['shop.sh']\n\
         [trust.shop]\ntools = ['shop__*']\nclass = 'read_only'\nopen_world = false\ndestructive = false\n\
         [telemetry.otlp]\nendpoint = 'http://{}'\n",
        silent.local_addr().unwrap()
    );
    let folder = folder_with(&config);
    fs::write(folder.path().join("shop.sh"), mcp_script(STUBBORN)).unwrap();
    let mut program = Program::start_in(folder, |_| {}).await;
    let client = program.client();
    let is_offered = async || {
        let (_, tools) = answer(client.get("/api/v1/tools")).await;
        tools.to_string().contains("shop__look")
    };
    while !is_offered().await {
        sleep(PAUSE).await;
    }
    let _frames = client
        .listen("s", &json!({"message": "shop__look {}"}))
        .await;
    let called = program.folder().join("called");
    while !called.exists() {
        sleep(PAUSE).await;
    }
    let processes = fs::read_to_string(called).unwrap();
    let began = Instant::now();
    program.signal(Signal::TERM);
    assert_eq!(program.exit().await.code(), Some(0));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    for process in processes.split_whitespace() {
        while lives(process) {
            assert!(began.elapsed() < took + SOON, "{process} is left");
            sleep(PAUSE).await;
        }
    }
}

#[tokio::test]
async fn a_turn_that_arrives_while_the_server_stops_is_refused() {
    let mut program = Program::start().await;
    let address = program.address().to_owned();
    let mut idle = TcpStream::connect(&address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    idle.readable().await.unwrap();

    let mut turn = TcpStream::connect(&address).await.unwrap();
    let body = "{\"message\": \"hello\"}";
    let head = format!(
        "POST /api/v1/sessions/s/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    turn.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once it handles the request.
    turn.readable().await.unwrap();

    program.signal(Signal::TERM);
    // It closes idle connections once it accepts no new runs.
    assert_eq!(read(idle).await.statuses(), [200]);
    turn.write_all(body.as_bytes()).await.unwrap();
    let answer = read(turn).await;
    assert_eq!(answer.statuses(), [100, 503]);
    assert!(answer.0.contains("/errors/shutting-down"), "{answer:?}");
    assert_eq!(program.exit().await.code(), Some(0));
}
