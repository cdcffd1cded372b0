//! A server at work, and its clients.

use std::sync::{Arc, Mutex};

use neuraxis::core::RunId;
use reqwest::RequestBuilder;
use serde_json::json;
use tokio::io::BufReader;
use tokio::process::{Child, ChildStdout};
use tokio::task::JoinHandle;

use crate::world::until;

/// A server at work. It dies with the test.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) channel: &'static str,
    pub(crate) url: String,
    pub(crate) _stdout: BufReader<ChildStdout>,
}

/// A client of a turn, and what it was told: the records, byte for byte.
pub(crate) struct Client {
    told: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Sends a turn and listens to it.
    pub(crate) fn ask(&self) -> Client {
        self.listen(self.request("s", "go"))
    }

    /// As [`ask`](Self::ask), in a session of its own.
    pub(crate) fn ask_in(&self, session: &str) -> Client {
        self.listen(self.request(session, "go"))
    }

    /// Asks for the end of a run.
    pub(crate) async fn cancel(&self, run: RunId) {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = http.post(format!("{}/api/v1/runs/{run}/cancel", self.url));
        let asked = asked.header("content-type", "application/json").body("{}");
        let answer = asked.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }

    /// As [`ask`](Self::ask), under a key.
    pub(crate) fn ask_keyed(&self, key: &str) -> Client {
        self.listen(self.request("s", "go").header("idempotency-key", key))
    }

    /// Follows a run from the record after one.
    pub(crate) fn follow(&self, run: RunId, after: u64) -> Client {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let events = http.get(format!("{}/api/v1/runs/{run}/events", self.url));
        self.listen(events.header("last-event-id", after.to_string()))
    }

    fn listen(&self, request: RequestBuilder) -> Client {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let task = tokio::spawn(async move { listen(request, &heard).await });
        Client { told, task }
    }

    /// Takes a turn of a session and returns the status of the answer with its text.
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

    /// Lets it do nothing at all, or go on.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = self.process.id().unwrap().try_into().unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Kills it with SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}

impl Client {
    /// Waits until it was told of a record of this kind.
    pub(crate) async fn hears(&self, kind: &str) {
        let kind = format!("\"type\":\"{kind}\"");
        until(&kind, async || {
            self.told
                .lock()
                .unwrap()
                .iter()
                .any(|told| told.contains(&kind))
        })
        .await;
    }

    /// Returns all it was told, once the events have ended by themselves.
    pub(crate) async fn ended(self) -> Vec<String> {
        self.told().await
    }

    /// Returns all it was told, once the server is gone.
    pub(crate) async fn told(self) -> Vec<String> {
        self.task.await.unwrap();
        Arc::into_inner(self.told).unwrap().into_inner().unwrap()
    }
}

/// Listens until the server is gone.
async fn listen(request: RequestBuilder, told: &Mutex<Vec<String>>) {
    let sent = request.header("accept", "text/event-stream").send();
    let Ok(mut response) = sent.await else { return };
    assert_eq!(response.status(), 200);
    let mut buffer = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.windows(2).position(|it| it == b"\n\n") {
            let frame: Vec<u8> = buffer.drain(..end + 2).collect();
            let frame = String::from_utf8(frame).unwrap();
            // A record has an id, what only passes has none.
            if frame.contains("id: ") {
                let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
                told.lock().unwrap().push(data.unwrap().to_owned());
            }
        }
    }
}
