//! The entry point for embedders, and the services behind it.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_brainstem::{DegradedRole, Policy};
use neuraxis_core::{Channel, Decision, Mode, PlanName, Role, RunId, SessionId};
use neuraxis_ports::{ModelInfo, RunDispatcher, SessionStore, StoreError};

use crate::agent::Agent;
use crate::approvals::Approvals;
use crate::builder::OrchestratorBuilder;
use crate::catalog::ToolCatalog;
use crate::engine::Engine;
use crate::event::Events;
use crate::live::LiveExchange;
use crate::request::{RequestError, UserRequest};
use crate::result::{self, OrchestratorResult};
use crate::run_handle::{CancelOnDrop, NoResult, RunHandle};
use crate::runs::{
    ActiveRuns, DecisionCache, Dispatches, FormerEngines, KnownSessions, LostRuns, Runs, Successor,
    VerifiedSessions,
};
use crate::sessions::Sessions;
use crate::tool_search::ToolOffer;
use crate::warnings::ToolWarning;

/// Runs governed, tool-using conversations, and stores them. Clones share the engine.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    parts: Arc<Parts>,
}

/// The parts that the services of one orchestrator share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    /// Where sessions and records are kept.
    pub(crate) store: Arc<dyn SessionStore>,
    /// The sessions that are known to exist.
    pub(crate) known: KnownSessions,
    /// The sessions that were found unaltered; `None` if sessions are not verified.
    pub(crate) verified: Option<VerifiedSessions>,
    /// Decisions of governance that stay the same for the same kind of request.
    pub(crate) decisions: DecisionCache,
    /// The tools that cannot run.
    pub(crate) warnings: Vec<ToolWarning>,
    /// The plan for requests that name none.
    pub(crate) plan: Option<PlanName>,
    /// The runs in progress in this engine.
    pub(crate) active: ActiveRuns,
    /// The engines that this one replaced.
    pub(crate) former: FormerEngines,
    /// The engines that replaced this one.
    pub(crate) successor: Successor,
    /// The runs that were left here while this process is still alive.
    pub(crate) lost: LostRuns,
    /// Hands runs to other processes; `None` if they are driven here.
    pub(crate) dispatcher: Option<Arc<dyn RunDispatcher>>,
    /// The runs that are being dispatched, and those that were dispatched again.
    pub(crate) dispatches: Arc<Dispatches>,
    /// Exchanges live events with other processes; `None` if they are not exchanged.
    pub(crate) live: Option<Arc<LiveExchange>>,
}

impl Orchestrator {
    /// Returns a builder of an orchestrator.
    #[must_use]
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::default()
    }

    pub(crate) const fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    /// Returns the service that starts and resumes runs, and reaches them while they are in progress.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(&self.parts)
    }

    /// Returns the service that lists, shows, checks, moves and removes sessions.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions::new(Arc::clone(&self.parts.store))
    }

    /// Returns the service for calls that wait for approval.
    #[must_use]
    pub fn approvals(&self) -> Approvals {
        Approvals::new(&self.parts)
    }

    /// Handles a user message end to end.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists. Once a run exists there is always a result,
    /// however badly the run goes, unless the run was left without an end: [`RequestError::NoResult`].
    ///
    /// # Panics
    ///
    /// Same as [`Runs::start`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run, or leaves the session free if no run exists yet. A run that is just being
    /// stored is ended as soon as the store has answered.
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

    /// Like [`handle_user_request`](Self::handle_user_request), with everything a request can specify.
    ///
    /// # Errors
    ///
    /// Same as `handle_user_request`.
    ///
    /// # Panics
    ///
    /// Same as [`Runs::start`].
    ///
    /// # Cancel safety
    ///
    /// Same as `handle_user_request`, with two exceptions: a run that an earlier request began under the same
    /// idempotency key is not cancelled, since it belongs to that request; and a run with a key that is just being
    /// stored is left for the repeated request.
    pub async fn handle(&self, request: UserRequest) -> Result<OrchestratorResult, RequestError> {
        let handle = self.runs().start(request).await?;
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

    /// Starts a run and returns immediately, with a handle to it and its events. A request that repeats an earlier one
    /// under the same idempotency key gets the run that the earlier one began: see [`RunHandle::is_repeat`].
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists.
    ///
    /// # Panics
    ///
    /// Same as [`Runs::start`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle or the events leaves the run in progress. Dropping the future before it completes also
    /// leaves the run in progress, or leaves the session free, as for [`Runs::start`].
    pub async fn stream(&self, request: UserRequest) -> Result<(RunHandle, Events), RequestError> {
        let handle = self.runs().start(request).await?;
        let events = handle.events();
        Ok((handle, events))
    }

    /// Returns the models, each with the role that it was given for.
    pub fn models(&self) -> impl Iterator<Item = (&Role, ModelInfo)> {
        let models = self.parts.engine.models.iter();
        models.map(|(role, model)| (role, model.info()))
    }

    /// Checks whether the store accepts records at this moment, and so whether the engine can make progress.
    ///
    /// # Errors
    ///
    /// The reason why it does not.
    pub async fn probe_store(&self) -> Result<(), StoreError> {
        self.parts.store.probe().await
    }

    /// Decides what a request may do, without running it. The content of its conversation and earlier usage are not
    /// taken into account.
    ///
    /// # Errors
    ///
    /// [`RequestError::Policy`] if the policy refuses the request.
    pub fn decide(&self, request: &UserRequest) -> Result<Decision, RequestError> {
        self.runs().decide(request)
    }

    /// Like [`decide`](Self::decide), for a request that would begin a session now: what its owner has used today of
    /// the budgets of its plan is taken into account.
    ///
    /// # Errors
    ///
    /// Same as `decide`, or [`RequestError::Store`] if the store could not report the usage.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn decide_today(&self, request: &UserRequest) -> Result<Decision, RequestError> {
        self.runs().decide_today(request).await
    }

    /// Returns the tools that the first request of the answering agent would hold, for a decision about a message in a
    /// new session, and how many tools its model would have to find. Whether the tools fit the model's context is not
    /// taken into account.
    #[must_use]
    pub fn tool_offer(&self, decision: &Decision, message: &str) -> ToolOffer {
        let engine = &self.parts.engine;
        let (catalog, tools) = (engine.catalog(), decision.tools.iter());
        let specs = tools.filter_map(|name| Some(catalog.tool(name)?.spec().clone()));
        let mut agent = engine.policy.main_agent(decision, specs.collect());
        engine.narrow_requests(&mut agent, message);
        ToolOffer::of(&agent)
    }

    /// Returns the degraded roles, each with the reason: their models keep failing, so other models serve for them for
    /// a while. Only failures seen by the runs of this engine are known.
    #[must_use]
    pub fn degraded_roles(&self) -> Vec<DegradedRole> {
        self.parts.engine.health.degraded()
    }

    /// Returns whether the engine has stopped accepting new runs.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.parts.engine.is_shutting_down()
    }

    /// Returns an agent that runs without sessions and without governance on the same models and tools: the agent
    /// `main_thread`, as built by [`build_agent`](OrchestratorBuilder::build_agent).
    #[must_use]
    pub fn agent(&self) -> Agent {
        Agent::main_thread(Arc::clone(&self.parts.engine))
    }

    /// Stops accepting new runs, lets those in progress continue for a grace period, and then leaves the rest to be
    /// resumed by any engine on the same store. Nothing is recorded about leaving a run, and its session stays busy.
    /// Returns the runs that were left.
    ///
    /// To its listeners a left run looks like a run whose process died: its events end without a last one, and
    /// [`RunHandle::result`] returns an error. When it is resumed, calls that were in progress are repeated or reported
    /// as unknown, depending on their class. A run that is not stored is cancelled. If the store does not outlive the
    /// process, prefer [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the engine accepts no new runs, and some runs may stay left until their leases expire.
    pub async fn suspend(&self, grace: Duration) -> Vec<RunId> {
        self.runs().suspend(grace).await
    }

    /// Returns the policy that decides about requests.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.parts.engine.policy
    }

    /// Returns the tools that exist now. Those of a [source](crate::OrchestratorBuilder::tool_source) may change later.
    #[must_use]
    pub fn tools(&self) -> Arc<ToolCatalog> {
        self.parts.engine.catalog()
    }

    /// Returns the tools that cannot run whatever is requested, each with the reason and what to do about it. Depends
    /// only on the policy, the tools and whether there is an approver, as they were when the orchestrator was built.
    #[must_use]
    pub fn warnings(&self) -> &[ToolWarning] {
        &self.parts.warnings
    }

    /// Ends all runs, lets them record it, and stops accepting new ones.
    pub async fn shutdown(&self) {
        self.parts.engine.shutdown.cancel();
        self.parts.engine.tasks.close();
        self.parts.engine.tasks.wait().await;
    }
}
