//! Servers and workers with a real Restate between them, and their shared resources.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use neuraxis::core::RunId;
use neuraxis_testkit::{FreePort, Restate};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::model::Said;
use crate::server::{Client, Server};
use crate::world::{Kept, Program, Terms, World, until};

/// A Restate, and the shared resources of servers and workers.
pub(crate) struct Fleet {
    pub(crate) restate: Restate,
    pub(crate) world: World,
    /// The address of its successive workers.
    _port: FreePort,
}

impl Fleet {
    pub(crate) async fn new(program: Program, script: fn(usize) -> Said) -> Self {
        Self::with(program, script, "").await
    }

    /// Adds settings to the section `[driver.restate]`.
    pub(crate) async fn with(program: Program, script: fn(usize) -> Said, more: &str) -> Self {
        Self::on(program, script, "lease_ms = 1000", more).await
    }

    /// Sets the section `[store]`.
    pub(crate) async fn on(
        program: Program,
        script: fn(usize) -> Said,
        store: &str,
        more: &str,
    ) -> Self {
        let restate = Restate::start();
        let port = FreePort::take();
        let more = format!(
            "[driver]\nkind = \"restate\"\n[driver.restate]\ningress = {:?}\nadmin = {:?}\nlisten = \"127.0.0.1:{port}\"\n{more}\n",
            restate.ingress(),
            restate.admin()
        );
        let terms = Terms {
            store,
            more: &more,
            ..Terms::default()
        };
        let world = World::on(program, Kept::OnServer, script, terms).await;
        Self {
            restate,
            world,
            _port: port,
        }
    }

    /// Queries Restate's admin API.
    pub(crate) async fn query(&self, query: &str) -> Vec<Value> {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = http
            .post(format!("{}/query", self.restate.admin()))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .body(json!({"query": query}).to_string());
        let answer = asked.send().await.unwrap().text().await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["rows"].as_array().unwrap().clone()
    }

    /// Returns the states of the invocations of runs that Restate knows.
    pub(crate) async fn invocations(&self) -> Vec<String> {
        let query = "SELECT status FROM sys_invocation WHERE target_handler_name = 'drive'";
        let rows = self.query(query).await.into_iter();
        rows.map(|row| row["status"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits until Restate has no more work.
    pub(crate) async fn is_over(&self) {
        until("its invocation is over", async || {
            let invocations = self.invocations().await;
            invocations.iter().all(|status| status == "completed")
        })
        .await;
    }

    /// Waits for the end of a run, and checks everything that must hold of it once all of our processes are stopped.
    pub(crate) async fn ends<const N: usize>(
        &self,
        run: RunId,
        client: Client,
        alive: [Server; N],
    ) {
        self.world.ended(run).await;
        client.wait_for("final").await;
        self.is_over().await;
        for process in alive {
            process.kill().await;
        }
        self.world.check(run, &client.received().await).await;
    }

    pub(crate) async fn run(&self) -> RunId {
        self.run_of("s").await
    }

    pub(crate) async fn run_of(&self, session: &str) -> RunId {
        let there_is = async || self.world.run_of(session).await.is_some();
        until("there is a run", there_is).await;
        self.world.run_of(session).await.unwrap()
    }
}

/// The load balancer in front of a fleet's workers: passes each connection to the worker set last, as long as it runs.
pub(crate) struct Balancer {
    pub(crate) address: String,
    workers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Balancer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let workers = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let reached = Arc::clone(&workers);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let reached = Arc::clone(&reached);
                tokio::spawn(async move {
                    let last = reached.lock().unwrap().last().copied();
                    let Some(worker) = last else { return };
                    if let Ok(mut worker) = TcpStream::connect(worker).await {
                        // If either side disconnects, both connections end.
                        let _ = copy_bidirectional(&mut stream, &mut worker).await;
                    }
                });
            }
        });
        Self { address, workers }
    }

    /// Starts a worker behind it, to which new connections go.
    pub(crate) async fn start_worker(&self, world: &World) -> Server {
        let variables = [
            ("NEURAXIS_DRIVER__RESTATE__LISTEN", "127.0.0.1:0"),
            ("NEURAXIS_DRIVER__RESTATE__ADVERTISE", &self.address),
        ];
        let worker = world.start_worker_with(&variables).await;
        let address = worker.url.strip_prefix("http://").unwrap();
        self.workers.lock().unwrap().push(address.parse().unwrap());
        worker
    }
}
