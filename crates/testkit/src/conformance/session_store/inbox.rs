//! Rules for the inbox: unsolicited input is kept until its run takes it, exactly once.

use std::time::Duration;

use neuraxis_core::{
    Attempt, CallIndex, Cancelled, ClientResult, ContentIndex, EffectId, InboxEntry, InboxInput,
    InputId, JsonText, RecordBody, ToolCallId, ToolOutcome, ToolOutput, ToolResult,
};
use neuraxis_ports::{MAX_INBOX_ENTRIES, MAX_INPUT_ID_BYTES, SessionStore, StoreError};

use super::Busy;
use crate::clock::CountingIds;

fn steered(id: &str, text: &str) -> InboxEntry {
    InboxEntry::new(InboxInput::steered(InputId::new(id.to_owned()), text))
}

fn body(entry: &InboxEntry) -> RecordBody {
    match &entry.input {
        InboxInput::Steered(steered) => RecordBody::Steered(Box::new(steered.clone())),
        InboxInput::Cancelled(cancelled) => RecordBody::Cancelled(Box::new(cancelled.clone())),
        other => unreachable!("{other:?} makes another record"),
    }
}

/// Entries are read in the order in which they were posted, until each is settled.
pub async fn entries_stay_in_the_order_they_were_posted_until_settled(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    let entries = ["z", "a", "m"].map(|id| steered(id, "wait \0 🦀"));
    for entry in &entries {
        assert_eq!(store.post(run, entry).await, Ok(()));
    }
    assert_eq!(store.inbox(&busy.lease).await, Ok(entries.to_vec()));
    let [first, second, third] = entries;
    let ids = [second.id, InputId::new("unknown")];
    assert_eq!(store.settle(&busy.lease, &ids).await, Ok(()));
    assert_eq!(store.inbox(&busy.lease).await, Ok(vec![first, third]));
}

/// A sender that received no answer may send again.
pub async fn an_entry_posted_twice_is_stored_once(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let entry = steered("s1", "wait");
    assert_eq!(store.post(busy.log.run(), &entry).await, Ok(()));
    assert_eq!(store.post(busy.log.run(), &entry).await, Ok(()));
    assert_eq!(store.inbox(&busy.lease).await, Ok(vec![entry]));
}

/// An id names one input.
pub async fn a_different_input_with_the_same_id_is_refused(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    let entry = steered("s1", "wait");
    assert_eq!(store.post(run, &entry).await, Ok(()));
    let id = entry.id.clone();
    let refused = store.post(run, &steered("s1", "go on")).await;
    assert_eq!(refused, Err(StoreError::InputReused { run, id }));
    assert_eq!(store.inbox(&busy.lease).await, Ok(vec![entry]));
}

/// A record that contains an input removes its entry; other entries stay.
pub async fn a_commit_removes_the_entries_that_its_records_contain(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let cancelled = Cancelled::new(InputId::new("c1"), "enough");
    let entries = [
        steered("s1", "wait"),
        steered("s2", "go on"),
        InboxEntry::new(InboxInput::Cancelled(cancelled)),
    ];
    for entry in &entries {
        assert_eq!(store.post(run, entry).await, Ok(()));
    }
    let [first, second, third] = entries;
    let records = [
        busy.log.started("Hello?"),
        busy.log.record(body(&first)),
        busy.log.record(body(&third)),
    ];
    busy.commit(&store, &records).await;
    assert_eq!(store.inbox(&busy.lease).await, Ok(vec![second]));
}

/// The result of a tool that the client runs is identified by the effect and attempt that it answers.
pub async fn committing_a_client_result_removes_its_inbox_entry(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let (effect_id, attempt) = (EffectId { run, number: 3 }, Attempt(1));
    let value = JsonText::from_text("7");
    let entry = InboxEntry::new(InboxInput::ClientResult(ClientResult {
        effect_id,
        attempt,
        value: value.clone(),
        failure: None,
        duration: Duration::from_millis(5),
        by: None,
    }));
    assert_eq!(store.post(run, &entry).await, Ok(()));
    let index = CallIndex(0);
    let call = ToolCallId::new(run, Default::default(), ContentIndex(0), index);
    let done = ToolOutcome::done(ToolOutput::new(value));
    let result = ToolResult {
        effect_id: Some(effect_id),
        attempt: Some(attempt),
        ..ToolResult::of(call, "look", index, done)
    };
    let result = RecordBody::ToolResult(Box::new(result));
    let records = [busy.log.started("Hello?"), busy.log.record(result)];
    busy.commit(&store, &records).await;
    assert_eq!(store.inbox(&busy.lease).await, Ok(Vec::new()));
}

/// A refused commit removes no entries.
pub async fn a_refused_commit_removes_no_entries(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let entry = steered("s1", "wait");
    assert_eq!(store.post(run, &entry).await, Ok(()));
    let gap = [busy.log.started("Hello?"), busy.log.record(body(&entry))];
    let [_, second] = gap;
    let refused = store.commit(&busy.lease, &[second]).await;
    assert_eq!(refused, Err(StoreError::Stale(run)));
    assert_eq!(store.inbox(&busy.lease).await, Ok(vec![entry]));
}

/// An entry that was taken does not come back when it is sent again, even after its run has ended.
pub async fn a_taken_entry_does_not_return_when_it_is_posted_again(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let entry = steered("s1", "wait");
    assert_eq!(store.post(run, &entry).await, Ok(()));
    let records = [busy.log.started("Hello?"), busy.log.record(body(&entry))];
    busy.commit(&store, &records).await;
    assert_eq!(store.post(run, &entry).await, Ok(()));
    assert_eq!(store.inbox(&busy.lease).await, Ok(Vec::new()));
    let end = [busy.log.finished("Hi.")];
    busy.commit(&store, &end).await;
    assert_eq!(store.post(run, &entry).await, Ok(()));
    let id = entry.id.clone();
    let other = store.post(run, &steered("s1", "go on")).await;
    assert_eq!(other, Err(StoreError::InputReused { run, id }));
}

/// Entries that a run did not take are deleted when it ends; only the fact that they were sent is kept.
pub async fn entries_that_were_not_taken_are_deleted_when_the_run_ends(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let [first, second] = ["s1", "s2"].map(|id| steered(id, "wait"));
    for entry in [&first, &second] {
        assert_eq!(store.post(run, entry).await, Ok(()));
    }
    let all = [
        busy.log.started("Hello?"),
        busy.log.record(body(&first)),
        busy.log.finished("Hi."),
    ];
    busy.commit(&store, &all).await;
    assert_eq!(store.inbox(&busy.lease).await, Ok(Vec::new()));
    let has_mail = store.run(run).await.map(|run| run.has_mail);
    assert_eq!(has_mail, Ok(false));
    assert_eq!(store.post(run, &second).await, Ok(()));
    assert_eq!(store.inbox(&busy.lease).await, Ok(Vec::new()));
    let id = second.id;
    let other = store.post(run, &steered("s2", "go on")).await;
    assert_eq!(other, Err(StoreError::InputReused { run, id }));
}

/// There is no run to take the entry.
pub async fn an_unknown_or_ended_run_accepts_no_entries(store: impl SessionStore) {
    let unknown = CountingIds::nth_run(7);
    let entry = steered("s1", "wait");
    assert_eq!(
        store.post(unknown, &entry).await,
        Err(StoreError::NoSuchRun(unknown))
    );
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(
        store.post(run, &entry).await,
        Err(StoreError::RunEnded(run))
    );
}

/// A sender cannot fill the store.
pub async fn a_full_inbox_refuses_entries_until_one_is_settled(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    let entry = |number: usize| steered(&format!("s{number}"), "wait");
    for number in 0..MAX_INBOX_ENTRIES {
        assert_eq!(store.post(run, &entry(number)).await, Ok(()));
    }
    let one_more = entry(MAX_INBOX_ENTRIES);
    assert_eq!(
        store.post(run, &one_more).await,
        Err(StoreError::InboxFull(run))
    );
    let ids = [entry(0).id];
    assert_eq!(store.settle(&busy.lease, &ids).await, Ok(()));
    assert_eq!(store.post(run, &one_more).await, Ok(()));
}

/// An entry that some stores could not keep is refused by all stores.
pub async fn an_invalid_entry_is_refused(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let mut other_id = steered("s1", "wait");
    other_id.id = InputId::new("s2");
    let long_id = "x".repeat(MAX_INPUT_ID_BYTES + 1);
    let huge = "x".repeat(3 * 1024 * 1024);
    for entry in [
        steered("", "wait"),
        steered("a\0b", "wait"),
        steered(&long_id, "wait"),
        steered("s1", &huge),
        other_id,
    ] {
        let refused = store.post(busy.log.run(), &entry).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{refused:?}"
        );
    }
    let hostile = steered("'; DROP TABLE runs; --", "wait");
    assert_eq!(store.post(busy.log.run(), &hostile).await, Ok(()));
    assert_eq!(store.inbox(&busy.lease).await, Ok(vec![hostile]));
}

/// A process that manages waiting runs can see which of them have entries to take.
pub async fn a_run_reports_whether_it_has_mail(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    let has_mail = async || store.run(run).await.map(|run| run.has_mail);
    assert_eq!(has_mail().await, Ok(false));
    let entry = steered("s1", "wait");
    assert_eq!(store.post(run, &entry).await, Ok(()));
    assert_eq!(has_mail().await, Ok(true));
    assert_eq!(store.settle(&busy.lease, &[entry.id]).await, Ok(()));
    assert_eq!(has_mail().await, Ok(false));
}

/// This is how processes notice what others posted to the runs that they drive.
pub async fn runs_with_mail_are_found_until_it_is_settled_or_they_end(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let mailed = async || store.mailed().await;
    let started = [busy.log.started("Hello?")];
    busy.commit(&store, &started).await;
    assert_eq!(mailed().await, Ok(Vec::new()));
    let [first, second] = ["s1", "s2"].map(|id| steered(id, "wait"));
    for entry in [&first, &second] {
        assert_eq!(store.post(run, entry).await, Ok(()));
    }
    assert_eq!(mailed().await, Ok(vec![run]), "once, however much it is");
    assert_eq!(store.settle(&busy.lease, &[first.id]).await, Ok(()));
    assert_eq!(mailed().await, Ok(vec![run]));
    assert_eq!(store.settle(&busy.lease, &[second.id]).await, Ok(()));
    assert_eq!(mailed().await, Ok(Vec::new()));
    // An entry that comes too late for a run is no longer reported.
    let last = steered("s3", "wait");
    assert_eq!(store.post(run, &last).await, Ok(()));
    let end = [busy.log.finished("Hi.")];
    busy.commit(&store, &end).await;
    assert_eq!(mailed().await, Ok(Vec::new()));
}
