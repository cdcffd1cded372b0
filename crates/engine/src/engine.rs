//! What all runs are driven with: models, tools, policy, approvers, clocks and limits.
//!
//! Not for storage: a run of an [`Agent`](crate::Agent) is driven by the same engine and not stored.

mod contexts;
mod sinks;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use neuraxis_brainstem::{Call, Policy, narrow_sub_agent};
use neuraxis_core::{
    AgentLimits, AgentName, AgentSpec, AskApproval, Compaction, Decision, Hook, JsonText, Limits,
    Role, Taint, ToolName, ToolSpec,
};
use neuraxis_ports::{
    Advisor, Approver, ApproverReply, Clock, HookTiming, Ids, LlmClient, ModelHook, ToolHook,
    TraceSink, TurnContext, async_trait,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::agent::{AgentHooks, InstructionContext, Instructions};
use crate::answer::AnswerSchema;
use crate::approval_key::ApprovalKey;
use crate::builder::OrchestratorBuilder;
use crate::catalog::ToolCatalog;
use crate::catalogs::Catalogs;
use crate::health::SharedHealth;
use crate::long_result::ResultBounds;
use crate::request::RequestError;
use crate::resilience::RetryPolicy;
use crate::tool_search::narrow_requests;
use crate::warnings::{Approving, ToolWarning, tool_warnings};
pub(crate) use contexts::learned;

/// The default for how many tools may run at the same time, over all runs.
const DEFAULT_MAX_PARALLEL_TOOLS: usize = 64;

/// What an embedder gives an engine.
#[derive(Debug)]
pub(crate) struct Wiring {
    pub(crate) models: BTreeMap<Role, Arc<dyn LlmClient>>,
    pub(crate) policy: Arc<Policy>,
    /// The folder against which paths in calls are judged.
    pub(crate) root: Option<Arc<str>>,
    /// Functions that create an agent's instructions from what is known of a request, by agent.
    pub(crate) instructions: BTreeMap<AgentName, Instructions>,
    /// The answer schemas of the agents that have one.
    pub(crate) answers: BTreeMap<AgentName, AnswerSchema>,
    /// The maximum number and depth of sub-agents of a run, whatever its decision allows; the decision's own limits if
    /// `None`.
    pub(crate) agent_limits: Option<AgentLimits>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) advisor: Option<Arc<dyn Advisor>>,
    /// The hooks that inspect tool calls, in this order.
    pub(crate) tool_hooks: Vec<Arc<dyn ToolHook>>,
    /// The hooks that inspect model calls, in this order.
    pub(crate) model_hooks: Vec<Arc<dyn ModelHook>>,
    /// Additional hooks of single agents.
    pub(crate) agent_hooks: BTreeMap<AgentName, AgentHooks>,
    pub(crate) tool_call_limit: Option<u32>,
    pub(crate) max_parallel_tools: usize,
    /// The number of tools above which an agent searches them.
    pub(crate) search_above: u32,
    pub(crate) result_bounds: ResultBounds,
    pub(crate) sinks: Vec<Arc<dyn TraceSink>>,
    pub(crate) approver: Arc<dyn Approver>,
    /// How long questions of tools stay open in the events of their runs; the approver is asked if `None`.
    pub(crate) questions_open_for: Option<Duration>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) retry: RetryPolicy,
    pub(crate) project_id: Option<Arc<str>>,
}

impl Default for Wiring {
    /// No model, the built-in policy, no approver, the system's clock and UUIDv7.
    fn default() -> Self {
        Self {
            models: BTreeMap::new(),
            policy: Arc::new(Policy::built_in()),
            root: None,
            instructions: BTreeMap::new(),
            answers: BTreeMap::new(),
            agent_limits: None,
            hooks: Vec::new(),
            advisor: None,
            tool_hooks: Vec::new(),
            model_hooks: Vec::new(),
            agent_hooks: BTreeMap::new(),
            tool_call_limit: None,
            max_parallel_tools: DEFAULT_MAX_PARALLEL_TOOLS,
            search_above: OrchestratorBuilder::SEARCH_TOOLS_ABOVE,
            result_bounds: ResultBounds::default(),
            sinks: Vec::new(),
            approver: Arc::new(NobodyApproves),
            questions_open_for: None,
            clock: Arc::new(SystemClock),
            ids: Arc::new(UuidV7),
            retry: RetryPolicy::default(),
            project_id: None,
        }
    }
}

/// What all runs are driven with.
#[derive(Debug)]
pub(crate) struct Engine {
    wiring: Wiring,
    /// The roles that have a model of their own.
    pub(crate) roles: Vec<Role>,
    pub(crate) health: SharedHealth,
    pub(crate) catalogs: Catalogs,
    pub(crate) approval_key: ApprovalKey,
    pub(crate) tool_permits: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    /// When it was built.
    pub(crate) began: Instant,
    /// Cancelled to end all runs.
    pub(crate) shutdown: CancellationToken,
    /// Cancelled to stop accepting new runs: together with `shutdown`, or earlier.
    pub(crate) closing: CancellationToken,
}

/// Makes the wiring's fields readable as if they were the engine's own.
impl Deref for Engine {
    type Target = Wiring;

    fn deref(&self) -> &Wiring {
        &self.wiring
    }
}

impl Engine {
    pub(crate) fn new(wiring: Wiring, catalogs: Catalogs, approval_key: ApprovalKey) -> Self {
        let shutdown = CancellationToken::new();
        let permits = wiring.max_parallel_tools.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            roles: wiring.models.keys().cloned().collect(),
            health: SharedHealth::default(),
            catalogs,
            approval_key,
            tool_permits: Arc::new(Semaphore::new(permits)),
            tasks: TaskTracker::new(),
            began: Instant::now(),
            closing: shutdown.child_token(),
            shutdown,
            wiring,
        }
    }

    /// Returns the current tools. A run keeps those that it starts with.
    pub(crate) fn catalog(&self) -> Arc<ToolCatalog> {
        self.catalogs.current(&self.policy)
    }

    /// Returns warnings about tools that cannot run here.
    pub(crate) fn tool_warnings(&self) -> Vec<ToolWarning> {
        let approving = match self.approver.can_answer() {
            true => Approving::Somebody,
            false => Approving::Nobody,
        };
        tool_warnings(&self.policy, self.catalog().specs(), approving)
    }

    /// Returns the hooks that inspect the tool calls of an agent, in order.
    pub(crate) fn tool_hooks_of(&self, agent: &AgentSpec) -> Vec<Arc<dyn ToolHook>> {
        let own = self.hooks_of(agent).map(|hooks| &hooks.tool);
        let own = own.into_iter().flatten();
        self.tool_hooks.iter().chain(own).cloned().collect()
    }

    /// Returns whether any hook inspects tool calls.
    pub(crate) fn has_tool_hooks(&self) -> bool {
        let mut of_agents = self.agent_hooks.values();
        !self.tool_hooks.is_empty() || of_agents.any(|hooks| !hooks.tool.is_empty())
    }

    /// Returns the hooks that inspect the model calls of an agent, in order.
    pub(crate) fn model_hooks_of(&self, agent: &AgentSpec) -> Vec<Arc<dyn ModelHook>> {
        let own = self.hooks_of(agent).map(|hooks| &hooks.model);
        let own = own.into_iter().flatten();
        self.model_hooks.iter().chain(own).cloned().collect()
    }

    fn hooks_of(&self, agent: &AgentSpec) -> Option<&AgentHooks> {
        if self.agent_hooks.is_empty() {
            return None;
        }
        let name = AgentName::new(agent.profile.name.clone());
        self.agent_hooks.get(&name)
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Refuses to begin a run once the engine shuts down: nothing would wait for it anymore.
    pub(crate) fn check_open(&self) -> Result<(), RequestError> {
        match self.is_shutting_down() {
            true => Err(RequestError::ShuttingDown),
            false => Ok(()),
        }
    }

    /// Fills in what the engine knows of an agent: the context size of its models, and the hooks that are asked about
    /// its calls.
    pub(crate) fn completed(&self, mut agent: AgentSpec, decision: Option<&Decision>) -> AgentSpec {
        // An agent may be given less context than its models have, never more: what it sends must fit the smallest of
        // them.
        let has = self.smallest_context(agent.turn_roles(), decision);
        agent.context_tokens = has.into_iter().chain(agent.context_tokens).min();
        agent.drops_reasoning =
            agent.context_tokens.is_some() && !self.resends_reasoning(agent.turn_roles(), decision);
        // Some servers refuse a prompt if the longest possible reply does not fit beside it.
        if let (Some(most), Some(largest)) = (
            agent.max_output_tokens,
            self.largest_context(agent.turn_roles(), decision),
        ) {
            let half = u32::try_from(largest / 2).unwrap_or(u32::MAX).max(1);
            agent.max_output_tokens = Some(most.min(half));
        }
        if let (Compaction::Summarize { role }, Some(own)) =
            (&agent.profile.compaction, agent.context_tokens)
        {
            let summarizer = self.smallest_context(std::iter::once(role), decision);
            agent.summary_context_tokens = summarizer.filter(|tokens| *tokens <= own);
        }
        agent.profile.hooks.extend(self.hooks.iter().copied());
        let inspects_before = |hook: &Arc<dyn ModelHook>| hook.timing() == HookTiming::Before;
        if self.model_hooks_of(&agent).iter().any(inspects_before) {
            agent.profile.hooks.push(Hook::Request);
        }
        let most = self.tool_call_limit;
        agent.limits = agent.limits.tightest(Limits {
            max_tool_calls: most,
            tool_timeout: agent.limits.tool_timeout,
            ..Limits::NONE
        });
        agent
    }

    /// Lets an agent with many tools start with a few of them.
    pub(crate) fn narrow_requests(&self, agent: &mut AgentSpec, message: &str) {
        let name = AgentName::new(agent.profile.name.clone());
        let is_named = |tool: &ToolName| self.policy.names_tool(&name, tool);
        let above = usize::try_from(self.search_above).unwrap_or(usize::MAX);
        narrow_requests(agent, above, message, is_named);
    }

    /// Sets an agent's instructions to those that the program creates from what is known of the request, if it creates
    /// any.
    ///
    /// # Errors
    ///
    /// [`RequestError::Instructions`].
    pub(crate) fn instruct(
        &self,
        agent: &mut AgentSpec,
        context: &InstructionContext<'_>,
    ) -> Result<(), RequestError> {
        if let Some(instructions) = self.instructions.get(context.agent) {
            agent.system_prompt = instructions.text(context)?;
        }
        Ok(())
    }

    /// Returns the limits on sub-agents of a run: those of the decision, or of an agent that nothing governs, capped by
    /// the limits of this engine.
    pub(crate) fn agent_limits(&self, limits: AgentLimits) -> AgentLimits {
        self.agent_limits
            .map_or(limits, |most| limits.tightest(most))
    }

    /// Describes the agents that an agent may start, directly or indirectly, with everything they use of the given
    /// tools. If a decision governs them, they are limited to what its request may do and to what the agent that
    /// answers the user has.
    ///
    /// # Errors
    ///
    /// [`RequestError::Instructions`].
    pub(crate) fn sub_agents(
        &self,
        root: &AgentSpec,
        tools: &[ToolSpec],
        decision: Option<&Decision>,
        context: &InstructionContext<'_>,
    ) -> Result<BTreeMap<ToolName, AgentSpec>, RequestError> {
        let agents = self.policy.sub_agents(context.agent).into_iter();
        let offered = agents.filter(|(tool, _)| decision.is_none_or(|it| it.offers(tool)));
        let mut specs = BTreeMap::new();
        for (tool, name) in offered {
            let Some(mut spec) = self.policy.agent_spec(&name, &root.role, tools) else {
                continue;
            };
            let context = InstructionContext {
                agent: &name,
                ..*context
            };
            self.instruct(&mut spec, &context)?;
            if let Some(decision) = decision {
                let (narrowed, notes) = narrow_sub_agent(decision, root, spec);
                spec = narrowed;
                let most = root.profile.tool_retries;
                spec.profile.tool_retries = spec.profile.tool_retries.min(most);
                for note in notes {
                    tracing::debug!(agent = %name, "{note}");
                }
            }
            if let Some(answer) = self.answers.get(&name) {
                answer.require_of(&mut spec);
            }
            specs.insert(tool, self.completed(spec, decision));
        }
        Ok(specs)
    }

    /// Describes a tool call to the policy, with the untrusted content that its agent has read and the owner of its
    /// session.
    pub(crate) fn call<'a>(
        &'a self,
        spec: &'a ToolSpec,
        arguments: &'a JsonText,
        taint: Option<&'a Taint>,
        owner: Option<&'a str>,
    ) -> Call<'a> {
        let mut call = Call::new(spec, arguments).with_owner(owner);
        call.taint = taint;
        call.root = self.root.as_deref();
        call
    }

    /// Returns the model that serves a role, and the role for which it is configured. If there is a decision, only a
    /// model whose role the decision allows.
    pub(crate) fn model(
        &self,
        role: &Role,
        decision: Option<&Decision>,
    ) -> Option<(&Role, &Arc<dyn LlmClient>)> {
        let may_serve =
            |role: &&Role| decision.is_none_or(|decision| decision.allowed_roles.contains(role));
        std::iter::once(role)
            .chain(&Role::BUILT_IN)
            .chain(self.models.keys())
            .filter(may_serve)
            .find_map(|role| self.models.get_key_value(role))
    }
}

/// The approver if no one can be asked.
#[derive(Debug)]
struct NobodyApproves;

#[async_trait]
impl Approver for NobodyApproves {
    async fn decide(&self, _ask: &AskApproval, _turn: &TurnContext) -> ApproverReply {
        ApproverReply::Nobody
    }

    fn can_answer(&self) -> bool {
        false
    }
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Ids according to RFC 9562, version 7: increasing with time, unique through randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidV7;

impl Ids for UuidV7 {
    fn new_id(&self) -> Uuid {
        Uuid::now_v7()
    }
}
