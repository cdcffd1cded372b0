//! A recording that cannot continue does not affect its calls, and reports the failure at the end.

use neuraxis_cassette::{CassetteError, ExistingFile, Recording};
use neuraxis_core::{MediaPart, Message, Part, Role};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{Script, ScriptedModel, call_context, reply, request, request_of};

use crate::support::{CassetteFile, open, options, stream, write};

#[tokio::test]
async fn a_recording_that_reaches_its_size_limit_stays_readable() {
    let cassette_file = CassetteFile::new();
    let mut options = options();
    options.max_bytes = 2_000;
    let (recording, client) =
        cassette_file.record_with(ScriptedModel::always(reply::text("x".repeat(300))), options);
    for number in 0..10 {
        let reply = client
            .respond(&request(number.to_string()), &call_context())
            .await;
        assert!(reply.is_ok(), "the call does not notice");
    }
    let error = recording.finish().unwrap_err();
    assert!(
        matches!(error, CassetteError::TooLarge { limit: 2_000, .. }),
        "{error}"
    );
    assert!(cassette_file.text().len() <= 2_000);
    assert!(!cassette_file.open().is_empty());
}

#[tokio::test]
async fn a_recording_that_fails_before_its_first_exchange_leaves_no_file() {
    let cassette_file = CassetteFile::new();
    for _ in 0..2 {
        let mut options = options();
        options.max_bytes = 1_000;
        let long = ScriptedModel::always(reply::text("x".repeat(2_000)));
        let (recording, client) = cassette_file.record_with(long, options);
        let reply = client.respond(&request("hello"), &call_context()).await;
        assert!(reply.is_ok(), "the call does not notice");
        let error = recording.finish().unwrap_err();
        assert!(matches!(error, CassetteError::TooLarge { .. }), "{error}");
        assert!(!cassette_file.path().exists());
    }
}

#[tokio::test]
async fn images_repeated_in_each_request_replay_within_the_recorded_size() {
    let cassette_file = CassetteFile::new();
    let (recording, client) = cassette_file.record(ScriptedModel::always(reply::text("a cat")));
    let asked = |number: u32| {
        let image = MediaPart::embedded("image/png", "iVBORw0K".repeat(10_000));
        let parts = vec![Part::Media(image)];
        request_of([Message::User { parts }, Message::user(number.to_string())])
    };
    for number in 0..30 {
        let reply = client.respond(&asked(number), &call_context()).await;
        assert!(reply.is_ok());
    }
    let mut config = cassette_file.config();
    config.max_bytes = recording.finish().unwrap().bytes;
    let player = open(&config).client(Role::REASONING);
    for number in 0..30 {
        let reply = player.respond(&asked(number), &call_context()).await;
        assert_eq!(reply.unwrap().text(), "a cat");
    }
}

#[tokio::test]
async fn a_recording_stops_before_shared_content_exceeds_the_read_limit() {
    let cassette_file = CassetteFile::new();
    let mut options = options();
    options.max_bytes = 60_000;
    let (recording, client) =
        cassette_file.record_with(ScriptedModel::always(reply::text("ok")), options);
    for number in 0..30 {
        let long = Message::user("x".repeat(20_000));
        let request = request_of([long, Message::user(number.to_string())]);
        let reply = client.respond(&request, &call_context()).await;
        assert!(reply.is_ok(), "the call does not notice");
    }
    let error = recording.finish().unwrap_err();
    assert!(
        matches!(error, CassetteError::SharesTooMuch { .. }),
        "{error}"
    );
    let mut config = cassette_file.config();
    config.max_bytes = 60_000;
    assert_eq!(open(&config).len(), 24);
}

#[tokio::test]
async fn an_oversized_exchange_is_not_recorded() {
    let cassette_file = CassetteFile::new();
    let (recording, client) = cassette_file.record(ScriptedModel::always(
        Script::from(reply::text("x".repeat(40 << 20))).split(1 << 20),
    ));
    assert_eq!(stream(&client, &request("huge")).await.unwrap().len(), 41);
    let error = recording.finish().unwrap_err();
    assert!(
        matches!(error, CassetteError::ExchangeTooLarge { exchange: 1, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn an_existing_file_is_kept_unless_replacement_is_requested() {
    let cassette_file = CassetteFile::new();
    write(&cassette_file.path(), "precious");
    let error = Recording::create(cassette_file.path(), options()).unwrap_err();
    assert!(matches!(error, CassetteError::Exists { .. }), "{error}");
    assert_eq!(cassette_file.text(), "precious");

    let mut options = options();
    options.existing = ExistingFile::Replace;
    Recording::create(cassette_file.path(), options)
        .unwrap()
        .finish()
        .unwrap();
    assert!(cassette_file.open().is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let cassette_file = CassetteFile::new();
    drop(cassette_file.record(ScriptedModel::new()));
    let mode = std::fs::metadata(cassette_file.path())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_recording_that_cannot_write_its_first_line_is_not_created() {
    let mut options = options();
    options.existing = ExistingFile::Replace;
    let error = Recording::create("/dev/full", options).unwrap_err();
    assert!(
        matches!(error, CassetteError::Io { doing: "write", .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_finished_exchange_is_on_disk_before_the_recording_ends() {
    let cassette_file = CassetteFile::new();
    let (_recording, client) = cassette_file.record(ScriptedModel::always(reply::text("safe")));
    client
        .respond(&request("hello"), &call_context())
        .await
        .unwrap();
    let player = cassette_file.open().client(Role::REASONING);
    assert_eq!(
        player
            .respond(&request("hello"), &call_context())
            .await
            .unwrap()
            .text(),
        "safe"
    );
}

#[tokio::test]
async fn nothing_is_written_after_a_recording_is_finished() {
    let cassette_file = CassetteFile::new();
    let (recording, client) = cassette_file.record(ScriptedModel::always(reply::text("late")));
    let ctx = call_context();
    let open = client
        .stream_respond(&request("hello"), &ctx)
        .await
        .unwrap();
    let summary = recording.finish().unwrap();
    drop(open);
    client.respond(&request("hello"), &ctx).await.unwrap();
    assert_eq!(cassette_file.text().len() as u64, summary.bytes);
    assert_eq!(recording.finish().unwrap(), summary);
}
