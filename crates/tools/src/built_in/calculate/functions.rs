//! Which functions there are, and what is said of others.

use neuraxis_ports::ToolError;

use super::accepted::refused;

/// The functions. They are no factor of what stands behind them.
pub(super) const FUNCTIONS: [&str; 24] = [
    "abs", "floor", "ceil", "round", "sqrt", "cbrt", "exp", "ln", "log2", "log10", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cis", "arg",
];

/// Units by the name of a function that other calculators have.
const UNITS_LIKE_FUNCTIONS: [&str; 2] = ["min", "sec"];

/// Refuses functions of other calculators that would be taken for something else: `log`, which is the natural logarithm to many
/// and that to the base 10 to others; `min(3)`, three minutes; and `gcd(12,18)`, of a number with a comma.
pub(super) fn check(text: &str) -> Result<(), ToolError> {
    if text
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| word == "log")
    {
        return Err(refused(
            "`log` may be read in two ways; write `ln`, `log10` or `log2`, and for another base `ln(8) / ln(3)`",
        ));
    }
    let mut open = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => {
                let word = last_word(text.get(..at).unwrap_or_default());
                if UNITS_LIKE_FUNCTIONS.contains(&word) {
                    return Err(refused(&format!(
                        "there is no function {word:?}; {}",
                        known()
                    )));
                }
                open.push(word);
            }
            ')' => {
                open.pop();
            }
            ',' => {
                let word = open.last().copied().unwrap_or_default();
                let behind = text.get(at + 1..).unwrap_or_default();
                // Within what a function is known for it may stand in a number.
                let in_number = FUNCTIONS.contains(&word) && !behind.starts_with(' ');
                if !word.is_empty() && !in_number {
                    return Err(refused(&format!(
                        "there is no function {word:?} of several values; {}",
                        known()
                    )));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Names the functions where the calculator does not know one that an expression has.
pub(super) fn instead(expression: &str, reason: &str) -> Option<String> {
    let unknown = reason
        .strip_prefix("unknown identifier '")?
        .strip_suffix('\'')?;
    let is_called = expression.contains(&format!("{unknown}("));
    is_called.then(known)
}

fn known() -> String {
    format!(
        "the functions, each of one value, are {}",
        FUNCTIONS.join(", ")
    )
}

/// Returns the word that a text ends with; an empty one where it ends otherwise.
fn last_word(text: &str) -> &str {
    let mut words = text.rsplit(|letter: char| !letter.is_ascii_alphanumeric());
    let word = words.next().unwrap_or_default();
    word.trim_start_matches(|letter: char| letter.is_ascii_digit())
}
