//! Checks a policy against the tools there are.

use neuraxis_core::{ToolName, ToolSpec};

use crate::config::Permission;
use crate::error::PolicyError;
use crate::names;
use crate::policy::Policy;
use crate::rules::{Arguments, COMMANDS, CommandPattern, ToolPatterns};

/// The most tools that a message lists.
const MAX_KNOWN: usize = 20;

impl Policy {
    /// Finds the patterns of this policy that name none of the given tools, most often because of a slip of the pen. What
    /// the built-in policy itself says is left out: it names tools that not every installation has.
    #[must_use]
    pub fn unknown_tools(&self, tools: &[ToolName]) -> Vec<PolicyError> {
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
            if tools.iter().any(|tool| checked.matches(tool)) {
                continue;
            }
            let nearest = names::nearest(pattern, tools.iter().map(ToolName::as_str));
            found.push(PolicyError::UnknownTool {
                at,
                pattern: names::shown(pattern),
                nearest: nearest.map(str::to_owned),
                known: tools
                    .iter()
                    .take(MAX_KNOWN)
                    .map(ToString::to_string)
                    .collect(),
            });
        }
        found
    }

    /// Finds the rules about commands that can never match, because none of the given tools that they name takes a command. A
    /// tool that does not say what it takes may take one. Such a rule that denies would deny nothing.
    #[must_use]
    pub fn rules_without_command(&self, tools: &[ToolSpec]) -> Vec<PolicyError> {
        let mut found = Vec::new();
        for (name, rule) in &self.config.rules {
            let (Some(_), Some(patterns)) = (&rule.commands, &rule.tools) else {
                continue;
            };
            let at = format!("rules.{name}.commands");
            let Ok(patterns) = ToolPatterns::check(&at, patterns) else {
                continue;
            };
            let mut named = tools
                .iter()
                .filter(|tool| patterns.matches(&tool.name))
                .peekable();
            let usual = || COMMANDS.map(str::to_owned).to_vec();
            let arguments = rule.arguments.clone().unwrap_or_else(usual);
            if named.peek().is_some() && named.all(|tool| !may_take(tool, &arguments)) {
                found.push(PolicyError::NoCommand { at, arguments });
            }
        }
        found
    }

    /// Says of the rules that allow commands what their author should know: which patterns allow programs that write or read
    /// elsewhere or run others. The key it is about comes first.
    #[must_use]
    pub fn cautions(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let rules = self.config.rules.iter();
        for (name, rule) in rules.filter(|(_, rule)| rule.answer == Some(Permission::Allow)) {
            for pattern in rule.commands.iter().flatten() {
                let Ok(checked) = CommandPattern::parse(pattern) else {
                    continue;
                };
                if let Some(caution) = checked.caution() {
                    let text = format!("\"{}\": {caution}", names::shown(pattern));
                    found.push((format!("rules.{name}.commands"), text));
                }
            }
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
        for (name, agent) in &self.config.agents {
            lists.push((format!("agents.{name}.tools"), agent.tools.as_ref()));
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

/// Tells whether a tool may take one of the given arguments, as far as its schema says.
fn may_take(tool: &ToolSpec, arguments: &[String]) -> bool {
    let schema = Arguments::read(&tool.parameters);
    !schema.has_any(&["properties"]) || schema.has_any(arguments)
}
