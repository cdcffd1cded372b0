//! What a database adds to a run, compared with the store in memory, in one measurement. `cargo xtask bench --store`
//! runs it, with Postgres if the variables of `cargo xtask env` are set; the tables are kept in `docs/storage.md`.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{Session, SessionStore};
use neuraxis_sql::{Durability, SqlConfig, SqlStore};
use neuraxis_testkit::{CountingIds, Postgres, RunLog, START, reply};
use sqlx::{Connection, Row};

/// Runs of one measurement.
const RUNS: u64 = 1_000;

/// Steps of a run between its beginning and its end, of two records each: about three turns with two calls.
const STEPS: usize = 10;

/// Records of the session that is opened.
const LONG: usize = 10_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    println!(
        "| store | at once | records/s | acknowledged steps/s | CPU of this process per run, µs |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for at_once in [1, 32] {
        throughput("memory", Arc::new(MemoryStore::new()), at_once).await;
        for durability in [Durability::Full, Durability::Normal] {
            let folder = tempfile::tempdir_in(".").unwrap();
            let mut config = file(folder.path());
            config.durability = durability;
            let store = SqlStore::open(&config).await.unwrap();
            let name = format!("SQLite {durability:?}");
            throughput(&name, Arc::new(store.clone()), at_once).await;
            store.close().await;
            if at_once == 32 && durability == Durability::Full {
                let size = std::fs::metadata(folder.path().join("bench.db"))
                    .unwrap()
                    .len();
                println!("\nSQLite file of {RUNS} such runs: {} KiB\n", size / 1024);
            }
        }
        if std::env::var_os("TEST_NEURAXIS_POSTGRES").is_some() {
            let server = Postgres::start();
            let store = SqlStore::open(&SqlConfig::new(server.url())).await.unwrap();
            throughput("Postgres Full", Arc::new(store.clone()), at_once).await;
            store.close().await;
            if at_once == 32 {
                let mut link = sqlx::PgConnection::connect(&server.url()).await.unwrap();
                let sql = "SELECT sum(pg_total_relation_size(c.oid))::BIGINT FROM pg_class c \
                           JOIN pg_namespace n ON n.oid = c.relnamespace \
                           WHERE n.nspname = 'neuraxis' AND c.relkind = 'r'";
                let row = sqlx::query(sql).fetch_one(&mut link).await.unwrap();
                let size: i64 = row.get(0);
                println!(
                    "\nPostgres tables of {RUNS} such runs: {} KiB\n",
                    size / 1024
                );
            }
        }
    }
    println!("\n| store | records of a session of {LONG} | its history | again |");
    println!("| --- | ---: | ---: | ---: |");
    let memory = Arc::new(MemoryStore::new());
    opening("memory", async || Arc::clone(&memory)).await;
    let folder = tempfile::tempdir_in(".").unwrap();
    let open = async || Arc::new(SqlStore::open(&file(folder.path())).await.unwrap());
    opening("SQLite", open).await;
    if std::env::var_os("TEST_NEURAXIS_POSTGRES").is_some() {
        let server = Postgres::start();
        let config = SqlConfig::new(server.url());
        opening("Postgres", async || {
            Arc::new(SqlStore::open(&config).await.unwrap())
        })
        .await;
    }
}

fn file(folder: &std::path::Path) -> SqlConfig {
    SqlConfig::new(format!("sqlite://{}", folder.join("bench.db").display()))
}

async fn throughput(name: &str, store: Arc<dyn SessionStore>, at_once: u64) {
    let runs = if at_once == 1 { RUNS / 5 } else { RUNS };
    let (started, cpu) = (Instant::now(), ProcessTime::now());
    let workers = (0..at_once).map(|worker| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut records = 0;
            for number in (0..runs).filter(|number| number % at_once == worker) {
                records += drive(store.as_ref(), number + 1).await;
            }
            records
        })
    });
    let mut records = 0;
    for worker in workers.collect::<Vec<_>>() {
        records += worker.await.unwrap();
    }
    let (time, cpu) = (started.elapsed(), cpu.elapsed());
    let steps = runs as f64 * (STEPS as f64 + 2.0);
    println!(
        "| {name} | {at_once} | {:.0} | {:.0} | {:.0} |",
        f64::from(records) / time.as_secs_f64(),
        steps / time.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / runs as f64,
    );
}

/// Stores one run in a session of its own.
async fn drive(store: &dyn SessionStore, number: u64) -> u32 {
    let session = Session::new(format!("s{number}").parse().unwrap(), START);
    store.create_session(&session).await.unwrap();
    let run = CountingIds::nth_run(number);
    let lease = store.begin_run(&session.id, run).await.unwrap();
    let mut log = RunLog::new(run, session.id);
    let started = [log.started("Is this machine healthy? Look at its disks, too.")];
    store.commit(&lease, &started).await.unwrap();
    for _ in 0..STEPS {
        let step = [
            log.replied(reply::calls([(
                "system_health",
                r#"{"sections":["disks","memory"]}"#,
            )])),
            log.warned("a tool took longer than it usually does, and its result came late"),
        ];
        store.commit(&lease, &step).await.unwrap();
    }
    let end = [log.finished("It is. The disks are half full, and nothing swaps.")];
    store.commit(&lease, &end).await.unwrap();
    u32::try_from(STEPS * 2 + 2).unwrap()
}

async fn opening<S: SessionStore>(name: &str, open: impl AsyncFn() -> Arc<S>) {
    let store = open().await;
    let session = Session::new("long".parse().unwrap(), START);
    store.create_session(&session).await.unwrap();
    let (mut kept, mut number) = (0, 0);
    let mut runs = Vec::new();
    while kept < LONG {
        number += 1;
        let run = CountingIds::nth_run(number);
        let lease = store.begin_run(&session.id, run).await.unwrap();
        let mut log = RunLog::new(run, session.id.clone());
        let mut records = vec![log.started("And what about this?")];
        for _ in 0..98 {
            records.push(log.replied(reply::text("A sentence or two about that, as they come.")));
        }
        records.push(log.finished("That was it."));
        for step in records.chunks(2) {
            store.commit(&lease, step).await.unwrap();
        }
        kept += records.len();
        runs.push(run);
    }
    let records = median(async || {
        for run in &runs {
            store.records(*run, neuraxis_core::Seq(0)).await.unwrap();
        }
    });
    let records = records.await;
    // An open store caches what it has read.
    let mut first = Vec::new();
    for _ in 0..9 {
        let store = open().await;
        let started = Instant::now();
        drop(store.history(&session.id).await.unwrap());
        first.push(started.elapsed());
    }
    first.sort();
    let again = median(async || drop(store.history(&session.id).await.unwrap())).await;
    println!(
        "| {name} | {:.1} ms | {:.1} ms | {:.1} ms |",
        millis(records),
        millis(first.into_iter().nth(4).unwrap_or_default()),
        millis(again)
    );
}

async fn median(work: impl AsyncFn()) -> Duration {
    let mut times = Vec::new();
    for _ in 0..9 {
        let started = Instant::now();
        work().await;
        times.push(started.elapsed());
    }
    times.sort();
    times.into_iter().nth(4).unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
