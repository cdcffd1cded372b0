//! A model's thoughts are sent with every answer, and an answer has the same items however it is requested.

use std::sync::Arc;

use neuraxis::core::{LlmError, LlmErrorKind, Reply, ReplyFinish, ReplyPart};
use neuraxis::ports::Tool;
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use super::items::last_messages;
use super::{builder, parsed, post, stream, user};
use crate::support::client::answer;
use crate::support::in_process::InProcess;

/// A reply with a thought, some text, and a call that reads the clock.
fn looks(text: &str) -> Reply {
    let mut looks = reply::text_and_calls(text, [("clock", "{}")]);
    let thought = reply::reasoned("What time is it?", "").parts.remove(0);
    looks.parts.insert(0, thought);
    looks
}

/// A server whose model has a clock and gives these replies, repeated this many times.
async fn saying(replies: &[Reply], times: usize, policy: &str) -> InProcess {
    let all = std::iter::repeat_n(replies, times).flatten();
    let model = all.fold(ScriptedModel::new(), |model, reply| {
        model.then(Script::from(reply.clone()).split(3))
    });
    let clock = ScriptedTool::echoing(spec("clock").read_only());
    let policy = format!("channels.chat.tools = ['clock']\n{policy}");
    let builder = builder(&Arc::new(model), &policy);
    let builder = builder.tools(vec![Arc::new(clock) as Arc<dyn Tool>]);
    InProcess::serve(builder.build().unwrap()).await
}

/// A server whose model thinks, reads the clock and thinks again.
async fn thinking(answers: usize) -> InProcess {
    let knows = reply::reasoned("It is noon.", "Noon.");
    saying(&[looks("I look."), knows], answers, "").await
}

#[tokio::test]
async fn a_chat_returns_reasoning_and_text_of_all_its_model_calls_streamed_or_not() {
    let server = thinking(2).await;
    let mut body = json!({"messages": [user("What time is it?")]});
    let (_, whole) = post(&server.client(), "/v1/chat/completions", &body).await;
    let message = &whole["choices"][0]["message"];
    let thoughts = "What time is it?\n\nIt is noon.";
    assert_eq!(message["reasoning_content"], thoughts, "{whole}");
    let words = "I look.\n\nNoon.";
    assert_eq!(message["content"], words);

    body["stream"] = json!(true);
    let chunks = parsed(&stream(&server.client(), "/v1/chat/completions", &body).await);
    assert_eq!(streamed(&chunks, "reasoning_content"), thoughts);
    assert_eq!(streamed(&chunks, "content"), words);
}

/// Returns the whole content of this field in a streamed chat.
fn streamed(chunks: &[Value], field: &str) -> String {
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    deltas.filter_map(|delta| delta[field].as_str()).collect()
}

/// The draft of each answer is checked.
const CHECKED: &str = "channels.chat.self_check = 'always'\n";

#[tokio::test]
async fn a_whole_chat_has_the_same_text_as_its_stream() {
    let remind = "agents.main_thread.no_calls = { remind = { prompt = 'Look.', at_most = 1 } }\n";
    let noon = || reply::text("It is noon.");
    for (replies, policy, expected) in [
        (
            vec![looks("Noon."), reply::text("It is Noon.")],
            "",
            "Noon.\n\nIt is Noon.",
        ),
        (
            vec![reply::text("Noon, I think."), reply::text("Noon.")],
            remind,
            "Noon, I think.\n\nNoon.",
        ),
        (
            vec![looks("I look."), reply::text("It is one."), noon()],
            CHECKED,
            "It is noon.",
        ),
        (
            vec![looks("I look."), noon()],
            "agents.main_thread.citations = 'checked'\n",
            "It is noon.",
        ),
    ] {
        let server = saying(&replies, 2, policy).await;
        let mut body = json!({"messages": [user("What time is it?")]});
        let (_, whole) = post(&server.client(), "/v1/chat/completions", &body).await;
        let message = &whole["choices"][0]["message"];
        assert_eq!(message["content"], expected, "{whole}");
        body["stream"] = json!(true);
        let chunks = parsed(&stream(&server.client(), "/v1/chat/completions", &body).await);
        assert_eq!(streamed(&chunks, "content"), expected);
        let thoughts = message["reasoning_content"].as_str().unwrap_or_default();
        assert_eq!(streamed(&chunks, "reasoning_content"), thoughts);
    }
}

/// The items of a response without their ids, which contain the run.
fn items(response: &Value) -> Vec<Value> {
    let items = response["output"].as_array().unwrap().iter();
    let without_id = items.map(|item| {
        let mut item = item.clone();
        let id = item.as_object_mut().unwrap().remove("id");
        assert!(id.is_some());
        item
    });
    without_id.collect()
}

#[tokio::test]
async fn a_response_has_the_same_items_whole_streamed_and_retrieved() {
    let server = thinking(2).await;
    let client = server.client();
    let mut body = json!({"input": "What time is it?"});
    let (_, whole) = post(&client, "/v1/responses", &body).await;
    let received = items(&whole);
    let text = |item: &Value, field: &str| item[field][0]["text"].as_str().unwrap().to_owned();
    let said: Vec<(String, String)> = received
        .iter()
        .map(|item| match item["type"].as_str().unwrap() {
            "reasoning" => ("reasoning".to_owned(), text(item, "summary")),
            kind => (kind.to_owned(), text(item, "content")),
        })
        .collect();
    let pair = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
    assert_eq!(
        said,
        [
            pair("reasoning", "What time is it?"),
            pair("message", "I look."),
            pair("reasoning", "It is noon."),
            pair("message", "\n\nNoon."),
        ]
    );
    let id = whole["id"].as_str().unwrap();
    let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(again["output"], whole["output"]);

    body["stream"] = json!(true);
    let events = parsed(&stream(&client, "/v1/responses", &body).await);
    let streamed = &events.last().unwrap()["response"];
    assert_eq!(items(streamed), received);
    let id = streamed["id"].as_str().unwrap();
    let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(again["output"], streamed["output"], "ids and all");
}

#[tokio::test]
async fn a_draft_is_not_an_item_of_a_response_whole_streamed_or_retrieved() {
    let [one, noon] = ["It is one.", "It is noon."].map(reply::text);
    let replies = [looks("I look."), one, noon];
    let server = saying(&replies, 2, CHECKED).await;
    let client = server.client();
    for is_stream in [false, true] {
        let body = json!({"input": "What time is it?", "stream": is_stream});
        let response = if is_stream {
            let events = parsed(&stream(&client, "/v1/responses", &body).await);
            events.last().unwrap()["response"].clone()
        } else {
            post(&client, "/v1/responses", &body).await.1
        };
        let received = items(&response);
        assert_eq!(received.len(), 1, "{response}");
        assert_eq!(received[0]["content"][0]["text"], "It is noon.");
        let id = response["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(again["output"], response["output"]);
    }
}

#[tokio::test]
async fn response_events_omit_leading_blank_text_and_always_include_a_message() {
    let thought = || reply::reasoned("Hm.", "").parts.remove(0);
    let [broken, hello] = ["\n", "Hello."].map(ReplyPart::text);
    for (said, kinds, text) in [
        (
            reply::reasoned("Hm.", "\n\nHello."),
            vec!["reasoning", "message"],
            "Hello.",
        ),
        (
            reply::of([broken, thought(), hello], ReplyFinish::Stop),
            vec!["reasoning", "message"],
            "Hello.",
        ),
        (
            reply::of([thought()], ReplyFinish::Stop),
            vec!["reasoning", "message"],
            "",
        ),
        (reply::empty(), vec!["message"], ""),
    ] {
        let model = ScriptedModel::always(Script::from(said).split(1));
        let server = InProcess::of(model).await;
        let client = server.client();
        let body = json!({"input": "Hello?", "stream": true});
        let events = parsed(&stream(&client, "/v1/responses", &body).await);
        let response = &events.last().unwrap()["response"];
        let output = response["output"].as_array().unwrap();
        let received: Vec<&str> = output
            .iter()
            .map(|item| item["type"].as_str().unwrap())
            .collect();
        assert_eq!(received, kinds, "{response}");
        assert_eq!(output.last().unwrap()["content"][0]["text"], text);
        for (kind, is_whole) in [("added", false), ("done", true)] {
            let kind = format!("response.output_item.{kind}");
            let received = events.iter().filter(|event| event["type"] == *kind);
            let received: Vec<&Value> = received.map(|event| &event["item"]).collect();
            assert_eq!(received.len(), output.len(), "{kind}");
            assert!(!is_whole || received.into_iter().eq(output), "{kind}");
        }
        let id = response["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
        assert_eq!(again["output"], response["output"]);
    }
}

#[tokio::test]
async fn text_before_a_broken_connection_is_streamed_but_not_part_of_the_response() {
    let error = LlmError::new(LlmErrorKind::Connection, "reset by peer");
    let broken = Script::from(reply::text("It is false, I believe."));
    let broken = broken.split(3).fail_at(4, error);
    let model = ScriptedModel::new()
        .then(broken)
        .then(reply::reasoned("Let me see.", "It is true."))
        .then(reply::text("Yes."));
    let model = Arc::new(model);
    let server = InProcess::serve(builder(&model, "").build().unwrap()).await;
    let client = server.client();
    let body = json!({"input": "Is it true?", "stream": true});
    let events = parsed(&stream(&client, "/v1/responses", &body).await);
    let response = &events.last().unwrap()["response"];
    let stands = response["output"].to_string();
    assert!(!stands.contains("false"), "{stands}");
    let id = response["id"].as_str().unwrap();
    let (_, again) = answer(client.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(again["output"], response["output"], "ids and all");

    // A client refers to every item that it received.
    let done = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done");
    let named = done.map(|event| json!({"type": "item_reference", "id": event["item"]["id"]}));
    let mut items = vec![user("Is it true?")];
    items.extend(named);
    items.push(user("Sure?"));
    let (status, sure) = post(&client, "/v1/responses", &json!({"input": items})).await;
    assert_eq!(status, 200, "{sure}");
    assert_eq!(
        last_messages(&model),
        ["Is it true?", "It is true.", "Sure?"]
    );
}

#[tokio::test]
async fn an_agent_with_an_answer_schema_returns_only_its_answer_in_every_form() {
    let form = r#"{"ok":true}"#;
    let answers = reply::calls([("final_answer", form)]);
    let policy = "agents.rev.instructions = 'You review.'\nagents.rev.tools = ['clock']\n\
                  agents.rev.answer.schema.type = 'object'\n";
    let server = saying(&[looks("I look."), answers], 4, policy).await;
    let client = server.client();
    let path = "/v1/chat/completions";
    let mut body = json!({"model": "rev", "messages": [user("Is it fine?")]});
    let (_, whole) = post(&client, path, &body).await;
    assert_eq!(whole["choices"][0]["message"]["content"], form, "{whole}");
    body["stream"] = json!(true);
    let chunks = parsed(&stream(&client, path, &body).await);
    assert_eq!(streamed(&chunks, "content"), form);

    let path = "/v1/responses";
    for is_stream in [false, true] {
        let body = json!({"model": "rev", "input": "Is it fine?", "stream": is_stream});
        let response = match is_stream {
            true => parsed(&stream(&client, path, &body).await).pop().unwrap()["response"].clone(),
            false => post(&client, path, &body).await.1,
        };
        let last = response["output"].as_array().unwrap().last().unwrap();
        assert_eq!(last["content"][0]["text"], form, "{response}");
        assert!(!response.to_string().contains("I look."), "{response}");
        let id = response["id"].as_str().unwrap();
        let (_, again) = answer(client.get(&format!("{path}/{id}"))).await;
        assert_eq!(again["output"], response["output"]);
    }
}

#[tokio::test]
async fn the_notice_of_a_reached_limit_and_its_remedy_is_sent_streamed_or_not() {
    let mut cut = reply::calls([("clock", "{}")]);
    cut.finish = ReplyFinish::Length;
    let server = saying(&[cut], 20, "modes.moderate.max_turns = 1\n").await;
    let client = server.client();
    let chat = json!({"messages": [user("What time is it?")]});
    let path = "/v1/chat/completions";
    let (_, whole) = post(&client, path, &chat).await;
    let message = &whole["choices"][0]["message"];
    let mut streamed = chat.clone();
    streamed["stream"] = json!(true);
    let chunks = parsed(&stream(&client, path, &streamed).await);
    let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let pieces: String = deltas.filter_map(|it| it["content"].as_str()).collect();
    let (_, response) = post(&client, "/v1/responses", &json!({"input": "Well?"})).await;
    let items = response["output"].as_array().unwrap().iter();
    let texts = items.filter_map(|item| item["content"][0]["text"].as_str());
    let said = message["content"].as_str().unwrap();
    assert_eq!(
        (pieces.as_str(), texts.collect::<String>().as_str()),
        (said, said)
    );
    assert!(said.starts_with("I reached "), "{said}");
    assert_eq!(said.matches("max_output_tokens of the mode").count(), 1);
}
