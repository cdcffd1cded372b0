//! Recognizes arithmetic: a text that is an expression from its beginning to its end, with operators as signs or words.

use super::after;

/// What a `/` or `-` without blanks around it means, as in `9/11` and `10-3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ratios {
    /// A division or a difference.
    Divide,
    /// Possibly a date, a range, or a name such as 24/7.
    MayBeDates,
}

/// Operators between two operands: how they are written, and how the tool writes them.
const BETWEEN: [(&str, &str); 17] = [
    ("to the power of", "^"),
    ("multiplied by", "*"),
    ("divided by", "/"),
    ("modulo", "mod"),
    ("minus", "-"),
    ("times", "*"),
    ("plus", "+"),
    ("mod", "mod"),
    ("**", "^"),
    ("×", "*"),
    ("÷", "/"),
    ("−", "-"),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
    ("^", "^"),
];

/// What may follow an operand: how it is written, and how the tool writes it. A factorial is not among them, since `!`
/// may also end a sentence.
const BEHIND: [(&str, &str); 4] = [
    ("percent", "%"),
    ("squared", "^2"),
    ("cubed", "^3"),
    ("%", "%"),
];

/// Functions of the operand that follows: how they are written, and how the tool writes them.
const FUNCTIONS: [(&str, &str); 16] = [
    ("the square root of", "sqrt"),
    ("square root of", "sqrt"),
    ("sqrt of", "sqrt"),
    ("sqrt", "sqrt"),
    ("√", "sqrt"),
    ("cbrt", "cbrt"),
    ("floor", "floor"),
    ("round", "round"),
    ("log10", "log10"),
    ("log2", "log2"),
    ("ceil", "ceil"),
    ("abs", "abs"),
    ("sin", "sin"),
    ("cos", "cos"),
    ("tan", "tan"),
    ("ln", "ln"),
];

/// An expression that is being read.
struct Reading<'a> {
    /// What is not read yet.
    rest: &'a str,
    /// What was read, as the tool writes it.
    written: String,
    /// The number of open parentheses.
    depth: usize,
    /// Whether something is calculated at all, and it cannot be a date or a range.
    is_certain: bool,
}

/// Returns an expression as the tool writes it, if the whole text is one.
pub(super) fn of(text: &str, ratios: Ratios) -> Option<String> {
    let mut reading = Reading {
        rest: text,
        written: String::new(),
        depth: 0,
        is_certain: false,
    };
    loop {
        reading.operand()?;
        reading.end_of_operand();
        if reading.rest.trim().is_empty() {
            let is_whole = reading.depth == 0 && reading.is_certain;
            return is_whole.then_some(reading.written);
        }
        reading.operator(ratios)?;
    }
}

impl<'a> Reading<'a> {
    /// Reads a number, with the signs, functions and parentheses before it.
    fn operand(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix('(') {
                self.depth += 1;
                self.add("(", rest);
            } else if let Some(rest) = self.rest.strip_prefix(['-', '−']) {
                self.add("-", rest);
            } else if let Some((written, rest)) = first(&FUNCTIONS, self.rest) {
                self.is_certain = true;
                self.add(&format!("{written} "), rest);
            } else if let Some(rest) = after(self.rest, "pi") {
                self.add("pi", rest);
                return Some(());
            } else {
                let (number, rest) = number(self.rest)?;
                self.add(number, rest);
                return Some(());
            }
        }
    }

    /// Reads what follows an operand and belongs to it.
    fn end_of_operand(&mut self) {
        loop {
            let rest = self.rest.trim_start();
            if let Some(rest) = rest.strip_prefix(')').filter(|_| self.depth > 0) {
                self.depth -= 1;
                self.add(")", rest);
            } else if let Some((written, rest)) = first(&BEHIND, rest) {
                self.is_certain |= written.starts_with('^');
                self.add(written, rest);
            } else {
                return;
            }
        }
    }

    /// Reads what comes between two operands.
    fn operator(&mut self, ratios: Ratios) -> Option<()> {
        let rest = self.rest.trim_start();
        let is_spaced = rest.len() < self.rest.len();
        let share = after(rest, "of").filter(|_| self.written.ends_with('%'));
        let (written, rest) = match share {
            Some(rest) => ("of", rest),
            // Without blanks, it is a size, as in 1920x1080.
            None => match after(rest, "x").filter(|rest| is_spaced && rest.starts_with(' ')) {
                Some(rest) => ("*", rest),
                None => first(&BETWEEN, rest)?,
            },
        };
        self.is_certain |= ratios == Ratios::Divide
            || !matches!(written, "-" | "/")
            || (is_spaced && rest.starts_with(' '));
        self.add(&format!(" {written} "), rest);
        Some(())
    }

    fn add(&mut self, written: &str, rest: &'a str) {
        self.written.push_str(written);
        self.rest = rest;
    }
}

/// Returns how the tool writes the first of these with which a text begins, and what follows it.
fn first<'a>(all: &[(&str, &'static str)], text: &'a str) -> Option<(&'static str, &'a str)> {
    all.iter().find_map(|(spelled, written)| {
        let is_word = spelled.starts_with(char::is_alphabetic);
        let rest = match is_word {
            true => after(text, spelled),
            false => text.strip_prefix(spelled),
        };
        Some((*written, rest?))
    })
}

/// Splits a text after the number with which it begins. A version such as 1.2.3 is no number.
pub(super) fn number(text: &str) -> Option<(&str, &str)> {
    let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',');
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    let is_number = number.starts_with(|first: char| first.is_ascii_digit())
        && number.ends_with(|last: char| last.is_ascii_digit())
        && number.matches('.').count() <= 1;
    is_number.then_some((number, rest))
}
