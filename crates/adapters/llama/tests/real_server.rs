//! The adapter against a real llama-server with the scripted model of `cargo xtask test`.
#![expect(clippy::unwrap_used, reason = "a test tells what is wrong by a panic")]

#[path = "real_server/cache.rs"]
mod cache;
#[path = "real_server/count.rs"]
mod count;
#[path = "real_server/formats.rs"]
mod formats;
#[path = "real_server/rules.rs"]
mod rules;
#[path = "real_server/running.rs"]
mod running;
#[path = "real_server/unparsable.rs"]
mod unparsable;

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use neuraxis_core::{
    AssistantMessage, CountLabel, JsonText, LlmError, LlmErrorKind, Message, ModelRequest, Part,
    Reply, ReplyAssembler, ReplyDelta, ReplyFinish, ReplyPart, ToolCall, ToolCallId, ToolChoice,
};
use neuraxis_llama::{LlamaClient, Secret, ServerState};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{call_context, messages, request, request_of, spec};

use crate::running::Running;

async fn respond(client: &LlamaClient, request: &ModelRequest) -> Result<Reply, LlmError> {
    client.respond(request, &call_context()).await
}

async fn deltas(client: &LlamaClient, request: &ModelRequest) -> Vec<ReplyDelta> {
    let stream = client
        .stream_respond(request, &call_context())
        .await
        .unwrap();
    stream.try_collect().await.unwrap()
}

fn assembled(deltas: Vec<ReplyDelta>) -> Reply {
    let mut assembler = ReplyAssembler::default();
    for delta in deltas {
        assembler.push(delta).unwrap();
    }
    assembler.finish().unwrap()
}

/// Returns a request with tools: `look` requires a place, `wait` nothing.
fn with_tools(messages: impl IntoIterator<Item = Message>) -> ModelRequest {
    let place = r#"{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}"#;
    let mut request = request_of(messages);
    request.tools = [
        spec("look").schema(place).build(),
        spec("wait")
            .schema(r#"{"type":"object","properties":{}}"#)
            .build(),
    ]
    .into();
    request
}

/// Adds a reply to the history, as the loop does, with a result for each call.
fn go_on(request: &mut ModelRequest, reply: &Reply) {
    let mut results = Vec::new();
    let parts = reply
        .parts
        .iter()
        .enumerate()
        .map(|(index, part)| match part {
            ReplyPart::Text(part) => Part::Text(part.clone()),
            ReplyPart::Reasoning(part) => Part::Reasoning(part.clone()),
            ReplyPart::ToolCall(call) => {
                let id = format!("loop-{}-{index}", request.messages.len());
                results.push(messages::result(&id, &call.name, r#"{"seen":"nothing"}"#));
                Part::ToolCall(ToolCall {
                    id: ToolCallId::from_text(id),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    provider_id: call.provider_id.clone(),
                    state: call.state.clone(),
                })
            }
        });
    let message = AssistantMessage {
        parts: parts.collect(),
        model: Some(reply.model.clone()),
    };
    request.messages.push(Message::Assistant(message));
    for result in results {
        request.messages.push(result);
    }
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_probe_reports_the_server_and_its_features() {
    let server = Running::start(&[]);
    let probe = server
        .client()
        .probe(Duration::from_secs(10))
        .await
        .unwrap();
    assert_eq!(probe.state, ServerState::Ready);
    assert_eq!(probe.models.len(), 1);
    assert_eq!(probe.context_tokens, Some(32_768), "that of one slot");
    assert_eq!(probe.slots, Some(2));
    assert!(probe.build.is_some());
    assert_eq!(probe.supports_tools, Some(true));
    assert_eq!(probe.supports_parallel_calls, Some(true));
    assert_eq!(probe.accepts_late_system, Some(true));
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_plain_answer_is_the_same_whole_or_streamed_and_is_counted() {
    let server = Running::start(&[]);
    let client = server.client();
    let whole = respond(&client, &request("hello")).await.unwrap();
    assert_eq!(whole.text(), "This is a plain answer.");
    assert_eq!(whole.finish, ReplyFinish::Stop);
    let deltas = deltas(&client, &request("hello")).await;
    assert!(deltas.len() > 10, "{} pieces", deltas.len());
    let streamed = assembled(deltas);
    assert_eq!(streamed.parts, whole.parts);
    for usage in [whole.usage, streamed.usage] {
        assert_eq!(usage.prompt.label, CountLabel::Measured);
        assert_eq!(usage.cached.label, CountLabel::Measured);
        assert!(usage.prompt.tokens > 0 && usage.completion.tokens > 20);
        assert_eq!(
            usage.total.tokens,
            usage.prompt.tokens + usage.completion.tokens
        );
    }
    assert!(
        streamed.usage.cached.tokens > 0,
        "the second call finds the first in the cache"
    );
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_call_streams_in_fragments_and_its_result_is_answered() {
    let server = Running::start(&[]);
    let client = server.client();
    let mut request = with_tools([Message::user("look around")]);
    let pieces = deltas(&client, &request).await;
    let fragments = pieces
        .iter()
        .filter(|piece| matches!(piece, ReplyDelta::ToolCall { .. }));
    assert!(fragments.count() > 3, "{pieces:?}");
    let reply = assembled(pieces);
    assert_eq!(reply.finish, ReplyFinish::ToolCalls);
    let call = reply.calls().next().unwrap();
    assert_eq!(call.name, "look".into());
    assert_eq!(call.arguments.as_str(), r#"{"at": "x"}"#);
    assert!(call.provider_id.as_ref().is_some_and(|id| !id.is_empty()));

    go_on(&mut request, &reply);
    let answer = assembled(deltas(&client, &request).await);
    assert_eq!(
        answer.text(),
        "This is the final answer. Tool results read: 1."
    );
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn two_tool_calls_arrive_in_one_reply() {
    let server = Running::start(&[]);
    let client = server.client();
    let mut request = with_tools([Message::user("two calls")]);
    let whole = respond(&client, &request).await.unwrap();
    let streamed = assembled(deltas(&client, &request).await);
    for reply in [&whole, &streamed] {
        assert_eq!(reply.calls().count(), 2);
        assert_eq!(
            reply.usage.action, reply.usage.completion,
            "nothing but calls"
        );
    }
    go_on(&mut request, &whole);
    let answer = respond(&client, &request).await.unwrap();
    assert!(answer.text().ends_with("results read: 2."), "{answer:?}");
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn reasoning_is_separate_from_text_and_can_be_sent_back() {
    let server = Running::start(&[]);
    let client = server.client();
    let mut request = request("think");
    let reply = assembled(deltas(&client, &request).await);
    assert_eq!(reply.reasoning().trim_end(), "This is some thinking.");
    assert_eq!(reply.text(), "This is a plain answer.");
    assert_eq!(reply.usage.reasoning.label, CountLabel::Estimated);
    go_on(&mut request, &reply);
    request.messages.push(Message::user("hello"));
    let next = respond(&client, &request).await.unwrap();
    assert_eq!(next.text(), "This is a plain answer.");
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_long_answer_streams_token_by_token() {
    let server = Running::start(&[]);
    let deltas = deltas(&server.client(), &request("long")).await;
    assert!(deltas.len() > 400, "{} pieces", deltas.len());
    assert!(assembled(deltas).text().ends_with("Sentence 60."));
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn the_token_limit_is_respected() {
    let server = Running::start(&[]);
    let mut request = request("long");
    request.max_output_tokens = Some(7);
    let reply = respond(&server.client(), &request).await.unwrap();
    assert_eq!(reply.finish, ReplyFinish::Length);
    assert_eq!(reply.usage.completion.tokens, 7);
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_named_tool_is_called() {
    let server = Running::start(&[]);
    let mut request = with_tools([Message::user("hello")]);
    request.tool_choice = ToolChoice::Named("wait".parse().unwrap());
    let reply = respond(&server.client(), &request).await.unwrap();
    let call = reply.calls().next().unwrap();
    assert_eq!(
        (call.name.as_ref(), call.arguments.as_str()),
        ("wait", "{}")
    );
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_final_answer_reuses_cached_tools_and_may_contain_call_markup() {
    let server = Running::start(&[]);
    let client = server.client();
    let mut request = with_tools([Message::system("Be brief."), Message::user("forever")]);
    let reply = respond(&client, &request).await.unwrap();
    go_on(&mut request, &reply);
    request
        .messages
        .push(Message::system("Please provide an answer."));
    request.tool_choice = ToolChoice::None;
    let last = respond(&client, &request).await.unwrap();
    assert_eq!(last.calls().count(), 0);
    assert_eq!(last.finish, ReplyFinish::Stop);
    assert!(last.text().starts_with("<tool_call>"), "{}", last.text());
    assert!(
        last.usage.cached.tokens > 300,
        "the tools are in the cache: {:?}",
        last.usage
    );
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn invalid_arguments_in_the_history_are_accepted() {
    let server = Running::start(&[]);
    let call = |id: &str, arguments: &str| {
        Part::ToolCall(ToolCall {
            id: ToolCallId::from_text(id),
            name: "look".into(),
            arguments: JsonText::from_text(arguments),
            provider_id: None,
            state: None,
        })
    };
    let broken = [
        "{\"at\": \"sk",
        "",
        "null",
        "[1]",
        "oops",
        "{\"at\":\"\\ud800\"}",
    ];
    for arguments in broken {
        let request = with_tools([
            Message::user("look around"),
            Message::Assistant(AssistantMessage {
                parts: vec![call("c1", arguments)],
                model: None,
            }),
            messages::result("c1", "look", r#"{"error":"not an object"}"#),
        ]);
        let reply = respond(&server.client(), &request).await;
        let text = reply.map(|reply| reply.text());
        assert_eq!(
            text.as_deref(),
            Ok("This is the final answer. Tool results read: 1."),
            "{arguments}"
        );
    }
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_truncated_tool_call_in_the_history_is_accepted() {
    let server = Running::start(&[]);
    let client = server.client();
    let mut request = with_tools([Message::user("look around")]);
    request.max_output_tokens = Some(40);
    let reply = respond(&client, &request).await.unwrap();
    assert_eq!(reply.finish, ReplyFinish::Length);
    let call = reply.calls().next().unwrap();
    assert!(!call.arguments.is_valid(), "{call:?}");
    go_on(&mut request, &reply);
    request.max_output_tokens = None;
    let answer = respond(&client, &request).await.unwrap();
    assert_eq!(
        answer.text(),
        "This is the final answer. Tool results read: 1."
    );
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_trailing_assistant_message_is_not_continued() {
    let server = Running::start(&[]);
    let request = request_of([Message::user("hello"), Message::assistant("Hel")]);
    let reply = respond(&server.client(), &request).await.unwrap();
    assert_eq!(reply.text(), "This is a plain answer.");
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_context_overflow_reports_limit_and_needed_tokens() {
    let server = Running::start(&[]);
    let request = request("x".repeat(40_000));
    let client = server.client();
    let whole = respond(&client, &request).await.unwrap_err();
    let streamed = client.stream_respond(&request, &call_context()).await;
    for error in [whole, streamed.err().unwrap()] {
        let LlmErrorKind::ContextOverflow {
            limit: Some(limit),
            needed: Some(needed),
        } = error.kind
        else {
            unreachable!("{error}");
        };
        assert_eq!(limit, 32_768);
        assert!(needed > 40_000, "{needed}");
    }
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn the_configured_api_key_is_required_and_accepted() {
    let server = Running::start(&["--api-key", "sk-right"]);
    for key in [None, Some("sk-wrong")] {
        let mut config = server.config();
        config.api_key = key.map(Secret::new);
        let client = LlamaClient::new(config).unwrap();
        let error = respond(&client, &request("hello")).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Unauthorized);
        let error = client.probe(Duration::from_secs(10)).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Unauthorized);
    }
    let mut config = server.config();
    config.api_key = Some(Secret::new("sk-right"));
    let client = LlamaClient::new(config).unwrap();
    let reply = respond(&client, &request("hello")).await.unwrap();
    assert_eq!(reply.text(), "This is a plain answer.");
}

#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_cancelled_call_frees_its_slot() {
    let server = Running::start(&["-np", "1"]);
    let client = server.client();
    let ctx = call_context();
    let request = request("long");
    let mut stream = client.stream_respond(&request, &ctx).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    ctx.cancellation.cancel();
    let rest: Result<Vec<_>, _> = stream.try_collect().await;
    assert_eq!(rest.unwrap_err().kind, LlmErrorKind::Cancelled);
    let reply = respond(&client, &request_of([Message::user("hello")])).await;
    assert_eq!(reply.unwrap().text(), "This is a plain answer.");
}
