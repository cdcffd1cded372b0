//! Tests of how events become a reply.
#![expect(
    clippy::needless_pass_by_value,
    reason = "values are written where they are given"
)]

mod refused;
mod split;

use neuraxis_core::{LlmErrorKind, ReplyAssembler, ReplyPart, TokenCount};
use serde_json::{Value, json};

use super::*;

fn errors() -> ServerErrors {
    ServerErrors::new("https://api.openai.com", &[], Vec::new())
}

fn output() -> Output {
    Output::new(
        "https://api.openai.com".into(),
        ModelRef::new("openai", "m"),
        None,
    )
}

/// Processes events until the reply is complete.
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
            .event(event, &mut out, &errors())
            .map_err(|error| output.with_usage(error))?;
        if brought == EventOutcome::End {
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
    output().decode_whole(response.to_string().as_bytes(), &errors())
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

/// A streamed reply of a thought, a text and a call.
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
fn a_stream_and_its_final_response_decode_to_the_same_reply() {
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
fn items_are_stored_with_the_reply_for_later_requests() {
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
fn completed_items_without_deltas_make_the_same_reply() {
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
fn open_reasoning_is_read_like_a_summary() {
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
fn hidden_reasoning_is_kept_with_its_state() {
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
fn a_refusal_is_text_with_a_refused_finish() {
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
    assert_eq!(reply.finish, ReplyFinish::Refused);
    let response = completed(&[item])["response"].take();
    assert_eq!(whole(&response).unwrap(), reply);
}

#[test]
fn the_incomplete_reason_determines_the_finish() {
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
fn a_call_cut_off_by_the_token_limit_has_a_length_finish() {
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
fn a_response_that_is_not_finished_is_incomplete() {
    for status in ["queued", "in_progress", "cancelled"] {
        let error = whole(&json!({"status": status, "output": []})).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete);
    }
}

#[test]
fn unknown_events_are_skipped_whatever_they_contain() {
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
fn an_item_of_another_type_is_ignored() {
    let other = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let reply = reply(&[done(0, other), done(1, message("Hi")), completed(&[])]).unwrap();
    assert_eq!(reply.parts.len(), 1);
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
    assert_eq!(usage.cache_written, Some(TokenCount::measured(1)));
    assert_eq!(usage.completion, TokenCount::measured(9));
    assert_eq!(usage.reasoning, TokenCount::measured(7));
    assert_eq!(usage.total, TokenCount::measured(59));
}
