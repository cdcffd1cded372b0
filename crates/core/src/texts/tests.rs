//! Every text, with sample values.

use super::*;
use crate::json::JsonText;
use crate::message::ToolMessage;

/// Writes out all texts of a version, one per line.
fn written_out(texts: &Texts) -> String {
    let Texts {
        limits,
        notes,
        summaries,
        calls,
        stops,
        agents,
        results,
    } = texts;
    let lines = [
        of_limits(limits),
        of_notes(notes),
        of_summaries(summaries),
        of_calls(calls),
        of_stops(stops),
        of_agents(agents),
        of_results(results),
    ];
    let lines = lines.concat();
    assert!(lines.iter().all(|line| !line.is_empty()), "{lines:#?}");
    lines.join("\n")
}

fn of_limits(limits: &LimitTexts) -> Vec<String> {
    let mut lines = vec![
        limits.turns.to_owned(),
        limits.deadline.to_owned(),
        (limits.prompt)("LIMIT"),
        (limits.no_answer)("LIMIT"),
    ];
    lines.extend(BudgetKind::ALL.map(|kind| (limits.budget)(kind).to_owned()));
    lines
}

fn of_notes(notes: &NoteTexts) -> Vec<String> {
    vec![
        notes.digest.to_owned(),
        (notes.repeated)("read", 2),
        notes.message_came.to_owned(),
        notes.draft_rejected.to_owned(),
        notes.draft_accepted.to_owned(),
        notes.draft_corrected.to_owned(),
        notes.ask_user.to_owned(),
    ]
}

fn of_summaries(summaries: &SummaryTexts) -> Vec<String> {
    let result = Message::Tool(ToolMessage {
        tool_call_id: crate::ids::ToolCallId::from_text("c"),
        name: "read".into(),
        content: JsonText::from_text("1"),
        media: Vec::new(),
    });
    let speakers = [
        Message::system("x"),
        Message::user("x"),
        Message::assistant("x"),
        result,
    ];
    let mut lines = vec![
        summaries.instructions.to_owned(),
        (summaries.call)("read", "{}"),
        (summaries.gap)("head", 9, "tail"),
    ];
    lines.extend(speakers.map(|message| (summaries.speaker)(&message).to_owned()));
    lines
}

fn of_calls(calls: &CallTexts) -> Vec<String> {
    vec![
        (calls.unknown)("raed", &["read", "write"], None),
        (calls.unknown)("raed", &[], Some("find")),
        (calls.gone)("read"),
        (calls.invalid)("WHY"),
        (calls.denied)("WHY"),
        (calls.denied_by_user)(Some("WHY")),
        (calls.denied_by_user)(None),
        calls.not_approved_in_time.to_owned(),
        calls.not_in_run.to_owned(),
        calls.not_in_turn.to_owned(),
        calls.no_tool_in_turn.to_owned(),
        calls.client_cannot_wait.to_owned(),
        calls.limit_reached.to_owned(),
        (calls.repeated)("read", 3),
        calls.other_failed.to_owned(),
        calls.too_late.to_owned(),
        calls.reply_cut.to_owned(),
        calls.reply_filtered.to_owned(),
        calls.reply_refused.to_owned(),
        (calls.reply_turned_down)("WHY"),
    ]
}

fn of_stops(stops: &StopTexts) -> Vec<String> {
    vec![
        (stops.not_run)("WHY"),
        (stops.stopped)("WHY"),
        (stops.stopped_in_doubt)("WHY"),
        stops.interrupted.to_owned(),
        (stops.interrupted_for_good)("WHY"),
        stops.limit.to_owned(),
        stops.time.to_owned(),
        stops.run_cancelled.to_owned(),
        stops.agent_cancelled.to_owned(),
        (stops.unknown_tool)("raed"),
        (stops.loop_ended)("WHY"),
    ]
}

fn of_agents(agents: &AgentTexts) -> Vec<String> {
    let mut lines = vec![
        agents.too_deep.to_owned(),
        (agents.too_many)(3, 1),
        (agents.not_an_object)("WHY"),
        (agents.list_missing)("topics"),
        (agents.not_a_list)("topics"),
        (agents.no_answer)("WHY"),
        agents.empty.to_owned(),
        agents.cut.to_owned(),
        agents.filtered.to_owned(),
        agents.refused.to_owned(),
        (agents.call_failed)("read", "ERROR"),
        agents.note_cut.to_owned(),
        agents.note_filtered.to_owned(),
        agents.note_refused.to_owned(),
        (agents.note_shortened)(3, 9),
    ];
    let mut reasons = vec![
        FinishReason::MaxTurns,
        FinishReason::Deadline,
        FinishReason::Cancelled,
        FinishReason::ToolError,
        FinishReason::Clarify,
    ];
    reasons.extend(BudgetKind::ALL.map(FinishReason::Budget));
    lines.extend(reasons.iter().map(|reason| (agents.ended)(reason)));
    lines
}

fn of_results(results: &ResultTexts) -> Vec<String> {
    vec![
        results.not_kept.to_owned(),
        (results.shortened)("abc", 9),
        results.lost.to_owned(),
    ]
}

/// A change of these makes logs of these versions unreadable.
#[test]
fn the_texts_of_versions_1_to_3_stay_as_they_are() {
    for version in 1..4 {
        insta::assert_snapshot!("earlier", written_out(Texts::of(version)));
    }
}

#[test]
fn the_texts_of_version_4_stay_as_they_are() {
    insta::assert_snapshot!("version_4", written_out(Texts::of(4)));
}

#[test]
fn what_other_programs_recognize_is_the_same_in_all_versions() {
    for version in 1..=crate::record::LOOP_VERSION {
        let Texts { calls, stops, .. } = Texts::of(version);
        let unavailable = [calls.not_in_run, calls.not_in_turn, calls.no_tool_in_turn];
        for text in unavailable {
            assert!(text.starts_with("TOOL_NOT_ENABLED: "), "{text}");
        }
        for denied in [(calls.denied)("x"), (calls.denied_by_user)(None)] {
            assert!(denied.starts_with("denied"), "{denied}");
        }
        assert!((calls.unknown)("x", &[], None).starts_with("unknown tool "));
        assert!((calls.invalid)("x").starts_with("the arguments are not valid: "));
        for in_doubt in [
            (stops.stopped_in_doubt)("x"),
            (stops.interrupted_for_good)("x"),
            stops.interrupted.to_owned(),
        ] {
            assert!(in_doubt.contains("its outcome is unknown"), "{in_doubt}");
        }
    }
}
