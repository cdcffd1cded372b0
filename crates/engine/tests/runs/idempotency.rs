//! Repeated requests with the same idempotency key.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Channel, Mode, PendingKind, RunStatus};
use neuraxis_engine::{NoResult, Orchestrator, RequestError, RequestPart, UserRequest, UuidV7};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{ApproverReply, Ids, Session, SessionIndex as _, StoreError};
use neuraxis_testkit::{
    Act, CountingIds, FailingStore, Fault, START, ScriptedApprover, ScriptedModel, ScriptedTool,
    StoreOperation, reply, spec,
};

use crate::support::{builder, policy, request, run_to_end, session};

type Store = FailingStore<MemoryStore>;

/// What survives an engine.
struct World {
    store: Arc<Store>,
    model: Arc<ScriptedModel>,
    tool: Arc<ScriptedTool>,
    approver: Arc<ScriptedApprover>,
}

impl World {
    fn new(model: ScriptedModel) -> Self {
        Self::with_lease(model, Duration::from_secs(30))
    }

    fn with_lease(model: ScriptedModel, lease: Duration) -> Self {
        let slow = Act::value("1").after(Duration::from_secs(5));
        Self {
            store: Arc::new(FailingStore::new(MemoryStore::with_lease(lease))),
            model: Arc::new(model),
            tool: Arc::new(ScriptedTool::always(spec("look").read_only(), slow)),
            approver: Arc::new(ScriptedApprover::new().then(ApproverReply::Later)),
        }
    }

    fn engine(&self, ids: Arc<dyn Ids>) -> Orchestrator {
        builder(self.model.clone())
            .store(self.store.clone())
            .ids(ids)
            .tool(self.tool.clone())
            .tool(Arc::new(ScriptedTool::echoing(spec("write"))))
            .client_tool(spec("pick").read_only().build())
            .approver(self.approver.clone())
            .build()
            .unwrap()
    }

    async fn runs(&self) -> usize {
        self.store.inner().runs(&session()).await.unwrap().len()
    }

    /// Makes the next lookup of an earlier run come too early to find it.
    fn look_too_early(&self) {
        let nothing = StoreError::NoSuchSession(session());
        self.store
            .fail_next(StoreOperation::FindRuns, Fault::Refuse(nothing));
    }
}

fn answers() -> ScriptedModel {
    ScriptedModel::new().then(reply::using(reply::text("Booked."), 10, 2))
}

fn looks() -> ScriptedModel {
    ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Booked."))
}

fn keyed(message: &str) -> UserRequest {
    request(message).idempotency_key("booking-17".parse().unwrap())
}

/// Ids with different times, and ids that all have the same time.
fn all_ids() -> [Arc<dyn Ids>; 2] {
    [Arc::new(UuidV7), Arc::new(CountingIds::default())]
}

#[tokio::test]
async fn an_ended_run_returns_its_answer_again_and_does_nothing() {
    for ids in all_ids() {
        let world = World::new(answers());
        let engine = world.engine(ids);
        let (first, _) = engine.stream(keyed("go")).await.unwrap();
        let result = first.result().await.unwrap();
        assert!(!first.is_repeat());
        for engine in [engine, world.engine(Arc::new(UuidV7))] {
            let (again, _) = engine.stream(keyed("go")).await.unwrap();
            assert!(again.is_repeat());
            assert_eq!(again.result().await.unwrap(), result);
            assert_eq!(again.records(), first.records());
            assert!(again.cancel("too late").is_err());
            let finished = run_to_end(&engine, keyed("go")).await;
            assert_eq!(finished.records(), first.records());
            assert_eq!(engine.handle(keyed("go")).await.unwrap(), result);
        }
        assert_eq!((world.model.calls().len(), world.runs().await), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_joins_its_run_in_progress() {
    let world = World::new(looks());
    let engine = world.engine(Arc::new(UuidV7));
    let (first, _) = engine.stream(keyed("go")).await.unwrap();
    let gone = engine.handle(keyed("go"));
    let gone = tokio::time::timeout(Duration::from_secs(1), gone).await;
    assert!(gone.is_err(), "it waits for the run");
    let finished = run_to_end(&engine, keyed("go")).await;
    assert_eq!(finished.result.reply, "Booked.");
    assert_eq!(first.result().await.unwrap(), finished.result);
    assert_eq!(finished.records(), first.records());
    assert!(
        finished.events.len() > finished.records().len(),
        "what is live is received as well"
    );
    assert_eq!((world.tool.count(), world.runs().await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_one_of_many_concurrent_requests_starts_a_run() {
    for ids in all_ids() {
        for _ in 0..50 {
            let world = World::new(answers());
            let engine = world.engine(ids.clone());
            let asked = (0..8).map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { engine.handle(keyed("go")).await.unwrap() })
            });
            let mut results = Vec::new();
            for asked in asked.collect::<Vec<_>>() {
                results.push(asked.await.unwrap());
            }
            assert!(results.iter().all(|result| *result == results[0]));
            assert_eq!((world.model.calls().len(), world.runs().await), (1, 1));
        }
    }
}

/// Between looking up an earlier run and leasing the session, another request may have been faster.
#[tokio::test]
async fn a_request_that_missed_the_run_finds_it_once_the_session_is_leased() {
    for ids in all_ids() {
        let world = World::new(answers());
        let engine = world.engine(ids);
        let result = engine.handle(keyed("go")).await.unwrap();
        world.look_too_early();
        assert_eq!(engine.handle(keyed("go")).await.unwrap(), result);
        assert_eq!((world.model.calls().len(), world.runs().await), (1, 1));
        let free = engine.handle(request("next")).await.unwrap();
        assert_eq!(
            free.status,
            RunStatus::Failed,
            "the model has no more to say"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_missed_the_run_joins_the_one_keeping_the_session_busy() {
    for ids in all_ids() {
        let world = World::new(looks());
        let engine = world.engine(ids);
        let (first, _) = engine.stream(keyed("go")).await.unwrap();
        world.look_too_early();
        let again = engine.handle(keyed("go")).await.unwrap();
        assert_eq!(first.result().await.unwrap(), again);
        assert_eq!(world.runs().await, 1);
    }
}

#[tokio::test]
async fn a_repeated_request_of_a_waiting_run_reports_it_without_asking_again() {
    for (tool, kind) in [
        ("write", PendingKind::Approval),
        ("pick", PendingKind::ClientTool),
    ] {
        for ids in all_ids() {
            let asks = reply::using(reply::calls([(tool, "{}")]), 10, 2);
            let world = World::new(ScriptedModel::new().then(asks));
            let engine = world.engine(ids);
            let asked = keyed("go").mode(Mode::MODERATE);
            let (first, _) = engine.stream(asked.clone()).await.unwrap();
            let waiting = first.result().await.unwrap();
            assert_eq!(waiting.status, RunStatus::Waiting);
            assert_eq!(waiting.pending[0].kind, kind);
            for _ in 0..2 {
                let finished = run_to_end(&engine, asked.clone()).await;
                assert_eq!(finished.result, waiting);
                assert_eq!(finished.records(), first.records());
                world.look_too_early();
                let finished = engine.handle(asked.clone()).await;
                assert_eq!(finished.unwrap(), waiting);
            }
            let times = usize::from(kind == PendingKind::Approval);
            assert_eq!(world.approver.asks().len(), times);
            assert_eq!((world.model.calls().len(), world.runs().await), (1, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_request_under_the_same_key_is_refused_with_the_differences() {
    use RequestPart::{Channel as InChannel, Message, Mode as InMode};

    let world = World::new(looks());
    let engine = world.engine(Arc::new(UuidV7));
    let (first, _) = engine.stream(keyed("go to s3cret")).await.unwrap();
    for _ in ["at work", "ended"] {
        let go = || keyed("go to s3cret");
        for (asked, expected) in [
            (keyed("go elsewhere"), vec![Message]),
            (keyed("go to s3cret "), vec![Message]),
            (go().mode(Mode::MODERATE), vec![InMode]),
            (go().channel(Channel::CODE_TASK), vec![InChannel]),
            (
                keyed("no")
                    .mode(Mode::new("YOLO"))
                    .channel(Channel::new("x")),
                vec![Message, InMode, InChannel],
            ),
        ] {
            let refused = engine.handle(asked).await.unwrap_err();
            let RequestError::KeyReused(differences) = &refused else {
                unreachable!("{refused:?}")
            };
            assert_eq!(differences.parts(), expected);
            assert!(!format!("{refused} {refused:?}").contains("s3cret"));
        }
        first.result().await.unwrap();
    }
    assert_eq!(world.runs().await, 1);
}

#[tokio::test]
async fn a_request_withheld_from_the_log_is_recognized_by_its_hash() {
    let withheld = "channels.chat.data = { text = false }\n";
    let world = World::new(answers());
    let engine = builder(answers())
        .policy(policy(withheld))
        .store(world.store.clone())
        .build()
        .unwrap();
    let first = engine.handle(keyed("go to s3cret")).await.unwrap();
    assert_eq!(first.reply, "Booked.");
    let again = engine.handle(keyed("go to s3cret")).await.unwrap();
    assert_eq!(again.run_id, first.run_id);
    assert!(
        again.reply.starts_with("[withheld: 7 bytes"),
        "{}",
        again.reply
    );
    let refused = engine.handle(keyed("go elsewhere")).await;
    assert!(matches!(refused, Err(RequestError::KeyReused(_))));
}

#[tokio::test]
async fn a_key_is_scoped_to_its_session_and_not_consumed_by_a_refused_request() {
    let model = ScriptedModel::new()
        .then(reply::text("one"))
        .then(reply::text("two"));
    let world = World::new(model);
    let engine = world.engine(Arc::new(CountingIds::default()));
    let unknown = keyed("go").mode(Mode::new("YOLO"));
    let refused = engine.handle(unknown).await;
    assert!(matches!(refused, Err(RequestError::Policy(_))));
    let one = engine.handle(keyed("go")).await.unwrap();
    let mut elsewhere = keyed("something else");
    elsewhere.session_id = "other".parse().unwrap();
    let two = engine.handle(elsewhere).await.unwrap();
    assert_ne!(one.run_id, two.run_id);
    assert_eq!((one.reply.as_str(), two.reply.as_str()), ("one", "two"));
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_is_busy_for_a_request_with_another_key() {
    let world = World::new(looks());
    let engine = world.engine(Arc::new(UuidV7));
    let (first, _) = engine.stream(keyed("go")).await.unwrap();
    let another = request("go").idempotency_key("booking-18".parse().unwrap());
    let refused = engine.handle(another).await;
    assert!(
        matches!(&refused, Err(RequestError::Busy { run, .. }) if *run == first.run_id()),
        "{refused:?}"
    );
}

/// Another engine on the same store behaves like another process.
#[tokio::test(start_paused = true)]
async fn a_run_driven_by_another_process_is_left_to_it() {
    let world = World::new(looks());
    let here = world.engine(Arc::new(UuidV7));
    let elsewhere = world.engine(Arc::new(UuidV7));
    let (first, _) = here.stream(keyed("go")).await.unwrap();
    // It asks about this one run only, not about everything in the store.
    let never_asked = Fault::Refuse(StoreError::Damaged("asked for all".to_owned()));
    world
        .store
        .fail_next(StoreOperation::Unfinished, never_asked);
    let refused = elsewhere.handle(keyed("go")).await;
    assert!(
        matches!(&refused, Err(RequestError::AtWorkElsewhere { run, .. }) if *run == Some(first.run_id())),
        "{refused:?}"
    );
    let other = elsewhere.handle(keyed("go elsewhere")).await;
    assert!(matches!(other, Err(RequestError::KeyReused(_))));
    let result = first.result().await.unwrap();
    assert_eq!(elsewhere.handle(keyed("go")).await.unwrap(), result);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_resumes_the_run_of_a_crashed_process() {
    let world = World::with_lease(looks(), Duration::ZERO);
    let dead = world.engine(Arc::new(UuidV7));
    let (first, _) = dead.stream(keyed("go")).await.unwrap();
    let alive = world.engine(Arc::new(UuidV7));
    let result = alive.handle(keyed("go")).await.unwrap();
    assert_eq!(result.run_id, first.run_id());
    assert_eq!((result.status, world.runs().await), (RunStatus::Done, 1));
    let stale = NoResult::Unrecorded(StoreError::Stale(first.run_id()));
    assert_eq!(first.result().await, Err(stale), "it does not hold the run");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_frees_a_session_reserved_for_a_run_that_never_started() {
    let world = World::with_lease(answers(), Duration::ZERO);
    let engine = world.engine(Arc::new(UuidV7));
    let made = world
        .store
        .inner()
        .create_session(&Session::new(session(), START))
        .await;
    assert_eq!(made, Ok(()));
    // Neither storing the first records nor releasing the session succeeds.
    let gone = || Fault::Refuse(StoreError::Damaged("gone".to_owned()));
    world.store.fail_next(StoreOperation::Commit, gone());
    for _ in 0..2 {
        world.store.fail_next(StoreOperation::AbandonRun, gone());
    }
    assert!(engine.handle(keyed("go")).await.is_err());
    assert_eq!(world.runs().await, 1);
    let result = engine.handle(keyed("go")).await.unwrap();
    assert_eq!((result.status, world.runs().await), (RunStatus::Done, 1));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_continues_a_run_whose_start_was_not_confirmed() {
    let world = World::new(answers());
    let engine = world.engine(Arc::new(UuidV7));
    let lost = Fault::LoseAnswer(StoreError::Unavailable("cut off".to_owned()));
    world.store.fail_next(StoreOperation::BeginRun, lost);
    let refused = engine.handle(keyed("go")).await;
    assert!(
        matches!(refused, Err(RequestError::Store(_))),
        "{refused:?}"
    );
    let result = engine.handle(keyed("go")).await.unwrap();
    assert_eq!(
        (result.status, &*result.reply),
        (RunStatus::Done, "Booked.")
    );
    assert_eq!(world.runs().await, 1);
}
