//! What a log must be good for: it is read back to the same bytes, and it gives back the run and its messages.

use std::sync::Arc;

use neuraxis_core::{Effect, Record, RunTree, Transcript, run_messages};

/// Writes records as they are stored, a line each.
pub(crate) fn to_lines(records: &[Arc<Record>]) -> Vec<String> {
    records.iter().map(|record| record.to_json()).collect()
}

/// Reads a stored record and checks that writing it gives the same bytes.
pub(crate) fn read_line(line: &str) -> Arc<Record> {
    let record = Record::from_json(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(record.to_json(), line, "a record changed by being read");
    Arc::new(record)
}

/// Checks that a log, written and read, gives back exactly this run; returns the effects it says are unanswered.
pub(crate) fn assert_gives_back(
    history: &Transcript,
    records: &[Arc<Record>],
    run: &RunTree,
) -> Vec<Effect> {
    let read: Vec<_> = to_lines(records)
        .iter()
        .map(|line| read_line(line))
        .collect();
    let (restored, unanswered) =
        RunTree::restore(history.clone(), &read).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        restored == *run,
        "the log gives back another run:\n{restored:#?}\ninstead of\n{run:#?}"
    );
    unanswered
}

/// Checks that the messages read from the records alone are those that the run itself added to its history.
pub(crate) fn assert_tells_messages(records: &[Arc<Record>], run: &RunTree, before: usize) {
    assert_eq!(run_messages(records), run.messages()[before..]);
}
