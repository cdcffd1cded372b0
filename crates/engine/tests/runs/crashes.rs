//! Runs whose process died in the middle, resumed by another process with the same store.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Record, RunId, RunStatus, Seq, ToolFailure, ToolResult};
use neuraxis_engine::{NoResult, OrchestratorResult, ResumeError, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError};
use neuraxis_testkit::{
    Act, Fault, Script, ScriptedModel, ScriptedTool, StoreOperation, assert_paired, reply, spec,
};

use crate::support::{builder, failing_store, process, request, results, session};

/// What survives a process: the store, and the world that models and tools change.
struct World {
    store: Arc<MemoryStore>,
    model: Arc<ScriptedModel>,
    tools: Vec<Arc<ScriptedTool>>,
}

impl World {
    fn new(model: ScriptedModel, tools: Vec<ScriptedTool>) -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            model: Arc::new(model),
            tools: tools.into_iter().map(Arc::new).collect(),
        }
    }

    fn orchestrator(&self) -> neuraxis_engine::Orchestrator {
        builder(self.model.clone())
            .store(self.store.clone())
            .ids(Arc::new(neuraxis_engine::UuidV7))
            .tools(self.tools.iter().map(|tool| tool.clone() as Arc<_>))
            .approver(Arc::new(
                neuraxis_testkit::ScriptedApprover::new().approve(),
            ))
            .build()
            .unwrap()
    }

    /// Starts a run in a process that dies after this time.
    fn dies_after(&self, request: UserRequest, time: Duration) -> RunId {
        let process = process();
        process.block_on(async {
            let (handle, _) = self.orchestrator().stream(request).await.unwrap();
            tokio::time::sleep(time).await;
            handle.run_id()
        })
    }

    fn resume(&self, run: RunId) -> OrchestratorResult {
        process().block_on(async {
            let handle = self
                .orchestrator()
                .runs()
                .resume(run, Vec::new())
                .await
                .unwrap();
            handle.result().await.unwrap()
        })
    }

    fn records(&self, run: RunId) -> Vec<Arc<Record>> {
        let records = process().block_on(self.store.records(run, Seq(0))).unwrap();
        for (record, seq) in records.iter().zip(1..) {
            assert_eq!(record.seq, Seq(seq));
        }
        assert_paired(&neuraxis_core::run_messages(&records));
        let (restored, _) =
            neuraxis_core::RunTree::restore(neuraxis_core::Transcript::default(), &records)
                .unwrap();
        assert_eq!(restored.status(), RunStatus::Done);
        records
    }

    fn results(&self, run: RunId) -> Vec<ToolResult> {
        results(&self.records(run))
    }
}

fn one_second(value: &str) -> Act {
    Act::value(value).after(Duration::from_secs(1))
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_crash_repeats_an_uncertain_read_only_call_but_no_finished_call() {
    let model = ScriptedModel::new()
        .then(reply::calls([("quick", "{}"), ("slow", "{}")]))
        .then(reply::text("ok"));
    let world = World::new(
        model,
        vec![
            ScriptedTool::always(spec("quick").read_only(), one_second("1")),
            ScriptedTool::always(spec("slow").read_only(), Act::value("2").after(seconds(10))),
        ],
    );
    let run = world.dies_after(request("go"), seconds(5));
    let result = world.resume(run);
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "ok")
    );
    assert_eq!((world.tools[0].count(), world.tools[1].count()), (1, 2));
    let calls = world.tools[1].calls();
    assert_eq!(
        (calls[0].context.effect_id, calls[1].context.attempt.0),
        (calls[1].context.effect_id, 2),
        "the idempotency key stays"
    );
    assert_eq!(world.results(run).len(), 2);
}

#[test]
fn an_uncertain_irreversible_call_is_reported_as_unknown_and_never_repeated() {
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", "{}")]))
        .then(reply::text("I will check."));
    let pay = ScriptedTool::always(spec("pay"), Act::value("1").after(seconds(10)));
    let world = World::new(model, vec![pay]);
    let run = world.dies_after(request("go"), seconds(5));
    assert_eq!(world.tools[0].count(), 1);
    let result = world.resume(run);
    assert_eq!(result.status, RunStatus::Done);
    assert_eq!(world.tools[0].count(), 1, "paid twice");
    let told = &world.results(run)[0];
    assert_eq!(told.failure, Some(ToolFailure::OutcomeUnknown));
    assert!(told.value.as_str().contains("outcome is unknown"));
}

#[test]
fn a_model_call_in_flight_at_a_crash_is_repeated_as_the_next_attempt() {
    let model = ScriptedModel::new()
        .then(Script::hanging())
        .then(reply::text("here"));
    let world = World::new(model, Vec::new());
    let run = world.dies_after(request("go"), seconds(5));
    let result = world.resume(run);
    assert_eq!(result.reply, "here");
    let calls = world.model.calls();
    assert_eq!(
        (calls[0].context.attempt.0, calls[1].context.attempt.0),
        (1, 2)
    );
    assert_eq!(calls[0].context.effect_id, calls[1].context.effect_id);
    assert_eq!(
        result.usage.total.total.label,
        neuraxis_core::CountLabel::Unknown,
        "nobody knows what the lost attempt used"
    );
    world.records(run);
}

#[test]
fn a_run_can_be_resumed_after_repeated_crashes() {
    let model = ScriptedModel::always(Script::hanging());
    let world = World::new(model, Vec::new());
    let run = world.dies_after(request("go"), seconds(100));
    process().block_on(async {
        let _handle = world
            .orchestrator()
            .runs()
            .resume(run, Vec::new())
            .await
            .unwrap();
        tokio::time::sleep(seconds(100)).await;
    });
    world.model.push(reply::text("at last"));
    let result = world.resume(run);
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "at last")
    );
    let resumed = world.records(run);
    let resumed = resumed
        .iter()
        .filter(|record| record.body.kind() == "resumed");
    assert_eq!(resumed.count(), 2);
}

#[test]
fn a_run_whose_resumption_failed_twice_is_closed_and_frees_its_session() {
    let model = ScriptedModel::always(Script::hanging());
    let world = World::new(model, Vec::new());
    let run = world.dies_after(request("go"), seconds(5));
    for _ in 0..2 {
        process().block_on(async {
            let _handle = world
                .orchestrator()
                .runs()
                .resume(run, Vec::new())
                .await
                .unwrap();
            // The process dies while it is driving the run.
            tokio::time::sleep(seconds(5)).await;
        });
    }
    process().block_on(async {
        let ended = world.orchestrator().runs().resume(run, Vec::new()).await;
        let Err(ResumeError::Closed { why, .. }) = ended else {
            panic!("it is ended: {ended:?}")
        };
        assert!(why.contains("resumed 2 times"), "{why}");
        assert_eq!(world.model.calls().len(), 3, "it is not asked once more");
        let ended = world.store.run(run).await.unwrap();
        assert_eq!(ended.status, RunStatus::Interrupted);
        world.model.push(reply::text("free"));
        let next = world.orchestrator().handle(request("and now?")).await;
        assert_eq!(next.unwrap().reply, "free");
    });
}

#[test]
fn an_open_approval_request_is_asked_again_after_a_crash() {
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", "{}")]))
        .then(reply::text("paid"));
    let pay = ScriptedTool::always(spec("pay"), Act::value("1"));
    let world = World::new(model, vec![pay]);
    let silent = neuraxis_testkit::ScriptedApprover::new().stay_silent();
    let run = process().block_on(async {
        let orchestrator = builder(world.model.clone())
            .store(world.store.clone())
            .tools(world.tools.iter().map(|tool| tool.clone() as Arc<_>))
            .approver(Arc::new(silent))
            .build()
            .unwrap();
        let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
        tokio::time::sleep(seconds(5)).await;
        handle.run_id()
    });
    let result = world.resume(run);
    assert_eq!((result.reply.as_str(), world.tools[0].count()), ("paid", 1));
    world.records(run);
}

#[test]
fn the_session_of_a_crashed_run_stays_busy_until_the_run_is_resumed() {
    let model = ScriptedModel::new()
        .then(Script::hanging())
        .then(reply::text("one"));
    let world = World::new(model, Vec::new());
    let run = world.dies_after(request("first"), seconds(1));
    process().block_on(async {
        let busy = world.orchestrator().handle(request("second")).await;
        assert!(matches!(
            busy,
            Err(neuraxis_engine::RequestError::Busy { .. })
        ));
    });
    world.resume(run);
    world.model.push(reply::text("two"));
    process().block_on(async {
        let orchestrator = world.orchestrator();
        assert_eq!(
            orchestrator.handle(request("second")).await.unwrap().reply,
            "two"
        );
        let history = world.store.history(&session()).await.unwrap();
        assert_eq!(history.len(), 4);
    });
}

#[test]
fn a_process_that_lost_its_run_cannot_write_to_it() {
    let model = ScriptedModel::new()
        .then(Script::from(reply::text("late")).after(seconds(60)))
        .then(reply::text("taken over"));
    let world = World::new(model, Vec::new());
    process().block_on(async {
        let (first, _) = world.orchestrator().stream(request("go")).await.unwrap();
        tokio::time::sleep(seconds(5)).await;
        let second = world
            .orchestrator()
            .runs()
            .resume(first.run_id(), Vec::new())
            .await
            .unwrap();
        assert_eq!(second.result().await.unwrap().reply, "taken over");
        let stale = NoResult::Unrecorded(StoreError::Stale(first.run_id()));
        assert_eq!(first.result().await, Err(stale));
    });
    let history = process().block_on(world.store.history(&session())).unwrap();
    assert_eq!(history.messages().last().unwrap().text(), "taken over");
}

#[test]
fn a_request_can_be_dropped_outside_the_runtime_that_starts_its_run() {
    use StoreOperation::{BeginRun, Continuation};
    // Before and after the session is leased.
    for operation in [BeginRun, Continuation] {
        let store = failing_store();
        let model = ScriptedModel::always(reply::text("ok"));
        let orchestrator = builder(model).store(store.clone()).build().unwrap();
        let process = process();
        let runs = orchestrator.runs();
        let made = runs.new_session(Some(session()));
        process.block_on(made).unwrap();
        if operation == Continuation {
            store.fail_next(Continuation, Fault::AnswerLate(Duration::ZERO));
        }
        store.fail_next(operation, Fault::Hang);
        let mut asking = Box::pin(orchestrator.handle(request("first")));
        let patience = seconds(1);
        let asked = async { tokio::time::timeout(patience, &mut asking).await };
        assert!(process.block_on(asked).is_err());
        drop(asking);
        let other = UserRequest::new("other".parse().unwrap(), "second");
        let second = process.block_on(orchestrator.handle(other));
        assert_eq!(second.unwrap().reply, "ok", "{operation:?}");
    }
}
