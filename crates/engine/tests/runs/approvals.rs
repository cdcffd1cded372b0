//! Calls that need approval.

use std::sync::Arc;

use neuraxis_core::{Mode, RunStatus, ToolFailure};
use neuraxis_ports::Approver;
use neuraxis_testkit::{ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{FinishedRun, builder, request, run_to_end};

async fn run(approver: Option<ScriptedApprover>) -> (FinishedRun, Arc<ScriptedTool>) {
    let model = ScriptedModel::new()
        .then(reply::calls([("write", r#"{"n":1}"#)]))
        .then(reply::text("ok"));
    let tool = Arc::new(ScriptedTool::echoing(spec("write")));
    let mut builder = builder(model).tool(tool.clone());
    if let Some(approver) = approver {
        builder = builder.approver(Arc::new(approver) as Arc<dyn Approver>);
    }
    let finished = run_to_end(
        &builder.build().unwrap(),
        request("go").mode(Mode::MODERATE),
    )
    .await;
    (finished, tool)
}

#[tokio::test]
async fn a_call_that_needs_approval_is_denied_without_an_approver() {
    let (finished, tool) = run(None).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.results()[0].failure, Some(ToolFailure::Denied));
    assert!(
        finished.results()[0]
            .value
            .as_str()
            .contains("no approver is available here")
    );
    assert_eq!(tool.count(), 0);
}

#[tokio::test]
async fn an_approved_call_runs_with_the_approved_arguments() {
    let (finished, tool) = run(Some(ScriptedApprover::new().approve_with(r#"{"n":2}"#))).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(tool.calls()[0].arguments.as_str(), r#"{"n":2}"#);
    assert_eq!(finished.results()[0].value.as_str(), r#"{"n":2}"#);
    let kinds = finished.kinds();
    let asked = kinds
        .iter()
        .position(|kind| *kind == "approval_requested")
        .unwrap();
    let expected = [
        "approval_requested",
        "waiting",
        "approval_decided",
        "verdict",
        "tool_call",
        "tool_result",
    ];
    assert_eq!(kinds[asked..asked + 6], expected);
}

#[tokio::test]
async fn a_denial_gives_the_model_the_reason() {
    let (finished, tool) = run(Some(ScriptedApprover::new().deny("not on a Friday"))).await;
    finished.assert_valid(RunStatus::Done);
    assert!(
        finished.results()[0]
            .value
            .as_str()
            .contains("not on a Friday")
    );
    assert_eq!(tool.count(), 0);
}

#[tokio::test]
async fn a_run_whose_approval_comes_later_is_parked_as_waiting() {
    let later = ScriptedApprover::new().then(neuraxis_ports::ApproverReply::Later);
    let (finished, tool) = run(Some(later)).await;
    assert_eq!(
        (finished.result.status, &finished.result.finish_reason),
        (RunStatus::Waiting, &None)
    );
    assert_eq!(finished.kinds().last(), Some(&"waiting"));
    assert_eq!(tool.count(), 0);
}

#[tokio::test]
async fn a_request_with_its_own_approver_asks_only_that_one() {
    for (own, count) in [
        (ScriptedApprover::new().approve(), 1),
        (ScriptedApprover::new().deny("no"), 0),
    ] {
        let model = ScriptedModel::new()
            .then(reply::calls([("write", r#"{"n":1}"#)]))
            .then(reply::text("ok"));
        let tool = Arc::new(ScriptedTool::echoing(spec("write")));
        let everybodys = Arc::new(ScriptedApprover::new().approve());
        let orchestrator = builder(model)
            .tool(tool.clone())
            .approver(Arc::clone(&everybodys) as Arc<dyn Approver>);
        let own = Arc::new(own);
        let request = request("go").mode(Mode::MODERATE);
        let request = request.approver(Arc::clone(&own) as Arc<dyn Approver>);
        let finished = run_to_end(&orchestrator.build().unwrap(), request).await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!((own.asks().len(), everybodys.asks().len()), (1, 0));
        assert_eq!(tool.count(), count);
    }
}
