//! Input that is an error, and which error.

use super::*;

#[test]
fn a_failed_response_has_the_error_it_names_and_keeps_its_usage() {
    for (code, kind) in [
        ("server_error", LlmErrorKind::server(None)),
        (
            "rate_limit_exceeded",
            LlmErrorKind::RateLimited { retry_after: None },
        ),
    ] {
        let response = json!({"status": "failed", "error": {"code": code, "message": "no"},
            "usage": {"input_tokens": 5, "output_tokens": 2}});
        let event = json!({"type": "response.failed", "response": response});
        for error in [reply(&[event]).unwrap_err(), whole(&response).unwrap_err()] {
            assert_eq!(error.kind, kind);
            assert_eq!(error.usage.unwrap().prompt, TokenCount::measured(5));
        }
    }
    let unexplained = json!({"status": "failed", "error": null});
    assert_eq!(
        whole(&unexplained).unwrap_err().kind,
        LlmErrorKind::server(None)
    );
}

#[test]
fn an_error_event_is_recognized_flat_or_nested() {
    for event in [
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": null, "sequence_number": 3}),
        json!({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow"}}),
        json!({"error": {"type": "rate_limit_error", "message": "slow"}}),
    ] {
        let error = reply(&[event]).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::RateLimited { retry_after: None });
        assert!(
            error.message.starts_with("slow") && !error.message.contains("type error"),
            "{error}"
        );
    }
}

#[test]
fn a_document_that_is_no_response_is_reported_as_such() {
    for document in [
        json!({}),
        json!({"choices": []}),
        json!({"status": "splendid"}),
        json!([]),
        json!(null),
    ] {
        let error = whole(&document).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{document}");
    }
    assert!(
        invalid_reply(&[json!({"choices": [{"delta": {"content": "x"}}]})])
            .contains("not an event")
    );
    let contradiction = json!({"type": "response.completed", "response": {"status": "incomplete"}});
    assert!(invalid_reply(&[contradiction]).contains("but has status"));
}

#[test]
fn inconsistent_events_are_an_invalid_response() {
    let cases: [(&str, Vec<Value>); 14] = [
        ("gap", vec![added(1, message(""))]),
        (
            "begins twice",
            vec![added(0, message("")), added(0, message(""))],
        ),
        ("has not begun", vec![delta("output_text", 0, "x")]),
        (
            "without a name",
            vec![added(0, json!({"type": "function_call", "call_id": "c"}))],
        ),
        ("same id", vec![added(0, call("")), added(1, call(""))]),
        (
            "two kinds",
            vec![added(0, call("")), delta("output_text", 0, "x")],
        ),
        (
            "ends twice",
            vec![done(0, message("x")), done(0, message("x"))],
        ),
        (
            "after its end",
            vec![done(0, message("x")), delta("output_text", 0, "y")],
        ),
        (
            "differs from what was streamed",
            vec![
                added(0, message("")),
                delta("output_text", 0, "x"),
                done(0, message("y")),
            ],
        ),
        (
            "differs from what was streamed",
            vec![
                added(0, call("")),
                delta("function_call_arguments", 0, "{"),
                done(0, call("[]")),
            ],
        ),
        (
            "changed its type",
            vec![added(0, call("")), done(0, message("x"))],
        ),
        (
            "changed midway",
            vec![
                added(0, call("")),
                done(
                    0,
                    json!({"type": "function_call", "call_id": "call_2", "name": "look"}),
                ),
            ],
        ),
        ("never ended", vec![added(0, call("")), completed(&[])]),
        (
            "not offered",
            vec![added(0, json!({"type": "custom_tool_call", "name": "x"}))],
        ),
    ];
    for (complaint, events) in cases {
        let said = invalid_reply(&events);
        assert!(said.contains(complaint), "{complaint}: {said}");
    }
}

#[test]
fn ids_count_toward_the_size_of_a_reply() {
    let long = "x".repeat(MAX_REPLY_BYTES);
    let call = |at| {
        let id = format!("{at}{long}");
        added(
            at,
            json!({"type": "function_call", "call_id": id, "name": "look"}),
        )
    };
    let calls: Vec<Value> = (0..5).map(call).collect();
    assert!(invalid_reply(&calls).contains("larger than"));
    // The id of a thought is stored again with each item after it.
    let mut events = vec![added(0, json!({"type": "reasoning", "id": long}))];
    events.extend((1..4).map(|at| added(at, message(""))));
    assert!(invalid_reply(&events).contains("larger than"));
}

#[test]
fn a_runaway_reply_is_aborted() {
    let piece = "x".repeat(MAX_REPLY_BYTES);
    let mut events = vec![added(0, message(""))];
    events.extend((0..5).map(|_| delta("output_text", 0, &piece)));
    assert!(invalid_reply(&events).contains("larger than"));
    let many: Vec<Value> = (0..=MAX_CALLS)
        .map(|at| {
            added(
                at,
                json!({"type": "function_call", "call_id": format!("c{at}"), "name": "look"}),
            )
        })
        .collect();
    assert!(invalid_reply(&many).contains("more than 300 tool calls"));
}
