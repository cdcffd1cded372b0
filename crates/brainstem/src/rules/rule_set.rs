//! All rules of a policy, found by the name of the tool.

use std::collections::BTreeMap;

use globset::GlobSet;

use neuraxis_core::{Channel, Mode, ToolName, ToolSpec};

use super::patterns::{ToolPatterns, glob_set};
use super::rule::Rule;
use crate::error::PolicyError;

/// All rules of a policy.
#[derive(Debug, Clone)]
pub(crate) struct RuleSet {
    rules: Vec<Rule>,
    /// Each pattern once, even if several rules have it.
    patterns: GlobSet,
    /// For each pattern, the rules that have it.
    owners: Vec<Vec<usize>>,
}

impl RuleSet {
    /// Builds the set from rules with the patterns of their tools, which are already checked.
    pub(crate) fn new(rules: Vec<(Rule, Vec<String>)>) -> Result<Self, PolicyError> {
        let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut kept = Vec::with_capacity(rules.len());
        for (index, (rule, patterns)) in rules.into_iter().enumerate() {
            for pattern in patterns {
                owners.entry(pattern).or_default().push(index);
            }
            kept.push(rule);
        }
        let (patterns, owners): (Vec<String>, Vec<Vec<usize>>) = owners.into_iter().unzip();
        Ok(Self {
            rules: kept,
            patterns: glob_set("rules", &patterns, ToolPatterns::glob)?,
            owners,
        })
    }

    /// Returns the rules that match a tool's name and are about such a call, in the order in which they were given.
    pub(crate) fn about(&self, tool: &ToolSpec, mode: &Mode, channel: &Channel) -> Vec<&Rule> {
        let mut found = self.naming(&tool.name);
        found.retain(|rule| rule.is_about(tool, mode, channel));
        found
    }

    fn naming(&self, tool: &ToolName) -> Vec<&Rule> {
        let matching = self.patterns.matches(tool.as_str());
        let owners = matching
            .into_iter()
            .filter_map(|pattern| self.owners.get(pattern));
        let mut indices: Vec<usize> = owners.flatten().copied().collect();
        // Usually one pattern has them all, in order.
        if !indices.is_sorted() {
            indices.sort_unstable();
        }
        indices.dedup();
        indices
            .into_iter()
            .filter_map(|index| self.rules.get(index))
            .collect()
    }
}
