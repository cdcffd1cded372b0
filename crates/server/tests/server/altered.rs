//! Sessions whose log was altered outside the store.

use std::fs;

use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

use crate::support::Program;
use crate::support::client::answer;

/// A folder with a configuration that keeps sessions in a file there, and requires a user's approval to read the clock.
fn configured() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let text = format!(
        "[store]\nurl = \"sqlite://{place}/sessions.db\"\n[rules.clock]\nanswer = 'ask'\ntools = ['current_time']"
    );
    fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    folder
}

async fn database(folder: &TempDir) -> SqliteConnection {
    let url = format!("sqlite://{}", folder.path().join("sessions.db").display());
    SqliteConnection::connect(&url).await.unwrap()
}

/// Returns all stored data of the sessions and their runs.
async fn kept(folder: &TempDir) -> Vec<(String, i64, Vec<u8>)> {
    let sql = "SELECT hex(runs.id), first_seq, body FROM runs LEFT JOIN steps ON steps.run = runs.key \
               UNION ALL SELECT id, 0, X'' FROM sessions";
    let mut database = database(folder).await;
    sqlx::query_as(sql).fetch_all(&mut database).await.unwrap()
}

/// Changes the question in the log of the session `s`.
async fn alter(folder: &TempDir) {
    let sql = "UPDATE steps SET body = CAST(replace(CAST(body AS TEXT), 'What ', 'When ') AS BLOB) \
               WHERE first_seq = 1 AND run IN (SELECT runs.key FROM runs JOIN sessions \
               ON sessions.key = runs.session WHERE sessions.id = 's')";
    let altered = sqlx::query(sql).execute(&mut database(folder).await).await;
    assert_eq!(altered.unwrap().rows_affected(), 1);
}

fn hello() -> Value {
    json!({"message": "What can you do?"})
}

#[tokio::test]
async fn an_altered_session_starts_no_run_and_nothing_is_written() {
    let program = Program::start_in(configured(), |_| {}).await;
    for session in ["s", "other"] {
        assert_eq!(program.client().ask(session, &hello()).await.0, 200);
    }
    let folder = program.stopped().await;
    alter(&folder).await;
    let before = kept(&folder).await;

    let program = Program::start_in(folder, |command| {
        command.env("NEURAXIS_SERVER__ACCESS_LOG", "json");
    })
    .await;
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
    let line = lines.find(|line| line.contains("a session was altered after it was stored"));
    let line = line.unwrap_or_default();
    assert!(line.contains("request{id=altered-1}"), "{log}");
    assert!(log.contains("the step of run"), "it says where: {log}");
    let folder = program.stopped().await;
    assert_eq!(kept(&folder).await, before);

    let program = Program::start_in(folder, |_| {}).await;
    let (status, _) = program.client().ask("other", &hello()).await;
    assert_eq!(status, 200, "other sessions go on");
}

#[tokio::test]
async fn cancelling_or_steering_a_run_of_an_altered_session_is_refused() {
    let program = Program::start_in(configured(), |_| {}).await;
    let client = program.client();
    let (_, result) = client
        .ask("s", &json!({"message": "What time is it?"}))
        .await;
    assert_eq!(result["status"], "waiting", "{result}");
    let run = result["run_id"].as_str().unwrap();
    let folder = program.stopped().await;
    alter(&folder).await;

    let program = Program::start_in(folder, |_| {}).await;
    for (what, body) in [("cancel", json!({})), ("steer", json!({"message": "Now."}))] {
        let request = program.client().post(&format!("/api/v1/runs/{run}/{what}"));
        let request = request.header("content-type", "application/json");
        let (status, problem) = answer(request.body(body.to_string())).await;
        assert_eq!(status, 409, "{what}: {problem}");
        assert_eq!(problem["type"], "/errors/session-altered", "{what}");
    }
}
