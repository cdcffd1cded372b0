//! How a run comes to be driven: from a new request to its first records, and the one way in which every run is
//! started.
//!
//! Not for what a request may do (`govern`), nor for continuing from a log (`resume`).

use std::sync::Arc;

use neuraxis_brainstem::note_taint;
use neuraxis_core::log::{Carried, standing_plan};
use neuraxis_core::{
    DataPolicy, Message, RunSpec, Seq, SessionId, Step, Taint, TraceContext, Transcript,
    offered_tools,
};
use neuraxis_ports::{Continuation, KeyedRequest, RunStart, Session, StoreError};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Runs;
use super::govern::Governed;
use super::slot::{Claim, RunSlot};
use crate::client_input::ClientInput;
use crate::driver::{Driver, ReadyRun, RunScope};
use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;
use crate::tool_search::carry_over_tools;

/// How often a session is looked up that comes and goes while a request waits, before an error is returned.
const LOOKS: usize = 3;

impl Runs {
    /// Starts the run of a request and returns immediately. A request that repeats an earlier one under the same
    /// idempotency key gets the run that the earlier one began: see [`RunHandle::is_repeat`].
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, before anything is stored. The runtime needs its timers (`enable_time`).
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle leaves the run in progress. Dropping the future before it completes also leaves the run in
    /// progress, or leaves the session free as soon as the store has answered: a run that has begun by then is ended. A
    /// run with an idempotency key is left for the repeated request.
    pub async fn start(&self, request: UserRequest) -> Result<RunHandle, RequestError> {
        // Boxed: otherwise the caller's future would reserve the space that starting needs (4 KiB) for as long as it
        // lives.
        Box::pin(self.check_and_start(request)).await
    }

    async fn check_and_start(&self, request: UserRequest) -> Result<RunHandle, RequestError> {
        self.parts.engine.check_open()?;
        request.check_client_input()?;
        request.check_attachments()?;
        if let Some(key) = request.idempotency_key.clone() {
            // Boxed because most requests have no key.
            return Box::pin(self.begin_once(request, key)).await;
        }
        self.start_governed(request, None).await
    }

    /// Starts the run of a request as governance allows it. A session that is not known here is assumed not to exist,
    /// so nothing is read before the run begins together with its session; if the session does exist, governance is
    /// asked again.
    pub(crate) async fn start_governed(
        &self,
        mut request: UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<RunHandle, RequestError> {
        // A request that is refused on that assumption might not be refused in an existing session.
        if !self.parts.known.may_have(&request.session_id)
            && let Ok((session, spec)) = self.first_run(&request).await
            && let Some(handle) = self
                .launch_with_session(session, spec, &request, keyed.clone())
                .await?
        {
            return Ok(handle);
        }
        for look in 1..=LOOKS {
            let Governed {
                decision,
                new_session,
            } = self.govern(&mut request).await?;
            let spec = self.spec_of(&request, decision).await?;
            let keyed = keyed.clone();
            let launched = match new_session {
                Some(session) => {
                    self.launch_with_session(session, spec, &request, keyed)
                        .await?
                }
                None if look < LOOKS => self.launch_after_last(spec, &request, keyed).await?,
                None => Some(self.launch(spec, &request, keyed).await?),
            };
            if let Some(handle) = launched {
                return Ok(handle);
            }
        }
        Err(StoreError::SessionExists(request.session_id).into())
    }

    /// Describes the run with which a request creates a session, as governance allows it.
    async fn first_run(
        &self,
        request: &UserRequest,
    ) -> Result<(Session, Arc<RunSpec>), RequestError> {
        let decision = self.decision(request, None).await?;
        let spec = self.spec_of(request, decision).await?;
        Ok((self.new_session_for(request)?, spec))
    }

    /// Starts a new run of an existing session together with the records of its first step, from what was read of the
    /// session; `None` if the session has changed since.
    async fn launch_after_last(
        &self,
        mut spec: Arc<RunSpec>,
        request: &UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<Option<RunHandle>, RequestError> {
        let session = &request.session_id;
        let continuation = self.parts.store.continuation(session).await?;
        let Some(last) = continuation.last_run else {
            return self.launch(spec, request, keyed).await.map(Some);
        };
        let mut start = RunStart::after(session.clone(), spec.run_id, last);
        start.request = keyed;
        let history = self
            .continue_session(continuation, Arc::make_mut(&mut spec), request)
            .await?;
        self.launch_with_records(start, spec, history, request)
            .await
    }

    /// Leases a new run of an existing session, and starts it.
    pub(crate) async fn launch(
        &self,
        mut spec: Arc<RunSpec>,
        request: &UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<RunHandle, RequestError> {
        let mut start = RunStart::new(request.session_id.clone(), spec.run_id);
        start.request = keyed;
        let slot = self.claim(&spec)?.lease_for(start).await?;
        let engine = &self.parts.engine;
        let found = async {
            let continuation = self.parts.store.continuation(&request.session_id).await?;
            let history = self.continue_session(continuation, Arc::make_mut(&mut spec), request);
            let history = history.await?;
            // Check again: the store was asked since.
            engine.check_open()?;
            Ok::<_, RequestError>(history)
        };
        let history = match found.await {
            Ok(history) => history,
            Err(error) => {
                let _ = slot.abandon().await;
                return Err(error);
            }
        };
        let trace = engine.trace_of(spec.run_id, request.trace.clone());
        Arc::make_mut(&mut spec).trace = trace;
        let scope = scope_of(&spec, request);
        engine.announce(spec.run_id, &history);
        let run = ReadyRun::new(engine, spec, history);
        Ok(self.start_driving(slot, scope, run).await?)
    }

    /// Creates a session together with a run and the records of its first step: there is no history, so nothing must be
    /// read. `None` if the session exists.
    async fn launch_with_session(
        &self,
        session: Session,
        mut spec: Arc<RunSpec>,
        request: &UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<Option<RunHandle>, RequestError> {
        let client_taint = request.client_input.as_deref().map(ClientInput::taint);
        carry(
            Carried::default(),
            Arc::make_mut(&mut spec),
            false,
            client_taint,
        );
        let mut start = RunStart::in_new_session(session, spec.run_id);
        start.request = keyed;
        let history = Transcript::default();
        self.launch_with_records(start, spec, history, request)
            .await
    }

    /// Starts a run together with the records of its first step; `None` if its session is not in the assumed state.
    async fn launch_with_records(
        &self,
        mut start: RunStart,
        mut spec: Arc<RunSpec>,
        history: Transcript,
        request: &UserRequest,
    ) -> Result<Option<RunHandle>, RequestError> {
        let engine = &self.parts.engine;
        let trace = engine.trace_of(spec.run_id, request.trace.clone());
        Arc::make_mut(&mut spec).trace = trace;
        let scope = scope_of(&spec, request);
        let claim = self.claim(&spec)?;
        let mut run = ReadyRun::new(engine, spec, history.clone());
        start.records = run.storable();
        let began = Instant::now();
        let slot = match claim.lease_for(start).await {
            Err(StoreError::SessionExists(_)) => {
                self.parts.known.note(&request.session_id);
                return Ok(None);
            }
            Err(StoreError::SessionChanged(_)) => return Ok(None),
            leased => leased?,
        };
        run.store_time = Some(began.elapsed());
        engine.announce(scope.run_id, &history);
        Ok(Some(self.start_driving(slot, scope, run).await?))
    }

    fn claim(&self, spec: &RunSpec) -> Result<Claim, RequestError> {
        // Outside of a runtime nothing could drive the run, and it would keep its session busy.
        let _ = Handle::current();
        // Check again: the store and the models may have taken a long time since the request came.
        self.parts.engine.check_open()?;
        // A newly generated id belongs to no other run.
        Claim::take(&self.parts, spec.run_id).ok_or(RequestError::ShuttingDown)
    }

    /// Makes a new run continue where its session's last run ended, and returns the messages that it continues from.
    async fn continue_session(
        &self,
        continuation: Continuation,
        spec: &mut RunSpec,
        request: &UserRequest,
    ) -> Result<Transcript, StoreError> {
        let history = continuation.history;
        let client_taint = request.client_input.as_deref().map(ClientInput::taint);
        carry(
            continuation.carried,
            spec,
            !history.is_empty(),
            client_taint,
        );
        self.carry_tools(&request.session_id, spec, &history)
            .await?;
        Ok(history)
    }

    /// Starts driving a run in a separate task: the only way in which a run of a session comes to be driven.
    pub(super) fn start_driving(
        &self,
        slot: RunSlot,
        scope: RunScope,
        run: ReadyRun,
    ) -> impl Future<Output = Result<RunHandle, StoreError>> + Send {
        self.parts.known.note(slot.session());
        let is_whole = run.policy == DataPolicy::ALL;
        let orphan_policy = slot.orphan_policy();
        // The values of a run's context, such as its place in a limit on runs in progress, must be kept until the run
        // ends, whichever process drives it.
        let handed_over = self.parts.dispatcher.as_ref();
        let handed_over = handed_over.map(|dispatcher| (dispatcher, scope.request.clone()));
        let begun = self.begin(slot, scope, run);
        async move {
            let (driver, first, handle) = begun.await?;
            // A run that ends as it begins leaves nothing to drive, and one with an incomplete log could not be
            // resumed.
            if let Some((dispatcher, context)) = handed_over
                && !first.status.is_ended()
                && is_whole
            {
                let runs = self.with_context(context);
                return Ok(runs
                    .hand_over(dispatcher, driver, handle, orphan_policy)
                    .await);
            }
            driver.show(&handle);
            let task = self.parts.engine.tasks.spawn(driver.drive(first));
            self.parts
                .active
                .note_task(handle.run_id(), task.abort_handle());
            Ok(handle)
        }
    }

    /// Creates the driver and the handle of a run, and stores the records of its first step.
    ///
    /// Neither this nor [`start_driving`](Self::start_driving) is an `async fn`, which would reserve space for a run's
    /// initial state, twice, for as long as the run begins.
    pub(super) fn begin(
        &self,
        slot: RunSlot,
        scope: RunScope,
        run: ReadyRun,
    ) -> impl Future<Output = Result<(Box<Driver>, Step, RunHandle), StoreError>> + Send + use<>
    {
        let engine = Arc::clone(&self.parts.engine);
        let (session_id, trace) = (slot.session().clone(), scope.trace.clone());
        let trace = trace.unwrap_or_else(|| TraceContext::of_run(scope.run_id));
        let begun = Driver::begin(engine, scope, Some(slot), run);
        async move {
            let (driver, first, link) = begun.persist_first_step().await?;
            let handle = RunHandle {
                link,
                session_id,
                trace,
                is_repeat: false,
            };
            Ok((driver, first, handle))
        }
    }

    /// Lets a run whose agent searches its tools continue with the tools that the session's last run ended with, and
    /// with those that the session called. Call it under the same condition as [`carry`]. Only in such sessions is the
    /// log of that run read. A fork has its tools already.
    async fn carry_tools(
        &self,
        session: &SessionId,
        spec: &mut RunSpec,
        history: &Transcript,
    ) -> Result<(), StoreError> {
        let is_branch = spec.forked_from.is_some();
        if spec.root.search.is_none() || history.is_empty() || is_branch {
            return Ok(());
        }
        let store = &self.parts.store;
        let runs = store.runs(session).await?;
        let mut latest_first = runs.iter().rev();
        let last = latest_first.find(|run| run.run_id != spec.run_id && run.log.records > 0);
        let earlier = match last {
            Some(run) => {
                let records = store.records(run.run_id, Seq(0)).await?;
                offered_tools(records.iter().map(Arc::as_ref))
            }
            None => Vec::new(),
        };
        carry_over_tools(&mut spec.root, &earlier, history);
        Ok(())
    }
}

fn scope_of(spec: &RunSpec, request: &UserRequest) -> RunScope {
    RunScope {
        run_id: spec.run_id,
        delivery: request.delivery,
        trace: spec.trace.clone(),
        decision: spec.decision.clone(),
        offered_now: None,
        session_id: Some(request.session_id.clone()),
        request: request.context.clone(),
    }
}

/// Lets a run begin with the untrusted content that its session holds, and with the current plan. What the session
/// carries must be read once the session is leased: until then another run may add to it.
fn carry(carried: Carried, spec: &mut RunSpec, has_history: bool, client_taint: Option<Taint>) {
    let mut taint = carried.taint;
    if let Some(client_taint) = client_taint {
        taint.merge(&client_taint);
    }
    // A history that began with the plan would have no place for the agent's own instructions.
    let plan = carried.plan.filter(|_| has_history);
    if let Some(note) = plan.as_ref().and_then(standing_plan)
        && !spec.messages.is_empty()
    {
        // Results of calls that were handed over stay next to those calls.
        let is_result = |message: &Arc<Message>| matches!(**message, Message::Tool(_));
        let results = spec.messages.iter().take_while(|it| is_result(it));
        let place = results.count();
        spec.messages.insert(place, Arc::new(Message::system(note)));
    }
    if spec.root.cites() {
        spec.sources.extend(carried.sources);
    }
    // Many runs share one decision, but the content of this conversation concerns only this run.
    if let Some(decision) = &mut spec.decision
        && !taint.is_clean()
    {
        note_taint(Arc::make_mut(decision), &taint);
    }
}
