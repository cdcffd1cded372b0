//! Tests of how chunks become a reply.

use neuraxis_core::{JsonText, ReplyAssembler, ReplyPart, TokenCount};
use proptest::strategy::Strategy;

use super::*;
use crate::reply::MAX_CALLS;

fn errors() -> ServerErrors {
    ServerErrors::new("http://127.0.0.1:8080", &[], Vec::new())
}

fn blocks() -> Blocks {
    let origin = StateOrigin {
        server: "http://127.0.0.1:8080".into(),
        model: "default".into(),
    };
    Blocks::new(ModelRef::new("llama", "default"), origin)
}

/// Processes chunks and ends the reply.
fn deltas<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Result<Vec<ReplyDelta>, LlmError> {
    let mut blocks = blocks();
    let mut out = VecDeque::new();
    for chunk in chunks {
        blocks
            .process_chunk(chunk, &mut out, &errors())
            .map_err(|error| blocks.with_usage(error))?;
    }
    blocks
        .end(&mut out)
        .map_err(|error| blocks.with_usage(error))?;
    Ok(out.into())
}

fn reply<'a>(chunks: impl IntoIterator<Item = &'a str>) -> Result<Reply, LlmError> {
    let mut assembler = ReplyAssembler::default();
    for delta in deltas(chunks)? {
        assembler.push(delta)?;
    }
    assembler.finish()
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn finished(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

/// The reply to deltas that end with a finish reason.
fn reply_to(pieces: &[&str], reason: &str) -> Result<Reply, LlmError> {
    let chunks: Vec<String> = pieces
        .iter()
        .map(|piece| delta(piece))
        .chain([finished(reason)])
        .collect();
    reply(chunks.iter().map(String::as_str))
}

fn invalid(pieces: &[&str], reason: &str) -> String {
    let error = reply_to(pieces, reason).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{error}");
    error.message
}

fn calls(reply: &Reply) -> Vec<(Option<&str>, &str, &str)> {
    reply
        .calls()
        .map(|call| {
            (
                call.provider_id.as_deref(),
                call.name.as_ref(),
                call.arguments.as_str(),
            )
        })
        .collect()
}

#[test]
fn ids_and_names_of_calls_count_toward_the_size_of_a_reply() {
    let long = "x".repeat(5 << 20);
    for (id, name) in [(long.as_str(), "look"), ("call", long.as_str())] {
        let call = |at: usize| {
            let function = format!(r#"{{"name":"{name}","arguments":"{{}}"}}"#);
            format!(r#"{{"tool_calls":[{{"index":{at},"id":"{id}{at}","function":{function}}}]}}"#)
        };
        let said = invalid(&[&call(0), &call(1)], "tool_calls");
        assert!(said.contains("larger than"), "{said}");
    }
}

#[test]
fn blocks_are_numbered_in_order_of_appearance() {
    let pieces = [
        r#"{"role":"assistant","content":null}"#,
        r#"{"reasoning_content":"hm"}"#,
        r#"{"content":""}"#,
        r#"{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"ls","arguments":""}}]}"#,
        r#"{"content":"text"}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\""}}]}"#,
        r#"{"reasoning_content":"!"}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#,
    ];
    let reply = reply_to(&pieces, "tool_calls").unwrap();
    let kinds: Vec<_> = reply
        .parts
        .iter()
        .map(|part| match part {
            ReplyPart::Reasoning(part) => format!("reasoning {} {}", part.index, part.text),
            ReplyPart::ToolCall(call) => format!("call {}", call.name),
            ReplyPart::Text(part) => format!("text {}", part.text),
        })
        .collect();
    assert_eq!(kinds, ["reasoning 0 hm!", "call ls", "text text"]);
    assert_eq!(calls(&reply), [(Some("c1"), "ls", r#"{"p":1}"#)]);
    assert_eq!(reply.finish, ReplyFinish::ToolCalls);
}

#[test]
fn a_whole_reply_is_read_like_a_chunk() {
    let whole = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","logprobs":null,
 "message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[
    {"id":"call_1","type":"function","function":{"name":"ls","arguments":"{\"p\":\".\"}"}},
    {"id":"call_2","type":"function","function":{"name":"ls","arguments":"{}"}}]}}],
 "usage":{"prompt_tokens":50,"completion_tokens":9,"total_tokens":59,
  "prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":0,"audio_tokens":0},
  "completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}"#;
    let reply = reply([whole]).unwrap();
    assert_eq!(
        calls(&reply),
        [
            (Some("call_1"), "ls", r#"{"p":"."}"#),
            (Some("call_2"), "ls", "{}")
        ]
    );
    assert_eq!(reply.usage.total, TokenCount::measured(59));
    assert_eq!(*reply.model.model, *"m");
    assert_eq!(*reply.model.provider, *"llama");
}

#[test]
fn a_final_whole_message_repeats_nothing_of_the_stream() {
    let whole = |reason: &str| {
        format!(
            r#"{{"object":"chat.completion","model":"m","choices":[{{"index":0,"finish_reason":"{reason}","message":{{
                "role":"assistant","content":"x","reasoning_content":"hm",
                "tool_calls":[{{"id":"c","function":{{"name":"a","arguments":"{{}}"}}}}]}}}}],
                "usage":{{"prompt_tokens":7,"completion_tokens":3}}}}"#
        )
    };
    let pieces = [
        delta(r#"{"reasoning_content":"hm"}"#),
        delta(r#"{"content":"x"}"#),
        delta(r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":"{}"}}]}"#),
    ];
    for end in [
        vec![whole("tool_calls")],
        vec![finished("tool_calls"), whole("tool_calls")],
    ] {
        let chunks = pieces.iter().chain(&end).map(String::as_str);
        let reply = reply(chunks).unwrap();
        assert_eq!(reply.reasoning(), "hm");
        assert_eq!(reply.text(), "x");
        assert_eq!(calls(&reply), [(Some("c"), "a", "{}")]);
        assert_eq!(reply.finish, ReplyFinish::ToolCalls);
        assert_eq!(reply.usage.prompt, TokenCount::measured(7));
        assert_eq!(*reply.model.model, *"m");
    }
    let alone = [delta(r#"{"role":"assistant","content":""}"#), whole("stop")];
    let reply = reply(alone.iter().map(String::as_str)).unwrap();
    assert_eq!(reply.text(), "x", "nothing of it came before");
}

#[test]
fn empty_arguments_become_an_empty_object() {
    for arguments in ["", " "] {
        let piece = format!(
            r#"{{"tool_calls":[{{"index":0,"id":"c","function":{{"name":"now","arguments":"{arguments}"}}}}]}}"#
        );
        let reply = reply_to(&[&piece], "tool_calls").unwrap();
        assert_eq!(calls(&reply)[0].2.trim(), "{}");
    }
    let piece = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"now"}}]}"#;
    assert_eq!(calls(&reply_to(&[piece], "tool_calls").unwrap())[0].2, "{}");
}

#[test]
fn numeric_ids_and_object_arguments_are_accepted_as_written() {
    let streamed = r#"{"tool_calls":[{"index":0,"id":7,"function":{"name":"ls","arguments":{"n": 1.50, "p":"\u00e9"}}},
        {"index":1,"id":null,"function":{"name":"ls","arguments":null}}]}"#;
    let reply = reply_to(&[streamed], "tool_calls").unwrap();
    assert_eq!(
        calls(&reply),
        [
            (Some("7"), "ls", r#"{"n": 1.50, "p":"\u00e9"}"#),
            (None, "ls", "{}"),
        ]
    );
}

#[test]
fn a_call_without_index_or_id_is_still_a_call() {
    let pieces = [
        r#"{"tool_calls":[{"function":{"name":"a","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
        r#"{"tool_calls":[{"id":"","function":{"name":"b","arguments":"{}"}}]}"#,
    ];
    let reply = reply_to(&pieces, "stop").unwrap();
    assert_eq!(calls(&reply), [(None, "a", "{}"), (None, "b", "{}")]);
    assert_eq!(reply.finish, ReplyFinish::ToolCalls);
}

#[test]
fn a_call_that_repeats_its_name_and_id_is_one_call() {
    let pieces = [
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":"}"}}]}"#,
    ];
    assert_eq!(
        calls(&reply_to(&pieces, "tool_calls").unwrap()),
        [(Some("c"), "a", "{}")]
    );
}

/// Pieces of a reply's calls, each with its index, id, name and arguments.
fn call_pieces(pieces: &[(u64, Option<&str>, Option<&str>, &str)]) -> Vec<String> {
    let piece = |(index, id, name, arguments): &(u64, Option<&str>, Option<&str>, &str)| {
        let function = serde_json::json!({"name": name, "arguments": arguments});
        let call = serde_json::json!({"index": index, "id": id, "function": function});
        serde_json::json!({"tool_calls": [call]}).to_string()
    };
    pieces.iter().map(piece).collect()
}

#[test]
fn calls_may_share_an_index_or_have_any_other() {
    // As Ollama numbers, as some gateways do, and as no server should.
    for [first, second] in [[0, 0], [1, 2], [2, 0], [0, u64::MAX]] {
        let pieces = call_pieces(&[
            (first, Some("c"), Some("a"), "{"),
            (first, None, None, "}"),
            (second, Some("d"), Some("a"), r#"{"p""#),
            (second, None, None, ":1}"),
        ]);
        let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
        assert_eq!(
            calls(&reply_to(&pieces, "tool_calls").unwrap()),
            [(Some("c"), "a", "{}"), (Some("d"), "a", r#"{"p":1}"#)],
            "{first} {second}"
        );
    }
}

#[test]
fn calls_with_one_index_and_no_ids_are_separated_by_name_or_completeness() {
    // As converters for Gemini send them, and as a server does that repeats the name in each piece.
    let pieces = call_pieces(&[
        (0, Some(""), Some("a"), "{}"),
        (0, Some(""), Some("b"), r#"{"p":1}"#),
        (0, None, Some("b"), r#"{"p""#),
        (0, None, Some("b"), ":2}"),
        (0, None, Some("a"), "{}"),
        (0, None, Some("a"), ""),
    ]);
    let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
    assert_eq!(
        calls(&reply_to(&pieces, "stop").unwrap()),
        [
            (None, "a", "{}"),
            (None, "b", r#"{"p":1}"#),
            (None, "b", r#"{"p":2}"#),
            (None, "a", "{}"),
        ]
    );
}

#[test]
fn fragments_of_calls_may_alternate_by_index() {
    let pieces = call_pieces(&[
        (1, Some("c"), Some("a"), "{"),
        (2, Some("d"), Some("b"), "{"),
        (1, None, None, "}"),
        (2, None, None, " }"),
    ]);
    let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
    assert_eq!(
        calls(&reply_to(&pieces, "tool_calls").unwrap()),
        [(Some("c"), "a", "{}"), (Some("d"), "b", "{ }")]
    );
}

#[test]
fn extra_content_of_a_call_is_kept_as_its_state() {
    let pieces = [
        r#"{"tool_calls":[{"id":"c","function":{"name":"ls","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}"#,
        r#"{"tool_calls":[{"id":"d","function":{"name":"ls","arguments":"{}"},"extra_content":null}]}"#,
    ];
    let reply = reply_to(&pieces, "stop").unwrap();
    let kept: Vec<_> = reply
        .calls()
        .map(|call| call.state.as_ref().map(JsonText::as_str))
        .collect();
    let signed = r#"{"server":"http://127.0.0.1:8080","model":"default","extra_content":{"google":{"thought_signature":"c2ln"}}}"#;
    assert_eq!(kept, [Some(signed), None]);
}

#[test]
fn extra_content_of_a_call_may_arrive_after_the_finish() {
    let call = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"ls","arguments":"{}"}}]}"#;
    let signed =
        r#"{"tool_calls":[{"index":0,"extra_content":{"google":{"thought_signature":"c2ln"}}}]}"#;
    let chunks = [delta(call), finished("tool_calls"), delta(signed)];
    let reply = reply(chunks.iter().map(String::as_str)).unwrap();
    assert_eq!(calls(&reply), [(Some("c"), "ls", "{}")]);
    assert!(reply.calls().all(|call| call.state.is_some()));
}

#[test]
fn inconsistent_calls_are_an_invalid_response() {
    let first = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":""}}]}"#;
    let call = |call: &str| format!(r#"{{"tool_calls":[{call}]}}"#);
    for (second, complaint) in [
        (
            r#"{"index":0,"function":{"name":"b"}}"#,
            "name of a tool call changed",
        ),
        (r#"{"index":0,"id":"d"}"#, "id of a tool call changed"),
        (r#"{"index":1,"id":"c","function":{"name":"b"}}"#, "same id"),
        (
            r#"{"index":1,"id":"d","function":{"arguments":"{}"}}"#,
            "without a name",
        ),
        (
            r#"{"index":18446744073709551615,"function":{"arguments":"{}"}}"#,
            "without a name",
        ),
    ] {
        let said = invalid(&[first, &call(second)], "tool_calls");
        assert!(said.contains(complaint), "{second}: {said}");
    }
}

#[test]
fn the_number_of_calls_in_a_reply_is_limited() {
    let calls: Vec<String> = (0..=MAX_CALLS)
        .map(|index| format!(r#"{{"index":{index},"function":{{"name":"a"}}}}"#))
        .collect();
    let said = invalid(
        &[&format!(r#"{{"tool_calls":[{}]}}"#, calls.join(","))],
        "tool_calls",
    );
    assert!(said.contains("more than 300"), "{said}");
}

#[test]
fn an_unknown_or_inconsistent_finish_is_refused() {
    let text = r#"{"content":"x"}"#;
    assert!(invalid(&[text], "eos\u{202e}").contains(r"unknown finish reason"));
    assert!(invalid(&[text], "tool_calls").contains("has none"));
    let malformed = invalid(&[text], "function_call_filter: MALFORMED_FUNCTION_CALL");
    assert!(malformed.contains("a call that its server cannot parse"));
    let two = [delta(text), finished("stop"), finished("length")];
    let error = reply(two.iter().map(String::as_str)).unwrap_err();
    assert!(error.message.contains("two different"), "{error}");
    let on = [delta(text), finished("stop"), delta(text)];
    let error = reply(on.iter().map(String::as_str)).unwrap_err();
    assert!(error.message.contains("continued after"), "{error}");
}

#[test]
fn a_reply_without_finish_is_incomplete_and_keeps_its_usage() {
    let chunks = [
        delta(r#"{"content":"x"}"#),
        r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#.to_owned(),
    ];
    let error = reply(chunks.iter().map(String::as_str)).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Incomplete);
    assert_eq!(error.usage.unwrap().prompt, TokenCount::measured(7));
}

#[test]
fn missing_usage_is_unknown() {
    let reply = reply_to(&[r#"{"content":"x"}"#], "stop").unwrap();
    assert_eq!(reply.usage.prompt, TokenCount::UNKNOWN);
}

#[test]
fn usage_inside_a_choice_is_used_if_the_chunk_has_none() {
    let choice =
        r#"{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":7,"cached_tokens":3}}"#;
    for (of_chunk, prompt, cached) in [("null", 7, 3), (r#"{"prompt_tokens":8}"#, 8, 0)] {
        let last = format!(r#"{{"choices":[{choice}],"usage":{of_chunk}}}"#);
        let chunks = [delta(r#"{"content":"x"}"#), last];
        let reply = reply(chunks.iter().map(String::as_str)).unwrap();
        assert_eq!(reply.usage.prompt, TokenCount::measured(prompt));
        assert_eq!(reply.usage.cached, TokenCount::measured(cached));
    }
}

#[test]
fn each_finish_reason_is_understood() {
    for (reason, finish) in [
        ("stop", ReplyFinish::Stop),
        ("eos", ReplyFinish::Stop),
        ("eos_token", ReplyFinish::Stop),
        ("length", ReplyFinish::Length),
        ("model_length", ReplyFinish::Length),
        ("content_filter", ReplyFinish::ContentFilter),
        ("content_filter: SAFETY", ReplyFinish::ContentFilter),
    ] {
        assert_eq!(
            reply_to(&[r#"{"content":"x"}"#], reason).unwrap().finish,
            finish
        );
    }
}

#[test]
fn reasoning_is_read_from_either_field_but_not_twice() {
    for piece in [
        r#"{"reasoning_content":"hm"}"#,
        r#"{"reasoning":"hm"}"#,
        r#"{"reasoning":"hm","reasoning_content":"hm"}"#,
    ] {
        let reply = reply_to(&[piece, r#"{"content":"x"}"#], "stop").unwrap();
        assert_eq!(reply.reasoning(), "hm", "{piece}");
    }
}

#[test]
fn content_parts_are_split_into_reasoning_and_text() {
    let thought = |text: &str| {
        format!(
            r#"{{"content":[{{"type":"thinking","thinking":[{{"type":"text","text":"{text}"}}]}}]}}"#
        )
    };
    let (begun, ended) = (thought("Let me "), thought(r#"\"think\"."#));
    let pieces = [
        r#"{"role":"assistant","content":""}"#,
        &begun,
        &ended,
        r#"{"content":[]}"#,
        r#"{"content":[{"type":"text","text":"It "}]}"#,
        r#"{"content":[{"type":"reference","reference_ids":[1]},{"type":"text","text":"is"}]}"#,
        r#"{"content":" so."}"#,
    ];
    let streamed = reply_to(&pieces, "stop").unwrap();
    let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":null,"content":[
        {"type":"thinking","thinking":[{"type":"text","text":"Let me "},{"type":"text","text":"\"think\"."}],"closed":true},
        {"type":"text","text":"It is so."}]},"finish_reason":"stop"}]}"#;
    for reply in [streamed, reply([whole]).unwrap()] {
        assert_eq!(reply.reasoning(), r#"Let me "think"."#);
        assert_eq!(reply.text(), "It is so.");
    }
}

#[test]
fn chunks_without_choices_or_content_are_skipped() {
    let chunks = [
        r#"{"choices":[]}"#,
        r#"{"choices":[{"index":0}]}"#,
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":null},"finish_reason":""}],"usage":null,"error":null}"#,
        r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"},{"index":1,"delta":{"content":"never asked for"}}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1}}"#,
    ];
    assert_eq!(reply(chunks).unwrap().text(), "x");
}

#[test]
fn a_malformed_chunk_is_refused() {
    for text in [
        "{",
        "null",
        "[]",
        "\"x\"",
        "{}",
        r#"{"choices":{}}"#,
        r#"{"choices":[{"delta":{"content":7}}]}"#,
        r#"{"choices":[{"delta":{"content":{"text":"x"}}}]}"#,
        r#"{"choices":[{"delta":{"content":[7]}}]}"#,
        r#"{"choices":[{"delta":{"content":"\ud800"}}]}"#,
        &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        let error = reply([text]).unwrap_err();
        let start: String = text.chars().take(40).collect();
        assert_eq!(
            error.kind,
            LlmErrorKind::InvalidResponse,
            "{start}: {error}"
        );
    }
}

#[test]
fn an_error_instead_of_a_chunk_is_returned_as_that_error() {
    for text in [
        r#"{"error":{"code":503,"message":"no slot","type":"unavailable_error"}}"#,
        r#"{"object":"error","message":"no slot","type":"unavailable_error","code":503}"#,
    ] {
        let error = reply([text]).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::server(Some(503)));
        assert!(error.message.starts_with("no slot"), "{error}");
    }
    let error = reply([r#"{"error":"out of memory"}"#]).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::server(None));
}

#[test]
fn a_reply_the_server_gave_up_is_a_server_error_with_usage() {
    let text = delta(r#"{"content":"Half"}"#);
    let used = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}"#;
    for reason in GAVE_UP_REASONS {
        let error = reply([text.as_str(), &finished(reason), used]).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::server(None));
        assert!(error.is_retryable());
        assert_eq!(error.usage.unwrap().prompt, TokenCount::measured(5));
    }
}

#[test]
fn a_reply_with_an_error_finish_fails_with_the_error_of_its_choice() {
    let half = delta(r#"{"content":"Half"}"#);
    let choice = |error: &str| {
        let finish = format!(r#""delta":{{}},"finish_reason":"error","error":{error}"#);
        format!(r#"{{"choices":[{{{finish}}}],"usage":{{"prompt_tokens":5}}}}"#)
    };
    for (error, kind, said) in [
        (
            r#"{"code":503,"message":"no slot"}"#,
            LlmErrorKind::server(Some(503)),
            "no slot",
        ),
        ("null", LlmErrorKind::server(None), "failed in the middle"),
        ("{}", LlmErrorKind::server(None), "failed in the middle"),
    ] {
        let failed = reply([half.as_str(), &choice(error)]).unwrap_err();
        assert_eq!(failed.kind, kind, "{failed}");
        assert!(failed.message.contains(said), "{failed}");
        assert!(failed.is_retryable());
        assert_eq!(failed.usage.unwrap().prompt, TokenCount::measured(5));
    }
}

#[test]
fn a_refusal_is_text_with_a_refused_finish_unless_filtered() {
    let reply = reply_to(&[r#"{"refusal":"I "}"#, r#"{"refusal":"can't."}"#], "stop").unwrap();
    assert_eq!(reply.text(), "I can't.");
    assert_eq!(reply.finish, ReplyFinish::Refused);
    let filtered = reply_to(&[r#"{"refusal":"I "}"#], "content_filter").unwrap();
    assert_eq!(filtered.finish, ReplyFinish::ContentFilter);
    let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"I can't."},"finish_reason":"stop"}]}"#;
    assert_eq!(self::reply([whole]).unwrap().finish, ReplyFinish::Refused);
    let calls = r#"{"refusal":null,"content":"x"}"#;
    assert_eq!(
        reply_to(&[calls], "stop").unwrap().finish,
        ReplyFinish::Stop
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(
        pieces in proptest::collection::vec(proptest::prelude::prop_oneof![
            proptest::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "null", "1", "-1", "\"x\"", "\"choices\":", "\"delta\":", "\"content\":",
                "\"tool_calls\":", "\"index\":", "\"function\":", "\"name\":", "\"arguments\":", "\"finish_reason\":",
                "\"stop\"", "\"error\":", "\"usage\":",
            ]).prop_map(str::to_owned),
            "\\PC{0,4}",
        ], 0..40),
    ) {
        let text = pieces.concat();
        let _ = deltas([text.as_str(), text.as_str()]);
        let _ = blocks().decode_whole(text.as_bytes(), &errors(), ());
    }

    #[test]
    fn no_well_formed_chunk_makes_the_decoder_panic(
        pieces in proptest::collection::vec((
            proptest::option::of(-1_i64..4), proptest::option::of("[ab]{0,2}"), proptest::option::of("[fg]{0,2}"), "\\PC{0,6}",
        ), 0..8),
        end in proptest::sample::select(vec!["stop", "tool_calls", "length", "other"]),
    ) {
        let chunks: Vec<String> = pieces.into_iter().map(|(index, id, name, arguments)| {
            let call = serde_json::json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
            delta(&serde_json::json!({"content": arguments, "tool_calls": [call]}).to_string())
        }).chain([finished(end)]).collect();
        let _ = reply(chunks.iter().map(String::as_str));
    }
}
