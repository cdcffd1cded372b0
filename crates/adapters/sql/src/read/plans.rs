//! Which indexes a database uses for the queries of each turn, however much else it holds.

use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::{Session, SessionFilter};
use neuraxis_testkit::Postgres;
use sqlx::AssertSqlSafe;
use tempfile::TempDir;

use super::{history, records, runs, session_lists, stats, usage};
use crate::config::SqlConfig;
use crate::database::{Database, Dialect};
use crate::link::{Link, Value, values};

/// Many sessions with many runs, the last of which are at work. The oldest quarter belongs to one session, and the
/// first run is long. Without the triggers, which would change that session's row as often.
const MANY: &str = "\
    ALTER TABLE runs DISABLE TRIGGER USER; \
    INSERT INTO sessions (id, owner, created_at, last_active_at) \
    SELECT 's' || n, CASE WHEN n % 2 = 0 THEN 'ann' END, n, n + 9 FROM generate_series(1, 20000) n; \
    INSERT INTO runs (id, session, token, holder, records, bytes, chain_records, chain, started_at, ended_at) \
    SELECT decode(md5(n::text), 'hex'), CASE WHEN n <= 5000 THEN 1 ELSE n END, n, 'me', 1, 1, 1, '', n, \
    CASE WHEN n <= 19990 THEN n END FROM generate_series(1, 20000) n; \
    INSERT INTO steps (run, first_seq, last_seq, chain, body) \
    SELECT 1, n, n, '', '' FROM generate_series(1, 20000) n; \
    ALTER TABLE runs ENABLE TRIGGER USER; \
    ANALYZE sessions; ANALYZE runs; ANALYZE steps";

async fn open(config: &SqlConfig) -> Link {
    let database = Database::open(config).await.unwrap();
    database.writer().await.unwrap()
}

async fn in_file() -> (TempDir, Link) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.db");
    let config = SqlConfig::new(format!("sqlite://{}", file.display()));
    let link = open(&config).await;
    (folder, link)
}

async fn on_server() -> (Postgres, Link) {
    let server = Postgres::start();
    let mut link = open(&SqlConfig::new(server.url())).await;
    link.script(MANY).await.unwrap();
    (server, link)
}

/// Returns the database's plan for a statement.
async fn plan(dialect: Dialect, link: &mut Link, sql: &str, values: &[Value<'_>]) -> String {
    let (explain, column) = match dialect {
        Dialect::Sqlite => ("EXPLAIN QUERY PLAN", 3),
        Dialect::Postgres => ("EXPLAIN", 0),
    };
    let sql = AssertSqlSafe(format!("{explain} {sql}"));
    let rows = link.rows(sql, values).await.unwrap();
    let lines = rows.iter().map(|row| row.text(column).unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

async fn finds_the_runs_of_a_day(dialect: Dialect, link: &mut Link) {
    for whose in ["sessions.owner = 'ann'", "sessions.owner IS NULL"] {
        let sql = usage::select(whose);
        let plan = plan(dialect, link, &sql, values![19_900]).await;
        assert!(plan.contains("runs_by_end"), "{plan}");
        assert!(plan.contains("runs_at_work"), "{plan}");
    }
}

async fn finds_the_steps_after_a_record(dialect: Dialect, link: &mut Link) {
    let plan = plan(dialect, link, records::STEPS_AFTER, values![1, 7]).await;
    let (by_key, from) = match dialect {
        Dialect::Sqlite => ("SEARCH steps USING INDEX", "first_seq>?"),
        Dialect::Postgres => ("Index Cond", "first_seq >= "),
    };
    let mut lines = plan.lines();
    let is_found = lines.any(|line| line.contains(by_key) && line.contains(from));
    assert!(is_found, "{plan}");
}

#[tokio::test]
async fn usage_of_a_day_is_found_by_the_end_time_of_runs() {
    let (_folder, mut link) = in_file().await;
    finds_the_runs_of_a_day(Dialect::Sqlite, &mut link).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn usage_of_a_day_is_found_by_the_end_time_of_runs_on_a_server() {
    let (_server, mut link) = on_server().await;
    finds_the_runs_of_a_day(Dialect::Postgres, &mut link).await;
}

/// Otherwise each page would read and sort all runs of the owner.
#[tokio::test]
async fn a_page_of_an_owner_s_runs_is_found_by_start_time() {
    let (_folder, mut link) = in_file().await;
    let sql = stats::select("AND sessions.owner = $4");
    let plan = plan(Dialect::Sqlite, &mut link, &sql, values![0, 0, 9, "ann"]).await;
    assert!(plan.contains("runs_by_start"), "{plan}");
    assert!(!plan.contains("ORDER BY"), "{plan}");
}

/// A server runs this query every half minute.
#[tokio::test]
async fn unfinished_runs_are_found_without_reading_finished_ones() {
    let (_folder, mut link) = in_file().await;
    let all = runs::select_unended(Dialect::Sqlite);
    let of_nobody = runs::select_unended_of(Dialect::Sqlite, None);
    let of_ann = runs::select_unended_of(Dialect::Sqlite, Some("ann"));
    let of_ann = of_ann.replace("$1", "'ann'");
    for sql in [all, of_nobody, of_ann] {
        let plan = plan(Dialect::Sqlite, &mut link, &sql, &[]).await;
        assert!(plan.contains("runs_at_work"), "{plan}");
        assert!(!plan.contains("sessions_by_owner"), "{plan}");
    }
}

#[tokio::test]
async fn new_steps_of_a_long_run_are_found_without_reading_older_ones() {
    let (_folder, mut link) = in_file().await;
    finds_the_steps_after_a_record(Dialect::Sqlite, &mut link).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn new_steps_of_a_long_run_are_found_without_reading_older_ones_on_a_server() {
    let (_server, mut link) = on_server().await;
    finds_the_steps_after_a_record(Dialect::Postgres, &mut link).await;
}

/// With an index on the session alone, all of its runs would be read; with one on the key, all runs after its last one.
#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn the_last_run_of_a_session_is_found_without_reading_others_on_a_server() {
    let (_server, mut link) = on_server().await;
    let last_run = "SELECT id FROM runs WHERE session = $1 ORDER BY key DESC LIMIT 1";
    let by_key = plan(Dialect::Postgres, &mut link, last_run, values![1]).await;
    let standing = plan(
        Dialect::Postgres,
        &mut link,
        history::STANDING,
        values!["s1"],
    )
    .await;
    for plan in [by_key, standing] {
        assert!(plan.contains("Backward using runs_by_session"), "{plan}");
    }
}

/// Otherwise the runs of all sessions would be read for a page of them.
async fn finds_the_runs_of_a_page_of_sessions(dialect: Dialect, link: &mut Link) {
    let newest = SessionFilter::default().limited_to(50);
    let last_used = newest.clone().by_last_activity();
    let of_owner = last_used.clone().owned_by("ann");
    for (filter, values, index) in [
        (newest, vec![], "sessions_by_age"),
        (last_used, vec![], "sessions_by_activity"),
        (
            of_owner,
            vec![Value::from("ann")],
            "sessions_by_owner_and_activity",
        ),
    ] {
        let sql = session_lists::select(&filter);
        let plan = plan(dialect, link, &sql, &values).await;
        assert!(plan.contains(index), "{plan}");
        assert_eq!(plan.matches("runs_by_session").count(), 3, "{plan}");
    }
}

/// Otherwise each page would read all sessions of the pages before it.
async fn finds_the_place_after_a_page(dialect: Dialect, link: &mut Link) {
    let last = Session::new(
        "s5000".parse().unwrap(),
        Timestamp::from_microsecond(5_009).unwrap(),
    );
    let filter = SessionFilter::default().limited_to(50).by_last_activity();
    let sql = session_lists::select(&filter.after(&last));
    let plan = plan(dialect, link, &sql, values![5_009, "s5000"]).await;
    let found_by = match dialect {
        Dialect::Sqlite => "USING INDEX sessions_by_activity (<expr><?)",
        Dialect::Postgres => "Index Cond: ((COALESCE(last_active_at, created_at) <= ",
    };
    assert!(plan.contains(found_by), "{plan}");
}

#[tokio::test]
async fn a_later_page_of_sessions_is_found_without_reading_earlier_ones() {
    let (_folder, mut link) = in_file().await;
    finds_the_place_after_a_page(Dialect::Sqlite, &mut link).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_later_page_of_sessions_is_found_without_reading_earlier_ones_on_a_server() {
    let (_server, mut link) = on_server().await;
    finds_the_place_after_a_page(Dialect::Postgres, &mut link).await;
}

#[tokio::test]
async fn the_first_and_last_runs_of_listed_sessions_are_found_by_themselves() {
    let (_folder, mut link) = in_file().await;
    finds_the_runs_of_a_page_of_sessions(Dialect::Sqlite, &mut link).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn the_first_and_last_runs_of_listed_sessions_are_found_by_themselves_on_a_server() {
    let (_server, mut link) = on_server().await;
    finds_the_runs_of_a_page_of_sessions(Dialect::Postgres, &mut link).await;
}
