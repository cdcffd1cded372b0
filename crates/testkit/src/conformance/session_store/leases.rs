//! Rules for leases: which process may drive a run, and how others see that no process is driving it.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::time::UNIX_EPOCH;

use neuraxis_core::{
    EffectId, InboxEntry, InboxInput, InputId, Pending, PendingKind, RecordBody, RunId, ToolCallId,
    Waiting,
};
use neuraxis_ports::{RunFilter, RunStart, SessionStore, StoreError};

use super::{Busy, records, session_of};
use crate::clock::CountingIds;
use crate::reply;

async fn unfinished(store: &impl SessionStore) -> Vec<RunId> {
    let left = store.unfinished().await.expect("the store answers");
    left.iter().map(|run| run.run_id).collect()
}

/// A released run has not ended: its session accepts no other run, and any process can see that the run was left.
pub async fn a_released_run_stays_unfinished_and_keeps_its_session(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    assert_eq!(store.release(&busy.lease).await, Ok(()), "the second time");
    assert_eq!(unfinished(&store).await, [run]);
    assert!(store.run(run).await.expect("the run exists").released);
    let second = store.begin_run(&busy.session, CountingIds::nth_run(2));
    let busy_with = StoreError::SessionBusy {
        session: busy.session.clone(),
        run,
    };
    assert_eq!(second.await, Err(busy_with.clone()));
    assert_eq!(store.delete_session(&busy.session).await, Err(busy_with));
}

/// The unfinished runs of one owner can be listed separately, and so can those without an owner.
pub async fn unfinished_runs_can_be_listed_by_owner(store: impl SessionStore) {
    let owners = [Some("ann"), None, Some("bob"), Some("ann"), Some("ann")];
    for (number, owner) in (1..).zip(owners) {
        let mut session = session_of(&format!("s{number}"), 0);
        session.owner = owner.map(str::to_owned);
        assert_eq!(store.create_session(&session).await, Ok(()));
        let mut busy = Busy::begin(&store, &session.id, number).await;
        let first = [busy.log.started("Hello?")];
        busy.commit(&store, &first).await;
        if number != 4 {
            assert_eq!(store.release(&busy.lease).await, Ok(()));
        }
    }
    let found = async |owner: Option<&str>| {
        let left = store.unfinished_of(owner).await.expect("the store answers");
        assert!(left.iter().all(|run| run.owner.as_deref() == owner));
        left.iter().map(|run| run.run_id).collect::<Vec<_>>()
    };
    let [first, of_nobody, of_bob, _at_work, last] = [1, 2, 3, 4, 5].map(CountingIds::nth_run);
    assert_eq!(found(Some("ann")).await, [first, last]);
    assert_eq!(found(Some("bob")).await, [of_bob]);
    assert_eq!(found(None).await, [of_nobody]);
    for nobody in ["", "Ann", "ann' OR ''='"] {
        assert_eq!(found(Some(nobody)).await, []);
    }
}

/// The former holder of a released run has no right to it.
pub async fn a_released_lease_can_neither_commit_nor_be_renewed(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    let late = [busy.log.warned("slow")];
    let stale = Err(StoreError::Stale(run));
    assert_eq!(store.commit(&busy.lease, &late).await, stale);
    assert_eq!(store.renew(&busy.lease).await, stale);
    assert_eq!(records(&store, run).await, first);
}

/// A released run resumes with a new lease, where it was.
pub async fn a_released_run_is_resumed_with_a_new_lease(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    let again = store.begin_run(&busy.session, run).await;
    busy.lease = again.expect("no process drives it");
    assert_eq!(unfinished(&store).await, []);
    assert!(!store.run(run).await.expect("the run exists").released);
    let last = [busy.log.finished("Hi.")];
    busy.commit(&store, &last).await;
    assert_eq!(unfinished(&store).await, []);
    assert_eq!(records(&store, run).await, [first, last].concat());
}

/// A run whose lease was allowed to expire is treated as left, and can be resumed with a new lease immediately.
pub async fn a_run_with_an_expired_lease_can_be_resumed_immediately(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    assert_eq!(store.expire(&busy.lease).await, Ok(()));
    assert_eq!(unfinished(&store).await, [run]);
    let left = store.run(run).await.expect("the run exists");
    assert_eq!(left.leased_until, None);
    let older = busy.lease.clone();
    let again = store.begin_run(&busy.session, run).await;
    busy.lease = again.expect("no process drives it");
    assert_eq!(store.expire(&older).await, Err(StoreError::Stale(run)));
    assert_eq!(unfinished(&store).await, []);
}

/// Only the holder can renew a lease, as long as there is something to hold.
pub async fn only_the_current_holder_can_renew_a_lease(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (older, session, run) = (busy.lease.clone(), busy.session.clone(), busy.log.run());
    assert_eq!(store.renew(&older).await, Ok(()));
    let newer = store.begin_run(&session, run).await;
    let newer = newer.expect("the same run may begin again");
    let stale = Err(StoreError::Stale(run));
    assert_eq!(store.renew(&older).await, stale);
    assert_eq!(store.renew(&newer).await, Ok(()));
    let mut log = busy.log;
    let all = [log.started("Hello?"), log.finished("Hi.")];
    assert_eq!(store.commit(&newer, &all).await, Ok(()));
    assert_eq!(store.renew(&newer).await, stale, "the run has ended");
}

/// A lease says how long it lasts, and the store uses the same duration.
pub async fn a_lease_reports_the_length_that_the_store_uses(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = store.run(busy.log.run()).await.expect("the run is known");
    let until = run.leased_until.expect("a process holds it");
    let now = UNIX_EPOCH.elapsed().expect("it is later than 1970");
    let left = until.as_millisecond() - i64::try_from(now.as_millis()).expect("a time");
    let length = i64::try_from(busy.lease.length.as_millis()).expect("a time");
    // A server's clock may differ a little.
    assert!((left - length).abs() < 10_000, "{left} of {length} ms");
    let again = store.begin_run(&busy.session, busy.log.run()).await;
    assert_eq!(again.expect("its own").length, busy.lease.length);
}

/// A run that a process is driving is not listed as left.
pub async fn a_run_that_a_process_drives_is_not_listed_as_unfinished(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    assert_eq!(unfinished(&store).await, []);
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    assert_eq!(unfinished(&store).await, []);
}

/// While a run is held, every query reports until when; before and after that, none does.
pub async fn every_query_reports_the_lease_end_only_while_the_run_is_held(
    store: impl SessionStore,
) {
    let mut busy = Busy::new(&store).await;
    let (session, run) = (busy.session.clone(), busy.log.run());
    let is_held = async || {
        let one = store.run(run).await.expect("the run is known");
        let found = store.find_runs(&RunFilter::default()).await;
        let listed = store.runs(&session).await.expect("the session is known");
        let told = [vec![one], found.expect("the store answers"), listed].concat();
        let held: Vec<_> = told.iter().map(|run| run.leased_until.is_some()).collect();
        assert_eq!(held.len(), 3);
        assert!(held.windows(2).all(|two| two.first() == two.last()));
        held.contains(&true)
    };
    assert!(is_held().await, "reserved");
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    assert!(is_held().await, "at work");
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    assert!(!is_held().await, "released");
    let again = store.begin_run(&session, run).await;
    busy.lease = again.expect("no process drives it");
    assert!(is_held().await, "resumed again");
    let last = [busy.log.finished("Hi.")];
    busy.commit(&store, &last).await;
    assert!(!is_held().await, "ended");
}

/// Once a run has another holder, the lease of the earlier one is useless.
pub async fn the_lease_of_a_previous_holder_is_refused(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (older, run) = (busy.lease.clone(), busy.log.run());
    let entry = InboxEntry::new(InboxInput::steered(InputId::new("s1"), "wait"));
    assert_eq!(store.post(run, &entry).await, Ok(()));
    let newer = store.begin_run(&busy.session, run).await;
    let newer = newer.expect("the same run may begin again");
    let stale = || StoreError::Stale(run);
    assert_eq!(store.commit(&older, &[]).await, Err(stale()));
    assert_eq!(store.renew(&older).await, Err(stale()));
    assert_eq!(store.release(&older).await, Err(stale()));
    assert_eq!(store.abandon_run(&older).await, Err(stale()));
    assert_eq!(store.inbox(&older).await, Err(stale()));
    let ids = [entry.id.clone()];
    assert_eq!(store.settle(&older, &ids).await, Err(stale()));
    assert_eq!(store.inbox(&newer).await, Ok(vec![entry]));
}

/// An imported run is marked as imported, even after it was released or has ended, until it is begun again.
pub async fn an_imported_run_is_marked_as_imported_until_it_is_resumed(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let imported = async || store.run(run).await.expect("the run exists").imported;
    assert!(!imported().await);
    let first = [busy.log.started("Hello?")];
    let start = RunStart::new(busy.session.clone(), run).imported();
    let begun = store.begin(&start).await;
    busy.lease = begun.expect("the same store may begin it again");
    busy.commit(&store, &first).await;
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    assert!(imported().await);
    let left = store.unfinished().await.expect("the store answers");
    assert!(left.iter().all(|run| run.imported) && left.len() == 1);
    let again = store.begin_run(&busy.session, run).await;
    busy.lease = again.expect("no process drives it");
    assert!(!imported().await);
    let begun = store.begin(&start).await;
    busy.lease = begun.expect("the same store may begin it again");
    assert!(imported().await);
    let last = [busy.log.finished("Hi.")];
    busy.commit(&store, &last).await;
    assert!(imported().await, "its end was written elsewhere, too");
}

/// There may be many waiting runs: a query for those that can continue does not return the others.
pub async fn a_waiting_run_is_due_once_input_is_posted_to_it(store: impl SessionStore) {
    let due = async || {
        let due = store.due().await.expect("the store answers");
        due.iter().map(|run| run.run_id).collect::<Vec<RunId>>()
    };
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    assert_eq!(due().await, [], "a process drives it");
    let pending = vec![Pending {
        effect_id: EffectId { run, number: 2 },
        tool_call_id: ToolCallId::from_text("call_1"),
        kind: PendingKind::Approval,
        expires_at: None,
    }];
    // Whatever text the run contains.
    let first = [
        busy.log.started(r#"{"records":1,"status":"running"}"#),
        busy.log
            .record(RecordBody::Waiting(Box::new(Waiting { pending }))),
    ];
    busy.commit(&store, &first).await;
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    assert_eq!(unfinished(&store).await, [run]);
    assert_eq!(due().await, [], "it waits");
    let entry = InboxEntry::new(InboxInput::steered(InputId::new("s1".to_owned()), "go on"));
    assert_eq!(store.post(run, &entry).await, Ok(()));
    assert_eq!(due().await, [run]);
    let again = store.begin_run(&busy.session, run).await;
    busy.lease = again.expect("no process drives it");
    assert_eq!(due().await, [], "a process drives it again");
    let goes_on = [busy.log.replied(reply::text(r#","status":"waiting""#))];
    busy.commit(&store, &goes_on).await;
    assert_eq!(store.settle(&busy.lease, &[entry.id]).await, Ok(()));
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    assert_eq!(due().await, [run], "it no longer waits");
}
