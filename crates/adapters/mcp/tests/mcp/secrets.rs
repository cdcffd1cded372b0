//! Secrets that a server was given and repeats anyway: they are never shown.

use std::sync::Arc;

use neuraxis_core::JsonText;
use neuraxis_mcp::{McpServerConfig, Transport};
use neuraxis_ports::{QuestionReply, QuestionSender, Secret, ToolSource};
use neuraxis_testkit::{ScriptedApprover, tool_context};
use serde_json::{Value, json};

use crate::service::{Reply, answer, serve, usual};
use crate::support::{call, call_in, notices, ready, script, start, tool};

fn with_key(acts: &str) -> McpServerConfig {
    with_this_key("k-canary-123", acts)
}

fn with_this_key(key: &str, acts: &str) -> McpServerConfig {
    let mut config = script(acts);
    let Transport::Stdio(program) = &mut config.transport else {
        unreachable!()
    };
    let key = Secret::new(key);
    program.env.insert("SHOP_KEY".to_owned(), key);
    config
}

#[tokio::test]
async fn no_secret_variable_appears_in_tools_answers_or_notices() {
    let telling = r#"
        begin() { answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"'$SHOP_KEY'","version":"1"}}'; }
        list() { answer '{"tools":[{"name":"look","description":"Looks with '$SHOP_KEY'.","inputSchema":{"description":"'$SHOP_KEY'"}},
            {"name":"'$SHOP_KEY' x","inputSchema":{}}]}'; }
        call() { echo "noise $SHOP_KEY"; echo "error: $SHOP_KEY" >&2
          case $line in
            *fail*) answer '{"isError":true,"content":[{"type":"text","text":"no such key: '$SHOP_KEY'"}]}' ;;
            *refuse*) refuse -32602 "bad key $SHOP_KEY" ;;
            *structured*) answer '{"content":[],"structuredContent":{"key":["'$SHOP_KEY'"]}}' ;;
            *) text "seen $SHOP_KEY" ;;
          esac; }"#;
    let telling = telling.replace("},\n            {", "},{");
    let server = ready(with_key(&telling)).await;
    let spec = tool(&server, "shop__look").spec().clone();
    assert_eq!(&*spec.description, "Looks with [redacted].");
    let output = call(&server, "shop__look", "{}").await.unwrap();
    assert_eq!(output.value.as_text(), "seen [redacted]");
    let output = call(&server, "shop__look", r#"{"a":"structured"}"#).await;
    let output = format!("{:?}", output.unwrap());
    let failed = call(&server, "shop__look", r#"{"a":"fail"}"#).await;
    let failed = failed.unwrap_err().message;
    assert_eq!(failed, "no such key: [redacted]");
    let refused = call(&server, "shop__look", r#"{"a":"refuse"}"#).await;
    let refused = refused.unwrap_err().message;
    assert!(refused.contains("bad key [redacted]"), "{refused}");
    let told = notices(&server);
    assert!(told.contains("noise [redacted]"), "{told}");
    let all = format!("{spec:?} {output} {told} {:?}", server.report());
    assert!(!all.contains("canary"), "{all}");
}

#[tokio::test]
async fn no_secret_appears_in_an_exit_reason_or_a_question() {
    let server = start(with_key(r#"echo "error: bad key $SHOP_KEY" >&2; exit 1"#));
    let why = server.ready().await.unwrap_err();
    assert!(why.contains("error: bad key [redacted]"), "{why}");
    let asking = r#"call() { mine=$id
        printf '{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Is %s yours?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","default":"%s"}}}}}\n' "$SHOP_KEY" "$SHOP_KEY"
        IFS= read -r line; id=$mine; text done; }"#;
    let answer = QuestionReply::Answered(JsonText::from_text(r#"{"a":"x"}"#));
    let approver = Arc::new(ScriptedApprover::new().answering(answer));
    let mut ctx = tool_context();
    ctx.questions = QuestionSender::to(approver.clone());
    let server = ready(with_key(asking)).await;
    call_in(&server, "shop__look", "{}", ctx).await.unwrap();
    let asked = format!("{:?}", approver.questions());
    assert!(asked.contains("Is [redacted] yours?"), "{asked}");
    assert!(!asked.contains("canary"), "{asked}");
}

#[tokio::test]
async fn no_part_of_a_long_secret_appears_in_an_exit_reason() {
    let telling = r#"echo "error: bad key $SHOP_KEY" >&2; exit 1"#;
    let server = start(with_this_key(&"k-canary-123".repeat(300), telling));
    let why = server.ready().await.unwrap_err();
    assert!(why.contains("error: bad key [redacted]"), "{why}");
    assert!(!why.contains("canary"), "{why}");
}

#[tokio::test]
async fn no_line_of_a_multi_line_secret_appears_in_an_exit_reason() {
    let key = format!(
        "-----BEGIN KEY-----\n{}\n-----END KEY-----",
        "k-canary-123".repeat(5)
    );
    let telling = r#"printf '%s\n' "$SHOP_KEY" >&2; exit 1"#;
    let server = start(with_this_key(&key, telling));
    let why = server.ready().await.unwrap_err();
    assert!(why.contains("/ [redacted] /"), "{why}");
    assert!(!why.contains("canary"), "{why}");
}

#[tokio::test]
async fn no_token_or_secret_header_appears_in_answers_or_errors() {
    let telling = |asked: &Value| -> Reply {
        let said = "t-canary-123 h-canary-123";
        match asked["method"].as_str().unwrap_or_default() {
            "tools/call" if asked.to_string().contains("fail") => Reply::of(
                "400 Bad Request",
                "text/plain",
                format!("{} {said}", "x".repeat(290)),
            ),
            "tools/call" => answer(asked, &json!({"content": [{"type": "text", "text": said}]})),
            _ => usual(asked),
        }
    };
    let service = serve(telling).await;
    let mut config = service.config();
    let Transport::Http(http) = &mut config.transport else {
        unreachable!()
    };
    http.token = Some(Secret::new("t-canary-123"));
    let header = Secret::new("Basic h-canary-123");
    http.headers.insert("x-key".to_owned(), header);
    let server = ready(config).await;
    let output = call(&server, "shop__look", "{}").await.unwrap();
    assert_eq!(output.value.as_text(), "[redacted] [redacted]");
    let failed = call(&server, "shop__look", r#"{"a":"fail"}"#).await;
    let failed = failed.unwrap_err().message;
    assert!(!failed.contains("canar"), "{failed}");
    assert!(!notices(&server).contains("canar"));
    assert!(!server.tools().is_empty());
}
