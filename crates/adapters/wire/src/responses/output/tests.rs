//! Tests of how events become a reply.
#![expect(
    clippy::needless_pass_by_value,
    reason = "values are written where they are given"
)]

use neuraxis_core::{ReplyPart, TokenCount};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sse::SseDecoder;

fn voice() -> Voice {
    Voice {
        server: "https://api.openai.com".to_owned(),
        errors: &[],
        secrets: Vec::new(),
    }
}

fn output() -> Output {
    Output::new(
        "https://api.openai.com".into(),
        ModelRef::new("openai", "m"),
    )
}

/// Takes events until the reply is whole.
fn deltas(events: &[Value]) -> Result<Vec<ReplyDelta>, LlmError> {
    let mut output = output();
    let mut out = VecDeque::new();
    for event in events {
        let data = event.to_string();
        let event = SseEvent {
            name: "",
            data: &data,
        };
        let brought = output
            .event(event, &mut out, &voice())
            .map_err(|error| output.with_usage(error))?;
        if brought == Brought::End {
            return Ok(out.into());
        }
    }
    Err(LlmError::new(LlmErrorKind::Incomplete, "the events end"))
}

fn reply(events: &[Value]) -> Result<Reply, LlmError> {
    let mut assembler = ReplyAssembler::default();
    for delta in deltas(events)? {
        assembler.push(delta)?;
    }
    assembler.finish()
}

fn whole(response: &Value) -> Result<Reply, LlmError> {
    output().whole(response.to_string().as_bytes(), &voice())
}

fn invalid_reply(events: &[Value]) -> String {
    let error = reply(events).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{error}");
    error.message
}

fn added(at: usize, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": at, "item": item})
}

fn done(at: usize, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": at, "item": item})
}

fn delta(kind: &str, at: usize, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": at, "delta": delta})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {
        "status": "completed", "output": output, "usage": {"input_tokens": 5, "output_tokens": 4, "total_tokens": 9},
    }})
}

fn reasoning() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "status": null,
        "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Second."}]})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": arguments})
}

fn started(item: &Value, empty: &str) -> Value {
    let mut item = item.clone();
    item[empty] = if empty == "arguments" {
        json!("")
    } else {
        json!([])
    };
    item
}

/// A reply of a thought, a text and a call, as it streams.
fn stream() -> Vec<Value> {
    let summary = |at: u32, text: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": at, "delta": text});
    let items = [reasoning(), message("Héllo 🦀"), call("{\"at\":1}")];
    vec![
        json!({"type": "response.created", "response": {"status": "in_progress", "output": []}}),
        json!({"type": "response.in_progress", "response": {"status": "in_progress"}}),
        added(0, started(&items[0], "summary")),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0}),
        summary(0, "Fir"),
        summary(0, "st."),
        json!({"type": "response.reasoning_summary_text.done", "output_index": 0, "text": "First."}),
        summary(1, "Second."),
        done(0, items[0].clone()),
        added(1, started(&items[1], "content")),
        json!({"type": "response.content_part.added", "output_index": 1, "part": {"type": "output_text", "text": ""}}),
        delta("output_text", 1, "Hé"),
        delta("output_text", 1, "llo 🦀"),
        json!({"type": "response.output_text.done", "output_index": 1, "text": "Héllo 🦀"}),
        done(1, items[1].clone()),
        added(2, started(&items[2], "arguments")),
        delta("function_call_arguments", 2, "{\"at\""),
        delta("function_call_arguments", 2, ":1}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 2, "arguments": "{\"at\":1}"}),
        done(2, items[2].clone()),
        completed(&items),
    ]
}

#[test]
fn a_stream_and_the_response_it_leads_to_are_the_same_reply() {
    let streamed = reply(&stream()).unwrap();
    let response = stream().pop().unwrap()["response"].take();
    assert_eq!(whole(&response).unwrap(), streamed);
    assert_eq!(streamed.reasoning(), "First.\n\nSecond.");
    assert_eq!(streamed.text(), "Héllo 🦀");
    assert_eq!(streamed.finish, ReplyFinish::ToolCalls);
    assert_eq!(streamed.usage.total, TokenCount::measured(9));
    let call = streamed.calls().next().unwrap();
    assert_eq!(call.provider_id.as_deref(), Some("call_1"));
    assert_eq!(call.arguments.as_str(), "{\"at\":1}");
}

#[test]
fn items_are_kept_to_be_sent_back() {
    let reply = reply(&stream()).unwrap();
    let states: Vec<Value> = reply
        .parts
        .iter()
        .map(|part| match part {
            ReplyPart::Text(part) => &part.state,
            ReplyPart::Reasoning(part) => &part.state,
            ReplyPart::ToolCall(call) => &call.state,
        })
        .map(|state| state.as_ref().unwrap().decode().unwrap())
        .collect();
    let origin = json!({"server": "https://api.openai.com", "model": "m"});
    for state in &states {
        assert_eq!(
            (&state["server"], &state["model"]),
            (&origin["server"], &origin["model"])
        );
    }
    let item = &states[0]["item"];
    assert_eq!(item["encrypted_content"], "gAAA");
    assert_eq!(item["summary"], reasoning()["summary"]);
    assert_eq!(
        item.get("status"),
        None,
        "a field that means nothing is refused later"
    );
    assert_eq!(states[0]["is_sealed"], true);
    assert_eq!(states[1]["id"], "msg_1");
    assert_eq!(states[1]["phase"], "final_answer");
    assert_eq!(
        (&states[1]["after"], &states[2]["after"]),
        (&json!("rs_1"), &json!("rs_1"))
    );
    assert_eq!(states[2]["id"], "fc_1");
}

#[test]
fn without_pieces_the_items_that_are_done_are_the_reply() {
    let events = [
        done(0, reasoning()),
        done(1, message("Héllo 🦀")),
        done(2, call("{\"at\":1}")),
        completed(&[]),
    ];
    assert_eq!(reply(&events).unwrap(), reply(&stream()).unwrap());
    let only_the_end = [stream().pop().unwrap()];
    assert_eq!(reply(&only_the_end).unwrap(), reply(&stream()).unwrap());
}

#[test]
fn reasoning_in_the_open_is_read_like_a_summary() {
    let item = json!({"type": "reasoning", "id": "rs_1", "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}]});
    let events = [
        added(0, started(&item, "content")),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "h"}),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "m"}),
        done(0, item.clone()),
        completed(&[item]),
    ];
    assert_eq!(reply(&events).unwrap().reasoning(), "hm");
}

#[test]
fn reasoning_that_nobody_may_read_is_kept_all_the_same() {
    let item =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let reply = reply(&[done(0, item), done(1, message("Hi")), completed(&[])]).unwrap();
    let ReplyPart::Reasoning(part) = &reply.parts[0] else {
        panic!("no reasoning: {reply:?}");
    };
    assert_eq!((part.text.as_str(), part.id.as_deref()), ("", Some("rs_1")));
    assert!(part.state.is_some());
}

#[test]
fn a_refusal_is_text_and_ends_the_reply_as_filtered() {
    let item = json!({"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "I can't."}]});
    let streamed = [
        added(0, started(&item, "content")),
        delta("refusal", 0, "I "),
        delta("refusal", 0, "can't."),
        done(0, item.clone()),
        completed(std::slice::from_ref(&item)),
    ];
    let reply = reply(&streamed).unwrap();
    assert_eq!(reply.text(), "I can't.");
    assert_eq!(reply.finish, ReplyFinish::ContentFilter);
    let response = completed(&[item])["response"].take();
    assert_eq!(whole(&response).unwrap(), reply);
}

#[test]
fn why_a_reply_is_incomplete_is_its_finish() {
    let ends = |reason: &str| {
        let response = json!({"status": "incomplete", "incomplete_details": {"reason": reason}, "output": [message("Hel")]});
        whole(&response).map(|reply| reply.finish)
    };
    assert_eq!(ends("max_output_tokens").unwrap(), ReplyFinish::Length);
    assert_eq!(ends("max_tokens").unwrap(), ReplyFinish::Length);
    assert_eq!(ends("content_filter").unwrap(), ReplyFinish::ContentFilter);
    for unknown in ["", "bored"] {
        assert_eq!(
            ends(unknown).unwrap_err().kind,
            LlmErrorKind::InvalidResponse
        );
    }
}

#[test]
fn a_call_that_was_cut_short_by_the_limit_comes_with_that_finish() {
    let events = [
        added(0, call("")),
        delta("function_call_arguments", 0, "{\"at"),
        json!({"type": "response.incomplete", "response": {
            "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [call("{\"at")]}}),
    ];
    let reply = reply(&events).unwrap();
    assert_eq!(reply.finish, ReplyFinish::Length);
    assert_eq!(reply.calls().next().unwrap().arguments.as_str(), "{\"at");
}

#[test]
fn a_response_that_failed_is_the_error_it_names_and_keeps_its_usage() {
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
fn an_error_event_counts_at_its_top_and_below_it() {
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
fn a_response_that_is_not_finished_is_incomplete() {
    for status in ["queued", "in_progress", "cancelled"] {
        let error = whole(&json!({"status": status, "output": []})).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete);
    }
}

#[test]
fn what_is_no_response_is_called_so() {
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
        invalid_reply(&[json!({"choices": [{"delta": {"content": "x"}}]})]).contains("no event")
    );
    let contradiction = json!({"type": "response.completed", "response": {"status": "incomplete"}});
    assert!(invalid_reply(&[contradiction]).contains("calls itself"));
}

#[test]
fn events_of_no_interest_are_passed_over_whatever_they_hold() {
    let mut events = stream();
    events.insert(
        3,
        json!({"type": "response.new_thing", "delta": {"x": 1}, "obfuscation": "aB3"}),
    );
    events.insert(
        3,
        json!({"type": "response.output_text.annotation.added", "annotation": {}}),
    );
    assert_eq!(reply(&events).unwrap(), reply(&stream()).unwrap());
}

#[test]
fn an_item_of_no_interest_takes_no_part() {
    let other = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let reply = reply(&[done(0, other), done(1, message("Hi")), completed(&[])]).unwrap();
    assert_eq!(reply.parts.len(), 1);
}

#[test]
fn what_contradicts_itself_is_invalid() {
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
            "done twice",
            vec![done(0, message("x")), done(0, message("x"))],
        ),
        (
            "after it was done",
            vec![done(0, message("x")), delta("output_text", 0, "y")],
        ),
        (
            "not what streamed",
            vec![
                added(0, message("")),
                delta("output_text", 0, "x"),
                done(0, message("y")),
            ],
        ),
        (
            "not what streamed",
            vec![
                added(0, call("")),
                delta("function_call_arguments", 0, "{"),
                done(0, call("[]")),
            ],
        ),
        (
            "changed what it is",
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
fn a_runaway_reply_is_cut_off() {
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

#[test]
fn a_stream_without_its_last_event_is_incomplete() {
    let mut events = stream();
    events.pop();
    assert_eq!(reply(&events).unwrap_err().kind, LlmErrorKind::Incomplete);
}

#[test]
fn the_model_that_answers_is_named() {
    let response =
        json!({"status": "completed", "model": "m-2026-01-01", "output": [message("Hi")]});
    assert_eq!(&*whole(&response).unwrap().model.model, "m-2026-01-01");
}

#[test]
fn the_tokens_of_reasoning_and_of_the_cache_are_counted() {
    let response = json!({"status": "completed", "output": [message("Hi")], "usage": {
        "input_tokens": 50, "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 1},
        "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 7}, "total_tokens": 59}});
    let usage = whole(&response).unwrap().usage;
    assert_eq!(usage.prompt, TokenCount::measured(50));
    assert_eq!(usage.cached, TokenCount::measured(40));
    assert_eq!(usage.completion, TokenCount::measured(9));
    assert_eq!(usage.reasoning, TokenCount::measured(7));
    assert_eq!(usage.total, TokenCount::measured(59));
}

/// Decodes the bytes of a stream that comes in these pieces.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, LlmError> {
    let mut events = SseDecoder::new();
    let (mut output, mut out) = (output(), VecDeque::new());
    let mut assembler = ReplyAssembler::default();
    'pieces: for piece in pieces {
        events.push(bytes::Bytes::copy_from_slice(piece));
        while let Some(event) = events.next_event()? {
            if output.event(event, &mut out, &voice())? == Brought::End {
                break 'pieces;
            }
        }
    }
    out.into_iter()
        .try_for_each(|delta| assembler.push(delta))?;
    assembler.finish()
}

fn bytes_of(events: &[Value]) -> Vec<u8> {
    let event = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    };
    events.iter().map(event).collect::<String>().into_bytes()
}

#[test]
fn a_stream_that_is_split_at_any_byte_gives_the_same_reply() {
    let bytes = bytes_of(&stream());
    let expected = reply(&stream()).unwrap();
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(decode([first, second]).unwrap(), expected, "split at {at}");
    }
    assert_eq!(decode(bytes.chunks(1)).unwrap(), expected);
}

#[test]
fn a_stream_that_is_cut_at_any_byte_gives_no_reply() {
    let bytes = bytes_of(&stream());
    for end in 0..bytes.len() - 1 {
        let error = decode([&bytes[..end]]).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete, "cut at {end}");
    }
}

/// Values that often are what an event has there.
fn junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{}\\[\\]\"]{0,6}".prop_map(Value::from),
        prop::sample::select(vec![
            "message",
            "function_call",
            "reasoning",
            "completed",
            "failed"
        ])
        .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "type",
        "item",
        "output_index",
        "delta",
        "response",
        "output",
        "status",
        "content",
        "summary",
        "text",
        "arguments",
        "name",
        "call_id",
        "id",
        "error",
        "usage",
        "encrypted_content",
        "incomplete_details",
        "reason",
    ]);
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|fields| Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn no_event_makes_the_decoder_panic(
        kinds in prop::collection::vec((prop::sample::select(vec![
            "response.output_item.added", "response.output_item.done", "response.output_text.delta",
            "response.function_call_arguments.delta", "response.reasoning_summary_text.delta",
            "response.completed", "response.failed", "error", "other",
        ]), junk()), 0..8),
    ) {
        let events: Vec<Value> = kinds.into_iter().map(|(kind, mut event)| {
            if let Some(fields) = event.as_object_mut() {
                fields.insert("type".to_owned(), kind.into());
            }
            event
        }).collect();
        let _ = reply(&events);
        for event in &events {
            let _ = whole(event);
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode([bytes.as_slice()]);
        let _ = output().whole(&bytes, &voice());
    }
}
