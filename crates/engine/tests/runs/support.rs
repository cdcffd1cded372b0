//! What the tests share: an orchestrator of scripted components.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{
    AgentId, Compaction, Mode, Record, RecordBody, Role, RunStatus, SessionId, ToolResult,
    Transcript,
};
use neuraxis_engine::{
    Agent, AgentBuilder, ApprovalKey, Event, Events, Orchestrator, OrchestratorBuilder,
    OrchestratorResult, UserRequest,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{SessionStore, Tool};
use neuraxis_testkit::{CountingIds, FailingStore, ScriptedModel, VirtualClock, assert_paired};
use tokio::runtime::{Builder, Runtime};

pub(crate) fn builder(model: impl Into<Arc<ScriptedModel>>) -> OrchestratorBuilder {
    let model: Arc<ScriptedModel> = model.into();
    Orchestrator::builder()
        .policy(one_role())
        .model(Role::REASONING, model)
        .store(Arc::new(MemoryStore::new()))
        .clock(Arc::new(VirtualClock::new()))
        .ids(Arc::new(CountingIds::default()))
        .approval_key(ApprovalKey::new([7; ApprovalKey::BYTES]))
}

/// The built-in policy, except that one role serves every request, however simple, so that tests know which model is
/// called.
fn one_role() -> Policy {
    policy("")
}

/// Same, with additional settings.
pub(crate) fn policy(more: &str) -> Policy {
    let own = "channels.chat.simple_role = 'reasoning'\n";
    let config = PolicyConfig::from_toml(&format!("{own}{more}"));
    Policy::layered(config.unwrap()).unwrap()
}

/// An agent that works for others, with the coding model and the given tools of the orchestrator.
pub(crate) fn helper(name: &'static str, tools: &[&str]) -> AgentBuilder {
    Agent::builder(name)
        .role(Role::CODING)
        .digest_after(2)
        .compaction(Compaction::Drop)
        .tools_named(tools.iter().copied())
}

pub(crate) fn with_tools(model: ScriptedModel, tools: Vec<Arc<dyn Tool>>) -> Orchestrator {
    builder(model).tools(tools).build().unwrap()
}

/// A process: everything that runs in it ends with it.
pub(crate) fn process() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// A store with faults that a test orders.
pub(crate) type Store = FailingStore<MemoryStore>;

pub(crate) fn failing_store() -> Arc<Store> {
    Arc::new(FailingStore::new(MemoryStore::new()))
}

pub(crate) fn session() -> SessionId {
    "s".parse().unwrap()
}

/// A request in exploratory mode, in which ordinary tools run without asking.
pub(crate) fn request(message: &str) -> UserRequest {
    UserRequest::new(session(), message).mode(Mode::EXPLORATORY)
}

/// A run that was followed to its end.
pub(crate) struct FinishedRun {
    pub(crate) events: Vec<Event>,
    pub(crate) result: OrchestratorResult,
}

/// Starts a run, and follows it to its end.
pub(crate) async fn run_to_end(orchestrator: &Orchestrator, request: UserRequest) -> FinishedRun {
    let (handle, events) = orchestrator.stream(request).await.unwrap();
    let events = all_events(events).await;
    let result = handle.result().await.unwrap();
    FinishedRun { events, result }
}

/// Returns all events, up to the last.
pub(crate) async fn all_events(mut events: Events) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(event);
    }
    all
}

impl FinishedRun {
    pub(crate) fn records(&self) -> Vec<Arc<Record>> {
        let records = self.events.iter().filter_map(|event| match event {
            Event::Record(record) => Some(Arc::clone(record)),
            Event::Live(_) => None,
        });
        records.collect()
    }

    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.records()
            .iter()
            .map(|record| record.body.kind())
            .collect()
    }

    pub(crate) fn results(&self) -> Vec<ToolResult> {
        results(&self.records())
    }

    /// Checks that the run ended once, with this status, and left a history in which every call has its result.
    pub(crate) fn assert_valid(&self, status: RunStatus) {
        assert_eq!(self.result.status, status, "{:?}", self.result);
        let records = self.records();
        let ends = records.iter().filter(|record| {
            record.agent == AgentId::ROOT && matches!(record.body.kind(), "final" | "run_failed")
        });
        assert_eq!(ends.count(), 1, "{:?}", self.kinds());
        assert_paired(&neuraxis_core::run_messages(&records));
    }
}

pub(crate) fn results(records: &[Arc<Record>]) -> Vec<ToolResult> {
    let results = records.iter().filter_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some((**result).clone()),
        _ => None,
    });
    results.collect()
}

pub(crate) async fn history(store: &dyn SessionStore) -> Transcript {
    store.history(&session()).await.unwrap()
}
