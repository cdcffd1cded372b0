//! HTTP services that send invalid messages or go away, like [`hostile`](crate::hostile) for programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use neuraxis_core::Attempt;
use neuraxis_mcp::Transport;
use neuraxis_ports::{Persistence, Secret, ToolSource};
use neuraxis_testkit::tool_context;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::service::{Reply, answer, serve, serve_at, usual};
use crate::support::{call, call_in, names, notices, ready, start, until};

pub(crate) fn method(asked: &Value) -> &str {
    asked["method"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn an_answer_that_is_not_from_an_mcp_server_is_explained_in_plain_words() {
    for (status, content_type, body, said) in [
        (
            "200 OK",
            "text/html",
            "<html>Hello",
            "with content type \"text/html\" instead of a message",
        ),
        (
            "200 OK",
            "application/json",
            "{\"jsonrpc\"",
            "not a message of the protocol",
        ),
        (
            "200 OK",
            "application/json",
            "[1,2]",
            "not a message of the protocol",
        ),
        ("404 Not Found", "text/plain", "no such page", "status 404"),
        (
            "500 Internal Server Error",
            "text/plain",
            "oops",
            "status 500",
        ),
        ("301 Moved Permanently", "text/plain", "", "status 301"),
        ("200 OK", "text/event-stream", "data: noise\n\n", ""),
    ] {
        let service = serve(move |_| Reply::of(status, content_type, body)).await;
        let mut config = service.config();
        config.start_timeout = std::time::Duration::from_secs(3);
        let why = start(config).ready().await.unwrap_err();
        assert!(why.contains(said), "{said} in {why}");
        for word in ["rmcp", "Transport", "cannot be reached", "::", "Error("] {
            assert!(!why.contains(word), "{word} in {why}");
        }
    }
}

#[tokio::test]
async fn a_service_with_an_unusable_discover_answer_gets_the_legacy_handshake() {
    type Answering = fn(&Value) -> Reply;
    let answers: [Answering; 4] = [
        |_| Reply::of("500 Oops", "text/plain", "x"),
        |_| Reply::of("403 Forbidden", "text/plain", ""),
        |_| Reply::of("200 OK", "application/json", ""),
        |asked| answer(asked, &json!({})),
    ];
    for odd in answers {
        let service = serve(move |asked| match method(asked) {
            "server/discover" => odd(asked),
            _ => usual(asked),
        })
        .await;
        let server = ready(service.config()).await;
        assert_eq!(server.report().protocol, "2025-11-25");
        let output = call(&server, "shop__look", "{}").await.unwrap();
        assert_eq!(output.value.as_text(), "fine");
    }
}

#[tokio::test]
async fn a_service_that_fails_both_handshakes_is_reported_with_both_reasons() {
    let service = serve(|asked| match method(asked) {
        "server/discover" => Reply::of("500 Oops", "text/plain", "x"),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            Reply::json(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}))
        }
    })
    .await;
    let why = start(service.config()).ready().await.unwrap_err();
    assert!(why.contains("status 500"), "{why}");
    assert!(
        why.ends_with("; asked in another way: unknown (code -32601)"),
        "{why}"
    );
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let service = serve(usual).await;
    let config = service.config();
    drop(service);
    let why = start(config).ready().await.unwrap_err();
    assert!(why.contains("it cannot be reached: "), "{why}");
    assert!(why.to_lowercase().contains("refused"), "{why}");
    assert!(!why.contains("rmcp"), "{why}");
}

#[tokio::test]
async fn an_invalid_answer_fails_only_its_own_call() {
    type Answering = fn(&Value) -> Reply;
    let answers: [(&str, Answering); 6] = [
        ("not a message of the protocol", |_| Reply::json("noise")),
        ("content type", |_| Reply::of("200 OK", "text/html", "<p>")),
        ("status 500", |_| Reply::of("500 Oops", "text/plain", "x")),
        ("", |asked| {
            let error = json!({"code": 1, "message": "x"});
            Reply::json(
                json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}, "error": error}),
            )
        }),
        ("", |asked| {
            Reply::json(json!({"jsonrpc": "2.0", "id": asked["id"]}))
        }),
        ("broke off", |asked| {
            let mut reply = answer(asked, &json!({"content": []}));
            reply.missing = 1_000;
            reply
        }),
    ];
    for (said, bad) in answers {
        let service = serve(move |asked| {
            let is_bad = method(asked) == "tools/call" && asked.to_string().contains("bad");
            if is_bad { bad(asked) } else { usual(asked) }
        })
        .await;
        let server = ready(service.config()).await;
        let error = call(&server, "shop__look", r#"{"a":"bad"}"#).await;
        if let Err(error) = error {
            assert!(error.message.contains(said), "{said} in {}", error.message);
            assert!(error.message.contains("shop"), "{}", error.message);
            assert!(!error.message.contains("rmcp"), "{}", error.message);
        } else {
            assert_eq!(said, "", "it has to fail");
        }
        let after = call(&server, "shop__look", r#"{"a":"good"}"#).await;
        assert_eq!(after.unwrap().value.as_text(), "fine", "{said}");
    }
}

#[tokio::test]
async fn a_call_with_an_unreadable_answer_has_an_unknown_outcome() {
    for (status, content_type, body) in [
        ("200 OK", "application/json", "{\"jso"),
        ("200 OK", "text/html", "<p>Booked.</p>"),
        ("504 Gateway Timeout", "text/html", "<p>It takes long.</p>"),
    ] {
        let service = serve(move |asked| match method(asked) {
            "tools/call" => Reply::of(status, content_type, body),
            _ => usual(asked),
        })
        .await;
        let server = ready(service.config()).await;
        let error = call(&server, "shop__look", "{}").await.unwrap_err();
        assert_eq!(error.persistence, Persistence::Unknown, "{error}");
        let told = &error.message;
        assert!(
            told.ends_with("unknown whether the call took effect"),
            "{told}"
        );
        assert!(!told.contains("failed:"), "{told}");
    }
}

#[tokio::test]
async fn a_call_with_a_lost_answer_has_an_unknown_outcome() {
    let service = serve(|asked| {
        let is_cut = method(asked) == "tools/call" && asked.to_string().contains("cut");
        if is_cut { Reply::none() } else { usual(asked) }
    })
    .await;
    let server = ready(service.config()).await;
    let error = call(&server, "shop__look", r#"{"a":"cut"}"#)
        .await
        .unwrap_err();
    assert_eq!(error.persistence, Persistence::Unknown, "{error}");
    assert!(
        error
            .message
            .ends_with("unknown whether the call took effect"),
        "{error}"
    );
    assert!(!error.message.contains("did not reach it"), "{error}");
    // The service is still connected, and its calls still work.
    let after = call(&server, "shop__look", "{}").await;
    assert_eq!(after.unwrap().value.as_text(), "fine");
}

#[tokio::test]
async fn an_answer_with_another_request_id_is_not_accepted() {
    let service = serve(|asked| match method(asked) {
        "tools/call" => {
            let result = json!({"content": [{"type": "text", "text": "not yours"}]});
            Reply::json(json!({"jsonrpc": "2.0", "id": 99_999, "result": result}))
        }
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    let called = call(&server, "shop__look", "{}");
    let called = tokio::time::timeout(std::time::Duration::from_secs(2), called).await;
    if let Ok(answered) = called {
        assert!(
            !format!("{answered:?}").contains("not yours"),
            "{answered:?}"
        );
    }
}

#[tokio::test]
async fn endless_lists_and_unusable_schemas_are_cut_or_excluded() {
    let service = serve(|asked| match method(asked) {
        "tools/list" => {
            let cursor = asked["params"]["cursor"].as_str().unwrap_or("0");
            let next = cursor.parse::<u32>().unwrap() + 1;
            let tool = json!({"name": format!("t{next}"), "inputSchema": {}});
            answer(
                asked,
                &json!({"tools": [tool], "nextCursor": next.to_string()}),
            )
        }
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    assert_eq!(names(&server).len(), 100);
    assert!(notices(&server).contains("more than 100 pages"));
    let service = serve(|asked| match method(asked) {
        "tools/list" => {
            let many = (0..10_000).map(|at| json!({"name": format!("t{at}"), "inputSchema": {}}));
            answer(asked, &json!({"tools": many.collect::<Vec<_>>()}))
        }
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    assert_eq!(names(&server).len(), 1_000);
    let service = serve(|asked| match method(asked) {
        "tools/list" => {
            let cyclic = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
            let large = json!({"description": "x".repeat(5_000_000)});
            let tools = json!([
                {"name": "a\nb", "inputSchema": {}},
                {"name": "twice", "inputSchema": {}}, {"name": "twice", "inputSchema": {}},
                {"name": "large", "inputSchema": large},
                {"name": "cyclic", "inputSchema": cyclic},
                {"name": "good", "inputSchema": {}},
            ]);
            answer(asked, &json!({"tools": tools}))
        }
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    assert_eq!(names(&server), ["shop__cyclic", "shop__good"]);
}

#[tokio::test]
async fn an_unsupported_protocol_version_is_reported_with_the_supported_ones() {
    let service = serve(|asked| match method(asked) {
        "initialize" => answer(
            asked,
            &json!({"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}),
        ),
        _ => usual(asked),
    })
    .await;
    let why = start(service.config()).ready().await.unwrap_err();
    assert!(
        why.ends_with("(2024-11-05 to 2026-07-28), only: 1999-01-01"),
        "{why}"
    );
}

#[tokio::test]
async fn a_lost_service_is_reported_and_reconnected() {
    let service = serve(usual).await;
    let port = service.port;
    let server = ready(service.config()).await;
    assert!(call(&server, "shop__look", "{}").await.is_ok());
    drop(service);
    let error = call(&server, "shop__look", "{}").await.unwrap_err();
    assert!(error.message.contains("did not reach it"), "{error}");
    assert_eq!(
        error.persistence,
        Persistence::Temporary,
        "{}",
        error.message
    );
    assert!(
        error.message.contains("MCP server shop is gone"),
        "{}",
        error.message
    );
    until("it is told of", || server.report().trouble.is_some()).await;
    let told = notices(&server);
    assert!(
        told.contains("the connection to MCP server shop was lost"),
        "{told}"
    );
    let _again = serve_at(port, usual).await;
    until("it is back", || server.report().trouble.is_none()).await;
    let after = call(&server, "shop__look", "{}").await.unwrap();
    assert_eq!(after.value.as_text(), "fine");
    assert!(server.version() > 0);
}

#[tokio::test]
async fn a_service_that_refuses_its_token_temporarily_is_reconnected() {
    let service = serve(usual).await;
    let port = service.port;
    let server = ready(service.config()).await;
    drop(service);
    // The earlier attempt may have reached it.
    let mut again = tool_context();
    again.attempt = Attempt(2);
    let error = call_in(&server, "shop__look", "{}", again).await;
    let error = error.unwrap_err();
    assert!(error.message.contains("earlier attempt"), "{error}");
    assert!(!error.message.contains("did not reach it"), "{error}");
    let refuses = Arc::new(AtomicBool::new(true));
    let refusing = Arc::clone(&refuses);
    let _again = serve_at(port, move |asked| match refusing.load(Ordering::Relaxed) {
        // After the content type comes the header that requests a token.
        true => Reply::of(
            "401 Unauthorized",
            "text/plain\r\nwww-authenticate: Bearer",
            "",
        ),
        false => usual(asked),
    })
    .await;
    until("the refusal is seen", || {
        let trouble = server.report().trouble;
        trouble.is_some_and(|why| why.contains("it requires a token"))
    })
    .await;
    refuses.store(false, Ordering::Relaxed);
    until("it is back", || server.report().trouble.is_none()).await;
    let after = call(&server, "shop__look", "{}").await.unwrap();
    assert_eq!(after.value.as_text(), "fine");
}

#[tokio::test]
async fn a_missing_or_rejected_token_is_reported_with_the_reason() {
    let service = serve(|_| {
        let challenge = "text/plain\r\nwww-authenticate: Bearer error=\"invalid_token\", error_description=\"it expired\"";
        Reply::of("401 Unauthorized", challenge, "")
    })
    .await;
    let why = start(service.config()).ready().await.unwrap_err();
    assert!(why.starts_with("it requires a token: set"), "{why}");
    let mut config = service.config();
    let Transport::Http(address) = &mut config.transport else {
        unreachable!()
    };
    address.token = Some(Secret::new("tok-canary"));
    let why = start(config).ready().await.unwrap_err();
    assert_eq!(why, "it rejects the token that it is sent: it expired");
}

#[tokio::test]
async fn a_connection_that_cannot_list_its_tools_is_closed() {
    let service = serve(|asked| match method(asked) {
        "initialize" => Reply {
            // After the content type comes the header that names a protocol session.
            content_type: "application/json\r\nmcp-session-id: one",
            ..usual(asked)
        },
        "tools/list" => {
            let error = json!({"code": -32603, "message": "busy"});
            Reply::json(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}))
        }
        _ => usual(asked),
    })
    .await;
    let server = start(service.config());
    let why = server.ready().await.unwrap_err();
    assert!(why.contains("busy"), "{why}");
    until("its session is ended", || {
        let heard = service.heard.lock().unwrap();
        heard.iter().any(|asked| *asked == "DELETE")
    })
    .await;
}

#[tokio::test]
async fn a_broken_subscription_is_renewed_and_missed_changes_are_seen() {
    let subscriptions = AtomicUsize::new(0);
    let service = serve(move |asked| match method(asked) {
        "server/discover" => answer(
            asked,
            &json!({
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": true}},
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
            }),
        ),
        "subscriptions/listen" => {
            subscriptions.fetch_add(1, Ordering::Relaxed);
            let acknowledged = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {
                    "notifications": {"toolsListChanged": true},
                    "_meta": {"io.modelcontextprotocol/subscriptionId": asked["id"]},
                },
            });
            let events = format!("data: {acknowledged}\n\n");
            Reply::of("200 OK", "text/event-stream", events)
        }
        "tools/list" => {
            let mut tools = vec![json!({"name": "look", "inputSchema": {"type": "object"}})];
            if subscriptions.load(Ordering::Relaxed) > 1 {
                tools.push(json!({"name": "more", "inputSchema": {"type": "object"}}));
            }
            answer(
                asked,
                &json!({"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}),
            )
        }
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    until("the change is seen", || server.tools().len() == 2).await;
    assert!(server.report().trouble.is_none());
}

#[tokio::test]
async fn many_calls_to_one_service_run_concurrently() {
    // No request is answered before all have arrived.
    let all = Arc::new(Barrier::new(20));
    let service = serve(move |asked| {
        let mut reply = usual(asked);
        reply.together = (method(asked) == "tools/call").then(|| Arc::clone(&all));
        reply
    })
    .await;
    let server = ready(service.config()).await;
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let server = Arc::clone(&server);
        calls.spawn(async move { call(&server, "shop__look", "{}").await });
    }
    let answered = tokio::time::timeout(std::time::Duration::from_secs(20), calls.join_all()).await;
    for output in answered.expect("some wait for others to be answered") {
        assert_eq!(output.unwrap().value.as_text(), "fine");
    }
}

#[tokio::test]
async fn a_hanging_service_affects_only_its_own_calls() {
    let hanging = serve(|asked| match method(asked) {
        "tools/call" => {
            let mut reply = Reply::of("200 OK", "text/event-stream", ": nothing yet\n\n");
            reply.missing = 1_000;
            reply
        }
        _ => usual(asked),
    })
    .await;
    let well = serve(usual).await;
    let (bad, good) = (ready(hanging.config()).await, ready(well.config()).await);
    let (hung, answered) = tokio::join!(
        tokio::time::timeout(
            std::time::Duration::from_secs(2),
            call(&bad, "shop__look", "{}")
        ),
        call(&good, "shop__look", "{}"),
    );
    if let Ok(ended) = hung {
        ended.unwrap_err();
    }
    assert_eq!(answered.unwrap().value.as_text(), "fine");
}
