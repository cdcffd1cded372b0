//! Files that go with a message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::Program;
use crate::support::client::answer;

/// The first bytes of a PNG, by which its content is recognized.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

fn file(name: &str, content: &[u8]) -> Value {
    json!({"name": name, "data": STANDARD.encode(content)})
}

#[tokio::test]
async fn a_text_attachment_is_sent_with_the_message_and_its_name() {
    let program = Program::start().await;
    let question =
        json!({"message": "What is to be bought?", "attachments": [file("list.txt", b"Milk.")]});
    let frames = program.client().listen("s", &question).await.rest().await;
    let messages = frames[0].data["spec"]["messages"].as_array().unwrap();
    let parts = messages.last().unwrap()["parts"].as_array().unwrap();
    let texts: Vec<_> = parts
        .iter()
        .map(|part| part["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts[0], "What is to be bought?");
    assert!(
        texts[1].contains("list.txt") && texts[1].contains("Milk."),
        "{texts:?}"
    );
    assert_eq!(frames.last().unwrap().event, "final");
}

#[tokio::test]
async fn a_file_without_words_is_a_message() {
    let program = Program::start().await;
    for question in [
        json!({"attachments": [file("list.txt", b"Milk.")]}),
        json!({"message": " ", "attachments": [file("list.txt", b"Milk.")]}),
    ] {
        let frames = program.client().listen("s", &question).await.rest().await;
        let messages = frames[0].data["spec"]["messages"].as_array().unwrap();
        let parts = messages.last().unwrap()["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert!(parts[0]["text"].as_str().unwrap().contains("Milk."));
        assert_eq!(frames.last().unwrap().event, "final");
    }
    for nothing in [json!({}), json!({"message": "", "attachments": []})] {
        let (status, problem) = answer(program.client().turn("s", &nothing)).await;
        assert_eq!((status, &problem["field"]), (400, &json!("message")));
    }
}

#[tokio::test]
async fn attachments_of_more_than_one_mebibyte_are_accepted() {
    let program = Program::start().await;
    let text = vec![b'a'; 1024 * 1024];
    let question =
        json!({"message": "Read it", "attachments": [file("a", &text), file("b", &text)]});
    let (status, body) = answer(program.client().turn("s", &question)).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn an_invalid_attachment_is_refused_with_its_number_and_no_run_starts() {
    let program = Program::start().await;
    let large = vec![b'a'; 1024 * 1024 + 1];
    for (files, expected) in [
        (
            json!([{"name": "a", "data": "not base64!"}]),
            "attachment 1 cannot be sent: its content is not base64",
        ),
        (
            json!([{"name": "a", "data": "data:text/plain;base64,TWlsay4="}]),
            "not a data URL: send what follows the comma",
        ),
        (
            json!([file("a", b"Text."), file("b", b"")]),
            "attachment 2 cannot be sent: it is empty",
        ),
        (
            json!([file("a", b"PK\x03\x04 an archive")]),
            "attachment 1 cannot be sent: it is",
        ),
        (
            json!([file("a", &large)]),
            "attachment 1 cannot be sent: it has more than 1048576 bytes",
        ),
        (json!([file("a.png", PNG)]), "attachment 1 (image/png"),
        (
            json!([{"name": "a"}]),
            "attachments[0]: missing field `data`",
        ),
        (
            json!([{"name": "a", "data": "", "path": "/etc/passwd"}]),
            "attachments[0].path: unknown field `path`",
        ),
        (
            json!([{"name": "a\0b", "data": "YQ=="}]),
            "attachments: must not contain",
        ),
        (json!("a"), "attachments: expected a list, not \"a\""),
    ] {
        let question = json!({"message": "Look", "attachments": files});
        let (status, body) = answer(program.client().turn("s", &question)).await;
        let detail = body["detail"].as_str().unwrap();
        assert_eq!(
            (status, &body["type"]),
            (400, &json!("/errors/invalid-field")),
            "{detail}"
        );
        assert!(detail.contains(expected), "{detail}");
    }
    let (_, runs) = answer(program.client().get("/api/v1/runs")).await;
    assert_eq!(runs["runs"], json!([]));
}

#[tokio::test]
async fn a_body_larger_than_a_message_may_be_is_refused_before_it_is_read() {
    let program = Program::start().await;
    let turn = program.client().turn("s", &json!({"message": "Look"}));
    let body = vec![b' '; 32 * 1024 * 1024 + 1];
    let (status, problem) = answer(turn.body(body)).await;
    assert_eq!((status, &problem["max_bytes"]), (413, &json!(33_554_432)));
}
