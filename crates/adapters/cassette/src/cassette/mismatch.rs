//! The error for a request without a recording: the most similar recording, and what differs.

use std::collections::HashMap;
use std::fmt::Write;

use neuraxis_core::{LlmError, LlmErrorKind, ModelRequest, Role};
use similar::{Change, ChangeTag, DiffOp, TextDiff};

use super::Cassette;
use super::recordings::NoRecording;
use crate::canonical::MatchLevel;
use crate::exchange::Exchange;

/// The maximum number of lines shown of a comparison.
const MAX_LINES_SHOWN: usize = 40;

/// The maximum number of characters shown of a line.
const MAX_LINE_CHARS: usize = 160;

/// How many characters of a long line are shown before the first difference.
const CONTEXT_CHARS: usize = 40;

/// How many equal lines are shown around each difference.
const CONTEXT: usize = 2;

/// The maximum number of lines compared one by one, after equal ones at both ends were removed.
const MAX_LINES_COMPARED: usize = 2_000;

/// The maximum number of recordings searched for the one most similar to a request.
const MAX_CANDIDATES: usize = 500;

/// Creates the error for a request that no recording answers.
pub(super) fn error(
    cassette: &Cassette,
    role: &Role,
    request: &ModelRequest,
    missing: NoRecording,
) -> LlmError {
    let file = cassette.name().display();
    let message = match missing {
        NoRecording::Exhausted(recordings) => format!(
            "{file}: every recording of this request ({recordings}) has been used; a strict replay uses each once"
        ),
        NoRecording::Unknown => {
            let difference = difference(cassette, role, request);
            format!("{file}: this request was not recorded; {difference}")
        }
    };
    LlmError::new(LlmErrorKind::NotRecorded, message)
}

fn difference(cassette: &Cassette, role: &Role, request: &ModelRequest) -> String {
    let recordings = cassette.recordings.as_ref();
    let lines = |role: &Role, request: &ModelRequest| {
        recordings
            .comparison()
            .lines(role, request, MatchLevel::WithoutVolatile)
    };
    let ours = lines(role, request);
    let candidates = recordings.exchanges().iter().take(MAX_CANDIDATES);
    let candidates = candidates.map(|exchange| {
        let theirs = lines(&exchange.role, &exchange.request);
        (likeness(&ours, &theirs), exchange, theirs)
    });
    // The first of several that are equally similar.
    let nearest = candidates.reduce(|best, next| if next.0 > best.0 { next } else { best });
    match nearest {
        None => "the cassette is empty".to_owned(),
        Some((_, exchange, theirs)) => {
            let head = describe(exchange);
            format!(
                "the closest recording is {head} (- recorded, + requested):\n{}",
                compare(&theirs, &ours)
            )
        }
    }
}

fn describe(exchange: &Exchange) -> String {
    match exchange.line {
        0 => format!("exchange {}", exchange.number),
        line => format!("exchange {} (line {line})", exchange.number),
    }
}

/// Returns how many lines in a thousand two requests share.
fn likeness(ours: &[String], theirs: &[String]) -> usize {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in ours {
        *counts.entry(line).or_default() += 1;
    }
    let mut shared = 0_usize;
    for line in theirs {
        if let Some(count) = counts.get_mut(line.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    2_000 * shared / (ours.len() + theirs.len()).max(1)
}

/// Shows what differs between two requests: lines with `-` and `+`, and equal lines around them.
fn compare(recorded: &[String], requested: &[String]) -> String {
    let pairs = || recorded.iter().zip(requested);
    let start = pairs().take_while(|(a, b)| a == b).count();
    let start = start.saturating_sub(CONTEXT);
    let recorded = recorded.get(start..).unwrap_or_default();
    let requested = requested.get(start..).unwrap_or_default();
    let pairs = recorded.iter().rev().zip(requested.iter().rev());
    let end = pairs.take_while(|(a, b)| a == b).count();
    let end = end.saturating_sub(CONTEXT);
    let (recorded, requested) = (middle(recorded, end), middle(requested, end));

    let diff = TextDiff::from_slices(&recorded, &requested);
    let mut shown = String::new();
    let mut lines = 0;
    for (number, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if number > 0 {
            shown.push_str("  …\n");
        }
        for op in group {
            for change in diff.iter_changes(op) {
                lines += 1;
                if lines > MAX_LINES_SHOWN {
                    shown.push_str("  … and more");
                    return shown;
                }
                let sign = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                let other = opposite(op, &change, &recorded, &requested);
                let line = cut(change.value(), other.unwrap_or_default());
                // Writing to a string cannot fail.
                let _ = writeln!(shown, "{sign} {line}");
            }
        }
    }
    shown.truncate(shown.trim_end().len());
    shown
}

/// Returns the lines before the last `end`, up to the maximum for a comparison.
fn middle(lines: &[String], end: usize) -> Vec<&str> {
    let kept = lines.len().saturating_sub(end).min(MAX_LINES_COMPARED);
    lines.iter().take(kept).map(String::as_str).collect()
}

/// Returns the line of the other request at the same position as a changed one, if there is one.
fn opposite<'a>(
    op: &DiffOp,
    change: &Change<&str>,
    recorded: &[&'a str],
    requested: &[&'a str],
) -> Option<&'a str> {
    let (of_recorded, of_requested) = (op.old_range(), op.new_range());
    let (lines, number) = match change.tag() {
        ChangeTag::Equal => return None,
        ChangeTag::Delete => (
            requested.get(of_requested)?,
            change.old_index()?.checked_sub(of_recorded.start)?,
        ),
        ChangeTag::Insert => (
            recorded.get(of_recorded)?,
            change.new_index()?.checked_sub(of_requested.start)?,
        ),
    };
    lines.get(number).copied()
}

/// Returns the part of a line to show; for a long line, the part around its first difference from another. Control
/// characters are escaped, so that they cannot affect a terminal.
fn cut(line: &str, other: &str) -> String {
    let pairs = line.chars().zip(other.chars());
    let same = pairs.take_while(|(ours, theirs)| ours == theirs).count();
    let start = match same < MAX_LINE_CHARS - CONTEXT_CHARS {
        true => 0,
        false => same - CONTEXT_CHARS,
    };
    let mut shown = String::new();
    if start > 0 {
        shown.push('…');
    }
    let mut chars = line.chars().skip(start);
    for char in chars.by_ref().take(MAX_LINE_CHARS) {
        match char.is_control() {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
    }
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_comparison_shows_the_difference_with_little_context() {
        let shown = compare(&lines("a b c d e f g h"), &lines("a b c d X f g h"));
        assert_eq!(shown, "  c\n  d\n- e\n+ X\n  f\n  g");
    }

    #[test]
    fn long_lines_are_shown_from_where_they_start_to_differ() {
        let line = |word: &str| vec![format!("{}{word}{}", "x".repeat(500), "y".repeat(500))];
        let shown = compare(&line("one"), &line("two"));
        let shown: Vec<&str> = shown.lines().collect();
        let (before, after) = ("x".repeat(CONTEXT_CHARS), "y".repeat(117));
        assert_eq!(
            shown,
            [
                format!("- …{before}one{after}…"),
                format!("+ …{before}two{after}…"),
            ]
        );
    }

    #[test]
    fn a_comparison_stays_small_whatever_is_compared() {
        let long = "x".repeat(100_000);
        let many: Vec<String> = (0..100_000)
            .map(|number| format!("{number}{long:.10}"))
            .collect();
        let shown = compare(&many, std::slice::from_ref(&long));
        assert!(shown.len() < 8_000, "{}", shown.len());
        assert!(shown.ends_with("… and more"));
    }

    #[test]
    fn a_comparison_escapes_terminal_control_characters() {
        assert_eq!(cut("a\u{1b}[2J", ""), "a\\u{1b}[2J");
    }
}
