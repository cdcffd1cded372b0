//! Checks the limits that a section sets.

use std::time::Duration;

use neuraxis_core::MicroUsd;

use crate::config::PartialLimits;
use crate::error::PolicyError;

/// Refuses zeros, and cuts times to whole milliseconds, which is what a record keeps.
pub(crate) fn check(at: &str, limits: PartialLimits) -> Result<PartialLimits, PolicyError> {
    let zeros = [
        ("max_turns", limits.max_turns == Some(0), "1"),
        ("max_tool_calls", limits.max_tool_calls == Some(0), "1"),
        ("max_tokens", limits.max_tokens == Some(0), "1"),
        (
            "max_cost_micro_usd",
            limits.max_cost == Some(MicroUsd(0)),
            "1",
        ),
        ("deadline", limits.deadline.is_some_and(is_zero), "1ms"),
        (
            "tool_timeout",
            limits.tool_timeout.is_some_and(is_zero),
            "1ms",
        ),
    ];
    if let Some((key, _, least)) = zeros.into_iter().find(|(_, zero, _)| *zero) {
        return Err(PolicyError::LimitTooSmall {
            at: format!("{at}.{key}"),
            least,
        });
    }
    Ok(PartialLimits {
        deadline: limits.deadline.map(whole_millis),
        tool_timeout: limits.tool_timeout.map(whole_millis),
        ..limits
    })
}

fn is_zero(time: Duration) -> bool {
    time.as_millis() == 0
}

fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
