//! Tests of the conversion of error bodies.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::Secret;

use super::*;
use crate::errors::{ErrorRule, Meaning};

fn errors(rules: &'static [ErrorRule]) -> ServerErrors {
    let secrets = vec![Secret::new("sk-canary-1234")];
    ServerErrors::new("http://127.0.0.1:8080", rules, secrets)
}

fn error_of(status: u16, kind: &'static str, body: &str) -> LlmError {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("3"));
    let status = StatusCode::from_u16(status).unwrap();
    Failure::of_response(status, &headers, body.as_bytes()).into_error(&errors(&[]))
}

fn json_error(status: u16, body: &str) -> LlmError {
    error_of(status, "application/json", body)
}

#[test]
fn a_status_alone_determines_the_error_kind() {
    let limited = LlmErrorKind::RateLimited {
        retry_after: Some(Duration::from_secs(3)),
    };
    let server = |status| LlmErrorKind::Server {
        status: Some(status),
        retry_after: Some(Duration::from_secs(3)),
    };
    for (status, kind) in [
        (400, LlmErrorKind::BadRequest),
        (401, LlmErrorKind::Unauthorized),
        (402, LlmErrorKind::QuotaExhausted),
        (403, LlmErrorKind::Unauthorized),
        (404, LlmErrorKind::BadRequest),
        (408, LlmErrorKind::Timeout),
        (409, server(409)),
        (413, LlmErrorKind::BadRequest),
        (422, LlmErrorKind::BadRequest),
        (429, limited),
        (500, server(500)),
        (501, LlmErrorKind::BadRequest),
        (502, server(502)),
        (503, server(503)),
        (504, server(504)),
        (529, server(529)),
    ] {
        let error = json_error(status, "");
        assert_eq!(error.kind, kind, "{status}");
        let told = error.to_string();
        assert!(told.contains("the server gave no reason"), "{told}");
        let number = format!("status {status}");
        assert_eq!(told.matches(&number).count(), 1, "{told}");
    }
}

#[test]
fn the_error_body_takes_precedence_over_the_status() {
    for (status, body, kind) in [
        (
            429,
            r#"{"error":{"message":"m","type":"requests","code":"insufficient_quota"}}"#,
            LlmErrorKind::QuotaExhausted,
        ),
        (
            404,
            r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"not_found_error","param":null,"code":null}}"#,
            LlmErrorKind::ModelNotFound,
        ),
        (
            404,
            r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#,
            LlmErrorKind::BadRequest,
        ),
        (
            400,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"content_policy_violation"}}"#,
            LlmErrorKind::ContentFiltered,
        ),
    ] {
        assert_eq!(json_error(status, body).kind, kind, "{body}");
    }
}

#[test]
fn an_overflow_reports_its_sizes_from_fields_or_from_the_message() {
    let overflow = |limit, needed| LlmErrorKind::ContextOverflow {
        limit: Some(limit),
        needed: Some(needed),
    };
    let fields = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"too long","n_prompt_tokens":9018,"n_ctx":2048}}"#;
    assert_eq!(json_error(400, fields).kind, overflow(2_048, 9_018));
    let words = r#"{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}}"#;
    assert_eq!(json_error(400, words).kind, overflow(4_096, 5_000));
}

#[test]
fn an_overflow_is_recognized_in_the_wording_of_each_server() {
    for (words, limit, needed) in [
        (
            "You passed 3581 input tokens and requested 1024 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3072 tokens.",
            4_096,
            3_581,
        ),
        (
            "This model's maximum context length is 200 tokens. However, your request has 203 input tokens.",
            200,
            203,
        ),
        (
            "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 10247 >= n_ctx: 4096)",
            4_096,
            10_247,
        ),
        (
            "Cannot truncate prompt with n_keep (11378) >= n_ctx (4096)",
            4_096,
            11_378,
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            131_072,
            537_812,
        ),
        (
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",
            262_144,
            291_351,
        ),
        (
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            1_048_575,
            1_196_265,
        ),
        (
            "prompt is too long: 215000 tokens > 200000 maximum",
            200_000,
            215_000,
        ),
        (
            "prompt token count of 130431 exceeds the limit of 128000",
            128_000,
            130_431,
        ),
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens",
            32_768,
            42_832,
        ),
        (
            "The input (9018 tokens) is longer than the model's context length (2048 tokens).",
            2_048,
            9_018,
        ),
        (
            "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.",
            131_040,
            131_393,
        ),
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens and 4096 `max_new_tokens`",
            8_193,
            8_000,
        ),
        (
            "Input validation error: `inputs` must have less than 1024 tokens. Given: 1077",
            1_024,
            1_077,
        ),
    ] {
        let body = serde_json::json!({"error": {"message": words}}).to_string();
        let (limit, needed) = (Some(limit), Some(needed));
        let kind = LlmErrorKind::ContextOverflow { limit, needed };
        assert_eq!(json_error(400, &body).kind, kind, "{words}");
    }
}

#[test]
fn an_overflow_is_recognized_even_without_sizes() {
    for (words, limit) in [
        (
            "prompt too long; exceeded max context length by 42 tokens",
            None,
        ),
        ("invalid params, context window exceeds limit", None),
        ("Input is too long for requested model.", None),
        (
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
            Some(129_024),
        ),
        (
            "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            Some(8_000),
        ),
    ] {
        let body = serde_json::json!({"error": {"message": words}}).to_string();
        let needed = None;
        let kind = LlmErrorKind::ContextOverflow { limit, needed };
        assert_eq!(json_error(400, &body).kind, kind, "{words}");
    }
}

#[test]
fn the_needed_size_of_an_overflow_excludes_the_reply() {
    for (words, limit, needed) in [
        (
            "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9096 tokens: 5000 tokens from the input messages and 4096 tokens for the completion.",
            Some(8_192),
            Some(5_000),
        ),
        (
            "This model's maximum context length is 4097 tokens. However, you requested 4260 tokens (200 in the messages, 60 in the functions, and 4000 in the completion).",
            Some(4_097),
            Some(260),
        ),
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (22832 of text input, 20000 in the output).",
            Some(32_768),
            Some(22_832),
        ),
        (
            "This model's maximum context length is 4097 tokens, however you requested 4260 tokens (260 in your prompt; 4000 for the completion). Please reduce your prompt; or completion length.",
            Some(4_097),
            Some(260),
        ),
        (
            "This model's maximum context length is 32768 tokens. However, you requested 32000 output tokens and your prompt contains at least 769 input tokens, for a total of at least 32769 tokens. Please reduce the length of the input prompt or the number of requested output tokens.",
            Some(32_768),
            Some(769),
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 1000 output tokens and your prompt contains 3581 input tokens, for a total of 4581 tokens.",
            Some(4_096),
            Some(3_581),
        ),
    ] {
        let body = serde_json::json!({"error": {"message": words}}).to_string();
        let kind = LlmErrorKind::ContextOverflow { limit, needed };
        assert_eq!(json_error(400, &body).kind, kind, "{words}");
    }
}

#[test]
fn a_retry_delay_in_the_body_is_read() {
    let detail = |delay: &str| {
        serde_json::json!({"message": "Quota exceeded. Please retry in 9s.", "code": 429, "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]})
    };
    let said = |words: &str| serde_json::json!({"code": "rate_limit_exceeded", "message": words});
    let gateway = serde_json::json!({"message": "Provider returned error", "code": 429,
        "metadata": {"raw": {"error": detail("37s")}}});
    for (error, millis) in [
        (detail("37s"), Some(37_000)),
        (detail("37.5s"), Some(37_500)),
        (detail("soon"), Some(9_000)),
        (gateway, Some(37_000)),
        (
            said("Rate limit reached. Please try again in 1.5s. Visit us."),
            Some(1_500),
        ),
        (
            said("Rate limit reached. Try again in 17 seconds."),
            Some(17_000),
        ),
        (said("Please try again in 20ms."), Some(20)),
        (said("Please try again in 1m2s."), Some(62_000)),
        (said("Please try again in 1 minute"), Some(60_000)),
        (said("Please retry in 33.2s."), Some(33_200)),
        (said("Please retry after 6 seconds."), Some(6_000)),
        (said("Please try again in a few minutes."), None),
        (said("Please try again in 5 attempts."), None),
        (said("Please try again in 99999999999s."), None),
        (said("Please try again in "), None),
        (said("Rate limit reached."), None),
    ] {
        let body = serde_json::json!({"error": error});
        let kind = Failure::of_json(&body).into_error(&errors(&[])).kind;
        let retry_after = millis.map(Duration::from_millis);
        assert_eq!(kind, LlmErrorKind::RateLimited { retry_after }, "{body}");
    }
}

#[test]
fn a_retry_delay_in_the_headers_takes_precedence_over_the_body() {
    let error = json_error(429, r#"{"error":{"message":"Please try again in 17s."}}"#);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    let body = br#"{"error":{"message":"Please try again in 17s."}}"#;
    for (status, expected) in [(429, Some(17)), (503, Some(17)), (400, None)] {
        let status = StatusCode::from_u16(status).unwrap();
        let failure = Failure::of_response(status, &HeaderMap::new(), body);
        let wait = failure.into_error(&errors(&[])).retry_after();
        assert_eq!(wait, expected.map(Duration::from_secs), "{status}");
    }
}

#[test]
fn every_shape_of_error_body_yields_its_message() {
    for (body, message) in [
        (
            r#"{"error":{"message":"m","type":"t","code":"c"}}"#,
            "m (type t, code c)",
        ),
        (r#"{"error":{"message":"m","code":500}}"#, "m"),
        (r#"{"error":"just words"}"#, "just words"),
        (r#"{"object":"error","message":"m","code":500}"#, "m"),
        (r#"{"detail":"Not here"}"#, "Not here"),
        (
            r#"{"detail":[{"loc":["body","messages",0],"msg":"Field required","type":"missing"}]}"#,
            "body.messages.0: Field required",
        ),
        (
            r#"{"message":{"detail":[{"loc":["body","seed"],"msg":"Not permitted"}]},"type":"t","code":null}"#,
            "body.seed: Not permitted (type t)",
        ),
        (r#"{"message":{"detail":"m"}}"#, "m"),
        (
            r#"[{"error":{"code":500,"message":"m","status":"INTERNAL"}}]"#,
            "m",
        ),
        (
            r#"{"error":{"message":"gateway","code":500,"metadata":{"raw":"words"}}}"#,
            "gateway: words",
        ),
        (
            r#"{"error":{"message":"gateway","code":500,"metadata":{"raw":"{\"detail\":\"m\"}"}}}"#,
            "gateway: m",
        ),
        (
            r#"{"error":{"message":"gateway","code":500,"metadata":{"raw":{"error":{"message":"m","type":"t","code":"c"}}}}}"#,
            "gateway: m (type t, code c)",
        ),
        (
            r#"{"error":{"code":500,"metadata":{"raw":{"error":"m"}}}}"#,
            "m",
        ),
        (
            r#"{"error":{"metadata":{"raw":null}}}"#,
            "the server gave no reason",
        ),
        (r#"{"detail":[]}"#, "the server gave no reason"),
        (r#"{"error":{}}"#, "the server gave no reason"),
        ("[]", "the server gave no reason"),
        ("{", "{"),
    ] {
        assert_eq!(json_error(500, body).message, message, "{body}");
    }
}

#[test]
fn an_error_from_behind_a_gateway_determines_the_kind() {
    let handed_on = |raw: serde_json::Value| {
        let metadata = serde_json::json!({"raw": raw, "provider_name": "p"});
        let error = serde_json::json!({"message": "Provider returned error", "code": 400, "metadata": metadata});
        json_error(400, &serde_json::json!({"error": error}).to_string()).kind
    };
    let overflow = LlmErrorKind::ContextOverflow {
        limit: Some(4_096),
        needed: Some(5_000),
    };
    let words = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.";
    let body = serde_json::json!({"error": {"message": words, "type": "Bad Request", "code": 400}});
    assert_eq!(handed_on(words.into()), overflow);
    assert_eq!(handed_on(body.to_string().into()), overflow);
    assert_eq!(handed_on(body), overflow);
    let spent = serde_json::json!({"error": {"message": "m", "code": "insufficient_quota"}});
    assert_eq!(handed_on(spent), LlmErrorKind::QuotaExhausted);
    assert_eq!(handed_on("no".into()), LlmErrorKind::BadRequest);
    let body = r#"{"error":{"message":"m","code":"insufficient_quota","metadata":{"raw":{"error":{"message":"n","code":"busy"}}}}}"#;
    assert_eq!(json_error(429, body).kind, LlmErrorKind::QuotaExhausted);
}

#[test]
fn an_html_page_instead_of_json_is_named_and_not_quoted() {
    for (status, message) in [
        (502, "the answer is text/html, not JSON"),
        (
            404,
            "the answer is text/html, not JSON (status 404); check that base_url points to a model server",
        ),
        (
            403,
            "the answer is text/html, not JSON (status 403); a proxy or a firewall may have answered instead of the server",
        ),
        (
            407,
            "the answer is text/html, not JSON (status 407); the proxy requires a user name and a password, which are allowed only in the variable that names it",
        ),
    ] {
        let error = error_of(
            status,
            "text/html; charset=utf-8",
            "<html>\n  <b>Bad Gateway</b> model",
        );
        assert_eq!(error.message, message);
        assert_ne!(error.kind, LlmErrorKind::Unauthorized);
    }
    let error = error_of(502, "text/plain", "upstream is\naway");
    assert_eq!(
        error.message,
        "the answer is text/plain, not JSON: upstream is away"
    );
}

#[test]
fn the_base_url_is_mentioned_if_nothing_is_at_the_address() {
    for (status, body, hints) in [
        (404, r#"{"error":"File Not Found"}"#, true),
        (405, "", true),
        (404, r#"{"error":"no model \"x\""}"#, false),
        (400, r#"{"error":"no"}"#, false),
        (500, r#"{"error":"no"}"#, false),
    ] {
        let error = json_error(status, body);
        assert_eq!(error.message.contains("base_url"), hints, "{error}");
    }
}

#[test]
fn a_server_message_is_cut_and_escaped() {
    let long = "x".repeat(100_000);
    let message = json_error(500, &format!(r#"{{"error":"\u001b[2J{long}"}}"#)).message;
    assert!(message.starts_with("\\u{1b}[2Jxxx"), "{message}");
    assert!(message.len() < 500, "{} bytes", message.len());
}

#[test]
fn an_api_key_repeated_by_the_server_is_redacted() {
    let body = serde_json::json!({"error": {"message": "bad key sk-canary-1234", "code": "sk-canary-1234"}});
    let error = Failure::of_json(&body).into_error(&errors(&[]));
    assert!(!error.message.contains("canary"), "{}", error.message);
}

#[test]
fn inside_a_stream_the_error_code_is_used_as_the_status() {
    let body = serde_json::json!({"error": {"code": 529, "message": "overloaded", "type": "overloaded_error"}});
    let error = Failure::of_json(&body).into_error(&errors(&[]));
    assert_eq!(error.kind, LlmErrorKind::server(Some(529)));
    let body = serde_json::json!({"error": {"message": "no", "type": "invalid_request_error"}});
    let error = Failure::of_json(&body).into_error(&errors(&[]));
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
}

#[test]
fn rules_of_the_adapter_take_precedence() {
    const RULES: [ErrorRule; 1] =
        [ErrorRule::message("PEG-native", Meaning::InvalidResponse).with_status(500)];
    let failure = |code: u16| {
        let body =
            serde_json::json!({"error": {"code": code, "message": "not the peg-native format"}});
        Failure::of_json(&body).into_error(&errors(&RULES)).kind
    };
    assert_eq!(failure(500), LlmErrorKind::InvalidResponse);
    assert_eq!(failure(503), LlmErrorKind::server(Some(503)));
}

#[test]
fn request_ids_codes_and_sizes_are_found_in_vendor_specific_places() {
    let named = |header: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header, HeaderValue::from_static("req_7"));
        headers
    };
    for header in ["x-deepseek-request-id", "x-ds-trace-id"] {
        let failure = Failure::of_response(StatusCode::BAD_REQUEST, &named(header), b"{}");
        assert_eq!(failure.request, "req_7", "{header}");
    }
    let headers = named("request-id");
    let body = r#"{"error":{"message":"prompt is too long: 215000 tokens > 200000 maximum",
        "details":{"error_code":"some_code"}}}"#;
    let failure = Failure::of_response(StatusCode::BAD_REQUEST, &headers, body.as_bytes());
    assert_eq!((&*failure.request, &*failure.code), ("req_7", "some_code"));
    assert_eq!(
        (failure.limit, failure.needed),
        (Some(200_000), Some(215_000))
    );
}
