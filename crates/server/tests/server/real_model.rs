//! Turns through a real llama-server, with the scripted model that `cargo xtask test` provides, and without any model
//! server.

use neuraxis_testkit::LlamaServer;
use serde_json::{Value, json};

use crate::support::Program;

async fn program(base_url: &str) -> Program {
    let folder = tempfile::tempdir().unwrap();
    Program::start_in(folder, |command| {
        command
            .env("NEURAXIS_MODELS__REASONING__PROVIDER", "llama")
            .env("NEURAXIS_MODELS__REASONING__BASE_URL", base_url);
    })
    .await
}

async fn as_json(program: &Program, session: &str, question: &Value) -> Value {
    let response = program.client().turn(session, question).send().await;
    let response = response.unwrap();
    assert_eq!(response.status(), 200);
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn the_server_gives_the_same_answer_as_json_and_as_events() {
    let llama = LlamaServer::start();
    let program = program(&llama.base_url()).await;
    let question = json!({"message": "How is this machine?", "channel": "system_health"});

    let result = as_json(&program, "json", &question).await;
    assert_eq!(result["status"], "done", "{result}");
    let reply = result["reply"].as_str().unwrap();
    assert!(reply.contains("Tool results read: 1"), "{result}");

    let frames = program.client().listen("events", &question).await;
    let frames = frames.rest().await;
    let deltas = frames.iter().filter(|frame| frame.event == "text_delta");
    let text: String = deltas
        .map(|delta| delta.data["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, reply);
    let last = frames.last().unwrap();
    assert_eq!(
        (last.event.as_str(), &last.data["content"]),
        ("final", &json!(reply))
    );
}

#[tokio::test]
async fn an_unreachable_model_fails_the_run_and_not_the_request() {
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let program = program(&nobody).await;
    let question = json!({"message": "Hello?"});
    let result = as_json(&program, "s", &question).await;
    assert_eq!(result["status"], "failed");
    let reply = result["reply"].as_str().unwrap();
    assert!(
        reply.starts_with("This could not be finished: no connection"),
        "{reply}"
    );
    // The session is free again.
    let again = as_json(&program, "s", &question).await;
    assert_eq!(again["status"], "failed");
}
