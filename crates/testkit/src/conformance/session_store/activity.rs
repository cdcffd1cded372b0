//! Rules for lists of sessions that begin with the one that was used last.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::{RunStart, Session, SessionFilter, SessionStore};

use super::{Busy, id, session_of};
use crate::clock::CountingIds;
use crate::run_log::RunLog;

/// Returns the time that is as many seconds after [`START`](crate::START).
fn seconds(number: u64) -> Timestamp {
    session_of("time", number).created_at
}

/// Creates sessions one second after the other.
async fn create(store: &impl SessionStore, names: &[&str]) {
    for (name, number) in names.iter().zip(1..) {
        let session = session_of(name, number).owned_by("ann");
        assert_eq!(store.create_session(&session).await, Ok(()));
    }
}

/// Begins a run of a session, whose next record comes at this second.
async fn begin(store: &impl SessionStore, session: &str, run: u64, second: u64) -> Busy {
    let mut busy = Busy::begin(store, &id(session), run).await;
    busy.log = busy.log.clone().at(seconds(second));
    busy
}

fn by_last_activity() -> SessionFilter {
    SessionFilter::default().by_last_activity()
}

fn names<'a>(sessions: impl IntoIterator<Item = &'a Session>) -> String {
    let names = sessions.into_iter().map(|session| session.id.as_str());
    names.collect::<Vec<_>>().join(" ")
}

/// Returns the sessions of a page, which is the same without and with what lists show.
async fn page(store: &impl SessionStore, filter: &SessionFilter) -> Vec<Session> {
    let sessions = store.sessions(filter).await.expect("the store lists");
    let shown = store.summaries(filter).await.expect("the store lists");
    let shown: Vec<_> = shown.into_iter().map(|shown| shown.session).collect();
    assert_eq!(shown, sessions);
    sessions
}

async fn listed(store: &impl SessionStore) -> String {
    names(&page(store, &by_last_activity()).await)
}

async fn last_active_at(store: &impl SessionStore, session: &str) -> Option<Timestamp> {
    let session = store.session(&id(session)).await;
    session.expect("the session is known").last_active_at
}

/// A run moves its session to the front of such a list when it begins and when it ends, and nothing else does: not its
/// other records, not a title, and not the end of an earlier run that is committed again. Other lists stay as they are.
pub async fn a_session_is_active_when_a_run_begins_and_when_it_ends(store: impl SessionStore) {
    create(&store, &["a", "b", "c"]).await;
    let mut first = begin(&store, "a", 1, 10).await;
    assert_eq!(listed(&store).await, "c b a");
    assert_eq!(last_active_at(&store, "a").await, None);
    let records = [first.log.started("Hello?")];
    first.commit(&store, &records).await;
    assert_eq!(listed(&store).await, "a c b");
    assert_eq!(last_active_at(&store, "a").await, Some(seconds(10)));
    let second = begin(&store, "b", 2, 20).await;
    second.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(last_active_at(&store, "b").await, Some(seconds(22)));
    first.log = first.log.clone().at(seconds(30));
    let records = [first.log.warned("slow")];
    first.commit(&store, &records).await;
    assert_eq!(store.set_title(&id("c"), Some("Trip")).await, Ok(()));
    assert_eq!(listed(&store).await, "b a c");
    first.log = first.log.clone().at(seconds(40));
    let end = [first.log.failed("no model")];
    first.commit(&store, &end).await;
    assert_eq!(listed(&store).await, "a b c");
    assert_eq!(last_active_at(&store, "a").await, Some(seconds(40)));
    let mut third = begin(&store, "a", 3, 50).await;
    let records = [third.log.started("And?")];
    third.commit(&store, &records).await;
    first.commit(&store, &end).await;
    assert_eq!(last_active_at(&store, "a").await, Some(seconds(50)));
    let by_creation = page(&store, &SessionFilter::default()).await;
    assert_eq!(names(&by_creation), "c b a");
}

/// Records that are stored when a run begins count as well, in a new session and in an existing one. So does the end of
/// a run among them, at the time of its record: an imported session takes its place among the others by when it was
/// used elsewhere.
pub async fn the_first_records_of_a_run_count_as_activity(store: impl SessionStore) {
    let session = session_of("new", 50);
    let run = CountingIds::nth_run(1);
    let mut log = RunLog::new(run, session.id.clone()).at(seconds(60));
    let start = RunStart::in_new_session(session, run).with_records(vec![log.started("Hello?")]);
    store.begin(&start).await.expect("the session is new");
    assert_eq!(last_active_at(&store, "new").await, Some(seconds(60)));

    let session = session_of("imported", 70);
    let run = CountingIds::nth_run(2);
    let mut log = RunLog::new(run, session.id.clone()).at(seconds(7));
    let records = vec![log.started("Hello?"), log.finished("Hi.")];
    let start = RunStart::in_new_session(session, run).with_records(records);
    store.begin(&start).await.expect("the session is new");
    assert_eq!(last_active_at(&store, "imported").await, Some(seconds(8)));

    assert_eq!(store.create_session(&session_of("old", 1)).await, Ok(()));
    let run = CountingIds::nth_run(3);
    let mut log = RunLog::new(run, id("old")).at(seconds(90));
    let start = RunStart::new(id("old"), run).with_records(vec![log.started("Hello?")]);
    store.begin(&start).await.expect("the session is free");
    assert_eq!(last_active_at(&store, "old").await, Some(seconds(90)));
    assert_eq!(listed(&store).await, "old new imported");
}

/// Pages of such a list show every session once, also those with the same time. One that is used meanwhile moves to the
/// front, so that later pages lack it, and shows it once at most.
pub async fn pages_by_last_activity_lack_only_sessions_that_are_used_meanwhile(
    store: impl SessionStore,
) {
    create(&store, &["a", "b", "c", "d", "e", "f"]).await;
    for (session, run) in [("b", 1), ("e", 2), ("a", 3)] {
        let busy = begin(&store, session, run, 10).await;
        busy.finish(&store, "Hello?", "Hi.").await;
    }
    let other = session_of("other", 12).owned_by("bob");
    assert_eq!(store.create_session(&other).await, Ok(()));
    let first = by_last_activity().owned_by("ann").limited_to(2);
    let mut filter = first.clone();
    let mut pages = Vec::new();
    loop {
        let page = page(&store, &filter).await;
        let Some(last) = page.last() else { break };
        filter = filter.after(last);
        pages.push(names(&page));
    }
    assert_eq!(pages, ["e b", "a f", "d c"]);

    let mut search = first.clone().containing("hello");
    let mut found = Vec::new();
    loop {
        let page = store.search(&search).await.expect("the store searches");
        found.push(names(page.sessions.iter().map(|it| &it.session)));
        let Some(next) = page.next else { break };
        search = search.continuing(next);
    }
    assert_eq!(found.join(" ").trim(), "e b a");

    let begun = page(&store, &first).await;
    for (session, run) in [("b", 4), ("c", 5)] {
        let busy = begin(&store, session, run, 20 + run).await;
        busy.finish(&store, "And?", "So.").await;
    }
    let mut filter = first.clone().after(begun.last().expect("it has two"));
    filter.limit = 9;
    assert_eq!(names(&page(&store, &filter).await), "a f d");
    assert_eq!(names(&page(&store, &first).await), "c b");
}
