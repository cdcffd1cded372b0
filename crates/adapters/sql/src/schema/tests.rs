//! A database of each earlier version is upgraded and keeps its contents.

use std::path::Path;

use neuraxis_core::{RunId, SessionMetrics};
use neuraxis_ports::{RunLog, SessionFilter, SessionIndex};
use neuraxis_testkit::{CountingIds, Postgres};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Column, ConnectOptions, Row, TypeInfo};

use super::*;
use crate::config::SqlConfig;
use crate::link::Value;
use crate::store::SqlStore;

/// Creates a database of a version, as the program of that time did: it stored the version only as a number.
async fn made_at(version: i64, config: &SqlConfig) {
    let database = Database::connect(config).unwrap();
    let mut link = database.writer().await.unwrap();
    let dialect = database.dialect;
    begin(dialect, &mut link).await.unwrap();
    let migrations = match dialect {
        Dialect::Sqlite => migrations!("sqlite"),
        Dialect::Postgres => migrations!("postgres"),
    };
    for (number, _, sql) in migrations {
        if number > version {
            break;
        }
        link.script(sql).await.unwrap();
        let marks = match dialect {
            Dialect::Sqlite => vec![
                format!("PRAGMA user_version = {number}"),
                format!("PRAGMA application_id = {APPLICATION_ID}"),
            ],
            Dialect::Postgres => vec![format!("INSERT INTO schema_version VALUES ({number})")],
        };
        for mark in marks {
            link.run(AssertSqlSafe(mark), &[]).await.unwrap();
        }
    }
    if version > 0 {
        copy_fixture(version, dialect, &mut link).await;
    }
    link.run("COMMIT", &[]).await.unwrap();
    link.close().await;
}

/// Copies the contents of the file that the first code with a schema wrote.
async fn copy_fixture(version: i64, dialect: Dialect, link: &mut Link) {
    let file = format!("tests/sql/schema-{version}.db");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("fixture.db");
    std::fs::copy(file, &copy).unwrap();
    let mut fixture = SqliteConnectOptions::new()
        .filename(copy)
        .connect()
        .await
        .unwrap();
    for table in ["sessions", "runs", "steps", "payloads", "inbox"] {
        let all = AssertSqlSafe(format!("SELECT * FROM {table}"));
        for row in sqlx::query(all).fetch_all(&mut fixture).await.unwrap() {
            let names: Vec<_> = row.columns().iter().map(Column::name).collect();
            let places: Vec<_> = (1..=names.len()).map(|place| format!("${place}")).collect();
            let values = row.columns().iter().map(|column| {
                let place = column.ordinal();
                match column.type_info().name() {
                    "INTEGER" => Value::Int(row.get(place)),
                    "TEXT" => Value::Text(row.get(place)),
                    _ => Value::Bytes(row.get(place)),
                }
            });
            let keys = match dialect {
                Dialect::Postgres if names.contains(&"key") => "OVERRIDING SYSTEM VALUE",
                _ => "",
            };
            let sql = format!(
                "INSERT INTO {table} ({}) {keys} VALUES ({})",
                names.join(", "),
                places.join(", ")
            );
            let values: Vec<_> = values.collect();
            link.run(AssertSqlSafe(sql), &values).await.unwrap();
        }
    }
    let imported = match version < CARRIED {
        true => "UPDATE runs SET holder = 'imported' WHERE ended_at IS NULL",
        false => "UPDATE runs SET imported = 1 WHERE ended_at IS NULL",
    };
    link.run(imported, &[]).await.unwrap();
}

async fn brought_up_to_date(config: &SqlConfig, version: i64) {
    made_at(version, config).await;
    for _ in ["migrates", "has nothing to do"] {
        let store = SqlStore::open(config).await.unwrap();
        let sessions = store.sessions(&SessionFilter::default()).await.unwrap();
        assert_eq!(sessions.len(), usize::from(version > 0));
        for session in sessions {
            let head = store.verify(&session.id, None).await.unwrap();
            assert_eq!(head.records, 7);
            check_runs(&store, &session.id).await;
        }
        store.close().await;
    }
    let database = Database::connect(config).unwrap();
    let mut link = database.writer().await.unwrap();
    assert_eq!(
        super::version(database.dialect, &mut link).await.unwrap(),
        LATEST
    );
    let noted = "SELECT count(*) FROM _sqlx_migrations";
    assert_eq!(number(&mut link, noted).await.unwrap(), LATEST);
}

/// The summaries of runs match their records, whatever an older version had stored.
async fn check_runs(store: &SqlStore, session: &neuraxis_core::SessionId) {
    let runs = store.runs(session).await.unwrap();
    let [first, second] = [1, 2].map(CountingIds::nth_run);
    let ids: Vec<RunId> = runs.iter().map(|run| run.run_id).collect();
    assert_eq!(ids, [first, second]);
    let mut used = SessionMetrics::default();
    for run in &runs {
        let records = store.records(run.run_id, neuraxis_core::Seq(0)).await;
        let summary = LogSummary::of(&records.unwrap());
        assert_eq!(run.log, summary);
        assert_eq!(run.imported, run.ended_at.is_none());
        used += summary.metrics();
    }
    let last = runs.last().unwrap();
    let session_now = store.session(session).await.unwrap();
    assert_eq!(
        session_now.last_active_at,
        last.ended_at.or(last.started_at)
    );
    assert_eq!(store.metrics(session).await, Ok(used));
    let carried = store.carried(session).await;
    assert_eq!(carried, Ok(Carried::default()));
}

#[tokio::test]
async fn a_file_of_each_version_is_migrated_and_keeps_its_data() {
    for version in 0..LATEST {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.db");
        let url = format!("sqlite://{}", file.display());
        brought_up_to_date(&SqlConfig::new(url), version).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_server_of_each_version_is_migrated_and_keeps_its_data() {
    for version in 0..LATEST {
        let server = Postgres::start();
        brought_up_to_date(&SqlConfig::new(server.url()), version).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn an_older_server_schema_is_left_unchanged_when_upgrading_is_refused() {
    let server = Postgres::start();
    let mut config = SqlConfig::new(server.url());
    config.older_schema = OlderSchema::Refuse;
    made_at(LATEST - 1, &config).await;
    let refused = SqlStore::open(&config).await;
    assert!(
        matches!(&refused, Err(OpenError::Older { found, .. }) if *found == LATEST - 1),
        "{refused:?}"
    );
    let mut link = Database::connect(&config).unwrap().writer().await.unwrap();
    let version = super::version(Dialect::Postgres, &mut link).await;
    assert_eq!(version.unwrap(), LATEST - 1);
}

/// As behind a pooler that gives each transaction another connection.
#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_connection_with_another_search_path_is_refused_and_creates_no_tables() {
    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    let database = Database::connect(&config).unwrap();
    let mut link = database.writer().await.unwrap();
    link.script("SET search_path = public").await.unwrap();
    let refused = migrate(&database, &mut link, OlderSchema::Upgrade).await;
    assert!(
        matches!(&refused, Err(OpenError::Store(StoreError::Unavailable(told))) if told.contains("use public")),
        "{refused:?}"
    );
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'neuraxis')";
    assert_eq!(number(&mut link, tables).await.unwrap(), 0);
}

/// Another session locks a table for longer than a request may take, and two programs open the database meanwhile.
#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_server_migration_may_take_longer_than_a_request() {
    let server = Postgres::start();
    let mut config = SqlConfig::new(server.url());
    made_at(LATEST - 1, &config).await;
    let mut other = Database::connect(&config).unwrap().writer().await.unwrap();
    config.patience = Duration::from_millis(500);
    // Each migration writes to this table.
    for sql in ["BEGIN", "LOCK TABLE schema_version IN SHARE MODE"] {
        other.run(sql, &[]).await.unwrap();
    }
    let let_go = async {
        tokio::time::sleep(config.patience * 3).await;
        other.run("COMMIT", &[]).await
    };
    let (first, second, let_go) =
        tokio::join!(SqlStore::open(&config), SqlStore::open(&config), let_go);
    let_go.unwrap();
    for opened in [first, second] {
        opened.unwrap().close().await;
    }
    let version = super::version(Dialect::Postgres, &mut other).await;
    assert_eq!(version.unwrap(), LATEST);
}

/// Like a forgotten transaction: anything that waits for it would block all others.
#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_migration_does_not_wait_for_a_table_held_by_a_long_transaction() {
    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    made_at(LATEST - 1, &config).await;
    let mut other = Database::connect(&config).unwrap().writer().await.unwrap();
    for sql in [
        "SET idle_in_transaction_session_timeout = 0",
        "BEGIN",
        "LOCK TABLE runs, sessions IN ACCESS SHARE MODE",
    ] {
        other.run(sql, &[]).await.unwrap();
    }
    let refused = SqlStore::open(&config).await;
    assert!(
        matches!(refused, Err(OpenError::Locked { .. })),
        "{refused:?}"
    );
    other.run("COMMIT", &[]).await.unwrap();
    SqlStore::open(&config).await.unwrap().close().await;
}
