//! Tests of encoded requests.

mod with_media;

use neuraxis_core::{
    AssistantMessage, JsonText, MediaPart, MediaSource, ModelRef, Part, ReasoningPart, ToolCall,
    ToolCallId,
};
use neuraxis_testkit::{messages, request, request_of, spec};
use serde_json::{Value, json};

use super::*;
use crate::chat::dialect::{Arguments, MissingReasoning, ReasoningEcho};
use crate::settings::{ServiceTier, StrictTools, SystemRole};

const STANDARD: Dialect = Dialect::standard("llama");

fn body(dialect: Dialect, request: &ModelRequest) -> Value {
    let encoder = Encoder::new("m", dialect);
    let body = encoder.body(request, Delivery::Whole).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn messages_of(dialect: Dialect, messages: impl IntoIterator<Item = Message>) -> Value {
    body(dialect, &request_of(messages))["messages"].take()
}

fn refused(messages: impl IntoIterator<Item = Message>) -> String {
    let encoder = Encoder::new("m", STANDARD);
    let error = encoder
        .body(&request_of(messages), Delivery::Whole)
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
    error.message
}

/// A reply of `provider` with a thought and a call.
fn reply_of(provider: &str) -> Message {
    Message::Assistant(AssistantMessage {
        parts: vec![
            Part::Reasoning(ReasoningPart {
                text: "hm".to_owned(),
                ..ReasoningPart::default()
            }),
            Part::ToolCall(ToolCall {
                id: ToolCallId::from_text("loop-1"),
                name: "look".into(),
                arguments: JsonText::from_text("{}"),
                provider_id: Some("theirs-1".into()),
                state: None,
            }),
        ],
        model: Some(ModelRef::new(provider, "m")),
    })
}

#[test]
fn a_request_matches_its_snapshot() {
    let mut request = request_of([
        Message::system("Be brief.\n\"Quotes\" and \u{1} and 🦀"),
        Message::user("What is here?"),
        messages::calls([("c1", "list_files", r#"{"path": "."}"#)]),
        messages::result("c1", "list_files", r#"["a","b"]"#),
        Message::assistant("Two files."),
        Message::user("Thanks."),
    ]);
    let list = spec("list_files").describe("Lists files.");
    request.tools = [list
        .schema(r#"{"type":"object","properties":{"path":{"type":"string"}}}"#)
        .build()]
    .into();
    request.max_output_tokens = Some(100);
    request.temperature = Some(0.7);
    let encoder = Encoder::new("gpt-\"x\"", STANDARD);
    let body = encoder.body(&request, Delivery::Streamed).unwrap();
    insta::assert_snapshot!(String::from_utf8_lossy(&body));
}

#[test]
fn no_tool_fields_are_sent_without_tools() {
    let mut request = request("hi");
    for choice in [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required] {
        request.tool_choice = choice;
        let body = body(STANDARD, &request);
        let fields: Vec<_> = body.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["model", "messages"]);
    }
}

fn with_choice(choices: ToolChoices, choice: ToolChoice) -> Value {
    let mut request = request("hi");
    request.tools = ["a", "b"].map(|name| spec(name).build()).into();
    request.tool_choice = choice;
    let body = body(
        Dialect {
            tool_choices: choices,
            ..STANDARD
        },
        &request,
    );
    let tools = body["tools"].as_array();
    let names: Option<Vec<_>> =
        tools.map(|tools| tools.iter().map(|tool| &tool["function"]["name"]).collect());
    json!([names, body["tool_choice"]])
}

#[test]
fn tool_choices_are_encoded_as_the_server_understands_them() {
    use ToolChoices::{All, Ignored, Keywords};
    let named = || ToolChoice::Named("b".parse().unwrap());
    let both = json!(["a", "b"]);
    let function = json!({"type": "function", "function": {"name": "b"}});
    for (choices, choice, expected) in [
        (All, ToolChoice::Auto, json!([both, null])),
        (All, ToolChoice::None, json!([both, "none"])),
        (All, ToolChoice::Required, json!([both, "required"])),
        (All, named(), json!([both, function])),
        (Keywords, named(), json!([["b"], "required"])),
        (Keywords, ToolChoice::None, json!([both, "none"])),
        (Ignored, named(), json!([["b"], "required"])),
        (Ignored, ToolChoice::None, json!([null, null])),
    ] {
        assert_eq!(
            with_choice(choices, choice.clone()),
            expected,
            "{choices:?} {choice:?}"
        );
    }
}

#[test]
fn a_named_tool_that_is_not_offered_is_a_bad_request() {
    let mut request = request("hi");
    request.tools = [spec("a").build()].into();
    request.tool_choice = ToolChoice::Named("z".parse().unwrap());
    let error = Encoder::new("m", STANDARD)
        .body(&request, Delivery::Whole)
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
    assert!(error.message.contains("tool z"), "{error}");
}

#[test]
fn a_schema_that_is_not_json_is_a_bad_request() {
    let mut request = request("hi");
    request.tools = [spec("a").schema("{").build()].into();
    let error = Encoder::new("m", STANDARD)
        .body(&request, Delivery::Whole)
        .unwrap_err();
    assert!(error.message.contains("schema of the tool a"), "{error}");
}

#[test]
fn a_late_system_message_follows_the_dialect() {
    let history = || {
        [
            Message::system("first"),
            Message::user("hi"),
            Message::system("late"),
        ]
    };
    let roles = |late_system| {
        let messages = messages_of(
            Dialect {
                late_system,
                ..STANDARD
            },
            history(),
        );
        json!([messages[0]["role"], messages[2]])
    };
    let kept = json!(["system", {"role": "system", "content": "late"}]);
    assert_eq!(roles(LateSystem::System), kept);
    assert_eq!(roles(LateSystem::Auto), kept);
    let mapped = json!(["system", {"role": "user", "content": "[System message] late"}]);
    assert_eq!(roles(LateSystem::User), mapped);
}

#[test]
fn a_refused_late_system_message_is_learned_once() {
    let dialect = Dialect {
        late_system: LateSystem::Auto,
        ..STANDARD
    };
    let encoder = Encoder::new("m", dialect);
    assert!(!encoder.avoid_late_system(
        &request_of([Message::system("s"), Message::user("u")]),
        encoder.refused()
    ));
    let late = request_of([Message::user("u"), Message::system("s")]);
    let role = || {
        let body = encoder.body(&late, Delivery::Whole).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["messages"][1]["role"].take()
    };
    assert_eq!(role(), "system");
    let sent = encoder.refused();
    assert!(encoder.avoid_late_system(&late, sent));
    assert_eq!(role(), "user");
    assert!(
        encoder.avoid_late_system(&late, sent),
        "a request that was under way is worth another try as well"
    );
    assert!(
        !encoder.avoid_late_system(&late, encoder.refused()),
        "the same refusal again is a plain error"
    );
}

#[test]
fn a_trailing_assistant_message_is_followed_by_a_user_prompt_if_configured() {
    let dialect = Dialect {
        trailing_assistant: TrailingAssistant::Prompted,
        ..STANDARD
    };
    let messages = messages_of(dialect, [Message::user("hi"), Message::assistant("Hel")]);
    assert_eq!(
        messages[2],
        json!({"role": "user", "content": "Please continue."})
    );
    let messages = messages_of(dialect, [Message::user("hi")]);
    assert_eq!(messages.as_array().unwrap().len(), 1);
    let messages = messages_of(STANDARD, [Message::assistant("Hel")]);
    assert_eq!(messages.as_array().unwrap().len(), 1);
}

#[test]
fn reasoning_and_call_ids_are_sent_back_only_to_their_own_provider() {
    let dialect = Dialect {
        reasoning_echo: ReasoningEcho::Always,
        reasoning_field: "reasoning",
        ..STANDARD
    };
    let history = |provider| {
        [
            Message::user("hi"),
            reply_of(provider),
            messages::result("loop-1", "look", "1"),
        ]
    };
    let ours = messages_of(dialect, history("llama"));
    assert_eq!(ours[1]["reasoning"], "hm");
    assert_eq!(ours[1]["tool_calls"][0]["id"], "theirs-1");
    assert_eq!(ours[2]["tool_call_id"], "theirs-1");
    let foreign = messages_of(dialect, history("openai"));
    assert_eq!(foreign[1].get("reasoning"), None);
    assert_eq!(foreign[1]["tool_calls"][0]["id"], "loop-1");
    assert_eq!(foreign[2]["tool_call_id"], "loop-1");
}

#[test]
fn extra_content_of_a_call_is_sent_back_only_to_its_own_server_and_model() {
    let sent = |provider: &str, state: &str, server: &str, model: &str| {
        let mut reply = reply_of(provider);
        if let Message::Assistant(message) = &mut reply
            && let Some(Part::ToolCall(call)) = message.parts.last_mut()
        {
            call.state = Some(JsonText::from_text(state));
        }
        let origin = StateOrigin {
            server: server.into(),
            model: model.into(),
        };
        let encoder = Encoder::new("m", STANDARD).at(origin);
        let request = request_of([
            Message::user("hi"),
            reply,
            messages::result("loop-1", "look", "1"),
        ]);
        let body = encoder.body(&request, Delivery::Whole).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        body["messages"][1]["tool_calls"][0]
            .get("extra_content")
            .cloned()
    };
    let extra = json!({"google": {"thought_signature": "c2ln"}});
    let signed = json!({"server": "http://a", "model": "m", "extra_content": extra}).to_string();
    assert_eq!(sent("llama", &signed, "http://a", "m"), Some(extra));
    assert_eq!(sent("openai", &signed, "http://a", "m"), None);
    assert_eq!(sent("llama", &signed, "http://b", "m"), None);
    assert_eq!(sent("llama", &signed, "http://a", "n"), None);
    let of_responses = r#"{"server":"http://a","model":"m","id":"fc_1"}"#;
    assert_eq!(sent("llama", of_responses, "http://a", "m"), None);
}

#[test]
fn the_first_unsigned_call_of_a_message_is_signed_after_a_refusal() {
    let mut signed = reply_of("llama");
    let extra = json!({"google": {"thought_signature": "c2ln"}});
    if let Message::Assistant(message) = &mut signed
        && let Some(Part::ToolCall(call)) = message.parts.last_mut()
    {
        let state = json!({"server": "http://a", "model": "m", "extra_content": extra});
        call.state = Some(JsonText::from_text(state.to_string()));
    }
    let encoder = Encoder::new("m", STANDARD).at(StateOrigin {
        server: "http://a".into(),
        model: "m".into(),
    });
    let ours = request_of([Message::user("hi"), signed.clone()]);
    assert!(
        !encoder.sign_calls(&ours, encoder.refused()),
        "nothing is missing"
    );
    let chosen = messages::calls([("c1", "look", "{}"), ("c2", "look", "{}")]);
    let request = request_of([
        chosen,
        messages::result("c1", "look", "1"),
        messages::result("c2", "look", "2"),
        signed,
    ]);
    let sent = || {
        let body = encoder.body(&request, Delivery::Whole).unwrap();
        let messages = serde_json::from_slice::<Value>(&body).unwrap()["messages"].take();
        [(0, 0), (0, 1), (3, 0)].map(|(message, call)| {
            let call = &messages[message]["tool_calls"][call];
            call.get("extra_content").cloned()
        })
    };
    assert_eq!(sent(), [None, None, Some(extra.clone())]);
    let refused = encoder.refused();
    assert!(encoder.sign_calls(&request, refused));
    let stand_in = json!({"google": {"thought_signature": "skip_thought_signature_validator"}});
    assert_eq!(sent(), [Some(stand_in), None, Some(extra)]);
    assert!(!encoder.sign_calls(&request, encoder.refused()));
}

#[test]
fn reasoning_is_sent_back_as_the_dialect_requires() {
    let history = || {
        [
            Message::user("one"),
            reply_of("llama"),
            messages::result("loop-1", "look", "1"),
            Message::user("two"),
            reply_of("llama"),
        ]
    };
    let echoed = |reasoning_echo| {
        let messages = messages_of(
            Dialect {
                reasoning_echo,
                ..STANDARD
            },
            history(),
        );
        [1, 4].map(|index| messages[index].get("reasoning_content").is_some())
    };
    assert_eq!(echoed(ReasoningEcho::Always), [true, true]);
    assert_eq!(echoed(ReasoningEcho::SameTurn), [false, true]);
    assert_eq!(echoed(ReasoningEcho::Never), [false, false]);
}

#[test]
fn an_empty_reasoning_field_is_sent_if_the_server_requires_it() {
    let dialect = |reasoning_echo| Dialect {
        reasoning_echo,
        missing_reasoning: MissingReasoning::Empty,
        ..STANDARD
    };
    let conversation = || {
        [
            Message::user("a"),
            Message::assistant("b"),
            Message::user("c"),
            reply_of("openai"),
            messages::result("loop-1", "look", "1"),
            reply_of("llama"),
        ]
    };
    let always = messages_of(dialect(ReasoningEcho::Always), conversation());
    let sent = [1, 3, 5].map(|index| always[index]["reasoning_content"].clone());
    assert_eq!(sent, ["", "", "hm"], "nothing of another provider's");
    let same_turn = messages_of(dialect(ReasoningEcho::SameTurn), conversation());
    assert_eq!(same_turn[1].get("reasoning_content"), None);
    assert_eq!(same_turn[3]["reasoning_content"], "");
    let never = messages_of(dialect(ReasoningEcho::Never), conversation());
    assert_eq!(never[5].get("reasoning_content"), None);
}

#[test]
fn a_text_result_is_sent_as_plain_text_and_any_other_value_as_json() {
    for (result, sent) in [
        (" ", "(no output)"),
        (r#""""#, "(no output)"),
        (r#"" ""#, "(no output)"),
        (r#""3 degrees""#, "3 degrees"),
        (r#""line \"1\"\nline 2""#, "line \"1\"\nline 2"),
        (r#"{"text":"a\nb"}"#, r#"{"text":"a\nb"}"#),
        (r#"["a"]"#, r#"["a"]"#),
        ("12", "12"),
        (r#""no end"#, r#""no end"#),
    ] {
        let messages = messages_of(
            STANDARD,
            [
                Message::user("a"),
                messages::calls([("c1", "look", "{}")]),
                messages::result("c1", "look", result),
            ],
        );
        assert_eq!(messages[2]["content"], sent);
    }
}

#[test]
fn same_turn_reasoning_is_dropped_when_the_next_turn_starts() {
    let dialect = Dialect {
        reasoning_echo: ReasoningEcho::SameTurn,
        ..STANDARD
    };
    let encoder = Encoder::new("m", dialect);
    let mut request = request_of([
        Message::user("one"),
        reply_of("llama"),
        messages::result("loop-1", "look", "1"),
    ]);
    encoder.body(&request, Delivery::Whole).unwrap();
    request.messages.push(Message::user("two"));
    let kept = encoder.body(&request, Delivery::Whole).unwrap();
    let fresh = Encoder::new("m", dialect)
        .body(&request, Delivery::Whole)
        .unwrap();
    assert_eq!(kept, fresh);
    assert!(!String::from_utf8_lossy(&kept).contains("hm"), "{kept:?}");
}

#[test]
fn arguments_that_are_no_object_are_wrapped_if_the_server_refuses_them() {
    let arguments = |form, text: &str| {
        let dialect = Dialect {
            arguments: form,
            ..STANDARD
        };
        let messages = messages_of(dialect, [messages::calls([("c", "look", text)])]);
        messages[0]["tool_calls"][0]["function"]["arguments"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for text in [r#"{"a": 1}"#, "{}", " {\"b\":[]}"] {
        assert_eq!(arguments(Arguments::Wrapped, text), text);
    }
    for text in [
        r#"{"a": "#,
        "[1]",
        "null",
        "7",
        "oops",
        r#"{"a":"\ud800"}"#,
        "{} {}",
    ] {
        let whole: Value = serde_json::from_str(&arguments(Arguments::Wrapped, text)).unwrap();
        assert_eq!(whole, json!({"invalid_arguments": text}));
        assert_eq!(arguments(Arguments::AsWritten, text), text);
    }
    for form in [Arguments::Wrapped, Arguments::AsWritten] {
        assert_eq!(arguments(form, ""), "{}");
    }
}

#[test]
fn supported_media_are_encoded_and_others_refused_or_omitted() {
    let media = |media_type: &str, source| {
        let part = Part::Media(MediaPart {
            media_type: media_type.to_owned(),
            source,
        });
        Message::User {
            parts: vec![Part::text("see"), part],
        }
    };
    let data = || MediaSource::Base64("QUJD".into());
    let url = |url: &str| MediaSource::Url(url.to_owned());
    let content = |message| messages_of(STANDARD, [message])[0]["content"].take();
    assert_eq!(
        content(media("image/png", data())),
        json!([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}])
    );
    assert_eq!(
        content(media("image/png", url("https://x/y.png")))[1]["image_url"]["url"],
        "https://x/y.png"
    );
    assert_eq!(
        content(media("audio/wav", data()))[1],
        json!({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}})
    );
    assert!(refused([media("image/png", url("file:///etc/passwd"))]).contains("not http(s)"));
    let document = || media("application/pdf", data());
    assert!(refused([document()]).contains("application/pdf"));
    let later = messages_of(STANDARD, [document(), Message::user("And now?")]);
    assert_eq!(
        later[0]["content"][1]["text"],
        "[application/pdf, 3 bytes: left out, since this model does not take it]"
    );
    assert!(refused([media("audio/wav", url("https://x"))]).contains("audio/wav"));
}

#[test]
fn text_parts_of_a_message_are_joined() {
    let message = Message::User {
        parts: vec![Part::text("a"), Part::text("b\n"), Part::text("c")],
    };
    let empty = Message::User { parts: Vec::new() };
    let messages = messages_of(STANDARD, [message, empty]);
    assert_eq!(messages[0]["content"], "ab\nc");
    assert_eq!(messages[1]["content"], "");
}

#[test]
fn a_temperature_that_is_not_a_number_is_omitted() {
    let mut request = request("hi");
    request.temperature = Some(f32::NAN);
    assert_eq!(body(STANDARD, &request).get("temperature"), None);
    request.temperature = Some(0.2);
    assert_eq!(body(STANDARD, &request)["temperature"], json!(0.2));
}

#[test]
fn tools_shared_by_requests_are_encoded_once() {
    let encoder = Encoder::new("m", STANDARD);
    let tools: Arc<[ToolSpec]> = [spec("a").build()].into();
    let first = encoder.tools.encoded(&tools).unwrap();
    let again = encoder.tools.encoded(&Arc::clone(&tools)).unwrap();
    assert_eq!(first.as_ptr(), again.as_ptr(), "the same bytes");
    let equal: Arc<[ToolSpec]> = [spec("a").build()].into();
    assert_eq!(encoder.tools.encoded(&equal).unwrap(), first);
    for _ in 0..1_000 {
        let other: Arc<[ToolSpec]> = [spec("b").build()].into();
        assert_ne!(encoder.tools.encoded(&other).unwrap(), first);
    }
    let kept = encoder.tools.encoded(&tools).unwrap();
    assert_eq!(
        kept.as_ptr(),
        first.as_ptr(),
        "what is in use outlives what is not"
    );
}

#[test]
fn a_request_with_dialect_options_matches_its_snapshot() {
    let mut request = request_of([
        Message::system("s"),
        Message::user("hi"),
        Message::system("late"),
    ]);
    request.tools = [spec("a")
        .schema(r#"{"type":"object","properties":{}}"#)
        .build()]
    .into();
    request.temperature = Some(0.5);
    let dialect = Dialect {
        system_role: SystemRole::Developer,
        strict_tools: StrictTools::WherePossible,
        temperature: Temperature::LeftOut,
        parallel_calls: ParallelCalls::Disallowed,
        reasoning_effort: Some(ReasoningEffort::High),
        service_tier: Some(ServiceTier::Flex),
        stream_usage: StreamUsage::NotRequested,
        ..STANDARD
    };
    let encoder = Encoder::new("m", dialect);
    let body = encoder.body(&request, Delivery::Streamed).unwrap();
    insta::assert_snapshot!(String::from_utf8_lossy(&body));
}

#[test]
fn a_model_that_refuses_tools_with_reasoning_gets_only_one_of_them() {
    let effort = |reasoning_effort, tools: &[&str]| {
        let mut request = request("hi");
        request.tools = tools.iter().map(|name| spec(name).build()).collect();
        let dialect = Dialect {
            tools_and_reasoning: ToolsAndReasoning::OneOrTheOther,
            reasoning_effort,
            ..STANDARD
        };
        let body = Encoder::new("m", dialect).body(&request, Delivery::Whole)?;
        let body: Value = serde_json::from_slice(&body).unwrap();
        Ok::<_, LlmError>(body.get("reasoning_effort").cloned())
    };
    assert_eq!(effort(None, &["a"]).unwrap(), Some(json!("none")));
    assert_eq!(
        effort(Some(ReasoningEffort::None), &["a"]).unwrap(),
        Some(json!("none"))
    );
    assert_eq!(effort(None, &[]).unwrap(), None);
    assert_eq!(
        effort(Some(ReasoningEffort::Low), &[]).unwrap(),
        Some(json!("low"))
    );
    let error = effort(Some(ReasoningEffort::Low), &["a"]).unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
    assert!(error.message.contains("Responses"), "{error}");
}

#[test]
fn the_reply_format_is_encoded_as_the_server_understands_it() {
    let mut request = request("hi");
    request.reply_format = neuraxis_core::ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(r#"{"type":"object","properties":{}}"#),
    };
    let format = |reply_form| {
        let mut body = body(
            Dialect {
                reply_form,
                ..STANDARD
            },
            &request,
        );
        body["response_format"].take()
    };
    let schema =
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    assert_eq!(
        format(ReplyForm::JsonSchema),
        json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}})
    );
    assert_eq!(
        format(ReplyForm::JsonObject),
        json!({"type": "json_object"})
    );
    assert_eq!(format(ReplyForm::Ignored), Value::Null);
    for (reply_form, said) in [
        (ReplyForm::JsonSchema, 1),
        (ReplyForm::JsonObject, 2),
        (ReplyForm::Ignored, 2),
    ] {
        let dialect = Dialect {
            reply_form,
            ..STANDARD
        };
        let messages = body(dialect, &request)["messages"].take();
        assert_eq!(messages.as_array().unwrap().len(), said, "{messages}");
        let schema = r#"{"type":"object","properties":{}}"#;
        let told = messages[said - 1]["content"].as_str().unwrap();
        assert_eq!(told.ends_with(schema), said == 2, "{told}");
    }
}

#[test]
fn an_overlong_call_id_is_shortened_alike_in_call_and_result() {
    let long = "y".repeat(41);
    let history = [
        messages::calls([(long.as_str(), "look", "{}"), ("short", "look", "{}")]),
        messages::result(&long, "look", "1"),
    ];
    let dialect = Dialect {
        longest_call_id: 40,
        ..STANDARD
    };
    let messages = messages_of(dialect, history);
    let id = messages[0]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() <= 40, "{id}");
    assert_eq!(messages[1]["tool_call_id"], id);
    assert_eq!(messages[0]["tool_calls"][1]["id"], "short");
}
