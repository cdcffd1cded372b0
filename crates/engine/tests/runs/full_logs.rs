//! A run whose log has reached the maximum length.

use std::sync::Arc;

use neuraxis_core::{BudgetKind, FinishReason, RecordBody, RunStatus, Seq};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunBounds, RunLog as _};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, request, run_to_end};

fn bounded(max_records: u64) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new().bounded(RunBounds {
        max_records,
        ..RunBounds::default()
    }))
}

#[tokio::test]
async fn a_full_log_ends_the_run_with_a_reason_and_loses_no_record() {
    for max_records in 12..32 {
        let store = bounded(max_records);
        let model = (0..20).fold(ScriptedModel::new(), |model, turn| {
            let what = format!("{{\"n\":{turn}}}");
            let calls = [("look", what.as_str()), ("note", what.as_str())];
            model.then(reply::text_and_calls("I look.", calls))
        });
        let orchestrator = builder(model)
            .store(store.clone())
            .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
            .tool(Arc::new(ScriptedTool::echoing(spec("note").idempotent())))
            .build()
            .unwrap();
        let finished = run_to_end(&orchestrator, request("go")).await;
        finished.assert_valid(RunStatus::Done);
        let full = FinishReason::Budget(BudgetKind::Log);
        assert_eq!(finished.result.finish_reason, Some(full), "{max_records}");
        assert!(!finished.result.reply.is_empty(), "{max_records}");
        let kept = store.records(finished.result.run_id, Seq(0)).await.unwrap();
        assert_eq!(kept, finished.records(), "{max_records}");
        assert!(kept.len() as u64 >= max_records);
        neuraxis_engine::replay(&neuraxis_core::Transcript::default(), &kept).unwrap();
        let history = crate::support::history(store.as_ref()).await;
        neuraxis_testkit::assert_paired(history.messages());
        // The session is free.
        assert!(orchestrator.stream(request("more")).await.is_ok());
    }
}

#[tokio::test]
async fn an_abandoned_run_with_a_full_log_ends_when_it_is_resumed() {
    let store = bounded(6);
    let model = || ScriptedModel::always(neuraxis_testkit::Script::hanging());
    let first = builder(model()).store(store.clone()).build().unwrap();
    let (handle, _) = first.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    // Each resumption is recorded, until there is no room for another.
    for _ in 0..20 {
        let next = builder(model())
            .store(store.clone())
            .ids(Arc::new(neuraxis_engine::UuidV7))
            .build()
            .unwrap();
        let taken_up = next.runs().resume(run, Vec::new()).await.unwrap();
        if taken_up.records().last().unwrap().ends_the_run() {
            let result = taken_up.result().await.unwrap();
            let full = FinishReason::Budget(BudgetKind::Log);
            assert_eq!(result.finish_reason, Some(full));
            return;
        }
        // Suspended properly, so that it does not count as a failure.
        next.suspend(std::time::Duration::ZERO).await;
    }
    panic!("the log is not bounded");
}

#[tokio::test]
async fn a_long_log_causes_one_warning() {
    let text = "x".repeat(1024 * 1024);
    let mut model = ScriptedModel::new();
    for number in 0..12 {
        let arguments = format!("{{\"n\":{number}}}");
        model = model.then(reply::text_and_calls(&text, [("look", arguments.as_str())]));
    }
    let orchestrator = builder(model.then(reply::text("ok")))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let warned = finished.records().into_iter().filter(
        |record| matches!(&record.body, RecordBody::Warning(warning) if warning.code == "long_log"),
    );
    assert_eq!(warned.count(), 1);
    assert_eq!(
        finished.result.status,
        RunStatus::Done,
        "{:?}",
        finished.result.finish_reason
    );
}
