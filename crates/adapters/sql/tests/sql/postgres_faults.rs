//! A server that crashes, or no longer answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use neuraxis_ports::{SessionStore, StoreError};
use neuraxis_sql::{OpenError, SqlConfig, SqlStore};
use neuraxis_testkit::Postgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Busy, open, records};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_server_that_crashed_is_reached_again_and_nothing_is_kept_twice() {
    let mut server = Postgres::start();
    let mut config = SqlConfig::new(server.url());
    config.patience = Duration::from_secs(1);
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    for round in 0..3 {
        busy.warn(&store, "before").await.unwrap();
        let last = [Arc::clone(&busy.records[busy.records.len() - 1])];
        server.crash();
        if round > 0 {
            let refused = busy.warn(&store, "lost").await;
            assert!(
                matches!(refused, Err(StoreError::Unavailable(_))),
                "{refused:?}"
            );
        }
        server.restart();
        // The answer to the last commit may have been lost: it is repeated.
        store.commit(&busy.lease, &last).await.unwrap();
        busy.warn(&store, "after").await.unwrap();
        assert_eq!(records(&store, busy.run()).await, busy.records);
    }
    assert!(store.verify(&busy.session, None).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_silent_server_is_given_up_in_time_and_the_connections_recover() {
    let server = Postgres::start();
    let proxy = Proxy::start(&server.url()).await;
    let mut config = SqlConfig::new(&proxy.url);
    config.patience = Duration::from_millis(500);
    config.max_connections = 2;
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    assert_eq!(records(&store, busy.run()).await, busy.records);

    proxy.is_silent.store(true, Ordering::SeqCst);
    let started = Instant::now();
    let refused = busy.warn(&store, "lost").await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    for _ in 0..3 {
        let refused = store.run(busy.run()).await;
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );

    proxy.is_silent.store(false, Ordering::SeqCst);
    busy.warn(&store, "found").await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_without_the_password() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let url = format!("postgres://me:s3cret@127.0.0.1:{port}/nx");
    let error = SqlStore::open(&SqlConfig::new(url)).await.unwrap_err();
    assert!(
        matches!(&error, OpenError::Store(StoreError::Unavailable(told)) if told.contains("127.0.0.1")),
        "{error:?}"
    );
    assert!(!format!("{error} {error:?}").contains("s3cret"));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_newer_schema_on_a_server_is_refused_with_both_versions() {
    use sqlx::Connection;

    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    open(&config).await.close().await;
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    let newer = "INSERT INTO neuraxis.schema_version (version) VALUES (99)";
    sqlx::query(newer).execute(&mut raw).await.unwrap();
    let error = SqlStore::open(&config).await.unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 99,
                known: 3,
                ..
            }
        ),
        "{error:?}"
    );
}

/// Passes bytes on, or swallows them without a word.
struct Proxy {
    url: String,
    is_silent: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (before, target) = server.split_once('@').unwrap();
        let (address, database) = target.split_once('/').unwrap();
        let url = format!("{before}@127.0.0.1:{port}/{database}");
        let is_silent = Arc::new(AtomicBool::new(false));
        let (address, silent) = (address.to_owned(), Arc::clone(&is_silent));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&address).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(from_client, to_server, Arc::clone(&silent)));
                tokio::spawn(pass(from_server, to_client, Arc::clone(&silent)));
            }
        });
        Self { url, is_silent }
    }
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    is_silent: Arc<AtomicBool>,
) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if is_silent.load(Ordering::SeqCst) {
            continue;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
