//! Budgets of several runs: what is left of them, and what that leaves for one run.

use std::time::Duration;

use neuraxis_core::{BudgetMeasure, BudgetScope, Limits, MicroUsd, PlanName, SpentBudget};

use crate::config::{BudgetConfig, PartialLimits};
use crate::error::PolicyError;
use crate::policy::Policy;
use crate::rules::{is_zero, no_zero};

/// The usage of one or more runs, in all measures that budgets limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Tokens of all model calls.
    pub tokens: u64,
    /// Money, in millionths of a US dollar.
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

/// The amounts that may be used; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Budget {
    tokens: Option<u64>,
    cost: Option<MicroUsd>,
    time: Option<Duration>,
    tool_calls: Option<u32>,
}

impl Budget {
    pub(crate) fn check(at: &str, config: &BudgetConfig) -> Result<Self, PolicyError> {
        let no_money = config.max_cost_micro_usd == Some(MicroUsd(0));
        no_zero(
            at,
            &[
                ("max_tokens", config.max_tokens == Some(0), "1"),
                ("max_cost_micro_usd", no_money, "1"),
                ("max_time", config.max_time.is_some_and(is_zero), "1ms"),
                ("max_tool_calls", config.max_tool_calls == Some(0), "1"),
            ],
        )?;
        Ok(Self {
            tokens: config.max_tokens,
            cost: config.max_cost_micro_usd,
            time: config.max_time,
            tool_calls: config.max_tool_calls,
        })
    }

    /// Returns what is left, at least zero.
    pub(crate) fn left(self, spent: Spent) -> Self {
        Self {
            tokens: self.tokens.map(|most| most.saturating_sub(spent.tokens)),
            cost: self
                .cost
                .map(|most| MicroUsd(most.0.saturating_sub(spent.cost.0))),
            time: self.time.map(|most| most.saturating_sub(spent.time)),
            tool_calls: self
                .tool_calls
                .map(|most| most.saturating_sub(spent.tool_calls)),
        }
    }

    /// Returns the first measure that is used up. A run can answer without tool calls, but no budget starts at zero, so
    /// a scope without tool calls left has already used some, and ends here.
    pub(crate) fn exhausted(self) -> Option<BudgetMeasure> {
        if self.tokens == Some(0) {
            Some(BudgetMeasure::Tokens)
        } else if self.cost == Some(MicroUsd(0)) {
            Some(BudgetMeasure::Cost)
        } else if self.time.is_some_and(is_zero) {
            Some(BudgetMeasure::Time)
        } else if self.tool_calls == Some(0) {
            Some(BudgetMeasure::ToolCalls)
        } else {
            None
        }
    }

    pub(crate) const fn as_limits(self) -> PartialLimits {
        PartialLimits {
            max_turns: None,
            max_tool_calls: self.tool_calls,
            max_tokens: self.tokens,
            max_cost: self.cost,
            deadline: self.time,
            tool_timeout: None,
            max_agents: None,
            max_agent_depth: None,
        }
    }
}

impl Policy {
    /// Returns whether a plan limits what all runs of a session, or of a day, may use. Only then does this policy need
    /// to know what they have used so far.
    #[must_use]
    pub fn has_budget(&self, plan: &PlanName, scope: BudgetScope) -> bool {
        let Some(plan) = self.plans.get(plan) else {
            return false;
        };
        match scope {
            BudgetScope::Run => false,
            BudgetScope::Session => plan.session != Budget::default(),
            BudgetScope::Day => plan.day != Budget::default(),
        }
    }

    /// Returns what a run may use in total under a plan, after all runs of its owner have used `day` and the run itself
    /// has used `own` since it started. The result never exceeds `limits`.
    #[must_use]
    pub fn within_day(&self, plan: &PlanName, limits: Limits, day: Spent, own: Spent) -> Limits {
        let Some(plan) = self.plans.get(plan) else {
            return limits;
        };
        let left = plan.day.left(day);
        let cost = left.cost.map(|left| left.0.saturating_add(own.cost.0));
        limits.tightest(Limits {
            max_tokens: left.tokens.map(|left| left.saturating_add(own.tokens)),
            max_cost: cost.map(MicroUsd),
            deadline: left.time.map(|left| left.saturating_add(own.time)),
            max_tool_calls: left
                .tool_calls
                .map(|left| left.saturating_add(own.tool_calls)),
            ..limits
        })
    }
}

/// Builds the message to the user that a budget is used up.
pub(crate) fn spent(scope: BudgetScope, measure: BudgetMeasure) -> SpentBudget {
    let what = match measure {
        BudgetMeasure::Tokens => "tokens",
        BudgetMeasure::Cost => "money",
        BudgetMeasure::Time => "time",
        BudgetMeasure::ToolCalls => "tool calls",
    };
    let (whose, next) = match scope {
        BudgetScope::Day => ("today's budget", "Please come back after midnight UTC"),
        BudgetScope::Session => ("this session's budget", "Please start a new session"),
        BudgetScope::Run => (
            "this request's budget",
            "Please ask for less in one request",
        ),
    };
    SpentBudget {
        scope,
        measure,
        reply: format!(
            "This request cannot be handled because {whose} of {what} is used up. {next}, or ask for a larger budget."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remaining_budget_never_drops_below_zero() {
        let budget = Budget {
            tokens: Some(10),
            tool_calls: Some(2),
            ..Budget::default()
        };
        let left = budget.left(Spent {
            tokens: u64::MAX,
            tool_calls: 1,
            ..Spent::NONE
        });
        assert_eq!(
            (left.tokens, left.tool_calls, left.cost),
            (Some(0), Some(1), None)
        );
        assert_eq!(left.exhausted(), Some(BudgetMeasure::Tokens));
        assert_eq!(Budget::default().exhausted(), None);
    }
}
