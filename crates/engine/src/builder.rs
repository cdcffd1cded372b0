//! How an orchestrator is put together.

mod agents;
mod ask_when;
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
use crate::catalog::ToolCatalog;
use crate::catalogs::Catalogs;
use crate::engine::{Engine, Wiring};
use crate::foreign_tool::{ForeignTool, RunByRunner, RunElsewhere};
use crate::live::LiveExchange;
use crate::long_result::ResultBounds;
use crate::long_result::read_output::ReadOutput;
use crate::orchestrator::{Orchestrator, Parts};
use crate::resilience::RetryPolicy;
use crate::runs::{
    ActiveRuns, DecisionCache, FormerEngines, KnownSessions, LostRuns, Successor, VerifiedSessions,
};

pub(crate) use agents::alone;
use agents::{Use, agent_set, answers};
pub use error::BuildError;

/// Collects what an [`Orchestrator`] needs, at least one model and a store, or what an [`Agent`] needs, at least one model.
#[derive(Debug, Default)]
pub struct OrchestratorBuilder {
    wiring: Wiring,
    tools: Vec<Arc<dyn Tool>>,
    foreign: Vec<(Arc<str>, Arc<dyn Tool>)>,
    sources: Vec<Arc<dyn ToolSource>>,
    agents: Vec<(Arc<Definition>, Use)>,
    /// Why there are no tools of these names.
    absent: Vec<(ToolName, Arc<str>)>,
    /// The tools that a program's conditions are about.
    asked_about: Vec<Arc<str>>,
    approval_key: Option<ApprovalKey>,
    store: Option<Arc<dyn SessionStore>>,
    verified: Option<VerifiedSessions>,
    plan: Option<PlanName>,
    dispatcher: Option<Arc<dyn RunDispatcher>>,
    live_feed: Option<Arc<dyn LiveFeed>>,
    former: FormerEngines,
    /// The functions that rules of the policy may name.
    rule_functions: Vec<(String, RuleFunction)>,
}

impl OrchestratorBuilder {
    /// With more tools than this an agent searches them, unless [somebody says otherwise](Self::search_tools_above).
    ///
    /// Models choose worse from longer lists, noticeably from 30 to 50 tools on, and some providers take 128 at the most. The
    /// tools that ship with us are about a dozen: with two ordinary servers more nothing is searched yet.
    pub const SEARCH_TOOLS_ABOVE: u32 = 50;

    /// Sets the model that serves a role. A role without one is served by the first there is of reasoning, router and
    /// coding.
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

    /// Adds a server whose tools come and go while the process runs, such as an MCP server. They are taken as
    /// [`foreign_tools`](Self::foreign_tools) are; one that cannot be (its name is another's, say) is left out and warned of
    /// in the log. A run keeps working with the tools that there are when it starts.
    #[must_use]
    pub fn tool_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// Names the folder that paths in calls are judged from, an absolute path. Without it, every absolute path counts as
    /// outside.
    #[must_use]
    pub fn root(mut self, root: impl Into<Arc<str>>) -> Self {
        self.wiring.root = Some(root.into());
        self
    }

    /// Adds an agent, with its tools, its model and the agents that it calls: a request may [ask for
    /// it](crate::UserRequest::agent), and a channel may name it. What the policy says in `[agents.NAME]` is laid over its
    /// own settings, key by key.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.agents.push((agent.definition, Use::ByName));
        self
    }

    /// As [`agent`](Self::agent), and lets other agents call it: its tool is one that every agent may be offered, as those
    /// added by [`tool`](Self::tool) are.
    #[must_use]
    pub fn agent_tool(mut self, agent: Agent) -> Self {
        self.agents.push((agent.definition, Use::AsTool));
        self
    }

    /// Adds a tool that the caller runs: a run that calls it waits until its result is brought. Where the data policy keeps
    /// something out of its log it could not go on then: the call is refused, and the model is told why.
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
        self.wiring.hooks = hooks.into_iter().collect();
        self.wiring.advisor = Some(advisor);
        self
    }

    /// Adds code that looks at each tool call before it is checked, and at each result before it is read. Several are asked in
    /// the order in which they are added.
    #[must_use]
    pub fn tool_hook(mut self, hook: Arc<dyn ToolHook>) -> Self {
        self.wiring.tool_hooks.push(hook);
        self
    }

    /// Adds code that looks at what models are sent and at what they say, such as a guardrail. Several are asked in the order in
    /// which they are added.
    #[must_use]
    pub fn model_hook(mut self, hook: Arc<dyn ModelHook>) -> Self {
        self.wiring.model_hooks.push(hook);
        self
    }

    /// Sets how many tool calls a run may make at the most, those of its sub-agents included.
    #[must_use]
    pub const fn tool_call_limit(mut self, most: u32) -> Self {
        self.wiring.tool_call_limit = Some(most);
        self
    }

    /// Sets how many agents a run may start at the most, and how deep, whatever its policy and its agents say. Without it they
    /// decide: 64, two deep, unless they say otherwise.
    #[must_use]
    pub const fn agent_limits(mut self, most: AgentLimits) -> Self {
        self.wiring.agent_limits = Some(most);
        self
    }

    /// Sets the policy, in place of the built-in one.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.wiring.policy = Arc::new(policy);
        self
    }

    /// Sets where sessions and records are kept. An [`Orchestrator`] needs a store; an [`Agent`] uses none.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Makes sure that a session is what was kept, by [`SessionIndex::verify`](neuraxis_ports::SessionIndex::verify), before a
    /// request or a run that is resumed goes on from it. One that is not is refused, and nothing is written.
    ///
    /// A session found whole is not looked at again for 5 minutes at the least and 10 at the most: what is altered
    /// meanwhile is found after that. What verifying cannot find this does not find either: a log that was made anew as a
    /// whole, or cut off at its end.
    #[must_use]
    pub fn verify_sessions(mut self) -> Self {
        self.verified = Some(VerifiedSessions::new());
        self
    }

    /// Has the runs that are begun here, and those that were left or answered, driven by other processes on the same store,
    /// which take them up with [`Runs::take_up`](crate::Runs::take_up). This process governs requests, keeps what it is
    /// brought, and follows its runs in the store. One of whose log the data policy keeps something out could not be taken up, so
    /// that it is driven here. Without a dispatcher all are.
    #[must_use]
    pub fn dispatcher(mut self, dispatcher: Arc<dyn RunDispatcher>) -> Self {
        self.dispatcher = Some(dispatcher);
        self
    }

    /// Passes live events of runs on to other processes on the same store that follow them, and takes in theirs, while somebody
    /// awaits [`Runs::keep_live_exchange`](crate::Runs::keep_live_exchange). Without one a run is heard word by word in the
    /// process alone that drives it, and record by record in others.
    ///
    /// What the data policy of a run keeps out of the store is not passed on either.
    #[must_use]
    pub fn live_feed(mut self, feed: Arc<dyn LiveFeed>) -> Self {
        self.live_feed = Some(feed);
        self
    }

    /// Takes the place of another engine of this process on the same store, to which no new requests are sent any more: that is
    /// for the program to see to, since it goes on to take them, under its own policy. Runs at work there stay there until they
    /// have ended or are left, hear at once of what is posted to them here, and are shown here as they happen. Whoever
    /// [follows](crate::Runs::attach) a run there goes on here once that one has stopped. Without it the store takes both
    /// engines for one, and what is posted here takes the run over.
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

    /// Sets who is asked about calls that need approval. Without one, such calls are denied.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.wiring.approver = approver;
        self
    }

    /// Lets questions of tools, such as those of MCP servers, wait so long for an answer from outside: each is shown in the
    /// events of its run ([`LiveBody::Question`](neuraxis_core::LiveBody)) and by [`Runs::questions`](crate::Runs::questions),
    /// and answered by [`Runs::answer_question`](crate::Runs::answer_question). A question that nobody answers in that time is
    /// cancelled for its tool. For programs whose users follow runs and can answer, such as a server with a page.
    ///
    /// Without it the approver [answers](Approver::answer), which declines unless it says otherwise. The approver of a request
    /// comes before both. A tool that waits for a person takes no place of [`max_parallel_tools`](Self::max_parallel_tools).
    #[must_use]
    pub const fn questions_open_for(mut self, time: Duration) -> Self {
        self.wiring.questions_open_for = Some(time);
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
        self.wiring.clock = clock;
        self
    }

    /// Sets who makes ids, in place of UUIDv7.
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.wiring.ids = ids;
        self
    }

    /// Sets how failed model calls are repeated.
    #[must_use]
    pub const fn retry(mut self, retry: RetryPolicy) -> Self {
        self.wiring.retry = retry;
        self
    }

    /// Names the project that tools work for.
    #[must_use]
    pub fn project_id(mut self, project: impl Into<Arc<str>>) -> Self {
        self.wiring.project_id = Some(project.into());
        self
    }

    /// Sets the plan of requests that name none: which of the policy's `[plans.NAME]` limits them. A request that names a
    /// plan of its own has that one instead. A plan that the policy does not have is an error when the orchestrator is built.
    #[must_use]
    pub fn default_plan(mut self, plan: PlanName) -> Self {
        self.plan = Some(plan);
        self
    }

    /// Sets how many tools may run at the same time, over all runs; at least one.
    #[must_use]
    pub const fn max_parallel_tools(mut self, most: usize) -> Self {
        self.wiring.max_parallel_tools = most;
        self
    }

    /// Sets with how many tools more than which an agent searches them; [`SEARCH_TOOLS_ABOVE`](Self::SEARCH_TOOLS_ABOVE)
    /// unless somebody says otherwise. Its requests then
    /// hold the program's own tools, those that the agent asks for by name, those that suit the user's message, and
    /// `find_tools`, by which the model finds the others. What an agent may call is not changed by it.
    ///
    /// Where the program's own tools alone are more, they are searched, too. With 0 all are, but for those that an agent asks
    /// for by name or cannot do without; with [`u32::MAX`] none ever.
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

    /// Says why there is no tool of a name that policies and models may know, such as one that takes what this machine lacks:
    /// whoever calls it reads that, a model too. Where a tool of that name is added, it is there.
    #[must_use]
    pub fn absent_tool(mut self, name: ToolName, why: impl Into<Arc<str>>) -> Self {
        self.absent.push((name, why.into()));
        self
    }

    /// Sets how long results of tools may be: what a model reads of one, and what is kept of it beside the run. A model reads
    /// the rest with the tool `read_output`, which an [`Orchestrator`] offers with every tool that it runs. An [`Agent`] keeps
    /// nothing, so that what is cut there is gone.
    #[must_use]
    pub const fn result_bounds(mut self, bounds: ResultBounds) -> Self {
        self.wiring.result_bounds = bounds;
        self
    }

    /// Puts the orchestrator together. Tools that can never run are warned of, in the log and by
    /// [`Orchestrator::warnings`].
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names what is missing or which tool is wrong.
    pub fn build(mut self) -> Result<Orchestrator, BuildError> {
        let store = self.store.take();
        let (verified, plan) = (self.verified.take(), self.plan.take());
        let dispatcher = self.dispatcher.take();
        let live_feed = self.live_feed.take();
        let former = std::mem::take(&mut self.former);
        let engine = self.engine(Keeping::Sessions)?;
        if let Some(plan) = &plan {
            check_plan(plan, &engine.policy)?;
        }
        let warnings = engine.tool_warnings();
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let parts = Arc::new(Parts {
            engine: Arc::new(engine),
            warnings,
            store: store.ok_or(BuildError::NoStore)?,
            known: KnownSessions::new(),
            verified,
            plan,
            decisions: DecisionCache::default(),
            active: ActiveRuns::default(),
            former,
            successor: Successor::default(),
            lost: LostRuns::default(),
            dispatcher,
            dispatches: Arc::default(),
            live: live_feed.map(|feed| Arc::new(LiveExchange::new(feed))),
        });
        parts.former.give_way_to(&parts);
        Ok(Orchestrator::new(parts))
    }

    /// Puts together what runs without sessions and without governance: the agent `main_thread`, with all that was added here.
    /// A store is not used.
    ///
    /// So an agent of the program has what its own builder has no method for, such as [retries](Self::retry),
    /// [sinks of traces](Self::trace_sink), [prices](Self::policy), [client's tools](Self::client_tool) and [servers whose
    /// tools come and go](Self::tool_source): give it that name, and add it by [`agent`](Self::agent). One of another name does
    /// not answer in its place.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_engine::{Agent, Orchestrator, RetryPolicy};
    /// # use neuraxis_testkit::{ScriptedModel, reply};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = Arc::new(ScriptedModel::always(reply::text("Wet.")));
    /// let forecaster = Agent::builder("main_thread").instructions("You tell the weather.").model(model);
    /// let agent = Orchestrator::builder()
    ///     .agent(forecaster.build()?)
    ///     .retry(RetryPolicy::never())
    ///     .build_agent()?;
    /// assert_eq!(agent.execute(None, "How is it in Delft?").await?.content, "Wet.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names what is missing or which tool is wrong.
    pub fn build_agent(self) -> Result<Agent, BuildError> {
        Ok(Agent::main_thread(Arc::new(self.engine(Keeping::Nothing)?)))
    }

    fn engine(mut self, keeping: Keeping) -> Result<Engine, BuildError> {
        let agents = agent_set(&self.agents)?;
        self.wiring.models.extend(agents.models());
        if self.wiring.models.is_empty() {
            return Err(BuildError::NoModel);
        }
        if !agents.is_empty() {
            let policy = &self.wiring.policy;
            let roles = self.wiring.models.keys().cloned();
            let policy = policy.with_agents(agents.definitions(), roles)?;
            self.wiring.policy = Arc::new(policy);
        }
        rule_functions::join(&mut self.wiring.policy, self.rule_functions)?;
        self.wiring.instructions = agents.instructions();
        // What a deployment says takes the place of what a program says, be that a text or a function.
        let policy = &self.wiring.policy;
        let instructions = &mut self.wiring.instructions;
        instructions.retain(|agent, _| !policy.says_instructions(agent));
        self.wiring.answers = answers(&self.wiring.policy)?;
        self.wiring.agent_hooks = agents.hooks();
        let mut catalog = ToolCatalog::default();
        for (name, why) in self.absent {
            catalog.add_absent(&name, why);
        }
        for tool in self.tools.into_iter().chain(agents.tools()) {
            catalog.add(tool)?;
        }
        for (server, tool) in self.foreign {
            // The policy may have been set after the tools were added.
            let tool = ForeignTool::new(&server, tool, &self.wiring.policy)?;
            catalog.add(Arc::new(tool))?;
        }
        for tool in self.wiring.policy.agent_tools() {
            // What a program brings comes before what a configuration says.
            if catalog.tool(&tool.name).is_some() && !agents.is_called_by(&tool.name) {
                let name = &tool.name;
                tracing::warn!(tool = %name, "a tool of this name takes the place of the one that starts an agent");
                continue;
            }
            catalog.add(Arc::new(RunElsewhere(tool)))?;
        }
        if keeping == Keeping::Sessions {
            // The last of all: the tools before it do not move because of it.
            catalog.add_reader(ReadOutput::new())?;
        }
        agents.check_tools(&catalog)?;
        ask_when::check(&self.asked_about, &catalog)?;
        let approval_key = match self.approval_key {
            Some(key) => key,
            None => ApprovalKey::random().map_err(BuildError::NoRandomness)?,
        };
        let catalogs = Catalogs::new(catalog, self.sources);
        Ok(Engine::new(self.wiring, catalogs, approval_key))
    }
}

/// Makes sure that the plan of requests that name none is one of the policy: without it each of them would be refused.
fn check_plan(plan: &PlanName, policy: &Policy) -> Result<(), BuildError> {
    let known: Vec<&str> = policy.plans().map(PlanName::as_str).collect();
    if known.contains(&plan.as_str()) {
        return Ok(());
    }
    let (plan, known) = (plan.clone(), known.join(", "));
    Err(BuildError::DefaultPlan { plan, known })
}

/// What is kept of the runs of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    Sessions,
    Nothing,
}
