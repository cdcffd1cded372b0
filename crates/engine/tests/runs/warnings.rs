//! Warnings about tools that can never run, and refusals that say who could have allowed a call.

use std::sync::Arc;

use neuraxis_core::{Mode, ToolClass};
use neuraxis_engine::{Hindrance, OrchestratorBuilder};
use neuraxis_testkit::{ScriptedApprover, ScriptedModel, ScriptedTool, SpecBuilder, reply, spec};

use crate::support::{builder, policy, request, run_to_end};

fn with(tool: SpecBuilder) -> OrchestratorBuilder {
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", "{}")]))
        .then(reply::text("No idea."));
    builder(model).tool(Arc::new(ScriptedTool::echoing(tool)))
}

fn why(builder: OrchestratorBuilder) -> Vec<Hindrance> {
    let orchestrator = builder.build().unwrap();
    orchestrator.warnings().iter().map(|it| it.why).collect()
}

#[tokio::test]
async fn a_default_class_tool_without_an_approver_causes_a_warning_with_remedies() {
    let orchestrator = with(spec("weather")).build().unwrap();
    let [warning] = orchestrator.warnings() else {
        panic!("{:?}", orchestrator.warnings());
    };
    assert_eq!(warning.why, Hindrance::NobodyApproves);
    assert_eq!(
        (warning.tool.as_str(), warning.class),
        ("weather", ToolClass::Irreversible)
    );
    let text = warning.to_string();
    for part in [
        "weather",
        ".class(ToolClass::ReadOnly)",
        "`approver`",
        "[rules.weather]",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let finished = run_to_end(&orchestrator, request("go").mode(Mode::MODERATE)).await;
    let refusal = finished.results()[0].value.as_str().to_owned();
    assert!(refusal.contains("an approver, a freer mode"), "{refusal}");
}

#[test]
fn warnings_distinguish_the_reasons_why_a_tool_cannot_run() {
    assert_eq!(why(with(spec("weather").read_only())), []);
    let abroad = || spec("weather").read_only().open_world();
    assert_eq!(why(with(abroad())), [Hindrance::NobodyApprovesByDefault]);
    let denied = "[rules.none]\ntools = ['weather']\nanswer = 'deny'\n";
    assert_eq!(
        why(with(abroad()).policy(policy(denied))),
        [Hindrance::Denied]
    );
}

#[test]
fn no_warning_is_given_with_an_approver_or_an_allowing_rule() {
    let approver = || Arc::new(ScriptedApprover::new());
    assert_eq!(why(with(spec("weather")).approver(approver())), []);
    let allowed = "[rules.weather]\ntools = ['weather']\nanswer = 'allow'\n";
    assert_eq!(why(with(spec("weather")).policy(policy(allowed))), []);
}
