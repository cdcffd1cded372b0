//! Servers that refuse what others accept: late system messages, roles that do not alternate, arbitrary ids, calls that
//! they did not sign, the option for a stream's usage, images, tools.

use std::sync::Arc;

use futures_util::TryStreamExt;
use neuraxis_core::{
    JsonText, LlmErrorKind, MediaPart, MediaTypes, Message, ModelRequest, Part, ReplyFormat,
    ToolChoice, ToolSpec,
};
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::{call_context, messages, request_of};
use neuraxis_wire::reply::assemble;
use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig, LateSystem, ReplyForm};

use crate::{STREAM, WHOLE, client, promptly, stream};

/// A server whose template refuses late system messages, like that of many models.
fn strict(body: &str) -> Answer {
    const REFUSAL: &str = r#"{"error":{"code":500,"message":"Jinja Exception: System message must be at the beginning.","type":"server_error"}}"#;
    if body.matches(r#""role":"system""#).count() > 1 {
        Answer::whole(500, "content-type: application/json", REFUSAL)
    } else {
        Answer::json(WHOLE)
    }
}

/// A client that learns what its server refuses.
fn learning(server: &Loopback) -> ChatClient {
    sending(server, LateSystem::Auto)
}

/// A client that sends late system messages in the given way.
fn sending(server: &Loopback, late_system: LateSystem) -> ChatClient {
    let config = EndpointConfig::new(server.url());
    let endpoint = Arc::new(Endpoint::new(config).unwrap());
    let mut dialect = Dialect::standard("test");
    dialect.late_system = late_system;
    let route = endpoint.route("v1/chat/completions");
    ChatClient::new(endpoint, route, "m", dialect)
}

fn late_system() -> ModelRequest {
    request_of([
        Message::system("first"),
        Message::user("hi"),
        Message::system("late"),
    ])
}

#[tokio::test]
async fn a_refused_late_system_message_is_sent_as_a_user_message_from_then_on() {
    let server = Loopback::start(|seen| strict(&seen.body)).await;
    let client = learning(&server);
    for _ in 0..2 {
        let reply = promptly(client.respond(&late_system(), &call_context())).await;
        assert_eq!(reply.unwrap().text(), "Héllo 🦀");
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 3, "only the first was refused");
    for seen in &seen[1..] {
        assert!(seen.body.contains("[System message] late"));
    }
}

#[tokio::test]
async fn concurrent_calls_all_succeed_after_the_same_refusal() {
    let server = Loopback::start(|seen| strict(&seen.body)).await;
    let client = learning(&server);
    let (request, ctx) = (late_system(), call_context());
    let ask = || promptly(client.respond(&request, &ctx));
    let (first, second, third) = tokio::join!(ask(), ask(), ask());
    for reply in [first, second, third] {
        assert_eq!(reply.unwrap().text(), "Héllo 🦀");
    }
}

#[tokio::test]
async fn a_call_that_meets_several_refusals_succeeds_and_the_next_meets_none() {
    let server = Loopback::start(|seen| {
        let refusal = if seen.body.contains("stream_options") {
            "stream_options: Extra inputs are not permitted"
        } else if seen.body.contains(r#""tool_call_id":"call_1""#) {
            "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
        } else if seen.body.matches(r#""role":"system""#).count() > 1 {
            "System message must be at the beginning."
        } else if !seen.body.contains("(no answer)") {
            "Unexpected role 'user' after role 'tool'"
        } else {
            return Answer::events(STREAM.split_inclusive("\n\n").map(str::as_bytes));
        };
        refusal_of_mistral(400, refusal)
    })
    .await;
    let client = learning(&server);
    let request = request_of([
        Message::system("first"),
        Message::user("look"),
        messages::calls([("call_1", "look", "{}")]),
        messages::result("call_1", "look", "1"),
        Message::system("Sum up."),
    ]);
    for asked in [5, 6] {
        let reply = promptly(async {
            let stream = client.stream(&request, &call_context()).await?;
            assemble(stream.try_collect::<Vec<_>>().await?)
        });
        assert_eq!(reply.await.unwrap().text(), "Héllo 🦀");
        assert_eq!(server.seen().len(), asked);
    }
}

#[tokio::test]
async fn a_schema_sent_as_a_system_message_is_moved_after_a_refusal() {
    let server = Loopback::start(|seen| strict(&seen.body)).await;
    let config = EndpointConfig::new(server.url());
    let endpoint = Arc::new(Endpoint::new(config).unwrap());
    let mut dialect = Dialect::standard("test");
    dialect.late_system = LateSystem::Auto;
    dialect.reply_form = ReplyForm::Ignored;
    let route = endpoint.route("v1/chat/completions");
    let client = ChatClient::new(endpoint, route, "m", dialect);
    let mut request = request_of([Message::system("first"), Message::user("hi")]);
    request.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(r#"{"type":"object"}"#),
    };
    let reply = promptly(client.respond(&request, &call_context())).await;
    assert_eq!(reply.unwrap().text(), "Héllo 🦀");
}

/// A server whose template requires alternating roles, like those of several model families.
fn alternating(body: &str) -> Answer {
    const REFUSAL: &str = r#"{"error":{"code":400,"message":"Unable to generate parser for this template. Conversation roles must alternate user/assistant/user/assistant/...","type":"invalid_request_error"}}"#;
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let roles: Vec<_> = messages.map(|message| &message["role"]).collect();
    let mut asked = roles.iter().filter(|role| **role != "system");
    let alternates = asked.by_ref().enumerate().all(|(place, role)| {
        let expected = ["user", "assistant"][place % 2];
        *role == expected
    });
    match alternates {
        true => Answer::json(WHOLE),
        false => Answer::whole(400, "content-type: application/json", REFUSAL),
    }
}

#[tokio::test]
async fn roles_are_made_alternating_after_a_refusal() {
    let server = Loopback::start(|seen| alternating(&seen.body)).await;
    let client = learning(&server);
    let request = request_of([
        Message::system("first"),
        Message::user("one"),
        Message::user("two"),
        Message::assistant("2"),
        Message::user("three"),
    ]);
    for _ in 0..2 {
        let reply = promptly(client.respond(&request, &call_context())).await;
        assert_eq!(reply.unwrap().text(), "Héllo 🦀");
    }
    let sent = &server.seen()[1].body;
    let between = r#"{"role":"user","content":"one"},{"role":"assistant","content":"(no answer)"},{"role":"user","content":"two"}"#;
    assert!(sent.contains(between), "{sent}");
    assert_eq!(sent.matches("(no answer)").count(), 1, "{sent}");
}

#[tokio::test]
async fn a_refusal_of_already_alternating_roles_is_returned_unchanged() {
    let server = Loopback::start(|_| {
        let refusal = r#"{"error":{"code":400,"message":"roles must alternate"}}"#;
        Answer::whole(400, "content-type: application/json", refusal)
    })
    .await;
    let asked = request_of([Message::system("first"), Message::user("one")]);
    let error = promptly(learning(&server).respond(&asked, &call_context())).await;
    assert_eq!(error.unwrap_err().kind, LlmErrorKind::BadRequest);
}

/// Mistral's answer to a request that it refuses.
fn refusal_of_mistral(status: u16, said: impl Into<serde_json::Value>) -> Answer {
    let said = said.into();
    let body = serde_json::json!({"object": "error", "message": said, "type": "invalid_request_error", "param": null, "code": null});
    Answer::whole(status, "content-type: application/json", &body.to_string())
}

#[tokio::test]
async fn a_message_after_tool_results_is_separated_after_a_refusal() {
    for (next, late_system, role) in [
        (Message::user("and?"), LateSystem::Auto, "user"),
        (Message::user("and?"), LateSystem::System, "user"),
        (Message::system("Sum up."), LateSystem::Auto, "system"),
        (Message::system("Sum up."), LateSystem::User, "user"),
    ] {
        let server = Loopback::start(move |seen| {
            let refused = format!(r#""tool_call_id":"c1"}},{{"role":"{role}""#);
            match seen.body.contains(&refused) {
                true => {
                    let said = format!("Unexpected role '{role}' after role 'tool'");
                    refusal_of_mistral(400, said)
                }
                false => Answer::json(WHOLE),
            }
        })
        .await;
        let client = sending(&server, late_system);
        let request = request_of([
            Message::system("first"),
            Message::user("look"),
            messages::calls([("c1", "look", "{}")]),
            messages::result("c1", "look", "1"),
            next,
        ]);
        let reply = promptly(client.respond(&request, &call_context())).await;
        assert_eq!(reply.unwrap().text(), "Héllo 🦀");
        let sent = &server.seen()[1].body;
        let between = r#"{"role":"assistant","content":"(no answer)"},{"role":"user""#;
        assert!(sent.contains(between), "{sent}");
    }
}

#[tokio::test]
async fn call_ids_are_rewritten_to_the_required_form_after_a_refusal() {
    const OF_MISTRAL: &str = r#"{"object":"error","message":"Tool call id was call_01a_a0_0_0 but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_request_error","param":null,"code":null}"#;
    const OF_LLAMA_SERVER: &str = r#"{"error":{"code":500,"message":"Jinja Exception: Tool call IDs should be alphanumeric strings with length 9!","type":"server_error"}}"#;
    const OF_MLX: &str =
        r#"{"error":"Tool call IDs should be alphanumeric strings with length 9!"}"#;
    let is_strict = |id: &str| id.len() == 9 && id.bytes().all(|sign| sign.is_ascii_alphanumeric());
    for (status, refusal) in [(400, OF_MISTRAL), (500, OF_LLAMA_SERVER), (404, OF_MLX)] {
        let server = Loopback::start(move |seen| {
            let body: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
            let messages = body["messages"].as_array().unwrap().iter();
            let mut ids = messages.filter_map(|message| message["tool_call_id"].as_str());
            match ids.all(is_strict) {
                true => Answer::json(WHOLE),
                false => Answer::whole(status, "content-type: application/json", refusal),
            }
        })
        .await;
        let client = learning(&server);
        let request = request_of([
            Message::user("look"),
            messages::calls([
                ("call_01a_a0_0_0", "look", "{}"),
                ("a1B2c3D4e", "look", "{}"),
            ]),
            messages::result("call_01a_a0_0_0", "look", "1"),
            messages::result("a1B2c3D4e", "look", "2"),
        ]);
        let reply = promptly(client.respond(&request, &call_context())).await;
        assert_eq!(reply.unwrap().text(), "Héllo 🦀");
        let sent: serde_json::Value = serde_json::from_str(&server.seen()[1].body).unwrap();
        let sent = &sent["messages"];
        assert_eq!(sent[1]["tool_calls"][0]["id"], sent[2]["tool_call_id"]);
        assert_eq!(sent[1]["tool_calls"][1]["id"], "a1B2c3D4e");
        assert_eq!(sent[3]["tool_call_id"], "a1B2c3D4e");
    }
}

#[tokio::test]
async fn unsigned_calls_are_signed_after_a_refusal() {
    const REFUSAL: &str = r#"[{"error":{"code":400,"message":"Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly.","status":"INVALID_ARGUMENT"}}]"#;
    let server = Loopback::start(|seen| match seen.body.contains("skip_thought_signature") {
        true => Answer::json(WHOLE),
        false => Answer::whole(400, "content-type: application/json", REFUSAL),
    })
    .await;
    let request = request_of([
        Message::user("look"),
        messages::calls([("c1", "look", "{}")]),
        messages::result("c1", "look", "1"),
    ]);
    let reply = promptly(learning(&server).respond(&request, &call_context())).await;
    assert_eq!(reply.unwrap().text(), "Héllo 🦀");
}

#[tokio::test]
async fn stream_usage_is_requested_until_the_server_refuses_it() {
    let server = Loopback::start(|seen| match seen.body.contains("stream_options") {
        true => {
            let detail = serde_json::json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted", "input": {"include_usage": true}}]});
            refusal_of_mistral(422, detail)
        }
        false => Answer::events(STREAM.split_inclusive("\n\n").map(str::as_bytes)),
    })
    .await;
    let client = learning(&server);
    for asked in [2, 3] {
        assert_eq!(stream(&client).await.unwrap().text(), "Héllo 🦀");
        assert_eq!(server.seen().len(), asked);
    }
}

#[tokio::test]
async fn an_image_in_an_earlier_message_is_omitted_after_a_refusal() {
    const OF_GROQ: &str = "'messages.0' : for 'role:user' the following must be satisfied[('messages.0.content' : value must be a string)]";
    const OF_LLAMA_SERVER: &str = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj";
    const OF_OLLAMA: &str = "this model is missing data required for image input";
    for (status, refusal) in [
        (400, OF_GROQ),
        (400, "At most 0 image(s) may be provided in one prompt."),
        (404, "No endpoints found that support image input"),
        (400, OF_OLLAMA),
        (500, OF_LLAMA_SERVER),
    ] {
        let server = Loopback::start(move |seen| match seen.body.contains("image_url") {
            true => refusal_of_mistral(status, refusal),
            false => Answer::json(WHOLE),
        })
        .await;
        let client = learning(&server);
        let image = Part::Media(MediaPart::embedded("image/png", "QUJD"));
        let shown = Message::User {
            parts: vec![Part::text("What is it?"), image],
        };
        let fresh = request_of([shown.clone()]);
        let later = request_of([
            shown,
            Message::assistant("A cat."),
            Message::user("In one word?"),
        ]);
        for asked in [2, 3] {
            let reply = promptly(client.respond(&later, &call_context())).await;
            assert_eq!(reply.unwrap().text(), "Héllo 🦀");
            assert_eq!(server.seen().len(), asked, "only the first was refused");
        }
        assert!(server.seen()[2].body.contains("left out"));
        assert_eq!(client.media(), MediaTypes::NONE);
        let error = promptly(client.respond(&fresh, &call_context())).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::BadRequest);
        assert!(error.message.contains("image/png"), "{error}");
        assert_eq!(server.seen().len(), 3, "what it is about is not left out");
    }
}

#[tokio::test]
async fn a_refusal_of_audio_does_not_disable_images() {
    let server = Loopback::start(|seen| match seen.body.contains("input_audio") {
        true => refusal_of_mistral(500, "audio input is not supported"),
        false => Answer::json(WHOLE),
    })
    .await;
    let client = learning(&server);
    let sound = Part::Media(MediaPart::embedded("audio/wav", "QUJD"));
    let request = request_of([Message::User { parts: vec![sound] }]);
    let refused = promptly(client.respond(&request, &call_context())).await;
    assert!(refused.is_err());
    assert_ne!(client.media(), MediaTypes::NONE);
}

/// A request that offers a tool.
fn with_tool(choice: ToolChoice) -> ModelRequest {
    let mut request = request_of([Message::user("hi")]);
    let look = ToolSpec::new("look".parse().unwrap(), "Looks.");
    request.tools = [look].into();
    request.tool_choice = choice;
    request
}

#[tokio::test]
async fn a_model_without_tool_support_answers_without_tools_unless_a_call_is_required() {
    const OF_OLLAMA: &str = r#"{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error","param":null,"code":null}}"#;
    const OF_VLLM: &str = r#"{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}}"#;
    const OF_OPENROUTER: &str = r#"{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}"#;
    for (status, refusal) in [(400, OF_OLLAMA), (400, OF_VLLM), (404, OF_OPENROUTER)] {
        let server = Loopback::start(move |seen| match seen.body.contains(r#""tools":"#) {
            true => Answer::whole(status, "content-type: application/json", refusal),
            false => Answer::json(WHOLE),
        })
        .await;
        let client = learning(&server);
        for (choice, asked) in [
            (ToolChoice::Auto, 2),
            (ToolChoice::Auto, 3),
            (ToolChoice::None, 4),
        ] {
            let request = with_tool(choice);
            let reply = promptly(client.respond(&request, &call_context())).await;
            assert_eq!(reply.unwrap().text(), "Héllo 🦀");
            assert_eq!(server.seen().len(), asked, "only the first was refused");
        }
        let must_call = with_tool(ToolChoice::Required);
        let error = promptly(client.respond(&must_call, &call_context())).await;
        assert_eq!(error.unwrap_err().kind, LlmErrorKind::BadRequest);
        assert_eq!(server.seen().len(), 5);
    }
}

#[tokio::test]
async fn a_refusal_of_parallel_calls_does_not_disable_tools() {
    const NOT_AT_ONCE: &str = r#"{"error":{"message":"Parallel tool calling is not supported by this model","code":400}}"#;
    let server =
        Loopback::start(|_| Answer::whole(400, "content-type: application/json", NOT_AT_ONCE))
            .await;
    let client = learning(&server);
    let request = with_tool(ToolChoice::Auto);
    let error = promptly(client.respond(&request, &call_context())).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn other_errors_are_not_mistaken_for_that_refusal() {
    let server = Loopback::start(|_| Answer::whole(500, "x: y", "out of memory")).await;
    let error = promptly(client(&server).respond(&late_system(), &call_context()))
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::server(Some(500)));
    assert!(error.message.starts_with("out of memory"), "{error}");
}
