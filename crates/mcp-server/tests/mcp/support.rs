//! Shared test code: a server on scripted parts, and clients with a user.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::{Role, RunStatus, SessionId};
use neuraxis_engine::{Orchestrator, OrchestratorBuilder};
use neuraxis_mcp_server::{McpServer, ServeError};
use neuraxis_memory::MemoryStore;
use neuraxis_testkit::{ScriptedModel, ScriptedTool};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationCapability, ErrorData, Implementation, ProgressNotificationParam,
    ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RunningService,
    ServiceError,
};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::task::JoinHandle;

/// The two eras of the protocol.
pub(crate) const ERAS: [ClientLifecycleMode; 2] = [
    ClientLifecycleMode::Initialize,
    ClientLifecycleMode::Discover {
        preferred_versions: Vec::new(),
    },
];

/// The era of `initialize`.
pub(crate) const INITIALIZE: ClientLifecycleMode = ClientLifecycleMode::Initialize;

/// Builds an orchestrator on a model and tools.
pub(crate) fn builder(
    model: &Arc<ScriptedModel>,
    tools: &[Arc<ScriptedTool>],
) -> OrchestratorBuilder {
    let mut builder = Orchestrator::builder()
        .model(Role::REASONING, Arc::clone(model) as _)
        .store(Arc::new(MemoryStore::default()));
    for tool in tools {
        builder = builder.tool(Arc::clone(tool) as _);
    }
    builder
}

/// Creates a server on a model and tools.
pub(crate) fn server(
    model: &Arc<ScriptedModel>,
    tools: &[Arc<ScriptedTool>],
) -> (McpServer, Orchestrator) {
    let orchestrator = builder(model, tools).build().unwrap();
    (McpServer::new(orchestrator.clone()), orchestrator)
}

type Answering = dyn Fn(&str) -> Result<ElicitResult, ErrorData> + Send + Sync;

/// A client and its user.
#[derive(Clone)]
pub(crate) struct Person {
    answers: Option<Arc<Answering>>,
    /// How long the user thinks about each question.
    thinks_for: Duration,
    /// The questions.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// The progress that was reported.
    pub(crate) progress: Arc<Mutex<Vec<(f64, String)>>>,
    /// The log messages.
    pub(crate) messages: Arc<Mutex<Vec<String>>>,
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Person")
    }
}

impl Person {
    /// A client that cannot ask a user.
    pub(crate) fn absent() -> Self {
        Self {
            answers: None,
            thinks_for: Duration::ZERO,
            asked: Arc::default(),
            progress: Arc::default(),
            messages: Arc::default(),
        }
    }

    /// A user who answers each question with this function.
    pub(crate) fn answering(
        answer: impl Fn(&str) -> Result<ElicitResult, ErrorData> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answers: Some(Arc::new(answer)),
            ..Self::absent()
        }
    }

    /// A user whose client answers each question with this JSON.
    pub(crate) fn saying(json: Value) -> Self {
        Self::answering(move |_| Ok(serde_json::from_value(json.clone()).unwrap()))
    }

    /// The same user, who thinks about each question for this long.
    pub(crate) fn thinking_for(self, time: Duration) -> Self {
        Self {
            thinks_for: time,
            ..self
        }
    }

    pub(crate) fn questions(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn progress_messages(&self) -> Vec<String> {
        let progress = self.progress.lock().unwrap();
        progress
            .iter()
            .map(|(_, message)| message.clone())
            .collect()
    }
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.answers.is_some() {
            capabilities.elicitation = Some(ElicitationCapability::default());
        }
        ClientConfig::new(capabilities, Implementation::new("test-client", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("it was asked to open a page");
        };
        self.asked.lock().unwrap().push(message.clone());
        tokio::time::sleep(self.thinks_for).await;
        (self.answers.as_ref().unwrap())(&message)
    }

    #[expect(
        deprecated,
        reason = "the newest revision deprecates log messages, but most clients still use them"
    )]
    async fn on_logging_message(
        &self,
        message: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = message.data.as_str().unwrap_or_default().to_owned();
        self.messages.lock().unwrap().push(text);
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let message = progress.message.unwrap_or_default();
        self.progress
            .lock()
            .unwrap()
            .push((progress.progress, message));
    }
}

/// A client that is served.
pub(crate) struct Served {
    pub(crate) client: RunningService<RoleClient, Person>,
    pub(crate) server: JoinHandle<Result<(), ServeError>>,
}

/// Connects a client to a server.
pub(crate) async fn connect(
    server: &McpServer,
    era: &ClientLifecycleMode,
    person: &Person,
) -> Served {
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    let (input, output) = tokio::io::split(ours);
    let served = server.clone().serve(input, output, std::future::pending());
    let served = tokio::spawn(served);
    let era = match era {
        ClientLifecycleMode::Discover { .. } => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        era => era.clone(),
    };
    let client = person.clone().serve_with_lifecycle(theirs, era);
    Served {
        client: client.await.unwrap(),
        server: served,
    }
}

impl Served {
    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        self.try_call(tool, arguments).await.unwrap()
    }

    pub(crate) async fn try_call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ServiceError> {
        self.client.call_tool(request(tool, arguments)).await
    }

    /// Disconnects.
    pub(crate) async fn leave(self) {
        self.client.cancel().await.unwrap();
        self.server.await.unwrap().unwrap();
    }
}

pub(crate) fn request(tool: &str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else {
        panic!("arguments are an object");
    };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

/// Returns the text of a result.
pub(crate) fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}

/// Waits, without real time passing, until a condition holds.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

/// Returns the status of a session's last run.
pub(crate) async fn status(orchestrator: &Orchestrator, session: &str) -> Option<RunStatus> {
    let session: SessionId = session.parse().unwrap();
    let runs = orchestrator.sessions().runs(&session).await.unwrap();
    runs.unwrap_or_default().last().map(|run| run.status)
}
