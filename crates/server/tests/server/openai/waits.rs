//! A run that waits for a user. OpenAI's API has no field for that, so the answer says it in a sentence; for a client
//! that requested a structured answer, it is a refusal, which the client does not parse as JSON.

use std::sync::Arc;

use neuraxis::core::ReplyFinish;
use neuraxis::engine::DecideLater;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::Tool;
use neuraxis::tools::ask_user;
use neuraxis::{Orchestrator, Role};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use super::items::last_messages;
use super::{builder, parsed, post, stream, user, weather};
use crate::support::client::answer;
use crate::support::in_process::{InProcess, TOKEN};

/// A server whose model requests a refund that needs a user's approval.
async fn asking() -> (InProcess, Arc<ScriptedTool>) {
    let wants = reply::text_and_calls("I refund it.", [("refund", r#"{"order":17}"#)]);
    let model = ScriptedModel::new()
        .then(wants)
        .then(reply::text("Done."))
        .then(reply::text("You are welcome."));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::clone(&tool) as Arc<dyn Tool>)
        .approver(Arc::new(DecideLater))
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    (InProcess::serve(orchestrator).await, tool)
}

/// Checks that a text says what waits and who decides, with no address that its reader cannot use, and decides it using
/// the accompanying data: the run resumes.
async fn assert_told(server: &InProcess, tool: &ScriptedTool, text: &str, place: &Value) {
    let run = place["run_id"].as_str().unwrap();
    for part in [
        "refund {\"order\":17}",
        "approval",
        run,
        "Nothing of this runs until someone who may approve calls has decided",
        "on the server's page",
        "ask the operator",
        place["session_id"].as_str().unwrap(),
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("neuraxis approvals"), "{text}");
    assert!(!text.contains("/api/"), "{text}");
    assert_eq!(place["status"], "waiting", "{place}");
    let waiting = &place["pending"][0];
    assert_eq!(
        (&waiting["name"], &waiting["kind"]),
        (&json!("refund"), &json!("approval"))
    );
    assert_eq!(tool.count(), 0);
    let client = server.client();
    let frames = client
        .events(client.get(&format!("/api/v1/runs/{run}/events")))
        .await;
    let call = waiting["tool_call_id"].as_str().unwrap();
    let decide = client
        .post(&format!("/api/v1/runs/{run}/approvals/{call}"))
        .header("content-type", "application/json")
        .bearer_auth(TOKEN)
        .body(json!({"decision": "approve", "question": waiting["question"]}).to_string());
    assert_eq!(answer(decide).await.0, 202, "the client left it waiting");
    assert_eq!(frames.rest().await.last().unwrap().event, "final");
    assert_eq!(tool.count(), 1);
}

#[tokio::test]
async fn a_chat_waiting_for_approval_names_the_call_and_who_decides_about_it() {
    let (server, tool) = asking().await;
    let body = json!({"messages": [user("Refund order 17.")]});
    let (status, received) = post(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(status, 200, "{received}");
    let choice = &received["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    let text = choice["message"]["content"].as_str().unwrap();
    assert!(text.starts_with("I refund it.\n\nWaiting for"), "{text}");
    assert_told(&server, &tool, text, &received["neuraxis"]).await;
}

#[tokio::test]
async fn a_waiting_chat_with_client_tools_names_where_their_calls_are_after_the_decision() {
    let calls = reply::calls([("weather", "{}"), ("refund", r#"{"order":17}"#)]);
    let model = Arc::new(ScriptedModel::new().then(calls).then(reply::text("Sunny.")));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let builder = builder(&model, "").tool(Arc::clone(&tool) as Arc<dyn Tool>);
    let builder = builder.approver(Arc::new(DecideLater));
    let server = InProcess::serve(builder.build().unwrap()).await;
    let client = server.client();
    let mut body = json!({
        "messages": [user("Refund order 17. Coat?")],
        "tools": [weather()],
        "neuraxis": {"session": "mine"},
    });
    let path = "/v1/chat/completions";
    let (_, received) = post(&client, path, &body).await;
    let text = received["choices"][0]["message"]["content"]
        .as_str()
        .unwrap();
    let run = received["neuraxis"]["run_id"].as_str().unwrap();
    let place = format!("/v1/responses/resp_{run}");
    assert!(text.contains(&place), "{text}");
    assert_told(&server, &tool, text, &received["neuraxis"]).await;
    let (_, response) = answer(client.get(&place)).await;
    let output = response["output"].as_array().unwrap();
    let call = output.iter().find(|item| item["type"] == "function_call");
    let id = &call.unwrap()["call_id"];
    body["messages"] = json!([{"role": "tool", "tool_call_id": id, "content": "sun"}]);
    let (status, answered) = post(&client, path, &body).await;
    assert_eq!(status, 200, "{answered}");
    assert_eq!(answered["choices"][0]["message"]["content"], "Sunny.");
}

#[tokio::test]
async fn a_streamed_chat_that_waits_reports_it_after_the_text_of_the_model() {
    let (server, tool) = asking().await;
    let body = json!({"messages": [user("Refund order 17.")], "stream": true});
    let data = stream(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(data.last().unwrap(), "[DONE]");
    let chunks = parsed(&data);
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert!(text.starts_with("I refund it.\n\nWaiting for"), "{text}");
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_told(&server, &tool, &text, &last["neuraxis"]).await;
}

#[tokio::test]
async fn a_waiting_response_reports_it_streamed_or_not_and_when_retrieved() {
    let body = json!({"input": "Refund order 17."});
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    for body in [body, streamed] {
        let (server, tool) = asking().await;
        let client = server.client();
        let response = match body.get("stream") {
            None => post(&client, "/v1/responses", &body).await.1,
            Some(_) => {
                let last = parsed(&stream(&client, "/v1/responses", &body).await).pop();
                let mut last = last.unwrap();
                assert_eq!(last["type"], "response.completed");
                last["response"].take()
            }
        };
        assert_eq!(response["status"], "completed", "{response}");
        let texts: Vec<&str> = response["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["content"][0]["text"].as_str().unwrap())
            .collect();
        assert_eq!((texts.len(), texts[0]), (2, "I refund it."), "{response}");
        assert!(texts[1].starts_with("\n\nWaiting for"), "{response}");
        let id = response["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(again["output"], response["output"]);
        assert_eq!(again["neuraxis"], response["neuraxis"]);
        assert_told(&server, &tool, texts[1], &response["neuraxis"]).await;
        let (_, after) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert!(after["output"].to_string().contains("Done."), "{after}");
        assert_eq!(after["neuraxis"]["status"], "done");
    }
}

#[tokio::test]
async fn the_notice_of_a_waiting_response_may_be_referenced_after_the_decision() {
    let (server, tool) = asking().await;
    let client = server.client();
    let body = json!({"input": "Refund order 17."});
    let (_, response) = post(&client, "/v1/responses", &body).await;
    assert_eq!(response["metadata"]["run_status"], "waiting");
    let output = response["output"].as_array().unwrap();
    let notice = output[1]["content"][0]["text"].as_str().unwrap();
    assert_told(&server, &tool, notice, &response["neuraxis"]).await;
    let named = |item: &Value| json!({"type": "item_reference", "id": item["id"]});
    let mut items = vec![user("Refund order 17.")];
    items.extend(output.iter().map(named));
    items.push(user("Thank you."));
    let (status, received) = post(&client, "/v1/responses", &json!({"input": items})).await;
    assert_eq!(status, 200, "{received}");
}

#[tokio::test]
async fn continuing_a_waiting_response_names_where_to_see_and_cancel_its_run() {
    let (server, tool) = asking().await;
    let client = server.client();
    let body = json!({"input": "Refund order 17."});
    let (_, response) = post(&client, "/v1/responses", &body).await;
    let body = json!({"input": "Well?", "previous_response_id": response["id"]});
    let (status, busy) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 409, "{busy}");
    assert_eq!(busy["error"]["code"], "session_busy");
    let place = &response["neuraxis"];
    let run = place["run_id"].as_str().unwrap();
    let message = busy["error"]["message"].as_str().unwrap();
    let said = format!("/api/v1/runs/{run} says what it is waiting for, if anything");
    assert!(message.contains(&said), "{message}");
    let ends = format!("/api/v1/runs/{run}/cancel");
    assert!(message.contains(&ends), "{message}");
    let (status, _) = answer(client.post(&ends)).await;
    assert_eq!((status, tool.count()), (202, 0));
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

#[tokio::test]
async fn a_formatted_chat_that_waits_is_a_refusal_streamed_or_not() {
    let form = json!({"type": "json_schema", "json_schema": {"name": "Count", "schema": schema()}});
    let path = "/v1/chat/completions";
    for is_stream in [false, true] {
        let (server, tool) = asking().await;
        let client = server.client();
        let body = json!({"messages": [user("Refund order 17.")], "response_format": form, "stream": is_stream});
        let (pieces, last): (Vec<Value>, Value) = if is_stream {
            let mut chunks = parsed(&stream(&client, path, &body).await);
            let delta = |chunk: &Value| chunk["choices"][0]["delta"].clone();
            (chunks.iter().map(delta).collect(), chunks.pop().unwrap())
        } else {
            let (status, whole) = post(&client, path, &body).await;
            assert_eq!(status, 200, "{whole}");
            (vec![whole["choices"][0]["message"].clone()], whole)
        };
        let text = |field: &str| -> String {
            let texts = pieces.iter().filter_map(|piece| piece[field].as_str());
            texts.collect()
        };
        assert_eq!(text("content"), "");
        let why = text("refusal");
        assert!(
            why.starts_with("Waiting for approval of the call refund"),
            "{why}"
        );
        assert_eq!(last["choices"][0]["finish_reason"], "stop");
        assert_eq!(last["neuraxis"]["status"], "waiting");
        assert_eq!(tool.count(), 0);
    }
}

#[tokio::test]
async fn a_formatted_response_that_waits_is_a_refusal_and_again_when_retrieved() {
    let form = json!({"type": "json_schema", "name": "Count", "schema": schema()});
    for is_stream in [false, true] {
        let (server, _tool) = asking().await;
        let client = server.client();
        let body =
            json!({"input": "Refund order 17.", "text": {"format": form}, "stream": is_stream});
        let response = if is_stream {
            let events = parsed(&stream(&client, "/v1/responses", &body).await);
            let of_kind = |kind: &str| events.iter().find(|event| event["type"] == *kind);
            let (delta, done) = (
                of_kind("response.refusal.delta"),
                of_kind("response.refusal.done"),
            );
            assert_eq!(delta.unwrap()["delta"], done.unwrap()["refusal"]);
            assert_eq!(of_kind("response.output_text.delta"), None);
            events.last().unwrap()["response"].clone()
        } else {
            post(&client, "/v1/responses", &body).await.1
        };
        let output = response["output"].as_array().unwrap();
        assert_eq!(output.len(), 1, "{response}");
        let part = &output[0]["content"][0];
        assert_eq!(part["type"], "refusal", "{part}");
        let why = part["refusal"].as_str().unwrap();
        assert!(why.contains("refund {\"order\":17}"), "{why}");
        let id = response["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(again["output"], response["output"]);
    }
}

#[tokio::test]
async fn a_question_instead_of_a_formatted_answer_is_a_refusal_that_may_be_sent_back() {
    let asks = reply::calls([("ask_user", r#"{"question":"Which order?"}"#)]);
    let model = ScriptedModel::new().then(asks).then(reply::text("Noted."));
    let model = Arc::new(model);
    let builder = builder(&model, "channels.chat.tools = ['ask_user']\n");
    let builder = builder.tools(vec![ask_user().unwrap()]);
    let server = InProcess::serve(builder.build().unwrap()).await;
    let client = server.client();
    let path = "/v1/chat/completions";
    let form = json!({"type": "json_schema", "json_schema": {"name": "Count", "schema": schema()}});
    let body = json!({"messages": [user("How many?")], "response_format": form});
    let (status, asked) = post(&client, path, &body).await;
    assert_eq!(status, 200, "{asked}");
    let message = &asked["choices"][0]["message"];
    let said = (&message["content"], &message["refusal"]);
    assert_eq!(said, (&Value::Null, &json!("Which order?")), "{asked}");
    assert_eq!(asked["neuraxis"]["finish_reason"], "clarify");

    let body = json!({"messages": [user("How many?"), message, user("The last.")]});
    let (status, noted) = post(&client, path, &body).await;
    assert_eq!(status, 200, "{noted}");
    assert_eq!(
        last_messages(&model),
        ["How many?", "Which order?", "The last."]
    );
}

#[tokio::test]
async fn a_question_next_to_calls_is_a_refusal_when_a_format_was_requested() {
    let calls = [
        ("ask_user", r#"{"question":"Which town?"}"#),
        ("weather", "{}"),
    ];
    let model = ScriptedModel::always(reply::text_and_calls("Let me see.", calls));
    let builder = builder(&Arc::new(model), "channels.chat.tools = ['ask_user']\n");
    let builder = builder.tools(vec![ask_user().unwrap()]);
    let server = InProcess::serve(builder.build().unwrap()).await;
    let client = server.client();
    let path = "/v1/chat/completions";
    let form = json!({"type": "json_schema", "json_schema": {"name": "Count", "schema": schema()}});
    let mut body =
        json!({"messages": [user("Coat?")], "tools": [weather()], "response_format": form});
    let (_, chat) = post(&client, path, &body).await;
    let message = &chat["choices"][0]["message"];
    let said = (&message["content"], &message["refusal"]);
    assert_eq!(said, (&Value::Null, &json!("Which town?")), "{chat}");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "weather");
    body["stream"] = json!(true);
    let chunks = parsed(&stream(&client, path, &body).await);
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let refused = deltas.filter_map(|delta| delta["refusal"].as_str());
    assert_eq!(refused.collect::<String>(), "Which town?");

    let tool = json!({"type": "function", "name": "weather", "parameters": {"type": "object"}});
    let form = json!({"type": "json_schema", "name": "Count", "schema": schema()});
    let body = json!({"input": "Coat?", "tools": [tool], "text": {"format": form}});
    let (_, response) = post(&client, "/v1/responses", &body).await;
    let output = &response["output"];
    assert_eq!(
        output[0]["content"][0]["refusal"], "Which town?",
        "{response}"
    );
    assert_eq!(output[1]["name"], "weather", "{response}");
    let id = response["id"].as_str().unwrap();
    let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(again["output"], *output);
}

#[tokio::test]
async fn anything_instead_of_a_required_client_call_is_a_refusal_streamed_or_not() {
    let refund = || reply::calls([("refund", r#"{"order":17}"#)]);
    let asks = reply::calls([("ask_user", r#"{"question":"Which town?"}"#)]);
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let waits = "Waiting for approval of the call refund";
    for (choice, reply, why, is_refusal) in [
        (json!("required"), refund(), waits, true),
        (named("weather"), refund(), waits, true),
        (json!("required"), asks, "Which town?", true),
        (named("refund"), refund(), waits, false),
    ] {
        let model = Arc::new(ScriptedModel::always(reply));
        let builder = builder(&model, "channels.chat.tools = ['ask_user', 'refund']\n");
        let refunds = Arc::new(ScriptedTool::echoing(spec("refund")));
        let builder = builder.tool(ask_user().unwrap()).tool(refunds);
        let builder = builder.approver(Arc::new(DecideLater));
        let server = InProcess::serve(builder.build().unwrap()).await;
        let client = server.client();
        for (path, said) in [
            ("/v1/chat/completions", "messages"),
            ("/v1/responses", "input"),
        ] {
            let mut body = json!({"tools": [weather()], "tool_choice": choice});
            body[said] = json!([user("Coat?")]);
            let (status, whole) = post(&client, path, &body).await;
            assert_eq!(status, 200, "{whole}");
            body["stream"] = json!(true);
            let streamed = stream(&client, path, &body).await.concat();
            for received in [whole.to_string(), streamed] {
                let refused = received.contains(&format!(r#""refusal":"{why}"#));
                assert_eq!(refused, is_refusal, "{choice}: {received}");
                let content = received.contains(&format!(r#""content":"{why}"#));
                let is_text = content || received.contains("output_text");
                assert_eq!(is_text, !is_refusal, "{choice}: {received}");
            }
        }
    }
}

#[tokio::test]
async fn a_question_next_to_client_tool_calls_is_sent_with_them() {
    let question = ("ask_user", r#"{"question":"Which town?"}"#);
    for calls in [[question, ("weather", "{}")], [("weather", "{}"), question]] {
        let model = ScriptedModel::always(reply::text_and_calls("Let me see.", calls));
        let builder = builder(&Arc::new(model), "channels.chat.tools = ['ask_user']\n");
        let builder = builder.tools(vec![ask_user().unwrap()]);
        let server = InProcess::serve(builder.build().unwrap()).await;
        let client = server.client();
        let path = "/v1/chat/completions";
        let mut body = json!({"messages": [user("Coat?")], "tools": [weather()]});
        let (_, chat) = post(&client, path, &body).await;
        let choice = &chat["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{chat}");
        assert_eq!(
            choice["message"]["tool_calls"][0]["function"]["name"],
            "weather"
        );
        let expected = "Let me see.\n\nWhich town?";
        assert_eq!(choice["message"]["content"], expected);
        body["stream"] = json!(true);
        let chunks = parsed(&stream(&client, path, &body).await);
        let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
        let said: String = deltas
            .filter_map(|delta| delta["content"].as_str())
            .collect();
        assert_eq!(said, expected);

        let tool = json!({"type": "function", "name": "weather", "parameters": {"type": "object"}});
        let body = json!({"input": "Coat?", "tools": [tool]});
        let (_, response) = post(&client, "/v1/responses", &body).await;
        let id = response["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(again["output"], response["output"]);
        let items = response["output"].as_array().unwrap().iter();
        let texts = items.filter_map(|item| item["content"][0]["text"].as_str());
        assert_eq!(texts.collect::<String>(), expected, "{response}");
    }
}

#[tokio::test]
async fn a_model_refusal_of_a_formatted_answer_ends_as_at_openai() {
    let mut refusal = reply::text("I will not.");
    refusal.finish = ReplyFinish::Refused;
    let model = Arc::new(ScriptedModel::new().then(refusal.clone()).then(refusal));
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let form = json!({"type": "json_schema", "json_schema": {"name": "Count", "schema": schema()}});
    let body = json!({"messages": [user("How many?")], "response_format": form});
    let (_, chat) = post(&client, "/v1/chat/completions", &body).await;
    let choice = &chat["choices"][0];
    assert_eq!(choice["message"]["refusal"], "I will not.", "{chat}");
    assert_eq!(choice["finish_reason"], "stop");

    let form = json!({"type": "json_schema", "name": "Count", "schema": schema()});
    let body = json!({"input": "How many?", "text": {"format": form}});
    let (_, response) = post(&client, "/v1/responses", &body).await;
    assert_eq!(response["status"], "completed", "{response}");
    let part = &response["output"][0]["content"][0];
    assert_eq!(part["refusal"], "I will not.");
}

#[tokio::test]
async fn text_before_a_limit_is_not_a_refusal_of_a_formatted_answer() {
    let calls = || reply::text_and_calls("I look.", [("clock", "{}")]);
    let model = ScriptedModel::new()
        .then(calls())
        .then(calls())
        .then(reply::text("No."));
    let tool = Arc::new(ScriptedTool::echoing(spec("clock")));
    let policy = "modes.moderate.max_turns = 1\nchannels.chat.tools = ['clock']\n";
    let builder = builder(&Arc::new(model), policy).tool(tool as Arc<dyn Tool>);
    let server = InProcess::serve(builder.build().unwrap()).await;
    let form = json!({"type": "json_schema", "json_schema": {"name": "Count", "schema": schema()}});
    let body = json!({"messages": [user("How many?")], "response_format": form});
    let (_, chat) = post(&server.client(), "/v1/chat/completions", &body).await;
    let choice = &chat["choices"][0];
    assert_eq!(choice["finish_reason"], "length", "{chat}");
    assert_eq!(choice["message"]["refusal"], Value::Null);
}
