//! Tests of runs whose state contradicts itself, which only a defect can cause.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::{Interruption, Role, RunId, RunStatus};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::SessionIndex as _;
use neuraxis_testkit::{Script, ScriptedModel, reply};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_default;
use tracing::{Event, Level, Metadata, Subscriber};

use super::ResumeError;
use super::recheck::{MAX_FUTILE_RESUMES, ResumedBy};
use super::resume::Prepared;
use crate::run_handle::{NoResult, RunHandle};
use crate::{Orchestrator, UserRequest, UuidV7};

const SECOND: Duration = Duration::from_secs(1);

/// The errors that are logged.
#[derive(Clone, Default)]
struct LoggedErrors(Arc<Mutex<String>>);

impl Subscriber for LoggedErrors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

fn engine(store: &Arc<MemoryStore>, script: impl Into<Script>) -> Orchestrator {
    Orchestrator::builder()
        .model(Role::REASONING, Arc::new(ScriptedModel::always(script)))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .build()
        .unwrap()
}

fn request() -> UserRequest {
    UserRequest::new("s".parse().unwrap(), "go")
}

/// A run in progress whose process stopped.
async fn left_run(store: &Arc<MemoryStore>) -> RunId {
    let first = engine(store, Script::hanging());
    let (handle, _) = first.stream(request()).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(first.suspend(Duration::ZERO).await, [handle.run_id()]);
    handle.run_id()
}

/// Resumes a run with a state that turns out to contradict itself after a second.
async fn resume_with_defect(orchestrator: &Orchestrator, run: RunId) -> RunHandle {
    let runs = orchestrator.runs();
    let prepared = runs.prepare(run, Vec::new(), ResumedBy::Engine).await;
    let Prepared::Ready(mut run) = prepared.unwrap() else {
        panic!("the run continues elsewhere");
    };
    run.ready.tree.lose_agents();
    run.ready.first.wake_at = Some(SECOND);
    let begun = runs.begin(run.slot, run.scope, run.ready);
    let driven = runs.start_driving(begun).await;
    driven.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_state_contradicts_itself_is_left_and_resumed_from_its_log() {
    let errors = LoggedErrors::default();
    let _logging = set_default(errors.clone());
    let store = Arc::new(MemoryStore::new());
    let run = left_run(&store).await;
    let orchestrator = engine(&store, Script::hanging());
    let handle = resume_with_defect(&orchestrator, run).await;
    let mut events = handle.events();
    assert_eq!(handle.result().await.unwrap_err(), NoResult::Stopped);
    while let Some(event) = events.next().await {
        let event = serde_json::to_string(&event).unwrap();
        assert!(!event.contains("\"type\":\"final\""), "{event}");
    }
    assert!(handle.steer("Are you there?").is_err());
    let left = store.run(run).await.unwrap();
    assert_eq!(
        (left.status, left.released, left.leased_until),
        (RunStatus::Running, false, None)
    );
    let errors = errors.0.lock().unwrap().clone();
    assert!(errors.contains("a defect"), "{errors}");
    assert!(errors.contains(&run.to_string()), "{errors}");

    let next = engine(&store, reply::text("42"));
    let recovered = next.runs().recover().await.unwrap();
    let result = recovered.resumed[0].result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "42")
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_state_contradicts_itself_each_time_is_ended_and_its_session_is_free() {
    let store = Arc::new(MemoryStore::new());
    let run = left_run(&store).await;
    let orchestrator = engine(&store, Script::hanging());
    // A run that was lost is not ended for that, but this one is, although it had been lost before.
    orchestrator.runs().parts.lost.note(run);
    for _ in 0..MAX_FUTILE_RESUMES {
        let handle = resume_with_defect(&orchestrator, run).await;
        assert_eq!(handle.result().await.unwrap_err(), NoResult::Stopped);
    }
    let resumed = orchestrator.runs().resume(run, Vec::new()).await;
    assert!(
        matches!(resumed, Err(ResumeError::Closed { .. })),
        "{resumed:?}"
    );
    let ended = orchestrator.runs().result(run).await.unwrap();
    assert_eq!(ended.status, RunStatus::Interrupted);
    assert_eq!(ended.interruption, Some(Interruption::NoProgress));

    let next = engine(&store, reply::text("42"));
    let (handle, _) = next.stream(request()).await.unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
}
