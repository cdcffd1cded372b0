//! `[plans.NAME]`: limits that a key or a user has.

use std::time::Duration;

use neuraxis_core::MicroUsd;
use serde::{Deserialize, Serialize};

use super::section::{section, section_with_limits};

section_with_limits! {
    /// `[plans.NAME]`: limits that a key or a user has. They can only tighten those of mode and channel.
    pub struct PlanConfig {
        /// What all runs of a session may use together.
        pub session: BudgetConfig,
        /// What all runs of one day may use together.
        pub day: BudgetConfig,
    }
}

section! {
    /// `[plans.NAME.session]` and `[plans.NAME.day]`: what several runs may use together.
    pub struct BudgetConfig {
        /// Tokens of all model calls.
        pub max_tokens: Option<u64>,
        /// Money, in millionths of a US dollar.
        pub max_cost_micro_usd: Option<MicroUsd>,
        /// Active time, such as `"2h"`.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        pub max_time: Option<Duration>,
        /// Tool calls.
        pub max_tool_calls: Option<u32>,
    }
}
