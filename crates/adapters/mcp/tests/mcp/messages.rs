//! The log messages of servers, which must be requested.

use serde_json::json;

use crate::service::{answer, serve, usual};
use crate::support::{call, ready, script_in, until};

#[tokio::test]
async fn a_server_that_supports_logging_is_asked_for_the_wanted_log_level() {
    let folder = tempfile::tempdir().unwrap();
    let logging = r#"begin() { answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}'; }
        other() { echo "$line" >> heard; }"#;
    let server = ready(script_in(folder.path(), logging)).await;
    let heard = || std::fs::read_to_string(folder.path().join("heard")).unwrap_or_default();
    until("it is asked", || heard().contains("logging/setLevel")).await;
    // Only warnings are requested: no subscriber accepts more.
    assert!(heard().contains(r#""level":"warning""#), "{}", heard());
    // The server does not answer that request, and its tools still work.
    assert!(call(&server, "shop__look", "{}").await.is_ok());
}

#[tokio::test]
async fn a_server_without_logging_is_not_asked_for_a_log_level() {
    let folder = tempfile::tempdir().unwrap();
    let plain = r#"other() { echo "$line" >> heard; }"#;
    let server = ready(script_in(folder.path(), plain)).await;
    call(&server, "shop__look", "{}").await.unwrap();
    let heard = std::fs::read_to_string(folder.path().join("heard")).unwrap_or_default();
    assert!(!heard.contains("setLevel"), "{heard}");
}

#[tokio::test]
async fn the_current_protocol_sends_the_log_level_with_each_call() {
    let service = serve(|asked| match asked["method"].as_str().unwrap_or_default() {
        "server/discover" => answer(
            asked,
            &json!({
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "logging": {}},
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
            }),
        ),
        "tools/list" => answer(
            asked,
            &json!({
                "tools": [{"name": "look", "inputSchema": {"type": "object"}}],
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            }),
        ),
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    assert_eq!(server.report().protocol, "2026-07-28");
    call(&server, "shop__look", "{}").await.unwrap();
    let heard = service.heard.lock().unwrap();
    let called = heard.iter().find(|asked| asked["method"] == "tools/call");
    let meta = &called.unwrap()["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "warning");
    assert_eq!(
        meta["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
}
