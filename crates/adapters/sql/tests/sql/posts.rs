//! Posts to a run that ends at the same time.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};

use crate::support::{Busy, open, server_config};

/// A statement on a server sees the data from when it began, and then waits for the row of the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn input_posted_just_before_a_run_ends_is_removed_from_its_inbox() {
    let config = server_config();
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    let mut other = PgConnection::connect(&config.url).await.unwrap();
    for sql in [
        "BEGIN",
        "SELECT key FROM neuraxis.runs FOR UPDATE",
        "INSERT INTO neuraxis.inbox (run, id, hash, body) \
         SELECT key, 'late', ''::bytea, '{}'::bytea FROM neuraxis.runs",
    ] {
        sqlx::query(sql).execute(&mut other).await.unwrap();
    }
    let posts = async {
        let waits = "SELECT pid FROM pg_locks WHERE NOT granted";
        let mut watching = PgConnection::connect(&config.url).await.unwrap();
        loop {
            let waits = sqlx::query(waits).fetch_optional(&mut watching).await;
            if waits.unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        sqlx::query("COMMIT").execute(&mut other).await.unwrap();
    };
    let (ended, ()) = tokio::join!(busy.finish(&store), posts);
    assert_eq!(ended, Ok(()));
    let left = "SELECT count(*) FROM neuraxis.inbox WHERE body IS NOT NULL";
    let left: (i64,) = sqlx::query_as(left).fetch_one(&mut other).await.unwrap();
    assert_eq!(left, (0,));
}
