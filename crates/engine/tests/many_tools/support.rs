//! An engine with all the tools, and the contents of its requests.

use std::sync::Arc;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{
    Mode, ModelRequest, Record, RecordBody, Role, RunStatus, SessionId, ToolResult, Transcript,
};
use neuraxis_engine::{
    ApprovalKey, Orchestrator, OrchestratorBuilder, UserRequest, UuidV7, replay,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::Tool;
use neuraxis_testkit::{ScriptedModel, ScriptedTool, VirtualClock, reply, spec};

use crate::services::services;

/// Everything that a test checks.
pub(crate) struct World {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) store: Arc<MemoryStore>,
}

/// What the servers' tools may do without asking.
const TRUSTED: &str = "channels.chat.simple_role = 'reasoning'\n\
    [trust.all]\ntools = ['*__*']\nclass = 'read_only'\nopen_world = false\n";

impl World {
    pub(crate) fn new() -> Self {
        Self::with("", |builder| builder)
    }

    /// A world with an extended policy, and changed as a test needs.
    pub(crate) fn with(
        policy: &str,
        change: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Self {
        Self::on(Arc::new(MemoryStore::new()), policy, change)
    }

    /// A world on an existing store.
    pub(crate) fn on(
        store: Arc<MemoryStore>,
        policy: &str,
        change: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Self {
        let model = Arc::new(ScriptedModel::new());
        let config = PolicyConfig::from_toml(&format!("{TRUSTED}{policy}")).unwrap();
        let builder = Orchestrator::builder()
            .policy(Policy::layered(config).unwrap())
            .model(Role::REASONING, model.clone())
            .store(store.clone())
            .clock(Arc::new(VirtualClock::new()))
            .ids(Arc::new(UuidV7))
            .approval_key(ApprovalKey::new([7; ApprovalKey::BYTES]))
            .tool(Arc::new(ScriptedTool::echoing(
                spec("calculate").read_only(),
            )));
        let builder = services()
            .into_iter()
            .fold(builder, |builder, (server, tools)| {
                let echoing = |tool| Arc::new(ScriptedTool::echoing(tool)) as Arc<dyn Tool>;
                builder.foreign_tools(server, tools.into_iter().map(echoing))
            });
        Self {
            orchestrator: change(builder).build().unwrap(),
            model,
            store,
        }
    }

    /// Lets the model make one batch after the other in a run of the session `s`, and then answer. Returns its records.
    pub(crate) async fn run(&self, message: &str, batches: &[&[(&str, &str)]]) -> Vec<Arc<Record>> {
        for batch in batches {
            self.model.push(reply::calls(batch.iter().copied()));
        }
        self.model.push(reply::text("Done."));
        let (handle, _) = self.orchestrator.stream(asked(message)).await.unwrap();
        let result = handle.result().await.unwrap();
        assert_eq!(result.status, RunStatus::Done, "{result:?}");
        handle.records()
    }

    /// Returns the names of the tools of each request so far.
    pub(crate) fn offered(&self) -> Vec<Vec<String>> {
        self.model.requests().iter().map(names).collect()
    }
}

pub(crate) fn session() -> SessionId {
    "s".parse().unwrap()
}

pub(crate) fn asked(message: &str) -> UserRequest {
    UserRequest::new(session(), message).mode(Mode::EXPLORATORY)
}

pub(crate) fn names(request: &ModelRequest) -> Vec<String> {
    let tools = request.tools.iter();
    tools.map(|tool| tool.name.to_string()).collect()
}

pub(crate) fn results(records: &[Arc<Record>]) -> Vec<ToolResult> {
    let results = records.iter().filter_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some((**result).clone()),
        _ => None,
    });
    results.collect()
}

/// Checks that replaying a log leads to the same run.
pub(crate) fn assert_replays(history: &Transcript, records: &[Arc<Record>]) {
    replay(history, records).unwrap();
}
