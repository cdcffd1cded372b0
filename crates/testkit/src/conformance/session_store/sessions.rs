//! Rules for sessions and their history.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use neuraxis_core::{Message, Seq, Transcript, run_messages};
use neuraxis_ports::{MAX_OWNER_BYTES, SessionFilter, SessionStore, StoreError};

use super::{Busy, history, id, session_of};
use crate::clock::CountingIds;
use crate::reply;

/// A session is read back as it was created.
pub async fn a_session_is_read_back_as_it_was_created(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    assert_eq!(store.session(&session.id).await, Ok(session.clone()));
    assert_eq!(history(&store, &session.id).await, [""; 0]);
}

/// A second session with the same id is refused and changes nothing.
pub async fn a_second_session_with_the_same_id_is_refused(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    let second = store.create_session(&session_of("main", 9)).await;
    assert_eq!(second, Err(StoreError::SessionExists(id("main"))));
    assert_eq!(store.session(&session.id).await, Ok(session));
}

/// Every query about a session that does not exist returns an error that names it.
pub async fn an_unknown_session_is_named_in_the_error(store: impl SessionStore) {
    let nobody = id("nobody");
    let error = StoreError::NoSuchSession(nobody.clone());
    assert_eq!(store.session(&nobody).await.err(), Some(error.clone()));
    assert_eq!(store.history(&nobody).await.err(), Some(error.clone()));
    assert_eq!(
        store.delete_session(&nobody).await.err(),
        Some(error.clone())
    );
    assert_eq!(
        store
            .begin_run(&nobody, CountingIds::nth_run(1))
            .await
            .err(),
        Some(error)
    );
}

/// Sessions are listed by creation time, the newest first, not by id or by order of insertion.
pub async fn sessions_are_listed_newest_first(store: impl SessionStore) {
    let all = SessionFilter::default();
    assert_eq!(store.sessions(&all).await, Ok(Vec::new()));
    let (middle, newest, oldest) = (session_of("b", 5), session_of("a", 9), session_of("c", 1));
    for session in [&middle, &newest, &oldest] {
        assert_eq!(store.create_session(session).await, Ok(()));
    }
    assert_eq!(store.sessions(&all).await, Ok(vec![newest, middle, oldest]));
}

/// Deleting a session deletes its runs and their records.
pub async fn deleting_a_session_deletes_its_runs(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (session, run) = (busy.session.clone(), busy.log.run());
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.delete_session(&session).await, Ok(()));
    assert_eq!(
        store.session(&session).await,
        Err(StoreError::NoSuchSession(session))
    );
    assert_eq!(
        store.records(run, Seq(0)).await,
        Err(StoreError::NoSuchRun(run))
    );
    let all = SessionFilter::default();
    assert_eq!(store.sessions(&all).await, Ok(Vec::new()));
}

/// The id of a deleted session is free, and a new session with it is empty.
pub async fn the_id_of_a_deleted_session_can_be_reused(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let session = busy.session.clone();
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.delete_session(&session).await, Ok(()));
    assert_eq!(store.create_session(&session_of("main", 9)).await, Ok(()));
    assert_eq!(history(&store, &session).await, [""; 0]);
    Busy::begin(&store, &session, 2).await;
}

/// A session with a run in progress is not deleted.
pub async fn a_busy_session_is_not_deleted(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let error = StoreError::SessionBusy {
        session: busy.session.clone(),
        run: busy.log.run(),
    };
    assert_eq!(store.delete_session(&busy.session).await, Err(error));
    assert!(
        store.session(&busy.session).await.is_ok(),
        "the session is gone"
    );
}

/// A session that has grown since it was copied is not deleted on the basis of that copy.
pub async fn a_session_that_changed_since_it_was_read_is_not_deleted(store: impl SessionStore) {
    let session = id("main");
    let read = async || {
        let head = store.verify(&session, None).await;
        head.expect("the session is whole")
    };
    let changed = Err(StoreError::SessionChanged(session.clone()));
    let busy = Busy::new(&store).await;
    let empty = read().await;
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.delete_session_at(&session, empty).await, changed);
    let after_one = read().await;
    let busy = Busy::begin(&store, &session, 2).await;
    let refused = store.delete_session_at(&session, after_one).await;
    let is_busy = matches!(refused, Err(StoreError::SessionBusy { .. }));
    assert!(is_busy, "{refused:?}");
    busy.finish(&store, "And?", "So.").await;
    assert_eq!(store.delete_session_at(&session, after_one).await, changed);
    assert_eq!(history(&store, &session).await.len(), 4);
    let after_both = read().await;
    assert_eq!(store.delete_session_at(&session, after_both).await, Ok(()));
    let gone = Err(StoreError::NoSuchSession(session.clone()));
    assert_eq!(store.delete_session_at(&session, after_both).await, gone);
    // A session without runs is identified by what it was created with.
    assert_eq!(store.create_session(&session_of("main", 9)).await, Ok(()));
    assert_eq!(store.delete_session_at(&session, empty).await, changed);
    let anew = read().await;
    assert_eq!(store.delete_session_at(&session, anew).await, Ok(()));
}

/// The history of a session consists of the messages that its ended runs added, in order.
pub async fn an_ended_run_adds_its_messages_to_the_history(store: impl SessionStore) {
    let first = Busy::new(&store).await;
    let session = first.session.clone();
    let first = first.finish(&store, "Who are you?", "Nobody.").await;
    assert_eq!(history(&store, &session).await, ["Who are you?", "Nobody."]);
    let second = Busy::begin(&store, &session, 2)
        .await
        .finish(&store, "And me?", "Somebody.")
        .await;
    let projected: Vec<_> = [first, second]
        .iter()
        .flat_map(|records| run_messages(records))
        .collect();
    let kept = store.history(&session).await.expect("the session is known");
    assert_eq!(
        kept.messages(),
        projected,
        "the history is not the projection of the records"
    );
    let texts: Vec<_> = kept
        .messages()
        .iter()
        .map(|message| Message::text(message))
        .collect();
    assert_eq!(texts, ["Who are you?", "Nobody.", "And me?", "Somebody."]);
}

/// A run that has not ended adds nothing yet.
pub async fn a_run_in_progress_adds_nothing_to_the_history(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let records = [
        busy.log.started("Hello?"),
        busy.log.replied(reply::text("Hi.")),
    ];
    busy.commit(&store, &records).await;
    assert_eq!(history(&store, &busy.session).await, [""; 0]);
}

/// Concurrent runs of several sessions stay separate.
pub async fn concurrent_runs_of_several_sessions_stay_separate(store: impl SessionStore) {
    let mut main = Busy::new(&store).await;
    assert_eq!(store.create_session(&session_of("side", 1)).await, Ok(()));
    let side = Busy::begin(&store, &id("side"), 2).await;
    let started = [main.log.started("main?")];
    main.commit(&store, &started).await;
    side.finish(&store, "side?", "side!").await;
    assert_eq!(history(&store, &main.session).await, [""; 0]);
    let rest = [
        main.log.replied(reply::text("main!")),
        main.log.finished("main!"),
    ];
    main.commit(&store, &rest).await;
    assert_eq!(history(&store, &main.session).await, ["main?", "main!"]);
    assert_eq!(history(&store, &id("side")).await, ["side?", "side!"]);
}

/// The messages that a session continues from are stored with it, byte for byte, and begin its history.
pub async fn a_seed_is_stored_unchanged_and_begins_the_history(store: impl SessionStore) {
    let seed: Transcript = [
        Message::user("Ünïcode 🦀\0 and\nlines?"),
        Message::assistant("\u{202e}Yes."),
    ]
    .into_iter()
    .collect();
    let session = session_of("main", 0).seeded(seed.clone());
    assert_eq!(store.create_session(&session).await, Ok(()));
    assert_eq!(store.session(&session.id).await, Ok(session.clone()));
    assert_eq!(store.history(&session.id).await, Ok(seed));
    Busy::begin(&store, &session.id, 1)
        .await
        .finish(&store, "And now?", "Now.")
        .await;
    let texts = history(&store, &session.id).await;
    assert_eq!(
        texts.get(2..),
        Some(&["And now?".into(), "Now.".into()][..])
    );
}

/// A prefix finds the sessions whose ids begin with it. No character in it has a special meaning.
pub async fn sessions_are_found_by_a_prefix_of_their_ids(store: impl SessionStore) {
    for text in ["a", "a_b", "a_b.c", "aXb", "A_b", "b"] {
        assert_eq!(store.create_session(&session_of(text, 0)).await, Ok(()));
    }
    for (prefix, expected) in [
        ("", "b a_b.c a_b aXb a A_b"),
        ("a", "a_b.c a_b aXb a"),
        ("a_", "a_b.c a_b"),
        ("a_b.c", "a_b.c"),
        ("c", ""),
        ("%", ""),
    ] {
        let filter = SessionFilter::default().beginning_with(prefix);
        let found = store.sessions(&filter).await.expect("the store lists");
        let ids: Vec<_> = found.iter().map(|session| session.id.as_str()).collect();
        assert_eq!(ids.join(" "), expected, "{prefix:?}");
    }
}

/// A list is read page by page. Sessions with the same time are neither left out nor listed twice.
pub async fn sessions_are_listed_page_by_page(store: impl SessionStore) {
    for (text, seconds) in [("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 3)] {
        assert_eq!(
            store.create_session(&session_of(text, seconds)).await,
            Ok(())
        );
    }
    let mut filter = SessionFilter::default().limited_to(2);
    let mut pages = Vec::new();
    loop {
        let page = store.sessions(&filter).await.expect("the store lists");
        let Some(last) = page.last() else { break };
        filter = filter.after(last);
        let ids = page.iter().map(|session| session.id.to_string());
        pages.push(ids.collect::<Vec<_>>().join(" "));
    }
    assert_eq!(pages, ["e d", "c b", "a"]);
}

/// Listing by owner returns only the owner's own sessions, whatever characters the name contains.
pub async fn listing_by_owner_returns_only_that_owners_sessions(store: impl SessionStore) {
    let hostile = "x' OR '1'='1";
    for (text, owner) in [("a", "ann"), ("b", hostile), ("c", "ann")] {
        let session = session_of(text, 1).owned_by(owner);
        assert_eq!(store.create_session(&session).await, Ok(()));
    }
    let of = async |owner: &str| {
        let filter = SessionFilter::default().owned_by(owner);
        let listed = store.sessions(&filter).await.expect("the store lists");
        let ids = listed.iter().map(|session| session.id.to_string());
        ids.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(of("ann").await, "c a");
    assert_eq!(of(hostile).await, "b");
    assert_eq!(of("nobody").await, "");
}

/// An owner's name that some stores could not keep is refused by all stores.
pub async fn an_invalid_owner_name_is_refused(store: impl SessionStore) {
    for owner in ["a\0b".to_owned(), "x".repeat(MAX_OWNER_BYTES + 1)] {
        let session = session_of("main", 0).owned_by(owner);
        let refused = store.create_session(&session).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid { what: "owner", .. })),
            "{refused:?}"
        );
    }
    let longest = session_of("main", 0).owned_by("x".repeat(MAX_OWNER_BYTES));
    assert_eq!(store.create_session(&longest).await, Ok(()));
    assert_eq!(store.session(&longest.id).await, Ok(longest));
}

/// Sessions without activity since a time are pruned; others, and those with a run in progress, stay.
pub async fn old_sessions_are_pruned_and_busy_ones_stay(store: impl SessionStore) {
    let old = Busy::new(&store).await;
    let old_run = old.log.run();
    old.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.create_session(&session_of("busy", 0)).await, Ok(()));
    let busy = Busy::begin(&store, &id("busy"), 2).await;
    assert_eq!(store.create_session(&session_of("empty", 0)).await, Ok(()));
    assert_eq!(store.create_session(&session_of("new", 60)).await, Ok(()));

    // The run's log creates one record per second: the last one of the old session came two seconds after the start.
    let after = |seconds| session_of("time", seconds).created_at;
    let idle = async |seconds, most| {
        let idle = store.idle(after(seconds), most).await;
        let idle = idle.iter().flatten().map(ToString::to_string);
        idle.collect::<Vec<_>>()
    };
    assert_eq!(idle(0, 10).await, Vec::<String>::new());
    assert_eq!(idle(2, 10).await, ["empty"], "those that would be removed");
    assert_eq!(idle(3, 10).await.len(), 2);
    assert_eq!(idle(3, 1).await.len(), 1, "and no more than requested");
    assert_eq!(store.prune(after(0)).await, Ok(0));
    assert_eq!(
        store.prune(after(2)).await,
        Ok(1),
        "the empty session is removed"
    );
    assert_eq!(
        store.prune(after(3)).await,
        Ok(1),
        "the ended one is removed"
    );
    assert_eq!(
        store.records(old_run, Seq(0)).await,
        Err(StoreError::NoSuchRun(old_run))
    );
    let left = store.sessions(&SessionFilter::default()).await;
    let left: Vec<_> = left.iter().flatten().map(|it| it.id.to_string()).collect();
    assert_eq!(left, ["new", "busy"]);
    busy.finish(&store, "Hello?", "Hi.").await;
}
