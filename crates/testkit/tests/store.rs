//! The failing store fails as ordered and otherwise passes everything on.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use futures_util::FutureExt;
use neuraxis_core::SessionId;
use neuraxis_ports::{Session, SessionIndex as _, StoreError};
use neuraxis_testkit::mock::MockSessionStore;
use neuraxis_testkit::{FailingStore, Fault, START, StoreOperation};

fn session() -> Session {
    Session::new(id(), START)
}

fn id() -> SessionId {
    "main".parse().unwrap()
}

fn down() -> StoreError {
    StoreError::Unavailable("down".to_owned())
}

/// A store that expects this many calls that create a session.
fn store(times: usize) -> FailingStore<MockSessionStore> {
    let mut inner = MockSessionStore::new();
    inner
        .expect_create_session()
        .times(times)
        .returning(|_| Ok(()));
    inner.expect_session().returning(|_| Ok(session()));
    FailingStore::new(inner)
}

#[tokio::test]
async fn a_refused_operation_does_not_reach_the_store_and_the_next_one_does() {
    let store = store(1);
    store.fail_next(StoreOperation::CreateSession, Fault::Refuse(down()));
    assert_eq!(
        store.session(&id()).await,
        Ok(session()),
        "another operation is not struck"
    );
    assert_eq!(store.create_session(&session()).await, Err(down()));
    assert_eq!(store.create_session(&session()).await, Ok(()));
    let operations = [
        StoreOperation::Session,
        StoreOperation::CreateSession,
        StoreOperation::CreateSession,
    ];
    assert_eq!(store.calls(), operations);
}

#[tokio::test]
async fn an_operation_whose_response_is_lost_has_taken_effect() {
    let store = store(1);
    store.fail_next(StoreOperation::CreateSession, Fault::LoseAnswer(down()));
    assert_eq!(store.create_session(&session()).await, Err(down()));
}

#[tokio::test]
async fn a_hanging_operation_never_returns() {
    let store = store(0);
    store.fail_next(StoreOperation::CreateSession, Fault::Hang);
    assert!(store.create_session(&session()).now_or_never().is_none());
}

#[tokio::test]
async fn a_broken_store_refuses_everything_until_it_is_repaired() {
    let store = store(1);
    store.break_down(down());
    assert_eq!(store.create_session(&session()).await, Err(down()));
    assert_eq!(store.session(&id()).await, Err(down()));
    store.repair();
    assert_eq!(store.create_session(&session()).await, Ok(()));
}
