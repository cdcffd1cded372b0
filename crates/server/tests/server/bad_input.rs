//! Bad input from a well-behaved client: each request gets a problem document that says what was wrong.

use reqwest::RequestBuilder;
use serde_json::json;

use crate::support::client::answer;
use crate::support::{Client, Program};

/// Sends a request and returns status, content type and document as text.
async fn refusal(request: RequestBuilder) -> String {
    let request = request.header("x-request-id", "it");
    let response = request.send().await.unwrap();
    let status = response.status();
    let header = |name| {
        response
            .headers()
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    let content_type = header("content-type").unwrap_or_default();
    let allow = header("allow")
        .map(|allow| format!(" (allow: {allow})"))
        .unwrap_or_default();
    let text = response.text().await.unwrap();
    // The same in all of them.
    let id = ",\"request_id\":\"it\"";
    assert!(text.contains(id), "{text}");
    let text = text.replace(id, "");
    format!("{status} {content_type}{allow}\n{text}")
}

async fn refusals<'a>(cases: impl IntoIterator<Item = (&'a str, RequestBuilder)>) -> String {
    let mut all = String::new();
    for (name, request) in cases {
        all += &format!("{name}\n{}\n\n", refusal(request).await);
    }
    all
}

fn turn(client: &Client, body: impl Into<reqwest::Body>) -> RequestBuilder {
    let request = client.post("/api/v1/sessions/s/turns");
    request
        .header("content-type", "application/json")
        .body(body)
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_with_its_position() {
    let program = Program::start().await;
    let client = program.client();
    let deep = "[".repeat(10_000);
    let said = refusals([
        ("nothing", turn(&client, "")),
        ("cut off", turn(&client, "{\"message\": \"hel")),
        (
            "a comma too many",
            turn(&client, "{\n  \"message\": \"hello\",\n}"),
        ),
        ("two documents", turn(&client, "{\"message\": \"a\"} {}")),
        (
            "a lone surrogate",
            turn(&client, r#"{"message": "\ud800"}"#),
        ),
        (
            "not UTF-8",
            turn(&client, b"{\"message\": \"\xff\"}".to_vec()),
        ),
        (
            "a number out of range",
            turn(&client, "{\"message\": 1e999}"),
        ),
        (
            "10,000 levels deep",
            turn(&client, format!("{{\"message\": {deep}")),
        ),
    ])
    .await;
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn a_body_of_the_wrong_form_names_the_field() {
    let program = Program::start().await;
    let client = program.client();
    let long = format!("{{\"message\": \"a\", \"{}\": 1}}", "x".repeat(100_000));
    let long_value = format!(
        "{{\"message\": [\"a\"], \"mode\": \"{}\"}}",
        "x".repeat(100_000)
    );
    let said = refusals([
        ("a list", turn(&client, "[\"hello\", null, null]")),
        ("a text", turn(&client, "\"hello\"")),
        ("no message", turn(&client, "{\"mode\": \"moderate\"}")),
        (
            "a message that is not text",
            turn(&client, "{\"message\": 5}"),
        ),
        (
            "a mode that is not text",
            turn(&client, "{\"message\": \"a\", \"mode\": 5}"),
        ),
        (
            "an unknown field",
            turn(&client, "{\"message\": \"a\", \"max_tokens\": -1}"),
        ),
        ("an unknown field with a long name", turn(&client, long)),
        ("a list for a message", turn(&client, long_value)),
        (
            "a field twice",
            turn(&client, "{\"message\": \"a\", \"message\": \"b\"}"),
        ),
        ("U+0000", turn(&client, r#"{"message": "a\u0000b"}"#)),
        ("an empty message", turn(&client, "{\"message\": \" \\n\"}")),
    ])
    .await;
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn an_unknown_or_forbidden_mode_or_channel_is_refused_with_the_allowed_ones() {
    let program = Program::start().await;
    let client = program.client();
    let with = |name: &str, value: &str| {
        let mut body = json!({"message": "hello"});
        body[name] = value.into();
        client.turn("s", &body)
    };
    let said = refusals([
        ("unknown mode", with("mode", "YOLO")),
        ("misspelled mode", with("mode", "modrate")),
        ("unknown channel", with("channel", "cha\u{1b}[2Jt")),
        (
            "a mode of 100,000 characters",
            with("mode", &"x".repeat(100_000)),
        ),
        (
            "deep_research needs exploratory, which is not for clients",
            with("channel", "deep_research"),
        ),
    ])
    .await;
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn an_unknown_agent_is_an_invalid_field_and_not_a_policy_refusal() {
    let program = Program::start().await;
    let turn = json!({"message": "hello", "agent": "nope"});
    let (status, problem) = answer(program.client().turn("s", &turn)).await;
    let received = (status, &problem["type"], &problem["field"]);
    let expected = (400, &json!("/errors/invalid-field"), &json!("agent"));
    assert_eq!(received, expected, "{problem}");
    let known = problem["known"].as_array().unwrap();
    assert!(known.contains(&json!("main_thread")), "{problem}");
}

#[tokio::test]
async fn unknown_addresses_and_methods_are_problem_responses_too() {
    let program = Program::start().await;
    let client = program.client();
    let in_session = |id: &str| {
        let request = client.post(&format!("/api/v1/sessions/{id}/turns"));
        request
            .header("content-type", "application/json")
            .body("{\"message\": \"a\"}")
    };
    let long = "x".repeat(10_000);
    let said = refusals([
        ("unknown route", client.get("/api/v2/anything")),
        ("get a turn", client.get("/api/v1/sessions/s/turns")),
        ("post to a probe", client.post("/healthz")),
        ("a session outside", in_session("..%2Fx")),
        ("a session with NUL", in_session("%00")),
        ("a session that is not UTF-8", in_session("%ff")),
        ("a session of 10 kB", in_session(&long)),
    ])
    .await;
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn only_json_of_up_to_one_mebibyte_is_accepted() {
    let program = Program::start().await;
    let client = program.client();
    let post = || {
        client
            .post("/api/v1/policy/explain")
            .body("{\"message\": \"a\"}")
    };
    let post_json = |body: String| post().header("content-type", "application/json").body(body);
    let large = json!({"message": "x".repeat(4 * 1024 * 1024)}).to_string();
    let said = refusals([
        ("no content type", post()),
        ("text", post().header("content-type", "text/plain")),
        (
            "a form",
            post().header("content-type", "application/x-www-form-urlencoded"),
        ),
        ("too large", post_json(large)),
    ])
    .await;
    insta::assert_snapshot!(said);
    let most = "x".repeat(1024 * 1024 - "{\"message\":\"\"}".len());
    let (status, _) = answer(post_json(json!({"message": most}).to_string())).await;
    assert_eq!(status, 200, "one mebibyte is not too much");
    let request = post().header("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(request.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_compressed_body_is_refused_for_its_encoding_and_not_as_bad_json() {
    let program = Program::start().await;
    let client = program.client();
    let zipped: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    for path in ["/api/v1/sessions/s/turns", "/v1/chat/completions", "/mcp"] {
        for coding in ["gzip", "identity, BR"] {
            let request = client.post(path).body(zipped);
            let request = request.header("content-type", "application/json");
            let request = request.header("content-encoding", coding);
            let refused = request.send().await.unwrap();
            assert_eq!(refused.status(), 415, "{path}: {coding}");
            assert_eq!(refused.headers()["accept-encoding"], "identity", "{path}");
            let text = refused.text().await.unwrap();
            assert!(text.contains("Content-Encoding"), "{path}: {text}");
        }
    }
    let as_it_is = turn(&client, "{\"message\": \"a\"}").header("content-encoding", "Identity");
    assert_eq!(as_it_is.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_request_from_a_web_page_of_another_origin_is_refused() {
    let program = Program::start().await;
    let client = program.client();
    let health = |name: &'static str, value: &str| client.get("/healthz").header(name, value);
    let said = refusals([
        (
            "a name that was made to lead here",
            health("host", "evil.example"),
        ),
        (
            "the same with our port",
            health("host", "evil.example:8787"),
        ),
        ("an address of all", health("host", "0.0.0.0:8787")),
        ("no host at all", health("host", "not a host")),
        ("a page elsewhere", health("origin", "http://evil.example")),
        (
            "a page of another program here",
            health("origin", "http://localhost:1"),
        ),
        ("a page without origin", health("origin", "null")),
        (
            "even where nothing is",
            client.get("/nothing").header("origin", "null"),
        ),
    ])
    .await;
    insta::assert_snapshot!(said);
    let port = program.address().rsplit(':').next().unwrap();
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let request = health("host", &format!("{host}:{port}"));
        let request = request.header("origin", format!("http://localhost:{port}"));
        assert_eq!(request.send().await.unwrap().status(), 200, "{host}");
    }
}

#[tokio::test]
async fn a_last_event_id_that_is_not_a_number_is_refused() {
    let program = Program::start().await;
    let client = program.client();
    let after = |last: &str| {
        let request = turn(&client, "{\"message\": \"a\"}");
        request.header("last-event-id", last)
    };
    let long = "9".repeat(10_000);
    for last in [
        "",
        "abc",
        "-1",
        "+1",
        "1.5",
        "1 2",
        &long,
        "18446744073709551616",
    ] {
        let said = refusal(after(last)).await;
        assert!(said.starts_with("400 "), "{last}: {said}");
        assert!(
            said.contains("/errors/invalid-last-event-id"),
            "{last}: {said}"
        );
        assert!(said.contains("Last-Event-ID must be"), "{said}");
    }
    let said = refusal(after("1").header("last-event-id", "2")).await;
    assert!(said.starts_with("400 "), "{said}");
    assert_eq!(after("7").send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_mistyped_parameter_is_refused_with_its_form_and_what_came() {
    let program = Program::start().await;
    let client = program.client();
    for (path, expected) in [
        (
            "sessions?limit=x",
            "limit: expected a whole number from 1 to 999, not \"x\"",
        ),
        (
            "runs?limit=0",
            "limit: expected a whole number from 1 to 999, not \"0\"",
        ),
        ("runs?after=x", "after: expected a UUID, not \"x\""),
        (
            "stats?since=never",
            "since: expected a time such as 2026-01-31T08:00:00Z, not \"never\"",
        ),
    ] {
        let (status, problem) = answer(client.get(&format!("/api/v1/{path}"))).await;
        assert_eq!(status, 400, "{path}");
        assert_eq!(problem["detail"], expected, "{path}");
    }
}
