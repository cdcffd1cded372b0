//! A running server, and its clients.

use std::sync::{Arc, Mutex};

use neuraxis::core::RunId;
use reqwest::RequestBuilder;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::json;
use tokio::io::BufReader;
use tokio::process::{Child, ChildStdout};
use tokio::task::JoinHandle;

use crate::world::until;

/// A running server. It is killed with the test.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) channel: &'static str,
    pub(crate) url: String,
    pub(crate) _stdout: BufReader<ChildStdout>,
}

/// A client of a turn, and the records it received, byte for byte.
pub(crate) struct Client {
    received: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Sends a turn and listens to it.
    pub(crate) fn ask(&self) -> Client {
        self.listen(self.request("s", "go"))
    }

    /// Like [`ask`](Self::ask), in a separate session.
    pub(crate) fn ask_in(&self, session: &str) -> Client {
        self.listen(self.request(session, "go"))
    }

    /// Like [`ask`](Self::ask), with a client tool that the model may call.
    pub(crate) fn ask_with_tool(&self, name: &str) -> Client {
        let tool = json!({"name": name, "description": "It is the client's.", "parameters": {"type": "object"}});
        let body = json!({
            "message": "go", "mode": "exploratory", "channel": self.channel, "tools": [tool]
        });
        self.listen(self.request("s", "go").body(body.to_string()))
    }

    /// Returns what a run waits for, once the server can tell: a run woken needlessly has no result while a worker looks
    /// into its inbox, or until the lease of a worker killed at that expires.
    pub(crate) async fn pending(&self, run: RunId) -> Vec<serde_json::Value> {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut pending = Vec::new();
        until("the run's result says what it waits for", async || {
            let shown = http.get(format!("{}/api/v1/runs/{run}", self.url));
            let shown: serde_json::Value = shown.send().await.unwrap().json().await.unwrap();
            let found = shown["result"]["pending"].as_array();
            pending = found.cloned().unwrap_or_default();
            found.is_some()
        })
        .await;
        pending
    }

    /// Sends the result of the client tool that a run waits for.
    pub(crate) async fn submit_result(&self, run: RunId, call: &str, result: &str) -> u16 {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let brought = http
            .post(format!("{}/api/v1/runs/{run}/tools/{call}", self.url))
            .header("content-type", "application/json")
            .body(json!({"result": result}).to_string());
        brought.send().await.unwrap().status().as_u16()
    }

    /// Cancels a run.
    pub(crate) async fn cancel(&self, run: RunId) {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = http.post(format!("{}/api/v1/runs/{run}/cancel", self.url));
        let asked = asked.header("content-type", "application/json").body("{}");
        let answer = asked.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    /// Like [`ask`](Self::ask), with a key.
    pub(crate) fn ask_keyed(&self, key: &str) -> Client {
        self.listen(self.request("s", "go").header("idempotency-key", key))
    }

    /// Follows a run after a record.
    pub(crate) fn follow(&self, run: RunId, after: u64) -> Client {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let events = http.get(format!("{}/api/v1/runs/{run}/events", self.url));
        self.listen(events.header("last-event-id", after.to_string()))
    }

    fn listen(&self, request: RequestBuilder) -> Client {
        let received = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&received);
        let task = tokio::spawn(async move { listen(request, &writer).await });
        Client { received, task }
    }

    /// Takes a turn of a session and returns the status and the text of the answer.
    pub(crate) async fn turn(&self, session: &str, message: &str) -> (u16, String) {
        let response = self.request(session, message).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// A turn of a session, ready to be sent.
    pub(crate) fn request(&self, session: &str, message: &str) -> RequestBuilder {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let body = json!({"message": message, "mode": "exploratory", "channel": self.channel});
        http.post(format!("{}/api/v1/sessions/{session}/turns", self.url))
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    /// Sends a signal, such as one that suspends or resumes it.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.process.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
        if signal == Signal::STOP {
            // Its threads stop one after the other, and on a busy machine one may still answer meanwhile.
            waitid(
                WaitId::Pid(id),
                WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT,
            )
            .unwrap();
        }
    }

    /// Kills it with SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}

impl Client {
    /// Waits until it received a record of this kind.
    pub(crate) async fn wait_for(&self, kind: &str) {
        let kind = format!("\"type\":\"{kind}\"");
        until(&kind, async || {
            self.received
                .lock()
                .unwrap()
                .iter()
                .any(|received| received.contains(&kind))
        })
        .await;
    }

    /// Returns everything it received, once the events have ended normally.
    pub(crate) async fn ended(self) -> Vec<String> {
        self.received().await
    }

    /// Returns everything it received, once the server is dead.
    pub(crate) async fn received(self) -> Vec<String> {
        self.task.await.unwrap();
        Arc::into_inner(self.received)
            .unwrap()
            .into_inner()
            .unwrap()
    }
}

/// Listens until the server is dead.
async fn listen(request: RequestBuilder, received: &Mutex<Vec<String>>) {
    let sent = request.header("accept", "text/event-stream").send();
    let Ok(mut response) = sent.await else { return };
    assert_eq!(response.status(), 200);
    let mut buffer = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.windows(2).position(|it| it == b"\n\n") {
            let frame: Vec<u8> = buffer.drain(..end + 2).collect();
            let frame = String::from_utf8(frame).unwrap();
            // Records have an id; live events have none.
            if frame.contains("id: ") {
                let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
                received.lock().unwrap().push(data.unwrap().to_owned());
            }
        }
    }
}
