//! Rules of sessions and their history.
#![expect(clippy::expect_used, reason = "a suite tells what is wrong by a panic")]

use neuraxis_core::{Message, Seq, run_messages};
use neuraxis_ports::{SessionStore, StoreError};

use super::{Busy, history, id, session_of};
use crate::ids::CountingIds;
use crate::reply;

/// A session comes back as it was created.
pub async fn a_session_is_found_after_it_was_created(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    assert_eq!(store.session(&session.id).await, Ok(session.clone()));
    assert_eq!(history(&store, &session.id).await, [""; 0]);
}

/// A second session of the same id is refused and changes nothing.
pub async fn a_session_id_is_taken_once(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    let second = store.create_session(&session_of("main", 9)).await;
    assert_eq!(second, Err(StoreError::SessionExists(id("main"))));
    assert_eq!(store.session(&session.id).await, Ok(session));
}

/// Whatever is asked of a session that is not there, the error names it.
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

/// Sessions are listed by the time they were made, the newest first, not by id or by order of creation.
pub async fn sessions_are_listed_the_newest_first(store: impl SessionStore) {
    assert_eq!(store.sessions().await, Ok(Vec::new()));
    let (middle, newest, oldest) = (session_of("b", 5), session_of("a", 9), session_of("c", 1));
    for session in [&middle, &newest, &oldest] {
        assert_eq!(store.create_session(session).await, Ok(()));
    }
    assert_eq!(store.sessions().await, Ok(vec![newest, middle, oldest]));
}

/// With a session its runs and their records are gone.
pub async fn a_deleted_session_is_gone_with_its_runs(store: impl SessionStore) {
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
    assert_eq!(store.sessions().await, Ok(Vec::new()));
}

/// The id of a deleted session is free, and a new session under it starts with nothing.
pub async fn a_deleted_session_id_may_be_used_again(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let session = busy.session.clone();
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.delete_session(&session).await, Ok(()));
    assert_eq!(store.create_session(&session_of("main", 9)).await, Ok(()));
    assert_eq!(history(&store, &session).await, [""; 0]);
    Busy::begin(&store, &session, 2).await;
}

/// A session with a run at work is not deleted.
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

/// The history of a session is what its ended runs added, in their order.
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
pub async fn a_run_at_work_adds_nothing_to_the_history(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let records = [
        busy.log.started("Hello?"),
        busy.log.replied(reply::text("Hi.")),
    ];
    busy.commit(&store, &records).await;
    assert_eq!(history(&store, &busy.session).await, [""; 0]);
}

/// Runs of several sessions at once keep to their own.
pub async fn sessions_do_not_mix(store: impl SessionStore) {
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
