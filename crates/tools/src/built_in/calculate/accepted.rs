//! What may stand in an expression.

use neuraxis_ports::ToolError;

use super::{EXPRESSION_MAX_CHARS, EXPRESSION_MAX_DEPTH};

/// The signs that may stand in an expression, beside letters and digits. Missing on purpose: `:`, `=`, `\` (functions of
/// one's own), `@` (dates), quotes (texts), `;` and `#`.
const SIGNS: &str = " +-*/^().,!%_'°";

/// Words that stand for something other than a number that is always the same.
const REFUSED_WORDS: [&str; 8] = [
    "roll",
    "sample",
    "today",
    "tomorrow",
    "yesterday",
    "now",
    "version",
    "help",
];

/// Returns the expression in the form that is calculated, or says what is wrong with it.
pub(super) fn expression(written: &str) -> Result<String, ToolError> {
    let text: String = written
        .trim()
        .chars()
        .map(|letter| match letter {
            '×' | '·' | '∙' => '*',
            '÷' | '∕' => '/',
            '−' | '–' => '-',
            '\n' | '\t' | '\r' | '\u{a0}' => ' ',
            other => other,
        })
        .collect();
    if text.is_empty() {
        return Err(refused("the expression is empty"));
    }
    if text.chars().nth(EXPRESSION_MAX_CHARS).is_some() {
        return Err(refused(&format!(
            "the expression is longer than {EXPRESSION_MAX_CHARS} characters; calculate it in parts"
        )));
    }
    signs(&text)?;
    nesting(&text)?;
    words(&text)?;
    percent(&text)?;
    Ok(text)
}

fn refused(why: &str) -> ToolError {
    ToolError::permanent(format!("invalid_expression: {why}"))
}

fn signs(text: &str) -> Result<(), ToolError> {
    let known = |letter: char| {
        letter.is_ascii_alphanumeric() || SIGNS.contains(letter) || matches!(letter, 'π' | '√')
    };
    match text.chars().position(|letter| !known(letter)) {
        None => Ok(()),
        Some(at) => {
            let letter = text.chars().nth(at).unwrap_or_default();
            let hint = match letter {
                '=' => "; write what is to be calculated, without `=`",
                '<' | '>' => "; comparisons are not calculated",
                _ => "",
            };
            let at = at + 1;
            Err(refused(&format!(
                "{letter:?} at character {at} does not belong into an expression{hint}"
            )))
        }
    }
}

fn nesting(text: &str) -> Result<(), ToolError> {
    let mut depth = 0_usize;
    for (at, letter) in (1..).zip(text.chars()) {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => {
                return Err(refused(&format!(
                    "the parenthesis that closes at character {at} was never opened"
                )));
            }
            ')' => depth -= 1,
            _ => {}
        }
        if depth > EXPRESSION_MAX_DEPTH {
            return Err(refused(&format!(
                "parentheses are nested deeper than {EXPRESSION_MAX_DEPTH}; calculate it in parts"
            )));
        }
    }
    match depth {
        0 => Ok(()),
        1 => Err(refused("a parenthesis is not closed")),
        open => Err(refused(&format!("{open} parentheses are not closed"))),
    }
}

fn words(text: &str) -> Result<(), ToolError> {
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_dice = |word: &str| {
        let (count, sides) = word.split_once('d').unwrap_or((word, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        !sides.is_empty() && is_number(count) && is_number(sides)
    };
    let refused_word = words.find(|word| REFUSED_WORDS.contains(word) || is_dice(word));
    match refused_word {
        None => Ok(()),
        Some(word) => Err(refused(&format!(
            "{word:?} is not a number; only arithmetic is calculated"
        ))),
    }
}

/// Refuses `17 % 5`: many would read it as the remainder, and the calculator as 17 percent times 5.
fn percent(text: &str) -> Result<(), ToolError> {
    for (at, _) in text.match_indices('%') {
        let rest = text.get(at + 1..).unwrap_or_default().trim_start();
        let is_operand = rest.starts_with(|next: char| {
            next.is_ascii_alphanumeric() || matches!(next, '(' | '.' | 'π' | '√')
        });
        let goes_on = ["of ", "to ", "in "]
            .iter()
            .any(|word| rest.starts_with(word));
        if is_operand && !goes_on {
            return Err(refused(
                "`%` stands for percent; for the remainder write `17 mod 5`, for a share `5% of 80`",
            ));
        }
    }
    Ok(())
}
