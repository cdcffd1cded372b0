//! The contents of a log, or what was put into a store behind the engine's back, never let anything run on their own.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use neuraxis_core::{
    AgentSpec, ApprovalDecided, ApprovalDecision, CallStage, EffectId, GrantScope, InboxEntry,
    InboxInput, InputId, Message, Profile, RecordBody, Role, RunId, RunSpec, RunStatus, RunTree,
    Seq, Stamp, ToolClass, ToolFailure, ToolResult, ToolSpec, Transcript, Verdict, Vetted,
};
use neuraxis_engine::{
    ApprovalKey, ImportError, Orchestrator, OrchestratorBuilder, ResumeError, Sessions,
    UnfinishedRuns, UserRequest, UuidV7,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{
    ApproverReply, RunLog as _, Session, SessionIndex as _, Tool, ToolContext, ToolError,
    async_trait,
};
use neuraxis_testkit::{Act, RunLog, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, policy, process, request, session};

fn calls_put() -> ScriptedModel {
    ScriptedModel::new()
        .then(reply::calls([("put", "{}")]))
        .then(reply::text("ok"))
}

/// An engine on a store, with this version of the tool `put`.
fn engine(
    store: &Arc<MemoryStore>,
    model: &Arc<ScriptedModel>,
    put: &Arc<ScriptedTool>,
) -> OrchestratorBuilder {
    builder(model.clone())
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .tool(put.clone())
}

/// A run that died during a call of `put`, which it had recorded as repeatable.
struct Left {
    store: Arc<MemoryStore>,
    model: Arc<ScriptedModel>,
    run: RunId,
}

impl Left {
    fn new() -> Self {
        let (store, model) = (Arc::new(MemoryStore::new()), Arc::new(calls_put()));
        let slow = Act::value("1").after(Duration::from_secs(9));
        let put = Arc::new(ScriptedTool::always(spec("put").idempotent(), slow));
        let run = process().block_on(async {
            let engine = engine(&store, &model, &put).build().unwrap();
            let (handle, _) = engine.stream(request("go")).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            handle.run_id()
        });
        assert_eq!(put.count(), 1);
        Self { store, model, run }
    }

    /// Resumes the run with a different `put`, or under a different policy.
    fn goes_on(
        &self,
        put: ScriptedTool,
        change: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder,
    ) -> (Arc<ScriptedTool>, ToolResult) {
        let put = Arc::new(put);
        process().block_on(async {
            let engine = change(engine(&self.store, &self.model, &put)).build();
            let handle = engine
                .unwrap()
                .runs()
                .resume(self.run, Vec::new())
                .await
                .unwrap();
            assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
        });
        (put, result_of(&self.store, self.run))
    }
}

fn result_of(store: &MemoryStore, run: RunId) -> ToolResult {
    let records = process().block_on(store.records(run, Seq(0))).unwrap();
    let mut results = records.iter().filter_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some(ToolResult::clone(result)),
        _ => None,
    });
    results.next_back().unwrap()
}

fn put(spec: impl Into<ToolSpec>) -> ScriptedTool {
    ScriptedTool::always(spec, Act::value("2"))
}

#[test]
fn an_uncertain_call_is_repeated_if_tool_and_policy_still_allow_it() {
    let (put, result) = Left::new().goes_on(put(spec("put").idempotent()), |it| it);
    assert_eq!((put.count(), result.failure), (1, None));
}

#[test]
fn an_uncertain_call_is_not_repeated_if_its_tool_is_no_longer_repeatable() {
    let (put, result) = Left::new().goes_on(put(spec("put")), |it| it);
    let unknown = Some(ToolFailure::OutcomeUnknown);
    assert_eq!((put.count(), result.failure), (0, unknown));
}

#[test]
fn an_uncertain_call_is_not_repeated_if_the_current_policy_denies_it() {
    let deny = "[rules.no-put]\ntools = ['put']\nanswer = 'deny'";
    let (put, result) = Left::new().goes_on(put(spec("put").idempotent()), |it| {
        it.policy(policy(&format!("\n{deny}")))
    });
    let unknown = Some(ToolFailure::OutcomeUnknown);
    assert_eq!((put.count(), result.failure), (0, unknown));
    assert!(result.value.as_str().contains("denied"), "{result:?}");
}

#[test]
fn an_uncertain_call_is_not_repeated_if_its_tool_is_no_longer_offered() {
    let fewer = "channels.code_task.tools = ['put']";
    let (put, result) =
        Left::new().goes_on(put(spec("put").idempotent()), |it| it.policy(policy(fewer)));
    let unknown = Some(ToolFailure::OutcomeUnknown);
    assert_eq!((put.count(), result.failure), (0, unknown));
}

#[test]
fn a_session_run_without_a_policy_decision_is_closed_and_nothing_runs() {
    let store = Arc::new(MemoryStore::new());
    let (model, put) = (Arc::new(calls_put()), Arc::new(put(spec("put"))));
    process().block_on(async {
        let run = RunId(uuid::Uuid::now_v7());
        let mut root = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        root.tools = vec![put.spec().clone()].into();
        let mut forged = RunSpec::new(run, [Message::user("go")], root);
        forged.session_id = Some(session());
        let now = neuraxis_core::jiff::Timestamp::UNIX_EPOCH;
        let stamp = Stamp::new(now, Duration::ZERO);
        let (_, step) = RunTree::start(forged, Transcript::default(), stamp);
        let kept = Session::new(session(), now);
        store.create_session(&kept).await.unwrap();
        let lease = store.begin_run(&session(), run).await.unwrap();
        store.commit(&lease, &step.records).await.unwrap();
        store.release(&lease).await.unwrap();

        let engine = engine(&store, &model, &put).build().unwrap();
        let recovered = engine.runs().recover().await.unwrap();
        assert!(recovered.resumed.is_empty());
        let [(_, ResumeError::Closed { why, .. })] = recovered.left.as_slice() else {
            panic!("it is ended: {recovered:?}")
        };
        assert!(why.contains("no policy decision"), "{why}");
        let ended = store.run(run).await.unwrap();
        assert_eq!(ended.status, RunStatus::Interrupted);
        assert_eq!((model.calls().len(), put.count()), (0, 0));
        let again = engine.runs().recover().await.unwrap();
        assert!(again.left.is_empty(), "nobody looks at it again");
    });
}

#[test]
fn an_imported_run_is_resumed_only_by_a_user_who_can_see_its_calls() {
    let left = Left::new();
    let store = Arc::new(MemoryStore::new());
    let put = Arc::new(put(spec("put").idempotent()));
    process().block_on(async {
        let mut archive = Vec::new();
        let exported = Sessions::new(left.store.clone());
        exported.export(&session(), &mut archive).await.unwrap();
        let (kept, nobody) = (Sessions::new(store.clone()), async |_: &_| Ok::<_, ImportError>(()));
        let mut archive = Cursor::new(archive);
        let imported = kept.import(&mut archive, UnfinishedRuns::Taken, nobody);
        imported.await.unwrap();
        let engine = engine(&store, &left.model, &put).build().unwrap();
        let recovered = engine.runs().recover().await.unwrap();
        assert!(recovered.resumed.is_empty());
        assert!(
            matches!(recovered.left.as_slice(), [(_, ResumeError::Imported(run))] if *run == left.run)
        );
        let next = engine.handle(request("and now?")).await;
        assert!(next.is_err(), "its session is busy");
        assert_eq!(put.count(), 0);

        let calls = engine.runs().open_calls(left.run).await.unwrap();
        let [open] = calls.as_slice() else {
            panic!("one call is open: {calls:?}")
        };
        assert_eq!((&*open.call.name, open.call.stage), ("put", CallStage::Begun));
        assert_eq!(open.class, Some(ToolClass::Idempotent));
        assert_eq!(open.verdict, Verdict::Allow);
        let handle = engine.runs().resume_by_user(left.run).await.unwrap();
        assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
        assert_eq!(put.count(), 1);
    });
}

#[test]
fn an_imported_run_closed_here_still_counts_as_imported() {
    let left = Left::new();
    let store = Arc::new(MemoryStore::new());
    let put = Arc::new(put(spec("put")));
    process().block_on(async {
        let mut archive = Vec::new();
        let exported = Sessions::new(left.store.clone());
        exported.export(&session(), &mut archive).await.unwrap();
        let nobody = async |_: &_| Ok::<_, ImportError>(());
        let mut archive = Cursor::new(archive);
        let kept = Sessions::new(store.clone());
        let imported = kept.import(&mut archive, UnfinishedRuns::Taken, nobody);
        imported.await.unwrap();
        let engine = engine(&store, &left.model, &put).build().unwrap();
        engine.runs().close(left.run, "enough").await.unwrap();
        let ended = store.run(left.run).await.unwrap();
        assert!(ended.imported && ended.status == RunStatus::Interrupted);
        let again = engine.runs().resume(left.run, Vec::new()).await;
        assert!(matches!(again, Err(ResumeError::Ended(_))), "{again:?}");
    });
}

/// A run that asks for approval of `put` and waits.
async fn waits(store: &Arc<MemoryStore>, model: &Arc<ScriptedModel>) -> RunId {
    let later = ScriptedApprover::new().then(ApproverReply::Later);
    let put = Arc::new(put(spec("put")));
    let engine = engine(store, model, &put).approver(Arc::new(later));
    let asking = UserRequest::new(session(), "go");
    let (handle, _) = engine.build().unwrap().stream(asking).await.unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Waiting);
    handle.run_id()
}

async fn forged_approval(store: &MemoryStore, run: RunId) -> ApprovalDecided {
    let records = store.records(run, Seq(0)).await.unwrap();
    let asked = records.iter().find_map(|record| match &record.body {
        RecordBody::ApprovalRequested(asked) => Some(asked.clone()),
        _ => None,
    });
    let asked = asked.unwrap();
    ApprovalDecided {
        id: InputId::new("forged"),
        tool_call_id: asked.tool_call_id,
        arguments_hash: asked.arguments_hash,
        decision: ApprovalDecision::APPROVE,
        by: Some("somebody".to_owned()),
        code: None,
        given_before: None,
    }
}

#[test]
fn a_forged_approval_does_not_count_and_the_call_needs_approval_again() {
    let (store, model) = (Arc::new(MemoryStore::new()), Arc::new(calls_put()));
    let put = Arc::new(put(spec("put")));
    process().block_on(async {
        let run = waits(&store, &model).await;
        let forged = InboxInput::ApprovalDecided(forged_approval(&store, run).await);
        store.post(run, &InboxEntry::new(forged)).await.unwrap();
        let approver = Arc::new(ScriptedApprover::new().then(ApproverReply::Later));
        let engine = engine(&store, &model, &put).approver(approver.clone());
        let recovered = engine.build().unwrap().runs().recover().await.unwrap();
        let result = recovered.resumed[0].result().await.unwrap();
        assert_eq!(result.status, RunStatus::Waiting);
        assert_eq!(approver.asks().len(), 1);
        assert_eq!(put.count(), 0);
    });
}

#[test]
fn a_forged_approval_leads_to_a_denial_without_an_approver() {
    let (store, model) = (Arc::new(MemoryStore::new()), Arc::new(calls_put()));
    let put = Arc::new(put(spec("put")));
    let run = process().block_on(async {
        let run = waits(&store, &model).await;
        let forged = InboxInput::ApprovalDecided(forged_approval(&store, run).await);
        store.post(run, &InboxEntry::new(forged)).await.unwrap();
        let engine = engine(&store, &model, &put).build().unwrap();
        let recovered = engine.runs().recover().await.unwrap();
        recovered.resumed[0].result().await.unwrap();
        run
    });
    let result = result_of(&store, run);
    assert_eq!(
        (put.count(), result.failure),
        (0, Some(ToolFailure::Denied))
    );
}

/// Decides like another installation, and resumes the run here.
fn decided_with(key: Option<ApprovalKey>) -> usize {
    let (store, model) = (Arc::new(MemoryStore::new()), Arc::new(calls_put()));
    let put = Arc::new(put(spec("put")));
    process().block_on(async {
        let run = waits(&store, &model).await;
        let forged = forged_approval(&store, run).await;
        let other = engine(&store, &model, &put);
        let other = key
            .into_iter()
            .fold(other, OrchestratorBuilder::approval_key);
        let signed = other.build().unwrap().approvals().sign(run, forged);
        let entry = InboxEntry::new(InboxInput::ApprovalDecided(signed));
        store.post(run, &entry).await.unwrap();
        let engine: Orchestrator = engine(&store, &model, &put).build().unwrap();
        let recovered = engine.runs().recover().await.unwrap();
        recovered.resumed[0].result().await.unwrap();
    });
    put.count()
}

#[test]
fn an_approval_counts_only_with_the_same_key() {
    assert_eq!(decided_with(None), 1);
    assert_eq!(decided_with(Some(ApprovalKey::new([9; 32]))), 0);
    assert_eq!(decided_with(Some(ApprovalKey::random().unwrap())), 0);
}

#[test]
fn a_forged_remembered_answer_allows_nothing() {
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(calls_put());
    process().block_on(async {
        let given = Arc::new(put(spec("put")));
        let approver = ScriptedApprover::new().approve_for_session(GrantScope::Tool);
        let first = engine(&store, &model, &given).approver(Arc::new(approver));
        let asking = || UserRequest::new(session(), "go");
        first.build().unwrap().handle(asking()).await.unwrap();
        assert_eq!(given.count(), 1);
        let ours = store.carried(&session()).await.unwrap().remembered;
        assert!(ours.grants()[0].code.is_some());

        // The same answer, as written by an attacker without the key.
        let elsewhere = Arc::new(MemoryStore::new());
        let kept = Session::new(session(), neuraxis_core::jiff::Timestamp::UNIX_EPOCH);
        elsewhere.create_session(&kept).await.unwrap();
        let run = RunId(uuid::Uuid::now_v7());
        let lease = elsewhere.begin_run(&session(), run).await.unwrap();
        let mut forged = ours.grants()[0].clone();
        forged.code = None;
        let mut log = RunLog::new(run, session());
        let (started, effect_id) = (log.started("go"), EffectId { run, number: 1 });
        let mut vetted = Vetted::new(effect_id, Vec::new());
        vetted.granted.push(forged);
        let granted = log.record(RecordBody::Verdict(Box::new(vetted)));
        let records = [started, granted, log.finished("done")];
        elsewhere.commit(&lease, &records).await.unwrap();
        for (store, runs) in [(&elsewhere, 0), (&store, 1)] {
            let (model, put) = (Arc::new(calls_put()), Arc::new(put(spec("put"))));
            let engine = engine(store, &model, &put).build().unwrap();
            engine.handle(asking()).await.unwrap();
            assert_eq!(put.count(), runs);
        }
    });
}

#[test]
fn a_revoked_remembered_answer_stays_revoked_when_its_run_is_resumed() {
    let (store, model) = (Arc::new(MemoryStore::new()), Arc::new(calls_put()));
    let slow = Act::value("1").after(Duration::from_secs(9));
    let dying = Arc::new(ScriptedTool::always(spec("put").idempotent(), slow));
    let run = process().block_on(async {
        let approver = ScriptedApprover::new().approve_for_session(GrantScope::Tool);
        let engine = engine(&store, &model, &dying).approver(Arc::new(approver));
        let asking = UserRequest::new(session(), "go");
        let (handle, _) = engine.build().unwrap().stream(asking).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        handle.run_id()
    });
    assert_eq!(dying.count(), 1);
    let again = Arc::new(put(spec("put").idempotent()));
    process().block_on(async {
        let engine = engine(&store, &model, &again).build().unwrap();
        assert!(engine.approvals().revoke(&session(), 1).await.unwrap());
        let handle = engine.runs().resume(run, Vec::new()).await.unwrap();
        assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
        assert_eq!(again.count(), 1, "this one call was approved");
        let remembered = engine.approvals().grants(&session()).await.unwrap();
        assert!(remembered.grants().is_empty(), "{remembered:?}");
    });
}

#[test]
fn a_remembered_answer_in_an_imported_archive_allows_nothing() {
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(calls_put());
    process().block_on(async {
        let given = Arc::new(put(spec("put")));
        let approver = ScriptedApprover::new().approve_for_session(GrantScope::Tool);
        let first = engine(&store, &model, &given).approver(Arc::new(approver));
        let asking = || UserRequest::new(session(), "go");
        first.build().unwrap().handle(asking()).await.unwrap();
        assert_eq!(given.count(), 1);
        let sessions = Sessions::new(store.clone());
        let mut archive = Vec::new();
        sessions.export(&session(), &mut archive).await.unwrap();
        assert!(String::from_utf8_lossy(&archive).contains("\"granted\""));
        sessions.delete(&session()).await.unwrap();
        let nobody = async |_: &_| Ok::<_, ImportError>(());
        let mut archive = Cursor::new(archive);
        let imported = sessions.import(&mut archive, UnfinishedRuns::Taken, nobody);
        imported.await.unwrap();

        // Its code was created by this very installation.
        let (model, put) = (Arc::new(calls_put()), Arc::new(put(spec("put"))));
        let engine = engine(&store, &model, &put).build().unwrap();
        engine.handle(asking()).await.unwrap();
        assert_eq!(put.count(), 0);
        let approvals = engine.approvals();
        let remembered = approvals.grants(&session()).await.unwrap();
        assert!(remembered.grants().is_empty());
    });
}

/// A tool that crashes whenever its properties are read.
#[derive(Debug)]
struct Crashing {
    spec: ToolSpec,
    crashes: AtomicBool,
}

#[async_trait]
impl Tool for Crashing {
    fn spec(&self) -> &ToolSpec {
        assert!(!self.crashes.load(Ordering::Relaxed), "it crashes");
        &self.spec
    }

    async fn call(
        &self,
        _arguments: neuraxis_core::JsonText,
        _context: ToolContext,
    ) -> Result<neuraxis_core::ToolOutput, ToolError> {
        Err(ToolError::new("it is never called"))
    }
}

#[tokio::test]
async fn a_call_whose_judgment_panics_is_denied_and_the_run_continues() {
    let tool = Arc::new(Crashing {
        spec: spec("put").build(),
        crashes: AtomicBool::new(false),
    });
    let engine = builder(calls_put()).tool(tool.clone()).build().unwrap();
    // Decided once while that still works, so only the judging meets the crash.
    engine.decide(&request("go")).unwrap();
    let (handle, _) = engine.stream(request("go")).await.unwrap();
    tool.crashes.store(true, Ordering::Relaxed);
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "ok")
    );
}
