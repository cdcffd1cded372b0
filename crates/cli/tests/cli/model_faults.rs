//! Model servers that fail: what the user is told, the exit code, and what is recorded.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::machine::{Done, Machine};

/// Answers every request on a port of its own in the same way, for as long as the test runs.
fn server(answer: impl Fn(&mut TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut head = [0; 64 * 1024];
            // The whole request comes at once, or nearly: what is left of it does not matter here.
            let _ = connection.read(&mut head);
            answer(&mut connection);
        }
    });
    port
}

fn response(head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn saying(text: String) -> u16 {
    server(move |connection| {
        let _ = connection.write_all(text.as_bytes());
    })
}

fn ask(port: u16) -> Done {
    let configuration = format!(
        "[models.reasoning]\nprovider = 'llama'\nbase_url = 'http://127.0.0.1:{port}'\n\
         timeouts = {{ connect = '2s', first_byte = '500ms', idle = '300ms' }}\n"
    );
    let machine = Machine::new().with_file("neuraxis.toml", configuration);
    machine.run([
        "ask",
        "--channel",
        "code_task",
        "--mode",
        "conservative",
        "--format",
        "events",
        "Hello?",
    ])
}

/// Checks that the run failed as told, and that its log ends properly with a valid history.
fn assert_failed(done: &Done, kind: &str, told: &str) {
    assert_eq!(done.code, Some(1), "{done:?}");
    let events: Vec<Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let records: Vec<&Value> = events
        .iter()
        .filter(|event| event.get("seq").is_some())
        .collect();
    let seqs: Vec<u64> = records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "{seqs:?}");
    assert_eq!(
        records.last().unwrap()["type"],
        "run_failed",
        "{}",
        done.stdout
    );
    let failed = records
        .iter()
        .find(|record| record["type"] == "llm_failed")
        .unwrap();
    assert_eq!(failed.pointer("/error/kind").unwrap(), kind, "{failed}");
    let reason = records
        .last()
        .unwrap()
        .pointer("/finish_reason/failed")
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned();
    assert!(reason.contains(told), "{reason}");
    assert!(
        !done.stdout.contains("\"type\":\"tool_call\""),
        "a call of a broken reply was run"
    );
}

#[test]
fn an_unreachable_server_is_named() {
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    assert_failed(&ask(port), "connection", &format!("127.0.0.1:{port}"));
}

#[test]
fn a_server_that_still_loads_is_told_apart_from_one_that_fails() {
    let body = r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
    let port = saying(response(
        "503 Service Unavailable\r\ncontent-type: application/json",
        body,
    ));
    assert_failed(&ask(port), "loading", "still loading");
}

#[test]
fn a_server_error_is_told_with_its_status_and_message() {
    let body = r#"{"error":{"code":500,"message":"out of luck","type":"server_error"}}"#;
    let port = saying(response(
        "500 Internal Server Error\r\ncontent-type: application/json",
        body,
    ));
    assert_failed(&ask(port), "server", "out of luck");
}

#[test]
fn a_web_page_in_place_of_a_reply_is_recognized() {
    let port = saying(response(
        "200 OK\r\ncontent-type: text/html",
        "<html>It works!</html>",
    ));
    assert_failed(&ask(port), "invalid_response", "text/html");
}

#[test]
fn a_redirect_is_not_followed_and_its_target_is_named() {
    let port = saying(response(
        "302 Found\r\nlocation: http://elsewhere.example/v1",
        "",
    ));
    assert_failed(&ask(port), "bad_request", "elsewhere.example");
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Half a th\"},\"finish_reason\":null}]}\n\n";

#[test]
fn half_a_stream_is_retracted_and_counts_as_cut_off() {
    let done = ask(saying(STREAM.to_owned()));
    assert_failed(&done, "incomplete", "cut off");
    assert!(
        done.stdout.contains("\"type\":\"text_retracted\""),
        "{}",
        done.stdout
    );
}

#[test]
fn a_stream_that_stalls_is_given_up() {
    let port = server(|connection| {
        let _ = connection.write_all(STREAM.as_bytes());
        let mut connection = connection.try_clone().unwrap();
        // Held open until the client goes away.
        thread::spawn(move || {
            let _ = connection.read(&mut [0; 1]);
            thread::sleep(Duration::from_millis(1));
        });
    });
    assert_failed(&ask(port), "timeout", "in time");
}

#[test]
fn a_connection_that_is_reset_is_no_reply() {
    // Closing with unread data resets the connection.
    let port = server(|connection| drop(connection.shutdown(std::net::Shutdown::Both)));
    assert_failed(&ask(port), "connection", "127.0.0.1");
}
