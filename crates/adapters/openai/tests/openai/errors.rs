//! How the errors that OpenAI documents are handled.

use std::time::Duration;

use neuraxis_core::{LlmErrorKind, TokenCount};
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::json;

use crate::shapes::{
    answer, answer_with, chunk, chunks, is_streamed, message_item, named_events, pieces, response,
    streamed,
};
use crate::{APIS, CANARY, both, client, respond, stream};
use neuraxis_openai::Api;

const fn server(status: u16) -> LlmErrorKind {
    LlmErrorKind::server(Some(status))
}

const fn limited() -> LlmErrorKind {
    LlmErrorKind::RateLimited { retry_after: None }
}

/// Status, type, code, message, and the error's kind.
const DOCUMENTED: [(u16, &str, &str, &str, LlmErrorKind); 24] = [
    (
        400,
        "invalid_request_error",
        "",
        "Unsupported parameter: 'temperature'",
        LlmErrorKind::BadRequest,
    ),
    (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130007 tokens.",
        LlmErrorKind::ContextOverflow {
            limit: Some(128_000),
            needed: Some(130_007),
        },
    ),
    (
        400,
        "invalid_request_error",
        "",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        LlmErrorKind::ContextOverflow {
            limit: None,
            needed: None,
        },
    ),
    (
        400,
        "invalid_request_error",
        "invalid_prompt",
        "flagged",
        LlmErrorKind::ContentFiltered,
    ),
    (
        400,
        "",
        "content_filter",
        "The response was filtered",
        LlmErrorKind::ContentFiltered,
    ),
    (
        400,
        "invalid_request_error",
        "invalid_image_url",
        "no image",
        LlmErrorKind::BadRequest,
    ),
    (
        401,
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided: sk-canary-5f1e.",
        LlmErrorKind::Unauthorized,
    ),
    (
        401,
        "",
        "",
        "You must be a member of an organization to use the API",
        LlmErrorKind::Unauthorized,
    ),
    (
        403,
        "",
        "unsupported_country_region_territory",
        "Country not supported",
        LlmErrorKind::BadRequest,
    ),
    (
        404,
        "invalid_request_error",
        "model_not_found",
        "The model `x` does not exist",
        LlmErrorKind::ModelNotFound,
    ),
    (
        404,
        "invalid_request_error",
        "",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try another model input.",
        LlmErrorKind::BadRequest,
    ),
    (408, "", "", "timeout", LlmErrorKind::Timeout),
    (409, "", "", "conflict", server(409)),
    (413, "", "", "too large", LlmErrorKind::BadRequest),
    (422, "", "", "unprocessable", LlmErrorKind::BadRequest),
    (
        429,
        "requests",
        "rate_limit_exceeded",
        "Rate limit reached",
        limited(),
    ),
    (
        429,
        "insufficient_quota",
        "rate_limit_exceeded",
        "Rate limit reached",
        limited(),
    ),
    (429, "rate_limit_error", "slow_down", "Slow down", limited()),
    (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota",
        LlmErrorKind::QuotaExhausted,
    ),
    (
        429,
        "insufficient_quota",
        "credit_balance_exhausted",
        "No credit",
        LlmErrorKind::QuotaExhausted,
    ),
    (
        500,
        "server_error",
        "",
        "The server had an error",
        server(500),
    ),
    (502, "", "", "bad gateway", server(502)),
    (
        503,
        "service_unavailable_error",
        "server_is_overloaded",
        "Overloaded",
        server(503),
    ),
    (504, "", "", "gateway timeout", server(504)),
];

#[tokio::test]
async fn each_documented_error_maps_to_its_kind_on_both_apis() {
    for (status, kind, code, message, expected) in DOCUMENTED {
        let error = json!({"message": message, "type": kind, "param": null, "code": (!code.is_empty()).then_some(code)});
        let body = json!({"error": error}).to_string();
        let server = Loopback::start(move |_| {
            Answer::whole(status, "content-type: application/json", &body)
        })
        .await;
        for api in APIS {
            for error in both(&client(&server, api), &request("hi")).await {
                assert_eq!(error.kind, expected, "{status} {code}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn output_that_groq_cannot_parse_is_an_invalid_response() {
    for code in ["tool_use_failed", "json_validate_failed"] {
        let error = json!({"message": "Please adjust your prompt. See 'failed_generation' for more details.",
            "type": "invalid_request_error", "code": code, "failed_generation": "<function=look"});
        let body = json!({"error": error}).to_string();
        let refusal = body.clone();
        let refusing = Loopback::start(move |_| {
            Answer::whole(400, "content-type: application/json", &refusal)
        })
        .await;
        for error in both(&client(&refusing, Api::Chat), &request("hi")).await {
            assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{error}");
        }
        let failing = format!("event: error\ndata: {body}\n\n");
        let failing = Loopback::start(move |_| pieces(&failing)).await;
        let error = stream(&client(&failing, Api::Chat), &request("hi")).await;
        assert_eq!(error.unwrap_err().kind, LlmErrorKind::InvalidResponse);
    }
}

#[tokio::test]
async fn error_bodies_of_other_shapes_are_quoted_or_named() {
    for (headers, body, said) in [
        (
            "content-type: application/json",
            r#"{"error":{"message":"no","code":400}}"#,
            "no",
        ),
        (
            "content-type: application/json",
            r#"{"error":"just text"}"#,
            "just text",
        ),
        (
            "content-type: application/json",
            r#"{"message":"at the top"}"#,
            "at the top",
        ),
        ("content-type: text/html", "<html>Bad</html>", "text/html"),
        ("x: y", "", "the server gave no reason"),
        (
            "content-type: application/json",
            r#"{"error":{"message":"no","param":"reasoning_effort"}}"#,
            "param reasoning_effort",
        ),
    ] {
        let server = Loopback::start(move |_| Answer::whole(400, headers, body)).await;
        for error in both(&client(&server, Api::Responses), &request("hi")).await {
            assert_eq!(error.kind, LlmErrorKind::BadRequest, "{error}");
            assert!(error.message.contains(said), "{said}: {error}");
        }
    }
}

#[tokio::test]
async fn an_error_names_the_request_id() {
    let server = Loopback::start(|_| Answer::whole(500, "x-request-id: req_7", "{}")).await;
    for error in both(&client(&server, Api::Responses), &request("hi")).await {
        assert!(error.message.contains("request req_7"), "{error}");
    }
}

#[tokio::test]
async fn the_wait_of_a_rate_limit_is_read_from_every_header_form() {
    let wait = |millis| Some(Duration::from_millis(millis));
    for (status, headers, expected) in [
        (429, "retry-after: 7", wait(7_000)),
        (429, "retry-after-ms: 1500\r\nretry-after: 7", wait(1_500)),
        (
            429,
            "date: Sun, 06 Nov 1994 08:49:00 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT",
            wait(37_000),
        ),
        (
            429,
            "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 6m0s\r\nx-ratelimit-remaining-tokens: 9\r\nx-ratelimit-reset-tokens: 9h",
            wait(360_000),
        ),
        (
            429,
            "x-ratelimit-remaining-tokens: -1\r\nx-ratelimit-reset-tokens: 0",
            None,
        ),
        (429, "x: y", None),
        (503, "retry-after: 7", wait(7_000)),
    ] {
        let server = Loopback::start(move |_| Answer::whole(status, headers, "{}")).await;
        for error in both(&client(&server, Api::Responses), &request("hi")).await {
            assert!(error.is_retryable(), "{error}");
            assert_eq!(error.retry_after(), expected, "{headers}");
        }
    }
}

#[tokio::test]
async fn the_should_retry_header_is_honored_except_for_unauthorized() {
    for (status, word, retryable) in [
        (500, "false", false),
        (429, "false", false),
        (408, "false", false),
        (400, "true", true),
        (401, "true", false),
        (500, "true", true),
        (400, "perhaps", false),
    ] {
        let server = Loopback::start(move |_| {
            Answer::whole(status, &format!("x-should-retry: {word}"), "{}")
        })
        .await;
        for error in both(&client(&server, Api::Chat), &request("hi")).await {
            assert_eq!(error.is_retryable(), retryable, "{status} {word}: {error}");
        }
    }
}

/// The errors of Groq and OpenAI about a request that exceeds the account's tokens per minute.
const MORE_THAN_A_MINUTE_ALLOWS: [(u16, &str); 2] = [
    (
        413,
        "Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today.",
    ),
    (
        429,
        "Request too large for gpt-4.1-2025-04-14 (for limit gpt-4.1) in organization org-1 on tokens per min (TPM): Limit 6000, Requested 9000. The input or output tokens must be reduced in order to run successfully.",
    ),
];

#[tokio::test]
async fn a_request_too_large_for_the_rate_limit_is_a_context_overflow() {
    let expected = LlmErrorKind::ContextOverflow {
        limit: Some(6_000),
        needed: Some(4_904),
    };
    let mut request = request("hi");
    request.max_output_tokens = Some(4_096);
    for (status, words) in MORE_THAN_A_MINUTE_ALLOWS {
        let error = json!({"message": words, "type": "tokens", "param": null, "code": "rate_limit_exceeded"});
        let body = json!({"error": error}).to_string();
        let refusing = Loopback::start(move |_| {
            Answer::whole(status, "content-type: application/json", &body)
        })
        .await;
        let mut failed = response(&[]);
        failed["status"] = json!("failed");
        failed["error"] = json!({"code": "rate_limit_exceeded", "message": words});
        let failing = Loopback::start(move |seen| answer_with(&failed, is_streamed(seen))).await;
        for (server, api) in [
            (&refusing, Api::Responses),
            (&refusing, Api::Chat),
            (&failing, Api::Responses),
        ] {
            for error in both(&client(server, api), &request).await {
                assert_eq!(error.kind, expected, "{error}");
                let advice = "with a shorter reply either, raise this limit";
                assert!(error.message.contains(advice), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_request_too_large_with_thinking_room_is_retried_without_it() {
    let has_room = |body: &str| body.contains("5120");
    let (status, words) = MORE_THAN_A_MINUTE_ALLOWS[1];
    let error = json!({"code": "rate_limit_exceeded", "message": words});
    let body = json!({"error": error}).to_string();
    let refusing = Loopback::start(move |seen| match has_room(&seen.body) {
        true => Answer::whole(status, "content-type: application/json", &body),
        false => answer(seen),
    })
    .await;
    let mut failed = response(&[]);
    failed["status"] = json!("failed");
    failed["error"] = error;
    let failing = Loopback::start(move |seen| match has_room(&seen.body) {
        true => answer_with(&failed, is_streamed(seen)),
        false => answer(seen),
    })
    .await;
    let mut request = request("hi");
    request.max_output_tokens = Some(1_024);
    for (server, api) in [
        (&refusing, Api::Responses),
        (&refusing, Api::Chat),
        (&failing, Api::Responses),
    ] {
        let client = client(server, api);
        let whole = respond(&client, &request).await.unwrap();
        assert_eq!(whole.text(), "Good day, 🦀.", "{api:?}");
        let streamed = stream(&client, &request).await.unwrap();
        assert_eq!(streamed.text(), "Good day, 🦀.", "{api:?}");
    }
}

#[tokio::test]
async fn a_request_that_fits_the_next_minute_reports_how_long_to_wait() {
    let words = "Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.";
    let body =
        json!({"error": {"message": words, "type": "tokens", "code": "rate_limit_exceeded"}});
    let body = body.to_string();
    let server =
        Loopback::start(move |_| Answer::whole(429, "content-type: application/json", &body)).await;
    for error in both(&client(&server, Api::Chat), &request("hi")).await {
        assert_eq!(error.retry_after(), Some(Duration::from_millis(4_770)));
    }
}

#[tokio::test]
async fn a_failed_response_has_the_error_it_names() {
    for (code, expected) in [
        ("server_error", LlmErrorKind::server(None)),
        ("rate_limit_exceeded", limited()),
        ("invalid_prompt", LlmErrorKind::ContentFiltered),
        ("bio_policy", LlmErrorKind::ContentFiltered),
        ("data_residency_mismatch", LlmErrorKind::BadRequest),
        ("vector_store_timeout", LlmErrorKind::server(None)),
        ("image_parse_error", LlmErrorKind::BadRequest),
        ("failed_to_download_image", LlmErrorKind::server(None)),
        ("something_new", LlmErrorKind::server(None)),
    ] {
        let mut failed = response(&[]);
        failed["status"] = json!("failed");
        failed["error"] = json!({"code": code, "message": "because"});
        let server = Loopback::start(move |seen| answer_with(&failed, is_streamed(seen))).await;
        for error in both(&client(&server, Api::Responses), &request("hi")).await {
            assert_eq!(error.kind, expected, "{code}");
            assert!(error.message.contains("because"), "{error}");
            let used = error.usage.expect("the usage is kept");
            assert_eq!(used.total, TokenCount::measured(59));
        }
    }
}

#[tokio::test]
async fn an_error_event_inside_a_stream_fails_the_reply_with_its_kind() {
    let mut events = streamed(&response(&[message_item("Good day.")]));
    events.truncate(5);
    events.push(json!({"type": "error", "code": "server_is_overloaded", "message": format!("busy {CANARY}"), "param": null}));
    let responses = named_events(&events);
    let overloaded = json!({"error": {"code": 529, "type": "overloaded_error", "message": "busy"}});
    let chat = chunks(&[chunk(&json!({"content": "Good"}), None), overloaded]);
    for (api, text, expected) in [
        (Api::Responses, responses, LlmErrorKind::server(None)),
        (Api::Chat, chat, LlmErrorKind::server(Some(529))),
    ] {
        let server = Loopback::start(move |_| pieces(&text)).await;
        let error = stream(&client(&server, api), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, expected);
        assert!(error.message.contains("busy"), "{error}");
    }
}
