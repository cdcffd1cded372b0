//! Rules of what a session carries from one run to the next: untrusted content, and answers of people.
#![expect(clippy::expect_used, reason = "a suite tells what is wrong by a panic")]

use neuraxis_core::{
    Access, CallIndex, ContentHash, Grant, GrantScope, JsonText, Keep, Record, RecordBody,
    Remembered, ToolCallId, ToolResult, ToolStatus,
};
use neuraxis_ports::{MAX_GRANT_BYTES, RunLease, SessionStore, StoreError};
use std::sync::Arc;

use super::{Busy, id, session_of};
use crate::clock::START;
use crate::ids::CountingIds;

fn grant(number: u32, scope: GrantScope) -> Grant {
    Grant {
        id: number,
        tool: "write_file".parse().expect("a valid name"),
        definition: ContentHash::of(b"definition"),
        scope,
        at: START,
        by: Some("ada\u{202e}".to_owned()),
        policy_hash: ContentHash::of(b"policy"),
        code: None,
    }
}

fn result(busy: &mut Busy, tool: &str, untrusted: bool) -> Arc<Record> {
    busy.log.record(RecordBody::ToolResult(Box::new(ToolResult {
        tool_call_id: ToolCallId::from_text("call_1"),
        name: tool.into(),
        index: CallIndex(0),
        effect_id: None,
        attempt: None,
        status: ToolStatus::Done,
        value: JsonText::from_text("1"),
        failure: None,
        summary: None,
        keep: Keep::Result,
        metadata: None,
        signal: None,
        untrusted,
        duration: None,
    })))
}

async fn sources(store: &impl SessionStore, session: &str) -> Vec<String> {
    let taint = store.taint(&id(session)).await.expect("it is told");
    let sources = taint.sources().iter();
    assert!(
        sources.clone().all(|source| source.since.is_none()),
        "a later run has no such batch"
    );
    let mut tools: Vec<String> = sources.map(|source| source.tool.to_string()).collect();
    tools.sort();
    tools
}

/// What any run of a session brought, ended or not, is known, and no other session's.
pub async fn untrusted_content_of_a_session_is_known(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let other = store.create_session(&session_of("other", 0)).await;
    assert_eq!(other, Ok(()));
    let none: [&str; 0] = [];
    assert_eq!(sources(&store, "main").await, none);
    let first = [
        busy.log.started("Look it up."),
        result(&mut busy, "web_fetch", true),
        result(&mut busy, "read_file", false),
    ];
    busy.commit(&store, &first).await;
    assert_eq!(sources(&store, "main").await, ["web_fetch"]);
    let rest = [
        result(&mut busy, "web_fetch", true),
        result(&mut busy, "mail__read", true),
        busy.log.finished("Done."),
    ];
    busy.commit(&store, &rest).await;
    assert_eq!(sources(&store, "main").await, ["mail__read", "web_fetch"]);
    assert_eq!(sources(&store, "other").await, none);
}

/// Answers are remembered in their order, listed and taken back one by one.
pub async fn an_answer_is_remembered_listed_and_taken_back(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let scopes = [
        GrantScope::Tool,
        GrantScope::Command {
            pattern: "git log **".to_owned(),
            access: vec![Access::Network],
        },
        GrantScope::Arguments {
            hash: ContentHash::of(b"{}"),
        },
    ];
    let grants: Vec<Grant> = (1..).zip(scopes).map(|(id, it)| grant(id, it)).collect();
    for grant in &grants {
        assert_eq!(store.remember(&busy.lease, grant).await, Ok(()));
        // Whose answer was lost asks again.
        assert_eq!(store.remember(&busy.lease, grant).await, Ok(()));
    }
    let expected = Remembered::from_parts(grants, 3);
    assert_eq!(store.remembered(&busy.session).await, Ok(expected.clone()));
    assert_eq!(store.revoke(&busy.session, 2).await, Ok(true));
    assert_eq!(store.revoke(&busy.session, 2).await, Ok(false));
    assert_eq!(store.revoke(&busy.session, 9).await, Ok(false));
    let mut left = expected;
    left.revoke(2);
    assert_eq!(store.remembered(&busy.session).await, Ok(left));
}

/// A number that was given is not given again, not even after its answer was taken back.
pub async fn numbers_of_answers_never_come_back(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let out_of_turn =
        |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::Invalid { .. }));
    let second = grant(2, GrantScope::Tool);
    assert!(out_of_turn(store.remember(&busy.lease, &second).await));
    let first = grant(1, GrantScope::Tool);
    assert_eq!(store.remember(&busy.lease, &first).await, Ok(()));
    assert_eq!(store.revoke(&busy.session, 1).await, Ok(true));
    assert!(out_of_turn(store.remember(&busy.lease, &first).await));
    let told = store.remembered(&busy.session).await.expect("it is told");
    assert_eq!((told.grants().len(), told.next_id()), (0, 2));
    assert_eq!(store.remember(&busy.lease, &second).await, Ok(()));
}

/// Who no longer holds the session remembers nothing for it.
pub async fn an_answer_needs_the_lease_of_a_run(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = CountingIds::nth_run(1);
    let newer = store.begin_run(&busy.session, run).await;
    newer.expect("the same store may begin it again");
    let answer = grant(1, GrantScope::Tool);
    let refused = store.remember(&busy.lease, &answer).await;
    assert_eq!(refused, Err(StoreError::Stale(run)));
    let nobody = RunLease::new(
        busy.session.clone(),
        CountingIds::nth_run(7),
        99,
        busy.lease.length,
    );
    let refused = store.remember(&nobody, &answer).await;
    assert_eq!(refused, Err(StoreError::Stale(nobody.run)));
    let told = store.remembered(&busy.session).await;
    assert_eq!(told, Ok(Remembered::default()));
}

/// A session remembers so many answers of such a size and no more.
pub async fn remembered_answers_are_bounded(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let invalid =
        |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::Invalid { .. }));
    let pattern = "a".repeat(MAX_GRANT_BYTES);
    let large = grant(1, GrantScope::Host { pattern });
    assert!(invalid(store.remember(&busy.lease, &large).await));
    let most = u32::try_from(Remembered::MAX_GRANTS).expect("few");
    for number in 1..=most {
        let answer = grant(number, GrantScope::Tool);
        assert_eq!(store.remember(&busy.lease, &answer).await, Ok(()));
    }
    let one_more = grant(most + 1, GrantScope::Tool);
    assert!(invalid(store.remember(&busy.lease, &one_more).await));
    assert_eq!(store.revoke(&busy.session, 1).await, Ok(true));
    assert_eq!(store.remember(&busy.lease, &one_more).await, Ok(()));
}

/// What a session carried is gone with it, also for one of the same name.
pub async fn answers_and_untrusted_content_go_with_their_session(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let answer = grant(1, GrantScope::Tool);
    assert_eq!(store.remember(&busy.lease, &answer).await, Ok(()));
    let records = [
        busy.log.started("Look it up."),
        result(&mut busy, "web_fetch", true),
        busy.log.finished("Done."),
    ];
    busy.commit(&store, &records).await;
    assert_eq!(store.delete_session(&busy.session).await, Ok(()));
    let gone = StoreError::NoSuchSession(busy.session.clone());
    assert_eq!(store.taint(&busy.session).await, Err(gone.clone()));
    assert_eq!(store.remembered(&busy.session).await, Err(gone.clone()));
    assert_eq!(store.revoke(&busy.session, 1).await, Err(gone));
    let again = store.create_session(&session_of("main", 1)).await;
    assert_eq!(again, Ok(()));
    let told = store.remembered(&busy.session).await;
    assert_eq!(told, Ok(Remembered::default()));
    assert!(sources(&store, "main").await.is_empty());
}
