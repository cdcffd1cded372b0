//! How the errors of these servers are handled.

use futures_util::TryStreamExt;
use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::{call_context, request};

use crate::client;

/// Returns the errors of a whole and of a streamed call to a server that gives this answer.
async fn errors(status: u16, body: &'static str) -> [LlmError; 2] {
    let server =
        Loopback::start(move |_| Answer::whole(status, "content-type: application/json", body))
            .await;
    let (client, ctx, request) = (client(&server), call_context(), request("hi"));
    let whole = client.respond(&request, &ctx).await.unwrap_err();
    let streamed = client.stream_respond(&request, &ctx).await.err().unwrap();
    [whole, streamed]
}

const OVERFLOW: LlmErrorKind = LlmErrorKind::ContextOverflow {
    limit: Some(2_048),
    needed: Some(9_018),
};

const fn server(status: u16) -> LlmErrorKind {
    LlmErrorKind::server(Some(status))
}

/// Status, body, and the error's kind.
const DOCUMENTED: [(u16, &str, LlmErrorKind); 23] = [
    (
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        LlmErrorKind::Loading,
    ),
    (
        503,
        r#"{"error":{"code":503,"message":"no slot available","type":"unavailable_error"}}"#,
        server(503),
    ),
    (
        400,
        r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"request (9018 tokens) exceeds the available context size (2048 tokens), try increasing it","n_prompt_tokens":9018,"n_ctx":2048}}"#,
        OVERFLOW,
    ),
    (
        400,
        r#"{"error":{"code":400,"type":"invalid_request_error","message":"request (9018 tokens) exceeds the available context size (2048 tokens), try increasing it"}}"#,
        OVERFLOW,
    ),
    (
        400,
        r#"{"error":"Trying to keep the first 9018 tokens when context the overflows. However, the model is loaded with context length of only 2048 tokens, which is not enough."}"#,
        OVERFLOW,
    ),
    (
        400,
        r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9018 >= n_ctx: 2048). Try to load the model with a larger context length, or provide a shorter input."}"#,
        OVERFLOW,
    ),
    (
        400,
        r#"{"error":"Cannot truncate prompt with n_keep (9018) >= n_ctx (2048)"}"#,
        OVERFLOW,
    ),
    // vLLM.
    (
        400,
        r#"{"error":{"message":"You passed 9018 input tokens and requested 1024 output tokens. However, the model's context length is only 2048 tokens, resulting in a maximum input length of 1024 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=9018)","type":"BadRequestError","param":"input_tokens","code":400}}"#,
        OVERFLOW,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"The model produced output that does not match the expected peg-native format","type":"server_error"}}"#,
        LlmErrorKind::InvalidResponse,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"Unexpected empty grammar stack after accepting piece","type":"server_error"}}"#,
        LlmErrorKind::InvalidResponse,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: x","type":"server_error"}}"#,
        LlmErrorKind::BadRequest,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"Failed to parse messages: x","type":"server_error"}}"#,
        LlmErrorKind::BadRequest,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"out of memory","type":"server_error"}}"#,
        server(500),
    ),
    (
        401,
        r#"{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}"#,
        LlmErrorKind::Unauthorized,
    ),
    (
        403,
        r#"{"error":{"code":403,"message":"no","type":"permission_error"}}"#,
        LlmErrorKind::Unauthorized,
    ),
    (
        404,
        r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#,
        LlmErrorKind::BadRequest,
    ),
    (
        404,
        r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"not_found_error","param":null,"code":null}}"#,
        LlmErrorKind::ModelNotFound,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"model 'x' not found","type":"invalid_request_error"}}"#,
        LlmErrorKind::ModelNotFound,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"model is not loaded","type":"invalid_request_error"}}"#,
        LlmErrorKind::ModelNotFound,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"model name is missing from the request","type":"invalid_request_error"}}"#,
        LlmErrorKind::ModelNotFound,
    ),
    // Ollama.
    (
        400,
        r#"{"error":{"message":"invalid tool call arguments","type":"invalid_request_error","param":null,"code":null}}"#,
        LlmErrorKind::BadRequest,
    ),
    (
        501,
        r#"{"error":{"code":501,"message":"not here","type":"not_supported_error"}}"#,
        LlmErrorKind::BadRequest,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"Invalid tool_choice: x","type":"invalid_request_error"}}"#,
        LlmErrorKind::BadRequest,
    ),
];

#[tokio::test]
async fn each_documented_error_has_its_kind() {
    for (status, body, kind) in DOCUMENTED {
        for error in errors(status, body).await {
            assert_eq!(error.kind, kind, "{body}");
        }
    }
}

#[tokio::test]
async fn output_that_the_server_cannot_parse_ends_a_stream_as_an_invalid_response() {
    const STREAM: &str = r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":"{"}}]}}]}

data: {"error":{"code":500,"message":"The model produced output that does not match the expected peg-native format","type":"server_error"}}

"#;
    let server = Loopback::start(|_| Answer::events([STREAM.as_bytes()])).await;
    let ctx = call_context();
    let stream = client(&server)
        .stream_respond(&request("hi"), &ctx)
        .await
        .unwrap();
    let error = stream.try_collect::<Vec<_>>().await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
}
