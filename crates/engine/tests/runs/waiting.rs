//! Runs that are suspended until a decision is made, and then resumed.

use std::sync::Arc;

use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, ApprovalRequested, AskApproval, InputError, InputId,
    JsonText, Mode, PendingKind, RecordBody, RunStatus, ToolFailure,
};
use neuraxis_engine::{
    Answer, AnswerError, DecideLater, Event, Orchestrator, OrchestratorResult, RequestError,
    ResumeError, UuidV7,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{Approver, ApproverReply, SessionIndex as _, TurnContext, async_trait};
use neuraxis_testkit::{ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{FinishedRun, builder, request, run_to_end};

struct ParkedRun {
    orchestrator: Orchestrator,
    approver: Arc<ScriptedApprover>,
    tool: Arc<ScriptedTool>,
    finished: FinishedRun,
}

/// A run that calls `write`, and an approver that answers later.
async fn park(approver: ScriptedApprover, calls: &[(&str, &str)]) -> ParkedRun {
    let model = ScriptedModel::new()
        .then(reply::using(reply::calls(calls.iter().copied()), 10, 2))
        .then(reply::using(reply::text("ok"), 20, 1));
    let tool = Arc::new(ScriptedTool::echoing(
        spec("write").schema(r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#),
    ));
    let approver = Arc::new(approver);
    let orchestrator = builder(model)
        .tool(tool.clone())
        .approver(approver.clone())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::MODERATE)).await;
    assert_eq!(finished.result.status, RunStatus::Waiting);
    ParkedRun {
        orchestrator,
        approver,
        tool,
        finished,
    }
}

fn later(times: usize) -> ScriptedApprover {
    (0..times).fold(ScriptedApprover::new(), |approver, _| {
        approver.then(ApproverReply::Later)
    })
}

impl ParkedRun {
    fn asked(&self) -> Vec<ApprovalRequested> {
        let records = self.finished.records();
        let asked = records.iter().filter_map(|record| match &record.body {
            RecordBody::ApprovalRequested(asked) => Some(ApprovalRequested::clone(asked)),
            _ => None,
        });
        asked.collect()
    }

    async fn resume(&self, answers: Vec<Answer>) -> Result<OrchestratorResult, ResumeError> {
        let handle = self
            .orchestrator
            .runs()
            .resume(self.finished.result.run_id, answers)
            .await?;
        Ok(handle.result().await.unwrap())
    }
}

fn decided(asked: &ApprovalRequested, decision: ApprovalDecision) -> Answer {
    Answer::Approval(ApprovalDecided {
        id: InputId::new(format!("decision-{}", asked.effect_id)),
        tool_call_id: asked.tool_call_id.clone(),
        arguments_hash: asked.arguments_hash,
        decision,
        by: Some("ada".to_owned()),
        code: None,
        given_before: None,
    })
}

fn approve(arguments: Option<&str>) -> ApprovalDecision {
    ApprovalDecision::Approve {
        arguments: arguments.map(JsonText::from_text),
        remember: None,
    }
}

#[tokio::test]
async fn a_later_approval_resumes_the_run_where_it_stopped() {
    let run = park(later(1), &[("write", r#"{"n":1}"#)]).await;
    let waiting = &run.finished.result;
    let asked = &run.asked()[0];
    let pending = &waiting.pending[0];
    assert_eq!(
        (pending.kind, &*pending.name, pending.arguments.as_str()),
        (PendingKind::Approval, "write", r#"{"n":1}"#)
    );
    assert_eq!(pending.reason.as_ref(), Some(&asked.reason));
    assert_eq!(pending.question, Some(asked.question(waiting.run_id)));
    assert_eq!(waiting.turns, 1, "the turn under way");
    assert_eq!(waiting.usage.total.total.tokens, 12);
    let result = run
        .resume(vec![decided(&run.asked()[0], approve(None))])
        .await
        .unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "ok")
    );
    assert_eq!(result.usage.total.total.tokens, 33);
    assert_eq!(run.tool.calls()[0].arguments.as_str(), r#"{"n":1}"#);
    assert_eq!(run.approver.asks().len(), 1, "asked again");
}

#[tokio::test]
async fn arguments_edited_on_approval_are_checked_again_and_used() {
    let run = park(later(1), &[("write", r#"{"n":1}"#)]).await;
    let edited = decided(&run.asked()[0], approve(Some(r#"{"n":2}"#)));
    let result = run.resume(vec![edited]).await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    assert_eq!(run.tool.calls()[0].arguments.as_str(), r#"{"n":2}"#);

    let run = park(later(1), &[("write", r#"{"n":1}"#)]).await;
    let edited = decided(&run.asked()[0], approve(Some(r#"{"n":"two"}"#)));
    let result = run.resume(vec![edited]).await.unwrap();
    assert_eq!((result.status, run.tool.count()), (RunStatus::Done, 0));
}

#[tokio::test]
async fn a_denial_and_an_expiry_have_different_failures() {
    let denied = ApprovalDecision::Deny {
        reason: Some("too risky".to_owned()),
    };
    for (decision, failure) in [
        (denied, ToolFailure::Denied),
        (ApprovalDecision::Expired, ToolFailure::ApprovalExpired),
    ] {
        let run = park(later(1), &[("write", "{}")]).await;
        let handle = run
            .orchestrator
            .runs()
            .resume(
                run.finished.result.run_id,
                vec![decided(&run.asked()[0], decision)],
            )
            .await
            .unwrap();
        assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
        let records = handle.records();
        let told = records.iter().find_map(|record| match &record.body {
            RecordBody::ToolResult(result) => result.failure,
            _ => None,
        });
        assert_eq!((told, run.tool.count()), (Some(failure), 0));
    }
}

#[tokio::test]
async fn an_approval_of_other_arguments_is_refused_and_changes_nothing() {
    let run = park(later(1), &[("write", r#"{"n":1}"#)]).await;
    let mut asked = run.asked()[0].clone();
    asked.arguments_hash = JsonText::from_text(r#"{"n":99}"#).hash();
    let refused = run.resume(vec![decided(&asked, approve(None))]).await;
    assert!(
        matches!(
            refused,
            Err(ResumeError::Refused(InputError::ApprovalMismatch(_)))
        ),
        "{refused:?}"
    );
    // The refusal did not take the run from its caller: the right answer still counts.
    let right = vec![decided(&run.asked()[0], approve(None))];
    assert_eq!(run.resume(right).await.unwrap().status, RunStatus::Done);
}

/// An approver that never answers.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Approver for Silent {
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_handle_refuses_a_decision_about_other_arguments_and_accepts_the_right_one() {
    let model = ScriptedModel::new()
        .then(reply::calls([("write", r#"{"n":1}"#)]))
        .then(reply::text("ok"));
    let tool = Arc::new(ScriptedTool::echoing(spec("write")));
    let orchestrator = builder(model)
        .tool(tool.clone())
        .approver(Arc::new(Silent))
        .build()
        .unwrap();
    let request = request("go").mode(Mode::MODERATE);
    let (handle, mut events) = orchestrator.stream(request).await.unwrap();
    let asked = loop {
        if let Event::Record(record) = events.next().await.unwrap()
            && let RecordBody::ApprovalRequested(asked) = &record.body
        {
            break ApprovalRequested::clone(asked);
        }
    };
    let decide = |hash| {
        let call = asked.tool_call_id.clone();
        handle.decide(call, hash, ApprovalDecision::APPROVE, None)
    };
    let refused = decide(JsonText::from_text(r#"{"n":99}"#).hash());
    assert_eq!(
        refused,
        Err(AnswerError::NotAsked(asked.tool_call_id.clone()))
    );
    decide(asked.arguments_hash).unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    assert_eq!(tool.count(), 1);
}

#[tokio::test]
async fn no_answer_counts_if_one_of_several_is_wrong() {
    let run = park(
        later(2),
        &[("write", r#"{"n":1}"#), ("write", r#"{"n":2}"#)],
    )
    .await;
    let asked = run.asked();
    let mut wrong = asked[1].clone();
    wrong.arguments_hash = JsonText::from_text("{}").hash();
    let answers = vec![
        decided(&asked[0], approve(None)),
        decided(&wrong, approve(None)),
    ];
    let refused = run.resume(answers).await;
    assert!(
        matches!(refused, Err(ResumeError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(run.tool.count(), 0);
    let right = asked.iter().map(|asked| decided(asked, approve(None)));
    let result = run.resume(right.collect()).await.unwrap();
    assert_eq!((result.status, run.tool.count()), (RunStatus::Done, 2));
}

#[tokio::test]
async fn a_session_with_a_waiting_run_refuses_the_next_request_until_the_run_ends() {
    let run = park(later(1), &[("write", "{}")]).await;
    let busy = run.orchestrator.handle(request("more")).await;
    assert!(
        matches!(&busy, Err(RequestError::Busy { run: held, .. }) if *held == run.finished.result.run_id),
        "{busy:?}"
    );
    let denied = decided(&run.asked()[0], ApprovalDecision::Deny { reason: None });
    run.resume(vec![denied]).await.unwrap();
    let freed = run.orchestrator.handle(request("more")).await;
    assert!(!matches!(freed, Err(RequestError::Busy { .. })));
}

#[tokio::test]
async fn resuming_without_an_answer_asks_the_approver_again() {
    let approver = later(1).approve();
    let run = park(approver, &[("write", r#"{"n":1}"#)]).await;
    let result = run.resume(Vec::new()).await.unwrap();
    assert_eq!((result.status, run.tool.count()), (RunStatus::Done, 1));
    let asks = run.approver.asks();
    assert_eq!((asks.len(), &asks[0]), (2, &asks[1]));
}

#[tokio::test]
async fn an_unknown_or_ended_run_cannot_be_resumed() {
    let run = park(later(1), &[("write", "{}")]).await;
    run.resume(vec![decided(&run.asked()[0], approve(None))])
        .await
        .unwrap();
    let again = run.resume(Vec::new()).await;
    assert!(matches!(again, Err(ResumeError::Ended(_))), "{again:?}");
    let unknown = neuraxis_testkit::CountingIds::nth_run(99);
    let unknown = run.orchestrator.runs().resume(unknown, Vec::new()).await;
    assert!(matches!(unknown, Err(ResumeError::Store(_))), "{unknown:?}");
}

#[tokio::test]
async fn recovery_ignores_waiting_runs_of_an_approver_that_always_defers() {
    let store = Arc::new(MemoryStore::new());
    let started = || {
        let model = ScriptedModel::always(reply::calls([("write", "{}")]));
        builder(model)
            .store(store.clone())
            .ids(Arc::new(UuidV7))
            .tool(Arc::new(ScriptedTool::echoing(spec("write"))))
            .approver(Arc::new(DecideLater))
            .build()
            .unwrap()
    };
    let first = started();
    let finished = run_to_end(&first, request("go").mode(Mode::MODERATE)).await;
    assert_eq!(finished.result.status, RunStatus::Waiting);
    drop(first);
    let run = finished.result.run_id;
    let before = store.run(run).await.unwrap();
    let recovered = started().runs().recover().await.unwrap();
    assert!(recovered.resumed.is_empty() && recovered.left.is_empty());
    assert_eq!(store.run(run).await.unwrap(), before);
}
