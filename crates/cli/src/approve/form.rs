//! A tool's question with fields to fill in. Shows who asks, and then asks for one field after the other.
//!
//! All text from a server is shown so that nothing in it can be hidden. Nothing is sent before the user has seen all
//! answers together and agreed.

use std::io;

use neuraxis::core::JsonText;
use neuraxis::ports::{Field, FieldChoice, FieldKind, Question, QuestionReply, Required};
use serde_json::{Map, Value};

use super::console::{Console, Line};
use crate::glyphs::Glyph;
use crate::harmless::{one_line, reveal_invisible};
use crate::wrap::broken;

/// The margin before each line from a third party.
const MARGIN: Glyph = Glyph::new("  │ ", "  | ");

/// The maximum number of characters of an answer.
const MAX_ANSWER: usize = 10_000;

/// The result of asking for a field.
enum FieldAnswer {
    Value(Value),
    LeftOut,
    /// The user does not want to answer at all.
    Stopped(QuestionReply),
}

/// Asks the user to fill in the fields of a question. Only a clear yes at the end sends the answers.
pub(super) fn ask(question: &Question, console: &mut impl Console) -> io::Result<QuestionReply> {
    console.show(&heading(question, console.width()))?;
    let mut answers = Map::new();
    for field in &question.fields {
        match fill(field, console)? {
            FieldAnswer::Value(value) => {
                answers.insert(field.name.clone(), value);
            }
            FieldAnswer::LeftOut => {}
            FieldAnswer::Stopped(reply) => return Ok(reply),
        }
    }
    let from = one_line(&reveal_invisible(&question.from));
    let what = match answers.is_empty() {
        true => String::new(),
        false => format!(
            " {}",
            reveal_invisible(&Value::Object(answers.clone()).to_string())
        ),
    };
    let prompt = format!("send this to {from}?{what} [y/N] ");
    let typed = match console.line(&prompt, "")? {
        Line::Text(typed) => typed,
        Line::Interrupted => return Ok(QuestionReply::Cancelled),
        Line::End => return Ok(QuestionReply::Declined),
    };
    Ok(match typed.trim().to_lowercase().as_str() {
        "y" | "yes" => {
            QuestionReply::Answered(JsonText::from_text(Value::Object(answers).to_string()))
        }
        _ => QuestionReply::Declined,
    })
}

fn heading(question: &Question, columns: usize) -> String {
    let from = one_line(&reveal_invisible(&question.from));
    let message = reveal_invisible(&question.message);
    let lines: String = message
        .lines()
        .map(|line| {
            format!(
                "{}\n",
                broken(&format!("{MARGIN}{line}"), columns, MARGIN.as_str())
            )
        })
        .collect();
    format!(
        "MCP server {from} asks you (do not give it any secrets):\n{lines}Press Enter to skip an optional field, or type a single dot to decline.\n"
    )
}

/// Asks for one field until the answer is valid.
fn fill(field: &Field, console: &mut impl Console) -> io::Result<FieldAnswer> {
    let shown = |text: &str| one_line(&reveal_invisible(text));
    let name = shown(field.title.as_deref().unwrap_or(&field.name));
    let columns = console.width();
    let in_margin =
        |line: &str| broken(&format!("{MARGIN}{line}"), columns, MARGIN.as_str()) + "\n";
    if let Some(description) = &field.description {
        console.show(&in_margin(&shown(description)))?;
    }
    if let FieldKind::OneOf { choices } | FieldKind::AnyOf { choices } = &field.kind {
        for (number, choice) in (1..).zip(choices) {
            console.show(&in_margin(&format!("{number}. {}", shown(&choice.title))))?;
        }
    }
    let default = field
        .default
        .as_ref()
        .map(|value| format!(" [{}]", shown(&value.as_text())));
    let default = default.unwrap_or_default();
    let prompt = format!(
        "{name} ({}){default}: ",
        wanted(&field.kind, field.required)
    );
    loop {
        let typed = match console.line(&prompt, "")? {
            Line::Text(typed) => typed,
            Line::Interrupted => return Ok(FieldAnswer::Stopped(QuestionReply::Cancelled)),
            Line::End => return Ok(FieldAnswer::Stopped(QuestionReply::Declined)),
        };
        let typed = typed.trim();
        if typed == "." {
            return Ok(FieldAnswer::Stopped(QuestionReply::Declined));
        }
        if typed.is_empty() {
            match (&field.default, field.required) {
                (Some(value), _) => {
                    return Ok(value
                        .decode()
                        .map_or(FieldAnswer::LeftOut, FieldAnswer::Value));
                }
                (None, Required::No) => return Ok(FieldAnswer::LeftOut),
                (None, Required::Yes) => {
                    console.show("This field is required.\n")?;
                    continue;
                }
            }
        }
        match read(&field.kind, typed) {
            Ok(value) => return Ok(FieldAnswer::Value(value)),
            Err(why) => console.show(&format!("{why}\n"))?,
        }
    }
}

/// Describes in a few words what a field accepts.
fn wanted(kind: &FieldKind, required: Required) -> String {
    let what = match kind {
        FieldKind::Text {
            format: Some(format),
            ..
        } => one_line(&reveal_invisible(format)),
        FieldKind::Integer { .. } => "whole number".to_owned(),
        FieldKind::Number { .. } => "number".to_owned(),
        FieldKind::Boolean => "yes or no".to_owned(),
        FieldKind::OneOf { .. } => "a number from the list".to_owned(),
        FieldKind::AnyOf { .. } => "numbers from the list, separated by commas".to_owned(),
        _ => "text".to_owned(),
    };
    match required {
        Required::Yes => what,
        Required::No => format!("{what}, optional"),
    }
}

/// Parses typed text as the value of a field.
fn read(kind: &FieldKind, typed: &str) -> Result<Value, String> {
    match kind {
        FieldKind::Text { min, max, .. } => {
            let length = typed.chars().count();
            let count = u64::try_from(length).unwrap_or(u64::MAX);
            if min.is_some_and(|min| count < min) {
                return Err(format!("That is too short: {length} characters."));
            }
            if length > MAX_ANSWER || max.is_some_and(|max| count > max) {
                return Err(format!("That is too long: {length} characters."));
            }
            Ok(Value::from(typed))
        }
        FieldKind::Integer { min, max } => {
            let number: i64 = typed
                .parse()
                .map_err(|_| "That is not a whole number.".to_owned())?;
            within(number, *min, *max)?;
            Ok(Value::from(number))
        }
        FieldKind::Number { min, max } => {
            let number: f64 = typed
                .parse()
                .map_err(|_| "That is not a number.".to_owned())?;
            within(number, *min, *max)?;
            serde_json::Number::from_f64(number)
                .map(Value::Number)
                .ok_or_else(|| "That is not a number.".to_owned())
        }
        FieldKind::Boolean => match typed.to_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(Value::from(true)),
            "n" | "no" | "false" => Ok(Value::from(false)),
            _ => Err("Answer yes or no.".to_owned()),
        },
        FieldKind::OneOf { choices } => chosen(choices, typed),
        FieldKind::AnyOf { choices } => {
            let chosen = typed.split(',').map(|one| chosen(choices, one.trim()));
            Ok(Value::Array(chosen.collect::<Result<_, _>>()?))
        }
        _ => Err("This cannot be answered here: type a dot to decline.".to_owned()),
    }
}

fn within<T: PartialOrd + std::fmt::Display + Copy>(
    number: T,
    min: Option<T>,
    max: Option<T>,
) -> Result<(), String> {
    match (min, max) {
        (Some(min), _) if number < min => Err(format!("It must be at least {min}.")),
        (_, Some(max)) if number > max => Err(format!("It must be at most {max}.")),
        _ => Ok(()),
    }
}

fn chosen(choices: &[FieldChoice], typed: &str) -> Result<Value, String> {
    let number: Option<usize> = typed.parse().ok();
    let by_number = number.and_then(|number| choices.get(number.checked_sub(1)?));
    let by_name = || {
        choices
            .iter()
            .find(|it| it.value == typed || it.title == typed)
    };
    let choice = by_number.or_else(by_name);
    choice
        .map(|choice| Value::from(choice.value.as_str()))
        .ok_or_else(|| format!("Answer with a number from 1 to {}.", choices.len()))
}
