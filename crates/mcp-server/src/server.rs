//! The server: what it says of itself, and where each request goes.
#![expect(
    deprecated,
    reason = "the newest revision is to lose log messages one day, and most clients know them"
)]

use std::fmt;
use std::sync::Arc;

use neuraxis_brainstem::Policy;
use neuraxis_core::{AgentName, Channel, Mode, Reply};
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
use crate::http::id_of;
use crate::log_messages::WantedLevel;
use crate::offers::{Choice, Offers};
use crate::request_state::RequestStates;
use crate::sessions;

/// How long a client may use the list of tools before it asks again, in milliseconds: a server may read its configuration anew
/// meanwhile, and tells nobody of it.
const TOOLS_TTL_MS: u64 = 60_000;

/// What a client tells its model of this server.
const INSTRUCTIONS: &str = "Each tool hands a task to an agent, which works on it by itself under the rules of this \
    installation and answers. A result names its session_id: give it as `session` to go on with that conversation, and the \
    same `channel` and `mode` with it, which are not remembered. A session does one thing at a time.";

/// What it tells besides where sessions are shown.
const SESSIONS: &str = " Past sessions are resources.";

/// Takes a request as it is or narrowed, or says why not.
type Admit = Arc<dyn Fn(UserRequest) -> Result<UserRequest, String> + Send + Sync>;

/// Adds to what a run is given when it goes on.
type GoingOn = Arc<dyn Fn(CallerContext) -> CallerContext + Send + Sync>;

/// An orchestrator that MCP clients may call. Cloning shares everything.
#[derive(Clone)]
pub struct McpServer {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) offers: Arc<Offers>,
    /// What clients may choose.
    pub(crate) choice: Choice,
    /// Whose the sessions are; everybody's if `None`.
    pub(crate) owner: Option<Arc<str>>,
    /// How many runs there may be at a time; any number if `None`.
    pub(crate) places: Option<Arc<Semaphore>>,
    /// Whether the person at a client may approve calls.
    pub(crate) asks: bool,
    /// Whether sessions are resources.
    pub(crate) shows_sessions: bool,
    /// What of all that models say is no answer.
    pub(crate) is_no_answer: fn(&Reply) -> bool,
    /// What else a request has to pass.
    pub(crate) admit: Option<Admit>,
    /// What else a run is given that goes on with a decision.
    pub(crate) going_on: Option<GoingOn>,
    /// Which log messages the client wants.
    pub(crate) level: Arc<WantedLevel>,
    pub(crate) states: RequestStates,
    /// Cancelled when the orchestrator stops.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when nobody is asked any more; when the orchestrator stops, if `None`.
    asking_until: Option<CancellationToken>,
    /// The calls that are under way, and what still has to be done for those that were given up.
    pub(crate) tasks: TaskTracker,
}

impl McpServer {
    /// Offers an orchestrator: its agents as they are now, in the modes that let tools do no more than `moderate` does.
    #[must_use]
    pub fn new(orchestrator: Orchestrator) -> Self {
        let choice = Choice::of_modes(orchestrator.policy().modes_no_freer_than(&Mode::MODERATE));
        Self {
            offers: Arc::new(Offers::of(orchestrator.policy(), &choice)),
            choice,
            orchestrator,
            owner: None,
            places: None,
            asks: true,
            shows_sessions: true,
            is_no_answer: |_| false,
            admit: None,
            going_on: None,
            level: Arc::default(),
            states: RequestStates::default(),
            stopping: CancellationToken::new(),
            asking_until: None,
            tasks: TaskTracker::new(),
        }
    }

    /// Sets the modes that clients may choose, in place of those that are no freer than `moderate`. Who calls is a model as
    /// a rule: a mode in which calls need no approval is one that this model can choose.
    #[must_use]
    pub fn modes(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        self.choice.modes = modes.into_iter().collect();
        self.offering_anew()
    }

    /// Sets the channels that clients may choose, in place of all. A call that names none is on the only one, if it is one.
    #[must_use]
    pub fn channels(mut self, channels: impl IntoIterator<Item = Channel>) -> Self {
        self.choice.channels = Some(channels.into_iter().collect());
        self.offering_anew()
    }

    /// Sets the agents that are tools, in place of all. Who answers a plain question is left to its channel.
    #[must_use]
    pub fn agents(mut self, agents: impl IntoIterator<Item = AgentName>) -> Self {
        self.choice.agents = Some(agents.into_iter().collect());
        self.offering_anew()
    }

    /// Leaves out the plain question. For clients that may use none of the agents which answer one.
    #[must_use]
    pub fn without_ask(mut self) -> Self {
        self.choice.ask = false;
        self.offering_anew()
    }

    fn offering_anew(mut self) -> Self {
        self.offers = Arc::new(Offers::of(self.policy(), &self.choice));
        self
    }

    /// Says whose requests these are: clients make and see sessions of this owner and no others. Left out, they see all.
    #[must_use]
    pub fn owner(mut self, owner: &str) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets where a run takes its place: a call that finds none for a run that begins is refused. A run that goes on with a
    /// decision of its client is not: it goes on at once, and takes the next place that is free from others that would begin.
    /// Whoever else begins runs can share it.
    #[must_use]
    pub fn places(mut self, places: Arc<Semaphore>) -> Self {
        self.places = Some(places);
        self
    }

    /// Puts no questions to clients: the orchestrator's approver decides about calls that need approval. For clients that
    /// nobody knows: a program that a model had run could approve its own calls.
    #[must_use]
    pub fn without_questions(mut self) -> Self {
        self.asks = false;
        self
    }

    /// Shows no sessions: there are no resources. For clients that may ask and not read what was said before.
    #[must_use]
    pub fn without_sessions(mut self) -> Self {
        self.shows_sessions = false;
        self
    }

    /// Takes a run for one that came to no answer if this finds what was said last in it to be none, as
    /// `OfflineModel::is_no_answer` does: the client gets it as an error.
    #[must_use]
    pub fn no_answer_is(mut self, is_no_answer: fn(&Reply) -> bool) -> Self {
        self.is_no_answer = is_no_answer;
        self
    }

    /// Lets whoever offers the server narrow each request, by a plan for instance, or refuse it before its run begins. Why it
    /// is refused is told to the model that called.
    #[must_use]
    pub fn admit(
        mut self,
        admit: impl Fn(UserRequest) -> Result<UserRequest, String> + Send + Sync + 'static,
    ) -> Self {
        self.admit = Some(Arc::new(admit));
        self
    }

    /// Lets whoever offers the server add to the context of each run that a decision of its client lets go on, such as what
    /// counts it: dropped when the run is over or put aside again. What [`admit`](Self::admit) gave it is gone by then.
    #[must_use]
    pub fn going_on(
        mut self,
        give: impl Fn(CallerContext) -> CallerContext + Send + Sync + 'static,
    ) -> Self {
        self.going_on = Some(Arc::new(give));
        self
    }

    /// Opens what these sealed: answers to what another server asked, whose place this one takes, count. For clients that were
    /// the other's alone. States of its own, if left out.
    #[must_use]
    pub fn request_states(mut self, states: RequestStates) -> Self {
        self.states = states;
        self
    }

    /// Asks nobody any more once `stopping` is cancelled, for when the orchestrator stops: a call that asks its client is
    /// answered with what its run waits for, and no run is cancelled because its client is gone.
    #[must_use]
    pub fn stopping(mut self, stopping: CancellationToken) -> Self {
        self.stopping = stopping;
        self
    }

    /// Asks nobody any more once `until` is cancelled, a child of what [`stopping`](Self::stopping) was given, for when another
    /// orchestrator takes the place of this one: answers of clients with sessions do not come here any more. A call that asks
    /// its client is answered with what its run waits for, and a tool that asked hears that nobody answers; others go on.
    #[must_use]
    pub fn asking_until(mut self, until: CancellationToken) -> Self {
        self.asking_until = Some(until);
        self
    }

    /// Returns the server for another client, which has not asked for anything yet.
    pub(crate) fn for_client(&self) -> Self {
        Self {
            level: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns what is cancelled when nobody is asked any more.
    pub(crate) fn asked_until(&self) -> &CancellationToken {
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
        let under_way = (self.tasks.token(), id_of(&context));
        let answer = Call::new(self, context).answer(request).await;
        drop(under_way);
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
