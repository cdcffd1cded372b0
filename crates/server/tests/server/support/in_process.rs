//! A server inside the test, for what the offline model cannot do and for a virtual clock.

use std::sync::Arc;

use neuraxis::memory::MemoryStore;
use neuraxis::ports::{SessionStore, Tool};
use neuraxis::{Orchestrator, Role};
use neuraxis_server::{ClientLimits, DecisionToken, Keys, ListenAddress, Server, Stop, Unfinished};
use neuraxis_testkit::ScriptedModel;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Client;

/// The token that decisions must present here.
pub(crate) const TOKEN: &str = "decide";

/// Creates an engine that keeps its runs in memory, with a tool that the test inspects afterward.
pub(crate) fn engine(model: ScriptedModel, tool: &Arc<impl Tool>) -> Orchestrator {
    let builder = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::clone(tool) as _)
        .store(Arc::new(MemoryStore::new()));
    builder.build().unwrap()
}

/// A server inside the test. It lives until the test ends or stops it.
pub(crate) struct InProcess {
    pub(crate) url: String,
    stop: oneshot::Sender<Stop>,
    done: JoinHandle<Result<(), Unfinished>>,
}

impl InProcess {
    /// Serves a model and a store.
    pub(crate) async fn start(model: ScriptedModel, store: Arc<dyn SessionStore>) -> Self {
        let orchestrator = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(model))
            .store(store)
            .build()
            .unwrap();
        Self::serve(orchestrator).await
    }

    /// Serves an engine.
    pub(crate) async fn serve(orchestrator: Orchestrator) -> Self {
        Self::serve_to(orchestrator, Keys::default()).await
    }

    /// Serves an engine to clients with keys.
    pub(crate) async fn serve_to(orchestrator: Orchestrator, keys: Keys) -> Self {
        let mut limits = ClientLimits::default();
        limits.keys = keys;
        Self::serve_within(orchestrator, limits).await
    }

    /// Serves an engine within limits.
    pub(crate) async fn serve_within(orchestrator: Orchestrator, mut limits: ClientLimits) -> Self {
        let listen: ListenAddress = "127.0.0.1:0".parse().unwrap();
        limits.decisions = Some(DecisionToken::new(TOKEN));
        let server = Server::bind(listen, orchestrator).await.unwrap();
        let server = server.with_limits(limits);
        let url = server.url();
        let (stop, stopped) = oneshot::channel();
        let done = tokio::spawn(server.serve(async { stopped.await.unwrap() }));
        Self { url, stop, done }
    }

    /// Serves a model.
    pub(crate) async fn of(model: ScriptedModel) -> Self {
        Self::start(model, Arc::new(MemoryStore::new())).await
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url)
    }

    /// The address to connect to.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// Stops it, and waits until it has released everything.
    pub(crate) async fn stop(self) -> Result<(), Unfinished> {
        self.stop_by(Stop::Cancel).await
    }

    /// Like [`stop`](Self::stop), in the given way.
    pub(crate) async fn stop_by(self, how: Stop) -> Result<(), Unfinished> {
        self.stop.send(how).unwrap();
        self.done.await.unwrap()
    }
}
