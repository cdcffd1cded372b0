//! What tools ask in the middle of a call, what went wrong in a run, and what an answer cites: told to the client.

use std::sync::{Arc, Mutex};

use neuraxis_brainstem::{Policy, PolicyConfig};
use neuraxis_core::{JsonText, Source, ToolOutput, ToolSpec};
use neuraxis_mcp_server::McpServer;
use neuraxis_ports::{
    Field, FieldKind, Question, QuestionReply, Tool, ToolContext, ToolError, async_trait,
};
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::json;

use crate::support::{ERAS, INITIALIZE, Person, builder, connect, server, text};

/// A tool that asks for a size, as one of an MCP server does, and notes the answers.
#[derive(Debug)]
struct Asking {
    spec: ToolSpec,
    heard: Mutex<Vec<QuestionReply>>,
}

#[async_trait]
impl Tool for Asking {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        let size = FieldKind::Integer {
            min: Some(1),
            max: Some(9),
        };
        let question = Question::new("shop", "Which size?").field(Field::new("size", size));
        let reply = ctx.person.ask(&question).await;
        self.heard.lock().unwrap().push(reply);
        Ok(ToolOutput::new(JsonText::string("done")))
    }
}

fn asking() -> (Arc<Asking>, Arc<ScriptedModel>) {
    let tool = Asking {
        spec: spec("look").read_only().into(),
        heard: Mutex::default(),
    };
    let model = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("That is all."));
    (Arc::new(tool), Arc::new(model))
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_tool_is_put_to_the_person_and_the_answer_goes_back() {
    for (answer, expected) in [
        (
            json!({"action": "accept", "content": {"size": 7}}),
            QuestionReply::Answered(JsonText::from_text(r#"{"size":7}"#)),
        ),
        (json!({"action": "decline"}), QuestionReply::Declined),
        (json!({"action": "cancel"}), QuestionReply::Cancelled),
    ] {
        let (tool, model) = asking();
        let built = builder(&model, &[]).tool(Arc::clone(&tool) as _);
        let server = McpServer::new(built.build().unwrap());
        let person = Person::saying(answer);
        let served = connect(&server, &INITIALIZE, &person).await;
        let done = served.call("ask", json!({"message": "Look."})).await;
        assert_eq!(text(&done), "That is all.");
        assert_eq!(*tool.heard.lock().unwrap(), [expected]);
        let asked = person.questions();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].starts_with("shop asks you"), "{}", asked[0]);
        assert!(asked[0].contains("    Which size?"), "{}", asked[0]);
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_declined_where_the_client_cannot_be_asked_while_the_call_goes_on() {
    let approving = json!({"action": "accept", "content": {"size": 7}});
    for (era, person) in [
        (&ERAS[0], Person::absent()),
        (&ERAS[1], Person::saying(approving)),
    ] {
        let (tool, model) = asking();
        let built = builder(&model, &[]).tool(Arc::clone(&tool) as _);
        let server = McpServer::new(built.build().unwrap());
        let served = connect(&server, era, &person).await;
        let done = served.call("ask", json!({"message": "Look."})).await;
        assert_eq!(text(&done), "That is all.");
        assert_eq!(*tool.heard.lock().unwrap(), [QuestionReply::Declined]);
        assert!(person.questions().is_empty());
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
#[expect(
    deprecated,
    reason = "the newest revision is to lose log messages one day, and most clients know them"
)]
async fn a_client_that_asks_for_log_messages_hears_the_warnings_of_its_runs() {
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
async fn the_pages_that_an_answer_cites_stand_in_its_structured_content() {
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
