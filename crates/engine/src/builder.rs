//! How an orchestrator is put together.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_brainstem::Policy;
use neuraxis_core::{Hook, PlanName, Role, ToolKind, ToolSpec};
use neuraxis_ports::{
    Advisor, Approver, ApproverReply, Clock, Ids, LlmClient, SessionStore, Tool, ToolRunner,
    TraceSink, async_trait,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::Agent;
use crate::agent_tool::{AgentTool, RunByRunner, RunElsewhere};
use crate::approval_key::ApprovalKey;
use crate::catalog::{CatalogError, ToolCatalog};
use crate::engine::Engine;
use crate::foreign_tool::ForeignTool;
use crate::health::SharedHealth;
use crate::orchestrator::{Orchestrator, Parts};
use crate::resilience::RetryPolicy;
use crate::runs::{ActiveRuns, Governed, LostRuns, VerifiedSessions};
use crate::system::{SystemClock, UuidV7};

/// How many tools may run at the same time, over all runs, unless the builder says otherwise.
const DEFAULT_MAX_PARALLEL_TOOLS: usize = 64;

/// Collects what an [`Orchestrator`] needs: at least one model.
#[derive(Debug)]
pub struct OrchestratorBuilder {
    models: BTreeMap<Role, Arc<dyn LlmClient>>,
    tools: Vec<Arc<dyn Tool>>,
    foreign: Vec<(Arc<str>, Arc<dyn Tool>)>,
    root: Option<Arc<str>>,
    agents: Vec<AgentTool>,
    hooks: Vec<Hook>,
    advisor: Option<Arc<dyn Advisor>>,
    tool_call_limit: Option<u32>,
    policy: Arc<Policy>,
    store: Option<Arc<dyn SessionStore>>,
    verified: Option<VerifiedSessions>,
    sinks: Vec<Arc<dyn TraceSink>>,
    approver: Arc<dyn Approver>,
    approval_key: Option<ApprovalKey>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    retry: RetryPolicy,
    project_id: Option<Arc<str>>,
    plan: Option<PlanName>,
    max_parallel_tools: usize,
}

/// What is missing from, or wrong with, an orchestrator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No model was given.
    #[error("no model was given: add one with `model`")]
    NoModel,
    /// No store was given.
    #[error(
        "no session store was given: add one with `store`, or build an agent with `build_agent`"
    )]
    NoStore,
    /// A tool cannot be offered.
    #[error(transparent)]
    Tool(#[from] CatalogError),
    /// No key for approvals could be made.
    #[error("the system gives no randomness for the key of approvals")]
    NoRandomness(#[source] std::io::Error),
}

impl OrchestratorBuilder {
    pub(crate) fn new() -> Self {
        Self {
            models: BTreeMap::new(),
            tools: Vec::new(),
            foreign: Vec::new(),
            root: None,
            agents: Vec::new(),
            hooks: Vec::new(),
            advisor: None,
            tool_call_limit: None,
            policy: Arc::new(Policy::built_in()),
            store: None,
            verified: None,
            sinks: Vec::new(),
            approver: Arc::new(NobodyApproves),
            approval_key: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(UuidV7),
            retry: RetryPolicy::default(),
            project_id: None,
            plan: None,
            max_parallel_tools: DEFAULT_MAX_PARALLEL_TOOLS,
        }
    }

    /// Sets the model that serves a role. A role without one is served by the first there is of reasoning, router and
    /// coding.
    #[must_use]
    pub fn model(mut self, role: Role, client: Arc<dyn LlmClient>) -> Self {
        self.models.insert(role, client);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds several tools.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Adds tools of somebody else's server, each named `SERVER__TOOL`. What they say about themselves is a claim: without a
    /// word of local configuration (`[trust.NAME]`) each counts as one that changes things for good and reaches outside this
    /// machine. One whose definition changes later is not called any more.
    #[must_use]
    pub fn foreign_tools(
        mut self,
        server: impl Into<Arc<str>>,
        tools: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> Self {
        let server = server.into();
        let tools = tools.into_iter().map(|tool| (Arc::clone(&server), tool));
        self.foreign.extend(tools);
        self
    }

    /// Names the folder that paths in calls are judged from, an absolute path. Without it, every absolute path counts as
    /// outside.
    #[must_use]
    pub fn root(mut self, root: impl Into<Arc<str>>) -> Self {
        self.root = Some(root.into());
        self
    }

    /// Adds a sub-agent, which models call as a tool.
    #[must_use]
    pub fn agent(mut self, agent: AgentTool) -> Self {
        self.tools.push(Arc::new(RunElsewhere(agent.spec.clone())));
        self.agents.push(agent);
        self
    }

    /// Adds a tool that the caller runs: a run that calls it waits until its result is brought.
    #[must_use]
    pub fn client_tool(mut self, spec: ToolSpec) -> Self {
        let kind = ToolKind::Client;
        self.tools
            .push(Arc::new(RunElsewhere(ToolSpec { kind, ..spec })));
        self
    }

    /// Adds tools that a runner runs, such as a worker or a sandbox.
    #[must_use]
    pub fn tool_runner(
        mut self,
        runner: &Arc<dyn ToolRunner>,
        specs: impl IntoIterator<Item = ToolSpec>,
    ) -> Self {
        let tools = specs.into_iter().map(|spec| {
            let runner = Arc::clone(runner);
            Arc::new(RunByRunner { spec, runner }) as Arc<dyn Tool>
        });
        self.tools.extend(tools);
        self
    }

    /// Sets who is asked at these points of the loop, and may end it there.
    #[must_use]
    pub fn advisor(
        mut self,
        hooks: impl IntoIterator<Item = Hook>,
        advisor: Arc<dyn Advisor>,
    ) -> Self {
        self.hooks = hooks.into_iter().collect();
        self.advisor = Some(advisor);
        self
    }

    /// Sets how many tool calls a run may make at the most, those of its sub-agents included.
    #[must_use]
    pub const fn tool_call_limit(mut self, most: u32) -> Self {
        self.tool_call_limit = Some(most);
        self
    }

    /// Sets the policy, in place of the built-in one.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Sets where sessions and records are kept. An [`Orchestrator`] needs a store; an [`Agent`] uses none.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Makes sure that a session is what was kept, by [`SessionStore::verify`], before a request or a run that is taken up
    /// goes on from it. One that is not is refused, and nothing is written.
    ///
    /// A session found whole is not looked at again for 5 minutes at the least and 10 at the most: what is altered
    /// meanwhile is found after that. What verifying cannot find this does not find either: a log that was made anew as a
    /// whole, or cut off at its end.
    #[must_use]
    pub fn verify_sessions(mut self) -> Self {
        self.verified = Some(VerifiedSessions::new());
        self
    }

    /// Adds a sink that receives every record.
    #[must_use]
    pub fn trace_sink(mut self, sink: Arc<dyn TraceSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Sets who is asked about calls that need approval. Without one, such calls are denied.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Sets the key by which approvals count. One that is read back from the store, be it of a call or for the rest of a
    /// session, counts only if it was given through an engine with the same key: what was written into the store in
    /// another way lets nothing run, and a person is asked again.
    ///
    /// Engines on the same store need the same key. Without one, each makes its own: what was allowed before it was built
    /// is asked about again.
    #[must_use]
    pub fn approval_key(mut self, key: ApprovalKey) -> Self {
        self.approval_key = Some(key);
        self
    }

    /// Sets the clock, in place of the system's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets who makes ids, in place of UUIDv7.
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets how failed model calls are repeated.
    #[must_use]
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Names the project that tools work for.
    #[must_use]
    pub fn project_id(mut self, project: impl Into<Arc<str>>) -> Self {
        self.project_id = Some(project.into());
        self
    }

    /// Sets the plan of requests that name none: which of the policy's `[plans.NAME]` limits them. A request that names a
    /// plan of its own has that one instead.
    #[must_use]
    pub fn default_plan(mut self, plan: PlanName) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets how many tools may run at the same time, over all runs; at least one.
    #[must_use]
    pub const fn max_parallel_tools(mut self, most: usize) -> Self {
        self.max_parallel_tools = most;
        self
    }

    /// Puts the orchestrator together.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names what is missing or which tool is wrong.
    pub fn build(mut self) -> Result<Orchestrator, BuildError> {
        let store = self.store.take().ok_or(BuildError::NoStore)?;
        let (verified, plan) = (self.verified.take(), self.plan.take());
        Ok(Orchestrator::new(Arc::new(Parts {
            engine: Arc::new(self.engine()?),
            store,
            verified,
            plan,
            governed: Governed::default(),
            active: ActiveRuns::default(),
            lost: LostRuns::default(),
        })))
    }

    /// Puts together what runs without sessions and without governance. A store is not used.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names what is missing or which tool is wrong.
    pub fn build_agent(self) -> Result<Agent, BuildError> {
        let engine = Arc::new(self.engine()?);
        Ok(Agent { engine })
    }

    fn engine(self) -> Result<Engine, BuildError> {
        if self.models.is_empty() {
            return Err(BuildError::NoModel);
        }
        let mut catalog = ToolCatalog::default();
        for tool in self.tools {
            catalog.add(tool)?;
        }
        for (server, tool) in self.foreign {
            // The policy may have been set after the tools were added.
            let tool = ForeignTool::new(&server, tool, &self.policy)?;
            catalog.add(Arc::new(tool))?;
        }
        check_agents(&self.agents, &catalog)?;
        let approval_key = match self.approval_key {
            Some(key) => key,
            None => ApprovalKey::random().map_err(BuildError::NoRandomness)?,
        };
        let shutdown = CancellationToken::new();
        let roles = self.models.keys().cloned().collect();
        Ok(Engine {
            models: self.models,
            catalog,
            policy: self.policy,
            root: self.root,
            agents: self.agents,
            hooks: self.hooks,
            advisor: self.advisor,
            tool_call_limit: self.tool_call_limit,
            sinks: self.sinks,
            approver: self.approver,
            approval_key,
            clock: self.clock,
            ids: self.ids,
            retry: self.retry,
            health: SharedHealth::default(),
            roles,
            project_id: self.project_id,
            tool_permits: Arc::new(Semaphore::new(
                self.max_parallel_tools.clamp(1, Semaphore::MAX_PERMITS),
            )),
            tasks: TaskTracker::new(),
            closing: shutdown.child_token(),
            shutdown,
        })
    }
}

fn check_agents(agents: &[AgentTool], catalog: &ToolCatalog) -> Result<(), CatalogError> {
    for agent in agents {
        let missing = agent.tools.iter().find(|tool| catalog.tool(tool).is_none());
        if let Some(tool) = missing {
            return Err(CatalogError::AgentWithoutTool {
                agent: agent.spec.name.clone(),
                tool: tool.clone(),
                known: catalog.names(),
            });
        }
    }
    Ok(())
}

/// The approver where there is nobody to ask.
#[derive(Debug)]
struct NobodyApproves;

#[async_trait]
impl Approver for NobodyApproves {
    async fn decide(&self, _ask: &neuraxis_core::AskApproval) -> ApproverReply {
        ApproverReply::Nobody
    }
}
