//! The histories that a store caches for runs that ended in it equal what other stores read.

use std::sync::Arc;

use neuraxis_core::{Record, SessionId, Transcript};
use neuraxis_ports::{RunLog as _, RunStart, Session, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{CountingIds, RunLog, START, reply};
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::support::{id, on_both, open};

/// The events of a run after its beginning, step by step.
fn steps(log: &mut RunLog, number: u64) -> Vec<Vec<Arc<Record>>> {
    match number % 4 {
        0 => vec![
            vec![log.replied(reply::calls([("look", "{}")]))],
            vec![log.warned("slow"), log.failed("gone")],
        ],
        1 => vec![vec![log.replied(reply::text("Yes.")), log.finished("Yes.")]],
        2 => {
            let long = "é".repeat(40_000);
            vec![
                vec![log.replied(reply::text(&long))],
                vec![log.finished(&long)],
            ]
        }
        _ => vec![vec![log.failed("no model")]],
    }
}

/// Runs a turn as the engine does: it first reads the state that the run starts from.
async fn turn(store: &SqlStore, number: u64) {
    turn_in(store, &id("main"), number).await;
}

async fn turn_in(store: &SqlStore, session: &SessionId, number: u64) {
    let run = CountingIds::nth_run(number);
    let before = store.continuation(session).await.unwrap();
    let mut log = RunLog::new(run, session.clone());
    let first = vec![log.started(&format!("question {number}"))];
    let mut start = RunStart::new(session.clone(), run).with_records(first);
    start.after = before.last_run;
    let lease = store.begin(&start).await.unwrap();
    for step in steps(&mut log, number) {
        store.commit(&lease, &step).await.unwrap();
    }
}

async fn history(store: &SqlStore) -> Transcript {
    store.history(&id("main")).await.unwrap()
}

fn said(history: &Transcript, text: &str) -> bool {
    history.messages().iter().any(|it| it.text() == text)
}

async fn session_in(config: &SqlConfig) -> SqlStore {
    let store = open(config).await;
    let session = Session::new(id("main"), START);
    store.create_session(&session).await.unwrap();
    store
}

on_both! {
    all_stores_read_the_same_history_whichever_drove_the_runs
    a_history_contains_nothing_that_the_database_has_lost
}

/// Runs of one session end in two stores, alternately.
async fn all_stores_read_the_same_history_whichever_drove_the_runs(config: SqlConfig) {
    let (here, there) = (session_in(&config).await, open(&config).await);
    for number in 1..=12 {
        let store = if number % 5 == 0 { &there } else { &here };
        turn(store, number).await;
        let left = history(&open(&config).await).await;
        let question = format!("question {number}");
        assert!(
            said(&left, &question) && said(&left, "question 1"),
            "{left:?}"
        );
        for reader in [&here, &there] {
            assert_eq!(history(reader).await, left, "{number}");
            let continuation = reader.continuation(&id("main")).await.unwrap();
            assert_eq!(continuation.history, left, "{number}");
        }
    }
}

/// Deletes everything from a database that is in use, which then assigns its keys again. This is like a promoted server
/// that had not received the data.
async fn lose_all(config: &SqlConfig) {
    if config.url.starts_with("sqlite:") {
        let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
        let lose = "DELETE FROM steps; DELETE FROM payloads; DELETE FROM runs; DELETE FROM sessions; DELETE FROM sqlite_sequence";
        sqlx::raw_sql(lose).execute(&mut raw).await.unwrap();
    } else {
        let mut raw = PgConnection::connect(&config.url).await.unwrap();
        let lose = "TRUNCATE neuraxis.steps, neuraxis.payloads, neuraxis.runs, neuraxis.sessions RESTART IDENTITY";
        sqlx::raw_sql(lose).execute(&mut raw).await.unwrap();
    }
}

/// Bob's sessions and runs have the keys that Ann's had.
async fn a_history_contains_nothing_that_the_database_has_lost(config: SqlConfig) {
    let store = open(&config).await;
    let (ann, bob) = (id("ann"), id("bob"));
    let session = Session::new(ann.clone(), START);
    store.create_session(&session).await.unwrap();
    for number in [1, 2, 5] {
        turn_in(&store, &ann, number).await;
    }
    assert!(said(&store.history(&ann).await.unwrap(), "question 5"));

    lose_all(&config).await;
    let session = Session::new(bob.clone(), START);
    store.create_session(&session).await.unwrap();
    for number in [6, 7, 9, 10] {
        turn_in(&store, &bob, number).await;
        let left = open(&config).await.history(&bob).await.unwrap();
        let question = format!("question {number}");
        assert!(said(&left, &question) && said(&left, "question 6"));
        assert_eq!(store.history(&bob).await.unwrap(), left, "{number}");
        let continuation = store.continuation(&bob).await.unwrap();
        assert_eq!(continuation.history, left, "{number}");
    }
}

#[tokio::test]
async fn a_session_continued_in_one_store_is_read_only_once() {
    let config = crate::support::file_config();
    let store = session_in(&config).await;
    turn(&store, 1).await;
    turn(&store, 2).await;
    turn(&store, 5).await;
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    let gone = sqlx::query("DELETE FROM steps WHERE run > 1");
    let gone = gone.execute(&mut raw).await.unwrap();
    assert!(gone.rows_affected() > 2);
    // Servers look for old sessions every hour.
    assert_eq!(store.prune(START).await, Ok(0));
    let known = history(&store).await;
    assert!(
        said(&known, "question 2") && said(&known, "question 5"),
        "{known:?}"
    );
    let elsewhere = open(&config).await.history(&id("main")).await;
    assert_ne!(elsewhere.ok(), Some(known), "others do read it");
}
