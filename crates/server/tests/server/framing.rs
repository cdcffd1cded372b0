//! Bad input from a misbehaving client: requests that violate HTTP.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::Program;
use crate::support::raw::{read, send};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A route that accepts at most one mebibyte.
const EXPLAIN: &str =
    "POST /api/v1/policy/explain HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
const TURN: &str = "POST /api/v1/sessions/s/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

#[tokio::test]
async fn a_request_must_name_its_host_exactly_once() {
    let program = Program::start().await;
    for (request, title) in [
        (
            "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
            "no host",
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
            "two hosts",
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "the same host twice",
        ),
        (
            "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "another host in the address",
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: evil.example@localhost\r\nConnection: close\r\n\r\n",
            "a user",
        ),
    ] {
        let answer = send(program.address(), request.as_bytes()).await;
        assert_eq!(answer.statuses(), [400], "{title}");
        assert_eq!(answer.json()["type"], "/errors/invalid-host", "{title}");
    }
    let absolute =
        "GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(
        send(program.address(), absolute.as_bytes())
            .await
            .statuses(),
        [200]
    );
}

/// As sent by the load balancer HAProxy by default.
#[tokio::test]
async fn only_an_http_1_0_probe_may_omit_the_host() {
    let program = Program::start().await;
    for (path, headers, status) in [
        ("/readyz", "", 200),
        ("/healthz", "", 200),
        ("/healthz", "Origin: http://evil.example\r\n", 400),
        ("/healthz", "Host: evil.example\r\n", 403),
        ("/api/v1/sessions", "", 400),
    ] {
        let request = format!("GET {path} HTTP/1.0\r\n{headers}\r\n");
        let answer = send(program.address(), request.as_bytes()).await.0;
        let expected = format!("HTTP/1.0 {status} ");
        assert!(answer.starts_with(&expected), "{path}: {answer}");
    }
}

#[tokio::test]
async fn malformed_http_is_refused_and_the_connection_closed() {
    let program = Program::start().await;
    let too_long = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    let too_many = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "X: x\r\n".repeat(200)
    );
    for (bytes, status) in [
        ("hello\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1} this might be TLS\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n", 400),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
            400,
        ),
        (too_long.as_str(), 431),
        (too_many.as_str(), 431),
    ] {
        assert_eq!(
            send(program.address(), bytes.as_bytes()).await.statuses(),
            [status],
            "{bytes:.60}"
        );
    }
    assert_eq!(
        send(program.address(), HEALTH.as_bytes()).await.statuses(),
        [200],
        "the server lives on"
    );
}

#[tokio::test]
async fn a_content_length_next_to_chunks_cannot_smuggle_in_a_second_request() {
    let program = Program::start().await;
    for framing in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    ] {
        let request = format!("{TURN}{framing}\r\n0\r\n\r\n{HEALTH}");
        let answer = send(program.address(), request.as_bytes()).await;
        assert_eq!(
            answer.statuses(),
            [400],
            "one answer, and none to what was smuggled in"
        );
        assert!(
            answer.head().contains("connection: close"),
            "{}",
            answer.head()
        );
    }
}

/// A turn with a complete body in one chunk.
const CHUNKS: &str = "16\r\n{\"message\": \"hello\"}  \r\n0\r\n\r\n";

#[tokio::test]
async fn a_request_with_a_length_and_chunks_is_read_by_chunks_and_the_connection_closed() {
    let program = Program::start().await;
    let before = "POST /api/v1/sessions/s/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Content-Length: 20\r\n\r\n{\"message\": \"hello\"}";
    let probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    for (request, statuses) in [
        (
            format!(
                "{TURN}Content-Length: 33\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKS}{HEALTH}"
            ),
            &[200][..],
        ),
        (
            format!(
                "{TURN}transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n{CHUNKS}{HEALTH}"
            ),
            &[200],
        ),
        (
            format!(
                "{probe}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HEALTH}"
            ),
            &[200],
        ),
        (
            format!(
                "{before}{TURN}Content-Length: 33\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKS}{HEALTH}"
            ),
            &[200, 200],
        ),
    ] {
        let answer = send(program.address(), request.as_bytes()).await;
        assert_eq!(answer.statuses(), statuses, "nothing smuggled: {request}");
        let last = answer.0.rsplit("HTTP/1.1 ").next().unwrap();
        assert_eq!(
            last.to_lowercase().matches("connection: close\r\n").count(),
            1,
            "{last}"
        );
    }
}

#[tokio::test]
async fn an_invalid_or_duplicate_length_is_refused_and_the_connection_closed() {
    let program = Program::start().await;
    let spaces = " ".repeat(64);
    for framing in [
        "Content-Length: \r\n",
        "Content-Length: five\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        &format!("Content-Length: {spaces}5x\r\n"),
    ] {
        let request = format!("{TURN}{framing}\r\n{HEALTH}");
        let answer = send(program.address(), request.as_bytes()).await;
        assert_eq!(answer.statuses(), [400], "{framing}");
    }
}

#[tokio::test]
async fn a_chunked_request_is_the_last_on_its_connection() {
    let program = Program::start().await;
    let request = format!("{TURN}Transfer-Encoding: chunked\r\n\r\n{CHUNKS}{HEALTH}");
    let answer = send(program.address(), request.as_bytes()).await;
    assert_eq!(answer.statuses(), [200], "it is a request like any other");
    let head = answer.head();
    assert_eq!(head.matches("connection: close").count(), 1, "{head}");
}

#[tokio::test]
async fn a_repeated_identical_content_length_is_accepted() {
    let program = Program::start().await;
    let request = format!(
        "{TURN}Content-Length: 20\r\nContent-Length: 20\r\n\r\n{{\"message\": \"hello\"}}{HEALTH}"
    );
    let answer = send(program.address(), request.as_bytes()).await;
    assert_eq!(answer.statuses(), [200, 200]);
}

#[tokio::test]
async fn a_content_length_over_the_limit_is_refused_before_the_body_arrives() {
    let program = Program::start().await;
    for more in ["", "Expect: 100-continue\r\n"] {
        let mut stream = TcpStream::connect(program.address()).await.unwrap();
        let head = format!("{EXPLAIN}Content-Length: 1048577\r\n{more}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // No byte of the body was sent, and the server asks for none.
        let began = Instant::now();
        let answer = read(stream).await;
        assert_eq!(answer.statuses(), [413], "{more}");
        assert_eq!(answer.json()["type"], "/errors/body-too-large");
        assert!(
            answer.head().contains("connection: close"),
            "{}",
            answer.head()
        );
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{more}: {took:?}");
    }
    let fits = format!("{EXPLAIN}Content-Length: 20\r\nExpect: 100-continue\r\n\r\n");
    let request = format!("{fits}{{\"message\": \"hello\"}}{HEALTH}");
    let statuses = send(program.address(), request.as_bytes()).await.statuses();
    assert!(
        [&[200, 200][..], &[100, 200, 200]].contains(&&*statuses),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn a_client_that_sends_a_too_large_body_still_receives_the_whole_refusal() {
    let program = Program::start().await;
    for _ in 0..20 {
        let stream = TcpStream::connect(program.address()).await.unwrap();
        let (reader, mut writer) = stream.into_split();
        let sending = tokio::spawn(async move {
            let body = " ".repeat(3 * 1024 * 1024);
            let head = format!("{EXPLAIN}Content-Length: {}\r\n\r\n", body.len());
            writer.write_all(head.as_bytes()).await?;
            writer.write_all(body.as_bytes()).await?;
            std::io::Result::Ok(writer)
        });
        let answer = read_half(reader).await;
        assert!(answer.contains(" 413 "), "{answer}");
        assert!(answer.contains("\"max_bytes\":1048576,"), "{answer}");
        assert!(answer.ends_with("\"}"), "it is whole: {answer}");
        drop(sending.await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn a_body_that_never_ends_is_too_large() {
    let program = Program::start().await;
    let stream = TcpStream::connect(program.address()).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let sending = tokio::spawn(async move {
        let head = format!("{TURN}Transfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        writer.write_all(head.as_bytes()).await?;
        // Until the server closes the connection.
        loop {
            writer.write_all(chunk.as_bytes()).await?;
        }
        #[expect(
            unreachable_code,
            reason = "it says what kind of error the block may have"
        )]
        std::io::Result::Ok(())
    });
    let answer = read_half(reader).await;
    assert!(answer.contains(" 413 "), "{answer}");
    assert!(answer.contains("/errors/body-too-large"), "{answer}");
    sending.await.unwrap().unwrap_err();
}

async fn read_half(mut reader: tokio::net::tcp::OwnedReadHalf) -> String {
    use tokio::io::AsyncReadExt;

    let mut received = Vec::new();
    while let Ok(1..) = reader.read_buf(&mut received).await {}
    String::from_utf8(received).unwrap()
}

#[tokio::test]
async fn an_incomplete_or_badly_framed_body_does_not_harm_the_server() {
    let program = Program::start().await;
    let wrong = format!("{TURN}Transfer-Encoding: chunked\r\n\r\nnot a size\r\n");
    let answer = send(program.address(), wrong.as_bytes()).await;
    assert_eq!(answer.statuses(), [400]);
    assert_eq!(answer.json()["type"], "/errors/invalid-body");

    let mut stream = TcpStream::connect(program.address()).await.unwrap();
    let early = format!("{TURN}Content-Length: 1000\r\n\r\n{{");
    stream.write_all(early.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = read(stream).await;
    assert!(
        answer.statuses().iter().all(|status| *status == 400),
        "{answer:?}"
    );
    assert_eq!(
        send(program.address(), HEALTH.as_bytes()).await.statuses(),
        [200]
    );
}
