//! Whatever happens in a run, its events are sent in an order that AG-UI clients accept.

mod happening;
mod order;

use std::sync::Arc;

use neuraxis::core::{
    Citations, ContentHash, Decision, FinishReason, LiveBody, RecordBody, SelfCheck,
};
use neuraxis::{Channel, Event, Mode, Role, RunStatus};
use neuraxis_testkit::{CountingIds, RunLog, reply};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::happening::{Happening, event, happening, live, replied};
use super::Mapping;
use crate::agui::input::ClientIds;

fn mapping(log: &RunLog) -> Mapping {
    let ids = ClientIds {
        thread_id: "t".to_owned(),
        run_id: "r".to_owned(),
        parent_run_id: None,
    };
    let message = json!({"id": "u1", "role": "user", "content": "Look."});
    Mapping::new(ids, log.run(), Some(json!({"color": "red"})), vec![message])
}

fn log() -> RunLog {
    RunLog::new(CountingIds::nth_run(1), "s".parse().unwrap())
}

fn take_events(mapping: &mut Mapping) -> Vec<Value> {
    let events = mapping.take().into_iter();
    events
        .map(|event| serde_json::to_value(event).unwrap())
        .collect()
}

/// Returns the ids of the calls whose start was sent.
fn begun(events: &[Value]) -> Vec<&Value> {
    let starts = events.iter().filter(|it| it["type"] == "TOOL_CALL_START");
    starts.map(|it| &it["toolCallId"]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_events_map_to_a_legal_order_and_a_resumed_run_repeats_no_call(
        before in proptest::collection::vec(happening(), 0..40),
        after in proptest::collection::vec(happening(), 0..40),
        failed in any::<bool>(),
    ) {
        let mut log = log();
        let before: Vec<Event> = before.iter().map(|it| event(&mut log, it)).collect();
        let mut first = mapping(&log);
        first.begin();
        for event in &before {
            first.apply(event);
        }
        first.wait();
        let first = take_events(&mut first);
        order::check(&first).map_err(TestCaseError::fail)?;

        let mut second = mapping(&log);
        second.recall(before.iter().filter_map(|event| match event {
            Event::Record(record) => Some(record.as_ref()),
            Event::Live(_) => None,
        }));
        second.begin();
        for happening in &after {
            second.apply(&event(&mut log, happening));
        }
        let (status, reason) = match failed {
            true => (RunStatus::Failed, FinishReason::ToolError),
            false => (RunStatus::Done, FinishReason::Stop),
        };
        second.end("The answer.", None, status, Some(&reason));
        let second = take_events(&mut second);
        order::check(&second).map_err(TestCaseError::fail)?;
        for call in begun(&second) {
            prop_assert!(!begun(&first).contains(&call), "{call} was told before");
        }
    }
}

#[test]
fn retracted_text_is_removed_by_a_messages_snapshot() {
    let mut log = log();
    let mut mapping = mapping(&log);
    mapping.begin();
    let says = |log: &RunLog, text: &str| {
        let text = text.to_owned();
        live(log, 0, 0, 0, LiveBody::TextDelta { text })
    };
    mapping.apply(&says(&log, "It is "));
    mapping.apply(&live(&log, 0, 0, 0, LiveBody::TextRetracted));
    mapping.apply(&says(&log, "Mild."));
    let record = replied(&mut log, 0, 0, reply::text("Mild."), false);
    mapping.apply(&Event::Record(Arc::new(record)));
    mapping.end("Mild.", None, RunStatus::Done, Some(&FinishReason::Stop));
    let events = take_events(&mut mapping);
    order::check(&events).unwrap();
    let snapshots = events.iter().filter(|it| it["type"] == "MESSAGES_SNAPSHOT");
    let snapshots: Vec<&Value> = snapshots.map(|it| &it["messages"]).collect();
    assert_eq!(
        snapshots,
        [&json!([{"id": "u1", "role": "user", "content": "Look."}])]
    );
    assert_eq!(order::text(&events), "Mild.", "{events:?}");
}

#[test]
fn only_text_that_was_not_streamed_live_is_sent_from_the_record() {
    for live_text in ["", "It is", "It is mild."] {
        let mut log = log();
        let mut mapping = mapping(&log);
        mapping.begin();
        let text = live_text.to_owned();
        mapping.apply(&live(&log, 0, 0, 0, LiveBody::TextDelta { text }));
        let record = replied(
            &mut log,
            0,
            0,
            reply::reasoned("Think.", "It is mild."),
            false,
        );
        mapping.apply(&Event::Record(Arc::new(record)));
        mapping.end(
            "It is mild.",
            None,
            RunStatus::Done,
            Some(&FinishReason::Stop),
        );
        let events = take_events(&mut mapping);
        order::check(&events).unwrap();
        assert_eq!(order::text(&events), "It is mild.");
        let thought = events
            .iter()
            .any(|it| it["type"] == "REASONING_MESSAGE_CONTENT");
        assert_eq!(thought, live_text.is_empty());
    }
}

#[test]
fn calls_name_their_message_as_parent_and_a_closing_answer_is_sent() {
    let mut log = log();
    let mut mapping = mapping(&log);
    mapping.begin();
    let calls = [("look", "{}"), ("look", r#"{"at":2}"#)];
    let record = replied(
        &mut log,
        0,
        0,
        reply::text_and_calls("I look.", calls),
        false,
    );
    mapping.apply(&Event::Record(Arc::new(record)));
    mapping.end(
        "I had to stop.",
        None,
        RunStatus::Done,
        Some(&FinishReason::MaxTurns),
    );
    let events = take_events(&mut mapping);
    order::check(&events).unwrap();
    let message = events
        .iter()
        .find(|it| it["type"] == "TEXT_MESSAGE_START")
        .unwrap();
    let parents = events.iter().filter(|it| it["type"] == "TOOL_CALL_START");
    let parents: Vec<&Value> = parents.map(|it| &it["parentMessageId"]).collect();
    assert_eq!(parents, [&message["messageId"]; 2]);
    assert_eq!(order::text(&events), "I look.I had to stop.");
    let last = events.last().unwrap();
    assert_eq!(last["outcome"], json!({"type": "success"}));
    assert_eq!(last["usage"][0]["model"], "scripted");
}

#[test]
fn a_notice_is_sent_once_after_an_answer_that_was_already_sent() {
    for sent in ["It is mild.", "I looked. It is mild."] {
        let mut log = log();
        let mut mapping = mapping(&log);
        mapping.begin();
        let record = replied(&mut log, 0, 0, reply::text(sent), false);
        mapping.apply(&Event::Record(Arc::new(record)));
        mapping.apply(&Event::Record(log.finished("It is mild.")));
        mapping.end(
            "It is mild.\n\nThe rest was cut off.",
            Some("The rest was cut off."),
            RunStatus::Done,
            Some(&FinishReason::MaxTurns),
        );
        let events = take_events(&mut mapping);
        order::check(&events).unwrap();
        let expected = format!("{sent}The rest was cut off.");
        assert_eq!(order::text(&events), expected, "{events:?}");
    }
}

#[test]
fn a_draft_awaiting_a_check_is_not_sent_and_the_answer_is_sent_once() {
    for is_cited in [true, false] {
        let mut log = log();
        let mut mapping = mapping(&log);
        mapping.begin();
        let mut started = Arc::unwrap_or_clone(log.started("Look."));
        let hash = ContentHash::of(b"policy");
        let mut decision = Decision::new(Mode::MODERATE, Channel::CHAT, Role::REASONING, hash);
        match &mut started.body {
            RecordBody::RunStarted(started) if is_cited => {
                Arc::make_mut(&mut started.spec).root.profile.citations = Citations::Checked;
            }
            _ => {
                decision.self_check = Some(SelfCheck {
                    role: Role::REASONING,
                    prompt: "Check it.".to_owned(),
                    reason: "a rule".to_owned(),
                });
            }
        }
        mapping.apply(&Event::Record(Arc::new(started)));
        let decision = log.record(RecordBody::Decision(Arc::new(decision)));
        mapping.apply(&Event::Record(decision));
        let draft = reply::reasoned("Think.", "It is mild, I guess.");
        let record = replied(&mut log, 0, 0, draft, false);
        mapping.apply(&Event::Record(Arc::new(record)));
        mapping.end(
            "It is mild.",
            None,
            RunStatus::Done,
            Some(&FinishReason::Stop),
        );
        let events = take_events(&mut mapping);
        order::check(&events).unwrap();
        assert_eq!(order::text(&events), "It is mild.", "{events:?}");
        let thought = events.iter().any(|it| it["type"] == "REASONING_START");
        assert!(!thought, "{events:?}");
    }
}

#[test]
fn a_suspended_sub_agent_names_its_own_interrupts_and_those_below_it() {
    let mut log = log();
    let mut mapping = mapping(&log);
    mapping.begin();
    let starts = |agent, call, starts| Happening::Calls {
        agent,
        call,
        starts: Some(starts),
    };
    for happening in [
        starts(0, 0, 1),
        starts(0, 1, 2),
        starts(2, 0, 3),
        Happening::Asks(1, 1),
        Happening::Asks(3, 1),
    ] {
        mapping.apply(&event(&mut log, &happening));
    }
    mapping.wait();
    let events = take_events(&mut mapping);
    order::check(&events).unwrap();
    let ids = events.last().unwrap()["outcome"]["interrupts"].as_array();
    let ids: Vec<&Value> = ids.unwrap().iter().map(|it| &it["id"]).collect();
    let suspended = events.iter().filter(|it| it["type"] == "SUBAGENT_FINISHED");
    let named: Vec<&Value> = suspended.map(|it| &it["outcome"]["interruptIds"]).collect();
    // The last one started is reported first.
    let expected = [[ids[1]], [ids[1]], [ids[0]]].map(|it| json!(it));
    assert_eq!(named, expected.each_ref());
}
