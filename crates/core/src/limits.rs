//! Limits on a run: turns, calls, tokens, money and time. A run that reaches a limit still ends with an answer.
//!
//! What several runs can use up together is a [`BudgetMeasure`]; [`Limits`] and [`Spent`] have an amount for each. A run
//! that reached a limit reports a [`BudgetKind`](crate::BudgetKind), which has more cases: a run may end because of
//! repeated calls, but no session and no day has a budget of them. The two are separate types so that such a budget can
//! be neither configured nor recorded.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetMeasure {
    /// Tokens of model calls.
    Tokens,
    /// Money.
    Cost,
    /// Active time.
    Time,
    /// Tool calls.
    ToolCalls,
}

impl BudgetMeasure {
    /// All measures. If several are used up, the first of them is reported.
    pub const ALL: [Self; 4] = [Self::Tokens, Self::Cost, Self::Time, Self::ToolCalls];
}

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

/// What one or more runs used, in all measures that budgets limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Tokens of all model calls.
    pub tokens: u64,
    /// Money.
    pub cost: MicroUsd,
    /// Active time; waiting for a user does not count.
    pub time: Duration,
    /// Tool calls, including those of sub-agents.
    pub tool_calls: u32,
}

impl Spent {
    /// No usage: zero in every measure.
    pub const NONE: Self = Self {
        tokens: 0,
        cost: MicroUsd(0),
        time: Duration::ZERO,
        tool_calls: 0,
    };
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

    /// Returns the limit on a measure: in tokens, millionths of a US dollar, whole milliseconds, or calls.
    #[must_use]
    pub fn most(&self, measure: BudgetMeasure) -> Option<u64> {
        match measure {
            BudgetMeasure::Tokens => self.max_tokens,
            BudgetMeasure::Cost => self.max_cost.map(|most| most.0),
            BudgetMeasure::Time => self.deadline.map(duration::whole_millis),
            BudgetMeasure::ToolCalls => self.max_tool_calls.map(u64::from),
        }
    }

    /// Returns the first measure of which nothing may be used.
    #[must_use]
    pub fn exhausted(&self) -> Option<BudgetMeasure> {
        let mut measures = BudgetMeasure::ALL.into_iter();
        measures.find(|measure| self.most(*measure) == Some(0))
    }

    /// Returns what these limits leave after this usage, at least zero. Turns and the times of tool calls stay: no
    /// budget measures them.
    #[must_use]
    pub fn left(self, spent: Spent) -> Self {
        self.changed_by(
            spent,
            u64::saturating_sub,
            u32::saturating_sub,
            Duration::saturating_sub,
        )
    }

    /// Returns limits that are higher by this usage: the reverse of [`left`](Self::left).
    #[must_use]
    pub fn raised_by(self, spent: Spent) -> Self {
        self.changed_by(
            spent,
            u64::saturating_add,
            u32::saturating_add,
            Duration::saturating_add,
        )
    }

    /// Changes each limit on a measure by what was used of it. Usage and limits are destructured in full, so that a new
    /// limit does not compile until it is decided whether it is used up.
    fn changed_by(
        self,
        spent: Spent,
        amount: fn(u64, u64) -> u64,
        count: fn(u32, u32) -> u32,
        time: fn(Duration, Duration) -> Duration,
    ) -> Self {
        let Spent {
            tokens,
            cost,
            time: worked,
            tool_calls,
        } = spent;
        let Self {
            max_turns,
            max_tool_calls,
            max_tokens,
            max_cost,
            deadline,
            tool_timeout,
            max_tool_timeout,
        } = self;
        Self {
            max_turns,
            max_tool_calls: max_tool_calls.map(|most| count(most, tool_calls)),
            max_tokens: max_tokens.map(|most| amount(most, tokens)),
            max_cost: max_cost.map(|most| MicroUsd(amount(most.0, cost.0))),
            deadline: deadline.map(|most| time(most, worked)),
            tool_timeout,
            max_tool_timeout,
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
    fn every_measure_is_listed_in_its_order_and_can_be_limited() {
        let unknown = serde_json::from_str::<BudgetMeasure>("\"other\"").unwrap_err();
        let name = |measure| serde_json::to_string(&measure).unwrap().replace('"', "`");
        let listed = BudgetMeasure::ALL.map(name).join(", ");
        let expected = format!("unknown variant `other`, expected one of {listed} at ");
        assert!(unknown.to_string().starts_with(&expected), "{unknown}");
        assert!(BudgetMeasure::ALL.is_sorted());
        for measure in BudgetMeasure::ALL {
            assert_eq!(limited().most(measure), Some(10), "{measure:?}");
            assert_eq!(Limits::NONE.most(measure), None, "{measure:?}");
        }
    }

    /// Limits of 10 in the unit of each measure.
    fn limited() -> Limits {
        Limits {
            max_tool_calls: Some(10),
            max_tokens: Some(10),
            max_cost: Some(MicroUsd(10)),
            deadline: Some(Duration::from_millis(10)),
            ..Limits::default()
        }
    }

    #[test]
    fn usage_lowers_the_limit_on_every_measure_down_to_zero_and_no_other() {
        let spent = Spent {
            tokens: 3,
            cost: MicroUsd(3),
            time: Duration::from_millis(3),
            tool_calls: 3,
        };
        let left = limited().left(spent);
        let more = Spent {
            tokens: u64::MAX,
            cost: MicroUsd(u64::MAX),
            time: Duration::MAX,
            tool_calls: u32::MAX,
        };
        for measure in BudgetMeasure::ALL {
            assert_eq!(left.most(measure), Some(7), "{measure:?}");
            assert_eq!(limited().left(more).most(measure), Some(0), "{measure:?}");
        }
        assert_eq!(left.raised_by(spent), limited());
        assert_eq!(
            limited().raised_by(more).most(BudgetMeasure::Tokens),
            Some(u64::MAX)
        );
        let unlimited = Limits::default();
        assert_eq!(unlimited.left(more), unlimited);
        assert_eq!(unlimited.raised_by(more), unlimited);
    }

    #[test]
    fn the_first_measure_with_nothing_left_is_reported() {
        assert_eq!(Limits::NONE.exhausted(), None);
        assert_eq!(limited().exhausted(), None);
        let calls = limited().left(Spent {
            tool_calls: 11,
            ..Spent::NONE
        });
        assert_eq!(calls.exhausted(), Some(BudgetMeasure::ToolCalls));
        let both = calls.left(Spent {
            time: Duration::from_micros(9_500),
            ..Spent::NONE
        });
        assert_eq!(
            both.exhausted(),
            Some(BudgetMeasure::Time),
            "half a millisecond is none"
        );
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
