//! The channels: each takes exactly the path and the steps in the design's table.

use std::sync::Arc;

use neuraxis_brainstem::Refusal;
use neuraxis_core::{
    Channel, JsonText, LlmErrorKind, Mode, Purpose, RecordBody, Role, RunStatus, ToolClass,
    ToolOutput, ToolSignal,
};
use neuraxis_engine::{Orchestrator, OrchestratorBuilder, RequestError, StepType, UserRequest};
use neuraxis_memory::MemoryStore;
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{FinishedRun, run_to_end, session};

const HARD: &str = "Compare TCP with UDP and explain why games use the latter.";

fn orchestrator() -> OrchestratorBuilder {
    let answers = |role: &'static str| {
        Arc::new(ScriptedModel::always(reply::text(format!(
            "{role} answers"
        ))))
    };
    Orchestrator::builder()
        .model(Role::REASONING, answers("reasoning"))
        .model(Role::ROUTER, answers("router"))
        .model(Role::CODING, answers("coding"))
        .store(Arc::new(MemoryStore::new()))
        .tools([
            tool("system_health", ToolClass::ReadOnly),
            tool("read_file", ToolClass::ReadOnly),
            tool("write_file", ToolClass::Idempotent),
            tool("calculate", ToolClass::ReadOnly),
        ])
}

fn tool(name: &str, class: ToolClass) -> Arc<dyn neuraxis_ports::Tool> {
    let mut spec = spec(name).build();
    spec.class = class;
    Arc::new(ScriptedTool::echoing(spec))
}

async fn ask(
    orchestrator: OrchestratorBuilder,
    channel: Channel,
    mode: Mode,
    text: &str,
) -> FinishedRun {
    let request = UserRequest::new(session(), text)
        .mode(mode)
        .channel(channel);
    run_to_end(&orchestrator.build().unwrap(), request).await
}

/// Returns the steps, each with the role that served it or the tool that ran.
fn steps(finished: &FinishedRun) -> Vec<(StepType, String)> {
    let steps = finished.result.steps.iter().map(|step| {
        let who = step
            .metadata
            .get("model_role")
            .or_else(|| step.metadata.get("tool_name"));
        let who = who.unwrap_or_default();
        (step.kind, who.as_str().unwrap_or_default().to_owned())
    });
    steps.collect()
}

fn expected(steps: &[(StepType, &str)]) -> Vec<(StepType, String)> {
    steps
        .iter()
        .map(|(kind, who)| (*kind, (*who).to_owned()))
        .collect()
}

#[tokio::test]
async fn chat_is_one_call_by_the_router_or_by_reasoning() {
    for mode in [Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY] {
        for (text, role) in [("What time is it in Tokyo?", "router"), (HARD, "reasoning")] {
            let finished = ask(orchestrator(), Channel::CHAT, mode.clone(), text).await;
            finished.assert_valid(RunStatus::Done);
            assert_eq!(
                steps(&finished),
                expected(&[(StepType::LlmCall, role)]),
                "{mode}"
            );
        }
    }
}

#[tokio::test]
async fn chat_adds_a_step_for_each_tool_call() {
    let model = ScriptedModel::new()
        .then(reply::calls([("calculate", "{}")]))
        .then(reply::text("42"));
    let orchestrator = orchestrator().model(Role::ROUTER, Arc::new(model));
    let finished = ask(
        orchestrator,
        Channel::CHAT,
        Mode::MODERATE,
        "What is 6 times 7?",
    )
    .await;
    let named = [
        (StepType::LlmCall, "router"),
        (StepType::ToolCall, "calculate"),
        (StepType::LlmCall, "router"),
    ];
    assert_eq!(steps(&finished), expected(&named));
}

#[tokio::test]
async fn code_task_is_a_single_call_without_tools_in_conservative_mode() {
    let model = Arc::new(ScriptedModel::always(reply::text("fn main() {}")));
    let orchestrator = orchestrator().model(Role::CODING, model.clone());
    let finished = ask(
        orchestrator,
        Channel::CODE_TASK,
        Mode::CONSERVATIVE,
        "Write a program.",
    )
    .await;
    assert_eq!(steps(&finished), expected(&[(StepType::LlmCall, "coding")]));
    assert!(model.requests()[0].tools.is_empty());
}

#[tokio::test]
async fn code_task_uses_the_project_tools_in_the_other_modes() {
    for mode in [Mode::MODERATE, Mode::EXPLORATORY] {
        let model = Arc::new(
            ScriptedModel::new()
                .then(reply::calls([("read_file", r#"{"path":"src/main.rs"}"#)]))
                .then(reply::text("It is empty.")),
        );
        let orchestrator = orchestrator().model(Role::CODING, model.clone());
        let finished = ask(
            orchestrator,
            Channel::CODE_TASK,
            mode.clone(),
            "Read the program.",
        )
        .await;
        let named = [
            (StepType::LlmCall, "coding"),
            (StepType::ToolCall, "read_file"),
            (StepType::LlmCall, "coding"),
        ];
        assert_eq!(steps(&finished), expected(&named), "{mode}");
        let first = &model.requests()[0];
        let offered = |name: &str| first.tools.iter().any(|tool| tool.name.as_str() == name);
        assert!(offered("read_file") && offered("write_file") && !offered("system_health"));
    }
}

const HEALTH: [(StepType, &str); 3] = [
    (StepType::LlmCall, "router"),
    (StepType::ToolCall, "system_health"),
    (StepType::LlmCall, "reasoning"),
];

#[tokio::test]
async fn system_health_is_gathered_by_the_router_and_summarized_by_reasoning() {
    for mode in [Mode::CONSERVATIVE, Mode::MODERATE, Mode::EXPLORATORY] {
        let router = Arc::new(ScriptedModel::new().then(reply::text_and_calls(
            "Let me see.",
            [
                ("system_health", r#"{"sections":["disk"]}"#),
                ("system_health", "{}"),
            ],
        )));
        let reasoning = Arc::new(ScriptedModel::always(reply::text("All is well.")));
        let orchestrator = orchestrator()
            .model(Role::ROUTER, router.clone())
            .model(Role::REASONING, reasoning.clone());
        let finished = ask(
            orchestrator,
            Channel::SYSTEM_HEALTH,
            mode.clone(),
            "Is it well?",
        )
        .await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(steps(&finished), expected(&HEALTH), "{mode}");
        assert_eq!(finished.result.reply, "All is well.");
        assert_eq!(
            finished.result.steps[1].metadata.get("origin").unwrap(),
            "model"
        );
        assert!(reasoning.requests()[0].tools.is_empty());
        let purposes = finished
            .records()
            .into_iter()
            .filter_map(|record| match &record.body {
                RecordBody::LlmCall(call) => Some(call.purpose),
                _ => None,
            });
        assert_eq!(Vec::from_iter(purposes), [Purpose::Gather, Purpose::Turn]);
    }
}

#[tokio::test]
async fn system_health_gathers_everything_when_the_router_chooses_nothing() {
    let finished = ask(
        orchestrator(),
        Channel::SYSTEM_HEALTH,
        Mode::MODERATE,
        "Is it well?",
    )
    .await;
    assert_eq!(steps(&finished), expected(&HEALTH));
    assert_eq!(
        finished.result.steps[1].metadata.get("origin").unwrap(),
        "policy"
    );
    assert_eq!(
        finished.result.steps[1].metadata.get("arguments").unwrap(),
        "{}"
    );
}

#[tokio::test]
async fn system_health_gathers_everything_when_the_router_fails() {
    let error = neuraxis_core::LlmError::new(LlmErrorKind::Unauthorized, "no");
    let orchestrator = orchestrator().model(Role::ROUTER, Arc::new(ScriptedModel::always(error)));
    let finished = ask(
        orchestrator,
        Channel::SYSTEM_HEALTH,
        Mode::MODERATE,
        "Is it well?",
    )
    .await;
    let named = [
        (StepType::Warning, "router"),
        (StepType::ToolCall, "system_health"),
        (StepType::LlmCall, "reasoning"),
    ];
    assert_eq!(steps(&finished), expected(&named));
}

#[tokio::test]
async fn deep_research_is_refused_outside_exploratory_mode() {
    let orchestrator = orchestrator().build().unwrap();
    for mode in [Mode::CONSERVATIVE, Mode::MODERATE] {
        let request = UserRequest::new(session(), HARD)
            .mode(mode.clone())
            .channel(Channel::DEEP_RESEARCH);
        let refused = orchestrator.handle(request).await.unwrap_err();
        assert!(
            matches!(
                &refused,
                RequestError::Policy(Refusal::ModeNotAllowed { .. })
            ),
            "{refused:?}"
        );
        let expected =
            format!("channel deep_research cannot be used in mode {mode}; it needs exploratory");
        assert_eq!(refused.to_string(), expected);
    }
    let request = UserRequest::new(session(), HARD)
        .mode(Mode::EXPLORATORY)
        .channel(Channel::DEEP_RESEARCH);
    let finished = run_to_end(&orchestrator, request).await;
    let checked = [
        (StepType::LlmCall, "reasoning"),
        (StepType::LlmCall, "reasoning"),
        (StepType::Summary, ""),
    ];
    assert_eq!(steps(&finished), expected(&checked));
}

#[tokio::test]
async fn research_plans_works_and_ends_with_a_summary_of_its_check() {
    let plan = r#"{"steps":[{"text":"Read about TCP","state":"pending"}]}"#;
    let mut planned = ToolOutput::new(JsonText::from_text("\"noted\""));
    planned.signal = Some(ToolSignal::Plan {
        plan: JsonText::from_text(plan),
    });
    let mut update = spec("update_plan").build();
    update.class = ToolClass::ReadOnly;
    let model = ScriptedModel::new()
        .then(reply::calls([("update_plan", plan)]))
        .then(reply::calls([("calculate", "{}")]))
        .then(reply::text("TCP retransmits."))
        .then(reply::text("ACCEPT"));
    let builder = orchestrator()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(ScriptedTool::always(update, Act::output(planned))));
    let finished = ask(builder, Channel::DEEP_RESEARCH, Mode::EXPLORATORY, HARD).await;
    let named = [
        (StepType::LlmCall, "reasoning"),
        (StepType::ToolCall, "update_plan"),
        (StepType::Plan, ""),
        (StepType::LlmCall, "reasoning"),
        (StepType::ToolCall, "calculate"),
        (StepType::LlmCall, "reasoning"),
        (StepType::LlmCall, "reasoning"),
        (StepType::Summary, ""),
    ];
    assert_eq!(steps(&finished), expected(&named));
    assert_eq!(finished.result.reply, "TCP retransmits.");
    // What a plan and a summary report to programs: who they belong to, and that nothing went wrong.
    for step in [2, 7] {
        let metadata = finished.result.steps[step].metadata.to_map();
        assert_eq!(
            serde_json::Value::Object(metadata),
            serde_json::json!({"agent": "a0"})
        );
    }
}
