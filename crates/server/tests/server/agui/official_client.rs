//! The official client, `@ag-ui/client` 1.0, which refuses events in a wrong order.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use neuraxis::core::{LlmError, LlmErrorKind};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::Tool;
use neuraxis::{Agent, DecideLater, Orchestrator, Role, RunStatus};
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::in_process::{InProcess, TOKEN};

/// Runs a scene of the script and returns what the client saw.
async fn play(server: &InProcess, scene: &str) -> Value {
    let packages = std::env::var_os("TEST_NEURAXIS_AGUI_CLIENT").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/agui/client.cjs");
    let mut node = Command::new("node");
    node.args([script, &server.url, scene, TOKEN])
        .env("NODE_PATH", packages)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let done = timeout(Duration::from_secs(60), node.output()).await;
    let done = done.unwrap().unwrap();
    let seen = serde_json::from_slice(&done.stdout);
    seen.unwrap_or_else(|_| panic!("{scene}: {done:?}"))
}

/// Serves a model, and a tool that needs a user's approval.
async fn serve(model: ScriptedModel) -> (InProcess, Orchestrator, Arc<ScriptedTool>) {
    let refund = Arc::new(ScriptedTool::echoing(spec("refund")));
    let look = ScriptedTool::echoing(spec("look").read_only());
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tools(vec![Arc::clone(&refund) as Arc<dyn Tool>, Arc::new(look)])
        .approver(Arc::new(DecideLater))
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve(orchestrator.clone()).await;
    (server, orchestrator, refund)
}

/// Checks the client's warnings: none is about the order or the form of events.
fn clean(seen: &Value) {
    assert_eq!(seen["warnings"], json!([]), "{seen}");
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn text_reasoning_and_server_side_calls_arrive_as_messages() {
    let model = ScriptedModel::new()
        .then(reply::text_and_calls(
            "I look.",
            [("look", "{}"), ("look", r#"{"at":2}"#)],
        ))
        .then(Script::from(reply::reasoned("So it is.", "It is mild.")).split(3))
        .then(reply::text("Good night."));
    let (server, ..) = serve(model).await;
    let seen = play(&server, "talk").await;
    clean(&seen);
    let roles: Vec<&Value> = seen["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["role"])
        .collect();
    let first = [
        "user",
        "assistant",
        "tool",
        "tool",
        "reasoning",
        "assistant",
        "user",
        "assistant",
    ];
    assert_eq!(
        roles,
        first.map(Value::from).iter().collect::<Vec<_>>(),
        "{seen}"
    );
    let calls = seen["messages"][1]["toolCalls"].as_array().unwrap();
    assert_eq!(
        (seen["messages"][1]["content"].as_str(), calls.len()),
        (Some("I look."), 2)
    );
    assert_eq!(seen["messages"][4]["content"], "So it is.");
    assert_eq!(seen["messages"][5]["content"], "It is mild.");
    assert_eq!(seen["messages"][7]["content"], "Good night.");
    server.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn a_front_end_tool_runs_there_and_its_result_continues_the_run() {
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", r#"{"city":"Oslo"}"#)]))
        .then(reply::text("Take a coat."));
    let (server, ..) = serve(model).await;
    let seen = play(&server, "frontend_tool").await;
    clean(&seen);
    assert_eq!(
        seen["called"],
        json!([["weather", {"city": "Oslo"}]]),
        "{seen}"
    );
    assert_eq!(
        seen["messages"].as_array().unwrap().last().unwrap()["content"],
        "Take a coat."
    );
    server.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn a_person_at_the_front_end_can_approve_deny_and_edit() {
    for (scene, ran, result) in [
        ("approve", 1, "17"),
        ("deny", 0, "not today"),
        ("edit", 1, "18"),
    ] {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", r#"{"order":17}"#)]))
            .then(reply::text("So be it."));
        let (server, _, refund) = serve(model).await;
        let seen = play(&server, scene).await;
        clean(&seen);
        assert_eq!(refund.count(), ran, "{scene}: {seen}");
        let messages = seen["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages
            .iter()
            .map(|it| it["role"].as_str().unwrap())
            .collect();
        assert_eq!(
            roles,
            ["user", "assistant", "tool", "assistant"],
            "{scene}: {seen}"
        );
        let content = messages[2]["content"].as_str().unwrap();
        assert!(content.contains(result), "{scene}: {seen}");
        assert_eq!(messages[3]["content"], "So be it.");
        server.stop().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn an_interrupt_decided_elsewhere_can_be_cancelled_and_the_thread_continues() {
    for (scene, code) in [
        ("decided_elsewhere", json!("not-asked")),
        ("message_instead", Value::Null),
    ] {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", r#"{"order":17}"#)]))
            .then(reply::text("So be it."))
            .then(reply::text("Sleep well."));
        let (server, _, refund) = serve(model).await;
        let seen = play(&server, scene).await;
        assert_eq!(seen["code"], code, "{scene}: {seen}");
        assert_eq!(seen["pending"], json!([]), "{scene}: {seen}");
        let last = seen["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["content"], "Sleep well.", "{scene}: {seen}");
        assert_eq!(refund.count(), 0);
        server.stop().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn events_of_a_sub_agent_carry_its_id() {
    let small = ScriptedModel::new()
        .then(reply::calls([("look", "{}")]))
        .then(reply::text("True."));
    let critic = Agent::builder("check_facts")
        .description("Checks facts.")
        .instructions("You check facts.")
        .model(Arc::new(small))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .build()
        .unwrap();
    let model = ScriptedModel::new()
        .then(reply::calls([("check_facts", r#"{"task":"It is mild."}"#)]))
        .then(reply::text("It is."));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .agent_tool(critic)
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve(orchestrator).await;
    let seen = play(&server, "ask").await;
    clean(&seen);
    let events = seen["told"].as_array().unwrap();
    let of = |kind: &str| -> Vec<&Value> {
        let of_kind = events.iter().filter(|it| it[0] == kind);
        of_kind.map(|it| &it[1]).collect()
    };
    let critic = of("SUBAGENT_STARTED")[0];
    assert!(critic.is_string(), "{seen}");
    assert_eq!(of("SUBAGENT_FINISHED"), [critic]);
    assert_eq!(of("TOOL_CALL_START"), [&Value::Null, critic]);
    assert_eq!(of("TEXT_MESSAGE_START"), [critic, &Value::Null]);
    server.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn the_text_of_a_broken_off_reply_is_removed() {
    let broken = LlmError::new(LlmErrorKind::Connection, "reset by peer");
    let broken = Script::from(reply::text("It is false, I believe."))
        .split(3)
        .fail_at(2, broken);
    let model = ScriptedModel::new()
        .then(broken)
        .then(reply::text("It is true."));
    let (server, ..) = serve(model).await;
    let seen = play(&server, "ask").await;
    clean(&seen);
    let messages = seen["messages"].as_array().unwrap();
    let said: Vec<&Value> = messages.iter().map(|it| &it["content"]).collect();
    assert_eq!(said, ["Is it true?", "It is true."], "{seen}");
    server.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn a_failed_run_is_an_error_to_the_client() {
    let (server, ..) = serve(ScriptedModel::new()).await;
    let seen = play(&server, "error").await;
    assert_eq!(seen["code"], "run-failed", "{seen}");
    let (server, ..) = serve(ScriptedModel::new()).await;
    let seen = play(&server, "refused").await;
    assert!(seen["error"].as_str().unwrap().contains("403"), "{seen}");
    server.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "needs the client of AG-UI: cargo xtask test provides it"]
async fn a_client_that_aborts_ends_the_run() {
    let (server, orchestrator, _) = serve(ScriptedModel::always(Script::hanging())).await;
    play(&server, "abort").await;
    let session = "thread-1".parse().unwrap();
    let sessions = orchestrator.sessions();
    loop {
        let runs = sessions.runs(&session).await.unwrap().unwrap();
        if runs[0].log.status == RunStatus::Interrupted {
            break;
        }
        tokio::task::yield_now().await;
    }
    server.stop().await.unwrap();
}
