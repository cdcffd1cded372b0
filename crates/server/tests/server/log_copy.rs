//! `[store.log]` in the program's configuration: the log of its database, copied as JSON Lines.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use neuraxis::core::Seq;
use neuraxis::ports::{RunLog as _, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use serde_json::json;
use tempfile::TempDir;

use crate::support::Program;
use crate::support::program::command;

/// A folder with a configuration that copies the log into `copy`.
fn configured(more: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let text = format!(
        "[store]\nurl = \"sqlite://{place}/sessions.db\"\n[store.log]\nfolder = \"{place}/copy\"\n{more}"
    );
    fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    folder
}

/// Takes a turn in each session, one after the other.
async fn talk(program: &Program, sessions: &[&str]) {
    for session in sessions {
        let body = json!({"message": format!("What can you do, {session}?")});
        let (status, received) = program.client().ask(session, &body).await;
        assert_eq!(status, 200, "{received}");
    }
}

/// Returns the records that the database holds for each session, in the format of the copy.
async fn kept(folder: &Path, sessions: &[&str]) -> Vec<String> {
    let url = format!("sqlite://{}", folder.join("sessions.db").display());
    let store = SqlStore::open(&SqlConfig::new(url)).await.unwrap();
    let mut lines = Vec::new();
    for session in sessions {
        for run in store.runs(&session.parse().unwrap()).await.unwrap() {
            let records = store.records(run.run_id, Seq(0)).await.unwrap();
            lines.extend(records.iter().map(|record| record.to_json()));
        }
    }
    lines
}

/// Returns the lines of the copy, oldest first.
fn copied(folder: &Path) -> Vec<String> {
    let older = (1..).map(|number| folder.join(format!("records.{number}.jsonl")));
    let mut files: Vec<_> = older.take_while(|file| file.exists()).collect();
    files.reverse();
    files.push(folder.join("records.jsonl"));
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_copy_holds_the_records_of_the_database_and_is_private() {
    const SESSIONS: [&str; 3] = ["one", "two", "three"];
    let folder = configured("");
    let copy = folder.path().join("copy");
    let program = Program::start_in(folder, |_| {}).await;
    talk(&program, &SESSIONS).await;
    let folder = program.folder().to_owned();
    assert_eq!(copied(&copy), kept(&folder, &SESSIONS).await);
    assert_eq!(
        (mode(&copy), mode(&copy.join("records.jsonl"))),
        (0o700, 0o600)
    );
    // The next server continues where this one stopped.
    let folder = program.stopped().await;
    let program = Program::start_in(folder, |_| {}).await;
    talk(&program, &["four"]).await;
    let lines = copied(&copy);
    let expected = kept(program.folder(), &["one", "two", "three", "four"]).await;
    assert!(expected.len() >= 12, "{expected:?}");
    assert_eq!(lines, expected);
    program.stopped().await;
}

#[tokio::test]
async fn the_copy_rotates_by_size_and_keeps_a_limited_number_of_files() {
    const SESSIONS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    const MAX_BYTES: u64 = 24_000;
    let folder = configured(&format!("max_bytes = {MAX_BYTES}\nfiles = 3\n"));
    let copy = folder.path().join("copy");
    let program = Program::start_in(folder, |_| {}).await;
    talk(&program, &SESSIONS).await;
    let files: Vec<_> = fs::read_dir(&copy).unwrap().flatten().collect();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        assert!(file.metadata().unwrap().len() <= MAX_BYTES, "{file:?}");
        assert_eq!(mode(&file.path()), 0o600);
    }
    // The remaining part is the end of the log, without a gap.
    let lines = copied(&copy);
    let all = kept(program.folder(), &SESSIONS).await;
    assert!(!lines.is_empty() && lines.len() < all.len());
    assert_eq!(lines, all[all.len() - lines.len()..]);
    program.stopped().await;
}

#[tokio::test]
async fn an_unwritable_copy_folder_prevents_the_start_and_is_named() {
    let folder = configured("");
    // A file occupies the folder's path, so not even root can write there.
    let copy = folder.path().join("copy");
    fs::write(&copy, "in the way").unwrap();
    let output = command(folder.path()).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = "error: neuraxis.toml:4:1: store.log.folder: the log cannot be copied there";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains(&copy.display().to_string()), "{said}");
    assert_eq!(
        said.lines()
            .filter(|line| line.contains("panicked"))
            .count(),
        0
    );
    assert_eq!(fs::read_to_string(&copy).unwrap(), "in the way");
}

/// A folder with a configuration that copies the log of its own database into another folder.
fn sharing(copy: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (place, copy) = (folder.path().display(), copy.display());
    let text = format!(
        "[store]\nurl = \"sqlite://{place}/sessions.db\"\n[store.log]\nfolder = \"{copy}\"\n"
    );
    fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    folder
}

#[tokio::test]
async fn a_folder_to_which_another_live_server_copies_causes_a_warning() {
    const WARNING: &str = "another process copies its log into this folder";
    let shared = tempfile::tempdir().unwrap();
    let copy = shared.path().join("copy");
    let first = Program::start_in(sharing(&copy), |_| {}).await;
    let second = Program::start_in(sharing(&copy), |_| {}).await;
    assert!(!first.log().contains(WARNING), "{}", first.log());
    let log = second.log();
    assert!(log.contains(WARNING), "{log}");
    assert!(log.contains(&copy.display().to_string()), "{log}");
    // This only causes a warning: it serves, and copies.
    talk(&second, &["one"]).await;
    assert!(!copied(&copy).is_empty());
    first.stopped().await;
    second.stopped().await;
    let third = Program::start_in(sharing(&copy), |_| {}).await;
    assert!(!third.log().contains(WARNING), "{}", third.log());
}
