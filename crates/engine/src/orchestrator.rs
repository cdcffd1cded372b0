//! The entry point: user messages in, runs out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_brainstem::{DegradedRole, Policy, narrow_sub_agent};
use neuraxis_core::{
    AgentSpec, Channel, Decision, Hook, Limits, Message, Mode, PlanName, Role, RunId, RunSpec,
    SessionId, ToolName,
};
use neuraxis_ports::{
    Advisor, Approver, Clock, Ids, LlmClient, ModelInfo, SessionStore, StoreError, TraceContext,
    TraceSink,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_tool::AgentTool;
use crate::approval_key::ApprovalKey;
use crate::approvals::Approvals;
use crate::builder::OrchestratorBuilder;
use crate::catalog::ToolCatalog;
use crate::decisions::Decisions;
use crate::driver::{Driver, RunScope};
use crate::event::Events;
use crate::execution::Agent;
use crate::health::SharedHealth;
use crate::lost_runs::LostRuns;
use crate::offers::Offers;
use crate::request::{RequestError, UserRequest};
use crate::reservation::{self, AtWork, Held, Reserved};
use crate::resilience::RetryPolicy;
use crate::result::{self, OrchestratorResult};
use crate::run_handle::{NoResult, RunHandle, RunLink};
use crate::runs::Runs;
use crate::sessions::Sessions;
use crate::vouching::Vouched;

/// Runs governed, tool-using conversations. Cloning shares the engine.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    pub(crate) parts: Arc<Parts>,
}

/// What the services of one orchestrator share, beside the engine that drives their runs.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    /// Where sessions and records are kept.
    pub(crate) store: Arc<dyn SessionStore>,
}

/// Runs at work.
pub(crate) type RunsAtWork = HashMap<RunId, Place>;

/// What there is of a run at work: nothing, until it has begun.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// What reaches it.
    pub(crate) handle: Option<RunHandle>,
    /// What stops its task, without an end.
    pub(crate) task: Option<AbortHandle>,
}

/// What all runs of an orchestrator share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) models: BTreeMap<Role, Arc<dyn LlmClient>>,
    /// The roles that have a model of their own.
    pub(crate) roles: Vec<Role>,
    pub(crate) health: SharedHealth,
    pub(crate) catalog: ToolCatalog,
    pub(crate) offers: Offers,
    pub(crate) decisions: Decisions,
    pub(crate) policy: Arc<Policy>,
    pub(crate) store: Option<Arc<dyn SessionStore>>,
    /// The sessions that were found whole; `None` where nobody looks.
    pub(crate) vouched: Option<Vouched>,
    /// The folder that paths in calls are judged from.
    pub(crate) root: Option<Arc<str>>,
    pub(crate) agents: Vec<AgentTool>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) advisor: Option<Arc<dyn Advisor>>,
    pub(crate) tool_call_limit: Option<u32>,
    pub(crate) sinks: Vec<Arc<dyn TraceSink>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) approval_key: ApprovalKey,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) retry: RetryPolicy,
    pub(crate) project_id: Option<Arc<str>>,
    /// The plan of requests that name none.
    pub(crate) plan: Option<PlanName>,
    pub(crate) tool_permits: Arc<Semaphore>,
    /// The runs at work here.
    pub(crate) at_work: Mutex<RunsAtWork>,
    /// The runs that were left here although this process lives.
    pub(crate) lost: LostRuns,
    /// One of them can be reached now, or is gone.
    pub(crate) places: Notify,
    pub(crate) tasks: TaskTracker,
    /// Ends all runs.
    pub(crate) shutdown: CancellationToken,
    /// Keeps new ones from beginning: cancelled with the above, or before.
    pub(crate) closing: CancellationToken,
}

impl Engine {
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Fills in what the engine knows of an agent: the context its model has, and who is asked about it.
    pub(crate) fn completed(&self, mut agent: AgentSpec) -> AgentSpec {
        let model = self.model(&agent.role, None);
        let has = model.and_then(|(_, model)| model.info().context_tokens);
        // An agent may be given less than its model has, never more.
        agent.context_tokens = has.into_iter().chain(agent.context_tokens).min();
        agent.profile.hooks.extend(self.hooks.iter().copied());
        let most = self.tool_call_limit;
        agent.limits = agent.limits.tightest(Limits {
            max_tool_calls: most,
            tool_timeout: agent.limits.tool_timeout,
            ..Limits::NONE
        });
        agent
    }

    /// Lets the models that serve these roles, and those of all sub-agents, find out how much context they have, where that
    /// is not known yet.
    pub(crate) async fn learn_contexts<'a>(&'a self, roles: impl Iterator<Item = &'a Role> + Send) {
        let of_agents = self.agents.iter().map(|agent| &agent.agent.role);
        let models = roles.chain(of_agents);
        for (_, model) in models.filter_map(|role| self.model(role, None)) {
            if model.info().context_tokens.is_none() {
                model.learn_context().await;
            }
        }
    }

    /// Gives an agent no more context than the smallest model has that may come to serve it.
    fn fit_to_all(&self, agent: &mut AgentSpec, decision: &Decision) {
        let models = roles_besides(decision).filter_map(|role| self.model(role, Some(decision)));
        let contexts = models.filter_map(|(_, model)| model.info().context_tokens);
        agent.context_tokens = contexts.chain(agent.context_tokens).min();
    }

    /// Describes the sub-agents that a run may start, within what its own request may do and the agent that answers the
    /// user has.
    pub(crate) fn agent_specs(
        &self,
        allowed: &[&ToolName],
        within: Option<(&Decision, &AgentSpec)>,
    ) -> BTreeMap<ToolName, AgentSpec> {
        let offered = self
            .agents
            .iter()
            .filter(|agent| allowed.contains(&&agent.spec.name));
        let specs = offered.map(|agent| {
            let mut spec = agent.agent.clone();
            let tools = agent.tools.iter().filter(|tool| allowed.contains(tool));
            let tools = tools.filter_map(|tool| self.catalog.tool(tool));
            spec.tools = tools.map(|tool| tool.spec().clone()).collect();
            spec.limits = spec.limits.tightest(spec.profile.limits());
            if let Some((decision, root)) = within {
                let (narrowed, notes) = narrow_sub_agent(decision, root, spec);
                spec = narrowed;
                let most = self.policy.profile(decision).tool_retries;
                spec.profile.tool_retries = spec.profile.tool_retries.min(most);
                for note in notes {
                    tracing::debug!(agent = %agent.spec.name, "{note}");
                }
            }
            (agent.spec.name.clone(), self.completed(spec))
        });
        specs.collect()
    }

    pub(crate) fn runs_at_work(&self) -> MutexGuard<'_, RunsAtWork> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the model that serves a role, and the role it is configured for; only one whose role the decision allows,
    /// where there is one.
    pub(crate) fn model(
        &self,
        role: &Role,
        decision: Option<&Decision>,
    ) -> Option<(&Role, &Arc<dyn LlmClient>)> {
        const FALLBACK: [Role; 3] = [Role::REASONING, Role::ROUTER, Role::CODING];
        let may_serve =
            |role: &&Role| decision.is_none_or(|decision| decision.allowed_roles.contains(role));
        std::iter::once(role)
            .chain(&FALLBACK)
            .chain(self.models.keys())
            .filter(may_serve)
            .find_map(|role| self.models.get_key_value(role))
    }
}

/// Returns the roles that may come to serve an agent besides its own.
fn roles_besides(decision: &Decision) -> impl Iterator<Item = &Role> {
    let routed = decision.routing.iter().flat_map(|routing| &routing.choices);
    let larger = decision.escalation.iter().filter_map(|it| it.role.as_ref());
    routed.chain(larger)
}

impl Orchestrator {
    /// Begins to put an orchestrator together.
    #[must_use]
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::new()
    }

    pub(crate) const fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    /// Returns the service that begins runs, takes them up again and reaches them while they are at work.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs {
            parts: Arc::clone(&self.parts),
        }
    }

    /// Returns the service that lists, shows, checks, moves and removes sessions.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions::new(Arc::clone(&self.parts.store))
    }

    /// Returns the service for calls that wait for a person.
    #[must_use]
    pub fn approvals(&self) -> Approvals {
        Approvals {
            parts: Arc::clone(&self.parts),
        }
    }

    /// Handles a user message end to end.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists. Once there is a run there is a result, however
    /// badly it goes, unless it was left without an end: [`RequestError::NoResult`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run.
    pub async fn handle_user_request(
        &self,
        session_id: &SessionId,
        message: &str,
        mode: Mode,
        channel: Channel,
    ) -> Result<OrchestratorResult, RequestError> {
        self.handle(
            UserRequest::new(session_id.clone(), message)
                .mode(mode)
                .channel(channel),
        )
        .await
    }

    /// As [`handle_user_request`](Self::handle_user_request), with everything a request can say.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there; but a run that an earlier request under the same idempotency key began is that request's to cancel.
    pub async fn handle(&self, request: UserRequest) -> Result<OrchestratorResult, RequestError> {
        // Boxed, so that what beginning needs is free while the run is waited for.
        let handle = Box::pin(self.runs().begin(request)).await?;
        let guard = (!handle.is_repeat).then(|| CancelOnDrop(handle.link.clone()));
        let end = handle.link.end().await;
        drop(guard);
        match end {
            Ok(end) => Ok(result::of_run(&handle, &end)),
            Err(NoResult::Stopped) if !self.parts.engine.is_shutting_down() => {
                Ok(result::of_crashed(&handle))
            }
            Err(source) => Err(RequestError::NoResult {
                session: handle.session_id,
                run: handle.link.run_id,
                source,
            }),
        }
    }

    /// Begins a run and returns at once, with a handle on it and its events. A request that was made before under the same
    /// idempotency key gets the run that it began then: [`RunHandle::is_repeat`] tells.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists.
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle or the events leaves the run at work.
    pub async fn stream(&self, request: UserRequest) -> Result<(RunHandle, Events), RequestError> {
        let handle = self.runs().begin(request).await?;
        let events = handle.events();
        Ok((handle, events))
    }

    /// Returns the models there are, by the role that each was given for.
    pub fn models(&self) -> impl Iterator<Item = (&Role, ModelInfo)> {
        let models = self.parts.engine.models.iter();
        models.map(|(role, model)| (role, model.info()))
    }

    /// Tells whether the store takes records at this moment, and so the engine turns.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub async fn probe_store(&self) -> Result<(), StoreError> {
        self.parts.store.probe().await
    }

    /// Decides what a request may do, without doing it. What its conversation holds and what was used before is left out.
    ///
    /// # Errors
    ///
    /// [`RequestError::Policy`] if policy refuses it.
    pub fn decide(&self, request: &UserRequest) -> Result<Decision, RequestError> {
        self.runs().decide(request)
    }

    /// Returns the roles whose models keep failing, so that others serve for them for a while, with why. As far as the
    /// runs of this engine found out.
    #[must_use]
    pub fn degraded_roles(&self) -> Vec<DegradedRole> {
        self.parts.engine.health.degraded()
    }

    /// Tells whether the engine takes no new runs any more.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.parts.engine.is_shutting_down()
    }

    /// Returns what runs without sessions and without governance on the same models and tools.
    #[must_use]
    pub fn agent(&self) -> Agent {
        Agent {
            engine: Arc::clone(&self.parts.engine),
        }
    }

    /// Returns the policy that decides about requests.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.parts.engine.policy
    }

    /// Returns the tools there are.
    #[must_use]
    pub fn tools(&self) -> &ToolCatalog {
        &self.parts.engine.catalog
    }

    /// Ends all runs, lets them record it, and takes no new ones.
    pub async fn shutdown(&self) {
        self.parts.engine.shutdown.cancel();
        self.parts.engine.tasks.close();
        self.parts.engine.tasks.wait().await;
    }
}

impl Runs {
    pub(crate) async fn begin(&self, request: UserRequest) -> Result<RunHandle, RequestError> {
        if self.parts.engine.is_shutting_down() {
            return Err(RequestError::ShuttingDown);
        }
        if request.message.trim().is_empty() {
            return Err(RequestError::EmptyMessage);
        }
        let store = &self.parts.store;
        if self.parts.engine.vouched.is_some() {
            // Boxed, because most engines do not ask.
            Box::pin(self.vouch(store.as_ref(), &request.session_id)).await?;
        }
        if let Some(key) = request.idempotency_key.clone() {
            // Boxed, because most requests have no key.
            return Box::pin(self.begin_once(store, request, key)).await;
        }
        let decision = self.govern(store.as_ref(), &request).await?;
        let run_id = RunId(self.parts.engine.ids.new_id());
        let spec = self.asked_spec(run_id, &request, decision).await;
        self.launch(store, spec, request).await
    }

    /// Describes the run of a request.
    pub(crate) async fn asked_spec(
        &self,
        run_id: RunId,
        request: &UserRequest,
        decision: Arc<Decision>,
    ) -> RunSpec {
        let mut spec = self.run_spec(run_id, request, decision).await;
        spec.messages
            .push(Arc::new(Message::user(request.message.as_str())));
        spec
    }

    /// Reserves the session and starts a run in it.
    pub(crate) async fn launch(
        &self,
        store: &Arc<dyn SessionStore>,
        spec: RunSpec,
        request: UserRequest,
    ) -> Result<RunHandle, RequestError> {
        let run_id = spec.run_id;
        // An id just made is nobody else's.
        let place = AtWork::claim(&self.parts, run_id).ok_or(RequestError::ShuttingDown)?;
        let lease = reservation::reserve(store.as_ref(), &request.session_id, run_id).await?;
        let reserved = Reserved::new(&self.parts.engine, store, lease);
        let held = Held { place, reserved };
        self.launch_held(store, spec, request, held).await
    }

    /// Starts a run in the session that is reserved for it.
    pub(crate) async fn launch_held(
        &self,
        store: &Arc<dyn SessionStore>,
        mut spec: RunSpec,
        request: UserRequest,
        Held { place, reserved }: Held,
    ) -> Result<RunHandle, RequestError> {
        let run_id = spec.run_id;
        let trace = request.trace.unwrap_or_else(|| trace_of(run_id));
        let engine = Arc::clone(&self.parts.engine);
        let lease = Some(reserved.lease.clone());
        let started = async {
            let history = store.history(&request.session_id).await?;
            self.carry_taint(&request.session_id, &mut spec).await?;
            let scope = RunScope {
                run_id,
                session_id: Some(request.session_id.clone()),
                delivery: request.delivery,
                trace: trace.clone(),
                decision: spec.decision.clone(),
                offered_now: None,
            };
            Driver::start(engine, scope, lease, spec, history).await
        };
        let (driver, link) = match started.await {
            Ok(started) => started,
            Err(error) => {
                reserved.give_back().await;
                return Err(error.into());
            }
        };
        reserved.keep();
        let handle = RunHandle {
            link,
            session_id: request.session_id,
            trace,
            is_repeat: false,
        };
        place.reached_by(&handle);
        self.set_to_work(driver, place);
        Ok(handle)
    }

    /// Describes a run that adds no message yet.
    pub(crate) async fn run_spec(
        &self,
        run_id: RunId,
        request: &UserRequest,
        decision: Arc<Decision>,
    ) -> RunSpec {
        let engine = &self.parts.engine;
        let roles = std::iter::once(&decision.role).chain(roles_besides(&decision));
        engine.learn_contexts(roles).await;
        let mut agent = AgentSpec::new(engine.policy.profile(&decision), decision.role.clone());
        let offer = engine.offers.list(&engine.catalog, &decision.tools);
        agent.tools = offer.tools;
        agent.system_prompt = self.parts.engine.policy.system_prompt(&decision);
        agent.limits = decision.limits;
        agent.max_output_tokens = decision.max_output_tokens;
        agent.temperature = decision.temperature;
        let offered: Vec<_> = decision.tools.iter().collect();
        let mut root = engine.completed(agent);
        let agents = engine.agent_specs(&offered, Some((&decision, &root)));
        engine.fit_to_all(&mut root, &decision);
        let mut spec = RunSpec::new(run_id, [], root);
        spec.agents = agents;
        spec.session_id = Some(request.session_id.clone());
        spec.folder = engine.root.clone().filter(|_| offer.works_on_files);
        spec.decision = Some(decision);
        spec
    }
}

/// Cancels a run when nobody waits for its result anymore.
pub(crate) struct CancelOnDrop(pub(crate) RunLink);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.cancel("the caller went away");
        }
    }
}

/// A trace of the run's own: its id is unique in the world already.
pub(crate) fn trace_of(run_id: RunId) -> TraceContext {
    let (_, low) = run_id.0.as_u64_pair();
    TraceContext {
        trace_id: run_id.0.as_u128(),
        span_id: low,
        sampled: true,
        state: None,
    }
}
