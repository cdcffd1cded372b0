//! Checks the limits and other numbers that a section sets.

use std::time::Duration;

use neuraxis_core::MicroUsd;

use crate::config::PartialLimits;
use crate::error::PolicyError;

/// The largest value that a mode or an agent may set: a tool that failed this often must be examined, not called again.
const MAX_TOOL_RETRIES: u32 = 3;

/// Refuses zeros, and truncates times to whole milliseconds, the precision of records.
pub(crate) fn check(at: &str, limits: PartialLimits) -> Result<PartialLimits, PolicyError> {
    let no_money = limits.max_cost == Some(MicroUsd(0));
    let no_time = limits.tool_timeout.is_some_and(is_zero);
    no_zero(
        at,
        &[
            ("max_turns", limits.max_turns == Some(0), "1"),
            ("max_tool_calls", limits.max_tool_calls == Some(0), "1"),
            ("max_tokens", limits.max_tokens == Some(0), "1"),
            ("max_cost_micro_usd", no_money, "1"),
            ("deadline", limits.deadline.is_some_and(is_zero), "1ms"),
            ("tool_timeout", no_time, "1ms"),
        ],
    )?;
    Ok(PartialLimits {
        deadline: limits.deadline.map(whole_millis),
        tool_timeout: limits.tool_timeout.map(whole_millis),
        ..limits
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
pub(crate) fn is_zero(time: Duration) -> bool {
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
