//! Tools' questions in the middle of their calls, answered over HTTP.

use std::sync::Arc;
use std::time::Duration;

use neuraxis::core::{Field, FieldKind, JsonText, Question};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{QuestionReply, SessionStore};
use neuraxis::{Orchestrator, Role};
use neuraxis_testkit::{AskingTool, ScriptedModel, mcp_script, reply, spec};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::mcp::{Posting, message_with};
use crate::support::client::{Frame, answer};
use crate::support::in_process::{InProcess, TOKEN};
use crate::support::program::folder_with;
use crate::support::{Client, Program};

/// An MCP server that asks for a size in a call, and returns the answer as its result.
const SHOP: &str = r#"call() { mine=$id
    printf '{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Which size?","requestedSchema":{"type":"object","properties":{"size":{"type":"string","enum":["s","l"]}},"required":["size"]}}}\n'
    IFS= read -r line
    id=$mine; text "$(printf %s "$line" | tr -d '"\\')"; }"#;

fn buying() -> Arc<AskingTool> {
    let size = FieldKind::Integer {
        min: Some(1),
        max: Some(9),
    };
    let mut size = Field::new("size", size);
    size.required = true.into();
    let question = Question::new("shop", "Which size?").field(size);
    Arc::new(AskingTool::new(spec("buy").read_only(), question))
}

fn engine(tool: &Arc<AskingTool>, store: &Arc<dyn SessionStore>) -> Orchestrator {
    let model = ScriptedModel::new()
        .then(reply::calls([("buy", "{}")]))
        .then(reply::text("Done."));
    Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::clone(tool) as _)
        .store(Arc::clone(store))
        .questions_open_for(Duration::from_secs(50))
        .build()
        .unwrap()
}

fn store() -> Arc<dyn SessionStore> {
    Arc::new(MemoryStore::new())
}

fn turn() -> Value {
    json!({"message": "Buy."})
}

/// Answers a question, with the token.
fn say(client: &Client, run: &Value, question: &Value, body: &Value) -> RequestBuilder {
    let (run, question) = (run.as_str().unwrap(), question.as_str().unwrap());
    client
        .post(&format!("/api/v1/runs/{run}/questions/{question}"))
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .body(body.to_string())
}

/// Waits until the only run of a session asks, and returns its id and the question.
async fn asked(client: &Client, session: &str) -> (Value, Value) {
    loop {
        let listed = client.get(&format!("/api/v1/runs?session={session}"));
        let (_, page) = answer(listed).await;
        if let Some(id) = page["runs"][0]["run_id"].as_str() {
            let (_, run) = answer(client.get(&format!("/api/v1/runs/{id}"))).await;
            if let Some(question) = run["questions"].get(0) {
                return (json!(id), question.clone());
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_question_is_an_event_and_accepts_only_a_fitting_answer_with_the_token() {
    let tool = buying();
    let server = InProcess::serve(engine(&tool, &store())).await;
    let client = server.client();
    let mut events = client.listen("s1", &turn()).await;
    let Frame { id, data, .. } = events.next_named("question").await;
    assert_eq!(id, None, "no record tells of it");
    assert_eq!(
        (&data["from"], &data["message"]),
        (&json!("shop"), &json!("Which size?"))
    );
    let fields = json!([{"name": "size", "kind": "integer", "min": 1, "max": 9, "required": true}]);
    assert_eq!(data["fields"], fields);
    let (run, question) = (&data["run_id"], &data["question_id"]);
    let path = format!("/api/v1/runs/{}", run.as_str().unwrap());
    let (_, shown) = answer(client.get(&path)).await;
    assert_eq!(&shown["questions"][0]["question_id"], question);

    // A late subscriber sees it too.
    let mut late = client.events(client.get(&format!("{path}/events"))).await;
    let seen = late.next_named("question").await.data;
    assert_eq!(&seen["question_id"], question);

    let fits = json!({"action": "accept", "content": {"size": 7}});
    let without = client.post(&format!("{path}/questions/{}", question.as_str().unwrap()));
    let without = without.header("content-type", "application/json");
    let (status, problem) = answer(without.body(fits.to_string())).await;
    assert_eq!(
        (status, &problem["type"]),
        (401, &json!("/errors/token-needed"))
    );
    for (body, kind, field) in [
        (json!({}), "invalid-field", json!("action")),
        (
            json!({"action": "accept"}),
            "invalid-field",
            json!("content.size"),
        ),
        (
            json!({"action": "accept", "content": 7}),
            "invalid-field",
            json!("content"),
        ),
        (
            json!({"action": "accept", "content": {"size": 10}}),
            "invalid-field",
            json!("content.size"),
        ),
        (
            json!({"action": "decline", "content": {}}),
            "invalid-field",
            json!("content"),
        ),
    ] {
        let (status, problem) = answer(say(&client, run, question, &body)).await;
        assert_eq!(status, 400, "{body}");
        assert_eq!(problem["type"], format!("/errors/{kind}"), "{body}");
        assert_eq!(problem["field"], field, "{body}");
    }
    let (status, problem) = answer(say(&client, run, &json!("other"), &fits)).await;
    assert_eq!(
        (status, &problem["type"]),
        (404, &json!("/errors/no-such-question"))
    );

    let (status, answered) = answer(say(&client, run, question, &fits)).await;
    assert_eq!((status, &answered["question_id"]), (202, question));
    let settled = events.next_named("question_settled").await.data;
    assert_eq!(
        (&settled["question_id"], &settled["outcome"]),
        (question, &json!("answered"))
    );
    events.next_named("final").await;
    let heard = QuestionReply::Answered(JsonText::from_text(r#"{"size":7}"#));
    assert_eq!(tool.replies(), [heard]);
    let (status, problem) = answer(say(&client, run, question, &fits)).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/run-ended"))
    );
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_without_listeners_still_asks_as_a_turn_and_as_a_chat() {
    for (path, body, session) in [
        ("/api/v1/sessions/s1/turns", turn(), "s1"),
        (
            "/v1/chat/completions",
            json!({"model": "neuraxis", "user": "x", "messages": [{"role": "user", "content": "Buy."}]}),
            "",
        ),
    ] {
        for (said, heard) in [
            (json!({"action": "decline"}), QuestionReply::Declined),
            (json!({"action": "cancel"}), QuestionReply::Cancelled),
        ] {
            let tool = buying();
            let server = InProcess::serve(engine(&tool, &store())).await;
            let client = server.client();
            let request = client
                .post(path)
                .header("content-type", "application/json")
                .body(body.to_string());
            let turn = tokio::spawn(async move { request.send().await.unwrap().status() });
            let (run, question) = match session {
                "" => any_asked(&client).await,
                session => asked(&client, session).await,
            };
            let (status, _) = answer(say(&client, &run, &question["question_id"], &said)).await;
            assert_eq!(status, 202);
            assert_eq!(turn.await.unwrap(), 200, "{path}");
            assert_eq!(tool.replies(), [heard], "{path}");
            server.stop().await.unwrap();
        }
    }
}

/// Like [`asked`], in any session.
async fn any_asked(client: &Client) -> (Value, Value) {
    loop {
        let (_, page) = answer(client.get("/api/v1/sessions")).await;
        if let Some(session) = page["sessions"][0]["id"].as_str() {
            return asked(client, session).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_drive_the_run_reports_that_it_runs_elsewhere() {
    let (tool, store) = (buying(), store());
    let here = InProcess::serve(engine(&tool, &store)).await;
    let there = InProcess::serve(engine(&buying(), &store)).await;
    let (client, other) = (here.client(), there.client());
    let mut events = client.listen("s1", &turn()).await;
    let data = events.next_named("question").await.data;
    let (run, question) = (&data["run_id"], &data["question_id"]);
    let decline = json!({"action": "decline"});
    let (status, problem) = answer(say(&other, run, question, &decline)).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/at-work-elsewhere"))
    );
    // A load balancer can retry the same answer at the server that knows the question.
    let refused = say(&other, run, question, &decline).send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "5");
    let path = format!("/api/v1/runs/{}", run.as_str().unwrap());
    let (_, shown) = answer(other.get(&path)).await;
    assert_eq!(shown.get("questions"), None);
    assert_eq!(answer(say(&client, run, question, &decline)).await.0, 202);
    events.next_named("final").await;
    here.stop().await.unwrap();
    there.stop().await.unwrap();
}

#[tokio::test]
async fn an_ag_ui_front_end_receives_the_path_for_the_answer() {
    let tool = buying();
    let server = InProcess::serve(engine(&tool, &store())).await;
    let client = server.client();
    let input = json!({
        "threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [],
        "messages": [{"id": "u1", "role": "user", "content": "Buy."}],
    });
    let request = client
        .post("/agui")
        .header("content-type", "application/json")
        .body(input.to_string());
    let run = tokio::spawn(async move { request.send().await.unwrap().text().await.unwrap() });
    let (run_id, question) = asked(&client, "t1").await;
    let said = json!({"action": "accept", "content": {"size": 7}});
    let id = &question["question_id"];
    assert_eq!(answer(say(&client, &run_id, id, &said)).await.0, 202);
    let received = run.await.unwrap();
    let received = received
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    let received: Vec<Value> = received
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let custom = |name: &str| {
        let found = received.iter().find(|it| it["name"] == name);
        found.unwrap_or_else(|| panic!("{received:?}"))["value"].clone()
    };
    let asked = custom("question");
    assert_eq!((&asked["questionId"], &asked["from"]), (id, &json!("shop")));
    let (run_id, id) = (run_id.as_str().unwrap(), id.as_str().unwrap());
    let place = format!("/api/v1/runs/{run_id}/questions/{id}");
    assert_eq!(asked["answerAt"], place);
    assert_eq!(custom("question_settled")["outcome"], "answered");
    assert_eq!(received.last().unwrap()["type"], "RUN_FINISHED");
    server.stop().await.unwrap();
}

/// Starts the program with an MCP server that asks, and waits until its tool is offered. `more` goes into the section
/// `server`.
pub(crate) async fn program(more: &str) -> Program {
    let config = format!(
        "[server]\n{more}\n[mcp.servers.shop]\ncommand = '/bin/sh'\nargs = ['shop.sh']\n\
         [trust.shop]\ntools = ['shop__*']\nclass = 'read_only'\nopen_world = false\ndestructive = false\n"
    );
    let folder = folder_with(&config);
    std::fs::write(folder.path().join("shop.sh"), mcp_script(SHOP)).unwrap();
    let program = Program::start_in(folder, |_| {}).await;
    let client = program.client();
    loop {
        let (_, tools) = answer(client.get("/api/v1/tools")).await;
        if tools.to_string().contains("shop__look") {
            return program;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a client that presents the decision token.
pub(crate) fn local(program: &Program) -> Client {
    let file = program.folder().join(".local/share/neuraxis/server.token");
    let token = std::fs::read_to_string(file).unwrap();
    Client::with_key(program.url(), token.trim())
}

#[tokio::test]
async fn an_mcp_server_can_ask_the_user_unless_the_configuration_forbids_it() {
    let look = json!({"message": "shop__look {}"});
    let asking = program("").await;
    let client = asking.client();
    let local = local(&asking);
    let mut events = client.listen("s1", &look).await;
    let data = events.next_named("question").await.data;
    assert_eq!(data["fields"][0]["choices"][1]["value"], "l");
    let (run, question) = (&data["run_id"], &data["question_id"]);
    let path = format!(
        "/api/v1/runs/{}/questions/{}",
        run.as_str().unwrap(),
        question.as_str().unwrap()
    );
    let said = json!({"action": "accept", "content": {"size": "l"}}).to_string();
    let request = local.post(&path).header("content-type", "application/json");
    assert_eq!(answer(request.body(said)).await.0, 202);
    let result = events.next_named("tool_result").await.data.to_string();
    assert!(result.contains("content:{size:l}"), "{result}");
    events.rest().await;
    #[cfg(unix)]
    {
        let folder = asking.stopped().await;
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        let mut lines = log.lines();
        let said = lines.find(|line| line.contains("a tool's question was answered"));
        for part in [
            question.as_str().unwrap(),
            "action=\"accept\"",
            "the local user",
        ] {
            assert!(said.unwrap().contains(part), "{log}");
        }
    }

    let silent = program("question_ms = 0").await;
    let mut events = silent.client().listen("s1", &look).await;
    let result = events.next_named("tool_result").await.data.to_string();
    assert!(result.contains("action:decline"), "{result}");

    let hasty = program("question_ms = 50").await;
    let mut events = hasty.client().listen("s1", &look).await;
    let settled = events.next_named("question_settled").await.data;
    assert_eq!(settled["outcome"], "expired");
    let result = events.next_named("tool_result").await.data.to_string();
    assert!(result.contains("action:cancel"), "{result}");
}

#[tokio::test]
async fn a_question_of_an_mcp_server_arrives_in_the_response_to_the_call_of_an_mcp_client() {
    let program = program("").await;
    let client = Posting::begin(local(&program)).await;
    let params = json!({"name": "ask", "arguments": {"message": "shop__look {}"}});
    // Different from the id that the server's own client uses for its call.
    let call = json!({"jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": params});
    let mut stream = client.send(call).await;
    let asked = message_with(&mut stream, "elicitation/create").await;
    let result = json!({"action": "accept", "content": {"size": "l"}});
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    assert_eq!(client.send(answer).await.status(), 202);
    let done = message_with(&mut stream, "structuredContent").await;
    assert_eq!(done["id"], "mine");
    assert_eq!(
        done["result"]["structuredContent"]["status"], "done",
        "{done}"
    );
}
