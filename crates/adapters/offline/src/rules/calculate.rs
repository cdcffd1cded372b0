//! When to calculate, and what. Only a message that is nothing but a calculation asks for one, with words around it such
//! as "what is": more words may change what is meant.

mod conversion;
mod expression;

use serde_json::Value;

use self::expression::Ratios;
use super::{Rule, arguments};
use crate::question::ParsedMessage;

pub(super) const RULE: Rule = Rule {
    tool: "calculate",
    channel: "chat",
    fits: |question| calculation(question).is_some(),
    arguments: |question| arguments([("expression", calculation(question).map(Value::from))]),
};

/// The maximum number of bytes of a message that may be a calculation.
const MAX_BYTES: usize = 500;

/// Phrases that may come before a calculation and do not ask for one.
const OPENINGS: [&str; 14] = [
    "what is the result of",
    "what is the value of",
    "tell me",
    "what is",
    "what's",
    "whats",
    "what does",
    "can you",
    "could you",
    "please",
    "hey",
    "and",
    "ok",
    "so",
];

/// Phrases that ask for a calculation, so that `9/11` is no date.
const REQUESTS: [&str; 8] = [
    "how much is",
    "how much are",
    "calculate",
    "compute",
    "evaluate",
    "work out",
    "convert",
    "solve",
];

/// Phrases that may come after a calculation.
const CLOSINGS: [&str; 4] = ["please", "equal to", "equals", "equal"];

/// Returns the calculation that a message consists of, in the form that the tool takes.
fn calculation(question: &ParsedMessage) -> Option<String> {
    if question.text.len() > MAX_BYTES {
        return None;
    }
    let text = question.text.replace('’', "'");
    let mut rest = text.trim();
    let mut ratios = Ratios::MayBeDates;
    loop {
        if let Some(after) = without(&OPENINGS, rest) {
            rest = after;
        } else if let Some(after) = without(&REQUESTS, rest) {
            ratios = Ratios::Divide;
            rest = after;
        } else {
            break;
        }
    }
    let rest = before_closing(rest);
    conversion::of(rest).or_else(|| expression::of(rest, ratios))
}

/// Returns what follows the first of these phrases with which a text begins.
fn without<'a>(phrases: &[&str], text: &'a str) -> Option<&'a str> {
    let rest = phrases.iter().find_map(|phrase| after(text, phrase))?;
    Some(rest.trim_start_matches([' ', ',', ':']))
}

/// Returns what follows a phrase, in any case, with which a text begins. The phrase must end where a word ends.
fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let (begin, rest) = text.split_at_checked(phrase.len())?;
    let is_whole = !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    (begin.eq_ignore_ascii_case(phrase) && is_whole).then_some(rest)
}

fn before_closing(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_end_matches(['?', '=', '.', ',', ' ', '\n']);
        let shorter = CLOSINGS.iter().find_map(|phrase| {
            let (before, end) = rest.split_at_checked(rest.len().checked_sub(phrase.len())?)?;
            (end.eq_ignore_ascii_case(phrase) && before.ends_with([' ', ','])).then_some(before)
        });
        let Some(shorter) = shorter else { return rest };
        rest = shorter;
    }
}
