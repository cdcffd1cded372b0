//! The tool `calculate`.
//!
//! `fend-core` does the arithmetic: numbers of any size, decimal fractions without rounding, units. It can do more than
//! a calculator should (user-defined functions, which may recurse without end; dates; dice), so this module restricts
//! the syntax ([`accepted`]) and stops calculations that take too long.

mod accepted;
mod functions;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fend_core::Interrupt;
use neuraxis_core::ToolClass;
use neuraxis_ports::{Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blocking::{self, Stop};
use crate::function::{DefinitionError, FunctionTool};
use crate::summary::one_line;

/// The maximum length of an expression, in characters.
const EXPRESSION_MAX_CHARS: usize = 500;
/// The maximum length of a result, in characters.
const RESULT_MAX_CHARS: usize = 1_000;
/// The maximum nesting depth of parentheses.
const EXPRESSION_MAX_DEPTH: usize = 20;
/// How long a calculation may take.
const CALCULATION_TIMEOUT: Duration = Duration::from_secs(2);

/// The calculator recurses for each operator of a chain such as `1^1^1^…`; the longest accepted chain must fit
/// (`the_longest_possible_chains_do_not_exhaust_the_stack`). Only the used part of the stack takes memory.
const STACK_BYTES: usize = 64 << 20;

/// The maximum length of a reason given by the calculator, in characters.
const MAX_REASON_CHARS: usize = 200;

/// The prefix of a rounded result.
const ROUNDED: &str = "approx. ";

const DESCRIPTION: &str = "Evaluates an arithmetic expression: numbers of any size, decimal fractions without rounding \
    errors. Use it for every nontrivial calculation instead of calculating yourself. Supports + - * / ^ ( ), `mod`, \
    factorial `!`, percent (`5% of 80`), sqrt, cbrt, abs, floor, ceil, round, ln, log10, log2, exp, the trigonometric \
    functions (radians, or `sin(30 degrees)`), pi, e, and units (`3 km + 200 m to miles`). The result says whether it \
    is exact or rounded; for more digits, end the expression with `to 30 dp`.";

/// Creates `calculate`: exact arithmetic.
///
/// # Errors
///
/// The errors of [`FunctionTool::new`], which the current definition never causes.
pub fn calculate() -> Result<Arc<dyn Tool>, DefinitionError> {
    let tool = FunctionTool::new(
        "calculate",
        DESCRIPTION,
        |arguments: Arguments, ctx| async move {
            blocking::run(&ctx, move |stop| evaluate(&arguments.expression, stop)).await
        },
    )?;
    Ok(tool.class(ToolClass::ReadOnly).build())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The expression, such as `(17.5 + 3) * 12`. At most 500 characters.
    expression: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Calculated {
    expression: String,
    result: String,
    /// Whether the result is exact, without rounding.
    exact: bool,
    summary: String,
}

/// Stops a calculation that takes too long or whose result is no longer awaited.
#[derive(Debug)]
struct Bounds<'a> {
    stop: &'a Stop,
    started: Instant,
}

impl Bounds<'_> {
    fn is_too_late(&self) -> bool {
        self.started.elapsed() >= CALCULATION_TIMEOUT
    }
}

impl Interrupt for Bounds<'_> {
    fn should_interrupt(&self) -> bool {
        self.is_too_late() || self.stop.check().is_err()
    }
}

fn evaluate(written: &str, stop: &Stop) -> Result<Calculated, ToolError> {
    let expression = accepted::expression(written)?;
    let bounds = Bounds {
        stop,
        started: Instant::now(),
    };
    let found = match calculated(&expression, &bounds)? {
        Ok(found) => found,
        Err(_) if bounds.is_too_late() => {
            return Err(ToolError::permanent(format!(
                "too_big: this takes longer than {} seconds to calculate; use smaller numbers",
                CALCULATION_TIMEOUT.as_secs()
            )));
        }
        Err(reason) => {
            stop.check()?;
            let instead = functions::instead(&expression, &reason);
            let instead = instead.map(|it| format!("; {it}")).unwrap_or_default();
            let reason = one_line(&reason, MAX_REASON_CHARS);
            return Err(ToolError::permanent(format!(
                "cannot_calculate: {expression:?}: {reason}{instead}"
            )));
        }
    };
    report(expression, &found)
}

/// Calculates on a thread with a sufficiently large stack.
fn calculated(expression: &str, bounds: &Bounds<'_>) -> Result<Result<String, String>, ToolError> {
    let calculate = || {
        let mut context = fend_core::Context::new();
        fend_core::evaluate_with_interrupt(expression, &mut context, bounds)
            .map(|found| found.get_main_result().to_owned())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let calculating = thread.spawn_scoped(scope, calculate).map_err(|error| {
            ToolError::temporary(format!(
                "cannot start a thread for the calculation: {error}"
            ))
        })?;
        Ok(calculating
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

fn report(expression: String, found: &str) -> Result<Calculated, ToolError> {
    let length = found.chars().count();
    if length > RESULT_MAX_CHARS {
        return Err(ToolError::permanent(format!(
            "too_long: the result has {length} characters, more than {RESULT_MAX_CHARS}; end the expression with \
             `to scientific` or `to 20 sf`"
        )));
    }
    let rounded = found.strip_prefix(ROUNDED);
    let result = rounded.unwrap_or(found).trim().to_owned();
    if result.is_empty() {
        return Err(ToolError::permanent(format!(
            "cannot_calculate: {expression:?} has no result"
        )));
    }
    let sign = if rounded.is_some() { "≈" } else { "=" };
    Ok(Calculated {
        summary: format!("{expression} {sign} {result}"),
        exact: rounded.is_none(),
        expression,
        result,
    })
}
