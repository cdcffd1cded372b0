//! Logs written, read and replayed.

use std::sync::Arc;

use neuraxis_core::{Message, Record, RecordBody, RunStatus, Transcript};
use neuraxis_engine::{ReplayError, read_log, replay, write_log};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};

use crate::support::{request, run_to_end, with_tools};

async fn log() -> Vec<Arc<Record>> {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", r#"{ "at":  "the door" }"#)]))
        .then(reply::text("A door."));
    let look = ScriptedTool::echoing(spec("look").read_only());
    let orchestrator = with_tools(model, vec![Arc::new(look)]);
    run_to_end(&orchestrator, request("What is there?"))
        .await
        .records()
}

fn changed(
    records: &[Arc<Record>],
    place: usize,
    change: impl Fn(&mut Record),
) -> Vec<Arc<Record>> {
    let mut records = records.to_vec();
    change(Arc::make_mut(&mut records[place]));
    records
}

#[tokio::test]
async fn a_log_is_read_as_it_was_written_and_replays_to_the_same_run() {
    let records = log().await;
    let text = write_log(&records);
    assert_eq!(text.lines().count(), records.len());
    let read = read_log(&text).unwrap();
    assert_eq!(write_log(&read), text);
    let report = replay(&Transcript::default(), &read).unwrap();
    assert_eq!(
        (report.status, report.records),
        (RunStatus::Done, records.len())
    );
    assert_eq!((report.steps, report.open_effects), (5, 0));
    assert_eq!(report.messages.messages().last().unwrap().text(), "A door.");
}

#[tokio::test]
async fn a_log_can_end_after_any_step_and_replay_reports_the_open_effects() {
    let records = log().await;
    for end in 1..records.len() {
        // Governance's decision is not derived from anything: a log without it is a run without it.
        let is_whole = records[end].active_ms.is_some() || end == 1;
        let report = replay(&Transcript::default(), &records[..end]);
        match report {
            Ok(report) => {
                assert!(is_whole, "half a step was taken for a whole one");
                assert_eq!(
                    (report.status, report.open_effects),
                    (RunStatus::Running, 1)
                );
            }
            Err(error) => assert!(!is_whole, "{error}"),
        }
    }
}

#[tokio::test]
async fn an_invalid_line_is_reported_by_its_number() {
    let mut text = write_log(&log().await);
    text.insert(0, '\n');
    text.push_str("{\"seq\":1,\"type\":\"from_the_future\"}\n");
    let error = read_log(&text).unwrap_err();
    assert_eq!(error.line, text.lines().count());
    assert!(
        error
            .to_string()
            .starts_with(&format!("line {} is not a record", error.line))
    );
    let unknown = text.replace("\"type\":\"final\"", "\"type\":\"from_the_future\"");
    let error = read_log(&unknown).unwrap_err();
    assert!(error.to_string().contains("from_the_future"), "{error}");
}

#[tokio::test]
async fn a_log_that_cannot_be_replayed_gives_a_specific_error() {
    let records = log().await;
    let nothing = Transcript::default();
    assert_eq!(replay(&nothing, &[]), Err(ReplayError::NoStart));
    assert_eq!(replay(&nothing, &records[1..]), Err(ReplayError::NoStart));

    let other: Transcript = [Message::user("said before")].into_iter().collect();
    let error = replay(&other, &records).unwrap_err();
    assert!(
        matches!(error, ReplayError::OtherHistory { recorded, given } if (recorded.count, given.count) == (0, 1))
    );

    let newer = changed(&records, 0, |record| {
        if let RecordBody::RunStarted(started) = &mut record.body {
            started.loop_version = 99;
        }
    });
    let error = replay(&nothing, &newer).unwrap_err();
    assert!(error.to_string().contains("loop version 99"), "{error}");

    let mut gap = records.clone();
    gap.remove(3);
    let error = replay(&nothing, &gap).unwrap_err();
    assert!(
        matches!(error, ReplayError::Gap { expected, found, .. } if (expected.0, found.0) == (4, 5)),
        "{error}"
    );
}

#[tokio::test]
async fn an_altered_log_diverges_at_the_changed_record_and_field() {
    let records = log().await;
    let place = records
        .iter()
        .position(|record| record.body.kind() == "tool_call")
        .unwrap();
    let forged = changed(&records, place, |record| {
        if let RecordBody::ToolCall(call) = &mut record.body {
            call.arguments = neuraxis_core::JsonText::from_text(r#"{"at":"the safe"}"#);
        }
    });
    let error = replay(&Transcript::default(), &forged).unwrap_err();
    let ReplayError::Diverged {
        seq,
        place: field,
        expected,
        found,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((seq, field.as_str()), (records[place].seq, "/arguments"));
    assert!(expected.contains("the door") && found.contains("the safe"));
    // A cause may be changed: then its consequences differ.
    let forged = changed(&records, 2, |record| {
        if let RecordBody::LlmCall(call) = &mut record.body {
            call.reply = Arc::new(reply::text("Nothing."));
        }
    });
    assert!(matches!(
        replay(&Transcript::default(), &forged),
        Err(ReplayError::Diverged { .. })
    ));
}
