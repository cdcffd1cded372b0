//! Runs without an answer: what a client receives, and what happens to a repeated request.

use std::sync::Arc;

use neuraxis::core::{LlmError, LlmErrorKind, ReplyFinish};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{SessionIndex as _, Tool};
use neuraxis_server::Stop;
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use super::items::last_messages;
use super::{builder, parsed, post, request, stream, user, weather};
use crate::support::Client;
use crate::support::client::answer;
use crate::support::in_process::InProcess;

fn fails() -> LlmError {
    LlmError::new(LlmErrorKind::Unauthorized, "wrong key")
}

/// With a virtual clock: the runs have five seconds and do not end.
#[tokio::test]
async fn a_run_left_by_a_draining_server_is_not_restarted_by_clients() {
    let store = Arc::new(MemoryStore::new());
    let server = InProcess::start(ScriptedModel::always(Script::hanging()), store.clone()).await;
    let asking = ["/v1/chat/completions", "/v1/responses"].map(|path| {
        let session = path.rsplit('/').next().unwrap();
        let own = json!({"session": session});
        let body = json!({"messages": [user("hi")], "input": "hi", "neuraxis": own});
        let asking = request(&server.client(), path, &body).send();
        (session, tokio::spawn(asking))
    });
    for (session, _) in &asking {
        let at_work = async || {
            let run = store.runs(&session.parse().unwrap()).await.ok()?.pop()?;
            (run.records > 0).then_some(())
        };
        while at_work().await.is_none() {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::pause();
    server.stop_by(Stop::Drain).await.unwrap();
    for (session, asking) in asking {
        let response = asking.await.unwrap().unwrap();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert!(!response.headers().contains_key("retry-after"));
        let received: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(
            received["error"]["code"], "shutting_down",
            "{session}: {received}"
        );
        let message = received["error"]["message"].as_str().unwrap();
        assert!(message.contains("in the session"), "{message}");
        assert!(!message.contains("Idempotency-Key"), "{message}");
    }
}

#[tokio::test]
async fn the_error_of_a_cancelled_run_names_the_cancellation_and_its_reason() {
    for path in ["/v1/chat/completions", "/v1/responses"] {
        let look = spec("look").read_only();
        let tool = Arc::new(ScriptedTool::always(look, Act::stalling()));
        let says = reply::text_and_calls("Let me look.", [("look", "{}")]);
        let model = Arc::new(ScriptedModel::always(says));
        let builder = builder(&model, "").tool(Arc::clone(&tool) as Arc<dyn Tool>);
        let server = InProcess::serve(builder.build().unwrap()).await;
        let client = server.client();
        let body = json!({"messages": [user("hi")], "input": "hi"});
        let asking = tokio::spawn(request(&client, path, &body).send());
        while tool.open_calls() == 0 {
            tokio::task::yield_now().await;
        }
        let (_, listed) = answer(client.get("/api/v1/runs?limit=1")).await;
        let run = listed["runs"][0]["run_id"].as_str().unwrap();
        let body = json!({"reason": "the operator stopped it"});
        let (status, _) = post(&client, &format!("/api/v1/runs/{run}/cancel"), &body).await;
        assert_eq!(status, 202);
        let refused = asking.await.unwrap().unwrap();
        assert_eq!(refused.status(), 500, "{path}");
        let received: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
        assert_eq!(received["error"]["code"], "cancelled", "{received}");
        let message = received["error"]["message"].as_str().unwrap();
        assert!(message.contains("Cancelled"), "{message}");
        assert!(message.ends_with(": the operator stopped it"), "{message}");
    }
}

#[tokio::test]
async fn a_context_overflow_is_reported_with_the_openai_error_code() {
    let overflow = LlmErrorKind::ContextOverflow {
        limit: None,
        needed: None,
    };
    let server = InProcess::of(ScriptedModel::always(LlmError::new(overflow, "too long"))).await;
    let client = server.client();
    let body = json!({"messages": [user("hi")]});
    let (status, received) = post(&client, "/v1/chat/completions", &body).await;
    let expected = json!("context_length_exceeded");
    assert_eq!(
        (status, &received["error"]["code"]),
        (500, &expected),
        "{received}"
    );
    let body = json!({"input": "hi", "stream": true});
    let events = parsed(&stream(&client, "/v1/responses", &body).await);
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["error"]["code"], expected, "{last}");
    let id = last["id"].as_str().unwrap();
    let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(again["error"]["code"], expected, "{again}");
}

#[tokio::test]
async fn a_failed_response_can_be_repeated_after_the_previous_one() {
    let model = ScriptedModel::new()
        .then(reply::text("Hello, Bo."))
        .then(fails())
        .then(reply::text("Bo."))
        .then(reply::text("Nothing."));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let first = json!({"input": "I am Bo."});
    let (_, first) = post(&client, "/v1/responses", &first).await;
    let body = json!({"input": "Who am I?", "previous_response_id": first["id"]});
    let (status, failed) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 500, "{failed}");
    let place = &failed["error"]["neuraxis"];
    assert_eq!(place["session_id"], first["metadata"]["session_id"]);
    assert_eq!(place["status"], "failed");

    let (status, second) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{second}");
    let session = |response: &Value| response["metadata"]["session_id"].clone();
    assert_eq!(session(&first), session(&second));
    let said = ["I am Bo.", "Hello, Bo.", "Who am I?", "Who am I?"];
    assert_eq!(last_messages(&model), said);

    // Once there is an answer, the conversation continues from it.
    let (status, refused) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 400, "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains(second["id"].as_str().unwrap()),
        "{message}"
    );
}

#[tokio::test]
async fn an_answer_cut_off_before_any_text_explains_the_limit_streamed_or_not() {
    let mut cut = reply::reasoned("Let me see.", "");
    cut.finish = ReplyFinish::Length;
    let server = InProcess::of(ScriptedModel::always(cut)).await;
    let client = server.client();
    let why = "The model reached its limit before it gave an answer; ask for less at a time.";
    let body = json!({"messages": [user("hi")]});
    let (_, chat) = post(&client, "/v1/chat/completions", &body).await;
    assert_eq!(chat["choices"][0]["message"]["content"], why, "{chat}");

    let path = "/v1/responses";
    for is_stream in [false, true] {
        let body = json!({"input": "hi", "stream": is_stream});
        let response = match is_stream {
            true => parsed(&stream(&client, path, &body).await).pop().unwrap()["response"].clone(),
            false => post(&client, path, &body).await.1,
        };
        assert_eq!(response["status"], "incomplete", "{response}");
        let last = response["output"].as_array().unwrap().last().unwrap();
        assert_eq!(last["content"][0]["text"], why, "{response}");
        let id = response["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("{path}/{id}"))).await;
        assert_eq!(again["output"], response["output"]);
    }
}

/// Returns the status of the newest run.
async fn newest(client: &Client) -> String {
    let (_, runs) = answer(client.get("/api/v1/runs?limit=1")).await;
    let status = runs["runs"][0]["status"].as_str();
    status.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_response_whose_client_left_can_be_repeated_after_the_previous_one() {
    let model = ScriptedModel::new()
        .then(reply::text("Hello, Bo."))
        .then(Script::hanging())
        .then(reply::text("Bo."));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let first = json!({"input": "I am Bo."});
    let (_, first) = post(&client, "/v1/responses", &first).await;
    let mut body = json!({"input": "Who am I?", "previous_response_id": first["id"]});
    body["stream"] = json!(true);
    let asking = request(&client, "/v1/responses", &body).send();
    let response = asking.await.unwrap();
    assert_eq!(newest(&client).await, "running");
    while model.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(response);
    while newest(&client).await == "running" {
        tokio::task::yield_now().await;
    }
    let (_, runs) = answer(client.get("/api/v1/runs?limit=1")).await;
    let left = format!(
        "/v1/responses/resp_{}",
        runs["runs"][0]["run_id"].as_str().unwrap()
    );
    let (_, left) = answer(client.get(&left)).await;
    assert_eq!(
        (&left["status"], &left["usage"]),
        (&json!("failed"), &Value::Null),
        "{left}"
    );
    body["stream"] = json!(false);
    let (status, second) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{second}");
    assert_eq!(second["output"][0]["content"][0]["text"], "Bo.");
}

/// A server whose model reads the clock, calls the client's tool, and fails once it receives the result.
async fn fails_after_results() -> (InProcess, Arc<ScriptedModel>) {
    let calls = [("weather", r#"{"city":"Oslo"}"#)];
    let model = ScriptedModel::new()
        .then(reply::calls([("clock", "{}")]))
        .then(reply::calls(calls))
        .then(fails())
        .then(reply::text("Take a coat."));
    let model = Arc::new(model);
    let clock = ScriptedTool::echoing(spec("clock").read_only());
    let builder = builder(&model, "channels.chat.tools = ['clock']\n");
    let builder = builder.tools(vec![Arc::new(clock) as Arc<dyn Tool>]);
    (InProcess::serve(builder.build().unwrap()).await, model)
}

/// Sends results to a failing model, and again, and checks that it received them once, in the session of their calls.
async fn assert_taken_again(client: &Client, model: &ScriptedModel, path: &str, body: &Value) {
    let (status, failed) = post(client, path, body).await;
    assert_eq!(status, 500, "{failed}");
    let (status, again) = post(client, path, body).await;
    assert_eq!(status, 200, "{again}");
    let place = |received: &Value| received["neuraxis"]["session_id"].clone();
    assert_eq!(place(&failed["error"]), place(&again), "{again}");
    let requests = model.requests();
    let messages = requests.last().unwrap().messages.messages();
    let calls = messages.iter().flat_map(|message| message.tool_calls());
    let calls: Vec<_> = calls.map(|call| call.name.to_string()).collect();
    assert_eq!(calls, ["clock", "weather"]);
    assert_eq!(last_messages(model).last().unwrap(), "\"3 degrees\"");
}

#[tokio::test]
async fn results_can_be_sent_again_to_a_failed_chat_and_server_tool_results_are_preserved() {
    let (server, model) = fails_after_results().await;
    let client = server.client();
    let path = "/v1/chat/completions";
    let mut body = json!({"messages": [user("Coat?")], "tools": [weather()]});
    let (_, first) = post(&client, path, &body).await;
    let message = &first["choices"][0]["message"];
    let call = &message["tool_calls"][0]["id"];
    let said = body["messages"].as_array_mut().unwrap();
    said.push(message.clone());
    said.push(json!({"role": "tool", "tool_call_id": call, "content": "3 degrees"}));
    assert_taken_again(&client, &model, path, &body).await;
}

#[tokio::test]
async fn results_can_be_sent_again_after_a_failed_response_with_or_without_its_id() {
    for with_id in [true, false] {
        let (server, model) = fails_after_results().await;
        let client = server.client();
        let mut tool = weather()["function"].clone();
        tool["type"] = json!("function");
        let mut body = json!({"input": [user("Coat?")], "tools": [tool]});
        let (_, first) = post(&client, "/v1/responses", &body).await;
        let call = &first["output"][0];
        let output = json!({"type": "function_call_output", "call_id": call["call_id"], "output": "3 degrees"});
        if with_id {
            body["input"] = json!([output]);
            body["previous_response_id"] = first["id"].clone();
        } else {
            let items = body["input"].as_array_mut().unwrap();
            items.extend([call.clone(), output]);
        }
        assert_taken_again(&client, &model, "/v1/responses", &body).await;
    }
}
