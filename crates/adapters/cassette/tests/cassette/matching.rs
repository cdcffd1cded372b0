//! Which recording answers which request.

use std::sync::Arc;

use neuraxis_cassette::{Cassette, CassetteError, Recording, Redactor, ToolResults};
use neuraxis_core::{
    AgentId, CallIndex, ContentIndex, LlmErrorKind, Message, ModelRequest, Role, ToolCallId,
};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{
    CountingIds, ScriptedModel, call_context, messages, reply, request, request_of,
};

use crate::support::{CassetteFile, open, options};

async fn ask(client: &dyn LlmClient, request: &ModelRequest) -> String {
    client
        .respond(request, &call_context())
        .await
        .unwrap()
        .text()
}

/// Records a reply to each of the requests.
async fn recorded(exchanges: &[(ModelRequest, &str)]) -> CassetteFile {
    let cassette_file = CassetteFile::new();
    let model = exchanges
        .iter()
        .fold(ScriptedModel::new(), |model, (_, text)| {
            model.then(reply::text(*text))
        });
    let (recording, client) = cassette_file.record(model);
    for (request, text) in exchanges {
        assert_eq!(&ask(&client, request).await, text);
    }
    recording.finish().unwrap();
    cassette_file
}

/// The second request of a run, after the result of a call with the run's own id.
fn of_run(run: u64, result: &str) -> ModelRequest {
    let id = ToolCallId::new(
        CountingIds::nth_run(run),
        AgentId::ROOT,
        ContentIndex(0),
        CallIndex(0),
    );
    request_of([
        Message::user("What time is it?"),
        messages::calls([(id.as_str(), "current_time", "{}")]),
        messages::result(id.as_str(), "current_time", result),
    ])
}

#[tokio::test]
async fn requests_replay_in_any_order() {
    let cassette_file = recorded(&[(request("one"), "1"), (request("two"), "2")]).await;
    let client = open(&cassette_file.strict()).client(Role::REASONING);
    assert_eq!(ask(&client, &request("two")).await, "2");
    assert_eq!(ask(&client, &request("one")).await, "1");
}

#[tokio::test]
async fn a_repeated_request_replays_its_recordings_in_order() {
    let cassette_file = recorded(&[(request("one"), "1"), (request("one"), "2")]).await;
    let cassette = cassette_file.open();
    let client = cassette.client(Role::REASONING);
    assert_eq!(ask(&client, &request("one")).await, "1");
    assert_eq!(ask(&client, &request("one")).await, "2");
    assert_eq!(cassette.replay_count(), 0);
    assert_eq!(
        ask(&client, &request("one")).await,
        "2",
        "the last answers again"
    );
    assert_eq!(cassette.replay_count(), 1);
}

#[tokio::test]
async fn a_strict_replay_requires_each_recording_exactly_once() {
    let cassette_file = recorded(&[(request("one"), "1"), (request("two"), "2")]).await;
    let cassette = open(&cassette_file.strict());
    let client = cassette.client(Role::REASONING);
    ask(&client, &request("one")).await;
    let error = client
        .respond(&request("one"), &call_context())
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::NotRecorded);
    assert!(
        error
            .message
            .contains("every recording of this request (1) has been used"),
        "{error}"
    );

    let unused = cassette.unused();
    assert_eq!(
        unused
            .iter()
            .map(|unused| unused.exchange)
            .collect::<Vec<_>>(),
        [2]
    );
    let error = cassette.finish().unwrap_err();
    assert!(matches!(&error, CassetteError::Unused { unused, .. } if unused.len() == 1));
    assert!(
        error.to_string().contains("exchange 2 (reasoning, line 9)"),
        "{error}"
    );
    ask(&client, &request("two")).await;
    cassette.finish().unwrap();
}

#[tokio::test]
async fn a_replay_that_is_not_strict_may_leave_recordings_unused() {
    let cassette_file = recorded(&[(request("one"), "1")]).await;
    let cassette = cassette_file.open();
    assert_eq!(cassette.unused().len(), 1);
    cassette.finish().unwrap();
}

#[tokio::test]
async fn a_run_with_other_ids_and_times_matches_its_recording() {
    let cassette_file =
        recorded(&[(of_run(1, r#"{"time":"2026-11-22T04:16:45Z"}"#), "four")]).await;
    let client = open(&cassette_file.strict()).client(Role::REASONING);
    let other = of_run(2, r#"{"time":"2027-01-01T12:00:00Z"}"#);
    assert_eq!(ask(&client, &other).await, "four");
}

#[tokio::test]
async fn an_exact_match_is_preferred_among_recordings_that_differ_only_in_times() {
    let at = |time: &str| request(format!("It is {time}. Hello!"));
    let cassette_file = recorded(&[
        (at("2026-11-22T04:16:45Z"), "1"),
        (at("2026-11-22T05:00:00Z"), "2"),
    ])
    .await;
    let client = cassette_file.open().client(Role::REASONING);
    assert_eq!(ask(&client, &at("2026-11-22T05:00:00Z")).await, "2");
    assert_eq!(ask(&client, &at("2030-01-01T00:00:00Z")).await, "1");
}

#[tokio::test]
async fn tool_results_must_match_unless_configured_to_be_ignored() {
    let cassette_file = recorded(&[(of_run(1, r#"{"cpu":3}"#), "idle")]).await;
    let client = cassette_file.open().client(Role::REASONING);
    let other = of_run(1, r#"{"cpu":97}"#);
    let error = client.respond(&other, &call_context()).await.unwrap_err();
    assert!(
        error.message.contains("- | {\"cpu\":3}\n+ | {\"cpu\":97}"),
        "{error}"
    );

    let mut config = cassette_file.config();
    config.tool_results = ToolResults::Ignore;
    assert_eq!(
        ask(&open(&config).client(Role::REASONING), &other).await,
        "idle"
    );
}

#[tokio::test]
async fn an_unrecorded_request_shows_the_closest_recording_and_the_difference() {
    let say = |text: &str| {
        request_of([
            Message::system("You are brief.\nYou are kind."),
            Message::user(text),
        ])
    };
    let cassette_file = recorded(&[(request("unlike"), "1"), (say("What is up?"), "2")]).await;
    let client = cassette_file.open().client(Role::REASONING);
    let error = client
        .respond(&say("What is down?"), &call_context())
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::NotRecorded);
    assert!(!error.is_retryable());
    let message = error
        .message
        .replace(&cassette_file.path().display().to_string(), "FILE");
    insta::assert_snapshot!(message, @r"
    FILE: this request was not recorded; the closest recording is exchange 2 (line 9) (- recorded, + requested):
      user
      text
    - | What is up?
    + | What is down?
    ");
    assert_eq!(
        cassette_file.open().unused().len(),
        2,
        "a refused request plays nothing"
    );
}

#[tokio::test]
async fn recordings_of_different_roles_are_separate() {
    let cassette_file = CassetteFile::new();
    let recording = Recording::create(cassette_file.path(), options()).unwrap();
    for (role, text) in [(Role::ROUTER, "quick"), (Role::CODING, "code")] {
        let client = recording.wrap(role, Arc::new(ScriptedModel::always(reply::text(text))));
        ask(&client, &request("hello")).await;
    }
    recording.finish().unwrap();

    let cassette = open(&cassette_file.strict());
    assert_eq!(cassette.roles(), [Role::ROUTER, Role::CODING]);
    assert_eq!(
        ask(&cassette.client(Role::CODING), &request("hello")).await,
        "code"
    );
    assert_eq!(
        ask(&cassette.client(Role::ROUTER), &request("hello")).await,
        "quick"
    );
    let stranger = cassette.client(Role::REASONING);
    let error = stranger
        .respond(&request("hello"), &call_context())
        .await
        .unwrap_err();
    assert!(
        error.message.contains("- role router\n+ role reasoning"),
        "{error}"
    );
}

#[tokio::test]
async fn the_client_info_names_the_recorded_model_and_notes_the_recording() {
    let cassette_file = recorded(&[(request("one"), "1")]).await;
    let info = cassette_file.open().client(Role::REASONING).info();
    assert_eq!(info.model.to_string(), "testkit/scripted");
    assert!(
        info.notice
            .unwrap()
            .starts_with("not a model but a recording: ")
    );
}

#[tokio::test]
async fn the_client_info_has_the_latest_recorded_context_size() {
    let cassette_file = CassetteFile::new();
    let model = ScriptedModel::always(reply::text("1")).with_context_when_asked(2_048);
    let (recording, client) = cassette_file.record(model);
    ask(&client, &request("one")).await;
    assert!(!cassette_file.text().contains("context_tokens"));
    client.learn_context().await;
    ask(&client, &request("two")).await;
    recording.finish().unwrap();
    let info = cassette_file.open().client(Role::REASONING).info();
    assert_eq!(info.context_tokens, Some(2_048));
}

#[tokio::test]
async fn an_empty_cassette_refuses_every_request() {
    let cassette_file = recorded(&[]).await;
    let client = cassette_file.open().client(Role::REASONING);
    let error = client
        .respond(&request("one"), &call_context())
        .await
        .unwrap_err();
    assert!(error.message.ends_with("the cassette is empty"), "{error}");
    let opened = Cassette::open(&cassette_file.config(), Redactor::default()).unwrap();
    assert!(opened.is_empty() && opened.roles().is_empty());
}
