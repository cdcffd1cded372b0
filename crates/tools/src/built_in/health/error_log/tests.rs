#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::*;

/// Returns a log whose journal program is a shell script, without log files unless some are added.
fn log(folder: &Path, script: &str) -> ErrorLog {
    let program = folder.join("journal");
    // Written by another process: a file that any thread of this process has open for writing cannot be executed.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let written = Command::new("/bin/sh")
        .args(["-c", write, "sh", script])
        .arg(&program)
        .status()
        .unwrap();
    assert!(written.success());
    ErrorLog {
        journal_program: program.into(),
        files: Vec::new(),
    }
}

fn no_journal(files: Vec<PathBuf>) -> ErrorLog {
    ErrorLog {
        journal_program: "/nonexistent/journal".into(),
        files,
    }
}

#[tokio::test]
async fn the_journal_is_read_first_without_its_own_remarks() {
    let folder = TempDir::new().unwrap();
    let log = log(folder.path(), "echo '-- Boot 1 --'; echo 'disk: I/O error'");
    let found = log.read().await.unwrap();
    assert_eq!(found.lines, ["disk: I/O error"]);
    assert_eq!(
        found.summary(),
        "1 error line in the system journal, the latest: disk: I/O error"
    );
}

#[tokio::test]
async fn a_journal_without_errors_is_reported_as_such() {
    let folder = TempDir::new().unwrap();
    let found = log(folder.path(), "echo '-- No entries --'")
        .read()
        .await
        .unwrap();
    assert_eq!(found.summary(), "no errors in the system journal");
}

#[tokio::test]
async fn large_journal_output_is_bounded_and_does_not_block() {
    let folder = TempDir::new().unwrap();
    let found = log(
        folder.path(),
        "yes error | head -c 3000000; echo; echo last",
    )
    .read()
    .await
    .unwrap();
    assert_eq!(found.lines.len(), ERROR_LOG_MAX_LINES);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_journal_times_out() {
    let folder = TempDir::new().unwrap();
    let why = log(folder.path(), "exec sleep 600")
        .read()
        .await
        .unwrap_err();
    assert!(
        why.starts_with("journalctl took longer than 3 seconds"),
        "{why}"
    );
}

#[tokio::test]
async fn without_a_journal_the_log_files_are_searched_for_errors() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("messages");
    fs::write(
        &file,
        "all is well\nkernel: ERROR one\nkernel: panic\x1b[0m two\n",
    )
    .unwrap();
    let found = no_journal(vec![folder.path().join("syslog"), file])
        .read()
        .await
        .unwrap();
    assert_eq!(found.lines, ["kernel: ERROR one", "kernel: panic [0m two"]);
}

#[tokio::test]
async fn only_the_end_of_a_big_log_file_is_read() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("syslog");
    let filler = format!("{}\n", "x".repeat(1_000)).repeat(1_000);
    fs::write(
        &file,
        format!("error at the beginning\n{filler}error at the end\n"),
    )
    .unwrap();
    let found = no_journal(vec![file]).read().await.unwrap();
    assert_eq!(found.lines, ["error at the end"]);
}

#[tokio::test]
async fn when_nothing_can_be_read_every_reason_is_given() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("syslog");
    let why = no_journal(vec![missing.clone(), folder.path().to_owned()])
        .read()
        .await
        .unwrap_err();
    let (missing, folder) = (missing.display(), folder.path().display());
    let expected = format!(
        "there is no journalctl; there is no {missing}; {folder} cannot be read: it is not a regular file"
    );
    assert_eq!(why, expected);
}

#[tokio::test]
async fn a_failing_journal_is_reported_as_a_reason() {
    let folder = TempDir::new().unwrap();
    let why = log(folder.path(), "echo 'No journal files were found.' >&2")
        .read()
        .await
        .unwrap_err();
    assert!(why.starts_with("there is no journal"), "{why}");
    let why = log(folder.path(), "exit 3").read().await.unwrap_err();
    assert!(
        why.starts_with("journalctl failed (exit status: 3)"),
        "{why}"
    );
}
