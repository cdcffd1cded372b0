//! Whether deleting sessions because of their age gives back what their runs used of a daily budget.
//!
//! The use of a day is computed from the stored runs, so what is deleted no longer counts.

use std::time::Duration;

use neuraxis::Policy;
use neuraxis::brainstem::BudgetConfig;

/// The period that daily budgets cover.
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Logs a warning if deletions give back what runs used.
pub(super) fn warn_of_refunds(keep: Duration, policy: &Policy) {
    if refunds_daily_budgets(keep, policy) {
        tracing::warn!(
            "[store] keep is shorter than a day, but plans have a daily budget: deleting expired sessions gives \
             back what their runs used"
        );
    }
}

/// Returns whether sessions can be deleted before the end of the day whose budget their runs used.
fn refunds_daily_budgets(keep: Duration, policy: &Policy) -> bool {
    let mut plans = policy.config().plans.values();
    keep < DAY && plans.any(|plan| plan.day != BudgetConfig::default())
}

#[cfg(test)]
mod tests {
    use neuraxis::PolicyConfig;

    use super::*;

    #[test]
    fn retention_of_less_than_a_day_refunds_daily_budgets() {
        let policy = |plan: &str| {
            let config = PolicyConfig::from_toml(&format!("[plans.small]\n{plan}\n"));
            Policy::layered(config.unwrap()).unwrap()
        };
        let of_day = policy("day = { max_tokens = 100 }");
        let of_session = policy("session = { max_tokens = 100 }");
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        assert!(refunds_daily_budgets(hours(23), &of_day));
        assert!(!refunds_daily_budgets(hours(24), &of_day));
        assert!(!refunds_daily_budgets(hours(23), &of_session));
    }
}
