//! No secret reaches the file, wherever it is.

use neuraxis_cassette::{Cassette, Recording, RecordingOptions, Redactor, StatePolicy};
use neuraxis_core::{
    JsonText, LlmError, LlmErrorKind, Message, ModelRequest, ReasoningPart, ReplyFinish, ReplyPart,
    RequestedCall, Role, TextPart,
};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{
    START, Script, ScriptedModel, call_context, messages, reply, request_of, spec,
};
use std::sync::Arc;

use crate::support::{CassetteFile, stream};

/// Values that are given as secrets, and values that only look like secrets.
const CANARIES: [&str; 6] = [
    "canary-value-1",
    "pa\"ss\\word\n2",
    "sk-canary0123456789abcdef",
    "AKIACANARY0123456789",
    "eyJjYW5hcnk6MX0x.eyJjYW5hcnk6Mn0x.Y2FuYXJ5",
    "ghp_canary0123456789abcdefghij",
];

fn redactor() -> Redactor {
    Redactor::new(&CANARIES[..2])
}

fn options() -> RecordingOptions {
    RecordingOptions::new(START).redactor(redactor())
}

fn poisoned_request(canary: &str) -> ModelRequest {
    let json = serde_json_string(canary);
    let mut request = request_of([
        Message::system(format!("line\n{canary}")),
        Message::user(format!("Authorization: Bearer {canary}")),
        messages::calls([("call_1", "look", format!(r#"{{"key":{json}}}"#).as_str())]),
        messages::result(
            "call_1",
            "look",
            &format!(r#"{{"found":"line\n","it":{json}}}"#),
        ),
    ]);
    let mut tool = spec("look").build();
    tool.description = format!("use {canary}").into();
    tool.parameters = JsonText::from_text(format!(r#"{{"type":"object","default":{json}}}"#));
    request.tools = [tool].into();
    request
}

fn serde_json_string(text: &str) -> String {
    JsonText::string(text).as_str().to_owned()
}

fn poisoned_reply(canary: &str) -> neuraxis_core::Reply {
    let json = JsonText::from_text(format!(r#"{{"s":{}}}"#, serde_json_string(canary)));
    let parts = [
        ReplyPart::Text(TextPart {
            text: format!("here: {canary} "),
            state: Some(json.clone()),
        }),
        ReplyPart::Reasoning(ReasoningPart {
            index: neuraxis_core::BlockIndex(1),
            text: format!("so {canary}, hm"),
            id: Some(canary.to_owned()),
            signature: Some(canary.to_owned()),
            state: Some(json.clone()),
        }),
        ReplyPart::ToolCall(RequestedCall {
            provider_id: Some(canary.into()),
            name: "look".into(),
            arguments: json.clone(),
            state: Some(json),
        }),
    ];
    reply::of(parts, ReplyFinish::ToolCalls)
}

/// Returns whether a string contains a canary, unchanged or behind any number of JSON escapes.
fn holds(text: &str, canary: &str) -> bool {
    let mut form = canary.to_owned();
    (0..4).any(|_| {
        let found = text.contains(&form);
        let escaped = serde_json_string(&form);
        form = escaped[1..escaped.len() - 1].to_owned();
        found
    })
}

#[tokio::test]
async fn no_secret_reaches_the_file_from_anywhere_in_an_exchange() {
    for canary in CANARIES {
        let cassette_file = CassetteFile::new();
        let failed = LlmError::new(LlmErrorKind::Unauthorized, format!("bad key {canary}"));
        let model = ScriptedModel::new()
            .then(poisoned_reply(canary))
            .then(Script::from(poisoned_reply(canary)).split(3))
            .then(failed.clone())
            .then(Script::from(reply::text("abc")).split(1).fail_at(2, failed));
        let (recording, client) = cassette_file.record_with(model, options());
        let request = poisoned_request(canary);
        for _ in 0..2 {
            let _ = client.respond(&request, &call_context()).await;
            let _ = stream(&client, &request).await;
        }
        assert_eq!(recording.finish().unwrap().exchanges, 4);
        let text = cassette_file.text();
        assert!(!holds(&text, canary), "{canary} is in\n{text}");
        assert!(text.contains("[redacted]"));
    }
}

#[tokio::test]
async fn a_request_with_a_redacted_secret_finds_its_recording() {
    let canary = CANARIES[0];
    let cassette_file = CassetteFile::new();
    let (recording, client) =
        cassette_file.record_with(ScriptedModel::always(reply::text("yes")), options());
    let request = poisoned_request(canary);
    client.respond(&request, &call_context()).await.unwrap();
    recording.finish().unwrap();

    let cassette = Cassette::open(&cassette_file.config(), redactor()).unwrap();
    let client = cassette.client(Role::REASONING);
    assert_eq!(
        client
            .respond(&request, &call_context())
            .await
            .unwrap()
            .text(),
        "yes"
    );
}

#[tokio::test]
async fn multi_line_json_finds_its_recording_if_a_pattern_matches_a_single_line() {
    let pattern = regex::Regex::new(r"\d{5}").unwrap();
    let redactor = Redactor::default().with_patterns([pattern]);
    let options = RecordingOptions::new(START).redactor(redactor.clone());
    let cassette_file = CassetteFile::new();
    let model = ScriptedModel::new().then(reply::text("seen"));
    let (recording, client) = cassette_file.record_with(model, options);
    // In the whole text, which is JSON, so short a number is kept; in a single line it is redacted.
    let request = request_of([Message::user("{\n  \"zip\": 12345\n}")]);
    client.respond(&request, &call_context()).await.unwrap();
    recording.finish().unwrap();
    let cassette = Cassette::open(&cassette_file.config(), redactor).unwrap();
    let client = cassette.client(Role::REASONING);
    client.respond(&request, &call_context()).await.unwrap();
}

#[tokio::test]
async fn a_secret_equal_to_a_word_of_the_format_leaves_the_file_readable() {
    let year = START.to_string()[..4].to_owned();
    let words = [
        "text",
        "none",
        "auto",
        "null",
        "user",
        "exchange",
        "mode",
        "whole",
        "streamed",
        "ended",
        "stop",
        "usage",
        "reasoning",
        "unknown",
        year.as_str(),
    ];
    for word in words {
        let cassette_file = CassetteFile::new();
        let options = RecordingOptions::new(START).redactor(Redactor::new([word]));
        let (recording, client) =
            cassette_file.record_with(ScriptedModel::always(reply::text("yes")), options);
        let request = request_of([Message::user(format!("say {word}, hm"))]);
        client.respond(&request, &call_context()).await.unwrap();
        stream(&client, &request).await.unwrap();
        assert!(recording.finish().unwrap().depends_on_secrets, "{word}");
        assert!(
            !cassette_file.text().contains(&format!("{word}, hm")),
            "{word}"
        );

        let cassette = Cassette::open(&cassette_file.config(), Redactor::new([word])).unwrap();
        let player = cassette.client(Role::REASONING);
        let replayed = player.respond(&request, &call_context()).await.unwrap();
        assert_eq!(replayed.text(), "yes", "{word}");
    }
}

#[tokio::test]
async fn a_replay_does_not_depend_on_a_secret_that_only_a_tool_result_contains() {
    for (said, expected) in [("hello", false), ("canary-value-1", true)] {
        let cassette_file = CassetteFile::new();
        let (recording, client) =
            cassette_file.record_with(ScriptedModel::always(reply::text("yes")), options());
        let request = request_of([
            Message::user(said),
            messages::calls([("call_1", "look", "{}")]),
            messages::result("call_1", "look", "\"canary-value-1\""),
        ]);
        client.respond(&request, &call_context()).await.unwrap();
        let summary = recording.finish().unwrap();
        assert_eq!(summary.depends_on_secrets, expected, "{said}");
    }
}

#[tokio::test]
async fn a_comparison_shows_no_secret() {
    let cassette_file = CassetteFile::new();
    let (recording, client) =
        cassette_file.record_with(ScriptedModel::always(reply::text("yes")), options());
    client
        .respond(&request_of([Message::user("hello")]), &call_context())
        .await
        .unwrap();
    recording.finish().unwrap();

    let cassette = Cassette::open(&cassette_file.config(), redactor()).unwrap();
    for canary in CANARIES {
        let client = cassette.client(Role::REASONING);
        let error = client
            .respond(&poisoned_request(canary), &call_context())
            .await
            .unwrap_err();
        assert!(error.message.contains("[redacted]"), "{error}");
        assert!(!holds(&error.message, canary), "{error}");
    }
}

#[tokio::test]
async fn text_that_resembles_a_secret_at_a_piece_boundary_is_kept() {
    let cassette_file = CassetteFile::new();
    let text = "the desk-organizers and the task-managers";
    let (recording, client) = cassette_file.record(ScriptedModel::always(
        Script::from(reply::text(text)).split(2),
    ));
    let request = request_of([Message::user("hello")]);
    let recorded = stream(&client, &request).await;
    recording.finish().unwrap();
    assert_eq!(
        stream(&cassette_file.open().client(Role::REASONING), &request).await,
        recorded
    );
}

#[tokio::test]
async fn provider_state_is_dropped_on_request() {
    let cassette_file = CassetteFile::new();
    let mut options = options();
    options.provider_state = StatePolicy::Drop;
    let recording = Recording::create(cassette_file.path(), options).unwrap();
    let client = recording.wrap(
        Role::REASONING,
        Arc::new(ScriptedModel::always(poisoned_reply("opaque"))),
    );
    let request = request_of([Message::user("hello")]);
    client.respond(&request, &call_context()).await.unwrap();
    stream(&client, &request).await.unwrap();
    recording.finish().unwrap();
    let text = cassette_file.text();
    assert!(
        !text.contains(r#""state":{"s""#) && !text.contains("signature"),
        "{text}"
    );
    assert!(text.lines().next().unwrap().contains("provider state"));
}
