//! Runs that are handed over to other processes: here, to another engine on the same store that drives them step by
//! step.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuraxis_core::{
    ApprovalDecision, JsonText, Role, RunId, RunStatus, Seq, SessionId, ToolCallId, ToolOutcome,
    ToolOutput,
};
use neuraxis_engine::{
    DecideLater, Event, Orchestrator, OrchestratorBuilder, ResumeError, RunProgress, UuidV7,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    DispatchError, RunDispatcher, RunLog as _, SessionIndex as _, Tool as _, async_trait,
};
use neuraxis_testkit::{
    Act, Fault, Script, ScriptedModel, ScriptedTool, StoreOperation, assert_paired, reply, spec,
};
use tokio::sync::mpsc;

use crate::support::{builder, failing_store, policy, request, session};

/// Passes dispatched runs on, except for the first attempts.
#[derive(Debug)]
struct Dispatched {
    runs: mpsc::UnboundedSender<RunId>,
    failures: AtomicUsize,
}

#[async_trait]
impl RunDispatcher for Dispatched {
    async fn dispatch(&self, _session: &SessionId, run: RunId) -> Result<(), DispatchError> {
        let left = |left: usize| left.checked_sub(1);
        let failed = self
            .failures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        if failed.is_ok() {
            return Err(DispatchError::new("nobody is there"));
        }
        self.runs.send(run).unwrap();
        Ok(())
    }
}

struct Fleet {
    store: Arc<MemoryStore>,
    server: Orchestrator,
    worker: Orchestrator,
    dispatcher: Arc<Dispatched>,
    dispatched: mpsc::UnboundedReceiver<RunId>,
}

impl Fleet {
    fn new(model: ScriptedModel, tools: Vec<ScriptedTool>) -> Self {
        Self::failing(model, tools, 0)
    }

    fn failing(model: ScriptedModel, tools: Vec<ScriptedTool>, failures: usize) -> Self {
        Self::with(model, tools, failures, |builder| builder)
    }

    fn with(
        model: ScriptedModel,
        tools: Vec<ScriptedTool>,
        failures: usize,
        more: fn(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> Self {
        let store = Arc::new(MemoryStore::new());
        let (runs, dispatched) = mpsc::unbounded_channel();
        let failures = AtomicUsize::new(failures);
        // It may govern the tools, but must neither run them nor call a model.
        let names = tools.iter().map(|tool| tool.spec().clone());
        let unused = names.map(|spec| ScriptedTool::always(spec, Act::hanging()));
        let server = Self::part(&store, ScriptedModel::new(), unused.collect());
        let dispatcher = Arc::new(Dispatched { runs, failures });
        let server = server.dispatcher(dispatcher.clone());
        Self {
            server: more(server).build().unwrap(),
            worker: more(Self::part(&store, model, tools)).build().unwrap(),
            store,
            dispatcher,
            dispatched,
        }
    }

    fn part(
        store: &Arc<MemoryStore>,
        model: ScriptedModel,
        tools: Vec<ScriptedTool>,
    ) -> OrchestratorBuilder {
        let tools = tools.into_iter().map(|tool| Arc::new(tool) as Arc<_>);
        let builder = builder(model).store(store.clone()).ids(Arc::new(UuidV7));
        builder.approver(Arc::new(DecideLater)).tools(tools)
    }

    /// Drives the next dispatched run as far as possible. Returns the number of steps, and the run's state.
    async fn work(&mut self) -> (usize, RunProgress) {
        let run = self.dispatched.recv().await.unwrap();
        let mut stepped = self.worker.runs().resume_stepwise(run).await.unwrap();
        for steps in 1.. {
            let before = self.store.records(run, Seq(0)).await.unwrap().len();
            match stepped.step().await {
                RunProgress::Continues { .. } => {
                    let after = self.store.records(run, Seq(0)).await.unwrap().len();
                    assert!(after > before, "a step of which nothing is on record");
                }
                progress => return (steps, progress),
            }
        }
        unreachable!()
    }
}

fn note() -> ScriptedTool {
    ScriptedTool::always(spec("note").idempotent(), Act::value("1"))
}

#[tokio::test(start_paused = true)]
async fn a_dispatched_run_is_driven_elsewhere_and_followed_to_its_end() {
    let model = ScriptedModel::new()
        .then(reply::calls([("note", "{}"), ("note", "{}")]))
        .then(reply::text("done"));
    let mut fleet = Fleet::new(model, vec![note()]);
    let (handle, mut events) = fleet.server.stream(request("go")).await.unwrap();
    // Two replies and two results were awaited, and the last one leads to the end.
    let (steps, progress) = fleet.work().await;
    assert_eq!(progress, RunProgress::Ended);
    assert!((3..=4).contains(&steps), "{steps}");
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "done")
    );
    let mut finished = 0;
    while let Some(event) = events.next().await {
        finished += usize::from(matches!(event, Event::Record(_)));
    }
    let records = fleet.store.records(handle.run_id(), Seq(0)).await.unwrap();
    assert_eq!(finished, records.len());
    let kinds = records.iter().map(|record| record.body.kind());
    assert!(!kinds.into_iter().any(|kind| kind == "resumed"));
    assert_paired(fleet.store.history(&session()).await.unwrap().messages());
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_caller_left_during_dispatch_ends_unless_it_has_a_key() {
    for is_keyed in [false, true] {
        let store = failing_store();
        let (runs, mut dispatched) = mpsc::unbounded_channel();
        let failures = AtomicUsize::new(0);
        let server = builder(ScriptedModel::new())
            .store(store.clone())
            .ids(Arc::new(UuidV7))
            .dispatcher(Arc::new(Dispatched { runs, failures }))
            .build()
            .unwrap();
        let late = Fault::AnswerLate(Duration::from_secs(10));
        store.fail_next(StoreOperation::Release, late);
        let asked = match is_keyed {
            true => request("go").idempotency_key("booking-17".parse().unwrap()),
            false => request("go"),
        };
        let asking = tokio::time::timeout(Duration::from_secs(1), server.stream(asked)).await;
        assert!(asking.is_err(), "the store answered before");
        tokio::time::sleep(Duration::from_secs(20)).await;
        let runs = store.inner().runs(&session()).await.unwrap();
        assert_eq!(runs[0].ended_at.is_some(), !is_keyed);
        // A process that may hold the run is also notified of its end.
        assert_eq!(dispatched.try_recv(), Ok(runs[0].run_id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_with_an_incomplete_log_is_driven_where_it_starts() {
    let mut fleet = Fleet::with(ScriptedModel::new(), vec![], 0, |builder| {
        let model = ScriptedModel::always(reply::text("done"));
        builder
            .policy(policy("channels.chat.data = { tool_results = false }\n"))
            .model(Role::REASONING, Arc::new(model))
    });
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    let result = tokio::time::timeout(Duration::from_secs(60), handle.result());
    let result = result.await.expect("nobody drives it").unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "done")
    );
    assert!(fleet.dispatched.try_recv().is_err(), "it was handed over");
}

#[tokio::test(start_paused = true)]
async fn a_failed_dispatch_is_retried_until_it_succeeds() {
    let model = ScriptedModel::new().then(reply::text("done"));
    let mut fleet = Fleet::failing(model, vec![], 7);
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    assert_eq!(fleet.work().await.1, RunProgress::Ended);
    assert_eq!(handle.result().await.unwrap().reply, "done");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_dispatch_was_lost_is_dispatched_by_recovery() {
    let model = ScriptedModel::new().then(reply::text("done"));
    let mut fleet = Fleet::new(model, vec![]);
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    // The dispatched run is lost on the way.
    fleet.dispatched.recv().await.unwrap();
    let recovered = fleet.server.runs().recover().await.unwrap();
    assert!(recovered.resumed.is_empty() && recovered.left.is_empty());
    // A queued run is not dispatched repeatedly.
    fleet.server.runs().recover().await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(fleet.dispatched.len(), 1);
    tokio::time::advance(Duration::from_secs(60)).await;
    fleet.server.runs().recover().await.unwrap();
    tokio::task::yield_now().await;
    assert_eq!(fleet.dispatched.len(), 2);
    assert_eq!(fleet.work().await.1, RunProgress::Ended);
    assert_eq!(handle.result().await.unwrap().reply, "done");
}

#[tokio::test(start_paused = true)]
async fn only_one_task_at_a_time_tries_to_dispatch_a_run() {
    let model = ScriptedModel::new().then(reply::text("done"));
    let mut fleet = Fleet::failing(model, vec![], 1_000);
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        fleet.server.runs().recover().await.unwrap();
    }
    let attempts = 1_000 - fleet.dispatcher.failures.load(Ordering::Relaxed);
    // One every ten seconds, and those with shorter pauses at the beginning.
    assert!((60..=70).contains(&attempts), "{attempts}");
    fleet.dispatcher.failures.store(0, Ordering::Relaxed);
    assert_eq!(fleet.work().await.1, RunProgress::Ended);
    assert_eq!(handle.result().await.unwrap().reply, "done");
}

#[tokio::test(start_paused = true)]
async fn a_run_receives_input_posted_by_another_process_within_two_seconds() {
    let model = ScriptedModel::new().then(reply::calls([("note", "{}")]));
    let hanging = ScriptedTool::always(spec("note").idempotent(), Act::hanging());
    let mut fleet = Fleet::new(model, vec![hanging]);
    let checking = fleet.worker.runs();
    tokio::spawn(async move { checking.keep_checking_inboxes(Duration::from_secs(1)).await });
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    let server = fleet.server.runs();
    let cancelling = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.cancel(run, "enough").await.unwrap();
    });
    let began = tokio::time::Instant::now();
    assert_eq!(fleet.work().await.1, RunProgress::Ended);
    cancelling.await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        handle.result().await.unwrap().status,
        RunStatus::Interrupted
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiting_run_needs_no_worker_and_continues_after_a_decision_at_the_server() {
    let pay = ScriptedTool::always(spec("pay"), Act::value("1"));
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", "{}")]))
        .then(reply::text("paid"));
    let mut fleet = Fleet::new(model, vec![pay]);
    let asked = request("go").mode(neuraxis_core::Mode::MODERATE);
    let (handle, _) = fleet.server.stream(asked).await.unwrap();
    assert_eq!(fleet.work().await.1, RunProgress::Waits { posted: false });
    let waiting = handle.result().await.unwrap();
    assert_eq!(waiting.status, RunStatus::Waiting);
    let approvals = fleet.server.approvals();
    let question = approvals.list().await.unwrap().remove(0);
    // The run is not dispatched again.
    fleet.server.runs().recover().await.unwrap();
    let idle = tokio::time::timeout(Duration::from_secs(60), fleet.dispatched.recv()).await;
    assert!(idle.is_err(), "{idle:?}");
    let request = &question.request;
    approvals
        .decide(
            question.run_id,
            &request.tool_call_id,
            request.arguments_hash,
            ApprovalDecision::APPROVE,
            None,
        )
        .await
        .unwrap();
    assert_eq!(fleet.work().await.1, RunProgress::Ended);
    let result = fleet.server.runs().result(handle.run_id()).await.unwrap();
    assert_eq!(result.reply, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_gets_the_records_of_its_run_elsewhere() {
    let model = ScriptedModel::new().then(reply::text("done"));
    let mut fleet = Fleet::new(model, vec![]);
    let asked = request("go").idempotency_key("booking-17".parse().unwrap());
    let (first, _) = fleet.server.stream(asked.clone()).await.unwrap();
    let run = fleet.dispatched.recv().await.unwrap();
    let mut stepped = fleet.worker.runs().resume_stepwise(run).await.unwrap();
    let (again, _) = fleet.server.stream(asked).await.unwrap();
    let known = again.records().len();
    assert!(again.is_repeat() && known > 0);
    let kept = fleet.store.records(run, Seq(0)).await.unwrap();
    assert_eq!(known, kept.len());
    while stepped.step().await != RunProgress::Ended {}
    for handle in [first, again] {
        assert_eq!(handle.result().await.unwrap().reply, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspending_server_follows_a_run_elsewhere_only_for_the_grace_period() {
    let grace = Duration::from_secs(60);
    for is_driven in [true, false] {
        let model = ScriptedModel::new().then(reply::text("done"));
        let mut fleet = Fleet::new(model, vec![]);
        let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
        let server = fleet.server.clone();
        let suspended = tokio::spawn(async move { server.suspend(grace).await });
        tokio::time::sleep(grace / 2).await;
        if is_driven {
            assert_eq!(fleet.work().await.1, RunProgress::Ended);
        }
        assert!(suspended.await.unwrap().is_empty(), "nothing was left here");
        let result = handle.result().await;
        assert_eq!(result.is_ok_and(|it| it.reply == "done"), is_driven);
    }
}

#[tokio::test(start_paused = true)]
async fn the_context_of_a_request_lives_until_its_run_elsewhere_has_ended() {
    let model = ScriptedModel::new().then(reply::text("done"));
    let mut fleet = Fleet::new(model, vec![]);
    let (place, second) = (Arc::new(()), Duration::from_secs(1));
    let mut asked = request("go");
    asked.context = std::mem::take(&mut asked.context).with(Arc::clone(&place));
    let (handle, _) = fleet.server.stream(asked).await.unwrap();
    tokio::time::sleep(second).await;
    assert!(Arc::strong_count(&place) > 1, "it is at work");
    assert_eq!(fleet.work().await.1, RunProgress::Ended);
    handle.result().await.unwrap();
    tokio::time::sleep(second).await;
    assert_eq!(Arc::strong_count(&place), 1, "it is over");
}

#[tokio::test(start_paused = true)]
async fn the_handle_of_a_run_elsewhere_cancels_it() {
    let model = ScriptedModel::new().then(reply::calls([("note", "{}")]));
    let hanging = ScriptedTool::always(spec("note").idempotent(), Act::hanging());
    let mut fleet = Fleet::new(model, vec![hanging]);
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    handle.cancel("enough").unwrap();
    let (_, progress) = fleet.work().await;
    assert_eq!(progress, RunProgress::Ended);
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_run_released_by_a_worker_is_resumed_at_once_and_its_call_becomes_unknown() {
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", "{}")]))
        .then(reply::text("who knows"));
    let pay = ScriptedTool::always(spec("pay"), Act::hanging());
    let mut fleet = Fleet::with(model, vec![pay], 0, |builder| {
        builder.policy(policy(
            "rules.pay = { answer = 'allow', tools = ['pay'] }\n",
        ))
    });
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    let run = fleet.dispatched.recv().await.unwrap();
    let runs = fleet.worker.runs();
    let mut first = runs.resume_stepwise(run).await.unwrap();
    assert_eq!(
        first.step().await,
        RunProgress::Continues {
            next: vec!["pay".to_owned()]
        }
    );
    assert!(matches!(
        runs.resume_stepwise(run).await,
        Err(ResumeError::AtWork(_))
    ));
    // The call starts, and never ends.
    let begun = tokio::time::timeout(Duration::from_secs(1), first.step()).await;
    assert!(begun.is_err());
    first.release().await;

    let mut next = runs.resume_stepwise(run).await.unwrap();
    while next.step().await != RunProgress::Ended {}
    assert_eq!(next.step().await, RunProgress::Ended);
    let result = handle.result().await.unwrap();
    assert_eq!(result.reply, "who knows");
    let records = fleet.store.records(run, Seq(0)).await.unwrap();
    let unknown = records.iter().filter(|record| {
        let json = record.to_json();
        json.contains("\"type\":\"tool_result\"") && json.contains("unknown")
    });
    assert_eq!(unknown.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_released_during_its_first_model_call_counts_as_resumed() {
    let model = ScriptedModel::new().then(Script::hanging());
    let mut fleet = Fleet::new(model.then(reply::text("done")), Vec::new());
    let _events = fleet.server.stream(request("go")).await.unwrap();
    let run = fleet.dispatched.recv().await.unwrap();
    let runs = fleet.worker.runs();
    let mut first = runs.resume_stepwise(run).await.unwrap();
    let begun = tokio::time::timeout(Duration::from_secs(1), first.step()).await;
    assert!(begun.is_err());
    first.release().await;
    let mut next = runs.resume_stepwise(run).await.unwrap();
    while next.step().await != RunProgress::Ended {}
    let records = fleet.store.records(run, Seq(0)).await.unwrap();
    assert!(records.iter().any(|it| it.body.kind() == "resumed"));
}

#[tokio::test(start_paused = true)]
async fn a_client_tool_result_reaches_a_run_elsewhere() {
    let model = ScriptedModel::new()
        .then(reply::calls([("place", "{}")]))
        .then(reply::text("there"));
    let mut fleet = Fleet::with(model, vec![], 0, |builder| {
        builder.client_tool(spec("place").read_only().build())
    });
    let (handle, _) = fleet.server.stream(request("go")).await.unwrap();
    assert_eq!(fleet.work().await.1, RunProgress::Waits { posted: false });
    let waiting = handle.result().await.unwrap();
    let call = waiting.pending[0].tool_call_id.clone();
    let outcome = ToolOutcome::done(ToolOutput::new(JsonText::string("Rome")));
    let runs = fleet.server.runs();
    let missing = ToolCallId::from_text("none");
    let wrong = runs
        .supply_result(handle.run_id(), &missing, outcome.clone(), Duration::ZERO)
        .await;
    assert!(matches!(wrong, Err(ResumeError::NotWaiting(_))));
    runs.supply_result(handle.run_id(), &call, outcome, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(fleet.work().await.1, RunProgress::Ended);
    assert_eq!(runs.result(handle.run_id()).await.unwrap().reply, "there");
}

/// Makes a run that the worker was driving wait for approval.
async fn waits_for_a_person(fleet: &mut Fleet) -> RunId {
    let asked = request("go").mode(neuraxis_core::Mode::MODERATE);
    let (handle, _) = fleet.server.stream(asked).await.unwrap();
    assert_eq!(fleet.work().await.1, RunProgress::Waits { posted: false });
    handle.run_id()
}

#[tokio::test(start_paused = true)]
async fn earlier_undispatched_runs_are_dispatched_together_with_the_last_one() {
    let pay = ScriptedTool::always(spec("pay"), Act::value("1"));
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", "{}")]))
        .then(reply::text("between"));
    let mut fleet = Fleet::new(model, vec![pay]);
    let first = waits_for_a_person(&mut fleet).await;
    // A process that hands no runs over ends it, and performs a run itself.
    let alone = fleet.worker.clone();
    alone.runs().close(first, "it was enough").await.unwrap();
    let (second, _) = alone.stream(request("go on")).await.unwrap();
    assert_eq!(second.result().await.unwrap().reply, "between");
    let (third, _) = fleet.server.stream(request("and now")).await.unwrap();
    assert_eq!(fleet.dispatched.recv().await, Some(third.run_id()));
    for earlier in [second.run_id(), first] {
        fleet.server.runs().recover().await.unwrap();
        let dispatched = [fleet.dispatched.recv().await, fleet.dispatched.recv().await];
        for run in [third.run_id(), earlier] {
            assert!(dispatched.contains(&Some(run)), "{run}: {dispatched:?}");
        }
        tokio::time::advance(Duration::from_secs(60)).await;
    }
    let ended = fleet.worker.runs().resume_stepwise(first).await;
    assert!(matches!(ended, Err(ResumeError::Ended(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_a_run_at_the_server_notifies_its_worker() {
    let pay = ScriptedTool::always(spec("pay"), Act::value("1"));
    let model = ScriptedModel::new().then(reply::calls([("pay", "{}")]));
    let mut fleet = Fleet::new(model, vec![pay]);
    let run = waits_for_a_person(&mut fleet).await;
    let runs = fleet.server.runs();
    runs.close(run, "it was enough").await.unwrap();
    assert_eq!(fleet.dispatched.recv().await, Some(run));
}
