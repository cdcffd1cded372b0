//! What is sent to each kind of server.

use neuraxis_core::{
    AssistantMessage, JsonText, Message, ModelRef, ModelRequest, Part, ReasoningPart, ReplyFormat,
    ToolChoice,
};
use neuraxis_llama::{LlamaClient, LlamaConfig, ReasoningEcho, ReasoningFormat, Server};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::loopback::Loopback;
use neuraxis_testkit::{call_context, messages, request_of, spec};
use serde_json::{Value, json};

use crate::shapes::chat;

/// Returns what is sent for a request.
async fn sent(kind: Server, request: &ModelRequest) -> Value {
    sent_with(kind, request, |_| {}).await
}

/// Returns what a client with the given setup sends for a request.
async fn sent_with(
    kind: Server,
    request: &ModelRequest,
    set_up: impl FnOnce(&mut LlamaConfig),
) -> Value {
    let server = Loopback::start(chat).await;
    let mut config = LlamaConfig::new(server.url());
    config.server = kind;
    set_up(&mut config);
    let client = LlamaClient::new(config).unwrap();
    client.respond(request, &call_context()).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /v1/chat/completions");
    serde_json::from_str(&seen.body).unwrap()
}

fn with_tools(choice: ToolChoice) -> ModelRequest {
    let mut request = request_of([Message::user("hi")]);
    request.tools = ["a", "b"].map(|name| spec(name).build()).into();
    request.tool_choice = choice;
    request.max_output_tokens = Some(64);
    request
}

const SERVERS: [Server; 4] = [
    Server::LlamaServer,
    Server::Ollama,
    Server::LmStudio,
    Server::Vllm,
];

#[tokio::test]
async fn every_server_receives_the_token_limit() {
    for server in SERVERS {
        let body = sent(server, &with_tools(ToolChoice::Auto)).await;
        assert_eq!(body["max_tokens"], 64);
        assert_eq!(body["model"], "default");
        assert_eq!(body["tools"][0]["type"], "function");
    }
}

#[tokio::test]
async fn a_named_tool_is_forced_on_llama_server_by_offering_it_alone() {
    let body = sent(Server::LlamaServer, &with_tools(ToolChoice::Auto)).await;
    assert_eq!(body["parallel_tool_calls"], true);
    let body = sent(
        Server::LlamaServer,
        &with_tools(ToolChoice::Named("b".parse().unwrap())),
    )
    .await;
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(body["tool_choice"], "required");
    let body = sent(Server::LlamaServer, &with_tools(ToolChoice::None)).await;
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
    assert_eq!(body["tool_choice"], "none");
}

#[tokio::test]
async fn ollama_is_offered_no_tools_if_none_may_be_called() {
    let body = sent(Server::Ollama, &with_tools(ToolChoice::None)).await;
    assert_eq!(body.get("tools"), None);
    assert_eq!(body.get("tool_choice"), None);
}

#[tokio::test]
async fn invalid_arguments_of_the_history_are_sent_as_objects() {
    let history = request_of([
        Message::user("hi"),
        messages::calls([("c1", "look", "{\"at\": \"sk"), ("c2", "look", "")]),
        messages::result("c1", "look", r#"{"error":"not JSON"}"#),
        messages::result("c2", "look", "1"),
    ]);
    for server in SERVERS {
        let body = sent(server, &history).await;
        let calls = &body["messages"][1]["tool_calls"];
        let arguments = |index: usize| -> Value {
            serde_json::from_str(calls[index]["function"]["arguments"].as_str().unwrap()).unwrap()
        };
        assert_eq!(arguments(0), json!({"invalid_arguments": "{\"at\": \"sk"}));
        assert_eq!(arguments(1), json!({}));
        assert_eq!(calls[0]["type"], "function");
    }
}

#[tokio::test]
async fn a_trailing_assistant_message_is_followed_by_a_user_message() {
    let history = request_of([Message::user("hi"), Message::assistant("Hel")]);
    let body = sent(Server::LlamaServer, &history).await;
    assert_eq!(body["messages"][2]["role"], "user");
}

fn fitting_a_schema(mut request: ModelRequest) -> ModelRequest {
    request.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(r#"{"type": "object"}"#),
    };
    request
}

#[tokio::test]
async fn a_reply_schema_is_sent_in_response_format_to_every_server() {
    let request = fitting_a_schema(request_of([Message::user("hi")]));
    let expected = json!({
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": true, "schema": {"type": "object"}},
    });
    for server in SERVERS {
        let body = sent(server, &request).await;
        assert_eq!(body["response_format"], expected, "{server:?}");
    }
}

#[tokio::test]
async fn a_model_that_may_call_a_tool_is_not_bound_to_a_schema() {
    let auto = fitting_a_schema(with_tools(ToolChoice::Auto));
    let body = sent(Server::LlamaServer, &auto).await;
    assert_eq!(body.get("response_format"), None);
    let none = fitting_a_schema(with_tools(ToolChoice::None));
    let body = sent(Server::LlamaServer, &none).await;
    assert_eq!(body["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn grammar_and_reasoning_format_are_sent_only_to_llama_server_if_applicable() {
    let plain = request_of([Message::user("hi")]);
    let set_up = |config: &mut LlamaConfig| {
        config.reasoning_format = Some(ReasoningFormat::DeepseekLegacy);
        config.grammar = Some("root ::= \"yes\"".to_owned());
    };
    let body = sent_with(Server::LlamaServer, &plain, set_up).await;
    assert_eq!(body["reasoning_format"], "deepseek-legacy");
    assert_eq!(body["grammar"], "root ::= \"yes\"");
    for request in [
        with_tools(ToolChoice::Auto),
        fitting_a_schema(plain.clone()),
    ] {
        let body = sent_with(Server::LlamaServer, &request, set_up).await;
        assert_eq!(body["reasoning_format"], "deepseek-legacy");
        assert_eq!(body.get("grammar"), None);
    }
    for server in [Server::Ollama, Server::LmStudio, Server::Vllm] {
        let body = sent_with(server, &plain, set_up).await;
        assert_eq!(body.get("grammar"), None);
        assert_eq!(body.get("reasoning_format"), None);
    }
}

#[tokio::test]
async fn earlier_reasoning_is_sent_back_only_if_configured() {
    let thought = Part::Reasoning(ReasoningPart {
        text: "hm".to_owned(),
        ..ReasoningPart::default()
    });
    let answer = Message::Assistant(AssistantMessage {
        parts: vec![thought, Part::text("Hello.")],
        model: Some(ModelRef::new("llama", "m")),
    });
    let request = request_of([Message::user("hi"), answer, Message::user("and?")]);
    let always = |config: &mut LlamaConfig| config.echo_reasoning = ReasoningEcho::Always;
    let body = sent(Server::LlamaServer, &request).await;
    assert_eq!(body["messages"][1].get("reasoning_content"), None);
    let body = sent_with(Server::LlamaServer, &request, always).await;
    assert_eq!(body["messages"][1]["reasoning_content"], "hm");
    let mut config = LlamaConfig::default();
    for resends in [false, true] {
        let client = LlamaClient::new(config.clone()).unwrap();
        assert_eq!(client.info().resends_reasoning, resends);
        always(&mut config);
    }
}

#[tokio::test]
async fn llama_server_disables_thinking_for_short_replies() {
    let mut request = request_of([Message::user("hi")]);
    let not_to = json!({"enable_thinking": false});
    for (server, most, expected) in [
        (Server::LlamaServer, Some(16), Some(&not_to)),
        (Server::LlamaServer, Some(1_024), Some(&not_to)),
        (Server::LlamaServer, Some(1_025), None),
        (Server::LlamaServer, None, None),
        (Server::Ollama, Some(16), None),
        // With Mistral's tokenizer, it rejects the field.
        (Server::Vllm, Some(16), None),
    ] {
        request.max_output_tokens = most;
        let body = sent(server, &request).await;
        let said = body.get("chat_template_kwargs");
        assert_eq!(said, expected, "{server:?} {most:?}");
    }
}
