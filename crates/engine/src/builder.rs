//! Collects the parts of an orchestrator.

mod agents;
mod ask_when;
mod build;
mod error;
mod rule_functions;

use std::sync::Arc;
use std::time::Duration;

use neuraxis_brainstem::{Policy, RuleFunction};
use neuraxis_core::{AgentLimits, Hook, PlanName, Role, ToolKind, ToolName, ToolSpec};
use neuraxis_ports::{
    Advisor, Approver, Clock, Ids, LiveFeed, LlmClient, ModelHook, RunDispatcher, SessionStore,
    Tool, ToolHook, ToolRunner, ToolSource, TraceSink,
};

use crate::agent::{Agent, Definition};
use crate::approval_key::ApprovalKey;
use crate::engine::Wiring;
use crate::foreign_tool::{RunByRunner, RunElsewhere};
use crate::long_result::ResultBounds;
use crate::orchestrator::Orchestrator;
use crate::resilience::RetryPolicy;
use crate::runs::{FormerEngines, VerifiedSessions};

use agents::Use;
pub(crate) use agents::alone;
pub use error::BuildError;

/// Collects what an [`Orchestrator`] needs (at least one model and a store) or what an [`Agent`] needs (at least one
/// model).
#[derive(Debug, Default)]
pub struct OrchestratorBuilder {
    wiring: Wiring,
    tools: Vec<Arc<dyn Tool>>,
    foreign: Vec<(Arc<str>, Arc<dyn Tool>)>,
    sources: Vec<Arc<dyn ToolSource>>,
    agents: Vec<(Arc<Definition>, Use)>,
    /// Names of tools that do not exist, each with the reason.
    absent: Vec<(ToolName, Arc<str>)>,
    /// The tools that the program's `ask_when` conditions are about.
    asked_about: Vec<Arc<str>>,
    approval_key: Option<ApprovalKey>,
    store: Option<Arc<dyn SessionStore>>,
    verified: Option<VerifiedSessions>,
    plan: Option<PlanName>,
    dispatcher: Option<Arc<dyn RunDispatcher>>,
    live_feed: Option<Arc<dyn LiveFeed>>,
    former: FormerEngines,
    /// The functions that the policy's rules may name.
    rule_functions: Vec<(String, RuleFunction)>,
}

impl OrchestratorBuilder {
    /// The default of [`search_tools_above`](Self::search_tools_above): with more tools than this, an agent searches
    /// them.
    ///
    /// Models choose worse from longer lists, noticeably from 30 to 50 tools on, and some providers accept at most 128.
    /// The tools that ship with Neuraxis are about a dozen, so with two ordinary servers added nothing is searched yet.
    pub const SEARCH_TOOLS_ABOVE: u32 = 50;

    /// Sets the model that serves a role. A role without a model is served by the first of reasoning, router and coding
    /// that has one.
    #[must_use]
    pub fn model(mut self, role: Role, client: Arc<dyn LlmClient>) -> Self {
        self.wiring.models.insert(role, client);
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

    /// Adds tools of a third-party server, each named `SERVER__TOOL`. What such tools say about themselves is only a
    /// claim: unless local configuration (`[trust.NAME]`) says otherwise, each is treated as one that makes
    /// irreversible changes and reaches outside this machine. A tool whose definition changes later is no longer
    /// called.
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

    /// Adds a server whose tools come and go while the process runs, such as an MCP server. Its tools are added like
    /// [`foreign_tools`](Self::foreign_tools). A tool that cannot be added, such as one whose name is already taken, is
    /// left out with a warning in the log. A run keeps using the tools that existed when it started.
    #[must_use]
    pub fn tool_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// Sets the folder, an absolute path, against which paths in calls are judged. Without it, every absolute path is
    /// treated as outside.
    #[must_use]
    pub fn root(mut self, root: impl Into<Arc<str>>) -> Self {
        self.wiring.root = Some(root.into());
        self
    }

    /// Adds an agent with its tools, its model and the agents that it calls. A request may [ask for
    /// it](crate::UserRequest::agent), and a channel may name it. The policy's settings in `[agents.NAME]` override the
    /// agent's own, key by key.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agents.push((agent.definition, Use::ByName));
        self
    }

    /// Like [`agent`](Self::agent), but other agents may also call it: every agent may be offered its tool, like the
    /// tools added by [`tool`](Self::tool).
    #[must_use]
    pub fn agent_tool(mut self, agent: Agent) -> Self {
        self.agents.push((agent.definition, Use::AsTool));
        self
    }

    /// Adds a tool that the caller runs: a run that calls it waits until the caller supplies the result. If the data
    /// policy keeps parts of the run out of its log, the run could not continue after waiting, so the call is refused
    /// and the model is told why.
    #[must_use]
    pub fn client_tool(mut self, spec: ToolSpec) -> Self {
        let kind = ToolKind::Client;
        self.tools
            .push(Arc::new(RunElsewhere(ToolSpec { kind, ..spec })));
        self
    }

    /// Adds tools that a runner executes, such as a worker or a sandbox.
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

    /// Sets the advisor that is asked at these points of the loop and may end the loop there.
    #[must_use]
    pub fn advisor(
        mut self,
        hooks: impl IntoIterator<Item = Hook>,
        advisor: Arc<dyn Advisor>,
    ) -> Self {
        self.wiring.hooks = hooks.into_iter().collect();
        self.wiring.advisor = Some(advisor);
        self
    }

    /// Adds code that inspects each tool call before it is checked and each result before the model reads it. Hooks are
    /// asked in the order in which they are added.
    #[must_use]
    pub fn tool_hook(mut self, hook: Arc<dyn ToolHook>) -> Self {
        self.wiring.tool_hooks.push(hook);
        self
    }

    /// Adds code that inspects what models are sent and what they reply, such as a guardrail. Hooks are asked in the
    /// order in which they are added.
    #[must_use]
    pub fn model_hook(mut self, hook: Arc<dyn ModelHook>) -> Self {
        self.wiring.model_hooks.push(hook);
        self
    }

    /// Sets the maximum number of tool calls in a run, including those of its sub-agents.
    #[must_use]
    pub const fn tool_call_limit(mut self, most: u32) -> Self {
        self.wiring.tool_call_limit = Some(most);
        self
    }

    /// Sets the maximum number of agents that a run may start, and how deep, whatever its policy and its agents say.
    /// Without this limit they decide; their defaults are 64 agents, two levels deep.
    #[must_use]
    pub const fn agent_limits(mut self, most: AgentLimits) -> Self {
        self.wiring.agent_limits = Some(most);
        self
    }

    /// Sets the policy, instead of the built-in one.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.wiring.policy = Arc::new(policy);
        self
    }

    /// Sets the store for sessions and records. An [`Orchestrator`] needs a store; an [`Agent`] uses none.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Verifies that a session is unaltered, with [`SessionIndex::verify`](neuraxis_ports::SessionIndex::verify),
    /// before a request or a resumed run continues it. An altered session is refused, and nothing is written.
    ///
    /// A session that was found unaltered is not checked again for 5 to 10 minutes, or less if more than 8,192 sessions
    /// are in use, so a change made in that time is found afterwards. What `verify` cannot detect is not detected here
    /// either: a log that was rewritten as a whole, or cut off at its end.
    #[must_use]
    pub fn verify_sessions(mut self) -> Self {
        self.verified = Some(VerifiedSessions::new());
        self
    }

    /// Lets other processes on the same store drive the runs that begin here, and those that were left or answered; the
    /// other processes resume them with [`Runs::resume_stepwise`](crate::Runs::resume_stepwise). This process governs
    /// requests, stores the input it receives, and follows its runs in the store. A run whose data policy keeps
    /// something out of its log cannot be resumed elsewhere, so it is driven here. Without a dispatcher all runs are.
    #[must_use]
    pub fn dispatcher(mut self, dispatcher: Arc<dyn RunDispatcher>) -> Self {
        self.dispatcher = Some(dispatcher);
        self
    }

    /// Exchanges live events of runs with the other processes on the same store: sends this process's events to those
    /// that follow the run, and receives theirs, for as long as
    /// [`Runs::keep_live_exchange`](crate::Runs::keep_live_exchange) is being awaited. Without a live feed, only the
    /// process that drives a run sees it word by word; other processes see it record by record.
    ///
    /// What the data policy of a run keeps out of the store is not sent to other processes either.
    #[must_use]
    pub fn live_feed(mut self, feed: Arc<dyn LiveFeed>) -> Self {
        self.live_feed = Some(feed);
        self
    }

    /// Replaces another engine of this process on the same store. The program must stop sending new requests to the
    /// former engine, which would still accept them under its own policy. Runs in progress on the former engine stay
    /// there until they end or are left. They immediately receive input posted to them here, and their events are shown
    /// here as they happen. A caller that [follows](crate::Runs::attach) a run there continues here once the former
    /// engine has stopped. Without this call the store cannot tell the two engines apart, and input posted here takes
    /// over the run.
    #[must_use]
    pub fn replaces(mut self, former: &Orchestrator) -> Self {
        self.former = FormerEngines::up_to(&former.runs().parts);
        self
    }

    /// Adds a sink that receives every record.
    #[must_use]
    pub fn trace_sink(mut self, sink: Arc<dyn TraceSink>) -> Self {
        self.wiring.sinks.push(sink);
        self
    }

    /// Sets the approver that is asked about calls that need approval. Without one, such calls are denied.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.wiring.approver = approver;
        self
    }

    /// Lets questions of tools, such as those of MCP servers, wait this long for an answer from outside. Each question
    /// is shown in the events of its run ([`LiveBody::Question`](neuraxis_core::LiveBody)) and by
    /// [`Runs::questions`](crate::Runs::questions), and is answered by
    /// [`Runs::answer_question`](crate::Runs::answer_question). A question that is not answered in time is cancelled
    /// for its tool. Meant for programs whose users follow runs and can answer, such as a server with a web page.
    ///
    /// Without it the approver [answers](Approver::answer), and by default declines. The approver of a request takes
    /// precedence over both. A tool that waits for an answer does not count toward
    /// [`max_parallel_tools`](Self::max_parallel_tools).
    #[must_use]
    pub const fn questions_open_for(mut self, time: Duration) -> Self {
        self.wiring.questions_open_for = Some(time);
        self
    }

    /// Sets the key that authenticates approvals. An approval read back from the store, whether of one call or for the
    /// rest of a session, is valid only if it was given through an engine with the same key. An approval written into
    /// the store in any other way lets nothing run; the user is asked again.
    ///
    /// Engines on the same store need the same key. Without this call each engine generates its own key, and asks again
    /// about what was allowed before it was built.
    #[must_use]
    pub fn approval_key(mut self, key: ApprovalKey) -> Self {
        self.approval_key = Some(key);
        self
    }

    /// Sets the clock, instead of the system's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.wiring.clock = clock;
        self
    }

    /// Sets the source of ids, instead of UUIDv7.
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.wiring.ids = ids;
        self
    }

    /// Sets how failed model calls are retried.
    #[must_use]
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.wiring.retry = retry;
        self
    }

    /// Sets the project that tools work for.
    #[must_use]
    pub fn project_id(mut self, project: impl Into<Arc<str>>) -> Self {
        self.wiring.project_id = Some(project.into());
        self
    }

    /// Sets the plan limits for requests that name no plan: one of the policy's `[plans.NAME]`. A request that names a
    /// plan uses that one instead. If the policy does not have the plan, building the orchestrator fails.
    #[must_use]
    pub fn default_plan(mut self, plan: PlanName) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets how many tools may run at the same time, over all runs; the minimum is one.
    #[must_use]
    pub const fn max_parallel_tools(mut self, most: usize) -> Self {
        self.wiring.max_parallel_tools = most;
        self
    }

    /// Sets the number of tools above which an agent searches them; [`SEARCH_TOOLS_ABOVE`](Self::SEARCH_TOOLS_ABOVE) by
    /// default. Above it, the agent's requests hold the program's own tools, those that the agent asks for by name,
    /// those that suit the user's message, and `find_tools`, with which the model finds the others. What an agent may
    /// call does not change.
    ///
    /// If the program's own tools alone exceed the number, they are searched too. With 0, all tools are searched except
    /// those that an agent asks for by name or cannot do without; with [`u32::MAX`], none.
    ///
    /// ```
    /// use neuraxis_engine::Orchestrator;
    ///
    /// // For a model that chooses badly from long lists.
    /// let builder = Orchestrator::builder().search_tools_above(20);
    /// # let _ = builder;
    /// ```
    #[must_use]
    pub const fn search_tools_above(mut self, most: u32) -> Self {
        self.wiring.search_above = most;
        self
    }

    /// States why a tool that policies and models may know by name does not exist, such as a tool that needs something
    /// this machine lacks. Every caller of that name reads the reason, including a model. Adding a tool of that name
    /// overrides this.
    #[must_use]
    pub fn absent_tool(mut self, name: ToolName, why: impl Into<Arc<str>>) -> Self {
        self.absent.push((name, why.into()));
        self
    }

    /// Sets limits on results of tools: how much of a result a model reads, and how much is stored beside the run. A
    /// model reads the rest with the tool `read_output`, which an [`Orchestrator`] offers with every tool that it runs.
    /// An [`Agent`] stores nothing, so what is cut there is lost.
    #[must_use]
    pub const fn result_bounds(mut self, bounds: ResultBounds) -> Self {
        self.wiring.result_bounds = bounds;
        self
    }
}
