//! Which parts of a prompt are marked for the cache, and that its beginning stays the same.

use neuraxis_anthropic::Cache;
use neuraxis_core::{Message, ModelRequest};
use neuraxis_testkit::loopback::{Loopback, Seen};
use neuraxis_testkit::{messages, request_of, spec};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shapes::answer;
use crate::{body, client, json, respond};

const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn conversation(turns: usize) -> ModelRequest {
    let mut request = request_of([Message::system("s"), Message::user("a")]);
    request.tools = [spec("look").build(), spec("find").build()].into();
    for turn in 0..turns {
        let (one, other) = (format!("c{turn}"), format!("d{turn}"));
        let calls = [(one.as_str(), "look", "{}"), (other.as_str(), "look", "{}")];
        request.messages.push(messages::calls(calls));
        request.messages.push(messages::result(&one, "look", "1"));
        request.messages.push(messages::result(&other, "look", "2"));
    }
    request
}

/// The positions of a request's marks.
fn marks(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.contains_key("cache_control") {
                out.push(path.to_owned());
            }
            for (name, field) in fields {
                marks(field, &format!("{path}/{name}"), out);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                marks(item, &format!("{path}/{index}"), out);
            }
        }
        _ => {}
    }
}

async fn marks_of(request: &ModelRequest, cache: Cache) -> Vec<String> {
    let body = body(request, |config| config.cache = cache).await;
    let mut found = Vec::new();
    marks(&body, "", &mut found);
    found
}

#[tokio::test]
async fn tools_system_and_the_last_two_user_turns_are_cache_marked() {
    assert_eq!(
        marks_of(&conversation(0), Cache::FiveMinutes).await,
        ["/system/0", "/messages/0/content/0", "/tools/1"]
    );
    for turns in 1..4 {
        assert_eq!(
            marks_of(&conversation(turns), Cache::FiveMinutes).await,
            [
                "/system/0".to_owned(),
                format!(
                    "/messages/{}/content/{}",
                    2 * turns - 2,
                    usize::from(turns > 1)
                ),
                format!("/messages/{}/content/1", 2 * turns),
                "/tools/1".to_owned()
            ]
        );
    }
    assert!(marks_of(&conversation(3), Cache::Off).await.is_empty());
}

#[tokio::test]
async fn a_cache_mark_states_its_lifetime() {
    let body = body(&conversation(0), |config| config.cache = Cache::OneHour).await;
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    for place in ["/tools/1", "/system/0", "/messages/0/content/0"] {
        let marked = body.pointer(place).unwrap();
        assert_eq!(marked["cache_control"], mark, "{place}");
    }
}

/// The conversation in a request, as it was sent, without marks and without its end.
fn sent_conversation(seen: &Seen) -> String {
    let conversation = seen.body.split_once(r#"]}],"tools":"#).unwrap().0;
    conversation.replace(MARK, "")
}

#[tokio::test]
async fn each_request_starts_with_the_previous_one_byte_for_byte() {
    let server = Loopback::start(answer).await;
    let client = client(&server);
    let whole = conversation(4);
    for count in [2, 5, 8, 11, 14] {
        let mut request = whole.clone();
        request.messages = whole.messages.messages()[..count].iter().cloned().collect();
        respond(&client, &request).await.unwrap();
    }
    let seen = server.seen();
    for pair in seen.windows(2) {
        let (before, after) = (sent_conversation(&pair[0]), sent_conversation(&pair[1]));
        assert!(after.starts_with(&before), "{before}\n{after}");
        let tools = |seen: &Seen| json(seen)["tools"].clone();
        assert_eq!(tools(&pair[0]), tools(&pair[1]));
    }
}

/// Any message, by its number: its role, and whether it has text.
fn any_message(number: u8) -> Message {
    match number {
        0 => Message::system("s"),
        1 => Message::system(" "),
        2 => Message::user("u"),
        3 => Message::user(""),
        4 => Message::assistant("a"),
        5 => Message::assistant(""),
        6 => messages::calls([("c", "look", "{}")]),
        _ => messages::result("c", "look", r#"{"error":"e"}"#),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_request_has_alternating_roles_content_and_at_most_four_marks(
        numbers in prop::collection::vec(0_u8..8, 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut request = request_of(numbers.into_iter().map(any_message));
        request.tools = [spec("look").build()].into();
        let body = runtime.block_on(body(&request, |_| {}));
        let turns = body["messages"].as_array().unwrap();
        prop_assert!(turns.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]));
        prop_assert_eq!(&turns.last().unwrap()["role"], "user");
        for turn in turns {
            prop_assert!(!turn["content"].as_array().unwrap().is_empty());
        }
        let mut found = Vec::new();
        marks(&body, "", &mut found);
        prop_assert!(found.len() <= 4, "{:?}", found);
    }
}
