//! Rules for statistics over many runs: the same figures as from their records, whatever the store keeps in addition.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::jiff::tz::{TimeZone, offset};
use neuraxis_core::log::{LogSummary, Stats, StatsRow};
use neuraxis_core::{
    CallIndex, CountLabel, MicroUsd, ModelRef, Record, RecordBody, SessionId, ToolCallId,
    ToolFailure, ToolOutcome, ToolResult,
};
use neuraxis_ports::{SessionStore, StatsFilter};

use super::{Busy, id, session_of};
use crate::clock::START;
use crate::reply;

const DAY: Duration = Duration::from_secs(86_400);

/// More runs than any store reads at once.
const MANY: u64 = 1_030;

fn days_after_start(days: u32) -> Timestamp {
    START.checked_add(DAY * days).expect("a time")
}

async fn stats(store: &impl SessionStore, filter: &StatsFilter) -> Stats {
    store.stats(filter).await.expect("the store counts")
}

/// Plays a run that began `day` days after the start, called a model and called a tool.
async fn play(store: &impl SessionStore, session: &SessionId, number: u64, day: u32) -> Played {
    let mut busy = Busy::begin(store, session, number).await;
    busy.log = busy.log.clone().at(days_after_start(day));
    let mut records = vec![busy.log.started("Hello?")];
    records.push(priced(&mut busy, number));
    records.push(busy.log.record(RecordBody::ToolResult(Box::new(result()))));
    records.push(busy.log.finished("Hi."));
    // What is kept in addition to the records is updated from commit to commit.
    let (first, rest) = records.split_at(2);
    busy.commit(store, first).await;
    busy.commit(store, rest).await;
    records
}

type Played = Vec<Arc<Record>>;

fn priced(busy: &mut Busy, micro_usd: u64) -> Arc<Record> {
    let mut reply = reply::using(reply::text("Hi."), 100, 20);
    reply.model = ModelRef::new("openai", "big");
    let mut record = Arc::unwrap_or_clone(busy.log.replied(reply));
    if let RecordBody::LlmCall(call) = &mut record.body {
        call.cost = Some(MicroUsd(micro_usd));
        call.cost_label = CountLabel::Estimated;
    }
    record.active_ms = Some(250);
    Arc::new(record)
}

fn result() -> ToolResult {
    let denied = ToolOutcome::failed(ToolFailure::Denied, "denied");
    ToolResult::of(
        ToolCallId::from_text("call_1"),
        "search",
        CallIndex(0),
        denied,
    )
}

fn expected<'a>(owner: &str, runs: impl IntoIterator<Item = &'a Played>) -> Stats {
    let mut stats = Stats::default();
    for run in runs {
        stats.add_of(Some(owner), &LogSummary::of(run));
    }
    stats
}

/// In every grouping, the store's figures are the sums over the records of its runs.
pub async fn statistics_sum_runs_by_day_model_role_tool_and_agent(store: impl SessionStore) {
    assert_eq!(
        stats(&store, &StatsFilter::default()).await,
        Stats::default()
    );
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    let mut runs = Vec::new();
    for (number, day) in [(1, 0), (2, 0), (3, 2)] {
        runs.push(play(&store, &session.id, number, day).await);
    }
    let mut at_work = Busy::begin(&store, &session.id, 4).await;
    let begun = vec![at_work.log.started("And?")];
    at_work.commit(&store, &begun).await;
    runs.push(begun);
    let found = stats(&store, &StatsFilter::default()).await;
    assert_eq!(found, expected("owner of main", &runs));
    let total = found.total();
    assert_eq!((total.runs, total.calls, total.failures), (4, 3, 0));
    assert_eq!(total.cost.amount, MicroUsd(1 + 2 + 3));
    assert_eq!(total.cost.label, CountLabel::Estimated);
    assert_eq!(total.usage.total.tokens, 3 * 120);
    let told = |rows: Vec<StatsRow>| {
        let rows = rows.into_iter();
        let told = rows.map(|row| (row.name, row.runs, row.calls, row.failures));
        told.collect::<Vec<_>>()
    };
    let day = |name: &str, runs, calls| (name.to_owned(), runs, calls, 0);
    assert_eq!(
        told(found.days()),
        [day("2026-01-01", 3, 2), day("2026-01-03", 1, 1)]
    );
    assert_eq!(told(found.models()), [day("openai/big", 3, 3)]);
    assert_eq!(told(found.roles()), [day("reasoning", 3, 3)]);
    assert_eq!(told(found.tools()), [("search".to_owned(), 3, 3, 3)]);
    assert_eq!(told(found.agents()), [day("main_thread", 3, 3)]);
    let [model] = found.models().try_into().expect("one model");
    assert_eq!(model.latency.p50_ms, Some(5));
    assert_eq!(total.latency.p95_ms.map(|ms| ms / 10), Some(25));
}

/// Runs that were not asked for are not counted.
pub async fn statistics_of_an_owner_count_only_that_owners_runs(store: impl SessionStore) {
    let mut runs = Vec::new();
    for (name, owner, number) in [("a", Some("ann"), 1), ("b", Some("bob"), 2), ("c", None, 3)] {
        let mut session = session_of(name, 0);
        session.owner = owner.map(str::to_owned);
        assert_eq!(store.create_session(&session).await, Ok(()));
        runs.push(play(&store, &session.id, number, 0).await);
    }
    let of = |owner: &str| StatsFilter::default().owned_by(owner);
    for (owner, run) in ["ann", "bob"].into_iter().zip(runs.chunks(1)) {
        assert_eq!(stats(&store, &of(owner)).await, expected(owner, run));
    }
    for nobody in ["", "Ann", "ann' OR ''='"] {
        assert_eq!(stats(&store, &of(nobody)).await, Stats::default());
    }
    let all = stats(&store, &StatsFilter::default()).await;
    assert_eq!(all.total().runs, 3);
    let owners = all.owners().into_iter();
    let owners: Vec<_> = owners.map(|row| (row.name, row.cost.amount.0)).collect();
    assert_eq!(owners, [("bob".to_owned(), 2), ("ann".to_owned(), 1)]);
}

/// A run counts from the exact moment it began, and toward the day of that moment in the reader's time zone.
pub async fn statistics_count_runs_from_an_exact_time(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    for (number, day) in [(1, 3), (2, 0), (3, 1)] {
        play(&store, &session.id, number, day).await;
    }
    let runs_since = async |since| {
        let filter = StatsFilter::default().since(since);
        stats(&store, &filter).await.total().runs
    };
    for (day, runs) in [(0, 3), (1, 2), (2, 1), (3, 1), (4, 0)] {
        assert_eq!(runs_since(days_after_start(day)).await, runs, "day {day}");
    }
    let a_moment_later = days_after_start(1) + Duration::from_micros(1);
    assert_eq!(runs_since(a_moment_later).await, 1);
    assert_eq!(runs_since(Timestamp::MIN).await, 3);
    assert_eq!(runs_since(Timestamp::MAX).await, 0);
    let runs_between = async |since, before| {
        let filter = StatsFilter::default().since(since).before(before);
        stats(&store, &filter).await.total().runs
    };
    for (days, runs) in [
        ((0, 1), 1),
        ((0, 2), 2),
        ((1, 3), 1),
        ((1, 1), 0),
        ((3, 4), 1),
    ] {
        let (since, before) = (days_after_start(days.0), days_after_start(days.1));
        assert_eq!(runs_between(since, before).await, runs, "days {days:?}");
    }
    assert_eq!(runs_between(Timestamp::MIN, a_moment_later).await, 2);
    let before = StatsFilter::default().before(days_after_start(3));
    assert_eq!(stats(&store, &before).await.total().runs, 2);
    // Far in the west, the first day has not begun yet.
    let west = TimeZone::fixed(offset(-12));
    let found = stats(&store, &StatsFilter::default().days_in(west)).await;
    let days = found.days().into_iter().map(|row| row.name);
    let days: Vec<String> = days.collect();
    assert_eq!(days, ["2025-12-31", "2026-01-01", "2026-01-03"]);
}

/// More runs than fit in one page are counted page by page, each one once, however many began at the same time.
pub async fn more_runs_than_fit_in_one_page_are_each_counted_once(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    for number in 1..=MANY {
        let mut busy = Busy::begin(&store, &session.id, number).await;
        let records = [busy.log.started("Hello?"), busy.log.finished("Hi.")];
        busy.commit(&store, &records).await;
    }
    let found = stats(&store, &StatsFilter::default()).await;
    assert_eq!(found.total().runs, MANY);
    let since = StatsFilter::default()
        .since(START)
        .owned_by("owner of main");
    assert_eq!(stats(&store, &since).await, found);
}

/// Runs of a deleted session are no longer counted.
pub async fn runs_of_a_deleted_session_are_no_longer_counted(store: impl SessionStore) {
    for (name, number) in [("main", 1), ("side", 2)] {
        assert_eq!(store.create_session(&session_of(name, 0)).await, Ok(()));
        play(&store, &id(name), number, 0).await;
    }
    assert_eq!(stats(&store, &StatsFilter::default()).await.total().runs, 2);
    assert_eq!(store.delete_session(&id("main")).await, Ok(()));
    assert_eq!(stats(&store, &StatsFilter::default()).await.total().runs, 1);
}
