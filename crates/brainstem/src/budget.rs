//! Budgets of several runs: what is left of them, and what that leaves for one run.

use neuraxis_core::{BudgetMeasure, BudgetScope, Limits, PlanName, Spent, SpentBudget};

use crate::policy::Policy;

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
            BudgetScope::Session => plan.session != Limits::NONE,
            BudgetScope::Day => plan.day != Limits::NONE,
        }
    }

    /// Returns what a run may use in total under a plan, after all runs of its owner have used `day` and the run itself
    /// has used `own` since it started. The result never exceeds `limits`.
    #[must_use]
    pub fn within_day(&self, plan: &PlanName, limits: Limits, day: Spent, own: Spent) -> Limits {
        let Some(plan) = self.plans.get(plan) else {
            return limits;
        };
        limits.tightest(Limits {
            // A budget says nothing about the time of one call.
            tool_timeout: limits.tool_timeout,
            ..plan.day.left(day).raised_by(own)
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
