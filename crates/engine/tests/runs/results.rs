//! What a caller gets from a run: its text as it arrives, its answer or why there is none, its cost, and access to it
//! by its id.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    AgentId, ApprovalDecision, CountLabel, FinishReason, LiveBody, LlmError, LlmErrorKind,
    MicroUsd, Mode, Role, RunId, RunStatus, Seq,
};
use neuraxis_engine::{
    Agent, DecideLater, Event, NoAnswer, Orchestrator, ResumeError, StepType, UuidV7,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::StoreError;
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::json;

use crate::support::{builder, helper, policy, request, run_to_end};

const PRICE: &str = "prices.'testkit/*' = { prompt = 1.0, completion = 2.0 }\n";

async fn said(orchestrator: &Orchestrator) -> Vec<String> {
    let (_, events) = orchestrator.stream(request("go")).await.unwrap();
    let mut words = events.text_stream();
    let mut said = Vec::new();
    while let Some(piece) = words.next().await {
        said.push(piece);
    }
    said
}

fn slow(text: &str) -> Script {
    let script = Script::from(reply::text(text)).split(5);
    script.paced(Duration::from_millis(50))
}

fn researcher() -> Agent {
    helper("research", &[]).build().unwrap()
}

fn with_researcher() -> Orchestrator {
    let root = ScriptedModel::new()
        .then(reply::text_and_calls(
            "I look it up.",
            [("research", r#"{"task":"tides"}"#)],
        ))
        .then(slow("The moon."));
    let below = ScriptedModel::always(slow("Moons make tides."));
    let builder = builder(root).model(Role::CODING, Arc::new(below));
    builder.agent_tool(researcher()).build().unwrap()
}

/// A model that calls a tool that needs approval.
fn paying(store: &Arc<MemoryStore>) -> Orchestrator {
    let model = ScriptedModel::new()
        .then(reply::calls([("pay", r#"{"n":1}"#)]))
        .then(slow("Paid."));
    builder(model)
        .tool(Arc::new(ScriptedTool::echoing(spec("pay"))))
        .store(store.clone())
        .ids(Arc::new(UuidV7))
        .approver(Arc::new(DecideLater))
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_text_stream_has_only_the_root_agent_s_text_with_a_blank_line_between_calls() {
    let said = said(&with_researcher()).await;
    assert!(said.len() > 2, "{said:?}");
    assert_eq!(said.concat(), "I look it up.\n\nThe moon.");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_text_restarts_after_a_blank_line() {
    let lost = LlmError::new(LlmErrorKind::Connection, "gone");
    let model = ScriptedModel::new()
        .then(slow("Half of it").fail_at(1, lost))
        .then(slow("All of it."));
    let said = said(&builder(model).build().unwrap()).await.concat();
    assert!(said.ends_with("\n\nAll of it."), "{said:?}");
    assert!(said.starts_with("Half"), "{said:?}");
}

#[tokio::test]
async fn without_streaming_the_text_stream_is_the_whole_answer() {
    let model = ScriptedModel::always(reply::text("42"));
    let orchestrator = builder(model).build().unwrap();
    let result = orchestrator.handle(request("go")).await.unwrap();
    let runs = orchestrator.runs();
    let stored = runs.attach(result.run_id, Seq(0)).await.unwrap();
    let mut words = stored.text_stream();
    assert_eq!(words.next().await.as_deref(), Some("42"));
    assert_eq!(words.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn text_of_a_sub_agent_is_streamed_under_its_own_id() {
    let finished = run_to_end(&with_researcher(), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let text_of = |agent: u32| -> String {
        let live = finished.events.iter().filter_map(|event| match event {
            Event::Live(live) if live.agent == AgentId(agent) => Some(&live.body),
            _ => None,
        });
        let texts = live.filter_map(|body| match body {
            LiveBody::TextDelta { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    };
    assert_eq!(text_of(1), "Moons make tides.");
    assert_eq!(text_of(0), "I look it up.The moon.");
}

#[tokio::test(start_paused = true)]
async fn the_step_that_started_a_sub_agent_reports_its_outcome() {
    let result = with_researcher().handle(request("go")).await.unwrap();
    let mut steps = result.steps.iter();
    let step = steps.find(|step| step.kind == StepType::ToolCall).unwrap();
    let agents = step.metadata.get("agents").unwrap();
    assert_eq!(agents[0]["agent"], "a1");
    assert_eq!(agents[0]["status"], "done");
    assert_eq!(agents[0]["finish_reason"], "stop");
    assert_eq!(agents[0]["turns"], 1);
    assert!(agents[0]["usage"].is_object());
    assert_eq!(agents[1], json!(null));
}

#[tokio::test(start_paused = true)]
async fn tool_metadata_of_a_sub_agent_joins_the_step_that_started_it() {
    let mut output = neuraxis_core::ToolOutput::new(neuraxis_core::JsonText::from_text("1"));
    output.metadata = Some(neuraxis_core::JsonText::from_text(r#"{"pages":3}"#));
    let look = ScriptedTool::always(spec("look").read_only(), Act::output(output));
    let below = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("Three pages."));
    let reader = crate::support::helper("reader", &["look"]).build().unwrap();
    let lead = ScriptedModel::new()
        .then(reply::calls([("reader", r#"{"task":"read"}"#)]))
        .then(reply::text("Done."));
    let orchestrator = builder(lead)
        .model(Role::CODING, Arc::new(below))
        .tool(Arc::new(look))
        .agent_tool(reader)
        .build()
        .unwrap();
    let result = orchestrator.handle(request("go")).await.unwrap();
    let calls = result
        .steps
        .iter()
        .filter(|step| step.kind == StepType::ToolCall);
    let said: Vec<_> = calls.map(|step| step.metadata.to_map()).collect();
    let read = json!({"pages": 3});
    assert_eq!(said[0]["agents"][0]["tool_metadata"][0]["metadata"], read);
    assert_eq!(
        said[0]["agents"][0]["tool_metadata"][0]["tool_name"],
        "look"
    );
    assert_eq!(said[1]["tool_metadata"], read);
}

#[tokio::test(start_paused = true)]
async fn after_a_decision_the_run_can_be_followed_to_its_result() {
    let store = Arc::new(MemoryStore::new());
    let orchestrator = paying(&store);
    let asked = request("go").mode(Mode::MODERATE);
    let result = orchestrator.handle(asked).await.unwrap();
    assert_eq!(result.status, RunStatus::Waiting);
    let run = result.run_id;
    // No answer has been given: every caller gets this result so far.
    let other = paying(&store);
    for orchestrator in [&orchestrator, &other] {
        let waiting = orchestrator.runs().result(run).await.unwrap();
        assert_eq!(
            (waiting.status, waiting.pending.len()),
            (RunStatus::Waiting, 1)
        );
        let error = waiting.into_result().unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the run is waiting for one answer"),
            "{error}"
        );
    }

    let waiting = orchestrator.approvals().list().await.unwrap().remove(0);
    let json = serde_json::to_value(&waiting).unwrap();
    assert_eq!(json["request"]["name"], "pay");
    let asked = &waiting.request;
    let approvals = orchestrator.approvals();
    let decided = approvals.decide(
        run,
        &asked.tool_call_id,
        asked.arguments_hash,
        ApprovalDecision::APPROVE,
        None,
    );
    let last = decided.await.unwrap();
    let mut rest = orchestrator.runs().attach(run, last).await.unwrap();
    let Some(Event::Record(first)) = rest.next().await else {
        panic!("a record comes first");
    };
    assert_eq!(first.seq, last.next());
    // In this process and in another one.
    let (here, there) = (orchestrator.runs(), other.runs());
    let (here, there) = tokio::join!(here.result(run), there.result(run));
    assert_eq!(here.unwrap().into_result().unwrap().reply, "Paid.");
    assert_eq!(there.unwrap().reply, "Paid.");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_result_can_be_cancelled_and_ends_at_shutdown() {
    let store = Arc::new(MemoryStore::new());
    let model =
        ScriptedModel::always(Script::from(reply::text("42")).after(Duration::from_secs(9)));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    let runs = orchestrator.runs();
    let given_up = tokio::time::timeout(Duration::from_secs(1), runs.result(run)).await;
    assert!(given_up.is_err());
    // The run is not affected.
    assert_eq!(runs.result(run).await.unwrap().reply, "42");

    let unknown = runs.result(RunId(uuid::Uuid::nil())).await;
    let unknown = matches!(unknown, Err(ResumeError::Store(StoreError::NoSuchRun(_))));
    assert!(unknown);
    let other = builder(ScriptedModel::new()).store(store).build().unwrap();
    let (left, _) = orchestrator.stream(request("again")).await.unwrap();
    orchestrator.suspend(Duration::ZERO).await;
    let waiting = tokio::spawn(async move {
        let runs = other.runs();
        let result = runs.result(left.run_id());
        let shut = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            other.shutdown().await;
        };
        tokio::join!(result, shut).0
    });
    let ended = waiting.await.unwrap();
    assert!(matches!(ended, Err(ResumeError::ShuttingDown)), "{ended:?}");
}

#[tokio::test]
async fn a_run_without_an_answer_converts_to_an_error() {
    let refused = || LlmError::new(LlmErrorKind::Unauthorized, "no such key");
    let failing = || builder(ScriptedModel::always(refused()));
    let result = failing().build().unwrap().handle(request("go")).await;
    let error = result.unwrap().into_result().unwrap_err();
    assert!(matches!(
        &error,
        NoAnswer::Failed {
            finish_reason: FinishReason::Failed(_),
            ..
        }
    ));
    assert!(error.to_string().contains("check the key"), "{error}");
    assert_eq!(serde_json::to_value(&error).unwrap()["status"], "failed");

    let agent = failing().build_agent().unwrap();
    let done = agent.execute("", "go").await.unwrap();
    assert_eq!(
        done.into_result().unwrap_err().to_string(),
        error.to_string()
    );

    let model = ScriptedModel::always(reply::text("42"));
    let result = builder(model).build().unwrap().handle(request("go")).await;
    assert_eq!(result.unwrap().into_result().unwrap().reply, "42");
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_run_includes_its_sub_agents_and_is_unknown_without_a_price() {
    let used = |text: &str| reply::using(reply::text(text), 1_000, 500);
    let calls = || reply::using(reply::calls([("research", r#"{"task":"x"}"#)]), 1_000, 500);
    let model = || ScriptedModel::new().then(calls()).then(used("All read."));
    let below = || Arc::new(ScriptedModel::always(used("Read.")));
    let with = |prices: &str| {
        let builder = builder(model()).policy(policy(prices));
        let builder = builder
            .model(Role::CODING, below())
            .agent_tool(researcher());
        builder.build().unwrap()
    };
    let priced = with(PRICE).handle(request("go")).await.unwrap();
    // Three calls of 1,000 tokens at $1 and 500 tokens at $2 per million.
    assert_eq!(priced.cost, Some(MicroUsd(6_000)));
    let json = serde_json::to_value(&priced).unwrap();
    assert_eq!(json["cost_micro_usd"], 6_000);
    assert_eq!(json["cost_label"], "measured");

    let unpriced = with("").handle(request("go")).await.unwrap();
    assert_eq!(unpriced.cost, None);
    assert_eq!(unpriced.cost_label, CountLabel::Unknown);
    let agent = builder(model())
        .policy(policy(PRICE))
        .model(Role::CODING, below());
    let agent = agent.agent_tool(researcher()).build_agent().unwrap();
    assert_eq!(
        agent.execute("", "go").await.unwrap().cost,
        Some(MicroUsd(6_000))
    );
}
