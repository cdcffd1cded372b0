//! An embedder's hooks.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Advice, FinishReason, Hook, RunStatus};
use neuraxis_testkit::{ScriptedAdvisor, ScriptedModel, ScriptedTool, reply, spec};
use tokio::time::Instant;

use crate::support::{FinishedRun, builder, request, run_to_end};

/// Performs a run of two turns with the given hooks. Returns the events, the tool and the model.
async fn run(
    hooks: &[Hook],
    advisor: &Arc<ScriptedAdvisor>,
) -> (FinishedRun, Arc<ScriptedTool>, Arc<ScriptedModel>) {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::text_and_calls("Looking.", [("look", r#"{"n":1}"#)]))
            .then(reply::text("Done.")),
    );
    let look = Arc::new(ScriptedTool::echoing(spec("look").read_only()));
    let peek = Arc::new(ScriptedTool::echoing(spec("peek").read_only()));
    let orchestrator = builder(model.clone())
        .tools([look.clone() as Arc<_>, peek as Arc<_>])
        .advisor(hooks.iter().copied(), advisor.clone())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    (finished, look, model)
}

fn stop() -> Advice {
    Advice::Stop {
        reason: "seen enough".to_owned(),
    }
}

#[tokio::test]
async fn each_advisor_hook_is_called_at_its_point_with_its_subject() {
    let advisor = Arc::new(ScriptedAdvisor::new());
    let hooks = [Hook::ToolsSelected, Hook::ProcessCalls, Hook::Progress];
    let (finished, look, _) = run(&hooks, &advisor).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!((finished.result.reply.as_str(), look.count()), ("Done.", 1));
    let asked: Vec<_> = advisor
        .questions()
        .into_iter()
        .map(|question| (question.hook, question.subject.as_str().to_owned()))
        .collect();
    let hooks: Vec<_> = asked.iter().map(|(hook, _)| *hook).collect();
    assert_eq!(
        hooks,
        [
            Hook::ToolsSelected,
            Hook::ProcessCalls,
            Hook::Progress,
            Hook::ToolsSelected
        ]
    );
    assert_eq!(asked[0].1, r#"{"tools":["look","peek","read_output"]}"#);
    assert!(
        asked[1]
            .1
            .contains(r#""name":"look","arguments":"{\"n\":1}""#),
        "{}",
        asked[1].1
    );
    assert_eq!(
        asked[2].1,
        r#"{"turns_used":1,"tool_calls":1,"text":"Looking."}"#
    );
    assert_eq!(
        finished
            .kinds()
            .iter()
            .filter(|kind| **kind == "advised")
            .count(),
        4
    );
}

#[tokio::test]
async fn an_advisor_can_end_the_loop_with_the_text_so_far() {
    for hook in [Hook::ProcessCalls, Hook::Progress] {
        let advisor = Arc::new(ScriptedAdvisor::new().then(stop()));
        let (finished, look, model) = run(&[hook], &advisor).await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(finished.result.finish_reason, Some(FinishReason::Stop));
        assert_eq!(finished.result.reply, "Looking.");
        assert_eq!(
            look.count(),
            usize::from(hook == Hook::Progress),
            "{hook:?}"
        );
        assert_eq!(model.remaining(), 1);
    }
}

#[tokio::test]
async fn an_advisor_can_offer_fewer_tools_for_a_turn() {
    let offer = Advice::Offer {
        tools: vec!["peek".parse().unwrap()],
    };
    let advisor = Arc::new(ScriptedAdvisor::new().then(offer));
    let (finished, look, model) = run(&[Hook::ToolsSelected], &advisor).await;
    finished.assert_valid(RunStatus::Done);
    let offered = |turn: usize| {
        let tools = &model.requests()[turn].tools;
        tools
            .iter()
            .map(|tool| tool.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!((offered(0), offered(1).len()), (vec!["peek".to_owned()], 3));
    assert_eq!(look.count(), 0, "a tool that was not offered ran");
}

#[tokio::test]
async fn advice_that_does_not_apply_at_its_hook_is_ignored() {
    let offer = Advice::Offer { tools: Vec::new() };
    let advisor = Arc::new(ScriptedAdvisor::new().then(offer));
    let (finished, ..) = run(&[Hook::Progress], &advisor).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "Done.");
}

#[tokio::test]
async fn an_advisor_that_panics_gives_no_advice_and_the_run_continues() {
    let advisor = Arc::new(ScriptedAdvisor::new().panic());
    let (finished, look, _) = run(&[Hook::ProcessCalls], &advisor).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!((finished.result.reply.as_str(), look.count()), ("Done.", 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_advisor_gives_no_advice_and_the_run_continues() {
    let started = Instant::now();
    let advisor = Arc::new(ScriptedAdvisor::new().stay_silent());
    let (finished, look, _) = run(&[Hook::ProcessCalls], &advisor).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!((finished.result.reply.as_str(), look.count()), ("Done.", 1));
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}
