//! Checks a policy against the tools there are.

use neuraxis_core::{ToolName, ToolSpec};

use crate::error::PolicyError;
use crate::names;
use crate::policy::Policy;
use crate::rules::ToolPatterns;

/// The most tools that a message lists.
const MAX_KNOWN: usize = 20;

impl Policy {
    /// Finds the patterns of this policy that name none of the given tools, most often because of a slip of the pen. What
    /// the built-in policy itself says is left out: it names tools that not every installation has.
    #[must_use]
    pub fn unknown_tools(&self, tools: &[ToolSpec]) -> Vec<PolicyError> {
        let built_in = Self::built_in();
        let above = built_in.tool_patterns();
        let mut found = Vec::new();
        for (at, pattern) in self.tool_patterns() {
            if above.contains(&(at.clone(), pattern)) {
                continue;
            }
            let list = [pattern.clone()];
            let Ok(checked) = ToolPatterns::check(&at, &list) else {
                continue;
            };
            if tools.iter().any(|tool| checked.matches(&tool.name)) {
                continue;
            }
            let known = || tools.iter().map(|tool| &tool.name);
            let nearest = names::nearest(pattern, known().map(ToolName::as_str));
            found.push(PolicyError::UnknownTool {
                at,
                pattern: names::shown(pattern),
                nearest: nearest.map(str::to_owned),
                known: known().take(MAX_KNOWN).map(ToString::to_string).collect(),
            });
        }
        found
    }

    /// Returns all patterns of tool names, with the keys they stand under.
    fn tool_patterns(&self) -> Vec<(String, &String)> {
        let mut lists = Vec::new();
        for (name, channel) in &self.config.channels {
            lists.push((format!("channels.{name}.tools"), channel.tools.as_ref()));
            for (mode, exception) in &channel.when {
                lists.push((
                    format!("channels.{name}.when.{mode}.tools"),
                    exception.tools.as_ref(),
                ));
            }
        }
        for (name, rule) in &self.config.rules {
            lists.push((format!("rules.{name}.tools"), rule.tools.as_ref()));
        }
        for (name, trust) in &self.config.trust {
            lists.push((format!("trust.{name}.tools"), trust.tools.as_ref()));
        }
        lists.push(("taint.tools".to_owned(), self.config.taint.tools.as_ref()));
        let mut patterns = Vec::new();
        for (at, list) in lists {
            for pattern in list.into_iter().flatten() {
                patterns.push((at.clone(), pattern));
            }
        }
        patterns
    }
}
