//! Two stores over one database stay out of each other's runs.

use std::time::{Duration, Instant};

use neuraxis_core::{InboxEntry, InboxInput, InputId};
use neuraxis_ports::{RunLog as _, RunStart, Session, SessionIndex as _, StoreError};
use neuraxis_sql::SqlConfig;
use neuraxis_testkit::{CountingIds, RunLog, START};
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::support::{Busy, file_config, id, on_both, open, records, server_config};

on_both! {
    a_run_with_a_valid_lease_is_not_taken_over
    a_run_reports_when_its_lease_ends
    a_released_run_resumes_in_another_store_and_its_old_holder_is_fenced
    a_run_with_an_expired_lease_is_taken_over
    an_expired_lease_can_be_renewed_if_the_run_was_not_taken_over
    a_lease_expiry_too_far_ahead_is_soon_ignored
    an_entry_posted_through_one_store_is_taken_in_another
    only_one_of_two_concurrent_takeovers_gets_the_run
    stores_that_drive_a_run_in_turn_continue_the_same_log
}

#[tokio::test]
async fn a_lease_acquired_for_a_dropped_request_is_released_on_sqlite() {
    a_lease_acquired_for_a_dropped_request_is_released(file_config()).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_lease_acquired_for_a_dropped_request_is_released_on_postgres() {
    a_lease_acquired_for_a_dropped_request_is_released(server_config()).await;
}

/// The caller went away while its transaction was running: the session is free again, or other processes can resume the
/// run.
async fn a_lease_acquired_for_a_dropped_request_is_released(config: SqlConfig) {
    let store = open(&config).await;
    // Two runs that begin in separate sessions, the second with a record.
    let starts = [1, 2].map(|number| {
        let session = Session::new(id(&format!("s{number}")), START);
        let mut log = RunLog::new(CountingIds::nth_run(number), session.id.clone());
        let start = RunStart::in_new_session(session, log.run());
        (log.started("Hello?"), start)
    });
    let [(_, empty), (first, begun)] = starts;
    let begun = begun.with_records(vec![first]);
    for (start, next) in [(&empty, "a"), (&begun, "b")] {
        // On one thread the idle writer takes the job in this turn and waits for the database.
        tokio::select! {
            biased;
            begun = store.begin(start) => unreachable!("it took no time: {begun:?}"),
            () = tokio::task::yield_now() => {}
        }
        while store.session(&start.session).await.is_err() {
            tokio::task::yield_now().await;
        }
        // Later writes come after the release.
        let next = Session::new(id(next), START);
        assert_eq!(store.create_session(&next).await, Ok(()));
    }
    let gone = store.run(empty.run).await;
    assert_eq!(gone, Err(StoreError::NoSuchRun(empty.run)));
    let left = store.run(begun.run).await.unwrap();
    assert_eq!((left.records, left.released), (1, true));
    let other = open(&config).await;
    assert!(other.begin_run(&begun.session, begun.run).await.is_ok());
}

/// The run begins while pruning looks at the sessions, so pruning may not see any run yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_session_in_which_a_run_is_just_starting_is_not_pruned() {
    let config = server_config();
    let store = open(&config).await;
    for name in ["used", "old"] {
        let session = Session::new(id(name), START);
        store.create_session(&session).await.unwrap();
    }
    let mut other = PgConnection::connect(&config.url).await.unwrap();
    for sql in [
        "BEGIN",
        "SELECT key FROM neuraxis.sessions WHERE id = 'used' FOR UPDATE",
        "INSERT INTO neuraxis.runs (id, session, token, holder, records, bytes, chain_records, chain) \
         SELECT decode(repeat('07', 16), 'hex'), key, nextval('neuraxis.leases'), 'other', 0, 0, 0, \
         decode(repeat('00', 32), 'hex') FROM neuraxis.sessions WHERE id = 'used'",
    ] {
        sqlx::query(sql).execute(&mut other).await.unwrap();
    }
    let later = START.checked_add(Duration::from_secs(60)).unwrap();
    let pruning = tokio::spawn({
        let store = store.clone();
        async move { store.prune(later).await }
    });
    // It skips the locked session, or waits for it.
    let waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let mut watching = PgConnection::connect(&config.url).await.unwrap();
    while !pruning.is_finished() {
        let waits = sqlx::query(waits).fetch_optional(&mut watching).await;
        if waits.unwrap().is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sqlx::query("COMMIT").execute(&mut other).await.unwrap();
    assert_eq!(pruning.await.unwrap(), Ok(1));
    let begun = store.runs(&id("used")).await.unwrap();
    assert_eq!(begun.len(), 1);
    let gone = store.session(&id("old")).await;
    assert_eq!(gone, Err(StoreError::NoSuchSession(id("old"))));
}

async fn a_run_with_a_valid_lease_is_not_taken_over(config: SqlConfig) {
    let (one, other) = (open(&config).await, open(&config).await);
    let mut busy = Busy::new(&one, 1).await;
    let (session, run) = (busy.session.clone(), busy.run());
    let refused = other.begin_run(&session, run).await;
    assert_eq!(refused, Err(StoreError::SessionBusy { session, run }));
    assert_eq!(other.unfinished().await, Ok(Vec::new()));
    busy.warn(&one, "still here").await.unwrap();
}

async fn a_run_reports_when_its_lease_ends(config: SqlConfig) {
    let (one, other) = (open(&config).await, open(&config).await);
    let mut busy = Busy::new(&one, 1).await;
    let held = async || other.run(busy.run()).await.unwrap().leased_until;
    let until = held().await.unwrap().as_millisecond();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    let left = until - i64::try_from(now.as_millis()).unwrap();
    // A server's clock may differ slightly.
    let most = i64::try_from(config.lease.as_millis()).unwrap() + 5_000;
    assert!(left > 0 && left < most, "{left} ms");
    one.release(&busy.lease).await.unwrap();
    assert_eq!(held().await, None);
    busy.lease = other.begin_run(&busy.session, busy.run()).await.unwrap();
    busy.finish(&other).await.unwrap();
    assert_eq!(one.run(busy.run()).await.unwrap().leased_until, None);
}

async fn a_released_run_resumes_in_another_store_and_its_old_holder_is_fenced(config: SqlConfig) {
    let (one, other) = (open(&config).await, open(&config).await);
    let mut busy = Busy::new(&one, 1).await;
    let stalled = busy.lease.clone();
    one.expire(&stalled).await.unwrap();
    let left = other.run(busy.run()).await.unwrap();
    assert_eq!((left.released, left.leased_until), (false, None));
    one.release(&stalled).await.unwrap();
    assert!(other.run(busy.run()).await.unwrap().released);
    busy.lease = other.begin_run(&busy.session, busy.run()).await.unwrap();
    assert!(busy.lease.token > stalled.token);
    busy.warn(&other, "taken over").await.unwrap();
    let late = busy.log.clone().warned("back again");
    let stale = Err(StoreError::Stale(busy.run()));
    assert_eq!(one.commit(&stalled, &[late]).await, stale);
    assert_eq!(one.renew(&stalled).await, stale);
    assert_eq!(records(&one, busy.run()).await, busy.records);
}

/// A lease with a length of zero expires as soon as it is granted.
async fn a_run_with_an_expired_lease_is_taken_over(mut config: SqlConfig) {
    config.lease = Duration::ZERO;
    let (one, other) = (open(&config).await, open(&config).await);
    let mut busy = Busy::new(&one, 1).await;
    let stalled = busy.lease.clone();
    let left = other.unfinished().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].run_id, left[0].records), (busy.run(), 1));
    // Its holder is gone and did not clear the lease.
    assert_eq!(left[0].leased_until, None);
    assert_eq!(other.run(busy.run()).await.unwrap().leased_until, None);
    busy.lease = other.begin_run(&busy.session, busy.run()).await.unwrap();
    // The first store still has the run in its cache.
    let late = busy.log.clone().warned("back again");
    let refused = one.commit(&stalled, &[late]).await;
    assert_eq!(refused, Err(StoreError::Stale(busy.run())));
    busy.warn(&other, "taken over").await.unwrap();
    busy.finish(&other).await.unwrap();
    assert_eq!(records(&one, busy.run()).await, busy.records);
    assert_eq!(one.unfinished().await, Ok(Vec::new()));
}

async fn an_expired_lease_can_be_renewed_if_the_run_was_not_taken_over(mut config: SqlConfig) {
    config.lease = Duration::ZERO;
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    assert_eq!(store.renew(&busy.lease).await, Ok(()));
    busy.finish(&store).await.unwrap();
}

/// As left behind by a process that died while the clock was two hours ahead.
async fn a_lease_expiry_too_far_ahead_is_soon_ignored(mut config: SqlConfig) {
    config.lease = Duration::from_secs(1);
    let dead = open(&config).await;
    let mut busy = Busy::new(&dead, 1).await;
    let ahead = "UPDATE runs SET leased_until = leased_until + 7200000";
    match config.file() {
        Some(_) => {
            let mut link = SqliteConnection::connect(&config.url).await.unwrap();
            sqlx::query(ahead).execute(&mut link).await.unwrap();
            link.close().await.unwrap();
        }
        None => {
            let mut link = PgConnection::connect(&config.url).await.unwrap();
            let ahead = ahead.replace("runs", "neuraxis.runs");
            let ahead = sqlx::query(sqlx::AssertSqlSafe(ahead));
            ahead.execute(&mut link).await.unwrap();
        }
    }
    let other = open(&config).await;
    let (session, run) = (busy.session.clone(), busy.run());
    let refused = other.begin_run(&session, run).await;
    assert!(
        matches!(refused, Err(StoreError::SessionBusy { .. })),
        "its holder may renew it"
    );
    let began = Instant::now();
    while other.unfinished().await.unwrap().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "it is believed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(other.run(run).await.unwrap().leased_until, None);
    busy.lease = other.begin_run(&session, run).await.unwrap();
    busy.finish(&other).await.unwrap();
}

async fn an_entry_posted_through_one_store_is_taken_in_another(config: SqlConfig) {
    let (one, other) = (open(&config).await, open(&config).await);
    let mut busy = Busy::new(&one, 1).await;
    let entry = InboxEntry::new(InboxInput::steered(InputId::new("s1"), "wait"));
    other.post(busy.run(), &entry).await.unwrap();
    assert_eq!(one.inbox(&busy.lease).await, Ok(vec![entry.clone()]));
    let InboxInput::Steered(steered) = entry.input else {
        unreachable!("a message was posted")
    };
    let taken = neuraxis_core::RecordBody::Steered(Box::new(steered));
    let taken = [busy.log.record(taken)];
    one.commit(&busy.lease, &taken).await.unwrap();
    assert_eq!(one.inbox(&busy.lease).await, Ok(Vec::new()));
}

async fn only_one_of_two_concurrent_takeovers_gets_the_run(mut config: SqlConfig) {
    config.lease = Duration::ZERO;
    let owner = open(&config).await;
    let busy = Busy::new(&owner, 1).await;
    owner.release(&busy.lease).await.unwrap();
    config.lease = Duration::from_secs(600);
    let (one, other) = (open(&config).await, open(&config).await);
    let (session, run) = (&busy.session, busy.run());
    let (first, second) = tokio::join!(one.begin_run(session, run), other.begin_run(session, run));
    let held = [&first, &second].into_iter().filter(|it| it.is_ok());
    assert_eq!(held.count(), 1, "{first:?} and {second:?}");
}

async fn stores_that_drive_a_run_in_turn_continue_the_same_log(config: SqlConfig) {
    let (one, other) = (open(&config).await, open(&config).await);
    let mut busy = Busy::new(&one, 1).await;
    for round in 0..4 {
        let store = if round % 2 == 0 { &other } else { &one };
        let previous = if round % 2 == 0 { &one } else { &other };
        previous.release(&busy.lease).await.unwrap();
        busy.lease = store.begin_run(&busy.session, busy.run()).await.unwrap();
        busy.warn(store, "round").await.unwrap();
    }
    busy.finish(&one).await.unwrap();
    assert_eq!(records(&other, busy.run()).await, busy.records);
    let head = one.verify(&busy.session, None).await.unwrap();
    assert_eq!(other.verify(&busy.session, Some(head.hash)).await, Ok(head));
    let used = other.metrics(&busy.session).await.unwrap();
    assert_eq!(used.runs, 1);
}
