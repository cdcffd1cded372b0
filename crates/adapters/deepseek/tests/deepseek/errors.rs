//! How DeepSeek's errors are handled.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::{call_context, request};
use serde_json::json;

use crate::{both, client};

/// Returns the errors of a whole and of a streamed call to a service that gives this answer.
async fn errors(status: u16, headers: &'static str, body: String) -> [LlmError; 2] {
    let server = Loopback::start(move |_| Answer::whole(status, headers, &body)).await;
    both(&client(&server), &request("hi"))
        .await
        .map(Result::unwrap_err)
}

const fn server(status: u16) -> LlmErrorKind {
    LlmErrorKind::server(Some(status))
}

/// Status, message, the error's kind, and whether it may be temporary.
const DOCUMENTED: [(u16, &str, LlmErrorKind, bool); 14] = [
    (
        400,
        "Failed to deserialize the JSON body into the target type: messages[0]: missing field `role`",
        LlmErrorKind::BadRequest,
        false,
    ),
    (
        400,
        "Missing `reasoning_content` field in the assistant message at message index 3",
        LlmErrorKind::BadRequest,
        false,
    ),
    (
        400,
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        LlmErrorKind::BadRequest,
        false,
    ),
    (
        400,
        "Thinking mode does not support this tool_choice",
        LlmErrorKind::BadRequest,
        false,
    ),
    (
        400,
        "This model's maximum context length is 131072 tokens. However, you requested 200000 tokens (190000 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
        LlmErrorKind::ContextOverflow {
            limit: Some(131_072),
            needed: Some(190_000),
        },
        false,
    ),
    (400, "Model Not Exist", LlmErrorKind::ModelNotFound, false),
    (
        404,
        "The model `deepseek-chat` was retired",
        LlmErrorKind::ModelNotFound,
        false,
    ),
    (
        400,
        "Content Exists Risk",
        LlmErrorKind::ContentFiltered,
        false,
    ),
    (
        401,
        "Authentication Fails (no such user)",
        LlmErrorKind::Unauthorized,
        false,
    ),
    (
        402,
        "Insufficient Balance",
        LlmErrorKind::QuotaExhausted,
        false,
    ),
    (
        422,
        "Invalid parameter: max_tokens",
        LlmErrorKind::BadRequest,
        false,
    ),
    (
        429,
        "Rate limit reached",
        LlmErrorKind::RateLimited { retry_after: None },
        true,
    ),
    (500, "Internal error", server(500), true),
    (503, "Service is too busy", server(503), true),
];

#[tokio::test]
async fn each_documented_error_has_its_kind() {
    for (status, message, kind, may_pass) in DOCUMENTED {
        let error = json!({"message": message, "type": "invalid_request_error", "param": null, "code": "invalid_request_error"});
        let body = json!({"error": error}).to_string();
        for error in errors(status, "content-type: application/json", body).await {
            assert_eq!(error.kind, kind, "{message}");
            assert_eq!(error.is_retryable(), may_pass, "{message}");
            assert!(error.message.starts_with(message), "{error}");
        }
    }
}

#[tokio::test]
async fn retry_after_of_the_service_is_honored() {
    for (status, headers) in [(429, "retry-after: 7"), (503, "retry-after: 7")] {
        for error in errors(status, headers, "busy".to_owned()).await {
            assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        }
    }
}

#[tokio::test]
async fn no_error_shows_the_api_key() {
    let body = json!({"error": {"message": format!("Authentication Fails, Your api key: {} is invalid", crate::CANARY)}});
    for error in errors(401, "content-type: application/json", body.to_string()).await {
        assert_eq!(error.kind, LlmErrorKind::Unauthorized);
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_has_the_kind_of_its_message() {
    const STREAM: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hal\"}}]}\n\n\
data: {\"error\":{\"message\":\"Insufficient Balance\",\"type\":\"unknown_error\",\"param\":null,\"code\":\"invalid_request_error\"}}\n\n";
    let server = Loopback::start(|_| Answer::events([STREAM.as_bytes()])).await;
    let error = crate::streamed(&client(&server), &request("hi"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::QuotaExhausted);
}

#[tokio::test]
async fn an_unreachable_service_is_a_connection_error() {
    let server = Loopback::start(|_| Answer::nothing()).await;
    let client = client(&server);
    drop(server);
    let error = client
        .respond(&request("hi"), &call_context())
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Connection);
}
