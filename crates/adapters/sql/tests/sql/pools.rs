//! A store in a program's existing pool, and one behind a pooler.

use std::time::Duration;

use neuraxis_ports::{Session, SessionIndex as _};
use neuraxis_sql::{PgPool, SqlConfig, SqlStore};
use neuraxis_testkit::START;
use sqlx::postgres::PgPoolOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{id, open, server_config};

/// The number of connections in the pool.
const FEW: u32 = 2;

async fn pool_of(url: &str) -> PgPool {
    let options = PgPoolOptions::new().max_connections(FEW);
    // The pool's owner has settings that are not the defaults.
    let options = options.after_connect(|connection, _| {
        Box::pin(async move {
            let set = "SET search_path = 'theirs'; SET statement_timeout = '7s'";
            sqlx::raw_sql(set).execute(connection).await.map(drop)
        })
    });
    options.connect(url).await.unwrap()
}

/// Checks that every connection of a pool has its original settings.
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
async fn a_store_in_a_pool_uses_its_database_and_returns_connections_unchanged() {
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
    // A store that names the database finds the same data.
    let other = open(&of_server).await;
    assert_eq!(other.session(&session.id).await.unwrap(), session);
    // A reader that gives up early leaves nothing behind.
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
async fn reads_use_only_pool_connections_and_time_out_when_none_is_free() {
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

/// Starts a proxy that refuses the startup options that a pooler refuses, and returns the URL of a server through it.
async fn by_way_of_a_pooler(url: &str) -> String {
    let (before, target) = url.split_once('@').unwrap();
    let (address, database) = target.split_once('/').unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = address.to_owned();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pooled(client, address.clone()));
        }
    });
    format!("{before}@127.0.0.1:{port}/{database}?sslmode=disable")
}

async fn pooled(mut client: TcpStream, address: String) {
    // The first message begins with its length, including the length field.
    let length = client.read_u32().await.unwrap();
    let mut first = vec![0; usize::try_from(length).unwrap() - 4];
    client.read_exact(&mut first).await.unwrap();
    let mut words = first.split(|byte| *byte == 0);
    if words.any(|word| word == b"options" || word == b"extra_float_digits") {
        return;
    }
    let mut server = TcpStream::connect(&address).await.unwrap();
    server.write_u32(length).await.unwrap();
    server.write_all(&first).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn tables_are_created_in_their_schema_behind_a_pooler_that_drops_options() {
    let of_server = server_config();
    let pooled = SqlConfig::new(by_way_of_a_pooler(&of_server.url).await);
    let store = open(&pooled).await;
    let session = Session::new(id("main"), START);
    store.create_session(&session).await.unwrap();
    assert_eq!(store.session(&session.id).await.unwrap(), session);
    // Stores without the pooler find the same data.
    let direct = open(&of_server).await;
    assert_eq!(direct.session(&session.id).await.unwrap(), session);
}

/// Limits set after connecting apply to the connection: the server itself cancels statements that no caller waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn each_connection_of_a_store_has_its_time_limits() {
    use sqlx::Connection as _;

    let mut config = server_config();
    config.patience = Duration::from_millis(300);
    let store = open(&config).await;
    let session = Session::new(id("main"), START);
    store.create_session(&session).await.unwrap();
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    for sql in ["BEGIN", "LOCK TABLE neuraxis.sessions"] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    assert!(store.session(&session.id).await.is_err());
    let other = Session::new(id("other"), START);
    assert!(store.create_session(&other).await.is_err());
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let started = std::time::Instant::now();
    while sqlx::query_scalar::<_, i64>(waiting)
        .fetch_one(&mut raw)
        .await
        .unwrap()
        > 0
    {
        assert!(started.elapsed() < Duration::from_secs(10), "it waits on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
