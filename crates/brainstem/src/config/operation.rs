//! `[plans.NAME]`, `[health]`, `[taint]`, `[trust.NAME]` and `[prices.NAME]`: the parts of governance other than modes,
//! channels and rules.

use std::time::Duration;

use neuraxis_core::{BudgetMeasure, Limits, MicroUsd, ToolClass};
use serde::{Deserialize, Serialize};

use super::section::{section, section_with_limits};

section_with_limits! {
    /// `[plans.NAME]`: limits of a key or a user. They can only tighten those of mode and channel.
    pub struct PlanConfig {
        /// What all runs of a session together may use.
        pub session: BudgetConfig,
        /// What all runs of one day together may use.
        pub day: BudgetConfig,
    }
}

section! {
    /// `[plans.NAME.session]` and `[plans.NAME.day]`: what several runs together may use.
    pub struct BudgetConfig {
        /// Tokens of all model calls.
        pub max_tokens: Option<u64>,
        /// Money, in millionths of a US dollar.
        pub max_cost_micro_usd: Option<MicroUsd>,
        /// Active time, such as `"2h"`.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub max_time: Option<Duration>,
        /// Tool calls, including those of sub-agents.
        pub max_tool_calls: Option<u32>,
    }
}

impl BudgetConfig {
    /// Returns the budget as the limits of one run that may use all of it. What budgets do not measure is not limited.
    pub(crate) fn limits(&self) -> Limits {
        let &Self {
            max_tokens,
            max_cost_micro_usd: max_cost,
            max_time: deadline,
            max_tool_calls,
        } = self;
        Limits {
            max_tokens,
            max_cost,
            deadline,
            max_tool_calls,
            ..Limits::NONE
        }
    }

    /// Returns the key that limits a measure, and the smallest value that it may have.
    pub(crate) const fn key(measure: BudgetMeasure) -> (&'static str, &'static str) {
        match measure {
            BudgetMeasure::Tokens => ("max_tokens", "1"),
            BudgetMeasure::Cost => ("max_cost_micro_usd", "1"),
            BudgetMeasure::Time => ("max_time", "1ms"),
            BudgetMeasure::ToolCalls => ("max_tool_calls", "1"),
        }
    }
}

section! {
    /// `[health]`: when a model is considered failing, and for how long.
    pub struct HealthConfig {
        /// The number of timeouts, server errors or broken connections within `window` that degrade a role. Defaults to
        /// 3.
        pub failures: Option<u32>,
        /// The time within which they must occur, not counting the calls' own duration. Defaults to `"2m"`.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub window: Option<Duration>,
        /// How long a role is degraded the first time. Defaults to `"30s"`, and doubles each time after that.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub degraded_for: Option<Duration>,
        /// The longest that a role is degraded before the next attempt. Defaults to `"10m"`.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub degraded_at_most: Option<Duration>,
    }
}

section! {
    /// `[taint]`: which tools return untrusted content, in addition to those that reach outside this machine.
    pub struct TaintConfig {
        /// Name patterns of the tools.
        pub tools: Option<Vec<String>>,
    }
}

section! {
    /// `[trust.NAME]`: what is believed about tools of third-party servers. A server's own claims never loosen
    /// anything.
    pub struct TrustConfig {
        /// Name patterns of the tools. Required.
        pub tools: Option<Vec<String>>,
        /// What they may change. By default, anything, permanently.
        pub class: Option<ToolClass>,
        /// Whether they reach outside this machine. Defaults to `true`.
        pub open_world: Option<bool>,
        /// Whether they may destroy something. Defaults to `true`, unless `class` is `read_only`.
        pub destructive: Option<bool>,
    }
}

section! {
    /// `[prices."PROVIDER/MODEL"]`: what a model costs, in US dollars per million tokens. `"PROVIDER/*"` stands for the
    /// provider's other models.
    pub struct PriceConfig {
        /// Prompt tokens. Required.
        pub prompt: Option<f64>,
        /// Prompt tokens read from the provider's cache. Defaults to `prompt`.
        pub cached: Option<f64>,
        /// Prompt tokens that the provider writes to its cache. Defaults to `prompt`.
        pub cache_written: Option<f64>,
        /// Reply tokens. Required.
        pub completion: Option<f64>,
        /// Reply tokens that are reasoning. Defaults to `completion`.
        pub reasoning: Option<f64>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_measure_limits_that_measure_and_no_other() {
        for measure in BudgetMeasure::ALL {
            let (key, least) = BudgetConfig::key(measure);
            let quote = if least.ends_with("ms") { "'" } else { "" };
            let text = format!("{key} = {quote}{least}{quote}");
            let limits = toml::from_str::<BudgetConfig>(&text).unwrap().limits();
            for other in BudgetMeasure::ALL {
                let expected = (other == measure).then_some(1);
                assert_eq!(limits.most(other), expected, "{text}: {other:?}");
            }
        }
    }
}
