//! What is carried from turn to turn.

use neuraxis_core::{Message, ModelRequest};
use neuraxis_openai::{Api, OpenAiClient};
use neuraxis_testkit::asking::{json, message_of};
use neuraxis_testkit::loopback::{Answer, Loopback, Seen};
use neuraxis_testkit::{messages, request_of, spec};

use crate::shapes::{answer, call_item, output, reasoning_item};
use crate::{client, config, respond, stream};

/// Returns the conversation part of a request, as it was sent.
fn conversation(seen: &Seen) -> &str {
    seen.body.split_once(r#"],"tools":"#).unwrap().0
}

#[tokio::test]
async fn reasoning_is_sent_back_whole_and_in_place() {
    let server = Loopback::start(answer).await;
    let client = client(&server, Api::Responses);
    let mut request = request_of([Message::system("s"), Message::user("two calls")]);
    request.tools = [spec("look").build()].into();
    let reply = stream(&client, &request).await.unwrap();
    assert_eq!(reply.reasoning(), "Let me look.");
    request.messages.push(message_of(reply));
    request
        .messages
        .push(messages::result("loop-1", "look", "1"));
    request
        .messages
        .push(messages::result("loop-2", "look", "2"));
    stream(&client, &request).await.unwrap();
    let seen = server.seen();
    let body = json(&seen[1]);
    let items = body["input"].as_array().unwrap();
    assert_eq!(items[1]["type"], "reasoning");
    for field in ["id", "summary", "encrypted_content"] {
        assert_eq!(items[1][field], reasoning_item()[field], "{field}");
    }
    assert_eq!(items[1].get("status"), None, "null is refused there");
    for (item, number, result) in [(2, 1, 4), (3, 2, 5)] {
        let expected = call_item(number, "");
        for field in ["type", "id", "call_id", "name"] {
            assert_eq!(items[item][field], expected[field], "{field}");
        }
        assert_eq!(items[result]["call_id"], expected["call_id"]);
    }
    assert!(conversation(&seen[1]).starts_with(conversation(&seen[0])));
    assert_eq!(items.len(), 6);
}

#[tokio::test]
async fn a_stored_reply_is_the_same_streamed_or_whole() {
    let server = Loopback::start(answer).await;
    let client = client(&server, Api::Responses);
    let request = request_of([Message::user("two calls")]);
    let streamed = message_of(stream(&client, &request).await.unwrap());
    let whole = message_of(respond(&client, &request).await.unwrap());
    assert_eq!(streamed, whole);
}

/// Returns a conversation whose model made two calls, with their results.
async fn two_results(client: &OpenAiClient) -> ModelRequest {
    let mut request = request_of([Message::user("two calls")]);
    let reply = respond(client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    for (call, result) in [("loop-1", "1"), ("loop-2", "2")] {
        let result = messages::result(call, "look", result);
        request.messages.push(result);
    }
    request
}

#[tokio::test]
async fn another_model_server_or_api_receives_no_reasoning_or_ids() {
    let server = Loopback::start(answer).await;
    let first = client(&server, Api::Responses);
    let request = two_results(&first).await;
    let elsewhere = Loopback::start(answer).await;
    let mut other_model = config(&server, Api::Responses);
    other_model.model = "gpt-5.2".to_owned();
    for client in [
        OpenAiClient::new(other_model).unwrap(),
        client(&elsewhere, Api::Responses),
        client(&server, Api::Chat),
    ] {
        respond(&client, &request).await.unwrap();
    }
    let seen = server.seen();
    for seen in [&seen[1], &seen[2], &elsewhere.seen()[0]] {
        for secret in ["gAAAAAB", "rs_1", "fc_1", "Let me look"] {
            assert!(!seen.body.contains(secret), "{secret}: {}", seen.body);
        }
        assert!(
            seen.body.contains("look") && seen.body.contains("sky"),
            "{}",
            seen.body
        );
    }
}

#[tokio::test]
async fn encrypted_reasoning_that_the_service_refuses_is_omitted_from_then_on() {
    const REFUSED: &str = r#"{"error":{"message":"The encrypted content gAAA...led could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#;
    let server = Loopback::start(|seen| {
        if seen.body.contains("gAAAAAB") {
            Answer::whole(400, "content-type: application/json", REFUSED)
        } else {
            answer(seen)
        }
    })
    .await;
    let client = client(&server, Api::Responses);
    let mut request = two_results(&client).await;
    let reply = stream(&client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    request.messages.push(Message::user("two calls"));
    let reply = respond(&client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    request
        .messages
        .push(messages::result("loop-1", "look", "1"));
    respond(&client, &request).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 6, "what was thought since is refused again");
    assert!(seen[1].body.contains("rs_1"), "{}", seen[1].body);
    for seen in [&seen[2], &seen[3]] {
        for gone in ["gAAAAAB", "rs_1", "fc_1", "Let me look"] {
            assert!(!seen.body.contains(gone), "{gone}: {}", seen.body);
        }
        assert!(seen.body.contains("call_1"), "{}", seen.body);
    }
}

#[tokio::test]
async fn a_message_is_sent_back_with_its_id_and_phase() {
    let server = Loopback::start(answer).await;
    let client = client(&server, Api::Responses);
    let mut request = request_of([Message::user("hello")]);
    let reply = stream(&client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    request.messages.push(Message::user("thanks"));
    respond(&client, &request).await.unwrap();
    let item = json(&server.seen()[1])["input"][1].take();
    let given = output(false).remove(0);
    for field in ["id", "type", "role", "status", "phase"] {
        assert_eq!(item[field], given[field], "{field}");
    }
    assert_eq!(item["content"][0]["text"], given["content"][0]["text"]);
}

#[tokio::test]
async fn a_call_signature_is_sent_back_only_to_the_server_that_issued_it() {
    const SIGNED: &str = r#"{"model":"gpt-5.3-2026-02-01","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","tool_calls":[
        {"id":"call_1","type":"function","function":{"name":"look","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]}}]}"#;
    let server = Loopback::start(|_| Answer::json(SIGNED)).await;
    let elsewhere = Loopback::start(|_| Answer::json(SIGNED)).await;
    let ours = client(&server, Api::Chat);
    let mut request = request_of([Message::user("one call")]);
    request.tools = [spec("look").build()].into();
    let reply = respond(&ours, &request).await.unwrap();
    request.messages.push(message_of(reply));
    request
        .messages
        .push(messages::result("loop-1", "look", "1"));
    respond(&ours, &request).await.unwrap();
    respond(&client(&elsewhere, Api::Chat), &request)
        .await
        .unwrap();
    let call = |seen: &Seen| json(seen)["messages"][1]["tool_calls"][0].take();
    let sent = call(&server.seen()[1]);
    assert_eq!(sent["extra_content"]["google"]["thought_signature"], "c2ln");
    assert_eq!(call(&elsewhere.seen()[0]).get("extra_content"), None);
}
