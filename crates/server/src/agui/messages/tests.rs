//! Which part of a front end's thread is new to a session.

use serde_json::json;

use super::*;

fn read(messages: Value) -> Conversation {
    let Value::Array(messages) = messages else {
        panic!("{messages}");
    };
    Conversation::parse(&messages).unwrap()
}

fn texts_of(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| message.text()).collect()
}

fn call(id: &str) -> Value {
    json!({"id": "a", "role": "assistant", "toolCalls": [
        {"id": id, "type": "function", "function": {"name": "weather", "arguments": "{}"}},
    ]})
}

#[test]
fn an_empty_session_receives_the_whole_thread() {
    let thread = read(json!([
        {"id": "0", "role": "system", "content": "Be brief."},
        {"id": "1", "role": "user", "content": "I live in Oslo."},
        {"id": "2", "role": "reasoning", "content": "Noted?"},
        {"id": "s", "role": "assistant", "content": "For another.", "subagentRunId": "r.a1"},
        {"id": "3", "role": "assistant", "content": "Noted."},
        {"id": "4", "role": "activity", "activityType": "x", "content": {"a": 1}},
        {"id": "5", "role": "user", "content": "Where do I live?", "name": null},
    ]));
    let new = thread.new_to(&[]).unwrap();
    assert_eq!(texts_of(&new.before), ["I live in Oslo.", "Noted."]);
    assert_eq!(new.message, "Where do I live?");
    assert_eq!(thread.instructions().collect::<Vec<_>>(), ["Be brief."]);
}

#[test]
fn a_session_receives_only_messages_since_its_last_answer() {
    let kept = [
        Arc::new(Message::user("Hello?")),
        Arc::new(Message::assistant("Hi.")),
    ];
    let thread = json!([
        {"id": "1", "role": "user", "content": "Hello?"},
        {"id": "2", "role": "assistant", "content": "Hi."},
        {"id": "3", "role": "user", "content": "And now?"},
    ]);
    let new = read(thread).new_to(&kept).unwrap();
    assert_eq!(
        (new.before.as_slice(), &*new.message),
        (&[][..], "And now?")
    );
}

#[test]
fn messages_taken_by_a_run_without_an_answer_are_not_sent_again() {
    let kept = [Arc::new(Message::user("Hello?"))];
    let thread = json!([
        {"id": "1", "role": "user", "content": "Hello?"},
        {"id": "2", "role": "user", "content": "Are you there?"},
        {"id": "3", "role": "user", "content": "Hello?"},
    ]);
    let new = read(thread).new_to(&kept).unwrap();
    assert_eq!(texts_of(&new.before), ["Are you there?"]);
    assert_eq!(new.message, "Hello?");
}

#[test]
fn a_message_unknown_to_the_front_end_does_not_resend_earlier_messages() {
    let kept = ["Hello?", "In German."].map(Message::user).map(Arc::new);
    let thread = json!([
        {"id": "1", "role": "user", "content": "Hello?"},
        {"id": "2", "role": "user", "content": "Are you there?"},
    ]);
    let new = read(thread).new_to(&kept).unwrap();
    assert_eq!(
        (new.before.as_slice(), &*new.message),
        (&[][..], "Are you there?")
    );
}

#[test]
fn only_a_result_that_the_session_awaits_is_new() {
    let asks = read(
        json!([{"id": "1", "role": "user", "content": "Coat?"}, call("c1"),
        {"id": "t", "role": "tool", "toolCallId": "c1", "content": "{\"celsius\": 3}"}]),
    );
    let kept = &asks.messages[..2];
    let new = asks.new_to(kept).unwrap();
    assert_eq!(new.message, "");
    let Message::Tool(result) = new.before[0].as_ref() else {
        panic!("{new:?}");
    };
    assert_eq!(
        (&*result.name, result.content.as_str()),
        ("weather", "{\"celsius\": 3}")
    );
    // Once the session has the result, nothing is new.
    let refused = format!("{:?}", asks.new_to(&asks.messages).unwrap_err());
    assert!(refused.contains("something new"), "{refused}");
}

#[test]
fn incomplete_results_of_a_reply_are_refused_unless_a_user_message_follows() {
    let function = json!({"name": "weather", "arguments": "{}"});
    let result = |id: &str| json!({"role": "tool", "toolCallId": id, "content": "3 degrees"});
    let mut thread = vec![
        json!({"role": "user", "content": "Coat?"}),
        json!({"role": "assistant", "toolCalls": [
            {"id": "c1", "function": function}, {"id": "c2", "function": function},
        ]}),
        result("c2"),
    ];
    let asks = read(Value::Array(thread.clone()));
    let refused = format!("{:?}", asks.new_to(&asks.messages[..2]).unwrap_err());
    assert!(refused.contains("missing: c1"), "{refused}");
    let refused = format!("{:?}", asks.new_to(&[]).unwrap_err());
    assert!(refused.contains("missing: c1"), "{refused}");
    let all = read(json!([thread[0], thread[1], thread[2], result("c1")]));
    assert_eq!(all.new_to(&all.messages[..2]).unwrap().before.len(), 2);
    // A user who continues the conversation no longer waits for a result.
    thread.push(json!({"role": "user", "content": "Never mind."}));
    let new = read(Value::Array(thread)).new_to(&asks.messages[..2]);
    let new = new.unwrap();
    assert_eq!((new.before.len(), &*new.message), (1, "Never mind."));
}

#[test]
fn final_results_are_repeated_only_to_a_session_that_holds_their_calls() {
    let thread = read(
        json!([{"id": "1", "role": "user", "content": "Coat?"}, call("c1"),
        {"id": "t", "role": "tool", "toolCallId": "c1", "content": "3 degrees"}]),
    );
    let again = thread.results_again(&thread.messages).unwrap();
    assert_eq!(again.before, thread.messages[2..]);
    assert_eq!(again.message, "");
    assert_eq!(thread.results_again(&thread.messages[..1]), None);
    let asks = read(json!([call("c1"), {"id": "2", "role": "user", "content": "Coat?"}]));
    assert_eq!(asks.results_again(&asks.messages), None);
}

#[test]
fn matching_many_results_to_their_calls_takes_linear_time() {
    let ids: Vec<String> = (0..100_000).map(|number| format!("c{number}")).collect();
    let calls = ids.iter().map(|id| {
        let function = json!({"name": format!("tool-{id}"), "arguments": "{}"});
        json!({"id": id, "function": function})
    });
    let calls: Vec<Value> = calls.collect();
    let mut thread = vec![json!({"role": "assistant", "toolCalls": calls})];
    let results = ids.iter().rev();
    thread.extend(results.map(|id| json!({"role": "tool", "toolCallId": id, "content": "1"})));
    let thread = read(Value::Array(thread));
    let Message::Tool(first) = thread.messages[1].as_ref() else {
        panic!("{:?}", thread.messages[1]);
    };
    assert_eq!(&*first.name, "tool-c99999");
    let again = thread.results_again(&thread.messages).unwrap();
    assert_eq!(again.before.len(), ids.len());
}

#[test]
fn the_first_of_several_calls_with_one_id_names_the_tool_of_the_result() {
    let named = |name: &str| {
        let function = json!({"name": name, "arguments": "{}"});
        json!({"role": "assistant", "toolCalls": [{"id": "c1", "function": function}]})
    };
    let result = json!({"role": "tool", "toolCallId": "c1", "content": "1"});
    let thread = read(json!([named("first"), named("second"), result]));
    let Message::Tool(result) = thread.messages[2].as_ref() else {
        panic!("{thread:?}");
    };
    assert_eq!(&*result.name, "first");
}

#[test]
fn a_result_is_json_text_or_an_error() {
    for (message, expected) in [
        (json!({"content": "3 degrees"}), "\"3 degrees\""),
        (json!({"content": "[1]"}), "[1]"),
        (
            json!({"content": [{"type": "text", "text": "mild"}]}),
            "\"mild\"",
        ),
        (
            json!({"content": "", "error": "offline"}),
            "{\"error\":\"offline\"}",
        ),
    ] {
        let mut message = message;
        message["role"] = "tool".into();
        message["toolCallId"] = "c1".into();
        let thread = read(json!([message]));
        let Message::Tool(result) = thread.messages[0].as_ref() else {
            panic!("{thread:?}");
        };
        assert_eq!(result.content.as_str(), expected);
        assert_eq!(&*result.name, "unknown");
    }
}

#[test]
fn images_and_documents_are_attached_and_invalid_parts_are_refused_by_field() {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==";
    let thread = read(json!([{"id": "1", "role": "user", "content": [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "source": {"type": "data", "value": png, "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "url", "value": "https://example.com/a.pdf", "mimeType": "application/pdf"}},
        {"type": "binary", "mimeType": "image/png", "data": png},
    ]}]));
    let new = thread.new_to(&[]).unwrap();
    assert_eq!(new.message, "What is it?");
    let media: Vec<&str> = new
        .attachments
        .iter()
        .map(|part| match part {
            Part::Media(part) => part.media_type.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(media, ["image/png", "application/pdf", "image/png"]);

    for (part, field) in [
        (json!({"type": "image"}), "messages[0].content[0]"),
        (
            json!({"type": "image", "source": {"type": "data", "value": "?"}}),
            "messages[0].content[0].source.value",
        ),
        (
            json!({"type": "image", "source": {"type": "file", "value": "f1"}}),
            "messages[0].content[0].source.type",
        ),
        (
            json!({"type": "image", "source": {"type": "url", "value": "https://a.b"}}),
            "messages[0].content[0].source.mimeType",
        ),
        (json!({"type": 5}), "messages[0].content[0].type"),
    ] {
        let sent = [json!({"role": "user", "content": [part]})];
        let refused = format!("{:?}", Conversation::parse(&sent).unwrap_err());
        assert!(
            refused.contains(&format!("\"{field}\"")),
            "{field}: {refused}"
        );
    }
}

#[test]
fn text_files_count_towards_the_attachment_limit_of_a_message() {
    let file = json!({"type": "binary", "mimeType": "text/plain", "data": "aGVsbG8="});
    let mut content = vec![json!({"type": "text", "text": "hello"}); 21];
    content.extend(vec![file.clone(); 20]);
    let sent = |content: &[Value]| [json!({"role": "user", "content": content})];
    assert!(Conversation::parse(&sent(&content)).is_ok());
    content.push(file);
    let refused = format!("{:?}", Conversation::parse(&sent(&content)).unwrap_err());
    let told = "messages[0].content[41]: with it, the attachments exceed 20 parts";
    assert!(refused.contains(told), "{refused}");
}
