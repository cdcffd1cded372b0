//! What a log must guarantee: it is read back to the same bytes, and it reproduces the run and its messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::{
    Effect, JsonText, Keep, Message, Profile, Record, RecordBody, RunTree, ToolCallId, ToolMessage,
    Transcript, continued_history, root_records, run_messages,
};

/// Writes records as they are stored, one per line.
pub(crate) fn to_lines(records: &[Arc<Record>]) -> Vec<String> {
    records.iter().map(|record| record.to_json()).collect()
}

/// Reads a stored record and checks that writing it gives the same bytes.
pub(crate) fn read_line(line: &str) -> Arc<Record> {
    let record = Record::from_json(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(record.to_json(), line, "a record changed by being read");
    Arc::new(record)
}

/// Checks that a log, written and read, reproduces exactly this run; returns the effects it says are unanswered.
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

/// Checks that the history after the records matches the run's own: without the system prompt of its agent, and with
/// summaries for results that are not kept.
pub(crate) fn assert_continues_as(history: &Transcript, records: &[Arc<Record>], run: &RunTree) {
    let RecordBody::RunStarted(started) = &records[0].body else {
        panic!("a log begins with its start")
    };
    let root = &started.spec.root;
    let given = continued_history(history, &[]);
    let begins_with_system = match given.messages().first().map(Arc::as_ref) {
        Some(Message::System { .. }) => true,
        _ => root.system_prompt.is_none(),
    };
    let messages = &run.messages()[usize::from(!begins_with_system)..];
    let left = left_of_results(&root.profile, records);
    let expected: Vec<_> = messages
        .iter()
        .map(|message| match message.as_ref() {
            Message::Tool(tool) if left.contains_key(&tool.tool_call_id) => {
                let content = JsonText::string(&left[&tool.tool_call_id]);
                Arc::new(Message::Tool(ToolMessage {
                    content,
                    ..tool.clone()
                }))
            }
            _ => Arc::clone(message),
        })
        .collect();
    assert_eq!(continued_history(history, records).messages(), expected);
}

/// Returns what later history keeps of each result of the root agent that is not kept itself.
fn left_of_results(profile: &Profile, records: &[Arc<Record>]) -> BTreeMap<ToolCallId, String> {
    let mut left = BTreeMap::new();
    for record in root_records(records) {
        if let RecordBody::ToolResult(result) = &record.body {
            let rule = profile
                .results
                .iter()
                .find(|rule| rule.tool.as_str() == &*result.name);
            let keep = rule.and_then(|rule| rule.keep).unwrap_or(result.keep);
            if keep == Keep::Summary && result.failure.is_none() {
                let summary = result
                    .summary
                    .as_deref()
                    .unwrap_or("[this result is no longer kept]");
                left.insert(result.tool_call_id.clone(), summary.to_owned());
            }
        }
    }
    left
}

/// Same as [`assert_continues_as`], for a script.
pub(crate) fn assert_continues(run: &super::Script, history: &Transcript) {
    assert_continues_as(history, &run.records, &run.tree);
}
