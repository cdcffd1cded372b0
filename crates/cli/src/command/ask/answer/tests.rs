//! Tests of what is printed to standard output.

use neuraxis::core::uuid::Uuid;
use neuraxis::core::{Attempt, BlockIndex, ContentIndex, RunId, Seq};

use super::*;

const RUN: RunId = RunId(Uuid::nil());

fn live(agent: AgentId, call: u32, body: LiveBody) -> Event {
    Event::Live(LiveEvent {
        after: Seq(0),
        content_index: ContentIndex(0),
        run_id: RUN,
        agent,
        call: EffectId {
            run: RUN,
            number: call,
        },
        attempt: Attempt(1),
        block: BlockIndex(0),
        offset: 0,
        body,
    })
}

fn text(call: u32, text: &str) -> Event {
    let text = text.to_owned();
    live(AgentId::ROOT, call, LiveBody::TextDelta { text })
}

fn retracted(call: u32) -> Event {
    live(AgentId::ROOT, call, LiveBody::TextRetracted)
}

/// Returns everything that is printed; ‹void› marks where text became void.
fn printed(events: &[Event], reply: &str) -> String {
    printed_when(PrintTiming::Immediately, events, reply)
}

fn printed_when(timing: PrintTiming, events: &[Event], reply: &str) -> String {
    let mut answer = AnswerPrinter::new(timing);
    let mut printed = String::new();
    for event in events {
        match answer.handle_event(event) {
            Change::None => {}
            Change::More(text) => printed.push_str(&text),
            Change::Void(end) => printed.push_str(&format!("{end}‹void›")),
        }
    }
    printed + &answer.finish(reply)
}

#[test]
fn deltas_are_printed_as_they_arrive_and_the_last_line_is_ended() {
    assert_eq!(
        printed(&[text(1, "It is "), text(1, "noon.")], "It is noon."),
        "It is noon.\n"
    );
    assert_eq!(printed(&[text(1, "noon\n")], "noon\n"), "noon\n");
}

#[test]
fn an_empty_line_separates_the_texts_of_two_model_calls() {
    let events = [text(1, "Let me see."), text(4, "It is noon.")];
    assert_eq!(
        printed(&events, "It is noon."),
        "Let me see.\n\nIt is noon.\n"
    );
    let events = [text(1, "Let me see.\n"), text(4, "It is noon.")];
    assert_eq!(
        printed(&events, "It is noon."),
        "Let me see.\n\nIt is noon.\n"
    );
    let events = [text(1, "\n"), text(1, "\n"), text(4, "noon")];
    assert_eq!(printed(&events, "noon"), "\n\nnoon\n");
}

#[test]
fn a_reply_that_was_not_streamed_is_printed_whole() {
    assert_eq!(printed(&[], "It is noon."), "It is noon.\n");
}

#[test]
fn a_reply_that_differs_from_the_streamed_text_is_printed_after_it() {
    assert_eq!(
        printed(&[text(1, "Let me see.")], "I give up."),
        "Let me see.\n\nI give up.\n"
    );
    assert_eq!(
        printed(&[text(1, "half a sen")], "half a sentence"),
        "half a sentence\n"
    );
}

#[test]
fn only_the_missing_part_of_the_reply_is_appended() {
    let events = [text(1, "One."), text(4, "Two.")];
    assert_eq!(
        printed(&events, "Two.\n\nIt failed."),
        "One.\n\nTwo.\n\nIt failed.\n"
    );
    assert_eq!(
        printed(&events, "One.\n\nTwo.\n\nIt failed."),
        "One.\n\nTwo.\n\nIt failed.\n"
    );
    assert_eq!(printed(&events, "One.\n\nTwo."), "One.\n\nTwo.\n");
}

#[test]
fn retracted_text_is_marked_void_and_followed_by_its_replacement() {
    let events = [text(1, "It is no"), retracted(1), text(1, "It is one.")];
    assert_eq!(
        printed(&events, "It is one."),
        "It is no\n‹void›\nIt is one.\n"
    );
    let events = [text(1, "It is no"), retracted(1)];
    assert_eq!(
        printed(&events, "It is no"),
        "It is no\n‹void›\nIt is no\n",
        "void text is no reply"
    );
}

#[test]
fn buffered_text_is_not_printed_once_it_is_retracted() {
    let events = [
        text(1, "Let me see."),
        text(4, "It is no"),
        retracted(4),
        text(4, "It is "),
        text(4, "one."),
    ];
    assert_eq!(
        printed_when(PrintTiming::OnceComplete, &events, "It is one."),
        "Let me see.\n\nIt is one.\n"
    );
    let events = [text(1, "It is no"), retracted(1)];
    assert_eq!(printed_when(PrintTiming::OnceComplete, &events, ""), "");
}

#[test]
fn buffered_text_of_an_interrupted_run_is_printed() {
    let mut answer = AnswerPrinter::new(PrintTiming::OnceComplete);
    assert_eq!(answer.handle_event(&text(1, "It is no")), Change::None);
    assert_eq!(answer.end(), "It is no\n");
}

#[test]
fn a_retraction_of_nothing_changes_nothing() {
    assert_eq!(
        printed(&[retracted(1), text(1, "a"), retracted(2)], "a"),
        "a\n"
    );
}

#[test]
fn text_of_sub_agents_is_not_printed() {
    let body = LiveBody::TextDelta {
        text: "secret".into(),
    };
    assert_eq!(printed(&[live(AgentId(1), 1, body)], "noon"), "noon\n");
}

#[test]
fn an_empty_reply_prints_nothing() {
    assert_eq!(printed(&[], ""), "");
}
