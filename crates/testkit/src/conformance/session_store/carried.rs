//! Rules for what a session carries from one run to the next: taint, grants, and its plan.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;

use neuraxis_core::log::Carried;
use neuraxis_core::{
    Access, CallIndex, ContentHash, EffectId, Grant, GrantScope, Grants, JsonText, PlanChanged,
    Record, RecordBody, SessionId, ToolCallId, ToolOutcome, ToolOutput, ToolResult, Vetted,
};
use neuraxis_ports::{RunStart, SessionStore, StoreError};

use super::{Busy, id, session_of};
use crate::clock::{CountingIds, START};
use crate::run_log::RunLog;

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

fn result(log: &mut RunLog, tool: &str, untrusted: bool) -> Arc<Record> {
    let done = ToolOutcome::done(ToolOutput::new(JsonText::from_text("1")));
    let result = ToolResult {
        untrusted,
        ..ToolResult::of(ToolCallId::from_text("call_1"), tool, CallIndex(0), done)
    };
    log.record(RecordBody::ToolResult(Box::new(result)))
}

/// Returns the record of calls that were checked, with the grants for the session.
fn granting(busy: &mut Busy, granted: Vec<Grant>) -> Arc<Record> {
    let effect_id = EffectId {
        run: busy.log.run(),
        number: 1,
    };
    let mut vetted = Vetted::new(effect_id, Vec::new());
    vetted.granted = granted;
    busy.log.record(RecordBody::Verdict(Box::new(vetted)))
}

async fn remembered(store: &impl SessionStore, session: &SessionId) -> Grants {
    let carried = store.carried(session).await.expect("it is reported");
    carried.remembered
}

async fn sources(store: &impl SessionStore, session: &str) -> Vec<String> {
    let carried = store.carried(&id(session)).await.expect("it is reported");
    let sources = carried.taint.sources().iter();
    assert!(
        sources.clone().all(|source| source.since.is_none()),
        "a later run has no such batch"
    );
    let mut tools: Vec<String> = sources.map(|source| source.tool.to_string()).collect();
    tools.sort();
    tools
}

/// The untrusted content of any run of a session, ended or not, is known, and none of other sessions.
pub async fn untrusted_content_of_a_session_is_known(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let other = store.create_session(&session_of("other", 0)).await;
    assert_eq!(other, Ok(()));
    let none: [&str; 0] = [];
    assert_eq!(sources(&store, "main").await, none);
    let first = [
        busy.log.started("Look it up."),
        result(&mut busy.log, "web_fetch", true),
        result(&mut busy.log, "read_file", false),
    ];
    busy.commit(&store, &first).await;
    assert_eq!(sources(&store, "main").await, ["web_fetch"]);
    let rest = [
        result(&mut busy.log, "web_fetch", true),
        result(&mut busy.log, "mail__read", true),
        busy.log.finished("Done."),
    ];
    busy.commit(&store, &rest).await;
    assert_eq!(sources(&store, "main").await, ["mail__read", "web_fetch"]);
    assert_eq!(sources(&store, "other").await, none);
}

/// The messages that a run begins with can be untrusted content, too.
pub async fn untrusted_content_in_the_first_records_of_a_run_is_known(store: impl SessionStore) {
    let mut log = RunLog::new(CountingIds::nth_run(1), id("main"));
    let start = RunStart::in_new_session(session_of("main", 0), log.run());
    let first = vec![log.started("Look."), result(&mut log, "web_fetch", true)];
    let begun = store.begin(&start.with_records(first)).await;
    assert!(begun.is_ok(), "{begun:?}");
    assert_eq!(sources(&store, "main").await, ["web_fetch"]);
}

/// Recorded grants are remembered in order, listed, and revoked one by one, from any process.
pub async fn grants_are_remembered_listed_and_revoked(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
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
    let (first, rest) = grants.split_at(1);
    let first = [
        busy.log.started("Hello?"),
        granting(&mut busy, first.to_vec()),
    ];
    busy.commit(&store, &first).await;
    // If the answer to a commit was lost, the caller commits again.
    busy.commit(&store, &first).await;
    assert_eq!(remembered(&store, &busy.session).await.grants().len(), 1);
    let rest = [granting(&mut busy, rest.to_vec())];
    busy.commit(&store, &rest).await;
    let mut expected = Grants::default();
    grants.into_iter().for_each(|grant| expected.record(grant));
    assert_eq!(remembered(&store, &busy.session).await, expected);
    assert_eq!(store.revoke(&busy.session, 2).await, Ok(true));
    assert_eq!(store.revoke(&busy.session, 2).await, Ok(false));
    assert_eq!(store.revoke(&busy.session, 9).await, Ok(false));
    expected.revoke(2);
    assert_eq!(remembered(&store, &busy.session).await, expected);
    assert!(store.verify(&busy.session, None).await.is_ok());
}

/// Grants in the records of an imported run do not count, even after the run is resumed. Grants given after that do.
pub async fn imported_grants_do_not_count(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let start = RunStart::new(busy.session.clone(), run).imported();
    let begun = store.begin(&start).await;
    busy.lease = begun.expect("the same store may begin it again");
    let kept = [
        busy.log.started("Hello?"),
        granting(&mut busy, vec![grant(1, GrantScope::Tool)]),
    ];
    busy.commit(&store, &kept).await;
    let none = remembered(&store, &busy.session).await;
    assert_eq!((none.grants().len(), none.next_id()), (0, 2));
    assert!(store.verify(&busy.session, None).await.is_ok());
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    let again = store.begin_run(&busy.session, run).await;
    busy.lease = again.expect("no process drives it");
    let given = [granting(&mut busy, vec![grant(2, GrantScope::Tool)])];
    busy.commit(&store, &given).await;
    let given = remembered(&store, &busy.session).await;
    assert_eq!(given.grants(), [grant(2, GrantScope::Tool)]);
    assert!(store.verify(&busy.session, None).await.is_ok());
}

/// A grant's number is never used again, not even after the grant was revoked.
pub async fn grant_numbers_are_never_reused(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let first = grant(1, GrantScope::Tool);
    let begun = [
        busy.log.started("Hello?"),
        granting(&mut busy, vec![first.clone()]),
    ];
    busy.commit(&store, &begun).await;
    assert_eq!(store.revoke(&busy.session, 1).await, Ok(true));
    let again = [granting(&mut busy, vec![first]), busy.log.finished("Hi.")];
    busy.commit(&store, &again).await;
    let none = remembered(&store, &busy.session).await;
    assert_eq!((none.grants().len(), none.next_id()), (0, 2));
    // This also holds in a later run.
    let mut later = Busy::begin(&store, &busy.session, 2).await;
    let second = grant(2, GrantScope::Tool);
    let more = [
        later.log.started("And?"),
        granting(&mut later, vec![second.clone()]),
    ];
    later.commit(&store, &more).await;
    assert_eq!(remembered(&store, &busy.session).await.grants(), [second]);
}

/// A session remembers nothing from a commit that was refused.
pub async fn a_session_carries_nothing_from_a_refused_commit(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let newer = store.begin_run(&busy.session, busy.log.run()).await;
    newer.expect("the same store may begin it again");
    let records = [
        busy.log.started("Hello?"),
        granting(&mut busy, vec![grant(1, GrantScope::Tool)]),
        result(&mut busy.log, "web_fetch", true),
    ];
    let refused = store.commit(&busy.lease, &records).await;
    assert_eq!(refused, Err(StoreError::Stale(busy.log.run())));
    assert_eq!(store.carried(&busy.session).await, Ok(Carried::default()));
}

/// The last plan of a session is known, even after its run has ended.
pub async fn the_last_plan_of_a_session_is_known(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let session = busy.session.clone();
    let plan = async || {
        let carried = store.carried(&session).await;
        carried.expect("it is reported").plan
    };
    assert_eq!(plan().await, None);
    let planned = |text: &str| {
        RecordBody::Plan(Box::new(PlanChanged {
            tool_call_id: ToolCallId::from_text("call_1"),
            plan: JsonText::from_text(text),
        }))
    };
    let records = [
        busy.log.started("Hello?"),
        busy.log.record(planned("[1]")),
        busy.log.record(planned("[1, 2]")),
    ];
    busy.commit(&store, &records).await;
    let last = Some(JsonText::from_text("[1, 2]"));
    assert_eq!(plan().await, last);
    let end = [busy.log.finished("Hi.")];
    busy.commit(&store, &end).await;
    Busy::begin(&store, &session, 2)
        .await
        .finish(&store, "And?", "So.")
        .await;
    assert_eq!(plan().await, last);
}

/// What a session carries is deleted with it, and does not reappear in a new session with the same id.
pub async fn carried_state_is_deleted_with_its_session(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let records = [
        busy.log.started("Look it up."),
        granting(&mut busy, vec![grant(1, GrantScope::Tool)]),
        result(&mut busy.log, "web_fetch", true),
        busy.log.finished("Done."),
    ];
    busy.commit(&store, &records).await;
    assert_eq!(store.revoke(&busy.session, 1).await, Ok(true));
    assert_eq!(store.delete_session(&busy.session).await, Ok(()));
    let gone = StoreError::NoSuchSession(busy.session.clone());
    assert_eq!(store.carried(&busy.session).await, Err(gone.clone()));
    assert_eq!(store.revoke(&busy.session, 1).await, Err(gone));
    let again = store.create_session(&session_of("main", 1)).await;
    assert_eq!(again, Ok(()));
    assert_eq!(store.carried(&busy.session).await, Ok(Carried::default()));
}
