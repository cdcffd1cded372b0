//! The parts of a conversation that may be removed, in units that belong together: no call without its result, no
//! result without its call.

use std::ops::Range;
use std::sync::Arc;

use crate::message::Message;
use crate::record::Span;
use crate::transcript::{is_summary, last_user_message};

/// Messages that stay or go together: a user message, or a model's message with the results of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    start: usize,
    end: usize,
    /// Whether the conversation may resume with this unit after everything before it was removed: a user message, or a
    /// turn whose question stays.
    pub(super) may_come_first: bool,
}

impl Unit {
    pub(super) const fn places(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Adds the unit to spans that end before it.
    pub(super) fn add_to(&self, spans: &mut Vec<Span>) {
        add_to(spans, self.places());
    }
}

/// Adds positions to spans that end before them.
pub(super) fn add_to(spans: &mut Vec<Span>, places: Range<usize>) {
    let place = |place: usize| u64::try_from(place).unwrap_or(u64::MAX);
    let (start, end) = (place(places.start), place(places.end));
    match spans.last_mut() {
        Some(last) if last.end == start => last.end = end,
        _ => spans.push(Span { start, end }),
    }
}

/// Returns the position of the question of the run, which the first `earlier` messages precede: a message that arrived
/// while the run was in progress is not its question.
pub(super) fn question_of(messages: &[Arc<Message>], earlier: usize) -> Option<usize> {
    let is_from_user =
        |message: &Arc<Message>| matches!(**message, Message::User { .. }) && !is_summary(message);
    let question = messages.iter().skip(earlier).position(is_from_user);
    let question = question.map(|place| earlier + place);
    question.or_else(|| last_user_message(messages))
}

/// Returns what may be removed, oldest first: everything except the system prompt, the question of the run, the last
/// user message and the current turn. The first `earlier` messages precede the run.
pub(super) fn removable(messages: &[Arc<Message>], earlier: usize, version: u32) -> Vec<Unit> {
    let is_reply = |message: &Arc<Message>| matches!(**message, Message::Assistant(_));
    let last_user = last_user_message(messages);
    let question = match version {
        ..3 => last_user,
        _ => question_of(messages, earlier),
    };
    let last_reply = messages.iter().rposition(is_reply);
    // The current turn: a reply whose results no model has read yet, or otherwise the last user message. Unread results
    // at the end of an earlier run may be what that run failed on, so they do not count.
    let unread = last_reply.filter(|place| {
        let reply = messages.get(*place).filter(|_| *place >= earlier);
        reply.is_some_and(|reply| reply.tool_calls().next().is_some())
    });
    let running = unread
        .or(last_reply.max(last_user))
        .unwrap_or(messages.len());
    let is_prompt = |message: &&Arc<Message>| matches!(***message, Message::System { .. });
    let first = messages.iter().take_while(is_prompt).count();
    let mut units = units(messages, first, running);
    let stays = |place: Option<usize>, unit: &Unit| {
        place.is_some_and(|place| unit.places().contains(&place))
    };
    units.retain(|unit| !stays(last_user, unit) && !stays(question, unit));
    for unit in &mut units {
        unit.may_come_first |= question.is_some_and(|place| place < unit.start);
    }
    units
}

/// Returns for each unit whether it must be removed to save this many tokens, because it belongs to an exchange so
/// large that all others together are not enough. A question goes together with its answer.
pub(super) fn too_large(
    units: &[Unit],
    to_save: u64,
    tokens_of: impl Fn(&Unit) -> u64,
) -> Vec<bool> {
    let sum = |units: &[Unit]| units.iter().map(&tokens_of).fold(0, u64::saturating_add);
    let all = sum(units);
    let exchanges = units.chunk_by(|_, next| !next.may_come_first);
    let each = exchanges.flat_map(|exchange| {
        let goes = all.saturating_sub(sum(exchange)) < to_save;
        exchange.iter().map(move |_| goes)
    });
    each.collect()
}

fn units(messages: &[Arc<Message>], first: usize, end: usize) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    for (place, message) in messages.iter().enumerate().take(end).skip(first) {
        match (message.as_ref(), units.last_mut()) {
            (Message::Tool(_), Some(unit)) => unit.end = place + 1,
            (message, _) => units.push(Unit {
                start: place,
                end: place + 1,
                may_come_first: matches!(message, Message::User { .. }),
            }),
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ToolCallId;
    use crate::json::JsonText;
    use crate::message::{AssistantMessage, Part, ToolCall, ToolMessage};
    use crate::record::LOOP_VERSION;

    fn call() -> Message {
        Message::Assistant(AssistantMessage {
            parts: vec![Part::ToolCall(ToolCall {
                id: ToolCallId::from_text("c"),
                name: "read".into(),
                arguments: JsonText::from_text("{}"),
                provider_id: None,
                state: None,
            })],
            model: None,
        })
    }

    fn result() -> Message {
        Message::Tool(ToolMessage {
            tool_call_id: ToolCallId::from_text("c"),
            name: "read".into(),
            content: JsonText::from_text("1"),
            media: Vec::new(),
        })
    }

    fn places(messages: Vec<Message>) -> Vec<Range<usize>> {
        places_after(0, messages)
    }

    fn places_after(earlier: usize, messages: Vec<Message>) -> Vec<Range<usize>> {
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        let units = removable(&messages, earlier, LOOP_VERSION);
        units.iter().map(Unit::places).collect()
    }

    #[test]
    fn the_prompt_the_last_user_message_and_the_current_turn_are_not_removable() {
        let messages = vec![
            Message::system("Be brief."),
            Message::user("old"),
            call(),
            result(),
            Message::assistant("old answer"),
            Message::user("new"),
            call(),
            result(),
            call(),
            result(),
        ];
        assert_eq!(places_after(5, messages), [1..2, 2..4, 4..5, 6..8]);
    }

    #[test]
    fn the_question_and_unread_results_are_not_removable_after_a_steered_message() {
        let messages = vec![
            Message::user("old"),
            call(),
            result(),
            call(),
            result(),
            Message::user("steered"),
        ];
        assert_eq!(places(messages), vec![1..3]);
    }

    #[test]
    fn unread_results_are_removable_once_their_run_has_ended() {
        let said = || vec![Message::user("old"), call(), result(), Message::user("new")];
        assert_eq!(places_after(3, said()), [0..1, 1..3]);
        assert!(places(said()).is_empty(), "they are of this run");
        let mut goes_on = said();
        goes_on.pop();
        assert!(places_after(3, goes_on).is_empty(), "nobody asked since");
    }

    #[test]
    fn an_oversized_result_is_removed_with_its_question_and_nothing_before_it() {
        let messages = vec![
            Message::user("old"),
            Message::assistant("old answer"),
            Message::user("large"),
            call(),
            result(),
            Message::user("new"),
        ];
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        let units = removable(&messages, 5, LOOP_VERSION);
        let tokens_of = |unit: &Unit| match unit.places().contains(&4) {
            true => 100,
            false => 1,
        };
        let goes = too_large(&units, 50, tokens_of);
        assert_eq!(goes, [false, false, true, true]);
        let all_go = too_large(&units, 104, tokens_of);
        assert_eq!(all_go, [true; 4]);
    }

    #[test]
    fn nothing_of_a_first_question_is_removable() {
        assert!(places(vec![Message::system("Be brief."), Message::user("new")]).is_empty());
        assert!(places(vec![Message::user("new"), call(), result()]).is_empty());
        assert!(places(Vec::new()).is_empty());
    }
}
