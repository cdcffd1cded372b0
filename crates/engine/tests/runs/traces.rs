//! Trace records, as they are emitted and as they are collected.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::{Mode, Record, Role, RunId, RunStatus, TraceContext, Transcript};
use neuraxis_engine::{TraceEmitter, TraceRecord, TraceType, trace_records};
use neuraxis_ports::{ApproverReply, TraceSink};
use neuraxis_testkit::{ScriptedApprover, ScriptedModel, ScriptedTool, VirtualClock, reply, spec};

use crate::support::{builder, policy, request, run_to_end};

type Emitted = Arc<Mutex<Vec<(RunId, TraceRecord)>>>;

fn emitter() -> (Arc<dyn TraceSink>, Emitted) {
    let emitted = Emitted::default();
    let sink = {
        let emitted = Arc::clone(&emitted);
        TraceEmitter::new(move |run, trace| emitted.lock().unwrap().push((run, trace)))
    };
    (Arc::new(sink), emitted)
}

fn of_run(emitted: &Emitted, run: RunId) -> Vec<TraceRecord> {
    let emitted = emitted.lock().unwrap();
    let own = emitted.iter().filter(|(of, _)| *of == run);
    own.map(|(_, trace)| trace.clone()).collect()
}

#[tokio::test]
async fn emitted_and_collected_traces_are_the_same_across_a_session_s_runs() {
    let (sink, emitted) = emitter();
    let root = ScriptedModel::new()
        .then(reply::calls([("look", "{}"), ("ask", r#"{"task":"why"}"#)]))
        .then(reply::reasoned("Hm.", "one"))
        .then(reply::text("two"));
    let agent = crate::support::helper("ask", &[]).build().unwrap();
    let orchestrator = builder(root)
        .model(
            Role::CODING,
            Arc::new(ScriptedModel::always(reply::text("because"))),
        )
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .agent_tool(agent)
        .trace_sink(sink)
        .build()
        .unwrap();
    let first = run_to_end(&orchestrator, request("first")).await;
    first.assert_valid(RunStatus::Done);
    let traces = trace_records(&Transcript::default(), &first.records());
    assert_eq!(of_run(&emitted, first.result.run_id), traces);
    let of_agent = traces
        .iter()
        .find(|trace| trace.data["agent"] == "a1")
        .unwrap();
    assert_eq!(of_agent.kind, TraceType::LlmCall);
    assert_eq!(of_agent.data["messages"][0]["parts"][0]["text"], "why");

    let history = neuraxis_core::continued_history(&Transcript::default(), &first.records());
    let second = run_to_end(&orchestrator, request("second")).await;
    let traces = trace_records(&history, &second.records());
    assert_eq!(of_run(&emitted, second.result.run_id), traces);
    let sent = traces[0].data["messages"].as_array().unwrap().len();
    assert_eq!(
        sent,
        1 + history.len() + 1,
        "prompt, history and question stand whole"
    );
}

#[tokio::test]
async fn the_end_at_the_turn_limit_is_traced_as_a_pair() {
    let (sink, emitted) = emitter();
    let model = ScriptedModel::answering(|request| {
        if request.tool_choice == neuraxis_core::ToolChoice::None {
            reply::text("what I have")
        } else {
            reply::calls([("look", "{}")])
        }
    });
    let orchestrator = builder(model)
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .trace_sink(sink)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::CONSERVATIVE)).await;
    let traces = of_run(&emitted, finished.result.run_id);
    let kinds: Vec<_> = traces.iter().map(|trace| trace.kind).collect();
    let reached = kinds
        .iter()
        .position(|kind| *kind == TraceType::MaxTurnsReached)
        .unwrap();
    assert_eq!(
        kinds[reached..],
        [
            TraceType::MaxTurnsReached,
            TraceType::MaxTurnsPromptInjected,
            TraceType::LlmCall
        ]
    );
    assert_eq!(traces[reached].data["turns"], 3);
    assert_eq!(traces.last().unwrap().data["purpose"], "last_answer");
}

#[tokio::test]
async fn a_run_resumed_by_another_process_is_traced_with_its_whole_conversation() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("write", "{}")]))
            .then(reply::text("ok")),
    );
    let later = ScriptedApprover::new().then(ApproverReply::Later);
    let store = Arc::new(neuraxis_memory::MemoryStore::new());
    let process = |approver: ScriptedApprover, sink| {
        builder(model.clone())
            .store(store.clone())
            .tool(Arc::new(ScriptedTool::echoing(spec("write"))))
            .approver(Arc::new(approver))
            .trace_sink(sink)
            .build()
            .unwrap()
    };
    let (sink, before) = emitter();
    let waiting = run_to_end(&process(later, sink), request("go").mode(Mode::MODERATE)).await;
    let run = waiting.result.run_id;
    let (sink, after) = emitter();
    let other = process(ScriptedApprover::new().approve(), sink);
    let handle = other.runs().resume(run, Vec::new()).await.unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
    let mut emitted = of_run(&before, run);
    emitted.extend(of_run(&after, run));
    assert_eq!(
        emitted,
        trace_records(&Transcript::default(), &handle.records())
    );
    let last = emitted.last().unwrap();
    assert_eq!(last.data["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_contents_of_traces_are_stable() {
    let (sink, emitted) = emitter();
    let thoughtful = reply::text_and_calls(
        "Let me look.",
        [("look", r#"{"at":"sky"}"#), ("gone", "{}")],
    );
    let model = ScriptedModel::new()
        .then(reply::reasoned("A question of color.", "Hm."))
        .then(thoughtful)
        .then(reply::text("Blue."));
    let orchestrator = builder(model)
        .policy(policy("channels.chat.system_prompt = 'Be brief.'"))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .trace_sink(sink)
        .build()
        .unwrap();
    let first = run_to_end(&orchestrator, request("What about the sky?")).await;
    let second = run_to_end(&orchestrator, request("Look again.")).await;
    let runs = [first, second].map(|finished| of_run(&emitted, finished.result.run_id));
    insta::assert_json_snapshot!(runs);
}

#[tokio::test]
async fn a_trace_has_the_time_of_its_record_in_milliseconds() {
    let (sink, emitted) = emitter();
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Blue."));
    let orchestrator = builder(model)
        .clock(Arc::new(VirtualClock::ticking(Duration::from_millis(
            1_500,
        ))))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .trace_sink(sink)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let records = finished.records();
    let traced = ["llm_call", "tool_call", "tool_result"];
    let of_records = records
        .iter()
        .filter(|record| traced.contains(&record.body.kind()))
        .map(|record| record.at.as_millisecond());
    let traces = of_run(&emitted, finished.result.run_id);
    let of_traces: Vec<_> = traces.iter().map(|trace| trace.timestamp).collect();
    assert_eq!(of_traces, of_records.collect::<Vec<_>>());
    assert!(of_traces.is_sorted() && of_traces.first() < of_traces.last());
}

#[tokio::test]
async fn a_trace_of_a_model_call_has_the_whole_reply_and_its_reasoning() {
    let (sink, emitted) = emitter();
    let replied = reply::reasoned("A question of color.", "Blue.");
    let orchestrator = builder(ScriptedModel::new().then(replied.clone()))
        .trace_sink(sink)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("What color has the sky?")).await;
    let traces = of_run(&emitted, finished.result.run_id);
    let call = &traces[0];
    assert_eq!(call.kind, TraceType::LlmCall);
    assert_eq!(
        call.data["response"],
        serde_json::to_value(&replied).unwrap()
    );
    assert_eq!(call.data["reasoning_content"], "A question of color.");
    assert_eq!(traces[1].kind, TraceType::ReasoningContent);
    assert_eq!(traces[1].data["content"], "A question of color.");
}

/// A sink that records what it receives, in order.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl TraceSink for Told {
    fn resume(&self, _: RunId, _: &Transcript, records: &[Arc<Record>]) {
        let began = records.first().map(|record| record.body.kind());
        let note = format!("taken up from {}", began.unwrap_or("nothing"));
        self.0.lock().unwrap().push(note);
    }

    fn record(&self, record: &Arc<Record>) {
        self.0.lock().unwrap().push(record.body.kind().to_owned());
    }

    fn stored(&self, _: &[Arc<Record>], _: Duration) {
        self.0.lock().unwrap().push("kept".to_owned());
    }

    fn end(&self, _: RunId) {
        self.0.lock().unwrap().push("end".to_owned());
    }
}

#[tokio::test]
async fn a_run_closed_by_another_process_is_reported_to_sinks_from_its_start() {
    let store = Arc::new(neuraxis_memory::MemoryStore::new());
    let model = ScriptedModel::new().then(reply::calls([("write", "{}")]));
    let later = ScriptedApprover::new().then(ApproverReply::Later);
    let first = builder(model)
        .store(store.clone())
        .tool(Arc::new(ScriptedTool::echoing(spec("write"))))
        .approver(Arc::new(later))
        .build()
        .unwrap();
    let waiting = run_to_end(&first, request("go").mode(Mode::MODERATE)).await;
    let told = Arc::new(Told::default());
    let other = builder(ScriptedModel::new())
        .store(store)
        .trace_sink(told.clone())
        .build()
        .unwrap();
    let run = waiting.result.run_id;
    other.runs().close(run, "nobody wants it").await.unwrap();
    let told = told.0.lock().unwrap();
    assert_eq!(told[..2], ["taken up from run_started", "kept"]);
    assert_eq!(told[told.len() - 2..], ["final", "end"]);
}

/// A sink that always panics.
#[derive(Debug)]
struct Broken;

#[expect(clippy::panic, reason = "that is what it is for")]
impl TraceSink for Broken {
    fn begin(&self, _: RunId, _: &Transcript) {
        panic!("begin")
    }

    fn end(&self, _: RunId) {
        panic!("end")
    }

    fn record(&self, _: &Arc<Record>) {
        panic!("record")
    }

    fn stored(&self, _: &[Arc<Record>], _: Duration) {
        panic!("kept")
    }

    fn samples(&self, _: u128, _: Option<&TraceContext>) -> Option<bool> {
        panic!("samples")
    }
}

#[tokio::test]
async fn a_sink_that_panics_affects_neither_runs_nor_other_sinks() {
    let told = Arc::new(Told::default());
    let model = ScriptedModel::new()
        .then(reply::text("one"))
        .then(reply::text("two"));
    let orchestrator = builder(model)
        .trace_sink(Arc::new(Broken))
        .trace_sink(told.clone())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let expected = finished.kinds();
    let all = told.0.lock().unwrap().clone();
    let records = all.iter().filter(|it| *it != "kept" && *it != "end");
    assert_eq!(records.collect::<Vec<_>>(), expected);
    let alone = orchestrator.agent().execute(None, "go").await.unwrap();
    assert_eq!(alone.content, "two");
}

/// A sink that exports traces, or none.
#[derive(Debug)]
struct Exporter(bool);

impl TraceSink for Exporter {
    fn record(&self, _: &Arc<Record>) {}

    fn samples(&self, _: u128, parent: Option<&TraceContext>) -> Option<bool> {
        Some(parent.map_or(self.0, |parent| parent.sampled))
    }
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test]
async fn a_trace_supplied_with_a_request_is_kept_when_the_run_is_resumed() {
    let store = Arc::new(neuraxis_memory::MemoryStore::new());
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("write", "{}")]))
            .then(reply::text("ok")),
    );
    let tool = Arc::new(ScriptedTool::echoing(spec("write")));
    let process = |approver: ScriptedApprover| {
        builder(model.clone())
            .store(store.clone())
            .tool(tool.clone())
            .approver(Arc::new(approver))
            .build()
            .unwrap()
    };
    let parent: TraceContext = PARENT.parse().unwrap();
    let later = ScriptedApprover::new().then(ApproverReply::Later);
    let mut asked = request("go").mode(Mode::MODERATE);
    asked.trace = Some(parent.clone().with_state(Some("vendor=1".to_owned())));
    asked.idempotency_key = Some("once".parse().unwrap());
    let again = asked.clone();
    let waiting = run_to_end(&process(later), asked).await;
    let trace_id = parent.trace_id_hex();
    assert_eq!(waiting.result.trace_id, trace_id);
    let run = waiting.result.run_id;
    let other = process(ScriptedApprover::new().approve());
    let handle = other.runs().resume(run, Vec::new()).await.unwrap();
    assert_eq!(handle.result().await.unwrap().trace_id, trace_id);
    // Repeating the request returns the same trace, whichever trace the repetition belongs to.
    let mut again = again;
    again.trace = None;
    let repeated = run_to_end(&process(ScriptedApprover::new()), again).await;
    assert_eq!(repeated.result.run_id, run);
    assert_eq!(repeated.result.trace_id, trace_id);
}

#[tokio::test]
async fn a_standalone_agent_joins_the_trace_supplied_by_its_caller() {
    let parent: TraceContext = PARENT.parse().unwrap();
    let orchestrator = builder(ScriptedModel::new().then(reply::text("ok")))
        .build()
        .unwrap();
    let agent = orchestrator.agent().with_trace(parent.clone());
    let messages = vec![neuraxis_core::Message::user("go")];
    let (run, _events) = agent.stream(messages, None).await.unwrap();
    run.execution().await;
    let neuraxis_core::RecordBody::RunStarted(started) = &run.records()[0].body else {
        panic!("the run did not start");
    };
    assert_eq!(started.spec.trace.as_ref(), Some(&parent));
}

#[tokio::test]
async fn a_run_has_a_trace_context_only_if_a_sink_exports_traces() {
    for (exports, expected) in [
        (None, None),
        (Some(true), Some(true)),
        (Some(false), Some(false)),
    ] {
        let mut builder = builder(ScriptedModel::new().then(reply::text("ok")));
        if let Some(samples) = exports {
            builder = builder.trace_sink(Arc::new(Exporter(samples)));
        }
        let finished = run_to_end(&builder.build().unwrap(), request("go")).await;
        let records = finished.records();
        let neuraxis_core::RecordBody::RunStarted(started) = &records[0].body else {
            panic!("the run did not start");
        };
        let trace = started.spec.trace.clone();
        assert_eq!(trace.as_ref().map(|trace| trace.sampled), expected);
        let own = TraceContext::of_run(finished.result.run_id);
        assert_eq!(finished.result.trace_id, own.trace_id_hex());
    }
}
