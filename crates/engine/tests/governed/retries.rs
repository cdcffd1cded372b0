//! How each kind of tool failure is handled: the run always continues to an answer.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Mode, ToolFailure};
use neuraxis_engine::StepType;
use neuraxis_ports::{Tool, ToolError};
use neuraxis_testkit::{Act, ScriptedTool, SpecBuilder, spec};

use crate::support::{Ran, World, nobody};

fn busy() -> Act {
    Act::failing(ToolError::temporary("the disk is busy"))
}

async fn run(policy: &str, spec: SpecBuilder, acts: Vec<Act>) -> (Ran, Arc<ScriptedTool>) {
    let tool = acts
        .into_iter()
        .fold(ScriptedTool::new(spec), ScriptedTool::then);
    let tool = Arc::new(tool);
    let world = World::with(policy, nobody(), |builder| builder.tool(tool.clone()));
    let ran = world.calls(Mode::EXPLORATORY, &[("probe", "{}")]).await;
    (ran, tool)
}

fn probe() -> SpecBuilder {
    spec("probe").timeout(Duration::from_secs(5))
}

#[tokio::test]
async fn a_temporary_failure_is_retried_once_and_the_step_records_it() {
    let acts = vec![busy(), Act::value("7")];
    let (ran, tool) = run("", probe().read_only(), acts).await;
    assert_eq!((tool.count(), ran.results()[0].value.as_str()), (2, "7"));
    let calls = tool.calls();
    assert_eq!(calls[0].context.effect_id, calls[1].context.effect_id);
    assert_eq!(calls[1].context.attempt.0, 2);
    let steps = ran.result.steps.iter();
    let steps: Vec<_> = steps.filter(|it| it.kind == StepType::ToolCall).collect();
    assert_eq!(steps.len(), 1, "one step a call");
    assert_eq!(
        steps[0].metadata.get("retried_after").unwrap(),
        "the disk is busy"
    );
    assert_eq!(steps[0].metadata.get("attempt").unwrap(), 2);
    assert_eq!(steps[0].metadata.get("status").unwrap(), "done");
}

#[tokio::test]
async fn non_permanent_failures_of_repeatable_tools_are_retried_once() {
    let gone = || Act::error("no such row");
    for (spec, act, attempts) in [
        (probe().read_only(), busy(), 2),
        (probe().read_only(), Act::failure("connection reset"), 2),
        (probe().idempotent(), Act::failure("connection reset"), 2),
        (probe().read_only(), Act::panicking("boom"), 2),
        (probe().read_only(), gone(), 1),
        (probe().idempotent(), gone(), 1),
        (probe(), Act::failure("connection reset"), 1),
        (probe(), Act::panicking("boom"), 1),
    ] {
        let free = "[rules.all]\nanswer = 'allow'\ntools = ['probe']";
        let (ran, tool) = run(free, spec, vec![act.clone(), Act::value("7")]).await;
        assert_eq!(tool.count(), attempts, "{act:?}");
        assert_eq!(ran.results()[0].failure.is_none(), attempts == 2, "{act:?}");
        assert_eq!(ran.is_done().result.reply, "Done.");
    }
}

#[tokio::test]
async fn untrusted_claims_of_a_server_cause_no_retry() {
    let claims = spec("shop__x").read_only();
    let acts = ScriptedTool::always(claims, Act::failure("connection reset"));
    let tool = Arc::new(acts);
    let free = "[rules.all]\nanswer = 'allow'\ntools = ['shop__x']";
    let world = World::with(free, nobody(), |builder| {
        builder.foreign_tools("shop", [tool.clone() as Arc<dyn Tool>])
    });
    world.calls(Mode::EXPLORATORY, &[("shop__x", "{}")]).await;
    assert_eq!(tool.count(), 1);
}

#[tokio::test]
async fn a_persistent_failure_is_an_error_on_the_step_and_the_run_continues() {
    let (ran, tool) = run("", probe().idempotent(), vec![busy(), busy()]).await;
    assert_eq!(tool.count(), 2);
    assert_eq!(ran.is_done().result.reply, "Done.");
    let mut steps = ran.result.steps.iter();
    let step = steps.find(|it| it.kind == StepType::ToolCall).unwrap();
    assert_eq!(step.metadata.get("error").unwrap(), "the disk is busy");
    assert_eq!(step.metadata.get("error_type").unwrap(), "temporary");
}

#[tokio::test]
async fn policy_can_disable_tool_retries() {
    let policy = "[modes.exploratory]\ntool_retries = 0";
    let (ran, tool) = run(policy, probe().read_only(), vec![busy()]).await;
    assert_eq!(tool.count(), 1);
    assert_eq!(ran.results()[0].failure, Some(ToolFailure::Temporary));
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_tool_failure_still_leaves_the_run_with_an_answer() {
    let ways = [
        (probe(), busy(), ToolFailure::Temporary, "the disk is busy"),
        (
            probe().read_only(),
            Act::error("no such row"),
            ToolFailure::Permanent,
            "no such row",
        ),
        (
            probe().read_only(),
            Act::hanging(),
            ToolFailure::Timeout,
            "tool execution timed out",
        ),
        (
            probe(),
            Act::failure("connection reset"),
            ToolFailure::Error,
            "connection reset",
        ),
        (
            probe(),
            Act::panicking("boom"),
            ToolFailure::Panic,
            "the tool crashed",
        ),
    ];
    for (spec, act, failure, told) in ways {
        let (ran, tool) = run(
            "[rules.all]\nanswer = 'allow'\ntools = ['probe']",
            spec,
            vec![act],
        )
        .await;
        assert_eq!(ran.is_done().result.reply, "Done.");
        assert_eq!(ran.results()[0].failure, Some(failure));
        assert!(
            ran.results()[0].value.as_str().contains(told),
            "{failure:?}"
        );
        assert_eq!(tool.count(), 1, "{failure:?}");
    }
}
