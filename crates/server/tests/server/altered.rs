//! Sessions whose log was altered behind the store's back.

use std::fs;

use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

use crate::support::Program;

/// A folder with a configuration that keeps sessions in a file there.
fn configured() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let text = format!("[store]\nurl = \"sqlite://{place}/sessions.db\"");
    fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    folder
}

async fn database(folder: &TempDir) -> SqliteConnection {
    let url = format!("sqlite://{}", folder.path().join("sessions.db").display());
    SqliteConnection::connect(&url).await.unwrap()
}

/// Everything that the sessions and their runs consist of.
async fn kept(folder: &TempDir) -> Vec<(String, i64, Vec<u8>)> {
    let sql = "SELECT hex(runs.id), first_seq, body FROM runs LEFT JOIN steps ON steps.run = runs.key \
               UNION ALL SELECT id, 0, X'' FROM sessions";
    let mut database = database(folder).await;
    sqlx::query_as(sql).fetch_all(&mut database).await.unwrap()
}

fn hello() -> Value {
    json!({"message": "What can you do?"})
}

#[tokio::test]
async fn nothing_goes_on_from_a_session_that_was_altered_and_nothing_is_written() {
    let program = Program::start_in(configured(), |_| {}).await;
    for session in ["s", "other"] {
        assert_eq!(program.client().ask(session, &hello()).await.0, 200);
    }
    let folder = program.stopped().await;
    let sql = "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'can you', 'did you') AS BLOB) \
               WHERE first_seq = 1 AND run IN (SELECT runs.key FROM runs JOIN sessions \
               ON sessions.key = runs.session WHERE sessions.id = 's')";
    let altered = sqlx::query(sql).execute(&mut database(&folder).await).await;
    assert_eq!(altered.unwrap().rows_affected(), 1);
    let before = kept(&folder).await;

    let program = Program::start_in(folder, |_| {}).await;
    let client = program.client();
    for key in [None, Some("k1")] {
        let request = client.turn("s", &hello());
        let mut request = request.header("x-request-id", "altered-1");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 409);
        let problem: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(problem["type"], "/errors/session-altered");
        assert_eq!(problem["session_id"], "s");
        assert!(!problem.to_string().contains("step of run"), "{problem}");
    }
    let log = program.log();
    let mut lines = log.lines();
    let line = lines.find(|line| line.contains("a session was altered since it was kept"));
    let line = line.unwrap_or_default();
    assert!(line.contains("request{id=altered-1}"), "{log}");
    assert!(log.contains("the step of run"), "it says where: {log}");
    let folder = program.stopped().await;
    assert_eq!(kept(&folder).await, before);

    let program = Program::start_in(folder, |_| {}).await;
    let (status, _) = program.client().ask("other", &hello()).await;
    assert_eq!(status, 200, "other sessions go on");
}
