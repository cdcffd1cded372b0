//! Thousands of clients that listen to a silent run and disappear without notice: nothing of them remains, and the
//! server answers other clients meanwhile.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::support::Program;
use crate::support::client::answer;

/// The number of concurrent listeners.
const LISTENERS: usize = 2_000;

/// How much the server may grow from one round of listeners to the next: far less than a kibibyte each.
const SLACK: u64 = 8 * 1024 * 1024;

/// Raises the limit on open files of this process and its children to the maximum.
fn raise_limit() -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let needed = u64::try_from(LISTENERS).unwrap() + 200;
    setrlimit(Resource::Nofile, limit).is_ok() && limit.maximum.is_none_or(|most| most >= needed)
}

fn descriptors(program: &Program) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", program.id()));
    open.unwrap().count()
}

/// Returns the resident memory of a process in bytes.
fn memory(program: &Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.unwrap().trim().trim_end_matches("kB").trim();
    kibibytes.parse::<u64>().unwrap() * 1024
}

/// Starts to listen, and waits until the answer has started.
async fn listen(program: &Program, run: &str, last: u64) -> TcpStream {
    let mut stream = TcpStream::connect(program.address()).await.unwrap();
    let request = format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: {}\r\nLast-Event-ID: {last}\r\n\r\n",
        program.address()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    stream
}

#[tokio::test]
async fn thousands_of_silently_closed_listeners_leave_nothing_behind() {
    if !raise_limit() {
        println!("skipped: this machine allows too few open files");
        return;
    }
    // A model that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = format!("http://{}", silent.local_addr().unwrap());
    let program = Program::start_in(tempfile::tempdir().unwrap(), |command| {
        command
            .env("NEURAXIS_MODELS__REASONING__PROVIDER", "llama")
            .env("NEURAXIS_MODELS__REASONING__BASE_URL", model);
    });
    let program = program.await;
    let client = program.client();
    let mut frames = client.listen("s", &json!({"message": "Hello?"})).await;
    let started = frames.next_named("run_started").await.data;
    let run = started["run_id"].as_str().unwrap();
    // The model has been called. Until it answers, nothing more arrives.
    let _asked = silent.accept().await.unwrap();
    let (_, shown) = answer(client.get(&format!("/api/v1/runs/{run}"))).await;
    let last = shown["records"].as_u64().unwrap();

    let before = descriptors(&program);
    let mut after_each = Vec::new();
    for _ in 0..3 {
        let mut listeners = Vec::with_capacity(LISTENERS);
        for _ in 0..LISTENERS {
            listeners.push(listen(&program, run, last).await);
        }
        assert!(descriptors(&program) >= before + LISTENERS);
        let (status, _) = answer(client.get("/readyz")).await;
        assert_eq!(status, 200, "others are answered");
        for listener in listeners {
            // The connection is reset instead of closed.
            listener.set_zero_linger().unwrap();
        }
        let closed = timeout(Duration::from_secs(60), async {
            // The test's own client may keep a connection or two.
            while descriptors(&program) > before + 8 {
                sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(closed.await.is_ok(), "{} are open", descriptors(&program));
        after_each.push(memory(&program));
    }
    // Memory used for the first listeners is kept for the next ones, who need no more. How much of it the allocator
    // returns for a while does not matter.
    let [first, second, third] = after_each[..] else {
        panic!("{after_each:?}");
    };
    assert!(third < first.max(second) + SLACK, "{after_each:?}");
    assert_eq!(answer(client.get("/readyz")).await.0, 200);
}
