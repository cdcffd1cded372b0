//! The API's document compared to what the server does. The answers in other tests are checked against it too.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::client::answer;
use crate::support::program::folder_with;
use crate::support::{Program, contract};

/// A configuration in which sums need approval: no other test uses them by accident.
const ASKS: &str =
    "[rules.sums]\nanswer = 'ask'\ntools = ['calculate']\nreason = 'Sums are private.'\n";

/// The number of requests of each kind per operation.
const EXAMPLES: &str = "15";

#[tokio::test]
async fn the_served_document_matches_the_file_in_docs() {
    let program = Program::start().await;
    let (status, served) = answer(program.client().get("/openapi.json")).await;
    assert_eq!(status, 200);
    let kept: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    // Both texts are too long for a failure message.
    assert!(served == kept, "docs/openapi.json is not what is served");
}

#[test]
fn an_answer_with_a_missing_undescribed_or_invalid_field_is_detected() {
    let schema = json!({ "$ref": "#/components/schemas/Session" });
    let session = json!({ "id": "s", "created_at": "2026-01-02T03:04:05Z" });
    assert_eq!(contract::faults(&schema, &session), [""; 0]);
    let mut more = session.clone();
    more["color"] = json!("red");
    assert_eq!(contract::faults(&schema, &more).len(), 1);
    let less = json!({ "id": "s" });
    assert_eq!(contract::faults(&schema, &less).len(), 1);
    let other = json!({ "id": "a/b", "created_at": "2026-01-02T03:04:05Z" });
    assert_eq!(contract::faults(&schema, &other).len(), 1);
}

#[test]
fn the_examples_match_the_schemas_of_the_document() {
    let mut examples = 0;
    for (path, methods) in contract::document()["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            let responses = operation["responses"].as_object().unwrap().values();
            for body in responses.chain([&operation["requestBody"]]) {
                let content = body["content"].as_object().into_iter().flatten();
                for (_, media) in content.filter(|(_, media)| media.get("example").is_some()) {
                    let faults = contract::faults(&media["schema"], &media["example"]);
                    assert_eq!(faults, [""; 0], "{path}");
                    examples += 1;
                }
            }
        }
    }
    assert!(examples > 10, "{examples}");
}

#[tokio::test]
async fn policy_explain_refuses_a_message_that_a_turn_would_refuse() {
    let program = Program::start().await;
    let explain = |message: &str| {
        let body = json!({ "message": message }).to_string();
        let request = program.client().post("/api/v1/policy/explain");
        request
            .header("content-type", "application/json")
            .body(body)
    };
    for message in ["", " \n"] {
        let (status, problem) = answer(explain(message)).await;
        assert_eq!((status, &problem["field"]), (400, &json!("message")));
    }
    assert_eq!(answer(explain("What time is it?")).await.0, 200);
}

#[tokio::test]
async fn a_missing_token_is_answered_with_the_expected_scheme() {
    let program = Program::start().await;
    let path = "/api/v1/runs/01955f00-7a00-7000-8000-000000000001/approvals/x";
    let request = program.client().post(path).body("{}");
    let request = request.header("content-type", "application/json");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
}

/// Schemathesis generates requests from the document, valid and invalid ones, also in sequences that follow its links,
/// and checks the answers.
#[tokio::test]
#[ignore = "needs schemathesis: run by cargo xtask test"]
async fn requests_generated_from_the_document_find_no_faults() {
    let tester = std::env::var("TEST_NEURAXIS_SCHEMATHESIS").unwrap();
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    // A waiting call, so that decisions have something to decide.
    let sum = json!({ "message": r#"calculate {"expression": "6*7"}"# });
    let (_, result) = program.client().ask("waits", &sum).await;
    assert_eq!(result["status"], "waiting");
    let token = program.folder().join(".local/share/neuraxis/server.token");
    let token = std::fs::read_to_string(token).unwrap();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/schemathesis.toml");
    let found = Command::new(tester)
        .current_dir(program.folder())
        .env_clear()
        .env("HOME", program.folder())
        .env("PATH", "/usr/bin:/bin")
        .arg("--config-file")
        .arg(config)
        .args(["run", &format!("{}/openapi.json", program.url())])
        .args(["--checks", "all", "--mode", "all", "--no-color"])
        // The same requests each time.
        .arg("--generation-deterministic")
        .args(["--max-examples", EXAMPLES, "--request-timeout", "20"])
        .args([
            "--header",
            &format!("Authorization: Bearer {}", token.trim()),
        ])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&found.stdout);
    let log = program.log();
    assert!(found.status.success(), "{text}\n{log}");
    assert!(!log.contains("panicked"), "{log}");
}
