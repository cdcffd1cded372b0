//! The copy of the log: the same lines in the order of the commits, in rotating files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use neuraxis_ports::RunLog as _;
use neuraxis_sql::{LogCopy, OpenError, SqlConfig, SqlStore};
use neuraxis_testkit::{CountingIds, RunLog};

use crate::support::{Busy, config_in, file_config, on_both, open};

on_both! {
    each_record_is_copied_once_in_the_order_of_the_commits
    log_copy_files_rotate_by_size_and_the_oldest_are_deleted
}

/// Returns the lines of all files, the oldest first.
fn copied(folder: &Path) -> Vec<String> {
    let name = |number: u32| match number {
        0 => folder.join("records.jsonl"),
        _ => folder.join(format!("records.{number}.jsonl")),
    };
    let files = (0..10)
        .rev()
        .filter_map(|it| fs::read_to_string(name(it)).ok());
    files
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

async fn each_record_is_copied_once_in_the_order_of_the_commits(mut config: SqlConfig) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new/copy");
    config.log = Some(LogCopy::new(&place));
    let store = open(&config).await;
    let mut one = Busy::new(&store, 1).await;
    let mut other = Busy::new(&store, 2).await;
    one.warn(&store, "first").await.unwrap();
    other.warn(&store, &"long ".repeat(20_000)).await.unwrap();
    one.warn(&store, "line\nbreak").await.unwrap();
    // A refused step is not copied.
    let late = [other.records[0].clone()];
    assert!(store.commit(&other.lease, &late).await.is_err());
    one.finish(&store).await.unwrap();
    store.close().await;
    let expected = [
        &one.records[0],
        &other.records[0],
        &one.records[1],
        &other.records[1],
        &one.records[2],
        &one.records[3],
    ];
    let expected: Vec<_> = expected.iter().map(|record| record.to_json()).collect();
    assert_eq!(copied(&place), expected);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    assert_eq!(mode(&place.join("records.jsonl")), 0o600);
    // It continues where it stopped.
    let store = open(&config).await;
    Busy::new(&store, 3).await;
    store.close().await;
    assert_eq!(copied(&place).len(), 7);
}

/// The process was killed while writing, or the disk was full.
#[tokio::test]
async fn a_record_after_a_truncated_one_starts_on_its_own_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = file_config();
    config.log = Some(LogCopy::new(folder.path()));
    let store = open(&config).await;
    Busy::new(&store, 1).await;
    store.close().await;
    let file = folder.path().join("records.jsonl");
    let whole = fs::read(&file).unwrap();
    let cut_off = &whole[..whole.len() - 10];
    fs::write(&file, cut_off).unwrap();

    let store = open(&config).await;
    assert_eq!(fs::read(&file).unwrap(), cut_off, "nothing is written yet");
    let next = Busy::new(&store, 2).await;
    store.close().await;
    let lines = copied(folder.path());
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].as_bytes(), cut_off);
    assert_eq!(lines[1], next.records[0].to_json());
}

async fn log_copy_files_rotate_by_size_and_the_oldest_are_deleted(mut config: SqlConfig) {
    let folder = tempfile::tempdir().unwrap();
    let mut log = LogCopy::new(folder.path());
    log.max_bytes = 4_000;
    log.files = 3;
    config.log = Some(log);
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    for number in 0..40 {
        busy.warn(&store, &format!("{number} {}", "x".repeat(500)))
            .await
            .unwrap();
    }
    store.close().await;
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(files.len(), 3);
    for file in files {
        assert!(file.metadata().unwrap().len() <= 4_000);
    }
    let lines = copied(folder.path());
    let last: Vec<_> = busy.records.iter().map(|record| record.to_json()).collect();
    // The remaining lines are the end of the log, without a gap.
    assert!(lines.len() >= 10);
    assert_eq!(lines, last[last.len() - lines.len()..]);
}

#[test]
fn a_log_copy_that_was_moved_away_is_followed_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let append = LogCopy::new(folder.path()).appender().unwrap();
    let mut log = RunLog::new(CountingIds::nth_run(1), "main".parse().unwrap());
    append(&[log.started("Hello?")]);
    let file = folder.path().join("records.jsonl");
    fs::rename(&file, folder.path().join("kept.jsonl")).unwrap();
    let next = log.finished("Hi.");
    append(std::slice::from_ref(&next));
    assert_eq!(copied(folder.path()), [next.to_json()]);
}

#[tokio::test]
async fn a_log_copy_folder_that_cannot_be_created_is_reported_on_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let mut config = config_in(folder.path());
    config.log = Some(LogCopy::new(file.join("copy")));
    let error = SqlStore::open(&config).await.unwrap_err();
    assert!(matches!(error, OpenError::LogCopy { .. }), "{error}");
}

#[tokio::test]
async fn a_failing_log_copy_loses_nothing_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("copy");
    let mut config = config_in(folder.path());
    let mut log = LogCopy::new(&place);
    log.max_bytes = 1;
    config.log = Some(log);
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    fs::remove_dir_all(&place).unwrap();
    fs::write(&place, "in the way").unwrap();
    busy.warn(&store, "kept").await.unwrap();
    busy.finish(&store).await.unwrap();
    assert_eq!(
        crate::support::records(&store, busy.run()).await,
        busy.records
    );
}

#[tokio::test]
async fn a_symlink_in_place_of_the_log_copy_or_its_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim.rc");
    fs::write(&victim, "").unwrap();
    let place = folder.path().join("log");
    fs::create_dir(&place).unwrap();
    std::os::unix::fs::symlink(&victim, place.join("records.jsonl")).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&place, &link).unwrap();
    for place in [place, link] {
        let mut config = config_in(folder.path());
        config.log = Some(LogCopy::new(&place));
        let refused = SqlStore::open(&config).await;
        assert!(
            matches!(refused, Err(OpenError::LogCopy { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

#[tokio::test]
async fn a_log_copy_replaced_by_a_symlink_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("log");
    let mut config = config_in(folder.path());
    config.log = Some(LogCopy::new(&place));
    open(&config).await.close().await;
    let victim = folder.path().join("victim.rc");
    fs::write(&victim, "").unwrap();
    fs::remove_file(place.join("records.jsonl")).unwrap();
    std::os::unix::fs::symlink(&victim, place.join("records.jsonl")).unwrap();
    assert!(SqlStore::open(&config).await.is_err());
    assert_eq!(fs::read(&victim).unwrap(), b"");
}
