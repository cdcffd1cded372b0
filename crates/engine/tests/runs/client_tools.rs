//! Tools that the caller runs.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    JsonText, PendingKind, RecordBody, RunStatus, ToolCallId, ToolFailure, ToolOutcome, ToolOutput,
};
use neuraxis_engine::{Answer, AnswerError, Orchestrator, ResumeError};
use neuraxis_ports::StoreError;
use neuraxis_testkit::{
    Act, Fault, ScriptedModel, ScriptedTool, StoreOperation, assert_paired, reply, spec,
};

use crate::support::{builder, failing_store, history, request, run_to_end};

fn calling(tools: &[(&str, &str)]) -> ScriptedModel {
    ScriptedModel::new()
        .then(reply::calls(tools.iter().copied()))
        .then(reply::text("Chosen."))
}

fn orchestrator(model: ScriptedModel) -> Orchestrator {
    builder(model)
        .client_tool(spec("pick").read_only().build())
        .build()
        .unwrap()
}

fn done(value: &str) -> ToolOutcome {
    ToolOutcome::done(ToolOutput::new(JsonText::from_text(value)))
}

fn answer(call: &ToolCallId, outcome: ToolOutcome) -> Answer {
    Answer::ToolResult {
        call: call.clone(),
        outcome,
        duration: Duration::from_secs(3),
    }
}

#[tokio::test]
async fn a_run_waits_for_a_client_tool_result_and_continues_with_it() {
    let store = Arc::new(neuraxis_memory::MemoryStore::new());
    let orchestrator = builder(calling(&[("pick", r#"{"of":["red","blue"]}"#)]))
        .store(store.clone())
        .client_tool(spec("pick").read_only().build())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    assert_eq!(
        (finished.result.status, &finished.result.finish_reason),
        (RunStatus::Waiting, &None)
    );
    let [pending] = finished.result.pending.as_slice() else {
        panic!("{:?}", finished.result.pending)
    };
    assert_eq!(
        (pending.kind, &*pending.name, pending.arguments.as_str()),
        (PendingKind::ClientTool, "pick", r#"{"of":["red","blue"]}"#)
    );
    assert_eq!((&pending.reason, &pending.question), (&None, &None));
    let answers = vec![answer(&pending.tool_call_id, done("\"red\""))];
    let handle = orchestrator
        .runs()
        .resume(finished.result.run_id, answers)
        .await
        .unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "Chosen.")
    );
    assert!(result.pending.is_empty());
    let records = handle.records();
    assert_eq!(
        records.first().unwrap().seq.0,
        1,
        "the log is told from its beginning"
    );
    assert!(
        records
            .iter()
            .zip(1..)
            .all(|(record, seq)| record.seq.0 == seq)
    );
    let kept = history(store.as_ref()).await;
    assert_paired(kept.messages());
    assert_eq!(kept.messages()[2].text(), "\"red\"");
}

#[tokio::test]
async fn a_result_for_another_call_is_refused_and_has_no_effect() {
    let orchestrator = orchestrator(calling(&[("pick", "{}")]));
    let run = run_to_end(&orchestrator, request("go")).await.result;
    assert_eq!(run.status, RunStatus::Waiting, "{run:?}");
    let wrong = ToolCallId::from_text("call_of_somebody_else");
    let refused = orchestrator
        .runs()
        .resume(run.run_id, vec![answer(&wrong, done("1"))])
        .await;
    assert!(matches!(refused, Err(ResumeError::NotWaiting(call)) if call == wrong));
    let nothing = orchestrator.runs().resume(run.run_id, Vec::new()).await;
    assert!(
        matches!(nothing, Err(ResumeError::NothingToDo)),
        "{nothing:?}"
    );
    let right = vec![answer(&run.pending[0].tool_call_id, done("1"))];
    let handle = orchestrator
        .runs()
        .resume(run.run_id, right.clone())
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    let again = orchestrator.runs().resume(run.run_id, right).await;
    assert!(matches!(again, Err(ResumeError::Ended(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_different_second_result_is_refused_before_the_run_receives_the_first() {
    let store = failing_store();
    let orchestrator = builder(calling(&[("pick", "{}")]))
        .store(store.clone())
        .client_tool(spec("pick").read_only().build())
        .build()
        .unwrap();
    let run = run_to_end(&orchestrator, request("go")).await.result;
    let call = run.pending[0].tool_call_id.clone();
    // Another process holds the run when the first result arrives.
    let busy = StoreError::SessionBusy {
        session: run.session_id.clone(),
        run: run.run_id,
    };
    let runs = orchestrator.runs();
    store.fail_next(StoreOperation::BeginRun, Fault::Refuse(busy));
    let supply = |value| runs.supply_result(run.run_id, &call, done(value), Duration::ZERO);
    supply("1").await.unwrap();
    let second = supply("2").await;
    assert!(matches!(second, Err(ResumeError::NotWaiting(of)) if of == call));
    supply("1").await.unwrap();
}

#[tokio::test]
async fn who_sends_a_result_is_on_record() {
    let orchestrator = orchestrator(calling(&[("pick", "{}")]));
    let run = run_to_end(&orchestrator, request("go")).await.result;
    let call = run.pending[0].tool_call_id.clone();
    let runs = orchestrator.runs().sent_by(Some("ada".to_owned()));
    runs.supply_result(run.run_id, &call, done("1"), Duration::ZERO)
        .await
        .unwrap();
    let result = runs.result(run.run_id).await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    let records = orchestrator.sessions().records(run.run_id).await.unwrap();
    let senders = records.iter().filter_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some(result.by.as_deref()),
        _ => None,
    });
    assert_eq!(senders.collect::<Vec<_>>(), [Some("ada")]);
}

#[tokio::test]
async fn a_run_waits_for_each_of_several_client_calls_answered_one_by_one() {
    let orchestrator = orchestrator(calling(&[("pick", r#"{"n":1}"#), ("pick", r#"{"n":2}"#)]));
    let first = run_to_end(&orchestrator, request("go")).await.result;
    let calls: Vec<_> = first
        .pending
        .iter()
        .map(|it| it.tool_call_id.clone())
        .collect();
    assert!(!calls.is_empty());
    let mut waiting = first;
    let mut brought = 0;
    while waiting.status == RunStatus::Waiting {
        let call = &waiting.pending[0].tool_call_id;
        let handle = orchestrator
            .runs()
            .resume(waiting.run_id, vec![answer(call, done("1"))])
            .await;
        waiting = handle.unwrap().result().await.unwrap();
        brought += 1;
    }
    assert_eq!((brought, waiting.reply.as_str()), (2, "Chosen."));
}

#[tokio::test]
async fn a_failure_at_the_client_is_reported_to_the_model() {
    let orchestrator = orchestrator(calling(&[("pick", "{}")]));
    let run = run_to_end(&orchestrator, request("go")).await.result;
    let failed = ToolOutcome::failed(ToolFailure::Error, "the user closed the window");
    let answers = vec![answer(&run.pending[0].tool_call_id, failed)];
    let handle = orchestrator
        .runs()
        .resume(run.run_id, answers)
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    let told = handle.records().iter().any(|record| {
        matches!(&record.body,
        RecordBody::ToolResult(result) if result.value.as_str().contains("closed the window"))
    });
    assert!(told);
}

#[tokio::test(start_paused = true)]
async fn a_busy_run_accepts_a_client_result_through_its_handle() {
    let look = ScriptedTool::always(
        spec("look").read_only(),
        Act::value("1").after(Duration::from_secs(9)),
    );
    let orchestrator = builder(calling(&[("pick", "{}"), ("look", "{}")]))
        .client_tool(spec("pick").read_only().build())
        .tool(Arc::new(look))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let call = handle
        .records()
        .iter()
        .find_map(|record| match &record.body {
            RecordBody::ToolCall(call) if &*call.name == "pick" => Some(call.tool_call_id.clone()),
            _ => None,
        });
    let wrong = handle.supply_result(&ToolCallId::from_text("x"), done("1"), Duration::ZERO);
    assert!(matches!(wrong, Err(AnswerError::NotWaiting(_))));
    let at_work = orchestrator
        .runs()
        .resume(handle.run_id(), Vec::new())
        .await;
    assert!(
        matches!(at_work, Err(ResumeError::AtWork(_))),
        "{at_work:?}"
    );
    handle
        .supply_result(&call.unwrap(), done("\"red\""), Duration::from_secs(1))
        .unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "Chosen.")
    );
}

#[tokio::test]
async fn a_client_call_that_starts_in_the_step_of_an_answer_is_listed_as_pending() {
    let model = ScriptedModel::new()
        .then(reply::calls([("write", "{}"), ("pick", "{}")]))
        .then(reply::text("Chosen."));
    let later =
        neuraxis_testkit::ScriptedApprover::new().then(neuraxis_ports::ApproverReply::Later);
    let orchestrator = builder(model)
        .client_tool(spec("pick").read_only().build())
        .tool(Arc::new(ScriptedTool::echoing(spec("write"))))
        .approver(Arc::new(later))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let records = finished.records();
    let asked = records.iter().find_map(|record| match &record.body {
        RecordBody::ApprovalRequested(asked) => Some(asked.clone()),
        _ => None,
    });
    let asked = asked.unwrap();
    let expired = Answer::Approval(neuraxis_core::ApprovalDecided {
        id: neuraxis_core::InputId::new("expired"),
        tool_call_id: asked.tool_call_id,
        arguments_hash: asked.arguments_hash,
        decision: neuraxis_core::ApprovalDecision::Expired,
        by: None,
        code: None,
        given_before: None,
    });
    let handle = orchestrator
        .runs()
        .resume(finished.result.run_id, vec![expired])
        .await
        .unwrap();
    let result = handle.result().await.unwrap();
    let kinds: Vec<_> = result.pending.iter().map(|pending| pending.kind).collect();
    assert_eq!(kinds, [PendingKind::ClientTool]);
}
