//! The conversion of the errors that Anthropic documents.

use std::time::Duration;

use neuraxis_core::{JsonText, LlmErrorKind, ReplyFormat, TokenCount};
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::json;

use crate::shapes::{answer, message, named_events, pieces, redacted, streamed, text};
use crate::{CANARY, both, client, json, respond, stream};

const fn server(status: u16) -> LlmErrorKind {
    LlmErrorKind::server(Some(status))
}

/// Status, type, message, and meaning.
const DOCUMENTED: [(u16, &str, &str, LlmErrorKind); 17] = [
    (
        400,
        "invalid_request_error",
        "max_tokens: Field required",
        LlmErrorKind::BadRequest,
    ),
    (
        400,
        "invalid_request_error",
        "prompt is too long: 215000 tokens > 200000 maximum",
        LlmErrorKind::ContextOverflow {
            limit: Some(200_000),
            needed: Some(215_000),
        },
    ),
    (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
        LlmErrorKind::ContextOverflow {
            limit: Some(200_000),
            needed: Some(190_000),
        },
    ),
    (
        400,
        "invalid_request_error",
        "Your credit balance is too low to use this service.",
        LlmErrorKind::QuotaExhausted,
    ),
    (
        400,
        "invalid_request_error",
        "You have reached your specified API usage limits.",
        LlmErrorKind::QuotaExhausted,
    ),
    (
        400,
        "invalid_request_error",
        "Output blocked by content filtering policy",
        LlmErrorKind::ContentFiltered,
    ),
    (
        401,
        "authentication_error",
        "invalid x-api-key sk-ant-canary-5f1e",
        LlmErrorKind::Unauthorized,
    ),
    (402, "billing_error", "pay", LlmErrorKind::QuotaExhausted),
    (403, "permission_error", "no", LlmErrorKind::Unauthorized),
    (
        404,
        "not_found_error",
        "model: claude-x",
        LlmErrorKind::ModelNotFound,
    ),
    (
        404,
        "not_found_error",
        "Not found",
        LlmErrorKind::BadRequest,
    ),
    (409, "conflict_error", "again", server(409)),
    (
        413,
        "request_too_large",
        "Request exceeds the maximum size",
        LlmErrorKind::BadRequest,
    ),
    (
        429,
        "rate_limit_error",
        "slow down",
        LlmErrorKind::RateLimited { retry_after: None },
    ),
    (500, "api_error", "Internal server error", server(500)),
    (504, "timeout_error", "timed out", server(504)),
    (529, "overloaded_error", "Overloaded", server(529)),
];

#[tokio::test]
async fn each_documented_error_maps_to_its_kind() {
    for (status, kind, message, expected) in DOCUMENTED {
        let error = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": null});
        let body = error.to_string();
        let server = Loopback::start(move |_| {
            Answer::whole(status, "content-type: application/json", &body)
        })
        .await;
        for error in both(&client(&server), &request("hi")).await {
            let error = error.unwrap_err();
            assert_eq!(error.kind, expected, "{status} {message}: {error}");
        }
    }
}

#[tokio::test]
async fn a_context_overflow_is_recognized_in_other_services_wording() {
    for (message, limit, needed) in [
        // MiniMax
        (
            "invalid params, context window exceeds limit (2013)",
            None,
            None,
        ),
        // Kimi
        (
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
            Some(262_144),
            Some(291_351),
        ),
    ] {
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        let body = error.to_string();
        for status in [400, 200] {
            let body = body.clone();
            let server = Loopback::start(move |_| {
                Answer::whole(status, "content-type: application/json", &body)
            })
            .await;
            for error in both(&client(&server), &request("hi")).await {
                let expected = LlmErrorKind::ContextOverflow { limit, needed };
                assert_eq!(error.unwrap_err().kind, expected, "{status} {message}");
            }
        }
    }
}

#[tokio::test]
async fn error_bodies_of_other_shapes_are_quoted_or_named() {
    for (status, headers, body, said) in [
        (
            413,
            "content-type: text/html",
            "<html>Too large</html>",
            "text/html",
        ),
        (
            400,
            "content-type: application/json",
            r#"{"error":"just text"}"#,
            "just text",
        ),
        (400, "x: y", "", "the server gave no reason"),
    ] {
        let server = Loopback::start(move |_| Answer::whole(status, headers, body)).await;
        for error in both(&client(&server), &request("hi")).await {
            let error = error.unwrap_err();
            assert_eq!(error.kind, LlmErrorKind::BadRequest, "{error}");
            assert!(error.message.contains(said), "{said}: {error}");
        }
    }
}

#[tokio::test]
async fn an_error_names_the_request_id() {
    let server = Loopback::start(|_| Answer::whole(500, "request-id: req_7", "{}")).await;
    for error in both(&client(&server), &request("hi")).await {
        let error = error.unwrap_err();
        assert!(error.message.contains("request req_7"), "{error}");
    }
}

#[tokio::test]
async fn a_rate_limit_carries_its_wait_and_a_spend_limit_is_quota_exhausted() {
    let limited = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let spent = r#"{"type":"error","error":{"type":"rate_limit_error","message":"no",
        "details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    let wait = |millis| LlmErrorKind::RateLimited {
        retry_after: Some(Duration::from_millis(millis)),
    };
    for (headers, body, expected) in [
        ("retry-after: 7", limited, wait(7_000)),
        (
            "retry-after-ms: 1500\r\nretry-after: 7",
            limited,
            wait(1_500),
        ),
        ("retry-after: 7", spent, LlmErrorKind::QuotaExhausted),
        (
            "x-should-retry: false",
            limited,
            LlmErrorKind::QuotaExhausted,
        ),
    ] {
        let server = Loopback::start(move |_| Answer::whole(429, headers, body)).await;
        for error in both(&client(&server), &request("hi")).await {
            assert_eq!(error.unwrap_err().kind, expected, "{headers}");
        }
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_has_the_kind_of_its_type_and_keeps_the_usage() {
    for (kind, expected) in [
        ("overloaded_error", LlmErrorKind::server(None)),
        ("api_error", LlmErrorKind::server(None)),
        ("timeout_error", LlmErrorKind::server(None)),
        ("something_new", LlmErrorKind::server(None)),
        (
            "rate_limit_error",
            LlmErrorKind::RateLimited { retry_after: None },
        ),
        ("invalid_request_error", LlmErrorKind::BadRequest),
        ("billing_error", LlmErrorKind::QuotaExhausted),
    ] {
        let mut events = streamed(&message(&[text("Good day.")], "end_turn"));
        events.truncate(5);
        let error = json!({"type": kind, "message": format!("busy {CANARY}")});
        events.push(json!({"type": "error", "error": error, "request_id": "req_8"}));
        let server = Loopback::start(move |_| pieces(&named_events(&events))).await;
        let error = stream(&client(&server), &request("hi")).await.unwrap_err();
        assert_eq!(error.kind, expected, "{kind}");
        assert!(error.message.contains("busy [redacted]"), "{error}");
        assert!(error.message.contains("req_8"), "{error}");
        let used = error.usage.expect("the usage is kept");
        assert_eq!(used.prompt, TokenCount::measured(50));
        // A stream begins with a count of 1, whatever follows: "Good day" arrived.
        assert_eq!(used.completion, TokenCount::estimated(2));
        assert_eq!(used.total, TokenCount::estimated(52));
    }
}

#[tokio::test]
async fn a_reply_cut_off_in_hidden_thinking_has_only_a_minimum_token_count() {
    let mut events = streamed(&message(&[redacted(), text("a")], "end_turn"));
    events.truncate(4);
    let server = Loopback::start(move |_| pieces(&named_events(&events))).await;
    let error = stream(&client(&server), &request("hi")).await.unwrap_err();
    let used = error.usage.expect("the usage is kept");
    assert_eq!(used.prompt, TokenCount::measured(50));
    let least = |tokens| TokenCount {
        tokens,
        ..TokenCount::UNKNOWN
    };
    assert_eq!((used.completion, used.total), (least(1), least(51)));
}

#[tokio::test]
async fn an_error_body_with_status_200_is_an_error() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    let server = Loopback::start(move |_| Answer::json(body)).await;
    for error in both(&client(&server), &request("hi")).await {
        let error = error.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::server(None));
        assert!(error.message.contains("busy"), "{error}");
    }
}

#[tokio::test]
async fn a_schema_too_complex_for_the_service_is_sent_as_text_from_then_on() {
    let schema =
        r#"{"type":"object","properties":{"x":{"type":["string","null"]}},"required":["x"]}"#;
    for said in [
        "output_config.format.schema: Schema is too complex for compilation.",
        "The compiled grammar is too large, which would cause performance issues.",
        "Schemas contains too many parameters with union types (17 parameters).",
    ] {
        let error =
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}});
        let error = error.to_string();
        let server = Loopback::start(move |seen| match seen.body.contains("output_config") {
            true => Answer::whole(400, "content-type: application/json", &error),
            false => answer(seen),
        })
        .await;
        let client = client(&server);
        let mut request = request("hi");
        request.reply_format = ReplyFormat::JsonSchema {
            name: "x".into(),
            schema: JsonText::from_text(schema),
        };
        respond(&client, &request).await.unwrap();
        stream(&client, &request).await.unwrap();
        let seen = server.seen();
        assert_eq!(seen.len(), 3, "{said}");
        let told = json(&seen[2]);
        let words = told["messages"][0]["content"][1]["text"].as_str().unwrap();
        assert!(words.contains(schema), "{words}");
    }
}
