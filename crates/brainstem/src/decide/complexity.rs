//! Estimates how complex a request is from its text alone, as a sum of points. The same text always scores the same.
//!
//! | feature | what counts | points each | at most |
//! | --- | --- | --- | --- |
//! | `length` | every 200 bytes | 1 | 4 |
//! | `questions` | every question mark after the first | 1 | 2 |
//! | `steps` | lines that begin like a list: `-`, `*`, `1.` | 1 | 3 |
//! | `code` | code fences, and lines that end in `{`, `}` or `;` | 2 | 4 |
//! | `reasoning` | words that ask for thought, such as *why*, *compare*, *prove* | 2 | 6 |
//! | `building` | words that ask for a larger work, such as *design*, *implement*, *refactor* | 2 | 4 |
//! | `figures` | numbers beyond the second | 1 | 2 |
//!
//! The words are English and German. In other languages, length, questions, steps, code and figures still count. A
//! channel sets the number of points from which a request is complex (`complex_from`).

use std::cell::LazyCell;

use neuraxis_core::{Complexity, ComplexityFeature};

/// The complexity of a request, computed when something first depends on it.
pub(super) type Score<Find> = LazyCell<Complexity, Find>;

/// The number of bytes that are read; a longer request is complex anyway.
const MAX_BYTES: usize = 4_096;

const REASONING: [&str; 34] = [
    "why",
    "how",
    "explain",
    "compare",
    "prove",
    "derive",
    "analyze",
    "analyse",
    "evaluate",
    "reason",
    "trade-off",
    "tradeoff",
    "pros",
    "difference",
    "differences",
    "consequences",
    "implications",
    "debug",
    "diagnose",
    "investigate",
    "step-by-step",
    "root-cause",
    "argue",
    "justify",
    "estimate",
    "optimize",
    "warum",
    "wieso",
    "erkläre",
    "vergleiche",
    "beweise",
    "begründe",
    "untersuche",
    "unterschied",
];

const BUILDING: [&str; 16] = [
    "design",
    "implement",
    "refactor",
    "architect",
    "architecture",
    "plan",
    "migrate",
    "rewrite",
    "develop",
    "draft",
    "strategy",
    "entwirf",
    "implementiere",
    "plane",
    "entwickle",
    "schreibe",
];

/// Adds up the points of a message.
pub(super) fn complexity(message: &str, threshold: u32) -> Complexity {
    let end = message.floor_char_boundary(MAX_BYTES);
    let text = message.get(..end).unwrap_or(message);
    let mut features = Vec::new();
    let mut add = |name: &str, count: usize, each: u32, most: u32| {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count > 0 {
            features.push(ComplexityFeature {
                name: name.to_owned(),
                count,
                points: count.saturating_mul(each).min(most),
            });
        }
    };
    let words = Words::of(text);
    add("length", text.len() / 200, 1, 4);
    add(
        "questions",
        text.matches('?').count().saturating_sub(1),
        1,
        2,
    );
    add(
        "steps",
        text.lines().filter(|line| is_step(line)).count(),
        1,
        3,
    );
    add(
        "code",
        text.matches("```").count() / 2 + text.lines().filter(|line| is_code(line)).count(),
        2,
        4,
    );
    add("reasoning", words.reasoning, 2, 6);
    add("building", words.building, 2, 4);
    add("figures", words.figures.saturating_sub(2), 1, 2);
    Complexity {
        score: features.iter().map(|feature| feature.points).sum(),
        threshold,
        features,
    }
}

/// Counts of the words in a text that score points, found in one pass.
#[derive(Default)]
struct Words {
    reasoning: usize,
    building: usize,
    figures: usize,
}

impl Words {
    fn of(text: &str) -> Self {
        let mut words = Self::default();
        let mut lower = String::new();
        for word in text.split(|letter: char| !letter.is_alphanumeric() && letter != '-') {
            if word.is_empty() {
                continue;
            }
            words.figures += usize::from(word.bytes().all(|byte| byte.is_ascii_digit()));
            // No word in the lists is longer.
            if word.len() > 16 {
                continue;
            }
            lower.clear();
            lower.extend(word.chars().flat_map(char::to_lowercase));
            words.reasoning += usize::from(REASONING.contains(&lower.as_str()));
            words.building += usize::from(BUILDING.contains(&lower.as_str()));
        }
        words
    }
}

fn is_step(line: &str) -> bool {
    let line = line.trim_start();
    let after_digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || (after_digits.len() < line.len() && after_digits.starts_with(['.', ')']))
}

fn is_code(line: &str) -> bool {
    line.trim_end().ends_with(['{', '}', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(message: &str) -> String {
        let complexity = complexity(message, 4);
        let features = complexity.features.iter();
        let features: Vec<_> = features
            .map(|f| format!("{} {}={}", f.name, f.count, f.points))
            .collect();
        format!("{} [{}]", complexity.score, features.join(", "))
    }

    #[test]
    fn complexity_points_depend_on_the_features_of_a_request() {
        for (message, expected) in [
            ("Hello", "0 []"),
            ("What time is it in Tokyo?", "0 []"),
            ("Why is the sky blue?", "2 [reasoning 1=2]"),
            (
                "Compare TCP and UDP and explain why games use UDP.",
                "6 [reasoning 3=6]",
            ),
            ("What? Where? When? Who?", "2 [questions 3=2]"),
            ("Do this:\n- a\n- b\n1. c\n2) d\n", "3 [steps 4=3]"),
            ("```\nlet x = 1;\n```", "4 [code 2=4]"),
            ("1 2 3 4 5", "2 [figures 3=2]"),
            (
                "Entwirf einen Plan und erkläre ihn",
                "6 [reasoning 1=2, building 2=4]",
            ),
        ] {
            assert_eq!(told(message), expected, "{message}");
        }
        assert_eq!(told(&"ä".repeat(100_000)), "4 [length 20=4]");
    }
}
