//! What a client receives when a budget is exhausted.

use std::sync::Arc;

use neuraxis::core::PlanName;
use neuraxis::ports::Tool;
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use super::{builder, parsed, post, request, stream, user};
use crate::support::client::answer;
use crate::support::in_process::InProcess;

#[tokio::test]
async fn an_exhausted_budget_is_an_error_and_not_a_truncated_answer() {
    let said = reply::using(reply::text("Noted."), 90_000, 10_000);
    let model = Arc::new(ScriptedModel::always(said));
    let policy = "plans.team.day.max_tokens = 100000\n";
    let builder = builder(&model, policy).default_plan(PlanName::new("team"));
    let server = InProcess::serve(builder.build().unwrap()).await;
    let client = server.client();
    let chat = |stream: bool| json!({"messages": [user("hi")], "response_format": {"type": "json_object"}, "stream": stream});
    let response = |stream: bool| json!({"input": "hi", "stream": stream});
    let first = json!({"messages": [user("hi")]});
    let (status, received) = post(&client, "/v1/chat/completions", &first).await;
    assert_eq!(status, 200, "{received}");
    assert_eq!(received["neuraxis"]["finish_reason"], "stop");
    for (path, body) in [
        ("/v1/chat/completions", chat(false)),
        ("/v1/responses", response(false)),
    ] {
        let refused = request(&client, path, &body).send().await.unwrap();
        assert_eq!(refused.status(), 429, "{path}");
        assert_eq!(refused.headers()["x-should-retry"], "false", "{path}");
        let received: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
        let error = &received["error"];
        let kinds = (&error["type"], &error["code"]);
        let expected = json!("insufficient_quota");
        assert_eq!(kinds, (&expected, &expected), "{received}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("today's budget of tokens"), "{message}");
    }
    // It had no result: the response before it is still the last one.
    let run = received["neuraxis"]["run_id"].as_str().unwrap();
    let after = json!({"input": "hi", "previous_response_id": format!("resp_{run}")});
    for _ in 0..2 {
        let (status, received) = post(&client, "/v1/responses", &after).await;
        assert_eq!(status, 429, "{received}");
    }
    let free = json!({"messages": [user("hi")], "stream": true});
    for body in [chat(true), free] {
        let chunks = parsed(&stream(&client, "/v1/chat/completions", &body).await);
        let code = &chunks.last().unwrap()["error"]["code"];
        assert_eq!(code, "insufficient_quota");
        let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
        let said: String = deltas
            .filter_map(|delta| delta["content"].as_str())
            .collect();
        assert_eq!(said, "", "it is sent once");
    }
    let events = parsed(&stream(&client, "/v1/responses", &response(true)).await);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed", "{last}");
    assert_eq!(last["response"]["output"], json!([]), "it is sent once");
    assert_eq!(last["response"]["error"]["code"], "insufficient_quota");
    let id = last["response"]["id"].as_str().unwrap();
    let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(again["status"], "failed", "{again}");
    assert_eq!(again["output"], json!([]));
    assert_eq!(again["incomplete_details"], Value::Null);
    assert_eq!(model.requests().len(), 1, "no model is asked");
}

#[tokio::test]
async fn a_repeatedly_invalid_answer_is_an_error_and_not_a_truncated_answer() {
    let wrong = reply::calls([("final_answer", r#"{"no":1}"#)]);
    let model = Arc::new(ScriptedModel::always(wrong));
    model.push(reply::text("Noted."));
    let clock = Arc::new(ScriptedTool::echoing(spec("clock").read_only()));
    let builder = builder(&model, "channels.chat.tools = ['clock']\n");
    let builder = builder.tool(clock as Arc<dyn Tool>);
    let server = InProcess::serve(builder.build().unwrap()).await;
    let client = server.client();
    let (_, first) = post(&client, "/v1/responses", &json!({"input": "hi"})).await;
    let schema = json!({
        "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false
    });
    let format = json!({"type": "json_schema", "name": "R", "schema": schema});
    let response =
        json!({"input": "A?", "previous_response_id": first["id"], "text": {"format": format}});
    // A failed request may be sent again.
    for _ in 0..2 {
        let (status, received) = post(&client, "/v1/responses", &response).await;
        let error = &received["error"];
        let expected = (500, &json!("invalid_answer"));
        assert_eq!((status, &error["code"]), expected, "{received}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(r#""a" is a required property"#),
            "{message}"
        );
        let id = format!("resp_{}", error["neuraxis"]["run_id"].as_str().unwrap());
        let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(again["status"], "failed", "{again}");
        assert_eq!(again["output"], json!([]));
    }
    let format = json!({"type": "json_schema", "json_schema": {"name": "R", "schema": schema}});
    let chat = json!({"messages": [user("A?")], "response_format": format, "stream": true});
    let chunks = parsed(&stream(&client, "/v1/chat/completions", &chat).await);
    let last = chunks.last().unwrap();
    assert_eq!(last["error"]["code"], "invalid_answer", "{last}");
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let said: String = deltas
        .filter_map(|delta| delta["content"].as_str())
        .collect();
    assert_eq!(said, "");
}
