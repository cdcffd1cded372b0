//! Tests of damage: errors name the faulty line.

use std::time::Duration;

use neuraxis_core::SessionId;
use neuraxis_core::jiff::Timestamp;
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunBounds, RunLog as _, Session, SessionIndex as _, StoreError};
use neuraxis_testkit::{CountingIds, FailingStore, Fault, RunLog, StoreOperation};

use super::archive::RecordLine;
use super::import::store_sessions;
use super::*;

async fn archive() -> String {
    archived(&store().await).await
}

/// Returns a store with a session that has no messages.
async fn store() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let session = Session::new(id(), Timestamp::UNIX_EPOCH);
    store.create_session(&session).await.unwrap();
    store
}

fn id() -> SessionId {
    "s".parse().unwrap()
}

/// Adds a run to the session, with a question and an answer.
async fn talk(store: &MemoryStore, number: u64, answer: &str) {
    let run = CountingIds::nth_run(number);
    let lease = store.begin_run(&id(), run).await.unwrap();
    let mut log = RunLog::new(run, id());
    let records = [log.started("Hello?"), log.finished(answer)];
    store.commit(&lease, &records).await.unwrap();
}

async fn imported(store: &MemoryStore, archive: &str) -> Result<(), ImportError> {
    store_sessions(store, ArchiveReader::new(archive.as_bytes()), |_| true).await
}

async fn archived(store: &Arc<MemoryStore>) -> String {
    let mut out = Vec::new();
    let sessions = Sessions::new(store.clone());
    sessions.export(&id(), &mut out).await.unwrap();
    String::from_utf8(out).unwrap()
}

fn fault(text: &str) -> ArchiveError {
    check_archive(ArchiveReader::new(text.as_bytes())).unwrap_err()
}

fn told(text: &str) -> String {
    fault(text).to_string()
}

#[tokio::test]
async fn an_empty_session_exports_as_two_lines_and_several_can_be_concatenated() {
    let one = archive().await;
    assert_eq!(one.lines().count(), 2);
    let two = format!("\n{one}\n{one}");
    let sessions = check_archive(ArchiveReader::new(two.as_bytes())).unwrap();
    assert_eq!(sessions.len(), 2);
    assert!(
        check_archive(ArchiveReader::new(&b""[..]))
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_byte_order_mark_is_accepted_and_another_encoding_is_named() {
    let marked = format!("\u{feff}{}", archive().await);
    let sessions = check_archive(ArchiveReader::new(marked.as_bytes())).unwrap();
    assert_eq!(sessions.len(), 1);
    let utf_16: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = check_archive(ArchiveReader::new(utf_16.as_slice())).unwrap_err();
    let expected = "line 1: it cannot be read: it is in UTF-16, not in UTF-8";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn an_invalid_archive_is_refused_with_the_line_number() {
    let one = archive().await;
    let first = one.lines().next().unwrap();
    let cut = "line 2: the file was cut off before this line: the end of the session is missing";
    assert_eq!(told(first), cut);
    let owner = first.replace(r#""id":"s""#, r#""id":"s","owner":"mallory""#);
    assert_eq!(
        told(&owner),
        "line 1: it was changed, or earlier lines were changed, removed or moved"
    );
    let newer = first.replace(r#""format":1"#, r#""format":2"#);
    assert_eq!(
        told(&newer),
        "line 1: it has format 2; this version reads format 1"
    );
    let twice = format!("{first}\n{first}\n");
    assert_eq!(
        told(&twice),
        "line 2: expected a record, or the end of the session here"
    );
    let last = one.lines().last().unwrap();
    assert_eq!(told(last), "line 1: expected a session here");
    assert!(told("hello").starts_with("line 1: it is not a line of an exported session"));
    assert!(told("{\"type\":\"x\"}").starts_with("line 1: it is not a line"));
}

#[tokio::test]
async fn a_title_goes_along_in_an_archive_and_is_not_needed_there() {
    let untitled = archive().await;
    assert!(!untitled.contains("title"), "{untitled}");
    let store = store().await;
    let renamed = Sessions::new(store.clone())
        .rename(&id(), Some("Trip"))
        .await;
    assert_eq!(renamed.unwrap().title.as_deref(), Some("Trip"));
    let titled = archived(&store).await;
    for (archive, title) in [(&untitled, None), (&titled, Some("Trip"))] {
        let store = MemoryStore::new();
        imported(&store, archive).await.unwrap();
        let session = store.session(&id()).await.unwrap();
        assert_eq!(session.title.as_deref(), title);
    }
    let invalid = titled.replace("Trip", "a\\nb");
    assert!(told(&invalid).starts_with("line 1: the session's title is not valid"));
}

#[tokio::test]
async fn records_of_a_newer_version_are_distinguished_from_altered_ones() {
    let store = store().await;
    talk(&store, 1, "Hi.").await;
    let archive = archived(&store).await;
    let mut lines = archive.lines();
    let first = lines.next().unwrap();
    let line: RecordLine<'_> = serde_json::from_str(lines.next().unwrap()).unwrap();
    let record = line.record.get();
    let start: serde_json::Value = serde_json::from_str(first).unwrap();
    let start = ChainHead::new(0, start["head"].as_str().unwrap().parse().unwrap());
    for newer in [
        record.replacen('{', r#"{"novelty":1,"#, 1),
        record.replacen(r#""type":""#, r#""type":"new_"#, 1),
    ] {
        let head = start.with(newer.as_bytes()).hash;
        let line = format!(r#"{{"type":"record","head":"{head}","record":{newer}}}"#);
        let error = fault(&format!("{first}\n{line}\n"));
        assert!(error.to_string().contains("does not know"), "{error}");
        assert!(error.fault.may_be_newer(), "{error}");
        // The same line with a hash that does not match it: the line was altered.
        let line = line.replace(&head.to_string(), &start.hash.to_string());
        let error = fault(&format!("{first}\n{line}\n"));
        assert!(!error.fault.may_be_newer(), "{error}");
    }
}

#[tokio::test]
async fn an_import_extends_a_stored_session_and_refuses_a_longer_or_different_one() {
    let (there, longer, other) = (store().await, store().await, store().await);
    for store in [&there, &longer] {
        talk(store, 1, "Hi.").await;
    }
    talk(&longer, 2, "Hi again.").await;
    talk(&other, 3, "Who are you?").await;
    talk(&other, 4, "And what?").await;
    let archive = archived(&there).await;
    imported(&there, &archive).await.unwrap();
    for store in [&longer, &other] {
        let before = archived(store).await;
        let refused = imported(store, &archive).await.unwrap_err();
        let ImportError::Store { source, .. } = refused else {
            panic!("{refused}")
        };
        assert_eq!(source, StoreError::SessionExists(id()));
        assert_eq!(archived(store).await, before);
    }
    imported(&there, &archived(&longer).await).await.unwrap();
    assert_eq!(archived(&there).await, archived(&longer).await);
}

/// The step that found no room was stored with the end of its run, and an import does not know of steps.
#[tokio::test]
async fn a_run_at_its_maximum_size_can_be_imported() {
    let bounded = || {
        MemoryStore::new().bounded(RunBounds {
            max_bytes: 3_000_000,
            ..RunBounds::default()
        })
    };
    let store = Arc::new(bounded());
    let session = Session::new(id(), Timestamp::UNIX_EPOCH);
    store.create_session(&session).await.unwrap();
    let run = CountingIds::nth_run(1);
    let lease = store.begin_run(&id(), run).await.unwrap();
    let mut log = RunLog::new(run, id());
    let first = [log.started("Hello?"), log.warned(&"x".repeat(2_500_000))];
    store.commit(&lease, &first).await.unwrap();
    let last = [log.warned(&"x".repeat(1_200_000)), log.failed("too long")];
    store.commit(&lease, &last).await.unwrap();
    let (archive, there) = (archived(&store).await, Arc::new(bounded()));
    imported(&there, &archive).await.unwrap();
    assert_eq!(archived(&there).await, archive);
}

#[tokio::test]
async fn a_session_is_found_by_its_id_or_a_unique_prefix() {
    let store = Arc::new(MemoryStore::new());
    for id in ["0199aaaa-1", "0199aaaa-2", "0199bbbb-1", "trip"] {
        let session = Session::new(id.parse().unwrap(), Timestamp::UNIX_EPOCH);
        store.create_session(&session).await.unwrap();
    }
    let sessions = Sessions::new(store);
    for (text, expected) in [("trip", "trip"), ("tr", "trip"), ("0199b", "0199bbbb-1")] {
        assert_eq!(sessions.find(text).await.unwrap().as_str(), expected);
    }
    let several = sessions.find("0199a").await.unwrap_err();
    let expected = r#""0199a" matches several ids: 0199aaaa-2, 0199aaaa-1"#;
    assert_eq!(several.to_string(), expected);
    for text in ["", "nowhere"] {
        let none = sessions.find(text).await.unwrap_err();
        assert_eq!(none, FindError::NoSession(text.to_owned()));
    }
}

#[tokio::test]
async fn idle_sessions_are_those_that_pruning_removes() {
    let store = store().await;
    talk(&store, 1, "Hi.").await;
    let open = Session::new("open".parse().unwrap(), Timestamp::UNIX_EPOCH);
    store.create_session(&open).await.unwrap();
    let run = CountingIds::nth_run(2);
    store.begin_run(&open.id, run).await.unwrap();
    let sessions = Sessions::new(store);
    for before in [Timestamp::UNIX_EPOCH, Timestamp::MAX] {
        let idle = sessions.idle_since(before).await.unwrap();
        let removed = sessions.prune(before).await.unwrap();
        assert_eq!(idle.len() as u64, removed);
    }
    let unfinished = sessions.unfinished_run(&open.id).await.unwrap();
    assert_eq!(unfinished.map(|run| run.run_id), Some(run));
    assert_eq!(sessions.runs(&id()).await.unwrap(), None, "it is gone");
}

#[tokio::test]
async fn idle_sessions_are_found_without_reading_each_session_s_runs() {
    let store = MemoryStore::new();
    for (id, made) in [("old", 0), ("older", -1), ("new", 100)] {
        let made = Timestamp::from_second(made).unwrap();
        let session = Session::new(id.parse().unwrap(), made);
        store.create_session(&session).await.unwrap();
    }
    let store = Arc::new(FailingStore::new(store));
    let refused = StoreError::Damaged("it was asked".to_owned());
    store.fail_next(StoreOperation::Runs, Fault::Refuse(refused));
    let before = Timestamp::from_second(50).unwrap();
    let idle = Sessions::new(store).idle_since(before).await.unwrap();
    let idle: Vec<_> = idle.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(idle, ["old", "older"]);
}

#[tokio::test]
async fn an_invalid_archive_is_refused_before_anything_is_stored() {
    async fn import(archive: String, unfinished: UnfinishedRuns) -> ImportError {
        let store = Arc::new(MemoryStore::new());
        let sessions = Sessions::new(store);
        let nobody = async |_: &crate::HeldRun| Ok::<_, ImportError>(());
        let mut archive = std::io::Cursor::new(archive);
        let imported = sessions.import(&mut archive, unfinished, nobody).await;
        let mut each = sessions.each(SessionFilter::default());
        assert!(each.next().await.unwrap().is_none(), "nothing is kept");
        imported.unwrap_err()
    }
    let one = archive().await;
    let twice = import(format!("{one}{one}"), UnfinishedRuns::Taken).await;
    assert!(matches!(twice, ImportError::Twice(_)), "{twice}");
    let empty = import(String::new(), UnfinishedRuns::Taken).await;
    assert!(matches!(empty, ImportError::Empty), "{empty}");
    let open = store().await;
    let run = CountingIds::nth_run(1);
    let lease = open.begin_run(&id(), run).await.unwrap();
    let started = [RunLog::new(run, id()).started("Hello?")];
    open.commit(&lease, &started).await.unwrap();
    let unfinished = import(archived(&open).await, UnfinishedRuns::Refused).await;
    assert!(matches!(unfinished, ImportError::Unfinished { .. }));
}

/// Returns a store with a session. Its next operation of the given kind takes two seconds.
async fn late_with(operation: StoreOperation) -> Arc<FailingStore<MemoryStore>> {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let session = Session::new(id(), Timestamp::UNIX_EPOCH);
    store.create_session(&session).await.unwrap();
    talk(store.inner(), 1, "Hi.").await;
    store.fail_next(operation, Fault::AnswerLate(Duration::from_secs(2)));
    store
}

#[tokio::test(start_paused = true)]
async fn a_session_that_gets_a_run_during_its_export_is_exported_completely() {
    for operation in [StoreOperation::Verify, StoreOperation::Session] {
        let store = late_with(operation).await;
        let sessions = Sessions::new(store.clone());
        let (session, mut out) = (id(), Vec::new());
        let exported = sessions.export(&session, &mut out);
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            talk(store.inner(), 2, "Hi again.").await;
        };
        let (exported, ()) = tokio::join!(exported, meanwhile);
        let head = exported.unwrap().head;
        assert_eq!(store.verify(&id(), None).await.unwrap(), head);
        let archive = String::from_utf8(out).unwrap();
        imported(&MemoryStore::new(), &archive).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_deleted_during_its_export_is_not_reported_as_damaged() {
    for operation in [StoreOperation::Verify, StoreOperation::Runs] {
        let store = late_with(operation).await;
        let sessions = Sessions::new(store.clone());
        let (session, mut out) = (id(), Vec::new());
        let exported = sessions.export(&session, &mut out);
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            store.inner().delete_session(&id()).await.unwrap();
        };
        let (exported, ()) = tokio::join!(exported, meanwhile);
        let Err(ExportError::Store(gone)) = exported else {
            panic!("{exported:?}")
        };
        assert_eq!(gone, StoreError::NoSuchSession(id()));
    }
}
