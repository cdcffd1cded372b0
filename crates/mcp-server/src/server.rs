//! The server: how it describes itself, and where each request goes.
#![expect(
    deprecated,
    reason = "the newest revision deprecates log messages, but most clients still use them"
)]

use std::fmt;
use std::sync::Arc;

use neuraxis_brainstem::Policy;
use neuraxis_core::{AgentName, Channel, Mode};
use neuraxis_engine::{Orchestrator, UserRequest};
use neuraxis_ports::{CancellationToken, RequestContext as CallerContext};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::call::Call;
use crate::http::reserved_id;
use crate::log_messages::WantedLevel;
use crate::offers::{Choice, Offers};
use crate::request_state::RequestStates;
use crate::sessions;

/// How long a client may use the list of tools before asking again, in milliseconds: the server may reload its
/// configuration meanwhile and does not notify clients.
const TOOLS_TTL_MS: u64 = 60_000;

/// The description of this server that a client gives its model.
const INSTRUCTIONS: &str = "Each tool hands a task to an agent, which works on it independently under the rules of \
    this installation and returns an answer. To continue a conversation, pass the `session_id` of its result as \
    `session` with the same `channel` and `mode`, which are not remembered. A session handles one request at a time.";

/// Added to the description if sessions are shown.
const SESSIONS: &str = " Past sessions are available as resources.";

/// Returns a request unchanged or narrowed, or the reason for refusing it.
type Admit = Arc<dyn Fn(UserRequest) -> Result<UserRequest, String> + Send + Sync>;

/// Adds to the context with which a run resumes.
type ResumeContextFn = Arc<dyn Fn(CallerContext) -> CallerContext + Send + Sync>;

/// An orchestrator that MCP clients may call. Clones share everything.
#[derive(Clone)]
pub struct McpServer {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) offers: Arc<Offers>,
    /// What clients may choose.
    pub(crate) choice: Choice,
    /// The owner of the sessions. If `None`, every owner's sessions are accessible.
    pub(crate) owner: Option<Arc<str>>,
    /// Limits the number of concurrent runs; unlimited if `None`.
    pub(crate) run_permits: Option<Arc<Semaphore>>,
    /// Whether the user at a client may approve calls.
    pub(crate) asks: bool,
    /// Whether sessions are exposed as resources.
    pub(crate) shows_sessions: bool,
    /// An additional check that a request must pass.
    pub(crate) admit: Option<Admit>,
    /// Adds to the context of a run that resumes after a decision.
    pub(crate) resume_context: Option<ResumeContextFn>,
    /// Which log messages the client wants.
    pub(crate) level: Arc<WantedLevel>,
    pub(crate) states: RequestStates,
    /// Cancelled when the orchestrator stops.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when clients must not be asked any more. If `None`, that is when the orchestrator stops.
    asking_until: Option<CancellationToken>,
    /// The calls in progress, and the remaining work for those that were cancelled.
    pub(crate) tasks: TaskTracker,
}

impl McpServer {
    /// Offers an orchestrator: its agents as they are now, in the modes that allow tools no more than `moderate` does.
    #[must_use]
    pub fn new(orchestrator: Orchestrator) -> Self {
        let choice = Choice::of_modes(orchestrator.policy().modes_no_freer_than(&Mode::MODERATE));
        Self {
            offers: Arc::new(Offers::of(orchestrator.policy(), &choice)),
            choice,
            orchestrator,
            owner: None,
            run_permits: None,
            asks: true,
            shows_sessions: true,
            admit: None,
            resume_context: None,
            level: Arc::default(),
            states: RequestStates::default(),
            stopping: CancellationToken::new(),
            asking_until: None,
            tasks: TaskTracker::new(),
        }
    }

    /// Sets the modes that clients may choose, instead of those no freer than `moderate`. The caller is usually a
    /// model: if you allow a mode in which calls need no approval, that model can choose it.
    #[must_use]
    pub fn modes(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        let listed: Vec<Mode> = modes.into_iter().collect();
        self.choice.modes = self.orchestrator.policy().modes_among(&listed);
        self.rebuild_offers()
    }

    /// Sets the channels that clients may choose, instead of all. If there is only one, a call that names none uses it.
    #[must_use]
    pub fn channels(mut self, channels: impl IntoIterator<Item = Channel>) -> Self {
        self.choice.channels = Some(channels.into_iter().collect());
        self.rebuild_offers()
    }

    /// Sets the agents that are offered as tools, instead of all. Which agent answers a plain question depends on its
    /// channel.
    #[must_use]
    pub fn agents(mut self, agents: impl IntoIterator<Item = AgentName>) -> Self {
        self.choice.agents = Some(agents.into_iter().collect());
        self.rebuild_offers()
    }

    /// Leaves out the plain question, for clients that may use none of the agents that answer it.
    #[must_use]
    pub fn without_ask(mut self) -> Self {
        self.choice.ask = false;
        self.rebuild_offers()
    }

    fn rebuild_offers(mut self) -> Self {
        self.offers = Arc::new(Offers::of(self.policy(), &self.choice));
        self
    }

    /// Sets the owner of these requests: clients create and see only this owner's sessions. Without it, they see all
    /// sessions.
    #[must_use]
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the semaphore that limits concurrent runs. A call that would start a run while no permit is available is
    /// refused. A run that resumes after a decision of its client is not refused: it resumes immediately and takes the
    /// next permit, ahead of runs that would start. Other code that starts runs can share the semaphore.
    #[must_use]
    pub fn run_permits(mut self, permits: Arc<Semaphore>) -> Self {
        self.run_permits = Some(permits);
        self
    }

    /// Asks clients nothing: the orchestrator's approver decides about calls that need approval. For unauthenticated
    /// clients, because a program that a model started could otherwise approve its own calls.
    #[must_use]
    pub fn without_questions(mut self) -> Self {
        self.asks = false;
        self
    }

    /// Exposes no sessions as resources. For clients that may ask but must not read earlier conversations.
    #[must_use]
    pub fn without_sessions(mut self) -> Self {
        self.shows_sessions = false;
        self
    }

    /// Sets a function that can narrow each request, for example to plan limits, or refuse it before its run begins.
    /// The reason for a refusal is returned to the model that called.
    #[must_use]
    pub fn admit(
        mut self,
        admit: impl Fn(UserRequest) -> Result<UserRequest, String> + Send + Sync + 'static,
    ) -> Self {
        self.admit = Some(Arc::new(admit));
        self
    }

    /// Sets a function that adds to the context of each run that a decision of its client resumes, such as a guard that
    /// counts the run. The addition is dropped when the run ends or is suspended again. What [`admit`](Self::admit)
    /// added has been dropped by then.
    #[must_use]
    pub fn resume_context(
        mut self,
        add: impl Fn(CallerContext) -> CallerContext + Send + Sync + 'static,
    ) -> Self {
        self.resume_context = Some(Arc::new(add));
        self
    }

    /// Uses existing request states, so that answers to questions of the server that this one replaces are accepted.
    /// Only for a server with the same clients as the other. By default a server has its own states.
    #[must_use]
    pub fn request_states(mut self, states: RequestStates) -> Self {
        self.states = states;
        self
    }

    /// Stops asking clients once `stopping` is cancelled, for when the orchestrator stops. A call that is waiting for
    /// its client returns what its run waits for, and no run is cancelled because its client disconnects.
    #[must_use]
    pub fn stopping(mut self, stopping: CancellationToken) -> Self {
        self.stopping = stopping;
        self
    }

    /// Stops asking clients once `until` is cancelled, for when another orchestrator replaces this one and answers from
    /// clients with sessions no longer arrive here. `until` must be a child of the token given to
    /// [`stopping`](Self::stopping). A call that is waiting for its client returns what its run waits for, and a tool
    /// that asked learns that no answer will come. Other calls continue.
    #[must_use]
    pub fn asking_until(mut self, until: CancellationToken) -> Self {
        self.asking_until = Some(until);
        self
    }

    /// Returns the server for another client, which has set no log level yet.
    pub(crate) fn for_client(&self) -> Self {
        Self {
            level: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the token that is cancelled when clients must not be asked any more.
    pub(crate) fn asking_ended(&self) -> &CancellationToken {
        self.asking_until.as_ref().unwrap_or(&self.stopping)
    }

    pub(crate) fn policy(&self) -> &Policy {
        self.orchestrator.policy()
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("choice", &self.choice)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_logging()
            .build();
        let mut instructions = INSTRUCTIONS.to_owned();
        match self.shows_sessions {
            true => instructions.push_str(SESSIONS),
            false => capabilities.resources = None,
        }
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("neuraxis", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offers.tools().cloned().collect();
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(TOOLS_TTL_MS))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Some(self.offers.find(name)?.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let pending_ids = (self.tasks.token(), reserved_id(&context));
        let answer = Call::new(self, context).answer(request).await;
        drop(pending_ids);
        answer
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.level.set(request.level);
        Ok(())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        sessions::list(self, cursor.as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(sessions::templates(self))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(sessions::read(self, &request.uri).await?.into())
    }
}
