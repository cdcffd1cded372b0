//! A server that crashes, or no longer answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use neuraxis_ports::{RunLog as _, Session, SessionIndex as _, StoreError};
use neuraxis_sql::{OpenError, SqlConfig, SqlStore};
use neuraxis_testkit::{FreePort, Postgres, START, SilentProxy};

use crate::support::{Busy, id, open, records};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_crashed_server_is_reached_again_and_nothing_is_stored_twice() {
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
        // The answer to the last commit may have been lost, so it is repeated.
        store.commit(&busy.lease, &last).await.unwrap();
        busy.warn(&store, "after").await.unwrap();
        assert_eq!(records(&store, busy.run()).await, busy.records);
    }
    assert!(store.verify(&busy.session, None).await.is_ok());
}

/// This includes a server that another one has replaced, and many managed ones with a full disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_read_only_server_is_a_temporary_error() {
    use sqlx::Connection;

    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    for sql in [
        "ALTER SYSTEM SET default_transaction_read_only = on",
        "SELECT pg_reload_conf()",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    let started = Instant::now();
    let refused = loop {
        match busy.warn(&store, "before").await {
            Ok(()) => assert!(started.elapsed() < Duration::from_secs(20)),
            Err(refused) => break refused,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let is_passing = matches!(&refused, StoreError::ReadOnly(told) if told.contains("25006"));
    assert!(is_passing, "{refused:?}");
    assert_eq!(records(&store, busy.run()).await, busy.records);

    for sql in [
        "ALTER SYSTEM RESET default_transaction_read_only",
        "SELECT pg_reload_conf()",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    while busy.warn(&store, "after").await.is_err() {
        assert!(started.elapsed() < Duration::from_secs(40));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(records(&store, busy.run()).await, busy.records);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_silent_server_times_out_and_connections_recover() {
    let server = Postgres::start();
    let proxy = SilentProxy::start(&server.url()).await;
    let mut config = SqlConfig::new(proxy.url());
    config.patience = Duration::from_millis(500);
    config.max_connections = 2;
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    assert_eq!(records(&store, busy.run()).await, busy.records);

    proxy.fall_silent();
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

    proxy.speak();
    busy.warn(&store, "found").await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_write_waits_only_once_for_a_locked_table() {
    use sqlx::Connection;

    let server = Postgres::start();
    let mut config = SqlConfig::new(server.url());
    config.patience = Duration::from_secs(2);
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    for sql in ["BEGIN", "LOCK TABLE neuraxis.runs"] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    let started = Instant::now();
    let refused = busy.warn(&store, "locked").await;
    let waited = started.elapsed();
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(waited < config.patience * 2, "{waited:?}");
    sqlx::query("ROLLBACK").execute(&mut raw).await.unwrap();
    busy.warn(&store, "free").await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_probe_detects_each_locked_table_that_steps_need() {
    use sqlx::Connection;

    let server = Postgres::start();
    let mut config = SqlConfig::new(server.url());
    config.patience = Duration::from_millis(500);
    let store = open(&config).await;
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    for lock in [
        "LOCK TABLE neuraxis.runs",
        "LOCK TABLE neuraxis.steps",
        "LOCK TABLE neuraxis.inbox",
    ] {
        sqlx::query("BEGIN").execute(&mut raw).await.unwrap();
        sqlx::query(lock).execute(&mut raw).await.unwrap();
        let probed = store.probe().await;
        assert!(
            matches!(probed, Err(StoreError::Unavailable(_))),
            "{lock}: {probed:?}"
        );
        sqlx::query("ROLLBACK").execute(&mut raw).await.unwrap();
        store.probe().await.unwrap();
    }
}

/// The records would take longer to read than a request may take: here they cannot be read at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn checking_a_server_reads_no_records() {
    use sqlx::Connection;

    let server = Postgres::start();
    let mut config = SqlConfig::new(server.url());
    config.patience = Duration::from_millis(500);
    let store = open(&config).await;
    Busy::new(&store, 1).await;
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    for sql in ["BEGIN", "LOCK TABLE neuraxis.steps"] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    let found = store.check().await.unwrap();
    assert_eq!((found.sessions, found.runs), (1, 1));
}

/// The tables' owner lets another role use them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_role_with_only_table_privileges_works_and_a_missing_one_is_not_damage() {
    use sqlx::Connection;

    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    open(&config).await.close().await;
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    let of_role = SqlConfig::new(server.url().replace("//postgres@", "//few@"));
    sqlx::query("CREATE ROLE few LOGIN")
        .execute(&mut raw)
        .await
        .unwrap();
    let refused = SqlStore::open(&of_role).await.unwrap_err();
    assert!(
        matches!(&refused, OpenError::Store(StoreError::Refused(told)) if told.contains("42501")),
        "{refused:?}"
    );

    for sql in [
        "GRANT USAGE ON SCHEMA neuraxis TO few",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA neuraxis TO few",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA neuraxis TO few",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    let store = open(&of_role).await;
    let mut busy = Busy::new(&store, 1).await;
    let revoke = "REVOKE INSERT ON neuraxis.steps FROM few";
    sqlx::query(revoke).execute(&mut raw).await.unwrap();
    let refused = busy.warn(&store, "refused").await;
    let is_told = matches!(
        &refused,
        Err(StoreError::Refused(told)) if told.contains("42501")
    );
    assert!(is_told, "{refused:?}");
    let probed = store.probe().await;
    assert!(matches!(probed, Err(StoreError::Refused(_))), "{probed:?}");
    let grant = "GRANT INSERT ON neuraxis.steps TO few";
    sqlx::query(grant).execute(&mut raw).await.unwrap();
    busy.finish(&store).await.unwrap();
    assert!(store.verify(&busy.session, None).await.is_ok());
    let found = store.check().await.unwrap().connections.unwrap();
    let all = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let all: (i64,) = sqlx::query_as(all).fetch_one(&mut raw).await.unwrap();
    assert_eq!(found.in_use, all.0.unsigned_abs(), "those of others count");
    let limit = "ALTER ROLE few CONNECTION LIMIT 20";
    sqlx::query(limit).execute(&mut raw).await.unwrap();
    let of_few = store.check().await.unwrap().connections.unwrap();
    assert_eq!(of_few.most, 20);
    assert!(of_few.in_use < found.in_use, "{of_few:?}");
    store.delete_session(&busy.session).await.unwrap();
    // As for a table that a later version added.
    let revoke = "REVOKE SELECT ON neuraxis.outputs FROM few";
    sqlx::query(revoke).execute(&mut raw).await.unwrap();
    let refused = store.check().await;
    assert!(
        matches!(&refused, Err(StoreError::Refused(told)) if told.ends_with(" outputs")),
        "{refused:?}"
    );
}

/// As set up by administrators who grant no permission to create schemas in the database.
#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_schema_created_beforehand_for_a_role_is_used() {
    use sqlx::Connection;

    let server = Postgres::start();
    let mut raw = sqlx::PgConnection::connect(&server.url()).await.unwrap();
    for sql in [
        "CREATE ROLE maker LOGIN",
        "CREATE SCHEMA neuraxis AUTHORIZATION maker",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    let of_maker = SqlConfig::new(server.url().replace("//postgres@", "//maker@"));
    let store = open(&of_maker).await;
    Busy::new(&store, 1).await.finish(&store).await.unwrap();
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_database_that_cannot_store_every_character_is_refused_and_left_unchanged() {
    use sqlx::Connection;

    let server = Postgres::start();
    let mut raw = sqlx::PgConnection::connect(&server.url()).await.unwrap();
    for sql in [
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
        "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    let of = |name: &str| {
        let place = server.url();
        let (server, _) = place.rsplit_once('/').unwrap();
        SqlConfig::new(format!("{server}/{name}"))
    };
    let refused = SqlStore::open(&of("latin")).await.unwrap_err();
    assert!(
        matches!(&refused, OpenError::Encoding { encoding, .. } if encoding == "LATIN1"),
        "{refused:?}"
    );
    let url = of("latin").url;
    let mut latin = sqlx::PgConnection::connect(&url).await.unwrap();
    let sql = "SELECT count(*) FROM pg_namespace WHERE nspname = 'neuraxis'";
    let made: (i64,) = sqlx::query_as(sql).fetch_one(&mut latin).await.unwrap();
    assert_eq!(made.0, 0);
    let store = open(&of("bytes")).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.warn(&store, "東京").await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_the_password() {
    let port = FreePort::take();
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
                known: 11,
                ..
            }
        ),
        "{error:?}"
    );
}

/// Servers are upgraded one after the other: a newer program adds what older ones can ignore, and they keep running
/// beside it.
#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn two_versions_share_a_server_if_the_newer_schema_allows_it() {
    use sqlx::Connection;

    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    let older = open(&config).await;
    let mut at_work = Busy::new(&older, 1).await;
    at_work.warn(&older, "before").await.unwrap();
    let mut newer = sqlx::PgConnection::connect(&config.url).await.unwrap();
    for sql in [
        "ALTER TABLE neuraxis.runs ADD COLUMN later TEXT",
        "ALTER TABLE neuraxis.sessions ADD COLUMN later BIGINT NOT NULL DEFAULT 7",
        "CREATE INDEX runs_later ON neuraxis.runs (later)",
        "INSERT INTO neuraxis.schema_version (version, reads_from) VALUES (99, 11)",
    ] {
        sqlx::query(sql).execute(&mut newer).await.unwrap();
    }
    // A running program continues, and one that starts works as well.
    at_work.warn(&older, "after").await.unwrap();
    let started = open(&config).await;
    assert_eq!(records(&started, at_work.run()).await, at_work.records);
    at_work.finish(&older).await.unwrap();
    let mut next = Busy::new(&started, 2).await;
    next.finish(&started).await.unwrap();
    assert!(started.verify(&next.session, None).await.is_ok());
    assert_eq!(older.runs(&next.session).await.unwrap().len(), 1);
    started.close().await;

    let contracted = "INSERT INTO neuraxis.schema_version (version, reads_from) VALUES (100, 99)";
    sqlx::query(contracted).execute(&mut newer).await.unwrap();
    let refused = SqlStore::open(&config).await.unwrap_err();
    assert!(
        matches!(refused, OpenError::Newer { found: 100, .. }),
        "{refused:?}"
    );
}

/// A standby that lacked the last commits replaced its server: the keys of lost runs belong to others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_lost_by_a_server_cannot_write_into_another_run() {
    use sqlx::Connection;

    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    let store = open(&config).await;
    let mut lost = Busy::new(&store, 1).await;
    let mut raw = sqlx::PgConnection::connect(&config.url).await.unwrap();
    for sql in [
        "TRUNCATE neuraxis.steps, neuraxis.runs, neuraxis.sessions RESTART IDENTITY",
        "ALTER SEQUENCE neuraxis.leases RESTART",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'neuraxis'",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    // The store gets a different connection while the run has nothing to write.
    let made = Session::new(id("made"), START);
    store.create_session(&made).await.unwrap();

    let other = open(&config).await;
    let at_work = Busy::new(&other, 2).await;
    let refused = lost.warn(&store, "lost").await;
    assert!(matches!(refused, Err(StoreError::Stale(_))), "{refused:?}");
    assert_eq!(records(&other, at_work.run()).await, at_work.records);
    assert!(other.verify(&at_work.session, None).await.is_ok());
}
