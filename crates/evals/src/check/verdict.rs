//! Whether a run meets a check, and otherwise what was found instead.

use neuraxis_core::log::describe::counted;
use neuraxis_core::{CountLabel, duration_text};
use serde_json::Value;
use serde_json_path::JsonPath;

use super::{Check, Kind, RequiredCalls, Schema};
use crate::matching::{CallPattern, holds};
use crate::observed::ObservedRun;

/// The maximum number of schema errors that a message names.
const MAX_FAULTS: usize = 3;

/// The maximum number of characters of one schema error, and of its location.
const MAX_FAULT_CHARS: usize = 200;

impl Check {
    /// Examines a run. A check that needs a judge passes here.
    ///
    /// # Errors
    ///
    /// A message for the user that says what was found instead.
    pub(crate) fn evaluate(&self, observed: &ObservedRun) -> Result<(), String> {
        let answer = observed.answer().trim();
        let of_answer = |is_fine: bool| is_fine.then_some(()).ok_or_else(|| observed.quoted());
        match &self.0 {
            Kind::Exact(text) => of_answer(answer == text.trim()),
            Kind::Contains(text) => of_answer(answer.contains(text.as_str())),
            Kind::NotContains(text) => of_answer(!answer.contains(text.as_str())),
            Kind::Regex(regex) => of_answer(regex.is_match(answer)),
            Kind::Schema(schema) => fits(schema, observed),
            Kind::Path { path, equals, .. } => found(path, equals.as_ref(), observed),
            Kind::Called(called) => was_called(called, observed),
            Kind::NotCalled(pattern) => was_not_called(pattern, observed),
            Kind::Finish(name) => match observed.view.finish() {
                Some(reason) if reason.name() == name => Ok(()),
                Some(reason) => Err(observed.reason(&format!("it finished with {reason}"))),
                None => Err("it has not finished".to_owned()),
            },
            Kind::MaxTurns(most) => at_most(observed.view.turns().into(), (*most).into(), "turn"),
            Kind::MaxToolCalls(most) => at_most(observed.calls.len() as u64, *most, "tool call"),
            Kind::MaxTokens(most) => {
                let total = observed.view.usage().total.total;
                match total.label {
                    CountLabel::Unknown if total.tokens <= *most => {
                        Err("a provider did not report how many tokens it used".to_owned())
                    }
                    _ => at_most(total.tokens, *most, "token"),
                }
            }
            Kind::MaxCost(most) => match observed.cost {
                Some(cost) if cost.0 <= most.0 && observed.cost_label == CountLabel::Unknown => {
                    Err(
                        "a provider did not report what a call used, so its cost is unknown"
                            .to_owned(),
                    )
                }
                Some(cost) => at_most(cost.0, most.0, "micro-dollar"),
                None => {
                    let model = observed.without_price.as_ref();
                    let model = model.map_or_else(|| "a model".to_owned(), ToString::to_string);
                    Err(observed.reason(&format!("{model} has no price: set one in [prices]")))
                }
            },
            Kind::MaxTime(most) => {
                let active = observed.view.active();
                let is_fine = active <= *most;
                is_fine
                    .then_some(())
                    .ok_or_else(|| format!("it was active for {}", duration_text::text(&active)))
            }
            Kind::Judge(_) => Ok(()),
        }
    }
}

fn at_most(found: u64, most: u64, what: &str) -> Result<(), String> {
    if found <= most {
        return Ok(());
    }
    Err(format!("it used {}", counted(found, what)))
}

fn fits(schema: &Schema, observed: &ObservedRun) -> Result<(), String> {
    let answer = observed.json()?;
    let faults = schema.validator.iter_errors(&answer).take(MAX_FAULTS);
    let faults = faults.map(|fault| {
        // The keys in this path come from the answer, too.
        let place = observed.shown(&fault.instance_path().to_string(), MAX_FAULT_CHARS);
        let message = fault.to_string();
        // The error quotes the value before it says what is wrong with it.
        let message = match message.chars().nth(MAX_FAULT_CHARS) {
            Some(_) => fault.masked().to_string(),
            None => message,
        };
        let message = observed.shown(&message, MAX_FAULT_CHARS);
        match place.as_str() {
            "" => message,
            place => format!("at {place}: {message}"),
        }
    });
    match faults.collect::<Vec<_>>() {
        faults if faults.is_empty() => Ok(()),
        faults => Err(faults.join("; ")),
    }
}

fn found(path: &JsonPath, equals: Option<&Value>, observed: &ObservedRun) -> Result<(), String> {
    let answer = observed.json()?;
    let found = path.query(&answer).all();
    let Some(expected) = equals else {
        let is_found = !found.is_empty();
        return is_found
            .then_some(())
            .ok_or_else(|| format!("nothing found: {}", observed.quoted()));
    };
    if found.iter().any(|value| holds(value, expected)) {
        return Ok(());
    }
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    match found.is_empty() {
        true => Err(format!("nothing found: {}", observed.quoted())),
        false => Err(format!("found {}", observed.shown(&found.join(", "), 200))),
    }
}

fn was_called(called: &RequiredCalls, observed: &ObservedRun) -> Result<(), String> {
    let calls = observed.calls.iter().filter(|call| {
        called.pattern.fits(&call.name, &call.arguments)
            && called.succeeded.is_none_or(|wanted| call.success == wanted)
    });
    let count = calls.count();
    let is_fine = match called.times {
        Some(times) => u32::try_from(count) == Ok(times),
        None => count > 0,
    };
    is_fine.then_some(()).ok_or_else(|| match count {
        0 => observed.called(),
        count => {
            let such = counted(count as u64, "such call");
            format!("{such}; {}", observed.called())
        }
    })
}

fn was_not_called(pattern: &CallPattern, observed: &ObservedRun) -> Result<(), String> {
    let mut calls = observed.calls.iter();
    match calls.find(|call| pattern.fits(&call.name, &call.arguments)) {
        None => Ok(()),
        Some(call) => {
            let arguments = observed.shown(call.arguments.as_str(), 200);
            Err(format!("it was called: {} {arguments}", call.name))
        }
    }
}
