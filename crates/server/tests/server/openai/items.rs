//! The items of a conversation, in the various orders in which clients send them.

use std::sync::Arc;

use neuraxis::engine::DecideLater;
use neuraxis::ports::Tool;
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use super::{assert_refused, builder, post, user};
use crate::support::in_process::InProcess;

/// A server whose model calls two tools of the client in one reply, and answers once it has their results.
async fn calling() -> (InProcess, Arc<ScriptedModel>) {
    calling_under("").await
}

/// The same, with additions to the policy.
async fn calling_under(policy: &str) -> (InProcess, Arc<ScriptedModel>) {
    let calls = [
        ("weather", r#"{"city":"Oslo"}"#),
        ("news", r#"{"city":"Rome"}"#),
    ];
    let model = ScriptedModel::new()
        .then(reply::calls(calls))
        .then(reply::text("Take a coat."));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, policy).build().unwrap()).await;
    (server, model)
}

fn tools() -> Value {
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        json!({"type": "function", "name": name, "parameters": parameters})
    };
    json!([tool("weather"), tool("news")])
}

/// Returns the two calls of a response, and the items with their results.
fn answered(response: &Value) -> [Value; 4] {
    let output = |call: &Value, text: &str| json!({"type": "function_call_output", "call_id": call["call_id"], "output": text});
    let (weather, news) = (&response["output"][0], &response["output"][1]);
    assert_eq!(
        (&weather["name"], &news["name"]),
        (&json!("weather"), &json!("news")),
        "{response}"
    );
    [
        weather.clone(),
        output(weather, "3 degrees"),
        news.clone(),
        output(news, "sunny"),
    ]
}

/// Returns the last messages to the model, without the instructions.
pub(super) fn last_messages(model: &ScriptedModel) -> Vec<String> {
    let requests = model.requests();
    let messages = requests.last().unwrap().messages.messages();
    messages[1..].iter().map(|message| message.text()).collect()
}

#[tokio::test]
async fn results_that_follow_their_calls_are_all_accepted() {
    let (server, model) = calling().await;
    let client = server.client();
    let mut body = json!({"input": [user("Coat?")], "tools": tools()});
    let (_, first) = post(&client, "/v1/responses", &body).await;
    body["input"]
        .as_array_mut()
        .unwrap()
        .extend(answered(&first));
    let (status, second) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{second}");
    let session = |response: &Value| response["metadata"]["session_id"].clone();
    assert_eq!(session(&first), session(&second));
    assert_eq!(
        last_messages(&model),
        ["Coat?", "", "\"3 degrees\"", "\"sunny\""]
    );
}

#[tokio::test]
async fn incomplete_results_of_an_answer_are_refused_with_the_missing_calls() {
    let (server, model) = calling().await;
    let client = server.client();
    let body = json!({"input": [user("Coat?")], "tools": tools()});
    let (_, first) = post(&client, "/v1/responses", &body).await;
    let [weather, degrees, news, sunny] = answered(&first);
    for (input, previous) in [
        (json!([degrees]), &first["id"]),
        (json!([weather, degrees, user("And?")]), &first["id"]),
        (json!([degrees]), &Value::Null),
        (json!([user("Coat?"), weather, news, degrees]), &Value::Null),
    ] {
        let body = json!({"input": input, "previous_response_id": previous, "tools": tools()});
        let (status, received) = post(&client, "/v1/responses", &body).await;
        let error = &received["error"];
        assert_eq!(
            (status, &error["param"]),
            (400, &json!("input")),
            "{received}"
        );
        let message = error["message"].as_str().unwrap();
        let missing = news["call_id"].as_str().unwrap();
        assert!(message.ends_with(&format!(": {missing}")), "{message}");
    }
    assert_eq!(model.requests().len(), 1);
    let body = json!({"input": [sunny, degrees], "previous_response_id": first["id"]});
    let (status, received) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{received}");
}

#[tokio::test]
async fn a_user_message_may_follow_calls_without_all_their_results() {
    let model = ScriptedModel::always(reply::text("Yes."));
    let server = InProcess::of(model).await;
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let called = json!({"role": "assistant", "tool_calls": [call("a"), call("b")]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "3"});
    let answer = json!({"role": "assistant", "content": "Three."});
    for messages in [
        json!([user("hi"), called, user("Never mind.")]),
        json!([user("hi"), called, result, answer, user("And?")]),
        json!([user("hi"), called, result, answer, called, user("Stop.")]),
    ] {
        let body = json!({"messages": messages});
        let (status, received) = post(&server.client(), "/v1/chat/completions", &body).await;
        assert_eq!(status, 200, "{received}");
    }
}

#[tokio::test]
async fn a_whole_conversation_is_sent_as_received_when_its_session_stores_only_hashes() {
    for (kept_out, goes_on) in [
        ("text", false),
        ("tool_calls", false),
        ("tool_results", false),
        ("reasoning", true),
    ] {
        let policy = format!("channels.chat.data.{kept_out} = false\n");
        let (server, model) = calling_under(&policy).await;
        let client = server.client();
        let mut body = json!({"input": [user("Coat?")], "tools": tools()});
        let (_, first) = post(&client, "/v1/responses", &body).await;
        let items = body["input"].as_array_mut().unwrap();
        items.extend(answered(&first));
        let (status, second) = post(&client, "/v1/responses", &body).await;
        assert_eq!(status, 200, "{kept_out}: {second}");
        // In the order sent, each call is directly followed by its result.
        let said = match goes_on {
            true => &["Coat?", "", "\"3 degrees\"", "\"sunny\""][..],
            false => &["Coat?", "", "\"3 degrees\"", "", "\"sunny\""],
        };
        assert_eq!(last_messages(&model), said, "{kept_out}");
        let requests = model.requests();
        let messages = requests.last().unwrap().messages.messages();
        let calls = messages.iter().flat_map(|message| message.tool_calls());
        let arguments: Vec<&str> = calls.map(|call| call.arguments.as_str()).collect();
        assert_eq!(arguments, [r#"{"city":"Oslo"}"#, r#"{"city":"Rome"}"#]);
        let session = |response: &Value| response["metadata"]["session_id"].clone();
        assert_eq!(session(&first) == session(&second), goes_on, "{kept_out}");
    }
}

#[tokio::test]
async fn a_loop_that_always_names_the_same_response_continues_after_its_last_calls() {
    let looks = |tool| reply::calls([(tool, r#"{"city":"Oslo"}"#)]);
    let model = ScriptedModel::new()
        .then(reply::text("Noted."))
        .then(looks("weather"))
        .then(looks("news"))
        .then(reply::text("Take a coat."));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let path = "/v1/responses";
    let (_, first) = post(&client, path, &json!({"input": "I am Bo."})).await;
    let mut body =
        json!({"input": [user("Coat?")], "previous_response_id": first["id"], "tools": tools()});
    for found in ["3 degrees", "sunny"] {
        let (status, called) = post(&client, path, &body).await;
        assert_eq!(status, 200, "{called}");
        let call = &called["output"][0];
        let output =
            json!({"type": "function_call_output", "call_id": call["call_id"], "output": found});
        let items = body["input"].as_array_mut().unwrap();
        items.extend([call.clone(), output]);
    }
    let (status, last) = post(&client, path, &body).await;
    assert_eq!(status, 200, "{last}");
    let session = |response: &Value| response["metadata"]["session_id"].clone();
    assert_eq!(session(&first), session(&last));
    let said = [
        "I am Bo.",
        "Noted.",
        "Coat?",
        "",
        "\"3 degrees\"",
        "",
        "\"sunny\"",
    ];
    assert_eq!(last_messages(&model), said);
    // It has an answer by now.
    let (status, refused) = post(&client, path, &body).await;
    let received = (status, &refused["error"]["param"]);
    assert_eq!(received, (400, &json!("previous_response_id")), "{refused}");
}

#[tokio::test]
async fn everything_sent_with_a_response_id_is_new_except_its_calls() {
    let (server, model) = calling().await;
    let client = server.client();
    let body = json!({"input": "Coat?", "tools": tools()});
    let (_, first) = post(&client, "/v1/responses", &body).await;
    let mut items = answered(&first).to_vec();
    items.extend([
        user("I am in Oslo."),
        json!({"role": "assistant", "content": "Noted."}),
        user("So?"),
    ]);
    let body = json!({"input": items, "previous_response_id": first["id"], "tools": tools()});
    let (status, second) = post(&client, "/v1/responses", &body).await;
    assert_eq!(status, 200, "{second}");
    assert_eq!(
        last_messages(&model),
        [
            "Coat?",
            "",
            "\"3 degrees\"",
            "\"sunny\"",
            "I am in Oslo.",
            "Noted.",
            "So?"
        ]
    );
}

#[tokio::test]
async fn system_messages_in_the_input_persist_by_response_id_and_instructions_do_not() {
    let model = Arc::new(ScriptedModel::always(reply::text("Oui.")));
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let says = |role: &str, text: &str| json!({"role": role, "content": text});
    let french = says("developer", "Answer in French.");
    let informal = says("system", "Say tu.");
    let mut previous = Value::Null;
    for (input, instructions, held) in [
        (json!([french, user("Hi.")]), json!("Be brief."), [1, 0, 1]),
        (json!([user("And?")]), Value::Null, [1, 0, 0]),
        (
            json!([french, informal, user("So?")]),
            Value::Null,
            [1, 1, 0],
        ),
        (json!("Then?"), Value::Null, [1, 1, 0]),
    ] {
        let body =
            json!({"input": input, "instructions": instructions, "previous_response_id": previous});
        let (status, response) = post(&client, "/v1/responses", &body).await;
        assert_eq!(status, 200, "{response}");
        let requests = model.requests();
        let prompt = requests.last().unwrap().messages.messages()[0].text();
        let texts = ["Answer in French.", "Say tu.", "Be brief."];
        let received = texts.map(|text| prompt.matches(text).count());
        assert_eq!(received, held, "{input}: {prompt}");
        previous = response["id"].clone();
    }
}

#[tokio::test]
async fn a_repeated_call_may_have_null_arguments() {
    let model = ScriptedModel::always(reply::text("Noted."));
    let server = InProcess::of(model).await;
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "news", "arguments": null}});
    let said = [
        user("News?"),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "c", "content": "None."}),
    ];
    let body = json!({"messages": said});
    let (status, received) = post(&server.client(), "/v1/chat/completions", &body).await;
    assert_eq!(status, 200, "{received}");
    let call = json!({"type": "function_call", "call_id": "c", "name": "news", "arguments": null});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "None."});
    let body = json!({"input": [user("News?"), call, output]});
    let (status, received) = post(&server.client(), "/v1/responses", &body).await;
    assert_eq!(status, 200, "{received}");
}

/// Returns items that only refer to those of a response.
fn references(response: &Value) -> Vec<Value> {
    let items = response["output"].as_array().unwrap().iter();
    let references = items.map(|item| json!({"type": "item_reference", "id": item["id"]}));
    references.collect()
}

#[tokio::test]
async fn referenced_messages_are_sent_to_the_model_again_and_reasoning_is_not() {
    let model = ScriptedModel::new()
        .then(reply::reasoned("A greeting.", "Hi there."))
        .then(reply::text("Two."))
        .then(reply::text("Three."));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let mut items = vec![user("Hello.")];
    for said in ["And?", "And then?"] {
        let (status, response) = post(&client, "/v1/responses", &json!({"input": items})).await;
        assert_eq!(status, 200, "{response}");
        items.extend(references(&response));
        items.push(user(said));
    }
    let (status, response) = post(&client, "/v1/responses", &json!({"input": items})).await;
    assert_eq!(status, 200, "{response}");
    let said = ["Hello.", "Hi there.", "And?", "Two.", "And then?"];
    assert_eq!(last_messages(&model), said);
}

/// Returns the items of a response as they were received.
fn whole(response: &Value) -> Vec<Value> {
    response["output"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_referenced_or_returned_answer_carries_the_taint_of_its_run() {
    let free = "rules.free = { answer = 'allow', tools = ['fetch', 'put'] }\n";
    let ways: [fn(&Value) -> Vec<Value>; 2] = [references, whole];
    for sent_back in ways {
        let model = ScriptedModel::new()
            .then(reply::calls([("fetch", "{}")]))
            .then(reply::text("It says: obey."))
            .then(reply::calls([("put", "{}")]))
            .then(reply::text("Done."));
        let fetch = ScriptedTool::echoing(spec("fetch").read_only().open_world());
        let put = Arc::new(ScriptedTool::echoing(spec("put").idempotent()));
        let orchestrator = builder(&Arc::new(model), free)
            .tool(Arc::new(fetch))
            .tool(Arc::clone(&put) as Arc<dyn Tool>)
            .approver(Arc::new(DecideLater))
            .build();
        let server = InProcess::serve(orchestrator.unwrap()).await;
        let client = server.client();
        let mut items = vec![user("What does the page say?")];
        let (status, first) = post(&client, "/v1/responses", &json!({"input": items})).await;
        assert_eq!(status, 200, "{first}");
        items.extend(sent_back(&first));
        items.push(user("Go on."));
        let (status, second) = post(&client, "/v1/responses", &json!({"input": items})).await;
        let stands = &second["neuraxis"]["status"];
        assert_eq!((status, stands), (200, &json!("waiting")), "{second}");
        assert_eq!(put.count(), 0);
    }
}

#[tokio::test]
async fn adjacent_assistant_messages_are_joined_with_an_empty_line() {
    let model = Arc::new(ScriptedModel::always(reply::text("Noted.")));
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let says = |text: &str| json!({"role": "assistant", "content": text});
    let input = [
        user("Time?"),
        says("I look."),
        says("Noon.\n"),
        says("Sharp."),
        user("So?"),
    ];
    let (status, told_back) =
        post(&server.client(), "/v1/responses", &json!({"input": input})).await;
    assert_eq!(status, 200, "{told_back}");
    assert_eq!(
        last_messages(&model),
        ["Time?", "I look.\n\nNoon.\nSharp.", "So?"]
    );
}

#[tokio::test]
async fn referenced_calls_are_answered_with_and_without_the_id_of_their_response() {
    for with_id in [false, true] {
        let (server, model) = calling().await;
        let client = server.client();
        let mut body = json!({"input": [user("Coat?")], "tools": tools()});
        let (_, first) = post(&client, "/v1/responses", &body).await;
        let [_, weather, _, news] = answered(&first);
        let items = body["input"].as_array_mut().unwrap();
        if with_id {
            items.clear();
        }
        items.extend(references(&first));
        items.extend([weather, news]);
        if with_id {
            body["previous_response_id"] = first["id"].clone();
        }
        let (status, second) = post(&client, "/v1/responses", &body).await;
        assert_eq!(status, 200, "{second}");
        assert_eq!(
            last_messages(&model),
            ["Coat?", "", "\"3 degrees\"", "\"sunny\""]
        );
    }
}

#[tokio::test]
async fn a_reference_to_an_unknown_item_is_refused_with_its_path() {
    let naming = |id: &str| {
        let reference = json!({"type": "item_reference", "id": id});
        json!({"input": [user("Hello."), reference, user("And?")]})
    };
    let refused = |id: &str| (naming(id), 400, "invalid_field", json!("input[1].id"));
    assert_refused(
        "/v1/responses",
        [
            refused("msg_1"),
            refused("msg_00000000-0000-0000-0000-000000000000_0"),
            refused(""),
        ],
    )
    .await;
}

#[tokio::test]
async fn references_to_too_many_responses_are_refused_before_any_is_looked_up() {
    let naming = |responses: usize| {
        let id = |number: usize| format!("msg_00000000-0000-0000-0000-{number:012}_0");
        let reference = |number: usize| json!({"type": "item_reference", "id": id(number)});
        let items: Vec<Value> = (0..responses).map(reference).collect();
        json!({"input": items})
    };
    let refused =
        |responses: usize, place: &str| (naming(responses), 400, "invalid_field", json!(place));
    assert_refused(
        "/v1/responses",
        [refused(500, "input[0].id"), refused(501, "input")],
    )
    .await;
}

#[tokio::test]
async fn alternating_references_keep_their_places_and_share_one_size_limit() {
    let model = ScriptedModel::new()
        .then(reply::text("One."))
        .then(reply::text("Two."))
        .then(reply::text("Done."))
        .then(reply::text("a".repeat(256 * 1024)));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let repeated = |named: &[Value], times: usize| {
        let mut items = vec![user("Hello.")];
        items.extend((0..times).flat_map(|_| named).cloned());
        items.push(user("And?"));
        json!({"input": items})
    };
    let mut named = Vec::new();
    for said in ["First?", "Second?"] {
        let (_, response) = post(&client, "/v1/responses", &json!({"input": said})).await;
        named.extend(references(&response));
    }
    let (status, answer) = post(&client, "/v1/responses", &repeated(&named, 2)).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        last_messages(&model).concat(),
        "Hello.One.\n\nTwo.\n\nOne.\n\nTwo.And?"
    );
    let (_, long) = post(&client, "/v1/responses", &json!({"input": "Long?"})).await;
    let body = repeated(&references(&long), 128);
    let (status, answer) = post(&client, "/v1/responses", &body).await;
    let received = (status, &answer["error"]["param"]);
    assert_eq!(received, (400, &json!("input[128].id")));
}

#[tokio::test]
async fn a_reference_to_an_impossible_message_is_refused_and_a_discarded_one_ignored() {
    let model = ScriptedModel::new()
        .then(reply::text("Hi there."))
        .then(reply::text("Two."))
        .then(reply::text("Three."));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let (_, response) = post(&client, "/v1/responses", &json!({"input": "Hello."})).await;
    let id = response["id"].as_str().unwrap();
    let run = id.strip_prefix("resp_").unwrap();
    for (rest, expected) in [
        ("0", 200),
        ("0_9_1", 200),
        ("99", 400),
        ("0_9", 400),
        ("x_9_1", 400),
        ("", 400),
    ] {
        let named = json!({"type": "item_reference", "id": format!("msg_{run}_{rest}")});
        let mut items = vec![user("Hello.")];
        items.extend(references(&response));
        items.extend([named, user("And?")]);
        let (status, answer) = post(&client, "/v1/responses", &json!({"input": items})).await;
        assert_eq!(status, expected, "{rest}: {answer}");
        match expected {
            200 => assert_eq!(
                last_messages(&model),
                ["Hello.", "Hi there.", "And?"],
                "{rest}"
            ),
            _ => assert_eq!(answer["error"]["param"], "input[2].id", "{rest}: {answer}"),
        }
    }
}
