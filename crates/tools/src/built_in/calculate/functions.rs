//! The supported functions, and the errors about others.

use neuraxis_ports::ToolError;

use super::accepted::{OPERATORS, behind_number, refused};

/// The functions that are named to models, a part of those that exist. They do not multiply the text after them.
pub(super) const FUNCTIONS: [&str; 24] = [
    "abs", "floor", "ceil", "round", "sqrt", "cbrt", "exp", "ln", "log2", "log10", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cis", "arg",
];

/// Units that have the name of another calculator's function; `gcd` is a billion candelas.
const UNITS_LIKE_FUNCTIONS: [&str; 13] = [
    "min", "sec", "gcd", "rem", "deg", "rad", "lb", "asec", "tg", "ch", "th", "pv", "fv",
];

/// Refuses functions of other calculators that would be misread: `log`, which is the natural logarithm to some and the
/// decimal logarithm to others; `min(3)`, three minutes; `C(5)`, five coulombs; and `max(12,18)`, which would be a
/// number with a comma.
pub(super) fn check(text: &str) -> Result<(), ToolError> {
    if text
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| without_number(word).eq_ignore_ascii_case("log"))
    {
        return Err(refused(
            "`log` is ambiguous; write `ln`, `log10` or `log2`, or for another base `ln(8) / ln(3)`",
        ));
    }
    let mut open = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => {
                let before = text.get(..at).unwrap_or_default();
                let word = last_word(before.trim_end());
                let mut units = UNITS_LIKE_FUNCTIONS.into_iter();
                let is_letter = matches!(word.as_bytes(), [b'A'..=b'Z']);
                if units.any(|unit| word.eq_ignore_ascii_case(unit))
                    || (is_letter && !is_of_number(before, word))
                {
                    return Err(refused(&format!(
                        "there is no function {word:?}; after the unit write `*`; {}",
                        known_functions()
                    )));
                }
                open.push(before);
            }
            ')' => {
                open.pop();
            }
            ',' => {
                let before = open.last().copied().unwrap_or_default();
                let behind = text.get(at + 1..).unwrap_or_default();
                let word = last_word(before);
                if !word.is_empty() && !may_be_in_number(before, behind) {
                    return Err(refused(&format!(
                        "there is no function {word:?} with several arguments; {}",
                        known_functions()
                    )));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a comma may be part of a number, given the text before the parenthesis and after the comma. It may
/// in the argument of a known function and after an operator. After a unit, as in `3 kg(1,000)`, it must separate
/// thousands.
fn may_be_in_number(before: &str, behind: &str) -> bool {
    let word = last_word(before);
    let is_known = FUNCTIONS.contains(&word) || OPERATORS.contains(&word);
    let rest = behind.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let parts_thousands = behind.len() - rest.len() == 3;
    !behind.starts_with(' ') && (is_known || (parts_thousands && is_of_number(before, word)))
}

/// Returns whether a number precedes the last word of a text, as it does before a unit.
fn is_of_number(before: &str, word: &str) -> bool {
    let number = before.trim_end().strip_suffix(word).unwrap_or_default();
    let is_end = |letter: char| letter.is_ascii_digit() || letter == ')';
    number.trim_end().ends_with(is_end)
}

/// Lists the functions if an expression calls one that the calculator does not know.
pub(super) fn instead(expression: &str, reason: &str) -> Option<String> {
    let unknown = reason
        .strip_prefix("unknown identifier '")?
        .strip_suffix('\'')?;
    let is_called = expression.contains(&format!("{unknown}("));
    is_called.then(known_functions)
}

fn known_functions() -> String {
    format!(
        "the functions, each with one argument, include {}",
        FUNCTIONS.join(", ")
    )
}

/// Returns the last word of a text; empty if the text does not end with a word.
fn last_word(text: &str) -> &str {
    let mut words = text.rsplit(|letter: char| !letter.is_ascii_alphanumeric());
    without_number(words.next().unwrap_or_default())
}

/// Returns a word without a number before it, as in `2log`.
fn without_number(word: &str) -> &str {
    behind_number(word).unwrap_or(word)
}
