//! Rules for the hash chain, which is the same in every store.
//!
//! The hash of each record covers the previous one, starting from the session. A client that notes a head elsewhere can
//! later detect whether a record was changed, moved or cut off. Not for how a store handles damage in its own files.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use neuraxis_core::ContentHash;
use neuraxis_ports::{ChainHead, SessionStore, StoreError};

use super::Busy;

/// The chain begins with the session and covers all records, however they were committed.
pub async fn the_chain_of_a_session_covers_all_its_records(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let id = busy.session.clone();
    let session = store.session(&id).await.expect("the session is known");
    let start = ChainHead::start(&session);
    assert_eq!(store.verify(&id, None).await, Ok(start));
    let mut all = vec![busy.log.started("Hello?")];
    busy.commit(&store, &all).await;
    let long = "long ".repeat(100_000);
    let rest = [busy.log.warned(&long), busy.log.finished("Hi.")];
    busy.commit(&store, &rest).await;
    all.extend(rest);
    let second = Busy::begin(&store, &id, 2).await;
    all.extend(second.finish(&store, "And?", "So.").await);
    let expected = start.with_records(all.iter().map(AsRef::as_ref));
    assert_eq!(store.verify(&id, None).await, Ok(expected));
    assert_eq!(expected.records, 6);
}

/// A head that was noted elsewhere shows whether anything was cut off since. A session that only grew once had that
/// head.
pub async fn verification_accepts_only_heads_that_the_session_has_had(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let session = busy.session.clone();
    let before = store.verify(&session, None).await.expect("it is whole");
    let before = before.hash;
    assert!(store.verify(&session, Some(before)).await.is_ok());
    busy.finish(&store, "Hello?", "Hi.").await;
    let after = store.verify(&session, None).await.expect("it is whole");
    let gone_on = store.verify(&session, Some(before)).await;
    assert_eq!(gone_on, Ok(after));
    let nobodys = ContentHash::of(b"nobody's");
    let other = store.verify(&session, Some(nobodys)).await;
    assert!(matches!(other, Err(StoreError::Damaged(_))), "{other:?}");
    let text = after.hash.to_string().to_uppercase();
    let after = text.parse().expect("a hash is read back from its text");
    assert!(store.verify(&session, Some(after)).await.is_ok());
}
