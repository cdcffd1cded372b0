//! A run that is cancelled at each of its records: it ends immediately and is complete.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{EffectId, FinishReason, Message, Mode, Seq, Transcript};
use neuraxis_engine::{Event, OrchestratorBuilder, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionIndex as _, Tool as _};
use neuraxis_testkit::{
    Act, Aftermath, Script, ScriptedApprover, ScriptedModel, ScriptedModelHook, ScriptedTool,
    ScriptedToolHook, assert_paired, reply, spec,
};
use tokio::time::Instant;

use crate::support::{builder, session};

fn model() -> ScriptedModel {
    let slowly = |reply| Script::from(reply).after(Duration::from_secs(3));
    ScriptedModel::new()
        .then(slowly(reply::text_and_calls(
            "First.",
            [("look", "{}"), ("note", "{}"), ("pay", "{}")],
        )))
        .then(slowly(reply::text_and_calls(
            "Second.",
            [("pay", "{\"n\":2}")],
        )))
        .then(slowly(reply::text("Done.")))
}

fn tools() -> Vec<Arc<ScriptedTool>> {
    let slow = || Act::value("1").after(Duration::from_secs(5));
    let tools = [
        ScriptedTool::always(spec("look").read_only(), slow()),
        ScriptedTool::always(spec("note").idempotent(), slow()),
        ScriptedTool::always(spec("pay"), slow()),
    ];
    tools.into_iter().map(Arc::new).collect()
}

/// Cancels a run once it has shown this many records; returns how many it showed in the end.
async fn cancelled_after(records: usize) -> usize {
    let (store, tools) = (Arc::new(MemoryStore::new()), tools());
    let orchestrator = builder(model())
        .store(store.clone())
        .approver(Arc::new(ScriptedApprover::new().approve().approve()))
        .tools(tools.iter().map(|tool| tool.clone() as Arc<_>))
        .build()
        .unwrap();
    let request = UserRequest::new(session(), "go").mode(Mode::EXPLORATORY);
    let (handle, mut events) = orchestrator.stream(request).await.unwrap();
    let mut told = Vec::new();
    while told.len() < records
        && let Some(event) = events.next().await
    {
        if let Event::Record(record) = event {
            told.push(record.to_json());
        }
    }
    let began = Instant::now();
    // It may already have ended.
    let _ = handle.cancel("enough");
    handle.result().await.unwrap();
    assert!(began.elapsed() <= Duration::from_secs(2), "{records}");
    while let Some(event) = events.next().await {
        if let Event::Record(record) = event {
            told.push(record.to_json());
        }
    }
    let kept = store.records(handle.run_id(), Seq(0)).await.unwrap();
    let irreversible = tools.iter().filter(|tool| !tool.spec().class.may_rerun());
    let begun: Vec<EffectId> = irreversible
        .flat_map(|tool| tool.calls())
        .map(|call| call.context.effect_id)
        .collect();
    Aftermath::of(&kept)
        .received(&told)
        .effects(&begun)
        .assert_ended();
    assert_eq!(told.len(), kept.len());
    neuraxis_engine::replay(&Transcript::default(), &kept).unwrap();
    assert_paired(store.history(&session()).await.unwrap().messages());
    assert!(tools.iter().all(|tool| tool.open_calls() == 0), "{records}");
    told.len()
}

#[tokio::test(start_paused = true)]
async fn a_run_cancelled_at_any_record_ends_at_once_with_a_complete_log() {
    let mut records = 1;
    // After its end there is nothing to cancel.
    while cancelled_after(records).await > records {
        records += 1;
    }
    assert!(records > 15, "{records}");
}

/// Cancels a run while its tool prints or its model talks; returns everything that is kept of it.
async fn kept_of_what_is_cut_off(program: OrchestratorBuilder) -> String {
    let store = Arc::new(MemoryStore::new());
    let prints = Act::value("1").printing("a secret");
    let prints = prints.after(Duration::from_secs(9));
    let orchestrator = program
        .store(store.clone())
        .tool(Arc::new(ScriptedTool::always(
            spec("look").read_only(),
            prints,
        )))
        .build()
        .unwrap();
    let request = UserRequest::new(session(), "go").mode(Mode::EXPLORATORY);
    let (handle, _events) = orchestrator.stream(request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    handle.cancel("enough").unwrap();
    handle.result().await.unwrap();
    let kept = store.records(handle.run_id(), Seq(0)).await.unwrap();
    kept.iter().map(|record| record.to_json()).collect()
}

#[tokio::test(start_paused = true)]
async fn partial_output_not_yet_seen_by_a_hook_is_not_stored() {
    let calls = || builder(ScriptedModel::new().then(reply::calls([("look", "{}")])));
    let talks = || {
        let talks = Script::from(reply::text("a secret, and more of it")).split(8);
        builder(ScriptedModel::new().then(talks.paced(Duration::from_secs(1)).hang_at(2)))
    };
    let of_tools = || Arc::new(ScriptedToolHook::new());
    let of_models = || Arc::new(ScriptedModelHook::new());
    for (program, is_kept) in [
        (calls(), true),
        (calls().model_hook(of_models()), true),
        (calls().tool_hook(of_tools()), false),
        (talks(), true),
        (talks().tool_hook(of_tools()), true),
        (talks().model_hook(of_models()), false),
    ] {
        let kept = kept_of_what_is_cut_off(program).await;
        assert_eq!(kept.contains("a secret"), is_kept, "{kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_with_a_full_input_queue_can_still_be_cancelled_or_dropped() {
    let slow = Script::from(reply::text("Done.")).after(Duration::from_secs(900));
    let orchestrator = builder(ScriptedModel::always(slow)).build().unwrap();
    let began = Instant::now();
    let request = UserRequest::new(session(), "go");
    let (handle, _) = orchestrator.stream(request).await.unwrap();
    // No input is taken in the meantime: the run has no thread of its own.
    let mut sent = 0;
    while handle.steer("more").is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 64);
    handle.cancel("enough").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.finish_reason, Some(FinishReason::Cancelled));

    let agent = orchestrator.agent();
    let messages = vec![Message::user("go")];
    let (run, mut events) = agent.stream(messages, None).await.unwrap();
    while run.steer("more").is_ok() {}
    drop(run);
    while events.next().await.is_some() {}
    assert!(began.elapsed() <= Duration::from_secs(2));
}
