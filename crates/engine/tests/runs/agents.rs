//! Sub-agents, from the call that starts them to the answer that their parent reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use neuraxis_core::{
    AgentId, ContentIndex, LiveBody, LlmError, LlmErrorKind, Mode, ModelRef, ModelRequest, Purpose,
    RecordBody, Reply, Role, RunStatus, ToolFailure,
};
use neuraxis_engine::{Agent, AgentBuilder, Event, Orchestrator, OrchestratorBuilder};
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, async_trait};
use neuraxis_testkit::{Act, Script, ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{FinishedRun, builder, helper, request, run_to_end};

const TOPICS: &str = r#"{"topics":["one","two","three"]}"#;

fn researcher(tools: &[&str]) -> AgentBuilder {
    helper("research", tools)
        .instructions("You research one topic.")
        .fan_out("topics")
}

fn research() -> Agent {
    researcher(&[]).build().unwrap()
}

/// A root agent that calls `research` and then answers, with agents that answer from a script.
fn with_agents(arguments: &str, agents: &Arc<ScriptedModel>) -> OrchestratorBuilder {
    let root = ScriptedModel::new()
        .then(reply::calls([("research", arguments)]))
        .then(reply::text("All read."));
    builder(root).model(Role::CODING, agents.clone())
}

/// The task that an agent was given.
fn task(request: &ModelRequest) -> String {
    request.messages.messages()[1].text()
}

/// Answers its task; later tasks are answered sooner.
fn answering() -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::answering(|request| {
        let task = task(request);
        let wait = match task.as_str() {
            "one" => 30,
            "two" => 20,
            _ => 10,
        };
        let answer = Script::from(reply::text(format!("about {task}"))).split(3);
        answer.after(Duration::from_secs(wait))
    }))
}

fn of_agent(finished: &FinishedRun, agent: u32) -> Vec<&'static str> {
    let records = finished.records().into_iter();
    let own = records.filter(|record| record.agent == AgentId(agent));
    own.map(|record| record.body.kind()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_starts_one_sub_agent_per_item_and_keeps_answers_in_order() {
    let agents = answering();
    let orchestrator = with_agents(TOPICS, &agents).agent_tool(research()).build();
    let finished = run_to_end(&orchestrator.unwrap(), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(
        finished.results()[0].value.as_str(),
        r#"["about one","about two","about three"]"#
    );
    assert_eq!(agents.most_open_calls(), 3);
    let prompts = agents.requests();
    assert!(
        prompts
            .iter()
            .all(|request| request.messages.messages()[0].text() == "You research one topic.")
    );
    // The third agent was the first to end.
    let records = finished.records();
    let ends = records
        .iter()
        .filter(|record| record.agent != AgentId::ROOT);
    let ends = ends.filter(|record| record.body.kind() == "final");
    let order: Vec<_> = ends.map(|record| record.agent.0).collect();
    assert_eq!(order, [3, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_sub_agents_are_limited_by_their_parent_s_profile() {
    let agents = answering();
    let lead = helper("lead", &[])
        .role(Role::ROUTER)
        .parallel_agents(1)
        .agent(research())
        .build()
        .unwrap();
    let root = ScriptedModel::new()
        .then(reply::calls([("lead", r#"{"task":"all of it"}"#)]))
        .then(reply::text("done"));
    let middle = ScriptedModel::new()
        .then(reply::calls([("research", TOPICS)]))
        .then(reply::text("read it all"));
    let orchestrator = builder(root)
        .model(Role::ROUTER, Arc::new(middle))
        .model(Role::CODING, agents.clone())
        .agent_tool(lead)
        .build()
        .unwrap();
    let before = tokio::time::Instant::now();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!((agents.calls().len(), agents.most_open_calls()), (3, 1));
    assert_eq!(before.elapsed(), Duration::from_secs(30 + 20 + 10));
    assert_eq!(
        finished.results().last().unwrap().value.as_str(),
        "\"read it all\""
    );
}

#[tokio::test]
async fn a_sub_agent_can_call_only_its_own_tools() {
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let peek = Arc::new(ScriptedTool::echoing(spec("peek").read_only()));
    let agents = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("peek", "{}"), ("look", r#"{"at":"it"}"#)]))
            .then(reply::text("seen")),
    );
    let orchestrator = with_agents(r#"{"topics":["one"]}"#, &agents)
        .tools([look.clone() as Arc<_>, peek.clone() as Arc<_>])
        .agent_tool(researcher(&["look"]).build().unwrap())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!((look.count(), peek.count()), (1, 0));
    let of_peek = finished
        .results()
        .into_iter()
        .find(|result| &*result.name == "peek")
        .unwrap();
    assert_eq!(of_peek.failure, Some(ToolFailure::UnknownTool));
    let told = of_peek.value.as_str();
    assert!(
        told.contains("look") && !told.contains("research"),
        "{told}"
    );
    let offered: Vec<_> = agents.requests()[0]
        .tools
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(offered, ["look", "read_output"]);
    assert_eq!(look.calls()[0].context.turn.agent, AgentId(1));
}

#[test]
fn an_agent_with_a_missing_tool_is_refused() {
    let agent = researcher(&["gone"]).build().unwrap();
    let error = builder(ScriptedModel::new())
        .agent_tool(agent)
        .build()
        .unwrap_err();
    let told = "agents.research.tools: \"gone\" matches no tool";
    assert!(error.to_string().starts_with(told), "{error}");
}

#[test]
fn every_setting_that_names_a_missing_tool_is_refused() {
    let tool = |name: &str| name.parse::<neuraxis_core::ToolName>().unwrap();
    let gather = neuraxis_core::Opening::Gather {
        role: Role::ROUTER,
        tool: tool("lok"),
        default_arguments: neuraxis_core::JsonText::from_text("{}"),
    };
    let named = || neuraxis_core::ToolChoice::Named(tool("lok"));
    let mut rule = neuraxis_core::ResultRule::new(tool("look"));
    rule.then = Some(named());
    let agent = || Agent::builder("reader");
    for (agent, key) in [
        (agent().stop_after("lok"), "stop_after"),
        (
            agent().results(neuraxis_core::ResultRule::new(tool("lok"))),
            "results.lok",
        ),
        (agent().results(rule), "results.look.then.named"),
        (agent().tool_choice(named()), "tool_choice.named"),
        (agent().opening(gather), "opening.gather.tool"),
        (agent().tools_named(["lok"]), "tools"),
    ] {
        let look = ScriptedTool::echoing(spec("look").read_only());
        let builder = builder(ScriptedModel::new()).tool(Arc::new(look));
        let error = builder.agent(agent.build().unwrap()).build().unwrap_err();
        let told = format!("agents.reader.{key}: \"lok\" matches no tool (did you mean look?)");
        assert!(error.to_string().starts_with(&told), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_s_limits_are_no_looser_than_the_request_s() {
    let agent = researcher(&[])
        .max_turns(50)
        .max_tool_calls(3)
        .deadline(Duration::from_secs(36_000));
    let orchestrator = with_agents(TOPICS, &answering())
        .agent_tool(agent.build().unwrap())
        .tool_call_limit(4)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::CONSERVATIVE)).await;
    let records = finished.records();
    let RecordBody::RunStarted(started) = &records[0].body else {
        panic!("{records:?}")
    };
    let limits = started.spec.agents.values().next().unwrap().limits;
    assert_eq!(
        (limits.max_turns, limits.max_tool_calls),
        (Some(3), Some(3))
    );
    assert_eq!(limits.deadline, Some(Duration::from_secs(60)));
    assert_eq!(started.spec.root.limits.max_tool_calls, Some(4));
}

/// Three running agents, each in a call that prints immediately and takes a second.
fn printing_agents() -> Orchestrator {
    let look = ScriptedTool::answering(spec("look").read_only(), |arguments| {
        Act::value("1")
            .printing(arguments.as_str())
            .after(Duration::from_secs(1))
    });
    let agents = Arc::new(ScriptedModel::answering(|request| {
        if request.messages.len() == 2 {
            let arguments = format!("{{\"at\":\"{}\"}}", task(request));
            reply::calls([("look", arguments.as_str())])
        } else {
            reply::text("seen")
        }
    }));
    with_agents(TOPICS, &agents)
        .tool(Arc::new(look))
        .agent_tool(researcher(&["look"]).build().unwrap())
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_sub_agent_records_only_output_of_its_own_calls() {
    let orchestrator = printing_agents();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    handle.cancel_agent(AgentId(2), "enough").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    let records = handle.records();
    let cancelled = records.iter().find_map(|record| match &record.body {
        RecordBody::Cancelled(cancelled) => Some(cancelled),
        _ => None,
    });
    let printed = cancelled.unwrap().printed.iter();
    let printed: Vec<_> = printed.map(|output| output.text.as_str()).collect();
    assert_eq!(printed, [r#"{"at":"two"}"#]);
}

#[tokio::test(start_paused = true)]
async fn parallel_sub_agents_are_distinguished_by_content_index() {
    let orchestrator = printing_agents();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let mut owners: BTreeMap<ContentIndex, AgentId> = BTreeMap::new();
    let mut printed = BTreeMap::new();
    for event in &finished.events {
        let (index, agent) = match event {
            Event::Record(record) => (record.content_index, record.agent),
            Event::Live(live) => {
                if let LiveBody::ToolOutput { text, .. } = &live.body {
                    printed.insert(live.agent, text.clone());
                }
                (Some(live.content_index), live.agent)
            }
        };
        if let Some(index) = index {
            assert_eq!(*owners.entry(index).or_insert(agent), agent, "{event:?}");
        }
    }
    // For the root: call, batch, call. The same for each of the three agents.
    assert_eq!(owners.len(), 3 + 3 * 3, "{owners:?}");
    let printed: Vec<_> = printed
        .into_iter()
        .map(|(agent, text)| (agent.0, text))
        .collect();
    let expected = [(1, "one"), (2, "two"), (3, "three")];
    let expected = expected.map(|(agent, at)| (agent, format!("{{\"at\":\"{at}\"}}")));
    assert_eq!(printed, expected);
}

async fn started_agents(agents: &ScriptedModel) {
    while agents.open_calls() < 3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_steers_only_the_sub_agent_it_is_sent_to() {
    let agents = answering();
    let orchestrator = with_agents(TOPICS, &agents)
        .agent_tool(research())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    started_agents(&agents).await;
    handle.steer_agent(AgentId(2), "and its history").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    let steered: Vec<_> = agents
        .requests()
        .into_iter()
        .filter(|request| request.messages.len() > 2)
        .collect();
    assert_eq!(steered.len(), 1);
    assert_eq!(task(&steered[0]), "two");
    assert_eq!(
        steered[0].messages.messages().last().unwrap().text(),
        "and its history"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_sub_agent_does_not_stop_its_siblings_or_its_parent() {
    let agents = answering();
    let orchestrator = with_agents(TOPICS, &agents)
        .agent_tool(research())
        .build()
        .unwrap();
    let (handle, mut events) = orchestrator.stream(request("go")).await.unwrap();
    started_agents(&agents).await;
    handle.cancel_agent(AgentId(1), "not needed").unwrap();
    while events.next().await.is_some() {}
    let result = handle.result().await.unwrap();
    assert_eq!(
        (result.status, result.reply.as_str()),
        (RunStatus::Done, "All read.")
    );
    let records = handle.records();
    let value = records.iter().find_map(|record| match &record.body {
        RecordBody::ToolResult(result) => Some(result.value.as_str().to_owned()),
        _ => None,
    });
    let value = value.unwrap();
    assert!(
        value.starts_with(r#"[{"error":"#) && value.ends_with(r#","about two","about three"]"#),
        "{value}"
    );
}

/// A model that ignores cancellation, and fails after a while with a retryable error.
#[derive(Debug, Default)]
struct Deaf {
    attempts: AtomicU32,
}

impl Deaf {
    fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl LlmClient for Deaf {
    async fn respond(&self, _: &ModelRequest, _: &CallContext) -> Result<Reply, LlmError> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(5)).await;
        Err(LlmError::new(LlmErrorKind::Connection, "reset by peer"))
    }

    fn info(&self) -> ModelInfo {
        ModelInfo::new(ModelRef::new("test", "deaf"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_model_call_of_a_cancelled_sub_agent_is_not_retried() {
    let deaf = Arc::new(Deaf::default());
    let answer = Script::from(reply::text("All read.")).after(Duration::from_secs(30));
    let root = ScriptedModel::new()
        .then(reply::calls([("research", r#"{"topics":["one"]}"#)]))
        .then(answer);
    let orchestrator = builder(root)
        .model(Role::CODING, deaf.clone())
        .agent_tool(research())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    while deaf.attempts() == 0 {
        tokio::task::yield_now().await;
    }
    handle.cancel_agent(AgentId(1), "not needed").unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "All read.");
    assert_eq!(deaf.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_model_call_waiting_for_retry_is_dropped_when_its_sub_agent_is_cancelled() {
    let limited = LlmErrorKind::RateLimited {
        retry_after: Some(Duration::from_secs(4)),
    };
    let limited = Arc::new(ScriptedModel::always(LlmError::new(limited, "slow down")));
    let answer = Script::from(reply::text("All read.")).after(Duration::from_secs(60));
    let root = ScriptedModel::new()
        .then(reply::calls([("research", r#"{"topics":["one"]}"#)]))
        .then(answer);
    let orchestrator = builder(root)
        .model(Role::CODING, limited.clone())
        .agent_tool(research())
        .build()
        .unwrap();
    let (handle, mut events) = orchestrator.stream(request("go")).await.unwrap();
    while let Some(event) = events.next().await {
        if matches!(event, Event::Record(record) if record.body.kind() == "llm_failed") {
            break;
        }
    }
    handle.cancel_agent(AgentId(1), "not needed").unwrap();
    assert_eq!(handle.result().await.unwrap().reply, "All read.");
    assert_eq!(limited.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_run_cancels_its_sub_agents_and_their_model_calls() {
    let agents = Arc::new(ScriptedModel::always(Script::hanging()));
    let orchestrator = with_agents(TOPICS, &agents)
        .agent_tool(research())
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    started_agents(&agents).await;
    handle.cancel("enough").unwrap();
    assert_eq!(
        handle.result().await.unwrap().status,
        RunStatus::Interrupted
    );
    orchestrator.shutdown().await;
    assert_eq!(agents.open_calls(), 0);
}

#[tokio::test]
async fn a_sub_agent_s_call_is_approved_like_any_other() {
    let write = Arc::new(ScriptedTool::echoing(spec("write")));
    let agents = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("write", r#"{"n":1}"#)]))
            .then(reply::text("written")),
    );
    let approver = Arc::new(ScriptedApprover::new().approve_with(r#"{"n":2}"#));
    let orchestrator = with_agents(r#"{"topics":["one"]}"#, &agents)
        .tool(write.clone())
        .agent_tool(researcher(&["write"]).build().unwrap())
        .approver(approver.clone())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::MODERATE)).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(approver.asks()[0].agent, AgentId(1));
    assert_eq!(write.calls()[0].arguments.as_str(), r#"{"n":2}"#);
    assert!(of_agent(&finished, 1).contains(&"approval_decided"));
    assert_eq!(finished.result.reply, "All read.");
}

#[tokio::test]
async fn usage_of_sub_agents_adds_to_their_run() {
    let agents = Arc::new(ScriptedModel::always(reply::using(
        reply::text("read"),
        10,
        1,
    )));
    let root = ScriptedModel::new()
        .then(reply::using(reply::calls([("research", TOPICS)]), 100, 5))
        .then(reply::using(reply::text("done"), 200, 7));
    let orchestrator: Orchestrator = builder(root)
        .model(Role::CODING, agents)
        .agent_tool(research())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    let usage = &finished.result.usage;
    assert_eq!(usage.total.total.tokens, 105 + 207 + 3 * 11);
    assert_eq!(usage.roles[&Role::CODING].prompt.tokens, 30);
    let of_turns = finished.records().into_iter().filter(
        |record| matches!(&record.body, RecordBody::LlmCall(call) if call.purpose == Purpose::Turn),
    );
    assert_eq!(of_turns.count(), 5);
}
