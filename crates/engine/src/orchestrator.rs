//! The entry point: what an embedder asks, and the services behind it.

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

/// Runs governed, tool-using conversations, and keeps them in a store. Cloning shares the engine.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    parts: Arc<Parts>,
}

/// What the services of one orchestrator share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    /// Where sessions and records are kept.
    pub(crate) store: Arc<dyn SessionStore>,
    /// The sessions that are known to be there.
    pub(crate) known: KnownSessions,
    /// The sessions that were found whole; `None` where nobody looks.
    pub(crate) verified: Option<VerifiedSessions>,
    /// What governance decided, as far as it decides alike.
    pub(crate) decisions: DecisionCache,
    /// The tools that cannot run.
    pub(crate) warnings: Vec<ToolWarning>,
    /// The plan of requests that name none.
    pub(crate) plan: Option<PlanName>,
    /// The runs at work here.
    pub(crate) active: ActiveRuns,
    /// The engines whose place this one took.
    pub(crate) former: FormerEngines,
    /// The engines that took the place of this one.
    pub(crate) successor: Successor,
    /// The runs that were left here although this process lives.
    pub(crate) lost: LostRuns,
    /// Who has runs driven by other processes; `None` where they are driven here.
    pub(crate) dispatcher: Option<Arc<dyn RunDispatcher>>,
    /// The runs that are being dispatched, and those that were once more.
    pub(crate) dispatches: Arc<Dispatches>,
    /// By which live events are passed on between processes; `None` where they are not.
    pub(crate) live: Option<Arc<LiveExchange>>,
}

impl Orchestrator {
    /// Begins to put an orchestrator together.
    #[must_use]
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::default()
    }

    pub(crate) const fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    /// Returns the service that begins runs, takes them up again and reaches them while they are at work.
    #[must_use]
    pub fn runs(&self) -> Runs {
        Runs::new(&self.parts)
    }

    /// Returns the service that lists, shows, checks, moves and removes sessions.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions::new(Arc::clone(&self.parts.store))
    }

    /// Returns the service for calls that wait for a person.
    #[must_use]
    pub fn approvals(&self) -> Approvals {
        Approvals::new(&self.parts)
    }

    /// Handles a user message end to end.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists. Once there is a run there is a result, however
    /// badly it goes, unless it was left without an end: [`RequestError::NoResult`].
    ///
    /// # Panics
    ///
    /// As [`Runs::start`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the run, and leaves the session free if there is none yet. A run that the store is just
    /// beginning is ended as soon as the store has answered.
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
    /// # Panics
    ///
    /// As [`Runs::start`].
    ///
    /// # Cancel safety
    ///
    /// As there; but a run that an earlier request under the same idempotency key began is that request's to cancel, and one
    /// under a key that the store is just beginning is left for the request made again.
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

    /// Begins a run and returns at once, with a handle on it and its events. A request that was made before under the same
    /// idempotency key gets the run that it began then: [`RunHandle::is_repeat`] tells.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists.
    ///
    /// # Panics
    ///
    /// As [`Runs::start`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle or the events leaves the run at work; dropping the future before it is over does, too, or leaves
    /// the session free, as for [`Runs::start`].
    pub async fn stream(&self, request: UserRequest) -> Result<(RunHandle, Events), RequestError> {
        let handle = self.runs().start(request).await?;
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

    /// As [`decide`](Self::decide), about a request that would begin a session now: what its owner used today of the budgets of
    /// its plan counts.
    ///
    /// # Errors
    ///
    /// As there, or [`RequestError::Store`] if the store could not say what was used.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn decide_today(&self, request: &UserRequest) -> Result<Decision, RequestError> {
        self.runs().decide_today(request).await
    }

    /// Returns which tools the first request of the agent that answers would hold, by a decision about a message in a new
    /// session, and how many its model would have to find. What fits the context of its model is left out of account.
    #[must_use]
    pub fn tool_offer(&self, decision: &Decision, message: &str) -> ToolOffer {
        let engine = &self.parts.engine;
        let (catalog, tools) = (engine.catalog(), decision.tools.iter());
        let specs = tools.filter_map(|name| Some(catalog.tool(name)?.spec().clone()));
        let mut agent = engine.policy.main_agent(decision, specs.collect());
        engine.narrow_requests(&mut agent, message);
        ToolOffer::of(&agent)
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

    /// Returns what runs without sessions and without governance on the same models and tools: the agent `main_thread`, as
    /// [`build_agent`](OrchestratorBuilder::build_agent) makes it.
    #[must_use]
    pub fn agent(&self) -> Agent {
        Agent::main_thread(Arc::clone(&self.parts.engine))
    }

    /// Takes no new runs, lets those at work go on for a while, and leaves what has not ended then to be taken up by any
    /// engine on the same store: nothing is recorded of it, and its session stays busy. Returns the runs that are left.
    ///
    /// A left run is one whose process died, for whoever listens to it: its events end without a last one, and
    /// [`RunHandle::result`] is an error. Calls that were under way are made again, or told as unknown, as their class allows.
    /// A run that is kept nowhere is cancelled. Where the store does not outlive the process [`shutdown`](Self::shutdown) is
    /// kinder.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the engine takes no new runs, and some runs may be left until their leases have run out.
    pub async fn suspend(&self, grace: Duration) -> Vec<RunId> {
        self.runs().suspend(grace).await
    }

    /// Returns the policy that decides about requests.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.parts.engine.policy
    }

    /// Returns the tools there are now. Those of a [source](crate::OrchestratorBuilder::tool_source) may be others later.
    #[must_use]
    pub fn tools(&self) -> Arc<ToolCatalog> {
        self.parts.engine.catalog()
    }

    /// Returns the tools that cannot run, whatever is asked for, with why and what to do about it. Only the policy, the tools
    /// and whether there is an approver count, as they were when this was built.
    #[must_use]
    pub fn warnings(&self) -> &[ToolWarning] {
        &self.parts.warnings
    }

    /// Ends all runs, lets them record it, and takes no new ones.
    pub async fn shutdown(&self) {
        self.parts.engine.shutdown.cancel();
        self.parts.engine.tasks.close();
        self.parts.engine.tasks.wait().await;
    }
}
