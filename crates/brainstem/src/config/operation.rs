//! `[plans.NAME]`, `[health]`, `[taint]`, `[trust.NAME]` and `[prices.NAME]`: what governance knows beside modes, channels
//! and rules.

use std::time::Duration;

use neuraxis_core::{MicroUsd, ToolClass};
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
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub max_time: Option<Duration>,
        /// Tool calls, those of sub-agents included.
        pub max_tool_calls: Option<u32>,
    }
}

section! {
    /// `[health]`: when a model counts as failing, and for how long.
    pub struct HealthConfig {
        /// How many timeouts, server errors or broken connections within `window` degrade a role; 3 if left out.
        pub failures: Option<u32>,
        /// How far apart they may be, not counting what the calls take themselves; `"2m"` if left out.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub window: Option<Duration>,
        /// How long a role is degraded the first time; `"30s"` if left out. Each time after that it is twice as long.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub degraded_for: Option<Duration>,
        /// The longest that a role is degraded at once; `"10m"` if left out.
        #[serde(with = "neuraxis_core::duration_text::optional")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
        pub degraded_at_most: Option<Duration>,
    }
}

section! {
    /// `[taint]`: which tools bring untrusted content, beside those that reach outside this machine.
    pub struct TaintConfig {
        /// Patterns of their names.
        pub tools: Option<Vec<String>>,
    }
}

section! {
    /// `[trust.NAME]`: what is believed of tools of other people's servers. Their own claims never loosen anything.
    pub struct TrustConfig {
        /// Patterns of the names of the tools. Has to be set.
        pub tools: Option<Vec<String>>,
        /// What they may change; everything for good if left out.
        pub class: Option<ToolClass>,
        /// Whether they reach outside this machine; they do if left out.
        pub open_world: Option<bool>,
        /// Whether they may destroy something; they may if left out, unless `class` is `read_only`.
        pub destructive: Option<bool>,
    }
}

section! {
    /// `[prices."PROVIDER/MODEL"]`: what a model costs, in US dollars per million tokens. `"PROVIDER/*"` stands for its
    /// other models.
    pub struct PriceConfig {
        /// For tokens of the prompt. Has to be set.
        pub prompt: Option<f64>,
        /// The part of it that comes from the provider's cache; as `prompt` if left out.
        pub cached: Option<f64>,
        /// The part of it that the provider writes to its cache; as `prompt` if left out.
        pub cache_written: Option<f64>,
        /// For tokens of the reply. Has to be set.
        pub completion: Option<f64>,
        /// The part of it that is reasoning; as `completion` if left out.
        pub reasoning: Option<f64>,
    }
}
