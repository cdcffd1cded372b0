//! Agents with their own answer schema: alone, in a session, and as a tool of another agent.

use std::sync::Arc;

use neuraxis_core::{Message, RecordBody, RunStatus, ToolChoice};
use neuraxis_engine::{Agent, AgentBuilder, AnswerFault, AnswerSchema, BuildError};
use neuraxis_testkit::{ScriptedModel, reply};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::support::{builder, policy, request, run_to_end};
use crate::written_agents::{look, named};

/// What a reviewer finds.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Verdict {
    is_fine: bool,
}

/// The same, in a deployment's configuration.
const WRITTEN: &str = r#"
    [agents.reviewer.answer]
    retries = 1
    [agents.reviewer.answer.schema]
    title = "Verdict"
    type = "object"
    required = ["is_fine"]
    properties.is_fine.type = "boolean"
"#;

/// The same, with the schema as a string.
const AS_TEXT: &str = r#"
    [agents.reviewer]
    answer = { schema = '{"type":"object","required":["is_fine"],"properties":{"is_fine":{"type":"boolean"}}}', retries = 1 }
"#;

fn reviewer() -> AgentBuilder {
    Agent::builder("reviewer").answer::<Verdict>()
}

/// First says something else, then gives the answer: through the tool if there is one, otherwise as text.
fn mending() -> ScriptedModel {
    ScriptedModel::answering(|request| {
        let messages = request.messages.messages();
        let was_told = messages
            .iter()
            .any(|it| it.text().contains("This is no answer yet"));
        let delivers = request
            .tools
            .iter()
            .any(|tool| tool.name.as_str() == "final_answer");
        match (
            was_told,
            delivers && request.tool_choice != ToolChoice::None,
        ) {
            (false, _) => reply::text("It is fine."),
            (true, true) => reply::calls([("final_answer", r#"{"is_fine":true}"#)]),
            (true, false) => reply::text(r#"{"is_fine":true}"#),
        }
    })
}

#[tokio::test]
async fn a_standalone_agent_answers_in_its_schema_with_and_without_tools() {
    for with_tool in [false, true] {
        let agent = reviewer().model(Arc::new(mending()));
        let agent = match with_tool {
            true => agent.tool(look()),
            false => agent,
        };
        let agent = agent.build().unwrap();
        let done = agent.execute(None, "1 + 1").await.unwrap();
        let answer: Verdict = done.answer.unwrap().decode().unwrap();
        assert_eq!(answer, Verdict { is_fine: true });
        let hi = vec![Message::user("1 + 1")];
        let (run, _events) = agent.stream(hi, None).await.unwrap();
        assert!(run.execution().await.answer.is_some());
    }
}

#[tokio::test]
async fn a_schema_set_on_an_agent_value_replaces_the_agent_s_own() {
    let model = Arc::new(ScriptedModel::always(reply::text(r#"{"total":2}"#)));
    let schema =
        r#"{"type":"object","required":["total"],"properties":{"total":{"type":"integer"}}}"#;
    let agent = reviewer().model(model.clone()).build().unwrap();
    let other = agent
        .clone()
        .with_answer(AnswerSchema::from_json(schema).unwrap());
    let (run, _events) = other
        .stream(vec![Message::user("1 + 1")], None)
        .await
        .unwrap();
    let done = run.execution().await;
    assert_eq!(done.answer.unwrap().as_str(), r#"{"total":2}"#);
    // The agent itself is unchanged.
    let done = agent.execute(None, "1 + 1").await.unwrap();
    assert!(
        matches!(done.answer_fault, Some(AnswerFault::NotSchema(_))),
        "{done:?}"
    );
}

#[tokio::test]
async fn a_session_agent_answers_in_the_schema_set_by_code_or_policy() {
    let ask = || request("1 + 1").agent(named("reviewer"));
    for written in [WRITTEN, AS_TEXT] {
        let orchestrator = builder(mending()).tool(look()).policy(policy(written));
        let finished = run_to_end(&orchestrator.build().unwrap(), ask()).await;
        finished.assert_valid(RunStatus::Done);
        assert_eq!(
            finished.result.answer.unwrap().as_str(),
            r#"{"is_fine":true}"#
        );
        // It may be corrected once and no more.
        let never = ScriptedModel::always(reply::text("It is fine."));
        let never = Arc::new(never);
        let orchestrator = builder(never.clone()).policy(policy(written));
        let finished = run_to_end(&orchestrator.build().unwrap(), ask()).await;
        assert_eq!(
            (finished.result.status, never.requests().len()),
            (RunStatus::Failed, 2)
        );
        assert!(finished.result.answer_fault.is_some());
    }
    let agent = reviewer().build().unwrap();
    let orchestrator = builder(mending())
        .tool(look())
        .agent(agent)
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, ask()).await;
    assert_eq!(
        finished.result.answer.unwrap().as_str(),
        r#"{"is_fine":true}"#
    );
    // Other agents answer with plain text.
    let finished = run_to_end(&orchestrator, request("1 + 1")).await;
    assert_eq!(
        (finished.result.answer, finished.result.answer_fault),
        (None, None)
    );
    // A request for a different form gets that form.
    let schema =
        r#"{"type":"object","required":["other"],"properties":{"other":{"type":"string"}}}"#;
    let other = ask().answer(AnswerSchema::from_json(schema).unwrap());
    assert!(
        run_to_end(&orchestrator, other)
            .await
            .result
            .answer
            .is_none()
    );
}

/// A lead that repeats the reviewer's result.
fn leading(reviews: fn() -> neuraxis_core::Reply) -> ScriptedModel {
    ScriptedModel::answering(move |request| {
        let messages = request.messages.messages();
        let asks = request
            .tools
            .iter()
            .any(|tool| tool.name.as_str() == "reviewer");
        let result = messages.iter().find_map(|message| match message.as_ref() {
            Message::Tool(tool) => Some(tool.content.as_str().to_owned()),
            _ => None,
        });
        match (asks, result) {
            (true, Some(result)) => reply::text(result),
            (true, None) => reply::calls([("reviewer", r#"{"task":"1 + 1"}"#)]),
            (false, _) => reviews(),
        }
    })
}

#[tokio::test]
async fn a_parent_receives_a_sub_agent_s_valid_answer_as_json_and_no_invalid_one() {
    let finished = |reviews: fn() -> neuraxis_core::Reply| async move {
        let below = Agent::builder("reviewer")
            .tools_named(["none_*"])
            .answer::<Verdict>();
        let lead = Agent::builder("lead").agent(below.build().unwrap());
        let orchestrator = builder(leading(reviews)).agent(lead.build().unwrap());
        let orchestrator = orchestrator.build().unwrap();
        run_to_end(&orchestrator, request("go").agent(named("lead"))).await
    };
    let fits = finished(|| reply::text("```json\n{\"is_fine\":false}\n```")).await;
    fits.assert_valid(RunStatus::Done);
    assert_eq!(fits.result.reply, r#"{"is_fine":false}"#);
    let wrong = finished(|| reply::text("It is fine.")).await;
    assert!(
        wrong.result.reply.contains("the agent gave no answer"),
        "{}",
        wrong.result.reply
    );
    let asked_again = wrong.records();
    let asked_again = asked_again.iter().filter(|record| {
        matches!(&record.body, RecordBody::PromptInjected(_)) && record.agent.0 == 1
    });
    assert!(asked_again.count() >= 2, "{:?}", wrong.kinds());
    neuraxis_engine::replay(&Default::default(), &fits.records()).unwrap();
}

#[test]
fn an_unusable_answer_schema_is_refused_when_the_agent_is_built() {
    let list = Agent::builder("a").answer::<Vec<u8>>().build().unwrap_err();
    assert!(matches!(list, BuildError::Answer { .. }), "{list}");
    let wrong = "[agents.a]\nanswer = { schema = '{\"type\":\"array\"}' }";
    let orchestrator = builder(ScriptedModel::new()).policy(policy(wrong));
    let error = orchestrator.build().unwrap_err();
    assert!(matches!(error, BuildError::Answer { .. }), "{error}");
}
