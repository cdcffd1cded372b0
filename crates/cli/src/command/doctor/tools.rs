//! Can every tool be run by some request?

use neuraxis::engine::{Approving, tool_warnings};
use neuraxis_app::{Config, Environment, tool_specs};

use super::check::{Check, Outcome};
use super::surroundings::SUBJECT;

/// Warns of tools that no request gets to run; says nothing where there is none. At a terminal somebody approves.
pub(super) fn check(config: &Config, environment: &Environment) -> Vec<Check> {
    // What is wrong with their folder is a check of its own.
    let Ok(tools) = tool_specs(config, environment) else {
        return Vec::new();
    };
    let warnings = tool_warnings(config.policy(), &tools, Approving::Somebody).into_iter();
    let checks = warnings.map(|warning| {
        Check::new(SUBJECT, "tools", Outcome::Warning, warning.to_string())
            .fix("`neuraxis policy explain --tool NAME` says what becomes of a call")
    });
    checks.collect()
}
