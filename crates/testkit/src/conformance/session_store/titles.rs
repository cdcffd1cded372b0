//! Rules for titles of sessions, and for what a list shows of each session.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;

use neuraxis_core::log::LogSummary;
use neuraxis_core::{DataPolicy, Record, RunStatus};
use neuraxis_ports::{
    MAX_TITLE_CHARS, Session, SessionFilter, SessionStore, SessionSummary, StoreError, check_title,
};

use super::{Busy, history, id, session_of};

async fn title(store: &impl SessionStore, session: &str) -> Option<String> {
    let session = store.session(&id(session)).await;
    session.expect("the session is known").title
}

async fn listed(store: &impl SessionStore) -> Vec<SessionSummary> {
    let listed = store.summaries(&SessionFilter::default()).await;
    listed.expect("the store lists")
}

/// A title is set, replaced and removed. The last caller wins, and nothing else of the session changes.
pub async fn a_title_is_set_replaced_and_removed(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    assert_eq!(title(&store, "main").await, None);
    let start = store.verify(&session.id, None).await;
    for (given, kept) in [
        (Some("  Trip to Kyoto\n"), Some("Trip to Kyoto")),
        (
            Some("Kyoto 🏯 \"in\" 100% {spring}"),
            Some("Kyoto 🏯 \"in\" 100% {spring}"),
        ),
        (None, None),
        (None, None),
    ] {
        assert_eq!(store.set_title(&session.id, given).await, Ok(()));
        let mut expected = session.clone();
        expected.title = kept.map(str::to_owned);
        assert_eq!(store.session(&session.id).await, Ok(expected.clone()));
        let all = SessionFilter::default();
        assert_eq!(store.sessions(&all).await, Ok(vec![expected]));
    }
    assert_eq!(store.verify(&session.id, None).await, start);
}

/// A session may be created with a title, as an imported one is.
pub async fn a_session_can_be_created_with_a_title(store: impl SessionStore) {
    let mut session = session_of("main", 0);
    session.title = Some("Trip".to_owned());
    assert_eq!(store.create_session(&session).await, Ok(()));
    assert_eq!(store.session(&session.id).await, Ok(session));
    let mut invalid = session_of("other", 0);
    invalid.title = Some(" Trip".to_owned());
    let refused = store.create_session(&invalid).await;
    assert!(
        matches!(refused, Err(StoreError::Invalid { what: "title", .. })),
        "{refused:?}"
    );
}

/// A title that no list could show is refused, and the title stays.
pub async fn an_invalid_title_is_refused(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    let longest = "ü".repeat(MAX_TITLE_CHARS);
    assert_eq!(store.set_title(&session.id, Some(&longest)).await, Ok(()));
    let too_long = longest.clone() + "ü";
    for invalid in [
        "",
        " \n ",
        "a\nb",
        "a\u{2028}b",
        "a\0b",
        "a\u{1b}b",
        &too_long,
    ] {
        let refused = store.set_title(&session.id, Some(invalid)).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid { what: "title", .. })),
            "{invalid:?}: {refused:?}"
        );
        assert!(check_title(invalid).is_err());
    }
    assert_eq!(title(&store, "main").await, Some(longest));
}

/// An unknown session has no title, and a deleted one leaves none to the next session with its id.
pub async fn a_title_is_deleted_with_its_session(store: impl SessionStore) {
    let main = id("main");
    for title in [Some("Trip"), None] {
        let unknown = store.set_title(&main, title).await;
        assert_eq!(unknown, Err(StoreError::NoSuchSession(main.clone())));
    }
    assert_eq!(store.create_session(&session_of("main", 0)).await, Ok(()));
    assert_eq!(store.set_title(&main, Some("Trip")).await, Ok(()));
    assert_eq!(store.delete_session(&main).await, Ok(()));
    assert_eq!(store.create_session(&session_of("main", 0)).await, Ok(()));
    assert_eq!(title(&store, "main").await, None);
}

/// A title can be set while a run is in progress, whose lease stays valid.
pub async fn a_title_can_be_set_while_a_run_is_in_progress(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let session = busy.session.clone();
    assert_eq!(store.set_title(&session, Some("Trip")).await, Ok(()));
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(history(&store, &session).await, ["Hello?", "Hi."]);
    assert_eq!(title(&store, "main").await, Some("Trip".to_owned()));
}

/// A list shows each session with its first message and its last run: none, one or several.
pub async fn a_list_shows_the_first_message_and_last_run_of_each_session(store: impl SessionStore) {
    assert_eq!(store.create_session(&session_of("empty", 9)).await, Ok(()));
    let first = Busy::new(&store).await;
    let main = first.session.clone();
    first.finish(&store, "First?", "One.").await;
    // A later run may have a smaller id.
    let second = Busy::begin(&store, &main, 9).await;
    let second = second.finish(&store, "Second?", "Two.").await;
    let second_ended = second.last().expect("it has records").at;
    let mut last = Busy::begin(&store, &main, 3).await;
    let shown = |mut session: Session, log: &LogSummary, run| {
        // Without records, the last run has not been active yet.
        let active = log.ended_at.or(log.started_at);
        session.mark_active(active.unwrap_or(second_ended));
        let mut expected = SessionSummary::new(session).ending_with(run, log);
        expected.first_message = Some("First?".to_owned());
        expected
    };
    let run = last.log.run();
    let empty = SessionSummary::new(session_of("empty", 9));
    let begun = shown(session_of("main", 0), &LogSummary::default(), run);
    assert_eq!(listed(&store).await, [empty.clone(), begun]);
    let records = [last.log.started("Third?")];
    last.commit(&store, &records).await;
    let working = shown(session_of("main", 0), &LogSummary::of(&records), run);
    assert_eq!(listed(&store).await, [empty.clone(), working]);
    let end = [last.log.failed("no model")];
    last.commit(&store, &end).await;
    let log = LogSummary::of(&[&records[..], &end[..]].concat());
    let ended = shown(session_of("main", 0), &log, run);
    assert_eq!(listed(&store).await, [empty, ended.clone()]);
    let last = ended.last_run.expect("it has runs");
    let (id, status) = (last.run_id, last.status);
    assert_eq!(
        (id, status, last.ended_at),
        (run, RunStatus::Failed, log.ended_at)
    );
}

/// The pages of such a list are those of the sessions alone.
pub async fn pages_of_sessions_and_of_summaries_show_the_same_sessions(store: impl SessionStore) {
    for (text, seconds) in [("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 3)] {
        let session = session_of(text, seconds).owned_by("ann");
        assert_eq!(store.create_session(&session).await, Ok(()));
    }
    assert_eq!(store.create_session(&session_of("f", 2)).await, Ok(()));
    for filter in [
        SessionFilter::default(),
        SessionFilter::default().beginning_with("b"),
    ] {
        let mut filter = filter.owned_by("ann").limited_to(2);
        loop {
            let page = store.sessions(&filter).await.expect("the store lists");
            let shown = store.summaries(&filter).await.expect("the store lists");
            let shown: Vec<_> = shown.into_iter().map(|shown| shown.session).collect();
            assert_eq!(shown, page);
            let Some(last) = page.last() else { break };
            filter = filter.after(last);
        }
    }
}

/// A long first message is clipped, and one that a data policy kept out of the log is not shown.
pub async fn a_long_first_message_is_clipped_and_a_withheld_one_is_not_shown(
    store: impl SessionStore,
) {
    let long = "Why? ".repeat(100);
    for (number, (name, message)) in [
        ("long", long.as_str()),
        ("blank", " \n"),
        ("secret", "A secret"),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u64::try_from(number).unwrap_or_default();
        let session = session_of(name, number);
        assert_eq!(store.create_session(&session).await, Ok(()));
        let mut busy = Busy::begin(&store, &session.id, number + 1).await;
        let started = busy.log.started(message);
        let started = match name {
            "secret" => withheld(&started),
            _ => started,
        };
        busy.commit(&store, &[started]).await;
    }
    let listed = listed(&store).await;
    let shown: Vec<_> = listed
        .iter()
        .map(|it| it.first_message.as_deref())
        .collect();
    let clipped = "Why? ".repeat(24) + "…";
    assert_eq!(shown, [None, None, Some(clipped.as_str())]);
    assert!(listed.iter().all(|it| it.last_run.is_some()));
}

/// Returns a record as a log without texts contains it.
pub(super) fn withheld(record: &Record) -> Arc<Record> {
    let policy = DataPolicy {
        text: false,
        ..DataPolicy::ALL
    };
    let withheld = record.withheld(policy);
    Arc::new(withheld.expect("the policy withholds something"))
}
