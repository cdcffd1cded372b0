//! OpenAI's API: what a client sends and receives, in its terms.

mod again;
mod bad_input;
mod budgets;
mod items;
mod named;
mod thoughts;
mod waits;

use std::sync::Arc;

use neuraxis::core::{LlmError, LlmErrorKind, ToolChoice};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{LlmClient, Tool};
use neuraxis::{Orchestrator, OrchestratorBuilder, Policy, PolicyConfig, Role};
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::Client;
use crate::support::client::answer;
use crate::support::in_process::InProcess;

/// An engine of this model, with additions to the policy.
fn builder(model: &Arc<ScriptedModel>, policy: &str) -> OrchestratorBuilder {
    let config = format!("{policy}channels.chat.simple_role = 'reasoning'");
    let config = PolicyConfig::from_toml(&config).unwrap();
    Orchestrator::builder()
        .model(Role::REASONING, Arc::clone(model) as Arc<dyn LlmClient>)
        .store(Arc::new(MemoryStore::new()))
        .policy(Policy::layered(config).unwrap())
}

async fn post(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    answer(request(client, path, body)).await
}

fn request(client: &Client, path: &str, body: &Value) -> reqwest::RequestBuilder {
    let request = client.post(path).header("content-type", "application/json");
    request.body(body.to_string())
}

/// Returns the data of all events of an answer.
async fn stream(client: &Client, path: &str, body: &Value) -> Vec<String> {
    let response = request(client, path, body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(str::to_owned).collect()
}

fn parsed(data: &[String]) -> Vec<Value> {
    let json = data.iter().filter(|data| *data != "[DONE]");
    json.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn weather() -> Value {
    json!({"type": "function", "function": {
        "name": "weather",
        "description": "Tells the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}
    }})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[tokio::test]
async fn a_conversation_is_answered_whole_and_stored_as_a_session() {
    let model = ScriptedModel::new().then(reply::using(reply::text("In Oslo."), 30, 4));
    let server = InProcess::of(model).await;
    let body = json!({
        "model": "neuraxis",
        "messages": [
            {"role": "system", "content": "Be brief."},
            user("I live in Oslo."),
            {"role": "assistant", "content": "Noted."},
            user("Where do I live?")
        ],
        "frequency_penalty": 0.5,
        "a_field_of_tomorrow": {"x": 1}
    });
    let (status, received) = post(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(status, 200, "{received}");
    assert_eq!(received["object"], "chat.completion");
    assert_eq!(received["model"], "neuraxis");
    assert!(
        received["created"].as_i64().unwrap() > 1_700_000_000,
        "{received}"
    );
    let choice = &received["choices"][0];
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["message"]["content"], "In Oslo.");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["message"].get("tool_calls"), None);
    let usage = &received["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(30), &json!(4))
    );
    assert_eq!(usage["total_tokens"], 34);

    let session = received["neuraxis"]["session_id"].as_str().unwrap();
    let (status, kept) = answer(server.client().get(&format!("/api/v1/sessions/{session}"))).await;
    assert_eq!(status, 200);
    let said: Vec<&str> = kept["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["role"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["user", "assistant", "user", "assistant"], "{kept}");
}

#[tokio::test]
async fn a_streamed_answer_arrives_in_pieces_with_reasoning_usage_and_an_end() {
    let thought = reply::using(reply::reasoned("Let me see.", "Forty-two."), 7, 5);
    let model = ScriptedModel::new().then(Script::from(thought).split(4));
    let server = InProcess::of(model).await;
    let body = json!({
        "model": "reasoning",
        "messages": [user("What is 6 × 7?")],
        "stream": true,
        "stream_options": {"include_usage": true}
    });
    let data = stream(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(data.last().unwrap(), "[DONE]");
    let chunks = parsed(&data);
    let text_of = |field: &str| -> String {
        let deltas = chunks
            .iter()
            .map(|chunk| chunk["choices"][0]["delta"][field].as_str());
        deltas.map(Option::unwrap_or_default).collect()
    };
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(text_of("content"), "Forty-two.");
    assert_eq!(text_of("reasoning_content"), "Let me see.");
    let finishes: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["finish_reason"])
        .filter(|reason| !reason.is_null())
        .collect();
    assert_eq!(finishes, ["stop"]);
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 12);
    assert!(chunks[0]["usage"].is_null());
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"]));
}

#[tokio::test]
async fn available_events_are_sent_in_one_chunk() {
    let server = InProcess::of(ScriptedModel::always(reply::text("Hello."))).await;
    for (path, body, first, last) in [
        (
            "/v1/chat/completions",
            json!({"messages": [user("Hello.")], "stream": true}),
            "\"finish_reason\":\"stop\"",
            "[DONE]",
        ),
        (
            "/v1/responses",
            json!({"input": "Hello.", "stream": true}),
            "response.output_text.done",
            "response.completed",
        ),
    ] {
        let body = body.to_string();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let piece = &answer[answer.find(first).unwrap()..answer.rfind(last).unwrap()];
        assert!(!piece.contains('\r'), "a chunk begins in {piece}");
    }
}

#[tokio::test]
async fn calls_of_client_tools_are_returned_and_server_tools_run_on_the_server() {
    let clock = ScriptedTool::echoing(spec("clock").read_only());
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::calls([("clock", "{}")]))
            .then(reply::text_and_calls(
                "I look.",
                [("weather", r#"{"city":"Oslo"}"#)],
            ))
            .then(reply::text("Three degrees.")),
    );
    let builder = builder(&model, "channels.chat.tools = ['clock']\n");
    let builder = builder.tools(vec![Arc::new(clock) as Arc<dyn Tool>]);
    let server = InProcess::serve(builder.build().unwrap()).await;
    let mut body = json!({"model": "neuraxis", "messages": [user("Coat?")], "tools": [weather()]});
    let (status, first) = post(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(status, 200, "{first}");
    let choice = &first["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{first}");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["type"], "function");
    assert_eq!(call["function"]["name"], "weather");
    assert_eq!(call["function"]["arguments"], r#"{"city":"Oslo"}"#);

    let said = body["messages"].as_array_mut().unwrap();
    said.push(choice["message"].clone());
    said.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "3 degrees"}));
    let (status, second) = post(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(
        (status, &second["choices"][0]["message"]["content"]),
        (200, &json!("Three degrees.")),
        "{second}"
    );
    assert_eq!(
        first["neuraxis"]["session_id"],
        second["neuraxis"]["session_id"]
    );
    // The result of the server's own tool is still known, although the client never saw it.
    let last = &model.requests()[2];
    let calls: Vec<String> = last
        .messages
        .messages()
        .iter()
        .flat_map(|message| message.tool_calls())
        .map(|call| call.name.to_string())
        .collect();
    assert_eq!(calls, ["clock", "weather"]);

    let streamed = json!({"messages": [user("Coat?")], "tools": [weather()], "stream": true});
    model.push(reply::calls([("weather", r#"{"city":"Rome"}"#)]));
    let chunks = parsed(&stream(&server.client(), "/v1/chat/completions", &streamed).await);
    let with_call = chunks
        .iter()
        .find(|chunk| chunk["choices"][0]["delta"].get("tool_calls").is_some());
    let call = &with_call.unwrap()["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(
        (&call["index"], &call["function"]["name"]),
        (&json!(0), &json!("weather"))
    );
    assert_eq!(
        chunks.last().unwrap()["choices"][0]["finish_reason"],
        "tool_calls"
    );
}

#[tokio::test]
async fn an_answer_with_a_schema_is_json_that_fits_it() {
    let model = ScriptedModel::new()
        .then(reply::text(r#"{"n": 42}"#))
        .then(reply::text(r#"{"n": 43}"#));
    let server = InProcess::of(model).await;
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "Count", "schema": schema, "strict": true}});
    let mut body =
        json!({"messages": [user("How many?")], "response_format": format, "tool_choice": "none"});
    let (status, answer) = post(&server.client(), "/v1/chat/completions", &body).await;
    let content = answer["choices"][0]["message"]["content"].as_str();
    let content: Value =
        serde_json::from_str(content.unwrap_or_else(|| panic!("{status} {answer}"))).unwrap();
    assert_eq!(content, json!({"n": 42}));
    body["stream"] = json!(true);
    let chunks = parsed(&stream(&server.client(), "/v1/chat/completions", &body).await);
    let text: String = chunks
        .iter()
        .filter_map(|it| it["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({"n": 43})
    );
}

#[tokio::test]
async fn text_next_to_tool_calls_is_not_sent_as_a_formatted_answer() {
    let form = json!({"type": "json_object"});
    for (path, mut body) in [
        (
            "/v1/chat/completions",
            json!({"messages": [user("Coat?")], "tools": [weather()], "response_format": form}),
        ),
        (
            "/v1/responses",
            json!({"input": "Coat?", "tools": [weather()], "text": {"format": form}}),
        ),
    ] {
        let looks = reply::text_and_calls("I look.", [("weather", r#"{"city":"Oslo"}"#)]);
        let model = Arc::new(ScriptedModel::always(looks));
        let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
        let client = server.client();
        let (status, whole) = post(&client, path, &body).await;
        assert_eq!(status, 200, "{whole}");
        body["stream"] = json!(true);
        let streamed = stream(&client, path, &body).await.concat();
        for received in [whole.to_string(), streamed] {
            assert!(
                received.contains(r#""finish_reason":"client_tools""#),
                "{received}"
            );
            assert!(!received.contains("I look."), "{received}");
            assert!(received.contains("Oslo"), "{received}");
        }
    }
}

#[tokio::test]
async fn a_client_that_forbids_tools_receives_no_call_and_an_answer_in_its_format() {
    for form in [false, true] {
        let model = ScriptedModel::new()
            .then(reply::calls([("weather", r#"{"city":"Oslo"}"#)]))
            .then(reply::text(r#"{"n": 3}"#));
        let model = Arc::new(model);
        let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
        let mut body =
            json!({"messages": [user("Coat?")], "tools": [weather()], "tool_choice": "none"});
        if form {
            let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
            let named = json!({"name": "Count", "schema": schema});
            body["response_format"] = json!({"type": "json_schema", "json_schema": named});
        }
        let (status, received) = post(&server.client(), "/v1/chat/completions", &body).await;
        let choice = &received["choices"][0];
        assert_eq!(
            (status, &choice["finish_reason"]),
            (200, &json!("stop")),
            "{received}"
        );
        assert_eq!(choice["message"].get("tool_calls"), None, "{received}");
        let content = choice["message"]["content"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(content).unwrap(),
            json!({"n": 3})
        );
        let requests = model.requests();
        assert_eq!(requests.len(), 2);
        for request in requests {
            assert_eq!(request.tool_choice, ToolChoice::None);
            assert_eq!(request.reply_format.is_text(), !form);
        }
    }
}

/// Posts invalid bodies, and checks how each is refused: status, code and field.
async fn assert_refused<const N: usize>(path: &str, wrong: [(Value, u16, &str, Value); N]) {
    let server = InProcess::of(ScriptedModel::new()).await;
    for (body, status, code, param) in wrong {
        let (got, answer) = post(&server.client(), path, &body).await;
        let error = &answer["error"];
        let received = (got, &error["code"], &error["param"]);
        assert_eq!(received, (status, &json!(code), &param), "{body} {answer}");
        assert!(error["message"].as_str().unwrap().len() > 5, "{answer}");
        let kind = error["type"].as_str().unwrap();
        assert!(kind.ends_with("_error"), "{answer}");
    }
}

#[tokio::test]
async fn chat_errors_are_reported_as_openai_clients_expect() {
    let with = |field: &str, value: Value| {
        let mut body = json!({"messages": [user("hi")]});
        body[field] = value;
        body
    };
    let search = json!([{"type": "web_search"}]);
    let twice = json!([weather(), weather()]);
    let own = json!({"mode": "exploratory"});
    let robot = json!([{"role": "robot"}]);
    assert_refused(
        "/v1/chat/completions",
        [
            (
                with("model", json!("gpt-4o")),
                404,
                "no_such_model",
                json!("model"),
            ),
            (
                with("messages", json!([])),
                400,
                "invalid_field",
                json!("messages"),
            ),
            (json!({}), 400, "invalid_field", Value::Null),
            (
                with("messages", robot),
                400,
                "invalid_field",
                json!("messages[0].role"),
            ),
            (with("n", json!(2)), 400, "invalid_field", json!("n")),
            (
                with("tools", search),
                400,
                "invalid_field",
                json!("tools[0].type"),
            ),
            (with("tools", twice), 400, "invalid_field", json!("tools")),
            (
                with("neuraxis", own),
                403,
                "mode_not_allowed",
                json!("neuraxis.mode"),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn response_and_address_errors_are_reported_as_openai_clients_expect() {
    let previous = json!({"input": "hi", "previous_response_id": "resp_1"});
    let item = json!({"input": [{"type": "computer_call"}]});
    assert_refused(
        "/v1/responses",
        [
            (
                previous,
                400,
                "invalid_field",
                json!("previous_response_id"),
            ),
            (item, 400, "invalid_field", json!("input[0].type")),
        ],
    )
    .await;
    assert_refused("/v1/nothing", [(json!({}), 404, "not_found", Value::Null)]).await;
    let server = InProcess::of(ScriptedModel::new()).await;
    let client = server.client();
    let (_, wrong) = post(&client, "/v1/embeddings", &json!({})).await;
    let message = wrong["error"]["message"].as_str().unwrap();
    let there = "/v1/chat/completions, /v1/responses and /v1/models";
    assert!(message.ends_with(there), "{message}");
    let (status, wrong) = answer(client.get("/v1/chat/completions")).await;
    assert_eq!(
        (status, &wrong["error"]["code"]),
        (405, &json!("method_not_allowed"))
    );
    for (path, code) in [
        ("responses/resp_1", "no_such_response"),
        ("responses/%FF", "no_such_response"),
        ("models/%FF", "no_such_model"),
    ] {
        let (status, wrong) = answer(client.get(&format!("/v1/{path}"))).await;
        let received = (status, &wrong["error"]["code"]);
        assert_eq!(received, (404, &json!(code)), "{path}: {wrong}");
    }
}

#[tokio::test]
async fn a_failed_run_is_an_error_that_clients_do_not_retry_automatically() {
    let refused = LlmError::new(LlmErrorKind::Unauthorized, "wrong key");
    let model = ScriptedModel::always(refused);
    let server = InProcess::of(model).await;
    let body = json!({"messages": [user("hi")]});
    let response = request(&server.client(), "/v1/chat/completions", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 500);
    assert_eq!(response.headers()["x-should-retry"], "false");
    let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(answer["error"]["type"], "server_error", "{answer}");
    assert_eq!(answer["error"]["code"], "failed");
    let streamed = json!({"messages": [user("hi")], "stream": true});
    let data = stream(&server.client(), "/v1/chat/completions", &streamed).await;
    let last: Value = serde_json::from_str(data.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "failed", "{last}");
    let events = parsed(
        &stream(
            &server.client(),
            "/v1/responses",
            &json!({"input": "hi", "stream": true}),
        )
        .await,
    );
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["error"]["code"]),
        (&json!("response.failed"), &json!("failed"))
    );
    // Some clients raise what is in the object, and others read the fields.
    let error = &events[events.len() - 2];
    assert_eq!(error["type"], "error", "{error}");
    assert_eq!(error["error"]["type"], "server_error", "{error}");
    for field in ["message", "code", "param", "neuraxis"] {
        assert_eq!(error["error"][field], error[field], "{field}: {error}");
    }
    assert_eq!(
        (&error["code"], &error["neuraxis"]["status"]),
        (&json!("failed"), &json!("failed"))
    );
}

#[tokio::test]
async fn a_client_that_disconnects_ends_the_run() {
    let model = ScriptedModel::always(Script::hanging());
    let server = InProcess::of(model).await;
    let status = async || {
        let (_, runs) = answer(server.client().get("/api/v1/runs?limit=1")).await;
        runs["runs"][0]["status"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for stream in [false, true] {
        let body = json!({"messages": [user("Wait.")], "stream": stream});
        let asking = request(&server.client(), "/v1/chat/completions", &body);
        let asking = tokio::spawn(async move {
            let mut response = asking.send().await?;
            while response.chunk().await?.is_some() {}
            Ok::<_, reqwest::Error>(())
        });
        while status().await != "running" {
            tokio::task::yield_now().await;
        }
        asking.abort();
        while status().await == "running" {
            tokio::task::yield_now().await;
        }
        assert_eq!(status().await, "interrupted");
    }
}

#[tokio::test]
async fn agents_and_roles_are_listed_as_models() {
    let server = InProcess::of(ScriptedModel::new()).await;
    let (status, models) = answer(server.client().get("/v1/models")).await;
    assert_eq!((status, &models["object"]), (200, &json!("list")));
    let ids: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    for expected in ["neuraxis", "main_thread", "deep_research", "reasoning"] {
        assert!(ids.contains(&expected), "{ids:?}");
    }
    let (status, model) = answer(server.client().get("/v1/models/reasoning")).await;
    assert_eq!((status, &model["object"]), (200, &json!("model")));
    let (status, missing) = answer(server.client().get("/v1/models/gpt-4o")).await;
    assert_eq!(
        (status, &missing["error"]["code"]),
        (404, &json!("no_such_model"))
    );
}

#[tokio::test]
async fn a_response_is_returned_whole_continued_by_its_id_and_retrieved_again() {
    let model = Arc::new(
        ScriptedModel::new()
            .then(reply::text("Noted."))
            .then(reply::calls([("weather", r#"{"city":"Oslo"}"#)]))
            .then(reply::text("Three degrees.")),
    );
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let first =
        json!({"model": "neuraxis", "input": "I live in Oslo.", "instructions": "Be brief."});
    let (status, first) = post(&client, "/v1/responses", &first).await;
    assert_eq!(
        (status, &first["status"]),
        (200, &json!("completed")),
        "{first}"
    );
    assert_eq!(first["output"][0]["content"][0]["text"], "Noted.");
    assert_eq!(first["output"][0]["role"], "assistant");

    let flat = json!({"type": "function", "name": "weather", "parameters": weather()["function"]["parameters"], "strict": true});
    let second = json!({"input": "Coat?", "previous_response_id": first["id"], "tools": [flat]});
    let (status, second) = post(&client, "/v1/responses", &second).await;
    assert_eq!(status, 200, "{second}");
    let call = &second["output"][0];
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("weather")),
        "{second}"
    );
    let sent: Vec<String> = model.requests()[1].messages.messages()[1..]
        .iter()
        .map(|it| it.text())
        .collect();
    assert_eq!(sent, ["I live in Oslo.", "Noted.", "Coat?"]);

    let output =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "3 degrees"});
    let third = json!({"input": [output], "previous_response_id": second["id"], "stream": true});
    let events = parsed(&stream(&client, "/v1/responses", &third).await);
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at);
    }
    let done = &events.last().unwrap()["response"];
    assert_eq!(done["output"][0]["content"][0]["text"], "Three degrees.");

    let id = done["id"].as_str().unwrap();
    let (status, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!((status, &again["status"]), (200, &json!("completed")));
    assert_eq!(again["output"][0]["content"][0]["text"], "Three degrees.");
    // Only the last response of a conversation can be continued.
    let back = json!({"input": "And?", "previous_response_id": first["id"]});
    let (status, refused) = post(&client, "/v1/responses", &back).await;
    assert_eq!(
        (status, &refused["error"]["param"]),
        (400, &json!("previous_response_id"))
    );
}
