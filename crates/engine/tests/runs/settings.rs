//! What an agent's settings change in a run, seen from outside: for a program's own agent, alone and in a session.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{FinishReason, Mode, Parallel, Repeats, RunStatus, ToolChoice, UnknownTool};
use neuraxis_engine::{Agent, AgentBuilder, Execution};
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{builder, policy, request, run_to_end};

fn look() -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::echoing(spec("look").read_only()))
}

async fn run(
    model: ScriptedModel,
    tool: &Arc<ScriptedTool>,
    set: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Execution {
    let agent = Agent::builder("a")
        .model(Arc::new(model))
        .tool(tool.clone());
    let agent = set(agent).build().unwrap();
    agent.execute(None, "go").await.unwrap()
}

#[tokio::test]
async fn an_agent_can_make_an_unknown_tool_end_the_run_before_any_call() {
    let model = || {
        let calls = [("look", r#"{"n":1}"#), ("peek", "{}")];
        let model = ScriptedModel::new().then(reply::calls(calls));
        model.then(reply::text("I cannot peek."))
    };
    let tool = look();
    let done = run(model(), &tool, |agent| {
        agent.unknown_tool(UnknownTool::Stop)
    })
    .await;
    let ended = (done.finish_reason, done.status, tool.count());
    let reason = FinishReason::UnknownTool("peek".to_owned());
    assert_eq!(ended, (reason, RunStatus::Failed, 0));
    assert!(done.content.contains("\"peek\""), "{}", done.content);
    // Without the setting.
    let done = run(model(), &tool, |agent| agent).await;
    assert_eq!((done.content.as_str(), tool.count()), ("I cannot peek.", 1));
}

#[tokio::test]
async fn an_agent_can_make_a_failed_call_end_the_run() {
    let model = || {
        let model = ScriptedModel::new().then(reply::calls([("look", "{}")]));
        model.then(reply::text("I saw nothing."))
    };
    let blind = || {
        Arc::new(ScriptedTool::always(
            spec("look").read_only(),
            Act::error("dark"),
        ))
    };
    let done = run(model(), &blind(), |agent| agent.stop_on_error(true)).await;
    let ended = (done.finish_reason, done.status);
    assert_eq!(ended, (FinishReason::ToolError, RunStatus::Failed));
    assert_eq!(done.tool_calls[0].result.as_str(), r#"{"error":"dark"}"#);
    assert_eq!(
        done.content,
        "The run stopped because the tool \"look\" failed: dark"
    );
    let done = run(model(), &blind(), |agent| agent).await;
    assert_eq!(done.content, "I saw nothing.");

    let written = policy("[agents.main_thread]\nstop_on_error = true\n");
    let orchestrator = builder(model()).tool(blind()).policy(written);
    let orchestrator = orchestrator.build().unwrap();
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::EXPLORATORY)).await;
    assert_eq!(finished.result.finish_reason, Some(FinishReason::ToolError));
}

#[tokio::test(start_paused = true)]
async fn an_agent_sets_whether_calls_run_in_parallel_and_results_keep_their_order() {
    let model = || {
        let calls = [("look", r#"{"n":1}"#), ("look", r#"{"n":2}"#)];
        ScriptedModel::new()
            .then(reply::calls(calls))
            .then(reply::text("Both."))
    };
    let slow_then_quick = || {
        let act = |value: &str, seconds| Act::value(value).after(Duration::from_secs(seconds));
        let tool = ScriptedTool::new(spec("look").idempotent());
        Arc::new(tool.then(act("1", 9)).then(act("2", 1)))
    };
    for (parallel, together) in [(Parallel::All, 2), (Parallel::None, 1)] {
        let tool = slow_then_quick();
        let done = run(model(), &tool, |agent| agent.parallel(parallel)).await;
        assert_eq!(tool.most_open_calls(), together, "{parallel:?}");
        let results: Vec<_> = done
            .tool_calls
            .iter()
            .map(|call| call.result.as_str())
            .collect();
        assert_eq!(results, ["1", "2"], "{parallel:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_no_longer_than_the_agent_s_timeout() {
    let model = ScriptedModel::new().then(reply::calls([("look", "{}")]));
    let hanging = Arc::new(ScriptedTool::always(
        spec("look").read_only(),
        Act::hanging(),
    ));
    let started = tokio::time::Instant::now();
    let done = run(model.then(reply::text("No.")), &hanging, |agent| {
        agent.tool_timeout(Duration::from_secs(7))
    });
    let done = done.await;
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    let told = done.tool_calls[0].result.as_str();
    assert_eq!(told, r#"{"error":"tool execution timed out"}"#);
}

#[tokio::test]
async fn an_agent_can_allow_repeated_identical_calls() {
    let polling = || {
        ScriptedModel::answering(|request| match request.tool_choice {
            ToolChoice::None => reply::text("Still nothing."),
            _ => reply::calls([("look", "{}")]),
        })
    };
    let often = Repeats { warn: 0, stop: 0 };
    let done = run(polling(), &look(), |agent| {
        agent.max_turns(3).repeats(often)
    })
    .await;
    let calls = &done.tool_calls;
    assert_eq!(
        (calls.len(), calls.iter().all(|call| call.success)),
        (3, true)
    );
    assert_eq!(done.finish_reason, FinishReason::MaxTurns);
    let done = run(polling(), &look(), |agent| agent.max_turns(3)).await;
    assert!(!done.tool_calls[2].success, "the third like it is not run");
}
