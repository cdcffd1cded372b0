//! The parts of its request that a stored response repeats, and refused fields that would change a conversation.

use neuraxis_testkit::{ScriptedModel, reply};
use serde_json::{Value, json};

use super::{assert_refused, parsed, post, stream, user};
use crate::support::client::answer;
use crate::support::in_process::InProcess;

async fn server() -> InProcess {
    InProcess::of(ScriptedModel::always(reply::text("Noted."))).await
}

#[tokio::test]
async fn a_retrieved_response_names_its_model_and_the_previous_response() {
    let server = server().await;
    let client = server.client();
    let mut previous = Value::Null;
    for model in ["reasoning", "neuraxis"] {
        let body = json!({"model": model, "input": "hi", "previous_response_id": previous});
        let (status, first) = post(&client, "/v1/responses", &body).await;
        assert_eq!(status, 200, "{first}");
        let id = first["id"].as_str().unwrap();
        let (status, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(status, 200, "{again}");
        assert_eq!(again["model"], model);
        assert_eq!(again["previous_response_id"], previous);
        previous = first["id"].clone();
    }
}

#[tokio::test]
async fn a_response_names_its_format_whole_streamed_and_retrieved() {
    let server = InProcess::of(ScriptedModel::always(reply::text(r#"{"n": 42}"#))).await;
    let client = server.client();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let named = json!({"type": "json_schema", "name": "Count", "schema": schema});
    for (asked, received) in [
        (named.clone(), named),
        (
            json!({"type": "json_object"}),
            json!({"type": "json_object"}),
        ),
        (json!({"type": "text"}), json!({"type": "text"})),
        (Value::Null, json!({"type": "text"})),
    ] {
        let text = json!({"format": asked});
        let mut body = json!({"input": "How many?", "text": text, "tool_choice": "none"});
        let (status, first) = post(&client, "/v1/responses", &body).await;
        assert_eq!(status, 200, "{first}");
        assert_eq!(first["text"], json!({"format": received}));
        let id = first["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(again["text"], first["text"], "{again}");
        body["stream"] = true.into();
        let events = parsed(&stream(&client, "/v1/responses", &body).await);
        for event in [&events[0], events.last().unwrap()] {
            assert_eq!(event["response"]["text"], first["text"], "{event}");
        }
    }
}

#[tokio::test]
async fn a_response_repeats_its_request_metadata_next_to_the_run_id() {
    let server = server().await;
    let client = server.client();
    let mut body = json!({"input": "hi", "metadata": {"nb": "x", "run_id": "mine"}});
    let (_, whole) = post(&client, "/v1/responses", &body).await;
    body["stream"] = json!(true);
    let events = parsed(&stream(&client, "/v1/responses", &body).await);
    for response in [&whole, &events.last().unwrap()["response"]] {
        let metadata = &response["metadata"];
        assert_eq!(metadata["nb"], "x", "{response}");
        assert_eq!(metadata["run_id"], response["neuraxis"]["run_id"]);
    }
}

#[tokio::test]
async fn a_response_and_a_session_named_together_must_match() {
    let server = server().await;
    let client = server.client();
    let (_, first) = post(&client, "/v1/responses", &json!({"input": "hi"})).await;
    let own = first["metadata"]["session_id"].as_str().unwrap();
    let mut body = json!({"input": "And?", "previous_response_id": first["id"]});
    for (session, expected) in [("another", 400), (own, 200)] {
        body["neuraxis"] = json!({"session": session});
        let (status, received) = post(&client, "/v1/responses", &body).await;
        assert_eq!(status, expected, "{session}: {received}");
        if status == 400 {
            assert_eq!(received["error"]["param"], "previous_response_id");
        }
    }
    let nowhere = "resp_00000000-0000-0000-0000-000000000000";
    body["previous_response_id"] = nowhere.into();
    let (status, received) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 400, "{received}");
}

#[tokio::test]
async fn an_empty_session_takes_a_whole_conversation_and_then_only_new_messages() {
    let server = server().await;
    let client = server.client();
    let mut messages = vec![
        user("I live in Oslo."),
        json!({"role": "assistant", "content": "Noted."}),
        user("Where do I live?"),
    ];
    for held in [4, 6] {
        let body = json!({"messages": messages, "neuraxis": {"session": "mine"}});
        let (status, received) = post(&client, "/v1/chat/completions", &body).await;
        assert_eq!(status, 200, "{received}");
        let (_, kept) = answer(client.get("/api/v1/sessions/mine")).await;
        assert_eq!(kept["history"].as_array().unwrap().len(), held, "{kept}");
        messages.extend([received["choices"][0]["message"].clone(), user("And now?")]);
    }
}

#[tokio::test]
async fn conversations_prompts_and_streams_of_stored_responses_are_refused() {
    let with = |field: &str, value: Value| {
        let mut body = json!({"input": "hi"});
        body[field] = value;
        (body, 400, "invalid_field", json!(field))
    };
    assert_refused(
        "/v1/responses",
        [
            with("conversation", json!("conv_1")),
            with("conversation", json!({"id": "conv_1"})),
            with("prompt", json!({"id": "pmpt_1"})),
        ],
    )
    .await;
    let server = server().await;
    let client = server.client();
    let body = json!({"input": "hi", "conversation": null, "prompt": null});
    let (status, first) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{first}");
    let id = first["id"].as_str().unwrap();
    for (query, expected) in [("stream=true", 400), ("stream=false&include[]=x", 200)] {
        let (status, received) = answer(client.get(&format!("/v1/responses/{id}?{query}"))).await;
        assert_eq!(status, expected, "{received}");
        if status == 400 {
            assert_eq!(received["error"]["param"], "stream");
        }
    }
}
