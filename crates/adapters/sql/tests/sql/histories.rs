//! What a store has at hand of the runs that ended in it is what others read.

use std::sync::Arc;

use neuraxis_core::{Record, Transcript};
use neuraxis_ports::{RunLog as _, RunStart, Session, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{CountingIds, RunLog, START, reply};
use sqlx::{Connection, SqliteConnection};

use crate::support::{id, on_both, open};

/// What happens in a run after its beginning, step by step.
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

/// Runs a turn as the engine does: what it goes on from is read first.
async fn turn(store: &SqlStore, number: u64) {
    let (session, run) = (id("main"), CountingIds::nth_run(number));
    let before = store.standing(&session).await.unwrap();
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
    whoever_ran_them_all_read_the_same
}

/// Runs of one session end in two stores, in turns.
async fn whoever_ran_them_all_read_the_same(config: SqlConfig) {
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
            let standing = reader.standing(&id("main")).await.unwrap();
            assert_eq!(standing.history, left, "{number}");
        }
    }
}

#[tokio::test]
async fn a_session_that_goes_on_in_one_store_is_read_once() {
    let config = crate::support::file_config();
    let store = session_in(&config).await;
    turn(&store, 1).await;
    turn(&store, 2).await;
    turn(&store, 5).await;
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    let gone = sqlx::query("DELETE FROM steps WHERE run > 1");
    let gone = gone.execute(&mut raw).await.unwrap();
    assert!(gone.rows_affected() > 2);
    let known = history(&store).await;
    assert!(
        said(&known, "question 2") && said(&known, "question 5"),
        "{known:?}"
    );
    let elsewhere = open(&config).await.history(&id("main")).await;
    assert_ne!(elsewhere.ok(), Some(known), "others do read it");
}
