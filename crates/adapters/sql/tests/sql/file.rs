//! The SQLite file: who may read it, and which files are refused.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use neuraxis_core::{Cancelled, InboxEntry, InboxInput, InputId, SessionMetrics};
use neuraxis_ports::{
    RunLog as _, RunStart, Session, SessionFilter, SessionIndex as _, StoreError,
};
use neuraxis_sql::{OlderSchema, OpenError, SqlConfig, SqlStore};
use neuraxis_testkit::{CountingIds, START};
use sqlx::{Connection, SqliteConnection};

use crate::support::{Busy, config_in, id, open, records};

#[tokio::test]
async fn the_database_files_are_private_to_their_user() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("new/inner");
    let store = open(&config_in(&inner)).await;
    Busy::new(&store, 1).await;
    let mode = |name: &str| {
        let metadata = std::fs::metadata(inner.join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    for name in ["sessions.db", "sessions.db-wal", "sessions.db-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    assert_eq!(mode(""), 0o700);
}

#[tokio::test]
async fn a_file_of_another_program_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let path = folder.path().join("sessions.db");
    std::fs::write(&path, "dear diary, ".repeat(1_000)).unwrap();
    let error = SqlStore::open(&config).await.unwrap_err().to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept.starts_with("dear diary"));

    std::fs::remove_file(&path).unwrap();
    let url = format!("sqlite://{}?mode=rwc", path.display());
    let mut other = SqliteConnection::connect(&url).await.unwrap();
    let table = "CREATE TABLE sessions (diary TEXT)";
    sqlx::query(table).execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqlStore::open(&config).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing was changed");
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    open(&config).await.close().await;
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    let newer = "PRAGMA user_version = 99";
    sqlx::query(newer).execute(&mut raw).await.unwrap();
    raw.close().await.unwrap();
    let path = config.file().unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqlStore::open(&config).await.unwrap_err().to_string();
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing was changed");
    assert!(error.contains("schema version 99"), "{error}");
    assert!(error.contains("up to 11"), "{error}");
}

#[tokio::test]
async fn an_older_schema_is_left_unchanged_when_upgrading_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    config.older_schema = OlderSchema::Refuse;
    let path = folder.path().join("sessions.db");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql/schema-8.db");
    std::fs::copy(fixture, &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqlStore::open(&config).await.unwrap_err();
    assert!(
        matches!(error, OpenError::Older { found: 8, .. }),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing was changed");

    config.older_schema = OlderSchema::Upgrade;
    open(&config).await.close().await;
    // A current file can be opened, and so can a new one.
    config.older_schema = OlderSchema::Refuse;
    open(&config).await.close().await;
    std::fs::remove_file(&path).unwrap();
    open(&config).await.close().await;
}

/// The files were written by the first code with each schema; they never change.
#[tokio::test]
async fn a_file_of_every_schema_version_is_read_completely() {
    for version in [
        "schema-1.db",
        "schema-2.db",
        "schema-3.db",
        "schema-4.db",
        "schema-5.db",
        "schema-6.db",
        "schema-7.db",
        "schema-8.db",
        "schema-9.db",
        "schema-10.db",
        "schema-11.db",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql");
        let fixture = std::path::Path::new(fixtures).join(version);
        std::fs::copy(fixture, folder.path().join("sessions.db")).unwrap();
        let store = open(&config_in(folder.path())).await;
        let sessions = store.sessions(&Default::default()).await.unwrap();
        let [session] = sessions.as_slice() else {
            panic!("one session is in the file: {sessions:?}")
        };
        let runs = store.runs(&session.id).await.unwrap();
        assert_eq!(runs.len(), 2);
        let head = store.verify(&session.id, None).await.unwrap();
        assert_eq!(head.records, 7);
        assert_eq!(store.history(&session.id).await.unwrap().len(), 1);
        assert_eq!(records(&store, runs[1].run_id).await.len(), 4);
        assert_eq!(store.unfinished().await.unwrap().len(), 1);
        // Usage is what the records state, whatever an older version had stored.
        let mut used = SessionMetrics::default();
        for run in &runs {
            let records = records(&store, run.run_id).await;
            used += &SessionMetrics::of_run(records.iter().map(AsRef::as_ref));
        }
        assert_eq!(store.metrics(&session.id).await, Ok(used));
        // The state that later versions store in addition exists and is empty.
        let carried = store.carried(&session.id).await.unwrap();
        assert_eq!(carried, neuraxis_core::log::Carried::default());
    }
}

/// Writes the files for the test above: `REGENERATE=1 cargo nextest run -p neuraxis-sql fixture`, only for a new
/// version.
#[tokio::test]
async fn a_fixture_of_the_newest_schema_version_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    config.lease = Duration::ZERO;
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.warn(&store, "slow").await.unwrap();
    busy.finish(&store).await.unwrap();
    let run = neuraxis_testkit::CountingIds::nth_run(2);
    busy.lease = store.begin_run(&busy.session, run).await.unwrap();
    busy.log = neuraxis_testkit::RunLog::new(run, busy.session.clone());
    let long = "long ".repeat(20_000);
    let all = [
        busy.log.started("And?"),
        busy.log.replied(neuraxis_testkit::reply::text("So.")),
        busy.log.warned(&long),
    ];
    store.commit(&busy.lease, &all).await.unwrap();
    busy.warn(&store, "slower").await.unwrap();
    store.close().await;
    let made = folder.path().join("sessions.db");
    assert!(std::fs::metadata(&made).unwrap().len() > 100_000);
    if std::env::var_os("REGENERATE").is_some() {
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql/schema-11.db");
        std::fs::copy(made, place).unwrap();
    }
}

/// Even the pages beside the file do not change, and opening does not wait for a concurrent writer.
#[tokio::test]
async fn opening_and_reading_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.finish(&store).await.unwrap();
    let mut writing = SqliteConnection::connect(&config.url).await.unwrap();
    let lock = sqlx::query("BEGIN IMMEDIATE");
    lock.execute(&mut writing).await.unwrap();
    let bytes = || {
        let of = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        (of("sessions.db"), of("sessions.db-wal"))
    };
    let before = bytes();
    config.patience = Duration::from_millis(50);
    let reading = open(&config).await;
    assert_eq!(reading.check().await.unwrap().runs, 1);
    assert_eq!(records(&reading, busy.run()).await, busy.records);
    assert_eq!(reading.unfinished().await.unwrap(), []);
    reading.close().await;
    assert!(bytes() == before, "something was written");
}

/// A backup is intact only as long as it is unchanged, and may be on a read-only disk.
#[tokio::test]
async fn a_backup_that_is_only_read_stays_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.finish(&store).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("sessions.db");
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    let copy = sqlx::query("VACUUM INTO $1").bind(backup.display().to_string());
    copy.execute(&mut raw).await.unwrap();
    raw.close().await.unwrap();
    let made = std::fs::read(&backup).unwrap();

    let store = open(&config_in(place.path())).await;
    store.verify(&busy.session, None).await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
    assert!(std::fs::read(&backup).unwrap() == made, "it was changed");
    let files = std::fs::read_dir(place.path()).unwrap();
    assert_eq!(files.count(), 1, "something was put beside it");
    Busy::new(&store, 2).await.finish(&store).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn deleted_data_is_no_longer_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&config_in(folder.path())).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.warn(&store, &"canary-7f3a ".repeat(20_000))
        .await
        .unwrap();
    busy.finish(&store).await.unwrap();
    let holds_it = || {
        ["sessions.db", "sessions.db-wal"].iter().any(|name| {
            let bytes = std::fs::read(folder.path().join(name)).unwrap();
            bytes.windows(11).any(|part| part == b"canary-7f3a")
        })
    };
    assert!(holds_it());
    store.delete_session(&busy.session).await.unwrap();
    assert!(
        !holds_it(),
        "a deleted session can still be read in the file"
    );
}

#[tokio::test]
async fn a_moved_file_accepts_only_writes_of_runs_in_progress() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&config_in(folder.path())).await;
    store.probe().await.unwrap();
    let mut busy = Busy::new(&store, 1).await;
    let free = Session::new(id("free"), START);
    store.create_session(&free).await.unwrap();
    let start = RunStart::new(free.id.clone(), CountingIds::nth_run(2));
    let enough = InboxInput::Cancelled(Cancelled::new(InputId::new("c1"), "enough"));
    let enough = InboxEntry::new(enough);
    let later = START.checked_add(Duration::from_secs(60)).unwrap();
    let [file, moved] = ["sessions.db", "old.db"].map(|name| folder.path().join(name));
    std::fs::rename(&file, &moved).unwrap();
    for is_replaced in [false, true] {
        if is_replaced {
            std::fs::write(&file, "").unwrap();
        }
        let probed = store.probe().await;
        assert!(
            matches!(&probed, Err(StoreError::Unavailable(told)) if told.contains("moved or replaced")),
            "{probed:?}"
        );
        let session = Session::new(id("new"), START);
        for refused in [
            store.create_session(&session).await,
            store.begin(&start).await.map(drop),
            store.post(busy.run(), &enough).await,
            store.delete_session(&free.id).await,
            store.prune(later).await.map(drop),
            store.revoke(&free.id, 1).await.map(drop),
        ] {
            assert!(
                matches!(&refused, Err(StoreError::Refused(told)) if told.contains("moved or replaced")),
                "{refused:?}"
            );
        }
        // Work on existing runs is stored in the file in which it began.
        busy.warn(&store, "still here").await.unwrap();
    }
    std::fs::rename(&moved, &file).unwrap();
    store.probe().await.unwrap();
    store.begin(&start).await.unwrap();
    store.post(busy.run(), &enough).await.unwrap();
}

/// SQLite deletes the log of an empty file.
#[tokio::test]
async fn the_wal_of_a_moved_file_is_left_until_the_file_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.finish(&store).await.unwrap();
    let [file, log, moved] =
        ["sessions.db", "sessions.db-wal", "old.db"].map(|name| folder.path().join(name));
    std::fs::rename(&file, &moved).unwrap();
    let kept = std::fs::read(&log).unwrap();
    assert!(!kept.is_empty());
    for is_made in [false, true] {
        if is_made {
            std::fs::write(&file, "").unwrap();
        }
        let refused = SqlStore::open(&config).await;
        assert!(
            matches!(&refused, Err(OpenError::Store(StoreError::Refused(told))) if told.contains("sessions.db-wal")),
            "{refused:?}"
        );
        assert_eq!(file.exists(), is_made);
        assert!(std::fs::read(&log).unwrap() == kept, "it was changed");
    }
    store.close().await;
    std::fs::rename(&moved, &file).unwrap();
    let store = open(&config).await;
    assert_eq!(records(&store, busy.run()).await, busy.records);
    store.close().await;

    // An empty log is no obstacle.
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&log, "").unwrap();
    let store = open(&config).await;
    assert_eq!(store.sessions(&SessionFilter::default()).await, Ok(vec![]));
}

#[tokio::test]
async fn a_url_that_names_no_database_is_refused_without_its_password() {
    for url in [
        "mysql://me:s3cret@db/nx",
        "sqlite::memory:",
        "postgres://me:s3cret@db:notaport/nx",
        "",
    ] {
        let error = SqlStore::open(&SqlConfig::new(url)).await.unwrap_err();
        assert!(matches!(error, OpenError::Url { .. }), "{url}: {error}");
        let told = format!("{error} {error:?}");
        assert!(!told.contains("s3cret"), "{told}");
    }
}

/// Returns how many of this process's open files have a path with this prefix.
#[cfg(target_os = "linux")]
fn open_files(path: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let files = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let path = path.to_string_lossy();
    files
        .filter(|file| file.to_string_lossy().starts_with(&*path))
        .count()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_store_has_no_file_open() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let file = folder.path().join(format!("{round}.db"));
        let url = format!("sqlite://{}", file.display());
        let store = open(&SqlConfig::new(url)).await;
        if round % 2 == 0 {
            store.sessions(&SessionFilter::default()).await.unwrap();
            assert!(open_files(&file) > 0);
        }
        store.close().await;
        assert_eq!(open_files(&file), 0, "round {round}");
    }
}

fn mode_of(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_symlink_in_place_of_a_database_file_is_refused_and_not_followed() {
    for name in ["sessions.db", "sessions.db-wal", "sessions.db-journal"] {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join(name)).unwrap();
        let error = SqlStore::open(&config_in(folder.path())).await.unwrap_err();
        assert!(matches!(error, OpenError::Unsafe(_)), "{name}: {error:?}");
        assert_eq!(std::fs::read(&victim).unwrap(), b"", "{name}");
    }
}

#[tokio::test]
async fn a_file_readable_by_others_is_made_private() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    open(&config).await.close().await;
    let file = folder.path().join("sessions.db");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o664)).unwrap();
    open(&config).await.close().await;
    assert_eq!(mode_of(&file), 0o600);
}

#[tokio::test]
async fn a_file_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    open(&config).await.close().await;
    let file = folder.path().join("sessions.db");
    if std::os::unix::fs::chown(&file, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let error = SqlStore::open(&config).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("uid 12345"), "{cause}");
}
