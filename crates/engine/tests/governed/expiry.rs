//! Questions that are not answered in time expire, by the wall clock, and an expiry is not a user's denial.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, InboxEntry, InboxInput, InputId, Mode, Record, RecordBody,
    RunStatus, Seq, ToolFailure,
};
use neuraxis_engine::{Answer, DecideError, HeldRun, ImportError, ResumeError, UnfinishedRuns};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError};
use neuraxis_testkit::{FailingStore, Fault, ScriptedApprover, StoreOperation, reply};

use crate::support::{Ran, World, later, results};

const SHORT: &str = "[modes.moderate]\napproval_expires = '1h'";

/// A world with a store whose faults are scripted, in which two runs of two sessions wait for approval, the older one
/// first.
async fn two_that_wait() -> (World, Arc<FailingStore<MemoryStore>>, [Ran; 2]) {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let world = World::with(SHORT, later(2), |builder| builder.store(store.clone()));
    for _ in 0..2 {
        world.model.push(reply::calls([("put", "{}")]));
    }
    for _ in 0..2 {
        world.model.push(reply::text("Done."));
    }
    let older = world.ask("older", Mode::MODERATE).await;
    let newer = world.ask("newer", Mode::MODERATE).await;
    world.settled().await;
    (world, store, [older, newer])
}

fn damaged() -> StoreError {
    StoreError::Damaged("record 2 cannot be read".to_owned())
}

fn decisions(records: &[Arc<Record>]) -> Vec<ApprovalDecision> {
    let decided = records.iter().filter_map(|record| match &record.body {
        RecordBody::ApprovalDecided(decided) => Some(decided.decision.clone()),
        _ => None,
    });
    decided.collect()
}

#[tokio::test]
async fn a_sweep_expires_an_approval_of_a_parked_run_and_the_run_continues() {
    let world = World::new(SHORT, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    assert_eq!(ran.result.status, RunStatus::Waiting);
    world.clock.advance(Duration::from_secs(3_599));
    assert!(
        world
            .orchestrator
            .approvals()
            .sweep()
            .await
            .unwrap()
            .expired
            .is_empty()
    );
    world.clock.advance(Duration::from_secs(1));
    let swept = world.orchestrator.approvals().sweep().await.unwrap();
    assert_eq!((swept.expired.len(), swept.left.len()), (1, 0));
    world.settled().await;
    assert!(
        world
            .orchestrator
            .approvals()
            .sweep()
            .await
            .unwrap()
            .expired
            .is_empty()
    );
    let records = world.records_of(&ran).await;
    assert_eq!(decisions(&records), [ApprovalDecision::Expired]);
    let results = results(&records);
    assert_eq!(results[0].failure, Some(ToolFailure::ApprovalExpired));
    assert_eq!(
        results[0].value.as_str(),
        r#"{"error":"not run: nobody approved this call in time"}"#
    );
    let summary = world.store.run(ran.result.run_id).await.unwrap();
    assert_eq!(summary.status, RunStatus::Done, "the model went on without");
    assert_eq!(world.tools.put.count(), 0);
}

#[tokio::test]
async fn only_the_overdue_one_of_two_approvals_expires() {
    let world = World::new(SHORT, later(3));
    let puts = [("put", r#"{"n":1}"#), ("put", r#"{"n":2}"#)];
    let ran = world.calls(Mode::MODERATE, &puts).await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    world.clock.advance(Duration::from_secs(3_600));
    let swept = world.orchestrator.approvals().sweep().await.unwrap();
    assert_eq!(swept.expired.len(), 1);
    assert_eq!(swept.expired[0].request, waiting[1].request);
    world.settled().await;
    let records = world.records_of(&ran).await;
    assert_eq!(
        decisions(&records),
        [ApprovalDecision::APPROVE, ApprovalDecision::Expired]
    );
    assert_eq!(world.tools.put.count(), 1);
}

#[tokio::test]
async fn a_starting_process_expires_overdue_approvals_without_asking_again() {
    let world = World::new(SHORT, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    world.clock.advance(Duration::from_secs(7_200));
    let asked_before = world.approver.asks().len();
    let recovered = world.orchestrator.runs().recover().await.unwrap();
    assert!(recovered.left.is_empty());
    world.settled().await;
    assert_eq!(world.approver.asks().len(), asked_before);
    let decisions = decisions(&world.records_of(&ran).await);
    assert_eq!(decisions, [ApprovalDecision::Expired]);
}

#[tokio::test(start_paused = true)]
async fn an_approval_expires_while_the_approver_is_still_being_asked() {
    let world = World::new(SHORT, ScriptedApprover::new().stay_silent());
    let began = tokio::time::Instant::now();
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    assert_eq!(decisions(&ran.records), [ApprovalDecision::Expired]);
    assert_eq!(began.elapsed().as_secs(), 3_600);
    assert_eq!(
        ran.is_done().results()[0].failure,
        Some(ToolFailure::ApprovalExpired)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stored_decision_is_received_before_the_deadline() {
    let world = World::new(SHORT, ScriptedApprover::new().stay_silent());
    let approvals = world.orchestrator.approvals();
    // By another process, immediately before the deadline.
    let elsewhere = async {
        tokio::time::sleep(Duration::from_millis(3_599_999)).await;
        let waiting = approvals.list().await.unwrap().remove(0);
        let decided = ApprovalDecided {
            id: InputId::new("elsewhere"),
            tool_call_id: waiting.request.tool_call_id.clone(),
            arguments_hash: waiting.request.arguments_hash,
            decision: ApprovalDecision::APPROVE,
            by: None,
            code: None,
            given_before: waiting.request.expires_at,
        };
        let decided = approvals.sign(waiting.run_id, decided);
        let entry = InboxEntry::new(InboxInput::ApprovalDecided(decided));
        world.store.post(waiting.run_id, &entry).await.unwrap();
    };
    let calls = [("put", "{}")];
    let (ran, ()) = tokio::join!(world.calls(Mode::MODERATE, &calls), elsewhere);
    assert_eq!(decisions(&ran.records), [ApprovalDecision::APPROVE]);
    assert_eq!(world.tools.put.count(), 1);
}

#[tokio::test]
async fn a_decision_stored_in_time_counts_however_late_its_run_receives_it() {
    let (world, store, [older, _]) = two_that_wait().await;
    let run = older.result.run_id;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    assert_eq!(waiting[0].run_id, run);
    // The process that holds the run dies before it takes the decision.
    let session = older.result.session_id.clone();
    let busy = StoreError::SessionBusy { session, run };
    store.fail_next(StoreOperation::BeginRun, Fault::Refuse(busy));
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    world.clock.advance(Duration::from_secs(3_600));
    world.orchestrator.runs().recover().await.unwrap();
    world.settled().await;
    let records = store.records(run, Seq(0)).await.unwrap();
    assert_eq!(decisions(&records), [ApprovalDecision::APPROVE]);
    assert_eq!(world.tools.put.count(), 1);
}

#[tokio::test]
async fn a_late_decision_before_any_sweep_is_recorded_as_an_expiry() {
    let world = World::new(SHORT, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    world.clock.advance(Duration::from_secs(3_600));
    let request = &waiting[0].request;
    let approvals = world.orchestrator.approvals();
    let late = approvals.decide(
        ran.result.run_id,
        &request.tool_call_id,
        request.arguments_hash,
        ApprovalDecision::APPROVE,
        Some("alice".to_owned()),
    );
    let late = late.await.unwrap_err();
    assert!(matches!(late, ResumeError::Expired { .. }), "{late}");
    world.settled().await;
    let records = world.records_of(&ran).await;
    assert_eq!(decisions(&records), [ApprovalDecision::Expired]);
    assert_eq!(world.tools.put.count(), 0, "nothing ran");
}

#[tokio::test]
async fn an_answer_supplied_to_a_waiting_run_expires_like_any_other() {
    let world = World::new(SHORT, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let request = world.orchestrator.approvals().list().await.unwrap()[0]
        .request
        .clone();
    world.clock.advance(Duration::from_secs(3_600));
    let answer = Answer::Approval(ApprovalDecided {
        id: InputId::new("late"),
        tool_call_id: request.tool_call_id,
        arguments_hash: request.arguments_hash,
        decision: ApprovalDecision::APPROVE,
        by: Some("alice".to_owned()),
        code: None,
        given_before: None,
    });
    let run = ran.result.run_id;
    let run = world
        .orchestrator
        .runs()
        .resume(run, vec![answer])
        .await
        .unwrap();
    assert_eq!(run.result().await.unwrap().status, RunStatus::Done);
    let records = world.records_of(&ran).await;
    assert_eq!(decisions(&records), [ApprovalDecision::Expired]);
    assert_eq!(world.tools.put.count(), 0, "nothing ran");
}

#[tokio::test]
async fn a_decision_after_the_expiry_changes_nothing() {
    let world = World::new(SHORT, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    world.clock.advance(Duration::from_secs(3_600));
    world.orchestrator.approvals().sweep().await.unwrap();
    world.settled().await;
    let request = &waiting[0].request;
    let approvals = world.orchestrator.approvals();
    let late = approvals.decide(
        ran.result.run_id,
        &request.tool_call_id,
        request.arguments_hash,
        ApprovalDecision::APPROVE,
        None,
    );
    let late = late.await;
    assert!(
        matches!(&late, Err(ResumeError::Expired { at, .. }) if Some(*at) == request.expires_at),
        "{late:?}"
    );
    assert_eq!(world.tools.put.count(), 0);
}

#[tokio::test]
async fn a_caller_cannot_declare_an_open_approval_expired() {
    let world = World::new(SHORT, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let approvals = world.orchestrator.approvals();
    let waiting = approvals.list().await.unwrap();
    let request = &waiting[0].request;
    let (run, call) = (ran.result.run_id, &request.tool_call_id);
    let sent: ApprovalDecision = serde_json::from_str(r#"{"decision":"expired"}"#).unwrap();
    let decided = approvals.decide(run, call, request.arguments_hash, sent.clone(), None);
    let decided = decided.await;
    assert!(
        matches!(&decided, Err(ResumeError::NotADecision(of)) if of == call),
        "{decided:?}"
    );
    let decided = approvals.decide_and_resume(&waiting[0], sent, None).await;
    assert!(
        matches!(
            &decided,
            Err(DecideError::Resume(ResumeError::NotADecision(of))) if of == call
        ),
        "{decided:?}"
    );
    assert!(decisions(&world.records_of(&ran).await).is_empty());
    assert_eq!(approvals.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_unreadable_run_hides_no_other_approval_but_a_failing_store_is_an_error() {
    let (world, store, [older, newer]) = two_that_wait().await;
    let approvals = world.orchestrator.approvals();
    let deleted = StoreError::NoSuchRun(older.result.run_id);
    for fault in [damaged(), deleted] {
        store.fail_next(StoreOperation::Records, Fault::Refuse(fault));
        let waiting = approvals.list().await.unwrap();
        let runs: Vec<_> = waiting.iter().map(|it| it.run_id).collect();
        assert_eq!(runs, [newer.result.run_id]);
    }
    store.fail_next(StoreOperation::Records, Fault::Refuse(damaged()));
    let session = "older".parse().unwrap();
    assert!(approvals.of_session(&session).await.unwrap().is_empty());
    for operation in [StoreOperation::Records, StoreOperation::Verify] {
        let silent = StoreError::Unavailable("it does not answer".to_owned());
        store.fail_next(operation, Fault::Refuse(silent));
        assert!(approvals.list().await.is_err(), "{operation:?}");
    }
    assert_eq!(approvals.list().await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_unreadable_run_does_not_keep_other_approvals_from_expiring() {
    let (world, store, [older, newer]) = two_that_wait().await;
    world.clock.advance(Duration::from_secs(3_600));
    store.fail_next(StoreOperation::Records, Fault::Refuse(damaged()));
    for (told, left) in [(&newer, Some(older.result.run_id)), (&older, None)] {
        let swept = world.orchestrator.approvals().sweep().await.unwrap();
        let expired: Vec<_> = swept.expired.iter().map(|it| it.run_id).collect();
        assert_eq!(expired, [told.result.run_id]);
        assert_eq!(swept.left.first().map(|(run, _)| *run), left);
        world.settled().await;
        let summary = store.run(told.result.run_id).await.unwrap();
        assert_eq!(summary.status, RunStatus::Done);
    }
}

#[tokio::test]
async fn a_process_that_cannot_sweep_expired_approvals_still_resumes_runs() {
    let (world, store, _) = two_that_wait().await;
    store.fail_next(StoreOperation::Unfinished, Fault::Refuse(damaged()));
    let recovered = world.orchestrator.runs().recover().await.unwrap();
    assert_eq!((recovered.resumed.len(), recovered.left.len()), (2, 0));
}

#[tokio::test]
async fn an_imported_run_receives_no_expiry() {
    let elsewhere = World::new(SHORT, later(1));
    let ran = elsewhere.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let mut archive = Vec::new();
    let sessions = elsewhere.orchestrator.sessions();
    let session = ran.result.session_id.clone();
    sessions.export(&session, &mut archive).await.unwrap();

    let world = World::new(SHORT, later(1));
    let sessions = world.orchestrator.sessions();
    let mut archive = std::io::Cursor::new(archive);
    let nobody = async |_: &HeldRun| Ok::<_, ImportError>(());
    let imported = sessions.import(&mut archive, UnfinishedRuns::Taken, nobody);
    imported.await.unwrap();
    world.clock.advance(Duration::from_secs(3_600));
    let swept = world.orchestrator.approvals().sweep().await.unwrap();
    assert_eq!((swept.waiting, swept.expired.len()), (1, 0));
    let run = ran.result.run_id;
    assert!(!world.store.run(run).await.unwrap().has_mail);
}

#[tokio::test]
async fn a_run_that_cannot_be_resumed_receives_its_expiry_once() {
    let (world, store, [older, newer]) = two_that_wait().await;
    world.clock.advance(Duration::from_secs(3_600));
    let silent = StoreError::Unavailable("it does not answer".to_owned());
    store.fail_next(StoreOperation::Run, Fault::Refuse(silent));
    let expired = async || {
        let swept = world.orchestrator.approvals().sweep().await.unwrap();
        world.settled().await;
        swept.expired.len()
    };
    assert_eq!((expired().await, expired().await), (2, 0));
    let waits = store.run(older.result.run_id).await.unwrap();
    assert_eq!((waits.status, waits.has_mail), (RunStatus::Waiting, true));
    world.orchestrator.runs().recover().await.unwrap();
    world.settled().await;
    for ran in [older, newer] {
        let summary = store.run(ran.result.run_id).await.unwrap();
        assert_eq!(summary.status, RunStatus::Done);
    }
}
