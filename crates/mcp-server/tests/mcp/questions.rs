//! What the client receives of tools' questions in the middle of a call, problems in a run, and the citations of an
//! answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{JsonText, RunStatus, Source, ToolOutput};
use neuraxis_mcp_server::McpServer;
use neuraxis_ports::{Field, FieldKind, Question, QuestionReply};
use neuraxis_testkit::{Act, AskingTool, ScriptedModel, ScriptedTool, reply, spec};
use rmcp::model::{CallToolResponse, InputRequiredResult};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::endings::{Silent, connect_silent};
use crate::support::{
    ERAS, INITIALIZE, Person, builder, connect, request, server, status, text, until,
};

/// A tool that asks for a size, as an MCP server's tool does.
fn asking() -> (Arc<AskingTool>, Arc<ScriptedModel>) {
    let size = FieldKind::Integer {
        min: Some(1),
        max: Some(9),
    };
    let question = Question::new("shop", "Which size?").field(Field::new("size", size));
    let tool = AskingTool::new(spec("look").read_only(), question);
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("That is all."));
    (Arc::new(tool), Arc::new(model))
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_tool_is_asked_and_the_tool_receives_the_answer() {
    for (answer, expected) in [
        (
            json!({"action": "accept", "content": {"size": 7}}),
            QuestionReply::Answered(JsonText::from_text(r#"{"size":7}"#)),
        ),
        (json!({"action": "decline"}), QuestionReply::Declined),
        (json!({"action": "cancel"}), QuestionReply::Cancelled),
    ] {
        for era in &ERAS {
            let (tool, model) = asking();
            let built = builder(&model, &[]).tool(Arc::clone(&tool) as _);
            let server = McpServer::new(built.build().unwrap());
            let person = Person::saying(answer.clone());
            let served = connect(&server, era, &person).await;
            let done = served.call("ask", json!({"message": "Look."})).await;
            assert_eq!(text(&done), "That is all.");
            assert_eq!(tool.replies(), std::slice::from_ref(&expected));
            let asked = person.questions();
            assert_eq!(asked.len(), 1);
            assert!(asked[0].starts_with("shop asks you"), "{}", asked[0]);
            assert!(asked[0].contains("    Which size?"), "{}", asked[0]);
            served.leave().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_is_asked_for_once_more() {
    let seven = QuestionReply::Answered(JsonText::from_text(r#"{"size":7}"#));
    for (second, expected) in [(7, seven), (11, QuestionReply::Declined)] {
        let (tool, model) = asking();
        let built = builder(&model, &[]).tool(Arc::clone(&tool) as _);
        let server = McpServer::new(built.build().unwrap());
        let sizes = Mutex::new(vec![second, 10]);
        let person = Person::answering(move |_| {
            let size = sizes.lock().unwrap().pop();
            let answer = json!({"action": "accept", "content": {"size": size}});
            Ok(serde_json::from_value(answer).unwrap())
        });
        let served = connect(&server, &INITIALIZE, &person).await;
        let done = served.call("ask", json!({"message": "Look."})).await;
        assert_eq!(text(&done), "That is all.");
        assert_eq!(tool.replies(), [expected]);
        assert_eq!(person.questions().len(), 2);
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_tool_is_declined_when_the_client_cannot_be_asked() {
    for era in &ERAS {
        let (tool, model) = asking();
        let built = builder(&model, &[]).tool(Arc::clone(&tool) as _);
        let server = McpServer::new(built.build().unwrap());
        let served = connect(&server, era, &Person::absent()).await;
        let done = served.call("ask", json!({"message": "Look."})).await;
        assert_eq!(text(&done), "That is all.");
        assert_eq!(tool.replies(), [QuestionReply::Declined]);
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_mcp_sessions_the_tool_waits_for_a_call_with_a_valid_answer() {
    let (tool, model) = asking();
    let orchestrator = builder(&model, &[]).tool(Arc::clone(&tool) as _);
    let orchestrator = orchestrator.build().unwrap();
    let permits = Arc::new(Semaphore::new(1));
    let server = McpServer::new(orchestrator.clone()).run_permits(Arc::clone(&permits));
    let person = Person::saying(json!({"action": "decline"}));
    let served = connect(&server, &ERAS[1], &person).await;
    let call = request("ask", json!({"message": "Look.", "session": "s1"}));
    let bring = |asked: InputRequiredResult, size: u32| {
        let question = asked.input_requests.unwrap().into_keys().next().unwrap();
        let answer = json!({"action": "accept", "content": {"size": size}});
        let mut next = call.clone();
        next.input_responses = Some([(question, answer)].into());
        next.request_state = asked.request_state;
        next
    };
    let answered = async |call| match served.client.call_tool_once(call).await.unwrap() {
        CallToolResponse::InputRequired(asked) => Ok(asked),
        CallToolResponse::Complete(done) => Err(text(&done).to_owned()),
        other => panic!("{other:?}"),
    };
    let asked = answered(call.clone()).await.unwrap();
    assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Running));
    assert_eq!(permits.available_permits(), 0, "the run has its permit");
    // An answer that does not fit is asked for again.
    let asked = answered(bring(asked, 10)).await.unwrap();
    let done = answered(bring(asked, 7)).await;
    assert_eq!(done.unwrap_err(), "That is all.");
    until("the permit is free", async || {
        permits.available_permits() == 1
    })
    .await;
    let expected = QuestionReply::Answered(JsonText::from_text(r#"{"size":7}"#));
    assert_eq!(tool.replies(), [expected]);
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn without_mcp_sessions_a_question_is_cancelled_when_the_client_never_returns() {
    let (tool, model) = asking();
    let orchestrator = builder(&model, &[]).tool(Arc::clone(&tool) as _);
    let orchestrator = orchestrator.build().unwrap();
    let server = McpServer::new(orchestrator.clone());
    let person = Person::saying(json!({"action": "decline"}));
    let served = connect(&server, &ERAS[1], &person).await;
    let call = request("ask", json!({"message": "Look.", "session": "s1"}));
    let asked = served.client.call_tool_once(call).await.unwrap();
    assert!(
        matches!(asked, CallToolResponse::InputRequired(_)),
        "{asked:?}"
    );
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    let is_done = async || status(&orchestrator, "s1").await == Some(RunStatus::Done);
    until("the run goes on", is_done).await;
    assert_eq!(tool.replies(), [QuestionReply::Cancelled]);
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_question_of_a_tool_is_cancelled() {
    let (tool, model) = asking();
    // The run has a longer deadline than the question.
    let longer = PolicyConfig::from_toml("[modes.moderate]\ndeadline = '10m'\n").unwrap();
    let built = builder(&model, &[]).policy(Policy::layered(longer).unwrap());
    let built = built.tool(Arc::clone(&tool) as _);
    let server = McpServer::new(built.build().unwrap());
    let person = Person::saying(json!({"action": "decline"}));
    let client = connect_silent(&server, Silent(person.clone())).await;
    // The virtual clock skips the minutes for which the question stays open.
    let call = request("ask", json!({"message": "Look."}));
    let done = client.call_tool(call).await.unwrap();
    assert_eq!(text(&done), "That is all.");
    assert_eq!(tool.replies(), [QuestionReply::Cancelled]);
    assert_eq!(person.questions().len(), 1);
    client.cancel().await.unwrap();
}

#[tokio::test(start_paused = true)]
#[expect(
    deprecated,
    reason = "the newest revision deprecates log messages, but most clients still use them"
)]
async fn a_client_that_enables_log_messages_receives_the_warnings_of_its_runs() {
    use rmcp::model::{LoggingLevel, SetLevelRequestParams};
    for (level, is_told) in [
        (None, false),
        (Some(LoggingLevel::Error), false),
        (Some(LoggingLevel::Warning), true),
        (Some(LoggingLevel::Debug), true),
    ] {
        let model = ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::text("It does not work."));
        let tool = ScriptedTool::always(spec("look").read_only(), Act::failure("broken"));
        let (server, _) = server(&Arc::new(model), &[Arc::new(tool)]);
        let person = Person::absent();
        let served = connect(&server, &INITIALIZE, &person).await;
        let info = served.client.peer_info().unwrap();
        assert!(info.capabilities.logging.is_some());
        if let Some(level) = level {
            let asked = SetLevelRequestParams::new(level);
            served.client.set_level(asked).await.unwrap();
        }
        served.call("ask", json!({"message": "Look."})).await;
        let messages = person.messages.lock().unwrap().clone();
        assert_eq!(!messages.is_empty(), is_told, "{level:?}: {messages:?}");
        assert!(
            messages.iter().all(|it| it.contains("look")),
            "{messages:?}"
        );
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_sources_an_answer_cites_are_in_its_structured_content() {
    let page = Source::new("https://a.example/one").titled("One");
    let output = ToolOutput::new(JsonText::string("It grows.")).with_source(page);
    let tool = ScriptedTool::always(spec("look").read_only(), Act::output(output));
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("It grows (https://a.example/one)."));
    let checked = "[agents.main_thread]\ncitations = 'checked'\n";
    let policy = Policy::layered(PolicyConfig::from_toml(checked).unwrap()).unwrap();
    let built = builder(&Arc::new(model), &[Arc::new(tool)]).policy(policy);
    let server = McpServer::new(built.build().unwrap());
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    let done = served.call("ask", json!({"message": "Does it?"})).await;
    let known = done.structured_content.as_ref().unwrap();
    let sources = json!([{"url": "https://a.example/one", "title": "One"}]);
    assert_eq!(known["sources"], sources, "{known}");
    served.leave().await;
}
