//! Limits on a run: turns, calls, tokens, money and time. A run that reaches a limit still ends with an answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;

/// A millionth of a US dollar.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// Returns the exact amount in US dollars, as a decimal number with six places and no sign: `1.500000`.
    #[must_use]
    pub fn dollars(self) -> String {
        format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// What an agent may use. `None` means that the agent has no such limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limits {
    /// Maximum number of turns before the last answer is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Maximum number of tool calls, including those of sub-agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// Maximum number of tokens across all model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Maximum amount of money.
    #[serde(
        default,
        rename = "max_cost_micro_usd",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_cost: Option<MicroUsd>,
    /// Maximum active time of the whole run; waiting for a user does not count.
    #[serde(
        default,
        rename = "deadline_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub deadline: Option<Duration>,
    /// Time limit of one tool call, for tools that set none.
    #[serde(
        default = "Limits::default_tool_timeout",
        rename = "tool_timeout_ms",
        with = "duration::millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub tool_timeout: Duration,
    /// Upper bound on the time of one tool call, even if the tool sets more: the shorter one applies.
    #[serde(
        default,
        rename = "max_tool_timeout_ms",
        skip_serializing_if = "Option::is_none",
        with = "duration::optional_millis"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub max_tool_timeout: Option<Duration>,
}

impl Limits {
    /// The maximum number of model calls of a run, as a multiple of its turn limit, even if few of the turns count
    /// (loop rule 7).
    pub const MODEL_CALLS_PER_TURN: u32 = 3;

    /// No limits except the time limit of one tool call.
    pub const NONE: Self = Self {
        max_turns: None,
        max_tool_calls: None,
        max_tokens: None,
        max_cost: None,
        deadline: None,
        tool_timeout: Self::default_tool_timeout(),
        max_tool_timeout: None,
    };

    const fn default_tool_timeout() -> Duration {
        Duration::from_secs(30)
    }

    /// Returns the tighter of the two, limit by limit.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            max_turns: tighter(self.max_turns, other.max_turns),
            max_tool_calls: tighter(self.max_tool_calls, other.max_tool_calls),
            max_tokens: tighter(self.max_tokens, other.max_tokens),
            max_cost: tighter(self.max_cost, other.max_cost),
            deadline: tighter(self.deadline, other.deadline),
            tool_timeout: self.tool_timeout.min(other.tool_timeout),
            max_tool_timeout: tighter(self.max_tool_timeout, other.max_tool_timeout),
        }
    }

    /// Returns the time limit of a call, given the tool's own limit if it sets one.
    #[must_use]
    pub fn time_of_call(&self, of_tool: Option<Duration>) -> Duration {
        let time = of_tool.unwrap_or(self.tool_timeout);
        self.max_tool_timeout.map_or(time, |most| time.min(most))
    }

    /// Returns how much of a time limit is reserved for one last answer: a fifth, at most 20 seconds.
    pub(crate) fn answer_reserve_of(time: Duration) -> Duration {
        (time / 5).min(Duration::from_secs(20))
    }
}

/// How many sub-agents a run may have. These bound the agent tree itself, in addition to what its agents may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentLimits {
    /// Maximum depth: 1 for sub-agents that start none themselves.
    pub depth: u32,
    /// Maximum number in total over the whole run.
    pub total: u32,
}

impl Default for AgentLimits {
    /// Two deep, 64 in all.
    fn default() -> Self {
        Self {
            depth: 2,
            total: 64,
        }
    }
}

impl AgentLimits {
    /// Returns the smaller total and the smaller depth of both.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            depth: self.depth.min(other.depth),
            total: self.total.min(other.total),
        }
    }
}

impl Default for Limits {
    /// The loop's own defaults (loop rule 1): 10 turns, 30 seconds per tool call.
    fn default() -> Self {
        Self {
            max_turns: Some(10),
            ..Self::NONE
        }
    }
}

fn tighter<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_timeout_may_exceed_the_default_but_not_the_maximum() {
        let minute = Duration::from_secs(60);
        let (second, default) = (Duration::from_secs(1), Duration::from_secs(30));
        assert_eq!(Limits::NONE.time_of_call(None), default);
        assert_eq!(Limits::NONE.time_of_call(Some(minute)), minute);
        let bound = Limits {
            max_tool_timeout: Some(second),
            ..Limits::NONE
        };
        assert_eq!(bound.time_of_call(None), second);
        assert_eq!(bound.time_of_call(Some(minute)), second);
        let both = bound.tightest(Limits::NONE);
        assert_eq!(both.max_tool_timeout, Some(second));
    }

    #[test]
    fn the_tighter_limit_wins_over_a_looser_or_missing_one() {
        let one = Limits {
            max_turns: Some(3),
            deadline: Some(Duration::from_secs(9)),
            ..Limits::NONE
        };
        let other = Limits {
            max_turns: Some(5),
            max_tool_calls: Some(7),
            ..Limits::NONE
        };
        let both = one.tightest(other);
        assert_eq!((both.max_turns, both.max_tool_calls), (Some(3), Some(7)));
        assert_eq!(both.deadline, Some(Duration::from_secs(9)));
    }
}
