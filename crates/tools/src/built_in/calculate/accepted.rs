//! Which expressions are accepted.

use neuraxis_ports::ToolError;

use super::functions::{self, FUNCTIONS};
use super::{EXPRESSION_MAX_CHARS, EXPRESSION_MAX_DEPTH};

/// The characters that an expression may contain in addition to letters and digits. Deliberately missing: `:`, `=`, `\`
/// (user-defined functions), `@` (dates), quotes (strings), `;` and `#`.
const SIGNS: &str = " +-*/^().,!%_'°";

/// Words after a number that are not its unit.
pub(super) const OPERATORS: [&str; 11] = [
    "to", "as", "in", "of", "mod", "per", "and", "or", "xor", "choose", "permute",
];

/// Words that come before a unit and are not a factor of it.
const POWERS_OF_UNITS: [&str; 2] = ["square", "cubic"];

/// Words that are not a unit of the fraction before them.
const CONSTANTS: [&str; 2] = ["pi", "e"];

/// Words whose value is not always the same number.
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

/// Returns the expression in the form that is calculated, or an error that says what is wrong with it.
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
    check_words(&text)?;
    functions::check(&text)?;
    commas(&text)?;
    percent(&text)?;
    divisions(&text)?;
    Ok(text)
}

pub(super) fn refused(why: &str) -> ToolError {
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
                '=' => "; write only the expression, without `=`",
                '<' | '>' => "; comparisons are not supported",
                _ => "",
            };
            let at = at + 1;
            Err(refused(&format!(
                "{letter:?} at character {at} does not belong in an expression{hint}"
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
                    "the closing parenthesis at character {at} has no opening one"
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

fn check_words(text: &str) -> Result<(), ToolError> {
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
            "{word:?} is not a number; only arithmetic is supported"
        ))),
    }
}

/// Refuses commas that do not separate thousands: much of the world uses a decimal comma, and the calculator would read
/// 3,5 as 35.
fn commas(text: &str) -> Result<(), ToolError> {
    let is_in_number = |letter: char| letter.is_ascii_digit() || matches!(letter, ',' | '.');
    let numbers = text.split(|letter| !is_in_number(letter));
    for number in numbers.map(|number| number.trim_matches(',')) {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let Some((first, others)) = whole.split_once(',') else {
            if fraction.contains(',') {
                return Err(no_thousands(number));
            }
            continue;
        };
        let is_first = (1..=3).contains(&first.len()) && !first.starts_with('0');
        let are_thousands = others.split(',').all(|group| group.len() == 3);
        if !is_first || !are_thousands || fraction.contains(',') {
            return Err(no_thousands(number));
        }
    }
    Ok(())
}

fn no_thousands(number: &str) -> ToolError {
    refused(&format!(
        "{number} is ambiguous; write decimals with a period, as in 3.5, and no commas"
    ))
}

/// Refuses `17 % 5`, which many read as the remainder, and the calculator as 17 percent times 5. Also refuses `7 % -3`,
/// which the calculator reads as 7 percent minus 3, and `200 + 10%`: many expect 220, but the calculator adds a tenth.
fn percent(text: &str) -> Result<(), ToolError> {
    for (at, _) in text.match_indices('%') {
        let rest = text.get(at + 1..).unwrap_or_default().trim_start();
        let is_word = |word: &str| {
            let behind = rest.strip_prefix(word);
            behind.is_some_and(|behind| behind.starts_with([' ', '(']))
        };
        let of_something = is_word("of");
        let before = text.get(..at).unwrap_or_default();
        if !of_something && is_added_to_no_percentage(before) {
            return Err(refused(
                "`%` means a hundredth, so `200 + 10%` is 200.1; for a share of the preceding value write `200 + 10% of \
                 200`",
            ));
        }
        if rest.starts_with('^') || rest.starts_with("**") {
            return Err(refused("`5%^2` is ambiguous; write `(5%)^2`"));
        }
        if begins_with_signed(rest) {
            return Err(refused(
                "`%` before a signed number is ambiguous; for a difference write `7% - 3`, and for a remainder, which \
                 needs positive whole numbers, `7 mod 3`",
            ));
        }
        let is_operand = rest.starts_with(|next: char| {
            next.is_ascii_alphanumeric() || matches!(next, '(' | '.' | 'π' | '√')
        });
        let goes_on = ["of", "to", "in"].into_iter().any(is_word);
        if is_operand && !goes_on {
            return Err(refused(
                "`%` means percent; for a remainder write `17 mod 5`, for a share `5% of 80`",
            ));
        }
    }
    Ok(())
}

/// Returns whether the text after a `%` begins with a signed number. A number that is itself a percentage is added or
/// subtracted.
fn begins_with_signed(rest: &str) -> bool {
    let Some(operand) = rest.strip_prefix(['+', '-']) else {
        return false;
    };
    let is_percentage = || {
        let behind = behind_operand(operand).unwrap_or_default();
        behind.trim_start().starts_with('%')
    };
    !operand.starts_with(' ') && !is_percentage()
}

/// Returns whether the text before a `%` ends with a number that is added to, or subtracted from, something that is not
/// a percentage.
fn is_added_to_no_percentage(before: &str) -> bool {
    let before = before.trim_end();
    let sign = before.trim_end_matches(|letter: char| {
        letter.is_ascii_digit() || matches!(letter, '.' | ',' | '_')
    });
    let is_number = sign.len() < before.len();
    let sign = sign.trim_end_matches(['(', ' ']);
    let Some(to) = sign.strip_suffix(['+', '-']).map(str::trim_end) else {
        return false;
    };
    // `80 * (1 - 15%)`: a factor, however it is read.
    let is_factor = to.strip_suffix('1').is_some_and(|rest| {
        let rest = rest.trim_end();
        rest.is_empty() || rest.ends_with('(')
    });
    // After an `e`, it is the sign of an exponent.
    let is_sum = to.ends_with(|letter: char| {
        letter.is_ascii_digit() || matches!(letter, ')' | '.' | '!' | 'π' | '°')
    });
    is_number && is_sum && !is_factor
}

/// Refuses `10 // 3`, which many read as integer division, and the calculator as 10 divided by a third. Also refuses
/// `100 km / 2 h`: many would divide by two hours, but the calculator multiplies by an hour; the same applies to `J /
/// mol K`.
fn divisions(text: &str) -> Result<(), ToolError> {
    let text = text.replace(" per ", " / ");
    for (at, _) in text.match_indices('/') {
        let before = text.get(..at).unwrap_or_default();
        let rest = text.get(at + 1..).unwrap_or_default();
        if rest.trim_start().starts_with('/') {
            return Err(refused(
                "`//` is not supported; for integer division write `floor(10 / 3)`",
            ));
        }
        let Some(behind) = behind_operand(rest) else {
            continue;
        };
        if begins_with_factor(behind.trim_start()) && !is_fraction(before, rest, behind) {
            return Err(refused(
                "the divisor is ambiguous; put it in parentheses, as in `100 km / (2 h)` or `20 / (5%)`, or the \
                 fraction, as in `(4/3) pi`",
            ));
        }
    }
    Ok(())
}

/// Returns the text after the operand at the beginning: a number, a group or a word, with its sign and its power.
/// Returns `None` for a function, to which the text after it belongs.
fn behind_operand(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '+', '-']);
    let behind = behind_number(text).or_else(|| behind_group(text));
    let behind = behind.or_else(|| behind_word(text))?;
    let sign = behind.trim_start();
    match sign.strip_prefix('^').or_else(|| sign.strip_prefix("**")) {
        Some(power) => behind_operand(power),
        None => Some(behind),
    }
}

/// Returns the text after a number.
pub(super) fn behind_number(text: &str) -> Option<&str> {
    let bases = ["0x", "0b", "0o"];
    let digits = bases.iter().find_map(|base| text.strip_prefix(*base));
    if let Some(digits) = digits {
        return Some(digits.trim_start_matches(|letter: char| letter.is_ascii_hexdigit()));
    }
    let behind = behind_digits(text)?;
    let exponent = behind.strip_prefix(['e', 'E']);
    let exponent = exponent.map(|digits| digits.strip_prefix(['+', '-']).unwrap_or(digits));
    Some(exponent.and_then(behind_digits).unwrap_or(behind))
}

fn behind_group(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('(')?;
    let mut depth = 1_usize;
    let end = inside.find(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    inside.get(end + 1..)
}

fn behind_word(text: &str) -> Option<&str> {
    let behind = text.trim_start_matches(|letter: char| {
        letter.is_ascii_alphanumeric() || matches!(letter, '_' | 'π')
    });
    let word = text.strip_suffix(behind).unwrap_or_default();
    let is_function =
        behind.starts_with('(') || FUNCTIONS.contains(&word) || POWERS_OF_UNITS.contains(&word);
    (!word.is_empty() && !is_function).then_some(behind)
}

fn behind_digits(text: &str) -> Option<&str> {
    let behind = text.trim_start_matches(|letter: char| {
        letter.is_ascii_digit() || matches!(letter, '.' | ',' | '_')
    });
    (behind.len() < text.len()).then_some(behind)
}

/// Returns whether a text begins with something that multiplies the operand before it without an operator.
fn begins_with_factor(text: &str) -> bool {
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let word = words.next().unwrap_or_default();
    if word.is_empty() {
        return text.starts_with(['(', '%', '°', '\'', 'π', '√']);
    }
    let is_combination = matches!(word, "nCr" | "nPr");
    !is_combination && !OPERATORS.contains(&word.to_lowercase().as_str())
}

/// Returns whether a `/` is part of a fraction such as `1/2` in `1/2 hour`, which has only one reading.
fn is_fraction(before: &str, rest: &str, behind: &str) -> bool {
    let sign = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let mut words = behind
        .trim_start()
        .split(|letter: char| !letter.is_ascii_alphanumeric());
    let word = words.next().unwrap_or_default();
    let is_whole = sign.len() < before.len() && !sign.ends_with(['.', ',', '_']);
    is_whole
        && !sign.trim_end().ends_with('/')
        && rest.starts_with(|letter: char| letter.is_ascii_digit())
        && behind.starts_with(' ')
        && word.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && !CONSTANTS.contains(&word)
}
