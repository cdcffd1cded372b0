//! Runs without sessions: `execute`, `execute_with_history` and `run`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{BudgetKind, FinishReason, Message, MicroUsd, Role, RunStatus, Transcript};
use neuraxis_engine::{
    Agent, Execution, Orchestrator, RequestError, TraceRecord, TraceType, trace_records,
};
use neuraxis_ports::{Clock, ToolRunner};
use neuraxis_testkit::{
    Act, Script, ScriptedModel, ScriptedRunner, ScriptedTool, assert_paired, messages, reply, spec,
};

use crate::support::policy;

fn agent(model: &Arc<ScriptedModel>, tools: Vec<ScriptedTool>) -> Agent {
    let tools = tools.into_iter().map(|tool| Arc::new(tool) as Arc<_>);
    Orchestrator::builder()
        .model(Role::REASONING, model.clone())
        .tools(tools)
        .build_agent()
        .unwrap()
}

fn two_turns() -> Arc<ScriptedModel> {
    let first = reply::calls([("look", r#"{"at":"the door"}"#), ("gone", "{}")]);
    Arc::new(
        ScriptedModel::new()
            .then(reply::using(first, 10, 2))
            .then(reply::using(
                reply::reasoned("A door.", "It is a door."),
                20,
                3,
            )),
    )
}

fn look() -> ScriptedTool {
    ScriptedTool::always(
        spec("look"),
        Act::value("\"a door\"").after(Duration::from_millis(250)),
    )
}

fn texts(execution: &Execution) -> Vec<String> {
    execution
        .message_history
        .iter()
        .map(|message| message.text())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_answered_with_its_full_history_calls_and_traces() {
    let model = two_turns();
    let done = agent(&model, vec![look()])
        .execute("You look.", "What is there?")
        .await
        .unwrap();
    assert_eq!((done.content.as_str(), done.turns), ("It is a door.", 2));
    assert_eq!(
        (done.status, &done.finish_reason),
        (RunStatus::Done, &FinishReason::Stop)
    );
    assert_eq!(done.usage.total.total.tokens, 12 + 23);
    assert_eq!(
        texts(&done)[..2],
        ["You look.".to_owned(), "What is there?".to_owned()]
    );
    assert_eq!(done.message_history.len(), 6);
    assert_paired(&done.message_history);

    // In the order in which the model made them.
    let [looked, refused] = done.tool_calls.as_slice() else {
        panic!("{:?}", done.tool_calls)
    };
    assert_eq!(
        (refused.name.as_ref(), refused.success, refused.duration_ms),
        ("gone", false, 0)
    );
    assert_eq!(
        (looked.name.as_ref(), looked.success, looked.duration_ms),
        ("look", true, 250)
    );
    assert_eq!(looked.arguments.as_str(), r#"{"at":"the door"}"#);
    assert_eq!(looked.result.as_str(), "\"a door\"");

    let kinds: Vec<_> = done.traces.iter().map(|trace| trace.kind).collect();
    assert_eq!(
        kinds,
        [
            TraceType::LlmCall,
            TraceType::ToolResult,
            TraceType::ToolCall,
            TraceType::ToolResult,
            TraceType::LlmCall,
            TraceType::ReasoningContent,
        ]
    );
    let json = serde_json::to_value(&done).unwrap();
    assert_eq!(json["finish_reason"], "stop");
    assert_eq!(json["tool_calls"][0]["duration_ms"], 250);
}

#[tokio::test(start_paused = true)]
async fn traces_match_the_records_whenever_they_are_read() {
    let agent = agent(&two_turns(), vec![look()]);
    let asked = vec![Message::user("What is there?")];
    let history: Transcript = asked.clone().into_iter().collect();
    let (run, _events) = agent.stream(asked, "You look.").await.unwrap();
    let done = run.execution().await;
    let expected = trace_records(&history, &run.records());
    drop((run, agent));
    assert_eq!(done.traces.to_vec(), expected);
    assert_eq!(
        done.traces[0].data["messages"][1]["parts"][0]["text"],
        "What is there?"
    );
    let written = serde_json::to_value(&done.traces).unwrap();
    assert_eq!(written, serde_json::to_value(&expected).unwrap());
    let owned: Vec<TraceRecord> = done.traces.into_iter().collect();
    assert_eq!(owned, expected);
}

#[tokio::test]
async fn the_system_prompt_comes_first_unless_there_is_one_already() {
    let asked = |messages: Vec<Message>, prompt: Option<&'static str>| async move {
        let model = Arc::new(ScriptedModel::always(reply::text("ok")));
        let agent = agent(&model, Vec::new());
        let done = agent.run(messages, prompt).await.unwrap();
        let sent = model.requests()[0].messages.clone();
        assert_eq!(sent.messages(), &done.message_history[..sent.len()]);
        let sent: Vec<_> = sent
            .messages()
            .iter()
            .map(|message| message.text())
            .collect();
        sent
    };
    let user = || vec![Message::user("hi")];
    assert_eq!(asked(user(), Some("Be brief.")).await, ["Be brief.", "hi"]);
    assert_eq!(asked(user(), None).await, ["hi"]);
    let mut with_system = user();
    with_system.insert(0, Message::system("Be long."));
    assert_eq!(
        asked(with_system, Some("Be brief.")).await,
        ["Be long.", "hi"]
    );
}

#[tokio::test]
async fn a_conversation_is_continued_and_repaired_where_needed() {
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    let agent = agent(&model, Vec::new());
    let history = vec![
        Message::user("look"),
        messages::calls([("c1", "look", "{}")]),
        Message::user("well?"),
    ];
    let done = agent.execute_with_history(history).await.unwrap();
    assert_paired(&done.message_history);
    assert_eq!(done.message_history.len(), 5);
    let again = done
        .message_history
        .iter()
        .map(|message| (**message).clone());
    let again = again.chain([Message::user("more")]).collect();
    let more = agent.execute_with_history(again).await.unwrap();
    assert_eq!(more.message_history[..5], done.message_history[..]);
}

#[tokio::test]
async fn a_conversation_without_a_message_to_answer_is_refused() {
    let model = Arc::new(ScriptedModel::new());
    let agent = agent(&model, Vec::new());
    let said = || vec![Message::user("hi"), Message::user(" \n")];
    for messages in [Vec::new(), vec![Message::system("x")], said()] {
        let refused = agent.run(messages, None).await;
        assert!(matches!(refused, Err(RequestError::EmptyMessage)));
    }
    let refused = agent.execute(None, "").await;
    assert!(matches!(refused, Err(RequestError::EmptyMessage)));
    assert!(model.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_text_stream_keeps_its_run_going_and_dropping_it_cancels_the_run() {
    let asked = || vec![Message::user("hi")];
    let slow = Script::from(reply::text("Hello.")).after(Duration::from_secs(1));
    let greeter = agent(&Arc::new(ScriptedModel::always(slow)), Vec::new());
    let (run, _) = greeter.stream(asked(), None).await.unwrap();
    let mut words = run.into_text_stream();
    assert_eq!(words.next().await.as_deref(), Some("Hello."));
    assert_eq!(words.next().await, None);

    let model = Arc::new(ScriptedModel::always(Script::hanging()));
    let greeter = agent(&model, Vec::new());
    let (run, mut events) = greeter.stream(asked(), None).await.unwrap();
    drop(run.into_text_stream());
    while events.next().await.is_some() {}
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(model.open_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_cancels_the_run() {
    let model = Arc::new(ScriptedModel::always(Script::hanging()));
    let agent = agent(&model, Vec::new());
    let asking = agent.execute("", "hi");
    assert!(
        tokio::time::timeout(Duration::from_secs(1), asking)
            .await
            .is_err()
    );
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(model.open_calls(), 0);
}

#[tokio::test]
async fn a_failing_model_still_gives_an_answer_and_a_history() {
    let error = neuraxis_core::LlmError::new(neuraxis_core::LlmErrorKind::Unauthorized, "no key");
    let model = Arc::new(ScriptedModel::always(error));
    let done = agent(&model, Vec::new()).execute("", "hi").await.unwrap();
    assert_eq!(done.status, RunStatus::Failed);
    assert!(
        done.content.starts_with("This could not be finished"),
        "{}",
        done.content
    );
    assert_eq!(done.message_history.last().unwrap().text(), "hi");
}

/// A clock that panics once it is broken.
#[derive(Debug, Default)]
struct BrittleClock(AtomicBool);

impl Clock for BrittleClock {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::Relaxed), "it is broken");
        Timestamp::UNIX_EPOCH
    }
}

#[tokio::test]
async fn a_run_that_panics_returns_the_conversation_it_was_given() {
    let clock = Arc::new(BrittleClock::default());
    let breaking = Arc::clone(&clock);
    let model = ScriptedModel::answering(move |_| {
        breaking.0.store(true, Ordering::Relaxed);
        reply::text("ok")
    });
    let agent = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .clock(clock)
        .build_agent()
        .unwrap();
    let done = agent.execute("", "hi").await.unwrap();
    assert_eq!(done.status, RunStatus::Failed);
    assert_eq!(texts(&done), ["hi"]);
}

#[tokio::test]
async fn client_tool_calls_are_handed_over_and_the_next_run_uses_their_results() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("pick", r#"{"of":2}"#)]))
            .then(reply::text("The second.")),
    );
    let agent = Orchestrator::builder()
        .model(Role::REASONING, model.clone())
        .client_tool(spec("pick").build())
        .build_agent()
        .unwrap();
    let first = agent.execute("", "choose").await.unwrap();
    assert_eq!(first.finish_reason, FinishReason::ClientTools);
    let mut history: Vec<Message> = first
        .message_history
        .iter()
        .map(|message| (**message).clone())
        .collect();
    let call = history.last().unwrap().tool_calls().next().unwrap().clone();
    assert_eq!(call.arguments.as_str(), r#"{"of":2}"#);
    history.push(messages::result(call.id.as_str(), "pick", "2"));
    let second = agent.execute_with_history(history).await.unwrap();
    assert_eq!(second.content, "The second.");
    assert_paired(&second.message_history);
}

#[tokio::test]
async fn a_sub_agent_is_offered_no_client_tools() {
    let root = ScriptedModel::new()
        .then(reply::calls([("ask", r#"{"task":"pick"}"#)]))
        .then(reply::text("ok"));
    let below = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("pick", "{}")]))
            .then(reply::text("cannot")),
    );
    let agent = crate::support::helper("ask", &["pick"]).build().unwrap();
    let agent = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(root))
        .model(Role::CODING, below.clone())
        .client_tool(spec("pick").build())
        .agent_tool(agent)
        .build_agent()
        .unwrap();
    let done = agent.execute("", "go").await.unwrap();
    assert_eq!(
        (done.status, done.content.as_str()),
        (RunStatus::Done, "ok")
    );
    assert!(below.requests()[0].tools.is_empty());
}

#[tokio::test]
async fn a_tool_runner_runs_its_tools() {
    let model = two_turns();
    let looks = Arc::new(look());
    let runner = ScriptedRunner::new([looks.clone()]);
    let specs = runner.specs();
    let runner: Arc<dyn ToolRunner> = Arc::new(runner);
    let agent = Orchestrator::builder()
        .model(Role::REASONING, model)
        .tool_runner(&runner, specs)
        .project_id("p7")
        .build_agent()
        .unwrap();
    let done = agent.execute("", "look").await.unwrap();
    assert_eq!(done.content, "It is a door.");
    let call = &looks.calls()[0];
    assert_eq!(call.context.project_id.as_deref(), Some("p7"));
    assert_eq!(call.arguments.as_str(), r#"{"at":"the door"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_main_thread_agent_runs_standalone_with_the_builder_s_settings() {
    let looks = Arc::new(look());
    let written = Agent::builder("main_thread")
        .instructions("You look.")
        .model(two_turns())
        .tool(looks.clone())
        .build()
        .unwrap();
    let agent = Orchestrator::builder()
        .policy(policy(
            "prices.'testkit/*' = { prompt = 1.0, completion = 2.0 }",
        ))
        .project_id("p7")
        .agent(written)
        .build_agent()
        .unwrap();
    let done = agent.execute(None, "look").await.unwrap();
    assert_eq!(done.content, "It is a door.");
    assert_eq!(texts(&done)[0], "You look.");
    assert_eq!(done.cost, Some(MicroUsd(30 + 2 * 5)));
    let call = &looks.calls()[0];
    assert_eq!(call.context.project_id.as_deref(), Some("p7"));
}

/// Calls a tool in every turn that allows it.
fn tireless() -> Arc<ScriptedModel> {
    let turn = std::sync::atomic::AtomicU32::new(0);
    Arc::new(ScriptedModel::answering(move |request| {
        let turn = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if request.tool_choice == neuraxis_core::ToolChoice::None {
            return reply::text("what I have");
        }
        let arguments = format!("{{\"n\":{turn}}}");
        reply::calls([("look", arguments.as_str())])
    }))
}

#[tokio::test(start_paused = true)]
async fn a_tool_call_limit_ends_a_run_with_an_answer() {
    let model = tireless();
    let agent = Orchestrator::builder()
        .model(Role::REASONING, model)
        .tool(Arc::new(look()))
        .tool_call_limit(3)
        .build_agent()
        .unwrap();
    let done = agent.execute("", "go").await.unwrap();
    assert_eq!(
        done.finish_reason,
        FinishReason::Budget(BudgetKind::ToolCalls)
    );
    assert_eq!(done.content, "what I have");
    assert_eq!(
        done.tool_calls.iter().filter(|call| call.success).count(),
        3
    );
    assert_paired(&done.message_history);
}

#[tokio::test(start_paused = true)]
async fn the_limit_reached_first_ends_the_run() {
    // Ten turns are the loop's own limit.
    for (calls, reason, turns) in [
        (4, FinishReason::Budget(BudgetKind::ToolCalls), 4),
        (40, FinishReason::MaxTurns, 10),
    ] {
        let agent = Orchestrator::builder()
            .model(Role::REASONING, tireless())
            .tool(Arc::new(look()))
            .tool_call_limit(calls)
            .build_agent()
            .unwrap();
        let done = agent.execute("", "go").await.unwrap();
        assert_eq!(
            (done.finish_reason, done.content.as_str()),
            (reason, "what I have")
        );
        assert_eq!(
            done.tool_calls.iter().filter(|call| call.success).count(),
            turns
        );
    }
}
