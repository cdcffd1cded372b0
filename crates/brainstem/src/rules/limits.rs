//! Checks the limits and other numbers that a section sets.

use std::time::Duration;

use neuraxis_core::{Limits, MicroUsd};

use crate::config::{BudgetConfig, PartialLimits};
use crate::error::PolicyError;

/// The largest value that a mode or an agent may set: a tool that failed this often must be examined, not called again.
const MAX_TOOL_RETRIES: u32 = 3;

/// Refuses zeros, and truncates times to whole milliseconds, the precision of records.
pub(crate) fn check(at: &str, limits: PartialLimits) -> Result<PartialLimits, PolicyError> {
    let PartialLimits {
        max_turns,
        max_tool_calls,
        max_tokens,
        max_cost,
        deadline,
        tool_timeout,
        // Zero allows no agents, which is a limit like any other.
        max_agents: _,
        max_agent_depth: _,
    } = limits;
    no_zero(
        at,
        &[
            ("max_turns", max_turns == Some(0), "1"),
            ("max_tool_calls", max_tool_calls == Some(0), "1"),
            ("max_tokens", max_tokens == Some(0), "1"),
            ("max_cost_micro_usd", max_cost == Some(MicroUsd(0)), "1"),
            ("deadline", deadline.is_some_and(is_zero), "1ms"),
            ("tool_timeout", tool_timeout.is_some_and(is_zero), "1ms"),
        ],
    )?;
    Ok(PartialLimits {
        deadline: deadline.map(whole_millis),
        tool_timeout: tool_timeout.map(whole_millis),
        ..limits
    })
}

/// Refuses a budget that is used up from the start.
pub(crate) fn check_budget(at: &str, config: &BudgetConfig) -> Result<Limits, PolicyError> {
    let budget = config.limits();
    let Some(measure) = budget.exhausted() else {
        return Ok(budget);
    };
    let (key, least) = BudgetConfig::key(measure);
    Err(PolicyError::LimitTooSmall {
        at: format!("{at}.{key}"),
        least,
    })
}

/// Refuses the first key that is zero. Each key comes with whether it is zero, and its smallest allowed value.
pub(crate) fn no_zero(at: &str, keys: &[(&str, bool, &'static str)]) -> Result<(), PolicyError> {
    match keys.iter().find(|(_, is_zero, _)| *is_zero) {
        Some(&(key, _, least)) => Err(PolicyError::LimitTooSmall {
            at: format!("{at}.{key}"),
            least,
        }),
        None => Ok(()),
    }
}

/// Returns whether a time is zero after truncation to whole milliseconds.
pub(super) fn is_zero(time: Duration) -> bool {
    time.as_millis() == 0
}

/// Refuses a temperature that no model accepts.
pub(super) fn check_temperature(at: &str, given: Option<f32>) -> Result<(), PolicyError> {
    match given.filter(|given| !(0.0..=2.0).contains(given)) {
        Some(given) => Err(PolicyError::TemperatureOutOfRange {
            at: format!("{at}.temperature"),
            given,
        }),
        None => Ok(()),
    }
}

/// Refuses too many retries of a failed call.
pub(super) fn check_tool_retries(at: &str, given: Option<u32>) -> Result<(), PolicyError> {
    match given {
        Some(given) if given > MAX_TOOL_RETRIES => Err(PolicyError::TooManyRetries {
            at: format!("{at}.tool_retries"),
            most: MAX_TOOL_RETRIES,
        }),
        _ => Ok(()),
    }
}

fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
