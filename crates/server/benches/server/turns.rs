//! Turns: how many per second the server handles on each store, and how long one takes at a steady rate, when the model
//! answers immediately.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuraxis_testkit::Postgres;
use reqwest::StatusCode;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::process::Measured;
use crate::report::millis;

/// The head of the table.
pub(crate) const HEAD: &str = "\
| store | asked | turns a second | refused | p50, ms | p99, ms | processor time of a turn, ms | KiB kept of an idle session |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// How many clients send turns back to back.
const CLIENTS: usize = 32;

/// How many turns per second are requested at a steady rate.
const RATE: u32 = 500;

/// How many turns a continued conversation has.
const CONVERSATION: usize = 8;

/// How often each part runs before anything is measured.
const WARM_UP: usize = 200;

/// Measures the stores, and returns a row for each store and each way of requesting.
pub(crate) async fn rows(upstream: &Measured, duration: Duration) -> Vec<String> {
    let mut rows = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    let is_there = std::env::var_os("TEST_NEURAXIS_POSTGRES").is_some();
    let postgres = is_there.then(Postgres::start);
    for (name, url) in stores(&folder, postgres.as_ref()) {
        let server = Measured::server(&upstream.url, &url).await;
        let client = Client::of(server);
        client.at_once(WARM_UP).await;
        let how = format!("by {CLIENTS} clients");
        rows.push(client.row(name, &how, client.closed(duration, 1)).await);
        let how = format!("by {CLIENTS} clients, {CONVERSATION} in a session");
        let conversations = client.closed(duration, CONVERSATION);
        rows.push(client.row(name, &how, conversations).await);
        let how = format!("{RATE} a second");
        rows.push(client.row(name, &how, client.steady(duration)).await);
    }
    rows
}

fn stores(folder: &TempDir, postgres: Option<&Postgres>) -> Vec<(&'static str, String)> {
    let sqlite = format!("sqlite:{}", folder.path().join("bench.db").display());
    let mut stores = vec![("memory", "memory:".to_owned()), ("SQLite", sqlite)];
    stores.extend(postgres.map(|postgres| ("Postgres", postgres.url())));
    stores
}

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    pub(crate) server: Arc<Measured>,
    sessions: Arc<AtomicUsize>,
    /// How many turns were refused because there were too many.
    pub(crate) refused: Arc<AtomicUsize>,
}

impl Client {
    pub(crate) fn of(server: Measured) -> Self {
        Self {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            server: Arc::new(server),
            sessions: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Takes turns back to back.
    pub(crate) async fn at_once(&self, count: usize) {
        for _ in 0..count {
            self.turn(self.new_session()).await;
        }
    }

    fn new_session(&self) -> usize {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a turn in a session. Returns how long it took, in microseconds, or `None` if it was refused.
    async fn turn(&self, session: usize) -> Option<u64> {
        let url = format!("{}/api/v1/sessions/s{session}/turns", self.server.url);
        let asked = self
            .http
            .post(url)
            .json(&serde_json::json!({ "message": "hello" }));
        let began = Instant::now();
        let answer = asked.send().await.unwrap();
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        assert_eq!(answer.status(), StatusCode::OK);
        answer.bytes().await.unwrap();
        Some(u64::try_from(began.elapsed().as_micros()).unwrap())
    }

    /// Each client sends a turn as soon as the previous one is answered, this many times in each of its sessions.
    async fn closed(&self, duration: Duration, conversation: usize) -> Vec<u64> {
        let end = Instant::now() + duration;
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let client = self.clone();
            clients.spawn(async move {
                let mut took = Vec::new();
                while Instant::now() < end {
                    let session = client.new_session();
                    for _ in 0..conversation {
                        took.extend(client.turn(session).await);
                    }
                }
                took
            });
        }
        clients.join_all().await.concat()
    }

    /// Turns are requested at a steady rate, however long the last one took.
    async fn steady(&self, duration: Duration) -> Vec<u64> {
        let began = Instant::now();
        let mut turns = JoinSet::new();
        for number in 0..RATE * u32::try_from(duration.as_secs()).unwrap() {
            sleep_until(began + Duration::from_secs(1) * number / RATE).await;
            let client = self.clone();
            turns.spawn(async move { client.turn(client.new_session()).await });
        }
        turns.join_all().await.into_iter().flatten().collect()
    }

    async fn row(&self, store: &str, how: &str, asked: impl Future<Output = Vec<u64>>) -> String {
        let sessions = self.sessions.load(Ordering::Relaxed);
        let (before, began) = (self.server.used(), Instant::now());
        let mut took = asked.await;
        let (after, seconds) = (self.server.used(), began.elapsed().as_secs_f64());
        took.sort_unstable();
        let turns = u32::try_from(took.len()).unwrap();
        let refused = self.refused.swap(0, Ordering::Relaxed);
        let processor = (after.processor - before.processor).as_secs_f64() * 1e3;
        // Sessions created here stay behind unused.
        let sessions = self.sessions.load(Ordering::Relaxed) - sessions;
        let sessions = u64::try_from(sessions).unwrap().max(1);
        let kept = after.bytes.saturating_sub(before.bytes) / sessions;
        let row = format!(
            "| {store} | {how} | {:.0} | {refused} | {:.2} | {:.2} | {:.3} | {:.1} |",
            f64::from(turns) / seconds,
            millis(&took, 50),
            millis(&took, 99),
            processor / f64::from(turns),
            f64::from(u32::try_from(kept).unwrap()) / 1_024.0,
        );
        println!("{row}");
        row
    }
}
