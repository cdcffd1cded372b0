//! A store in the pool that a program has already.

use std::time::Duration;

use neuraxis_ports::{Session, SessionIndex as _};
use neuraxis_sql::{PgPool, SqlConfig, SqlStore};
use neuraxis_testkit::START;
use sqlx::postgres::PgPoolOptions;

use crate::support::{id, open, server_config};

/// The connections that the pool has.
const FEW: u32 = 2;

async fn pool_of(url: &str) -> PgPool {
    let options = PgPoolOptions::new().max_connections(FEW);
    // Whoever made the pool has settings of its own, which are no defaults.
    let options = options.after_connect(|connection, _| {
        Box::pin(async move {
            let set = "SET search_path = 'theirs'; SET statement_timeout = '7s'";
            sqlx::raw_sql(set).execute(connection).await.map(drop)
        })
    });
    options.connect(url).await.unwrap()
}

/// Checks that every connection of a pool has the settings that it was made with.
async fn assert_as_they_were(pool: &PgPool) {
    let mut connections = Vec::new();
    for _ in 0..FEW {
        connections.push(pool.acquire().await.unwrap());
    }
    for mut connection in connections {
        let set = "SELECT current_setting('search_path'), current_setting('statement_timeout')";
        let set: (String, String) = sqlx::query_as(set)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
        assert_eq!(set, ("theirs".to_owned(), "7s".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_store_in_a_pool_has_the_pools_database_and_gives_its_connections_back_as_they_were() {
    let of_server = server_config();
    let pool = pool_of(&of_server.url).await;
    let store = SqlStore::open_in_pool(&pool, &SqlConfig::new(""))
        .await
        .unwrap();
    let session = Session::new(id("main"), START);
    store.create_session(&session).await.unwrap();
    for _ in 0..10 {
        assert_eq!(store.session(&session.id).await.unwrap(), session);
    }
    assert_as_they_were(&pool).await;
    // What is kept there is found by whoever names the database.
    let other = open(&of_server).await;
    assert_eq!(other.session(&session.id).await.unwrap(), session);
    // Who reads and does not wait for it leaves nothing behind.
    for _ in 0..50 {
        let read = store.session(&session.id);
        let _ = tokio::time::timeout(Duration::from_micros(300), read).await;
    }
    assert_as_they_were(&pool).await;
    store.close().await;
    assert!(!pool.is_closed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn reading_takes_no_connection_beside_those_of_the_pool_and_waits_for_one_in_time() {
    let of_server = server_config();
    let pool = pool_of(&of_server.url).await;
    let mut config = SqlConfig::new("");
    config.patience = Duration::from_millis(300);
    let store = SqlStore::open_in_pool(&pool, &config).await.unwrap();
    let session = Session::new(id("main"), START);
    store.create_session(&session).await.unwrap();
    let mut taken = Vec::new();
    for _ in 0..FEW {
        taken.push(pool.acquire().await.unwrap());
    }
    let error = store.session(&session.id).await.unwrap_err();
    assert!(error.to_string().contains("no answer in time"), "{error}");
    drop(taken);
    assert_eq!(store.session(&session.id).await.unwrap(), session);
}
