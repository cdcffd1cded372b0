//! Tests of encoded requests.

use neuraxis_core::{
    AssistantMessage, JsonText, LlmErrorKind, MediaPart, MediaSource, MediaTypes, Message,
    ModelRef, Part, ReasoningPart, ReplyFormat, TextPart, ToolCall, ToolCallId, ToolSpec,
};
use neuraxis_testkit::{messages, request, request_of, spec};
use serde_json::{Value, json};

use super::*;
use neuraxis_wire::{ServiceTier, StrictTools, SystemRole};

const SERVER: &str = "https://api.openai.com";

/// The protocol as OpenAI documents it, with nothing stored on the server.
const STANDARD: ResponsesDialect = ResponsesDialect {
    late_system: SystemRole::Developer,
    store: ReplyStorage::NotStored,
    encrypted_reasoning: EncryptedReasoning::NotRequested,
    reasoning_effort: None,
    reasoning_summary: None,
    strict_tools: StrictTools::WherePossible,
    parallel_calls: ParallelCalls::Unspecified,
    temperature: Temperature::Sent,
    service_tier: None,
    media: MediaTypes::Unknown,
};

fn encoder(dialect: ResponsesDialect) -> Encoder {
    Encoder::new(&Arc::from("m"), &Arc::from(SERVER), dialect)
}

fn body(dialect: ResponsesDialect, request: &ModelRequest) -> Value {
    let body = encoder(dialect).body(request, Delivery::Whole).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn input(dialect: ResponsesDialect, messages: impl IntoIterator<Item = Message>) -> Value {
    body(dialect, &request_of(messages))["input"].take()
}

/// Returns state as the adapter writes it.
fn state(fields: &str) -> Option<JsonText> {
    let text = format!(r#"{{"server":"{SERVER}","model":"m"{fields}}}"#);
    Some(JsonText::from_text(text))
}

fn reasoning(fields: &str) -> Part {
    Part::Reasoning(ReasoningPart {
        text: "hm".to_owned(),
        id: Some("rs_1".to_owned()),
        state: state(fields),
        ..ReasoningPart::default()
    })
}

/// A reasoning item with its encrypted content.
const SEALED: &str = r#","id":"rs_1","item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAA"},"is_sealed":true"#;
/// A reasoning item that the server must already know.
const UNSEALED: &str = r#","id":"rs_1","item":{"type":"reasoning","id":"rs_1","summary":[]}"#;

fn text(fields: &str) -> Part {
    Part::Text(TextPart {
        text: "Hello".to_owned(),
        state: state(fields),
    })
}

fn call(fields: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: ToolCallId::from_text("loop-1"),
        name: "look".into(),
        arguments: JsonText::from_text(r#"{"at": 1}"#),
        provider_id: Some("call_1".into()),
        state: state(fields),
    })
}

fn reply_of(provider: &str, parts: impl IntoIterator<Item = Part>) -> Message {
    Message::Assistant(AssistantMessage {
        parts: parts.into_iter().collect(),
        model: Some(ModelRef::new(provider, "m-2026-01-01")),
    })
}

fn reply(parts: impl IntoIterator<Item = Part>) -> Message {
    reply_of("openai", parts)
}

#[test]
fn a_request_matches_its_snapshot() {
    let mut request = request_of([
        Message::system("Be brief.\n\"Quotes\" and \u{1} and 🦀"),
        Message::user("What is here?"),
        reply([
            reasoning(SEALED),
            text(r#","id":"msg_1","after":"rs_1","phase":"commentary""#),
            call(r#","id":"fc_1","after":"rs_1""#),
        ]),
        messages::result("loop-1", "look", r#"["a","b"]"#),
        Message::assistant("Two files."),
        Message::system("Time is up."),
    ]);
    request.tools = [
        spec("look")
            .describe("Looks.")
            .schema(r#"{"type":"object","properties":{"at":{"type":"integer"}},"required":["at"]}"#)
            .build(),
        spec("free")
            .schema(r#"{"type":"object","properties":{"at":{"type":"integer"}}}"#)
            .build(),
    ]
    .into();
    request.max_output_tokens = Some(100);
    request.temperature = Some(0.7);
    let mut dialect = STANDARD;
    dialect.encrypted_reasoning = EncryptedReasoning::Requested;
    dialect.reasoning_effort = Some(ReasoningEffort::High);
    dialect.reasoning_summary = Some(ReasoningSummary::Auto);
    dialect.parallel_calls = ParallelCalls::Allowed;
    dialect.service_tier = Some(ServiceTier::Flex);
    let body = encoder(dialect).body(&request, Delivery::Streamed).unwrap();
    insta::assert_snapshot!(String::from_utf8_lossy(&body));
}

#[test]
fn a_minimal_request_contains_no_optional_fields() {
    let body = body(STANDARD, &request("hi"));
    assert_eq!(
        body,
        json!({"model": "m", "input": [{"role": "user", "content": "hi"}], "store": false})
    );
}

#[test]
fn a_conversation_without_messages_has_an_empty_input_list() {
    assert_eq!(input(STANDARD, []), json!([]));
    let only_instructions = body(STANDARD, &request_of([Message::system("s")]));
    assert_eq!(only_instructions["instructions"], "s");
    assert_eq!(only_instructions["input"], json!([]));
}

#[test]
fn a_late_system_message_has_the_role_the_server_accepts() {
    let history = || [Message::user("u"), Message::system("late")];
    assert_eq!(input(STANDARD, history())[1]["role"], "developer");
    let mut dialect = STANDARD;
    dialect.late_system = SystemRole::System;
    assert_eq!(input(dialect, history())[1]["role"], "system");
}

#[test]
fn tool_choices_are_written_flat() {
    let mut request = request("hi");
    request.tools = ["a", "b"].map(|name| spec(name).build()).into();
    for (choice, expected) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (
            ToolChoice::Named("b".parse().unwrap()),
            json!({"type": "function", "name": "b"}),
        ),
    ] {
        request.tool_choice = choice;
        let body = body(STANDARD, &request);
        assert_eq!(body["tool_choice"], expected);
        assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    }
    request.tool_choice = ToolChoice::Named("z".parse().unwrap());
    let error = encoder(STANDARD)
        .body(&request, Delivery::Whole)
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
}

#[test]
fn no_tool_fields_are_sent_without_tools() {
    let mut request = request("hi");
    request.tool_choice = ToolChoice::None;
    let mut dialect = STANDARD;
    dialect.parallel_calls = ParallelCalls::Disallowed;
    let body = body(dialect, &request);
    for field in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert_eq!(body.get(field), None, "{field}");
    }
}

#[test]
fn every_tool_states_whether_it_is_strict() {
    let mut request = request("hi");
    let strict = r#"{"type":"object","properties":{}}"#;
    let loose = r#"{"type":"object","properties":{"x":{"type":"string"}}}"#;
    request.tools = [
        spec("a").schema(strict).build(),
        spec("b").schema(loose).build(),
    ]
    .into();
    let flags = |strict_tools| {
        let mut dialect = STANDARD;
        dialect.strict_tools = strict_tools;
        let body = body(dialect, &request);
        [0, 1].map(|index| body["tools"][index]["strict"].as_bool())
    };
    assert_eq!(flags(StrictTools::WherePossible), [Some(true), Some(false)]);
    assert_eq!(flags(StrictTools::Unspecified), [Some(false), Some(false)]);
}

#[test]
fn the_reply_format_is_encoded_flat() {
    let mut request = request("hi");
    request.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(
            r#"{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}"#,
        ),
    };
    let format = body(STANDARD, &request)["text"]["format"].take();
    assert_eq!(format["type"], "json_schema");
    assert_eq!(format["name"], "answer");
    assert_eq!(format["strict"], true);
    assert_eq!(format["schema"]["additionalProperties"], false);
    let loose = r#"{"type":"array"}"#;
    request.reply_format = ReplyFormat::JsonSchema {
        name: "list".into(),
        schema: JsonText::from_text(loose),
    };
    let format = body(STANDARD, &request)["text"]["format"].take();
    assert_eq!(
        (&format["strict"], &format["schema"]["type"]),
        (&json!(false), &json!("array"))
    );
    request.reply_format = ReplyFormat::JsonSchema {
        name: "broken".into(),
        schema: JsonText::from_text("{"),
    };
    let error = encoder(STANDARD)
        .body(&request, Delivery::Whole)
        .unwrap_err();
    assert!(error.message.contains("reply format broken"), "{error}");
}

#[test]
fn a_token_limit_below_the_minimum_is_raised_to_it() {
    let mut request = request("hi");
    request.max_output_tokens = Some(1);
    assert_eq!(body(STANDARD, &request)["max_output_tokens"], 16);
}

#[test]
fn temperature_is_omitted_if_the_model_refuses_it() {
    let mut request = request("hi");
    request.temperature = Some(0.2);
    assert_eq!(body(STANDARD, &request)["temperature"], json!(0.2));
    let mut dialect = STANDARD;
    dialect.temperature = Temperature::LeftOut;
    assert_eq!(body(dialect, &request).get("temperature"), None);
}

#[test]
fn items_are_sent_back_whole_and_in_order() {
    let items = input(
        STANDARD,
        [reply([
            reasoning(SEALED),
            text(r#","id":"msg_1","after":"rs_1","phase":"final_answer""#),
            call(r#","id":"fc_1","after":"rs_1""#),
        ])],
    );
    assert_eq!(
        items,
        json!([
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA"},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
             "content": [{"type": "output_text", "text": "Hello", "annotations": []}], "phase": "final_answer"},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{\"at\": 1}"},
        ])
    );
}

#[test]
fn reasoning_without_a_following_item_is_not_sent() {
    assert_eq!(input(STANDARD, [reply([reasoning(SEALED)])]), json!([]));
    let after_the_call = [call(r#","id":"fc_1""#), reasoning(SEALED)];
    let items = input(STANDARD, [reply(after_the_call)]);
    assert_eq!(items.as_array().unwrap().len(), 1);
}

#[test]
fn an_id_is_omitted_if_its_reasoning_is_not_sent() {
    let without = [
        text(r#","id":"msg_1","after":"rs_1""#),
        call(r#","id":"fc_1","after":"rs_1""#),
    ];
    let items = input(STANDARD, [reply(without)]);
    assert_eq!(items[0], json!({"role": "assistant", "content": "Hello"}));
    assert_eq!(items[1].get("id"), None);
    assert_eq!(
        items[1]["call_id"], "call_1",
        "calls and results are paired by it"
    );
    let alone = input(STANDARD, [reply([text(r#","id":"msg_1""#)])]);
    assert_eq!(alone[0]["id"], "msg_1", "it came without reasoning");
}

#[test]
fn reasoning_without_content_is_sent_only_to_a_server_that_stores_it() {
    let parts = || [reasoning(UNSEALED), call(r#","id":"fc_1","after":"rs_1""#)];
    let items = input(STANDARD, [reply(parts())]);
    assert_eq!(items.as_array().unwrap().len(), 1);
    assert_eq!(items[0].get("id"), None);
    let mut dialect = STANDARD;
    dialect.store = ReplyStorage::Stored;
    let items = input(dialect, [reply(parts())]);
    assert_eq!(items[0]["id"], "rs_1");
    assert_eq!(items[1]["id"], "fc_1");
}

#[test]
fn replies_of_another_provider_server_or_model_are_sent_as_plain_text_and_calls() {
    let parts = || {
        [
            reasoning(SEALED),
            text(r#","id":"msg_1","after":"rs_1","phase":"final_answer""#),
            call(r#","id":"fc_1","after":"rs_1""#),
        ]
    };
    let foreign = input(STANDARD, [reply_of("deepseek", parts())]);
    assert_eq!(
        foreign,
        json!([
            {"role": "assistant", "content": "Hello"},
            {"type": "function_call", "call_id": "loop-1", "name": "look", "arguments": "{\"at\": 1}"},
        ])
    );
    for (server, model) in [("https://other.example", "m"), (SERVER, "other")] {
        let encoder = Encoder::new(&Arc::from(model), &Arc::from(server), STANDARD);
        let body = encoder
            .body(&request_of([reply(parts())]), Delivery::Whole)
            .unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        for secret in ["gAAA", "rs_1", "msg_1", "fc_1", "final_answer"] {
            assert!(!body.contains(secret), "{server} {model}: {body}");
        }
    }
}

#[test]
fn a_result_is_paired_with_its_call_by_the_provider_id() {
    let items = input(
        STANDARD,
        [
            reply([call("")]),
            messages::result("loop-1", "look", "1"),
            messages::result("lost", "look", "2"),
        ],
    );
    assert_eq!(
        items[1],
        json!({"type": "function_call_output", "call_id": "call_1", "output": "1"})
    );
    assert_eq!(items[2]["call_id"], "lost");
}

#[test]
fn an_empty_result_is_sent_as_no_output() {
    let items = input(
        STANDARD,
        [reply([call("")]), messages::result("loop-1", "look", " ")],
    );
    assert_eq!(items[1]["output"], "(no output)");
}

#[test]
fn an_id_that_is_too_long_is_shortened_alike_in_call_and_result() {
    let long = "x".repeat(65);
    let items = input(
        STANDARD,
        [
            messages::calls([(long.as_str(), "look", "{}")]),
            messages::result(&long, "look", "1"),
        ],
    );
    let id = items[0]["call_id"].as_str().unwrap();
    assert!(id.len() <= 64 && id.starts_with("call_"), "{id}");
    assert_eq!(items[1]["call_id"], id);
}

#[test]
fn an_invalid_tool_name_is_sanitized() {
    for (name, expected) in [("loök up", "lo_k_up"), ("", "_"), ("a-b_C1", "a-b_C1")] {
        let items = input(STANDARD, [messages::calls([("c", name, "")])]);
        assert_eq!(items[0]["name"], expected);
        assert_eq!(items[0]["arguments"], "{}");
    }
    let long = input(STANDARD, [messages::calls([("c", &*"n".repeat(80), "")])]);
    assert_eq!(long[0]["name"].as_str().unwrap().len(), 64);
}

#[test]
fn a_refusal_is_sent_back_as_a_refusal() {
    let items = input(STANDARD, [reply([text(r#","id":"msg_1","refusal":true"#)])]);
    assert_eq!(
        items[0]["content"],
        json!([{"type": "refusal", "refusal": "Hello"}])
    );
    let foreign = input(
        STANDARD,
        [reply_of("x", [text(r#","id":"msg_1","refusal":true"#)])],
    );
    assert_eq!(foreign[0], json!({"role": "assistant", "content": "Hello"}));
}

#[test]
fn supported_media_are_encoded_and_others_refused_or_omitted() {
    let media = |kind: &str, source| Message::User {
        parts: vec![
            Part::text("see"),
            Part::Media(MediaPart {
                media_type: kind.to_owned(),
                source,
            }),
        ],
    };
    let data = || MediaSource::Base64("QUJD".into());
    let url = |url: &str| MediaSource::Url(url.to_owned());
    let content = |message| input(STANDARD, [message])[0]["content"].take();
    assert_eq!(
        content(media("image/png", data())),
        json!([{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}])
    );
    assert_eq!(
        content(media("image/png", url("https://x/y.png")))[1]["image_url"],
        "https://x/y.png"
    );
    assert_eq!(
        content(media("application/pdf", data()))[1]["file_data"],
        "data:application/pdf;base64,QUJD"
    );
    assert_eq!(
        content(media("application/pdf", url("https://x/y.pdf")))[1]["file_url"],
        "https://x/y.pdf"
    );
    for message in [
        media("image/png", url("file:///etc/passwd")),
        media("audio/wav", data()),
    ] {
        let error = encoder(STANDARD)
            .body(&request_of([message]), Delivery::Whole)
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::BadRequest);
    }
    let sound = media("audio/wav", data());
    assert_eq!(
        input(STANDARD, [sound, Message::user("And now?")])[0]["content"][1],
        json!({"type": "input_text", "text": "[audio/wav, 3 bytes: left out, since this model does not take it]"})
    );
}

#[test]
fn each_request_of_a_run_starts_with_the_previous_one_byte_for_byte() {
    let tools: Arc<[ToolSpec]> = [spec("look").build()].into();
    let encoder = encoder(STANDARD);
    let mut request = request_of([Message::system("s"), Message::user("u")]);
    request.tools = Arc::clone(&tools);
    let conversation = |body: &[u8]| {
        let text = String::from_utf8(body.to_vec()).unwrap();
        text.split_once(r#"],"tools":"#).unwrap().0.to_owned()
    };
    let mut before = conversation(&encoder.body(&request, Delivery::Streamed).unwrap());
    for round in 0..5 {
        request.messages.push(reply([
            reasoning(SEALED),
            text(r#","id":"msg_1","after":"rs_1""#),
            call(r#","id":"fc_1","after":"rs_1""#),
        ]));
        request
            .messages
            .push(messages::result("loop-1", "look", "1"));
        if round == 4 {
            // The last answer: tools are still listed, but none may be called.
            request.messages.push(Message::system("Time is up."));
            request.tool_choice = ToolChoice::None;
        }
        let kept = encoder.body(&request, Delivery::Streamed).unwrap();
        let now = conversation(&kept);
        assert!(now.starts_with(&before), "{before}\n{now}");
        before = now;
        let fresh = super::tests::encoder(STANDARD)
            .body(&request, Delivery::Streamed)
            .unwrap();
        assert_eq!(kept, fresh);
    }
}

#[test]
fn media_in_a_tool_result_become_parts_of_its_output() {
    let Message::Tool(mut result) = messages::result("c1", "camera", "\"taken\"") else {
        unreachable!("it is a result")
    };
    let far = MediaPart {
        media_type: "image/png".to_owned(),
        source: MediaSource::Url("https://x/y.png".to_owned()),
    };
    result.media = vec![MediaPart::embedded("image/png", "QUJD"), far];
    let history = || {
        [
            Message::user("look"),
            messages::calls([("c1", "camera", "{}")]),
            Message::Tool(result.clone()),
        ]
    };
    assert_eq!(
        input(STANDARD, history())[2]["output"],
        json!([
            {"type": "input_text", "text": "taken"},
            {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
            {"type": "input_text", "text": "[image/png, at an address: left out, since this model does not take it]"},
        ])
    );
    let mut text_alone = STANDARD;
    text_alone.media = MediaTypes::NONE;
    assert_eq!(
        input(text_alone, history())[2]["output"][1]["type"],
        "input_text"
    );
}

#[test]
fn an_image_in_the_history_is_omitted_for_a_text_only_model() {
    let mut text_alone = STANDARD;
    text_alone.media = MediaTypes::NONE;
    let message = Message::User {
        parts: vec![Part::Media(MediaPart::embedded("image/png", "QUJD"))],
    };
    assert_eq!(
        input(text_alone, [message])[0]["content"][0],
        json!({"type": "input_text", "text": "[image/png, 3 bytes: left out, since this model does not take it]"})
    );
}
