//! How a run comes to be driven: from a new request to its first records, and the one way in which every run is
//! started.
//!
//! Not for what a request may do (`govern`), nor for continuing from a log (`resume`).

use std::sync::Arc;

use neuraxis_brainstem::note_taint;
use neuraxis_core::log::{Carried, standing_plan};
use neuraxis_core::{
    DataPolicy, Message, RunId, RunSpec, Seq, SessionId, Step, Taint, TraceContext, Transcript,
    offered_tools,
};
use neuraxis_ports::{
    Continuation, KeyedRequest, RequestContext, RunDispatcher, RunStart, Session, StoreError,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Runs;
use super::slot::{Claim, OrphanPolicy, RunSlot};
use crate::client_input::ClientInput;
use crate::driver::{Beginning, Driver, ReadyRun, RunScope};
use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;
use crate::tool_search::carry_over_tools;

/// How often a session is looked up that comes and goes while a request waits, before an error is returned.
const LOOKS: usize = 3;

/// What a new run continues from, and so what is stored when it is leased.
#[derive(Debug)]
pub(super) enum Base {
    /// Nothing: its session is created together with the run and the records of its first step. Nothing is read.
    NewSession(Session),
    /// What the session's last run left, as read before. The records of the first step are stored together with the
    /// lease, and refused if another run came after that one.
    LastRun { last: RunId, left: Continuation },
    /// What the session holds once it is leased for the run, which is read then. The records follow.
    Leased,
}

/// A run that has its driver, and whose first step's records are yet to be stored, unless they were when it was leased.
pub(super) struct BegunRun {
    beginning: Beginning,
    session_id: SessionId,
    trace: TraceContext,
    /// How the run is left to other processes, if they drive runs.
    hand_over: Option<HandOver>,
}

/// What leaving a run to other processes needs.
struct HandOver {
    dispatcher: Arc<dyn RunDispatcher>,
    /// The values of the run's context, such as its place in a limit on runs in progress, must be kept until the run
    /// ends, whichever process drives it.
    context: RequestContext,
    orphan_policy: OrphanPolicy,
}

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
        // 0 is no look: the session is assumed to be new.
        let mut look = usize::from(self.parts.known.may_have(&request.session_id));
        // Why the request was refused on that assumption.
        let mut refusal = None;
        loop {
            let session = match look {
                0 => None,
                _ => self.enter_session(&mut request).await?,
            };
            if session.is_none()
                && let Some(refusal) = refusal.take()
            {
                return Err(refusal);
            }
            let launched = match self.plan(&request, session.as_ref(), look).await {
                Ok((base, spec)) => self.launch(base, spec, &request, keyed.clone()).await,
                Err(error) if look == 0 => {
                    // It might not be refused in an existing session. A failure of the store is no refusal.
                    refusal = Some(error).filter(|error| !matches!(error, RequestError::Store(_)));
                    look += 1;
                    continue;
                }
                Err(error) => Err(error),
            };
            match launched {
                // The session is not in the assumed state.
                Err(RequestError::Store(
                    StoreError::SessionExists(_) | StoreError::SessionChanged(_),
                )) if look < LOOKS => {
                    self.parts.known.note(&request.session_id);
                    look += 1;
                }
                launched => return launched,
            }
        }
    }

    /// Describes the run of a request as governance allows it, and determines what it continues from.
    async fn plan(
        &self,
        request: &UserRequest,
        session: Option<&Session>,
        look: usize,
    ) -> Result<(Base, Arc<RunSpec>), RequestError> {
        let decision = self.decision(request, session).await?;
        let spec = self.spec_of(request, decision).await?;
        let base = match session {
            None => Base::NewSession(self.new_session_for(request)?),
            Some(session) if look < LOOKS => {
                let left = self.parts.store.continuation(&session.id).await?;
                left.last_run
                    .map_or(Base::Leased, |last| Base::LastRun { last, left })
            }
            Some(_) => Base::Leased,
        };
        Ok((base, spec))
    }

    /// Starts a new run. If its session is not as its base says, the error is [`StoreError::SessionExists`] or
    /// [`StoreError::SessionChanged`], and nothing was stored.
    pub(super) async fn launch(
        &self,
        base: Base,
        mut spec: Arc<RunSpec>,
        request: &UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<RunHandle, RequestError> {
        let (session, run_id) = (request.session_id.clone(), spec.run_id);
        let (mut start, continuation) = match base {
            Base::NewSession(new) => {
                let nothing = Continuation::new(None, Transcript::default(), Carried::default());
                (RunStart::in_new_session(new, run_id), Some(nothing))
            }
            Base::LastRun { last, left } => (RunStart::after(session, run_id, last), Some(left)),
            Base::Leased => (RunStart::new(session, run_id), None),
        };
        start.request = keyed;
        let (slot, history, (scope, run)) = match continuation {
            Some(continuation) => {
                let spec_of_run = Arc::make_mut(&mut spec);
                let history = self.continue_session(continuation, spec_of_run, request);
                let history = history.await?;
                let (scope, mut run) = self.first_step(spec, history.clone(), request);
                start.records = run.storable();
                let claim = self.claim(run_id)?;
                let began = Instant::now();
                let slot = claim.lease_for(start).await?;
                run.store_time = Some(began.elapsed());
                (slot, history, (scope, run))
            }
            None => {
                let slot = self.claim(run_id)?.lease_for(start).await?;
                let read = self.continue_leased(Arc::make_mut(&mut spec), request);
                let history = match read.await {
                    Ok(history) => history,
                    Err(error) => {
                        let _ = slot.abandon().await;
                        return Err(error);
                    }
                };
                let first = self.first_step(spec, history.clone(), request);
                (slot, history, first)
            }
        };
        self.parts.engine.announce(run_id, &history);
        let begun = self.begin(slot, scope, run);
        Ok(self.start_driving(begun).await?)
    }

    fn claim(&self, run: RunId) -> Result<Claim, RequestError> {
        // Outside of a runtime nothing could drive the run, and it would keep its session busy.
        let _ = Handle::current();
        // Check again: the store and the models may have taken a long time since the request came.
        self.parts.engine.check_open()?;
        // A newly generated id belongs to no other run.
        Claim::take(&self.parts, run).ok_or(RequestError::ShuttingDown)
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

    /// Like [`continue_session`](Self::continue_session), in a session that is leased for the run: reads what it holds.
    async fn continue_leased(
        &self,
        spec: &mut RunSpec,
        request: &UserRequest,
    ) -> Result<Transcript, RequestError> {
        let continuation = self.parts.store.continuation(&request.session_id).await?;
        let history = self.continue_session(continuation, spec, request).await?;
        // Check again: the store was asked since.
        self.parts.engine.check_open()?;
        Ok(history)
    }

    /// Creates the first step of a run, of which nothing is stored yet.
    fn first_step(
        &self,
        mut spec: Arc<RunSpec>,
        history: Transcript,
        request: &UserRequest,
    ) -> (RunScope, ReadyRun) {
        let engine = &self.parts.engine;
        let trace = engine.trace_of(spec.run_id, request.trace.clone());
        Arc::make_mut(&mut spec).trace = trace;
        let scope = scope_of(&spec, request);
        (scope, ReadyRun::new(engine, spec, history))
    }

    /// Creates the driver and the handle of a run.
    pub(super) fn begin(&self, slot: RunSlot, scope: RunScope, run: ReadyRun) -> BegunRun {
        self.parts.known.note(slot.session());
        let trace = scope.trace.clone();
        // A run with an incomplete log could not be resumed.
        let is_whole = run.policy == DataPolicy::ALL;
        let dispatcher = self.parts.dispatcher.as_ref().filter(|_| is_whole);
        BegunRun {
            session_id: slot.session().clone(),
            trace: trace.unwrap_or_else(|| TraceContext::of_run(scope.run_id)),
            hand_over: dispatcher.map(|dispatcher| HandOver {
                dispatcher: Arc::clone(dispatcher),
                context: scope.request.clone(),
                orphan_policy: slot.orphan_policy(),
            }),
            beginning: Driver::begin(Arc::clone(&self.parts.engine), scope, Some(slot), run),
        }
    }

    /// Starts driving a run in a separate task: the only way in which a run of a session comes to be driven.
    pub(super) async fn start_driving(&self, mut begun: BegunRun) -> Result<RunHandle, StoreError> {
        let hand_over = begun.hand_over.take();
        let (driver, first, handle) = begun.persist_first_step().await?;
        // A run that ends as it begins leaves nothing to drive.
        if let Some(HandOver {
            dispatcher,
            context,
            orphan_policy,
        }) = hand_over.filter(|_| !first.status.is_ended())
        {
            let runs = self.with_context(context);
            return Ok(runs
                .hand_over(&dispatcher, driver, handle, orphan_policy)
                .await);
        }
        driver.show(&handle);
        let task = self.parts.engine.tasks.spawn(driver.drive(first));
        self.parts
            .active
            .note_task(handle.run_id(), task.abort_handle());
        Ok(handle)
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

impl BegunRun {
    /// Stores the records of the first step, unless they are stored.
    pub(super) async fn persist_first_step(
        self,
    ) -> Result<(Box<Driver>, Step, RunHandle), StoreError> {
        let (driver, first, link) = self.beginning.persist_first_step().await?;
        let handle = RunHandle {
            link,
            session_id: self.session_id,
            trace: self.trace,
            is_repeat: false,
        };
        Ok((driver, first, handle))
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
