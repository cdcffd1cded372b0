//! How a run comes to be driven: a new one from a request to its first records, and the one way in which every run is set to
//! work.
//!
//! Not for what a request may do (`govern`), nor for what goes on from a log (`resume`).

use std::sync::Arc;

use neuraxis_brainstem::note_taint;
use neuraxis_core::log::{Carried, standing_plan};
use neuraxis_core::{
    DataPolicy, Message, RunSpec, Seq, SessionId, Step, Taint, TraceContext, Transcript,
    offered_tools,
};
use neuraxis_ports::{KeyedRequest, RunStart, Session, Standing, StoreError};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Runs;
use super::govern::Governed;
use super::slot::{Claim, RunSlot};
use crate::brought::Brought;
use crate::driver::{Driver, ReadyRun, RunScope};
use crate::request::{RequestError, UserRequest};
use crate::run_handle::RunHandle;
use crate::tool_search::go_on_with;

/// How often a session is looked for that comes and goes while a request waits, before that is told.
const LOOKS: usize = 3;

impl Runs {
    /// Begins the run of a request and returns at once. A request that was made before under the same idempotency key gets the
    /// run that it began then: [`RunHandle::is_repeat`] tells.
    ///
    /// # Errors
    ///
    /// A [`RequestError`] if the request is refused before a run exists.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio, before anything is kept. That runtime needs its timers (`enable_time`).
    ///
    /// # Cancel safety
    ///
    /// Dropping the handle leaves the run at work; dropping the future before it is over does, too, or leaves the session free, as
    /// soon as the store has answered: a run that began by then is ended. One under an idempotency key is left for the request made
    /// again.
    pub async fn start(&self, request: UserRequest) -> Result<RunHandle, RequestError> {
        // Boxed: a caller's own future keeps room for what beginning takes (4 KiB) for as long as it lives.
        Box::pin(self.start_asked(request)).await
    }

    async fn start_asked(&self, request: UserRequest) -> Result<RunHandle, RequestError> {
        self.parts.engine.check_open()?;
        request.check_brought()?;
        request.check_attachments()?;
        if let Some(key) = request.idempotency_key.clone() {
            // Boxed, because most requests have no key.
            return Box::pin(self.begin_once(request, key)).await;
        }
        self.start_governed(request, None).await
    }

    /// Begins the run of a request as governance allows it. That its session is not known here is taken to mean that there is
    /// none, so that nothing is read before the run begins with it; where there is one, it is asked about again.
    pub(crate) async fn start_governed(
        &self,
        mut request: UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<RunHandle, RequestError> {
        // What is refused that way might not be in the session that is there.
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
            let spec = self.asked_spec(&request, decision).await?;
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

    /// Describes the run that a request makes a session with, as governance allows it.
    async fn first_run(
        &self,
        request: &UserRequest,
    ) -> Result<(Session, Arc<RunSpec>), RequestError> {
        let decision = self.decision(request, None).await?;
        let spec = self.asked_spec(request, decision).await?;
        Ok((self.new_session_for(request)?, spec))
    }

    /// Starts a new run of a session that is there with the records of its first step at once, by what was read of the
    /// session; `None` if that was no longer so.
    async fn launch_after_last(
        &self,
        mut spec: Arc<RunSpec>,
        request: &UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<Option<RunHandle>, RequestError> {
        let session = &request.session_id;
        let standing = self.parts.store.standing(session).await?;
        let Some(last) = standing.last_run else {
            return self.launch(spec, request, keyed).await.map(Some);
        };
        let mut start = RunStart::after(session.clone(), spec.run_id, last);
        start.request = keyed;
        let history = self
            .go_on(standing, Arc::make_mut(&mut spec), request)
            .await?;
        self.launch_at_once(start, spec, history, request).await
    }

    /// Leases a new run of a session that is there, and starts it.
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
            let standing = self.parts.store.standing(&request.session_id).await?;
            let history = self.go_on(standing, Arc::make_mut(&mut spec), request);
            let history = history.await?;
            // And once more: the store was asked again since.
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
        Ok(self.set_to_work(slot, scope, run).await?)
    }

    /// Makes a session with a run and the records of its first step at once: nothing came before, so that nothing has to be
    /// read. `None` if the session is there.
    async fn launch_with_session(
        &self,
        session: Session,
        mut spec: Arc<RunSpec>,
        request: &UserRequest,
        keyed: Option<KeyedRequest>,
    ) -> Result<Option<RunHandle>, RequestError> {
        let brought = request.brought.as_deref().map(Brought::taint);
        carry(Carried::default(), Arc::make_mut(&mut spec), false, brought);
        let mut start = RunStart::in_new_session(session, spec.run_id);
        start.request = keyed;
        let history = Transcript::default();
        self.launch_at_once(start, spec, history, request).await
    }

    /// Begins a run with the records of its first step, and sets it to work; `None` if its session is not what it was taken for.
    async fn launch_at_once(
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
        run.kept = Some(began.elapsed());
        engine.announce(scope.run_id, &history);
        Ok(Some(self.set_to_work(slot, scope, run).await?))
    }

    fn claim(&self, spec: &RunSpec) -> Result<Claim, RequestError> {
        // Outside of a runtime nothing could drive the run, and its session would be busy with it.
        let _ = Handle::current();
        // Once more: the store and the models may have taken long since the request came.
        self.parts.engine.check_open()?;
        // An id just made is nobody else's.
        Claim::take(&self.parts, spec.run_id).ok_or(RequestError::ShuttingDown)
    }

    /// Lets a new run go on from where its session stands, and returns the messages that it goes on from.
    async fn go_on(
        &self,
        standing: Standing,
        spec: &mut RunSpec,
        request: &UserRequest,
    ) -> Result<Transcript, StoreError> {
        let history = standing.history;
        let brought = request.brought.as_deref().map(Brought::taint);
        carry(standing.carried, spec, !history.is_empty(), brought);
        self.carry_tools(&request.session_id, spec, &history)
            .await?;
        Ok(history)
    }

    /// Lets a run go on in a task of its own: the one way by which a run of a session comes to be driven.
    pub(super) fn set_to_work(
        &self,
        slot: RunSlot,
        scope: RunScope,
        run: ReadyRun,
    ) -> impl Future<Output = Result<RunHandle, StoreError>> + Send {
        self.parts.known.note(slot.session());
        let is_whole = run.policy == DataPolicy::ALL;
        let unheard = slot.unheard();
        // What a run is given, such as its place among those at work, it has until it is over, whoever drives it.
        let handed_over = self.parts.dispatcher.as_ref();
        let handed_over = handed_over.map(|dispatcher| (dispatcher, scope.request.clone()));
        let begun = self.begin(slot, scope, run);
        async move {
            let (driver, first, handle) = begun.await?;
            // One that ends as it begins leaves nothing to be driven, and one whose log is not whole could not be taken up.
            if let Some((dispatcher, context)) = handed_over
                && !first.status.is_ended()
                && is_whole
            {
                let runs = self.with_context(context);
                return Ok(runs.hand_over(dispatcher, driver, handle, unheard).await);
            }
            driver.show(&handle);
            let task = self.parts.engine.tasks.spawn(driver.drive(first));
            self.parts
                .active
                .note_task(handle.run_id(), task.abort_handle());
            Ok(handle)
        }
    }

    /// Gives a run its driver and its handle, and keeps the records of its first step.
    ///
    /// Neither this nor [`set_to_work`](Self::set_to_work) is an `async fn`, which would keep room for what a run begins with,
    /// and that twice, for as long as it begins.
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
            let (driver, first, link) = begun.kept().await?;
            let handle = RunHandle {
                link,
                session_id,
                trace,
                is_repeat: false,
            };
            Ok((driver, first, handle))
        }
    }

    /// Lets a run whose agent searches its tools go on with those that the session's last run ended with, and with those that
    /// the session called. To be called as [`carry`] is. The log of that run is read, in such sessions
    /// alone. A run that branches off has its tools already.
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
        go_on_with(&mut spec.root, &earlier, history);
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

/// Lets a run begin with the untrusted content that its session holds, and with the plan that stands. What the session carries
/// has to be read once it is leased: until then another run may bring more.
fn carry(carried: Carried, spec: &mut RunSpec, has_history: bool, brought: Option<Taint>) {
    let mut taint = carried.taint;
    if let Some(brought) = brought {
        taint.merge(&brought);
    }
    // A history that began with it would have no place for the agent's own instructions.
    let plan = carried.plan.filter(|_| has_history);
    if let Some(note) = plan.as_ref().and_then(standing_plan)
        && !spec.messages.is_empty()
    {
        // Results of calls that were handed over stay next to them.
        let is_result = |message: &Arc<Message>| matches!(**message, Message::Tool(_));
        let results = spec.messages.iter().take_while(|it| is_result(it));
        let place = results.count();
        spec.messages.insert(place, Arc::new(Message::system(note)));
    }
    if spec.root.cites() {
        spec.sources.extend(carried.sources);
    }
    // Many runs share one decision; what this one's conversation holds is its own.
    if let Some(decision) = &mut spec.decision
        && !taint.is_clean()
    {
        note_taint(Arc::make_mut(decision), &taint);
    }
}
