//! OpenAI's API with third-party clients: the official ones, and the AI SDK.

use std::ffi::OsString;
use std::process::Output;

use neuraxis_testkit::{Script, ScriptedModel, reply};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::in_process::InProcess;

fn greeting() -> Script {
    let greeting = reply::using(reply::reasoned("A greeting.", "Hi there."), 9, 3);
    Script::from(greeting).split(3)
}

fn looks_up() -> Script {
    let calls = reply::calls([("weather", r#"{"city":"Oslo"}"#)]);
    Script::from(calls).split(4)
}

fn told(done: &Output) -> Value {
    let problems = String::from_utf8_lossy(&done.stderr);
    let told = serde_json::from_slice(&done.stdout);
    told.unwrap_or_else(|_| panic!("{done:?} {problems}"))
}

fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is set by cargo xtask test"))
}

#[tokio::test]
#[ignore = "needs clients of OpenAI's API: cargo xtask test provides them"]
async fn the_official_client_for_python_chats_streams_calls_and_responds() {
    let model = ScriptedModel::new()
        .then(greeting())
        .then(greeting())
        .then(looks_up())
        .then(reply::text("Take a coat."))
        .then(reply::text(r#"{"n":42}"#))
        .then(reply::text("Noted."))
        .then(looks_up())
        .then(reply::text("Take a coat."));
    let server = InProcess::of(model).await;
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/server/openai_clients/client.py"
    );
    let mut python = Command::new(variable("TEST_NEURAXIS_OPENAI_PYTHON"));
    let done = python.arg(script).arg(&server.url).kill_on_drop(true);
    let told = told(&done.output().await.unwrap());

    let models = told["models"].as_array().unwrap();
    assert!(models.contains(&json!("neuraxis")), "{told}");
    assert_eq!(told["whole"], json!(["Hi there.", "stop", 12]));
    assert_eq!(told["streamed"], json!(["Hi there.", "A greeting.", 12]));
    assert_eq!(
        told["tool"],
        json!(["weather", {"city": "Oslo"}, "Take a coat."])
    );
    assert_eq!(told["parsed"], 42);
    let responses = json!([
        "Noted.",
        "weather",
        "Take a coat.",
        "completed",
        "response.created",
        "response.completed"
    ]);
    assert_eq!(told["responses"], responses);
    assert_eq!(told["again"], "Take a coat.");
    assert_eq!(told["error"], json!(["no_such_model", "model"]));
}

#[tokio::test]
#[ignore = "needs clients of OpenAI's API: cargo xtask test provides them"]
async fn the_official_client_for_javascript_and_the_ai_sdk_chat_stream_and_call() {
    let model = ScriptedModel::new()
        .then(greeting())
        .then(looks_up())
        .then(reply::text("Take a coat."))
        .then(greeting())
        .then(looks_up())
        .then(reply::text("Take a scarf."))
        .then(looks_up())
        .then(reply::text("Take gloves."))
        .then(looks_up())
        .then(reply::text("Take a coat, it is cold."))
        .then(greeting())
        .then(looks_up())
        .then(Script::from(reply::text("Take boots, it is wet.")).split(5));
    let server = InProcess::of(model).await;
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/server/openai_clients/client.cjs"
    );
    let mut node = Command::new("node");
    let done = node
        .arg(script)
        .arg(&server.url)
        .env("NODE_PATH", variable("TEST_NEURAXIS_OPENAI_NODE"))
        .kill_on_drop(true);
    let told = told(&done.output().await.unwrap());

    assert_eq!(told["whole"], json!(["Hi there.", "stop"]));
    assert_eq!(
        told["tool"],
        json!(["weather", {"city": "Oslo"}, "Take a coat."])
    );
    assert_eq!(
        told["response"],
        json!(["Hi there.", "Hi there.", "completed"])
    );
    let weather = json!(["weather", {"city": "Oslo"}]);
    assert_eq!(
        told["responseTool"],
        json!([weather, "Take a scarf.", "completed"])
    );
    assert_eq!(
        told["responseToolStreamed"],
        json!([weather, r#"{"city":"Oslo"}"#, "Take gloves."])
    );
    assert_eq!(told["sdk"], json!(["Take a coat, it is cold.", 2]));
    assert_eq!(told["sdkStreamed"], json!(["Hi there.", "stop"]));
    assert_eq!(
        told["sdkToolStreamed"],
        json!([[weather], "Oslo: 3 degrees", "Take boots, it is wet.", 2])
    );
}
