//! The entry point: user messages in, runs out.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_brainstem::{Policy, Request};
use neuraxis_core::{
    AgentSpec, Channel, Decision, FinishReason, Message, Mode, Role, RunId, RunOutcome, RunSpec,
    RunStatus, RunUsage, SessionId,
};
use neuraxis_ports::{
    Approver, Clock, Ids, LlmClient, RunLease, Session, SessionStore, StoreError, TraceContext,
    TraceSink,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builder::OrchestratorBuilder;
use crate::catalog::ToolCatalog;
use crate::driver::{Driver, RunScope};
use crate::event::Events;
use crate::offers::Offers;
use crate::request::{RequestError, UserRequest};
use crate::resilience::RetryPolicy;
use crate::result::{self, OrchestratorResult};
use crate::run_handle::RunHandle;

/// Runs governed, tool-using conversations. Cloning shares the engine.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    engine: Arc<Engine>,
}

/// What all runs of an orchestrator share.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) models: BTreeMap<Role, Arc<dyn LlmClient>>,
    pub(crate) catalog: ToolCatalog,
    pub(crate) offers: Offers,
    pub(crate) policy: Arc<Policy>,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) sinks: Vec<Arc<dyn TraceSink>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) retry: RetryPolicy,
    pub(crate) project_id: Option<Arc<str>>,
    pub(crate) tool_permits: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

impl Engine {
    /// Returns the model that serves a role, and the role it is configured for.
    pub(crate) fn model(&self, role: &Role) -> Option<(&Role, &Arc<dyn LlmClient>)> {
        const FALLBACK: [Role; 3] = [Role::REASONING, Role::ROUTER, Role::CODING];
        let found = std::iter::once(role)
            .chain(&FALLBACK)
            .find_map(|role| self.models.get_key_value(role));
        found.or_else(|| self.models.first_key_value())
    }
}

impl Orchestrator {
    /// Begins to put an orchestrator together.
    #[must_use]
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::new()
    }

    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine: Arc::new(engine),
        }
    }

    /// Handles a user message end to end.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists. Once there is a run there is a result, however
    /// badly it goes.
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
    /// As there.
    pub async fn handle(&self, request: UserRequest) -> Result<OrchestratorResult, RequestError> {
        // Boxed, so that what beginning needs is free while the run is waited for.
        let guard = CancelOnDrop(Box::pin(self.begin(request)).await?);
        let Some(result) = guard.0.result().await else {
            return Ok(crashed(&guard.0));
        };
        // Nobody else has the handle, so that this is normally the only one who holds the result.
        drop(guard);
        Ok(Arc::unwrap_or_clone(result))
    }

    /// Begins a run and returns at once, with a handle on it and its events.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists.
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle or the events leaves the run at work.
    pub async fn stream(&self, request: UserRequest) -> Result<(RunHandle, Events), RequestError> {
        let handle = self.begin(request).await?;
        let events = handle.events();
        Ok((handle, events))
    }

    async fn begin(&self, request: UserRequest) -> Result<RunHandle, RequestError> {
        if self.engine.shutdown.is_cancelled() {
            return Err(RequestError::ShuttingDown);
        }
        if request.message.trim().is_empty() {
            return Err(RequestError::EmptyMessage);
        }
        let decision = self.decide(&request)?;
        self.ensure_session(&request.session_id).await?;
        let run_id = RunId(self.engine.ids.new_id());
        let lease = self
            .engine
            .store
            .begin_run(&request.session_id, run_id)
            .await?;
        let reserved = Reserved::new(&self.engine, lease);
        let history = self.engine.store.history(&request.session_id).await?;
        let spec = self.run_spec(run_id, &request, &decision);
        let trace = request.trace.unwrap_or_else(|| trace_of(run_id));
        let scope = RunScope {
            run_id,
            session_id: request.session_id,
            delivery: request.delivery,
            trace,
            decision,
        };
        let lease = reserved.lease.clone();
        let engine = Arc::clone(&self.engine);
        let (driver, handle) = Driver::start(engine, scope, lease, spec, history).await?;
        reserved.keep();
        self.engine.tasks.spawn(driver.drive());
        Ok(handle)
    }

    /// Decides what a request may do, without doing it.
    ///
    /// # Errors
    ///
    /// [`RequestError::Policy`] if policy refuses it.
    pub fn decide(&self, request: &UserRequest) -> Result<Decision, RequestError> {
        let asked = Request::new(&request.mode, &request.channel, &request.message)
            .with_tools(self.engine.catalog.all_specs());
        let asked = match &request.plan {
            Some(plan) => asked.with_plan(plan),
            None => asked,
        };
        Ok(self.engine.policy.evaluate_request(&asked)?)
    }

    /// Returns the tools there are.
    #[must_use]
    pub fn tools(&self) -> &ToolCatalog {
        &self.engine.catalog
    }

    /// Ends all runs, lets them record it, and takes no new ones.
    pub async fn shutdown(&self) {
        self.engine.shutdown.cancel();
        self.engine.tasks.close();
        self.engine.tasks.wait().await;
    }

    async fn ensure_session(&self, id: &SessionId) -> Result<(), StoreError> {
        let store = &self.engine.store;
        match store.session(id).await {
            Err(StoreError::NoSuchSession(_)) => {}
            other => return other.map(drop),
        }
        match store
            .create_session(&Session::new(id.clone(), self.engine.clock.now()))
            .await
        {
            // Somebody else was quicker.
            Err(StoreError::SessionExists(_)) => Ok(()),
            other => other,
        }
    }

    fn run_spec(&self, run_id: RunId, request: &UserRequest, decision: &Decision) -> RunSpec {
        let mut agent = AgentSpec::new(self.engine.policy.profile(decision), decision.role.clone());
        let engine = &self.engine;
        agent.tools = engine.offers.list(&engine.catalog, &decision.tools);
        agent.system_prompt = self.engine.policy.system_prompt(decision);
        agent.limits = decision.limits;
        agent.max_output_tokens = decision.max_output_tokens;
        agent.temperature = decision.temperature;
        let mut spec = RunSpec::new(run_id, [Message::user(request.message.as_str())], agent);
        spec.session_id = Some(request.session_id.clone());
        spec.decision = Some(decision.clone());
        spec
    }
}

/// A session reserved for a run that has not begun. Unless it is kept, the session is given back: be it that something
/// failed in between, or that the caller went away.
struct Reserved {
    engine: Arc<Engine>,
    lease: RunLease,
    is_kept: bool,
}

impl Reserved {
    fn new(engine: &Arc<Engine>, lease: RunLease) -> Self {
        Self {
            engine: Arc::clone(engine),
            lease,
            is_kept: false,
        }
    }

    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let (engine, lease) = (Arc::clone(&self.engine), self.lease.clone());
        self.engine.tasks.spawn(async move {
            if let Err(error) = engine.store.abandon_run(&lease).await {
                tracing::warn!(run = %lease.run, %error, "a session reserved for a run that never began stays busy");
            }
        });
    }
}

/// Cancels a run when nobody waits for its result anymore.
struct CancelOnDrop(RunHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.0.has_result() {
            // It may end this very moment, and then need not be cancelled.
            let _ = self.0.cancel("the caller went away");
        }
    }
}

/// A trace of the run's own: its id is unique in the world already.
fn trace_of(run_id: RunId) -> TraceContext {
    let (_, low) = run_id.0.as_u64_pair();
    TraceContext {
        trace_id: run_id.0.as_u128(),
        span_id: low,
        sampled: true,
        state: None,
    }
}

/// The result of a run whose task crashed, which only a defect in an adapter or in the engine itself can cause.
fn crashed(handle: &RunHandle) -> OrchestratorResult {
    let outcome = RunOutcome {
        content: String::new(),
        finish_reason: FinishReason::Failed("an internal error; it was logged".to_owned()),
        turns: 0,
        usage: RunUsage::default(),
    };
    OrchestratorResult {
        reply: result::reply(&outcome),
        steps: handle.feed.with_records(crate::steps::steps),
        trace_id: trace_of(handle.run_id).trace_id_hex(),
        session_id: handle.session_id.clone(),
        run_id: handle.run_id,
        status: RunStatus::Failed,
        finish_reason: Some(outcome.finish_reason),
        turns: 0,
        usage: RunUsage::default(),
    }
}
