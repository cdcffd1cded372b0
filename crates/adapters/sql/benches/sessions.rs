//! How the cost of a Postgres store grows with its contents: the median time of each query and change of the port, as a
//! program waits for it. `cargo xtask bench fleet --sessions` runs it; the table is kept in `docs/performance.md`.
//!
//! The sessions have one run each and belong to 5,000 owners. One run in a hundred waits for an approval, which is
//! 10,000 of a million.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::time::{Duration, Instant};

use neuraxis_core::{
    EffectId, Pending, PendingKind, RecordBody, RunId, SessionId, ToolCallId, Waiting,
};
use neuraxis_ports::{RunFilter, RunLog as _, Session, SessionFilter, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{CountingIds, Postgres, RunLog, START, reply};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The numbers of sessions to measure with.
const SIZES: [i64; 3] = [1_000, 100_000, 1_000_000];

/// How often each operation is measured.
const TIMES: usize = 21;

/// A session whose run has ended, and one whose run waits: the others are copies of them.
const TEMPLATES: [&str; 2] = ["ended", "waits"];

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let server = Postgres::start();
    let mut config = SqlConfig::new(server.url());
    config.patience = Duration::from_secs(60);
    let store = SqlStore::open(&config).await.unwrap();
    make_templates(&store).await;
    let mut raw = PgConnection::connect(&server.url()).await.unwrap();
    let mut table: Vec<(&str, Vec<Duration>)> = Vec::new();
    let mut filled = 0;
    for size in SIZES {
        fill(&mut raw, filled, size).await;
        filled = size;
        for (place, (name, took)) in each(&store, size).await.into_iter().enumerate() {
            match table.get_mut(place) {
                Some((_, row)) => row.push(took),
                None => table.push((name, vec![took])),
            }
        }
    }
    println!("| ms, with so many sessions | 1,000 | 100,000 | 1,000,000 |");
    println!("| --- | ---: | ---: | ---: |");
    for (name, row) in table {
        let row = row
            .iter()
            .map(|took| format!("{:.2}", took.as_secs_f64() * 1e3));
        println!("| {name} | {} |", row.collect::<Vec<_>>().join(" | "));
    }
}

/// Creates the two sessions that are copied.
async fn make_templates(store: &SqlStore) {
    for (name, number) in TEMPLATES.into_iter().zip(1..) {
        let session: SessionId = name.parse().unwrap();
        let made = Session::new(session.clone(), START);
        store.create_session(&made).await.unwrap();
        let run = CountingIds::nth_run(number);
        let lease = store.begin_run(&session, run).await.unwrap();
        let mut log = RunLog::new(run, session);
        let mut records = vec![log.started("What is the time in Asia/Tokyo?")];
        match name {
            "ended" => {
                records.push(log.replied(reply::text("It is noon.")));
                records.push(log.finished("It is noon."));
            }
            _ => records.push(log.record(RecordBody::Waiting(Box::new(Waiting {
                pending: vec![pending(run)],
            })))),
        }
        store.commit(&lease, &records).await.unwrap();
        if name == "waits" {
            store.release(&lease).await.unwrap();
        }
    }
}

fn pending(run: RunId) -> Pending {
    Pending {
        effect_id: EffectId { run, number: 2 },
        tool_call_id: ToolCallId::from_text("call_1"),
        kind: PendingKind::Approval,
        expires_at: None,
    }
}

/// Adds copies from one number to another.
async fn fill(raw: &mut PgConnection, from: i64, to: i64) {
    let (first, base) = (from + 1, START.as_microsecond());
    let sessions = format!(
        "INSERT INTO neuraxis.sessions (id, owner, created_at) \
         SELECT 'f' || n, 'owner' || n % 5000, {base} + n * 1000 FROM generate_series({first}, {to}) n"
    );
    let copied = "t.token, t.holder, t.leased_until, t.lease_ms, t.records, t.bytes, t.chain_records, t.chain, \
                  t.started_at, t.ended_at, t.imported, t.summary";
    let columns = copied.replace("t.", "");
    let runs = format!(
        "INSERT INTO neuraxis.runs (id, session, {columns}) SELECT decode(md5(s.id), 'hex'), s.key, {copied} \
         FROM generate_series({first}, {to}) n JOIN neuraxis.sessions s ON s.id = 'f' || n \
         JOIN neuraxis.sessions o ON o.id = CASE WHEN n % 100 = 0 THEN 'waits' ELSE 'ended' END \
         JOIN neuraxis.runs t ON t.session = o.key"
    );
    let steps = format!(
        "INSERT INTO neuraxis.steps (run, first_seq, last_seq, chain, body) \
         SELECT r.key, p.first_seq, p.last_seq, p.chain, p.body \
         FROM generate_series({first}, {to}) n JOIN neuraxis.sessions s ON s.id = 'f' || n \
         JOIN neuraxis.runs r ON r.session = s.key \
         JOIN neuraxis.sessions o ON o.id = CASE WHEN n % 100 = 0 THEN 'waits' ELSE 'ended' END \
         JOIN neuraxis.runs t ON t.session = o.key JOIN neuraxis.steps p ON p.run = t.key"
    );
    for sql in [sessions, runs, steps, "ANALYZE".to_owned()] {
        sqlx::query(AssertSqlSafe(sql))
            .execute(&mut *raw)
            .await
            .unwrap();
    }
}

/// Performs each operation, and returns how long it took.
async fn each(store: &SqlStore, size: i64) -> Vec<(&'static str, Duration)> {
    let id = |number: usize| -> SessionId {
        // Sessions whose runs have ended.
        let place = number.wrapping_mul(7_919) % usize::try_from(size).unwrap() / 100 * 100 + 1;
        format!("f{place}").parse().unwrap()
    };
    let newest = SessionFilter::default().limited_to(50);
    let owned = newest.clone().owned_by("owner7");
    let mut runs = RunFilter::default();
    runs.limit = 50;
    let long_ago = START.checked_sub(neuraxis_core::jiff::SignedDuration::from_hours(1));
    let long_ago = long_ago.unwrap();
    vec![
        (
            "list sessions, the newest 50",
            middle(async |_| drop(store.sessions(&newest).await.unwrap())).await,
        ),
        (
            "list sessions of an owner",
            middle(async |_| drop(store.sessions(&owned).await.unwrap())).await,
        ),
        (
            "find a session",
            middle(async |n| drop(store.session(&id(n)).await.unwrap())).await,
        ),
        (
            "list runs, the newest 50",
            middle(async |_| drop(store.find_runs(&runs).await.unwrap())).await,
        ),
        (
            "list the runs of a session",
            middle(async |n| drop(store.runs(&id(n)).await.unwrap())).await,
        ),
        (
            "read the history of a session, to go on from it",
            middle(async |n| drop(store.history(&id(n)).await.unwrap())).await,
        ),
        (
            "begin a session with a run of three steps, and end it",
            middle(async |n| append(store, size, n).await).await,
        ),
        (
            "find the runs that are due (every 2 s)",
            middle(async |_| drop(store.due().await.unwrap())).await,
        ),
        (
            "find the runs with mail (every second)",
            middle(async |_| drop(store.mailed().await.unwrap())).await,
        ),
        (
            "read all that have not ended (every 30 s)",
            middle(async |_| drop(store.unfinished().await.unwrap())).await,
        ),
        (
            "find what is too old to be kept",
            middle(async |_| drop(store.idle(long_ago, 100).await.unwrap())).await,
        ),
    ]
}

/// Begins a session, and in it a run that ends.
async fn append(store: &SqlStore, size: i64, number: usize) {
    let session: SessionId = format!("new-{size}-{number}").parse().unwrap();
    let made = Session::new(session.clone(), START);
    store.create_session(&made).await.unwrap();
    let size = u64::try_from(size).unwrap();
    let run = CountingIds::nth_run(10_000_000 + size * 100 + u64::try_from(number).unwrap());
    let lease = store.begin_run(&session, run).await.unwrap();
    let mut log = RunLog::new(run, session);
    for record in [
        log.started("Hello?"),
        log.replied(reply::text("Hi.")),
        log.finished("Hi."),
    ] {
        store.commit(&lease, &[record]).await.unwrap();
    }
}

async fn middle(mut done: impl AsyncFnMut(usize)) -> Duration {
    let mut took = Vec::new();
    for number in 0..TIMES {
        let began = Instant::now();
        done(number).await;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took.get(TIMES / 2).copied().unwrap()
}
