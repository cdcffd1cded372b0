//! What is sent for a request.

use neuraxis_core::{
    AssistantMessage, JsonText, Message, ModelRef, ModelRequest, Part, ReasoningPart, ReplyFormat,
    TextPart, ToolCall, ToolCallId, ToolChoice,
};
use neuraxis_deepseek::{DeepSeekConfig, ReasoningEcho, ReasoningEffort, Thinking};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::Loopback;
use neuraxis_testkit::{call_context, messages, request, request_of, spec};
use serde_json::{Value, json};

use crate::shapes::chat;
use crate::{client_with, streamed};

/// Returns the body that is sent for a request.
async fn sent(set_up: impl FnOnce(&mut DeepSeekConfig), request: &ModelRequest) -> Value {
    let server = Loopback::start(chat).await;
    let client = client_with(&server, set_up);
    client.respond(request, &call_context()).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /chat/completions");
    serde_json::from_str(&seen.body).unwrap()
}

fn thinking(thinking: Thinking) -> impl FnOnce(&mut DeepSeekConfig) {
    move |config| config.thinking = thinking
}

/// Returns a reply of a provider: a thought (if not empty), a text, and a call if an id is given.
fn reply(provider: &str, thought: &str, call: Option<&str>) -> Message {
    let mut parts = Vec::new();
    if !thought.is_empty() {
        parts.push(Part::Reasoning(ReasoningPart {
            text: thought.to_owned(),
            ..ReasoningPart::default()
        }));
    }
    parts.push(match call {
        None => Part::Text(TextPart {
            text: "Done.".to_owned(),
            state: None,
        }),
        Some(id) => Part::ToolCall(ToolCall {
            id: ToolCallId::from_text(id),
            name: "look".into(),
            arguments: JsonText::from_text(r#"{"at":"sky"}"#),
            provider_id: Some(format!("theirs-{id}").into()),
            state: None,
        }),
    });
    Message::Assistant(AssistantMessage {
        parts,
        model: Some(ModelRef::new(provider, "m")),
    })
}

/// Returns a conversation of two turns: the first has ended, the second is in progress. Not every reply has a thought,
/// and one is from another provider.
fn conversation() -> ModelRequest {
    let mut request = request_of([
        Message::system("Be brief."),
        Message::user("What is up there?"),
        reply("deepseek", "first thought", Some("c1")),
        messages::result("c1", "look", r#"["clouds"]"#),
        reply("openai", "a thought of somebody else", None),
        Message::user("And now?"),
        reply("deepseek", "", Some("c2")),
        messages::result("c2", "look", "null"),
        reply("deepseek", "last thought", Some("c3")),
        messages::result("c3", "look", r#"{"error":"fog"}"#),
    ]);
    let place = r#"{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}"#;
    request.tools = [spec("look").schema(place).build(), spec("wait").build()].into();
    request.max_output_tokens = Some(4_096);
    request.temperature = Some(0.5);
    request
}

/// Returns the reasoning that is sent with each reply of the conversation.
async fn echoed(model: &str, echo: Option<ReasoningEcho>) -> Vec<Option<String>> {
    let set_up = |config: &mut DeepSeekConfig| {
        config.model = model.to_owned();
        config.echo_reasoning = echo;
    };
    let body = sent(set_up, &conversation()).await;
    let messages = body["messages"].as_array().unwrap().iter();
    let replies = messages.filter(|message| message["role"] == "assistant");
    let reasoning = |message: &Value| Some(message.get("reasoning_content")?.as_str()?.to_owned());
    replies.map(reasoning).collect()
}

#[tokio::test]
async fn a_conversation_with_a_thinking_model_matches_its_snapshot() {
    let body = sent(thinking(Thinking::On), &conversation()).await;
    insta::assert_json_snapshot!(body);
}

#[tokio::test]
async fn a_streamed_request_without_thinking_matches_its_snapshot() {
    let server = Loopback::start(chat).await;
    let client = client_with(&server, thinking(Thinking::Off));
    let mut request = request("hi");
    request.temperature = Some(0.5);
    streamed(&client, &request).await.unwrap();
    let body: Value = serde_json::from_str(&server.seen()[0].body).unwrap();
    insta::assert_json_snapshot!(body);
}

#[tokio::test]
async fn no_thinking_parameters_are_sent_unless_configured() {
    let body = sent(|_| {}, &request("hi")).await;
    assert_eq!(body.get("thinking"), None);
    assert_eq!(body.get("reasoning_effort"), None);
    let effort = |config: &mut DeepSeekConfig| config.reasoning_effort = Some(ReasoningEffort::Max);
    assert_eq!(
        sent(effort, &request("hi")).await["reasoning_effort"],
        "max"
    );
    let off = |config: &mut DeepSeekConfig| {
        config.thinking = Thinking::Off;
        config.reasoning_effort = Some(ReasoningEffort::Max);
    };
    let body = sent(off, &request("hi")).await;
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(body.get("reasoning_effort"), None);
}

#[tokio::test]
async fn current_models_receive_reasoning_with_every_earlier_reply() {
    let all = ["first thought", "", "", "last thought"].map(|text| Some(text.to_owned()));
    assert_eq!(echoed("deepseek-flash", None).await, all);
    assert_eq!(echoed("deepseek-v4-pro", None).await, all);
    assert_eq!(
        echoed("DeepSeek-R1", Some(ReasoningEcho::Always)).await,
        all
    );
}

#[tokio::test]
async fn a_same_turn_model_receives_only_the_reasoning_of_the_current_turn() {
    let turn = [None, None, Some(String::new()), Some("last thought".into())];
    assert_eq!(echoed("DeepSeek-V3.2", None).await, turn);
}

#[tokio::test]
async fn a_model_that_refuses_reasoning_never_receives_any() {
    assert_eq!(echoed("DeepSeek-R1", None).await, [None, None, None, None]);
}

#[tokio::test]
async fn earlier_messages_are_sent_again_byte_for_byte() {
    let server = Loopback::start(chat).await;
    let client = client_with(&server, |_| {});
    let mut request = conversation();
    client.respond(&request, &call_context()).await.unwrap();
    request.messages.push(Message::user("go on"));
    request.tool_choice = ToolChoice::None;
    client.respond(&request, &call_context()).await.unwrap();
    let seen = server.seen();
    let messages = |body: &str| body.split_once(r#"],"tools":"#).unwrap().0.to_owned();
    assert!(messages(&seen[1].body).starts_with(&messages(&seen[0].body)));
}

#[tokio::test]
async fn temperature_is_sent_only_without_thinking() {
    let request = conversation();
    for (setting, expected) in [
        (Thinking::On, None),
        (Thinking::ModelDefault, None),
        (Thinking::Off, Some(&json!(0.5))),
    ] {
        let body = sent(thinking(setting), &request).await;
        assert_eq!(body.get("temperature"), expected, "{setting:?}");
    }
}

#[tokio::test]
async fn a_forced_tool_call_disables_thinking() {
    for choice in [
        ToolChoice::Required,
        ToolChoice::Named("look".parse().unwrap()),
    ] {
        for setting in [Thinking::On, Thinking::ModelDefault, Thinking::Off] {
            let mut request = conversation();
            request.tool_choice = choice.clone();
            let body = sent(thinking(setting), &request).await;
            assert_eq!(body["thinking"], json!({"type": "disabled"}));
            assert!(body.get("tool_choice").is_some());
            assert_eq!(body["temperature"], 0.5, "it can have one then");
        }
    }
    let mut request = conversation();
    request.tool_choice = ToolChoice::None;
    let body = sent(thinking(Thinking::On), &request).await;
    assert_eq!(body["thinking"], json!({"type": "enabled"}));
    assert_eq!(body["tool_choice"], "none");
}

#[tokio::test]
async fn thinking_is_disabled_for_short_replies_unless_configured_on() {
    let disabled = json!({"type": "disabled"});
    for (most, setting, expected) in [
        (16, Thinking::ModelDefault, Some(&disabled)),
        (1_024, Thinking::ModelDefault, Some(&disabled)),
        (1_025, Thinking::ModelDefault, None),
        (16, Thinking::On, Some(&json!({"type": "enabled"}))),
    ] {
        let mut request = request("hi");
        request.max_output_tokens = Some(most);
        let body = sent(thinking(setting), &request).await;
        assert_eq!(body.get("thinking"), expected, "{most} {setting:?}");
        assert_eq!(body["max_tokens"], most);
    }
}

#[tokio::test]
async fn a_reply_schema_is_sent_as_a_message_in_json_mode() {
    let mut request = request("hi");
    request.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(r#"{"type":"object"}"#),
    };
    let body = sent(|_| {}, &request).await;
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
    let told = &body["messages"][1];
    assert_eq!(told["role"], "system");
    let told = told["content"].as_str().unwrap();
    assert!(told.contains("json") && told.ends_with(r#"{"type":"object"}"#));

    request.tools = conversation().tools;
    let body = sent(|_| {}, &request).await;
    assert_eq!(body.get("response_format"), None, "it may call a tool");
    request.tool_choice = ToolChoice::None;
    let body = sent(|_| {}, &request).await;
    assert_eq!(body["response_format"], json!({"type": "json_object"}));
}

#[tokio::test]
async fn invalid_or_empty_arguments_in_the_history_are_sent_as_objects() {
    let history = request_of([
        Message::user("hi"),
        messages::calls([("c1", "look", "{\"at\": \"sk"), ("c2", "look", "")]),
        messages::result("c1", "look", r#"{"error":"not JSON"}"#),
        messages::result("c2", "look", ""),
    ]);
    let body = sent(|_| {}, &history).await;
    let arguments = |index: usize| -> Value {
        let call = &body["messages"][1]["tool_calls"][index]["function"];
        serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap()
    };
    assert_eq!(arguments(0), json!({"invalid_arguments": "{\"at\": \"sk"}));
    assert_eq!(arguments(1), json!({}));
    let messages = &body["messages"];
    assert_eq!(messages[1]["content"], "", "never null");
    assert_eq!(messages[3]["content"], "(no output)", "never empty");
}

#[tokio::test]
async fn a_trailing_assistant_message_is_followed_by_a_user_message() {
    let history = request_of([Message::user("hi"), Message::assistant("Hel")]);
    let body = sent(|_| {}, &history).await;
    assert_eq!(body["messages"][2]["role"], "user");
}

#[tokio::test]
async fn the_base_url_may_have_a_path_and_a_trailing_slash() {
    for (path, expected) in [
        ("/", "POST /chat/completions"),
        ("/v1", "POST /v1/chat/completions"),
        ("/beta/", "POST /beta/chat/completions"),
    ] {
        let server = Loopback::start(chat).await;
        let client = client_with(&server, |config| config.base_url.push_str(path));
        client
            .respond(&request("hi"), &call_context())
            .await
            .unwrap();
        let seen = &server.seen()[0];
        assert_eq!(seen.line, expected);
        assert!(seen.headers.contains("authorization: bearer sk-canary"));
    }
}
