//! Client input that is not a message of the protocol.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_testkit::{ScriptedModel, reply};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::support::{server, until};

struct Raw {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Raw {
    fn start() -> Self {
        let model = Arc::new(ScriptedModel::always(reply::text("Yes.")));
        let (server, _) = server(&model, &[]);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(ours);
        tokio::spawn(server.serve(input, output, std::future::pending()));
        Self::over(theirs)
    }

    fn over(theirs: DuplexStream) -> Self {
        let (input, output) = tokio::io::split(theirs);
        Self {
            lines: BufReader::new(input).lines(),
            output,
        }
    }

    async fn send(&mut self, line: &str) {
        self.output.write_all(line.as_bytes()).await.unwrap();
        self.output.write_all(b"\n").await.unwrap();
    }

    async fn answer(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn initialize(&mut self) {
        let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
        }});
        self.send(&begin.to_string()).await;
        assert_eq!(
            self.answer().await["result"]["serverInfo"]["name"],
            "neuraxis"
        );
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.send(&begun.to_string()).await;
    }

    async fn still_answers(&mut self, id: u32) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "ask", "arguments": {"message": "Are you there?"},
        }});
        self.send(&call.to_string()).await;
        let answer = self.answer().await;
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "Yes.");
    }
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_not_messages_do_not_end_the_connection() {
    let mut raw = Raw::start();
    raw.initialize().await;
    for (id, line) in [
        "this is not JSON",
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"meth",
        "",
        "\u{0}\u{1b}[2J",
    ]
    .into_iter()
    .enumerate()
    {
        raw.send(line).await;
        raw.still_answers(u32::try_from(id).unwrap() + 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn json_that_is_not_a_message_returns_an_error() {
    let mut raw = Raw::start();
    raw.initialize().await;
    raw.send("[1, 2, 3]").await;
    let refused = raw.answer().await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    raw.still_answers(7).await;
}

#[tokio::test(start_paused = true)]
async fn the_server_still_answers_after_a_line_that_is_too_long() {
    let mut raw = Raw::start();
    raw.initialize().await;
    let long = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "ask", "arguments": {"message": "x".repeat(9 * 1024 * 1024)},
    }});
    raw.send(&long.to_string()).await;
    raw.still_answers(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_initialize_first_is_not_served() {
    let (server, _) = server(&Arc::new(ScriptedModel::new()), &[]);
    let (ours, mut theirs) = tokio::io::duplex(1024);
    let (input, output) = tokio::io::split(ours);
    let serving = tokio::spawn(server.serve(input, output, std::future::pending()));
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
    theirs.write_all(line).await.unwrap();
    let error = serving.await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the client does not speak the Model Context Protocol"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_cannot_keep_serving_from_ending() {
    for (is_stopped, seconds) in [(false, 20), (true, 5)] {
        let long = reply::text("x".repeat(200 * 1024));
        let model = Arc::new(ScriptedModel::always(long));
        let (server, _) = server(&model, &[]);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(ours);
        let (stop_sender, stopped) = oneshot::channel::<()>();
        let stop = async { drop(stopped.await) };
        let serving = tokio::spawn(server.serve(input, output, stop));
        let mut raw = Raw::over(theirs);
        raw.initialize().await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "ask", "arguments": {"message": "Are you there?"},
        }});
        raw.send(&call.to_string()).await;
        until("it is asked", async || !model.calls().is_empty()).await;
        sleep(Duration::from_secs(1)).await;
        if is_stopped {
            stop_sender.send(()).unwrap();
        } else {
            raw.output.shutdown().await.unwrap();
        }
        let ended = timeout(Duration::from_secs(seconds), serving).await;
        ended.expect("in time").unwrap().unwrap();
    }
}
