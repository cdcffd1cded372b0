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

fn output_json(done: &Output) -> Value {
    let problems = String::from_utf8_lossy(&done.stderr);
    let output = serde_json::from_slice(&done.stdout);
    output.unwrap_or_else(|_| panic!("{done:?} {problems}"))
}

fn variable(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is set by cargo xtask test"))
}

#[tokio::test]
#[ignore = "needs clients of OpenAI's API: cargo xtask test provides them"]
async fn the_official_python_client_can_chat_stream_call_tools_and_use_responses() {
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
    let output = output_json(&done.output().await.unwrap());

    let models = output["models"].as_array().unwrap();
    assert!(models.contains(&json!("neuraxis")), "{output}");
    assert_eq!(output["whole"], json!(["Hi there.", "stop", 12]));
    assert_eq!(output["streamed"], json!(["Hi there.", "A greeting.", 12]));
    assert_eq!(
        output["tool"],
        json!(["weather", {"city": "Oslo"}, "Take a coat."])
    );
    assert_eq!(output["parsed"], 42);
    let responses = json!([
        "Noted.",
        "weather",
        "Take a coat.",
        "completed",
        "response.created",
        "response.completed"
    ]);
    assert_eq!(output["responses"], responses);
    assert_eq!(output["again"], "Take a coat.");
    assert_eq!(output["error"], json!(["no_such_model", "model"]));
}

#[tokio::test]
#[ignore = "needs clients of OpenAI's API: cargo xtask test provides them"]
async fn the_official_javascript_client_and_the_ai_sdk_can_chat_stream_and_call_tools() {
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
    let output = output_json(&done.output().await.unwrap());

    assert_eq!(output["whole"], json!(["Hi there.", "stop"]));
    assert_eq!(
        output["tool"],
        json!(["weather", {"city": "Oslo"}, "Take a coat."])
    );
    assert_eq!(
        output["response"],
        json!(["Hi there.", "Hi there.", "completed"])
    );
    let weather = json!(["weather", {"city": "Oslo"}]);
    assert_eq!(
        output["responseTool"],
        json!([weather, "Take a scarf.", "completed"])
    );
    assert_eq!(
        output["responseToolStreamed"],
        json!([weather, r#"{"city":"Oslo"}"#, "Take gloves."])
    );
    assert_eq!(output["sdk"], json!(["Take a coat, it is cold.", 2]));
    assert_eq!(output["sdkStreamed"], json!(["Hi there.", "stop"]));
    assert_eq!(
        output["sdkToolStreamed"],
        json!([[weather], "Oslo: 3 degrees", "Take boots, it is wet.", 2])
    );
}
