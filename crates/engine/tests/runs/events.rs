//! The events that listeners receive.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{LiveBody, RunStatus, Transcript};
use neuraxis_engine::{Delivery, Event, Events};
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{FinishedRun, builder, policy, request, run_to_end, with_tools};

async fn text_of(mut events: Events) -> String {
    let mut text = String::new();
    while let Some(event) = events.next().await {
        if let Event::Live(live) = event
            && let LiveBody::TextDelta { text: more } = live.body
        {
            text.push_str(&more);
        }
    }
    text
}

fn scripts() -> ScriptedModel {
    let first = Script::from(reply::text_and_calls("Let me look. ", [("look", "{}")]))
        .split(3)
        .paced(Duration::from_millis(10));
    let second = Script::from(reply::text("All is well."))
        .split(2)
        .paced(Duration::from_millis(10));
    ScriptedModel::new().then(first).then(second)
}

fn look() -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::always(
        spec("look").read_only(),
        Act::value("1")
            .printing("peeking")
            .after(Duration::from_millis(10)),
    ))
}

#[tokio::test(start_paused = true)]
async fn every_listener_ends_with_the_same_text_whenever_it_attaches() {
    let orchestrator = with_tools(scripts(), vec![look()]);
    let (handle, early) = orchestrator.stream(request("go")).await.unwrap();
    let early = tokio::spawn(text_of(early));
    let midway = {
        let handle = handle.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(25)).await;
            text_of(handle.events()).await
        })
    };
    handle.result().await.unwrap();
    let late = text_of(handle.events()).await;
    let whole = "Let me look. All is well.";
    assert_eq!(
        (
            early.await.unwrap().as_str(),
            midway.await.unwrap().as_str(),
            late.as_str()
        ),
        (whole, whole, whole)
    );
}

#[tokio::test(start_paused = true)]
async fn live_events_arrive_between_the_records_they_belong_to() {
    let finished = run_to_end(&with_tools(scripts(), vec![look()]), request("go")).await;
    let mut last = 0;
    let mut kinds = Vec::new();
    for event in &finished.events {
        match event {
            Event::Record(record) => {
                assert_eq!(record.seq.0, last + 1);
                last = record.seq.0;
                kinds.push(record.body.kind());
            }
            Event::Live(live) => {
                assert_eq!(live.after.0, last);
                let value = serde_json::to_value(live).unwrap();
                let kind = value["type"].as_str().unwrap().to_owned();
                if kinds.last().copied() != Some(kind.as_str()) {
                    kinds.push(Box::leak(kind.into_boxed_str()));
                }
            }
        }
    }
    let expected = [
        "run_started",
        "decision",
        "text_delta",
        "tool_call_delta",
        "llm_call",
        "verdict",
        "tool_call",
        "tool_start",
        "tool_output",
        "tool_result",
        "text_delta",
        "llm_call",
        "final",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test(start_paused = true)]
async fn the_same_run_writes_the_same_records_whether_streamed_or_not() {
    let run = async |delivery| {
        let finished = run_to_end(
            &with_tools(scripts(), vec![look()]),
            request("go").delivery(delivery),
        )
        .await;
        finished.assert_valid(RunStatus::Done);
        let mut records: Vec<serde_json::Value> = finished
            .records()
            .iter()
            .map(|record| serde_json::to_value(record).unwrap())
            .collect();
        for record in &mut records {
            // Only durations may differ.
            let fields = record.as_object_mut().unwrap();
            for field in ["active_ms", "duration_ms", "first_delta_ms", "at"] {
                fields.remove(field);
            }
        }
        records
    };
    assert_eq!(run(Delivery::Streamed).await, run(Delivery::Whole).await);
}

#[tokio::test]
async fn a_recorded_run_is_restored_from_its_records_byte_for_byte() {
    let finished = run_to_end(&with_tools(scripts(), vec![look()]), request("go")).await;
    let lines: Vec<String> = finished
        .records()
        .iter()
        .map(|record| record.to_json())
        .collect();
    let read = lines
        .iter()
        .map(|line| Arc::new(neuraxis_core::Record::from_json(line).unwrap()));
    let read: Vec<_> = read.collect();
    let (run, open) =
        neuraxis_core::RunTree::restore(neuraxis_core::Transcript::default(), &read).unwrap();
    assert_eq!((run.status(), open.len()), (RunStatus::Done, 0));
    assert_eq!(
        read.iter()
            .map(|record| record.to_json())
            .collect::<Vec<_>>(),
        lines
    );
}

#[tokio::test]
async fn a_sink_receives_every_record_in_order() {
    let sink = Arc::new(neuraxis_testkit::RecordingSink::default());
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .trace_sink(sink.clone())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    assert_eq!(sink.kinds(), finished.kinds());
}

/// Returns what is shown of the model's text, with ‹void› where the whole text of a call becomes void, and the records
/// of calls.
fn shown(finished: &FinishedRun) -> Vec<String> {
    let events = finished.events.iter().filter_map(|event| match event {
        Event::Live(live) => match &live.body {
            LiveBody::TextDelta { text } => Some(text.clone()),
            LiveBody::TextRetracted => Some("‹void›".to_owned()),
            _ => None,
        },
        Event::Record(record) => {
            let kind = record.body.kind();
            let is_end = matches!(kind, "llm_call" | "final");
            is_end.then(|| format!("‹{kind}›"))
        }
    });
    events.collect()
}

fn paced(text: &str, size: usize) -> Script {
    Script::from(reply::text(text))
        .split(size)
        .paced(Duration::from_secs(4))
}

#[tokio::test(start_paused = true)]
async fn text_of_a_rejected_last_answer_is_retracted() {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(paced("<tool_call>{}</tool_call>", 12))
        .then(paced("All is well.", 12));
    let orchestrator = builder(model)
        .policy(policy("modes.exploratory.max_turns = 1\n"))
        .tool(look())
        .build()
        .unwrap();
    let (handle, events) = orchestrator.stream(request("go")).await.unwrap();
    let late = handle.clone();
    let events = futures_util::stream::unfold(events, |mut events| async {
        let event = events.next().await?;
        Some((event, events))
    });
    let events = futures_util::StreamExt::collect(events).await;
    let result = handle.result().await.unwrap();
    let shown = shown(&FinishedRun { events, result });
    let expected = [
        "‹llm_call›",
        "<tool_call>{",
        "}</tool_call",
        ">",
        "‹void›",
        "‹llm_call›",
        "All is well.",
        "‹llm_call›",
        "‹final›",
    ];
    assert_eq!(shown, expected);
    assert_eq!(text_of(late.events()).await, "All is well.");
}

#[tokio::test(start_paused = true)]
async fn text_of_a_call_cut_off_by_the_deadline_is_retracted() {
    let model = ScriptedModel::always(paced("The answer is forty-two.", 4));
    let orchestrator = builder(model)
        .policy(policy("modes.exploratory.deadline = '10s'\n"))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let shown = shown(&finished);
    let void = shown.iter().rposition(|it| it == "‹void›").unwrap();
    assert!(
        shown[..void].iter().any(|it| !it.starts_with('‹')),
        "{shown:?}"
    );
    assert_eq!(shown[void + 1..], ["‹final›"], "{shown:?}");
}

#[tokio::test(start_paused = true)]
async fn text_of_an_interrupted_answer_stays_in_the_conversation() {
    let model = ScriptedModel::new()
        .then(paced("The answer is forty-two.", 4))
        .then(reply::text("As I said."));
    let orchestrator = builder(model).build().unwrap();
    let (handle, mut events) = orchestrator.stream(request("go")).await.unwrap();
    let mut said = String::new();
    while said.len() < 8
        && let Some(event) = events.next().await
    {
        if let Event::Live(live) = event
            && let LiveBody::TextDelta { text } = live.body
        {
            said.push_str(&text);
        }
    }
    handle.cancel("the user wants it").unwrap();
    let mut rest = Vec::new();
    while let Some(event) = events.next().await {
        rest.push(event);
    }
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
    let finished = FinishedRun {
        events: rest,
        result: result.clone(),
    };
    let shown = shown(&finished);
    assert!(!shown.contains(&"‹void›".to_owned()), "{shown:?}");
    assert_eq!(shown.last().map(String::as_str), Some("‹final›"));
    let records = handle.records();
    let history = neuraxis_core::continued_history(&Transcript::default(), &records);
    let last = history.messages().last().unwrap().text();
    assert_eq!(last, format!("{}\n\n[interrupted]", said.trim_end()));
    neuraxis_engine::replay(&Transcript::default(), &records).unwrap();
}
