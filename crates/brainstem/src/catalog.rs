//! Checks a policy against the available tools.

use std::collections::BTreeSet;

use neuraxis_core::{AgentName, ToolChoice, ToolName, ToolSpec};

use crate::config::{AgentConfig, OpeningConfig};
use crate::error::PolicyError;
use crate::names;
use crate::policy::Policy;
use crate::rules::{Arguments, COMMANDS, Names, ToolPatterns};

/// The maximum number of tools that a message lists.
const MAX_KNOWN: usize = 20;

impl Policy {
    /// Returns an error for each tool pattern or name of this policy that matches none of the given tools, most often
    /// because of a typo. The built-in policy's own patterns are skipped: it names tools that not every installation
    /// has.
    #[must_use]
    pub fn unknown_tools(&self, tools: &[ToolName]) -> Vec<PolicyError> {
        let built_in = Self::built_in();
        let above = built_in.tool_patterns();
        let own = self.tool_patterns().into_iter();
        let own = own.filter(|pattern| !above.contains(pattern));
        own.filter_map(|(at, pattern)| unknown_tool(at, pattern, tools))
            .collect()
    }

    /// Returns an error for each agent that could never be called, because its tool has the name of one of the given
    /// tools, none of which may start agents. Built-in agents give way silently.
    #[must_use]
    pub fn hidden_agents(&self, tools: &[ToolName]) -> Vec<PolicyError> {
        let built_in = Self::built_in();
        let called = self.agent_tools();
        let hidden = self.agents.iter().filter(|(name, rules)| {
            let ships = built_in.agents.get(*name);
            tools.contains(&rules.tool)
                && called.iter().any(|tool| tool.name == rules.tool)
                && ships.is_none_or(|shipped| shipped.tool != rules.tool)
        });
        let errors = hidden.map(|(name, rules)| {
            let key = match &self.config.agents.get(name).map(|it| &it.tool_name) {
                Some(Some(_)) => ".tool_name",
                _ => "",
            };
            PolicyError::TakenToolName {
                at: format!("agents.{name}{key}"),
                tool: rules.tool.to_string(),
            }
        });
        errors.collect()
    }

    /// Returns an error for each rule about commands that can never match, because none of the given tools that it
    /// names takes a command: such a rule that denies would deny nothing. A tool that does not list its arguments may
    /// take a command.
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
            let own = rule.arguments.as_deref();
            let names = own.map_or(Names::Usual(&COMMANDS), Names::These);
            if named.peek().is_some() && named.all(|tool| !may_accept(tool, names)) {
                let usual = || COMMANDS.map(str::to_owned).to_vec();
                let arguments = rule.arguments.clone().unwrap_or_else(usual);
                found.push(PolicyError::NoCommand { at, arguments });
            }
        }
        found
    }

    /// Returns an error for each rule about values that can never match, because none of its tools takes such an
    /// argument, most often because of a typo. Only rules that name all their tools in full are checked, and only tools
    /// that take no other arguments than those they list.
    #[must_use]
    pub fn rules_without_argument(&self, tools: &[ToolSpec]) -> Vec<PolicyError> {
        let mut found = Vec::new();
        for (name, rule) in &self.config.rules {
            let (Some(values), Some(patterns)) = (&rule.values, &rule.tools) else {
                continue;
            };
            // A tool that a pattern matches may be added later.
            let in_full = |pattern: &String| tools.iter().find(|it| it.name.as_str() == pattern);
            let named: Option<Vec<&ToolSpec>> = patterns.iter().map(in_full).collect();
            let Some(named) = named else { continue };
            let lacks = |argument: &String| {
                let argument = Names::These(std::slice::from_ref(argument));
                named
                    .iter()
                    .all(|tool| is_closed(tool) && !may_accept(tool, argument))
            };
            for argument in values.keys().filter(|argument| lacks(argument)) {
                found.push(PolicyError::NoArgument {
                    at: format!("rules.{name}.values"),
                    argument: names::shown(argument),
                });
            }
        }
        found
    }

    /// Returns an error for each path pattern that can never match: paths are relative to the root of the project, and
    /// no pattern matches a path outside it. A rule that denies would deny nothing.
    #[must_use]
    pub fn patterns_out_of_root(&self) -> Vec<PolicyError> {
        let mut found = Vec::new();
        for (name, rule) in &self.config.rules {
            for (key, patterns) in [("paths", &rule.paths), ("cwd", &rule.cwd)] {
                let patterns = patterns.iter().flatten();
                for pattern in patterns.filter(|pattern| matches_no_path(pattern)) {
                    found.push(PolicyError::OutOfRoot {
                        at: format!("rules.{name}.{key}"),
                        pattern: names::shown(pattern),
                    });
                }
            }
        }
        found
    }

    /// Returns all patterns of tool names, with their keys.
    fn tool_patterns(&self) -> Vec<(String, &str)> {
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
                patterns.push((at.clone(), pattern.as_str()));
            }
        }
        for (name, channel) in &self.config.channels {
            let gathers = channel.opening.as_ref().and_then(OpeningConfig::tool);
            let at = format!("channels.{name}.opening.gather.tool");
            patterns.extend(gathers.map(|tool| (at, tool.as_str())));
        }
        for (name, agent) in &self.config.agents {
            patterns.extend(agent.tool_patterns(name));
        }
        patterns
    }
}

impl AgentConfig {
    /// Returns an error for each pattern or name in this agent's settings that matches none of the given tools.
    #[must_use]
    pub fn unknown_tools(&self, name: &AgentName, tools: &[ToolName]) -> Vec<PolicyError> {
        let patterns = self.tool_patterns(name).into_iter();
        patterns
            .filter_map(|(at, pattern)| unknown_tool(at, pattern, tools))
            .collect()
    }

    /// Returns all patterns of tool names and all names of tools, with their keys.
    fn tool_patterns(&self, name: &AgentName) -> Vec<(String, &str)> {
        let at = format!("agents.{name}");
        let mut named = Vec::new();
        let patterns = self.tools.iter().flatten();
        named.extend(patterns.map(|pattern| (format!("{at}.tools"), pattern.as_str())));
        let stopping = self.stop_after.iter().flatten();
        named.extend(stopping.map(|tool| (format!("{at}.stop_after"), tool.as_str())));
        if let Some(ToolChoice::Named(tool)) = &self.tool_choice {
            named.push((format!("{at}.tool_choice.named"), tool.as_str()));
        }
        if let Some(tool) = self.opening.as_ref().and_then(OpeningConfig::tool) {
            named.push((format!("{at}.opening.gather.tool"), tool.as_str()));
        }
        for (of, rule) in &self.results {
            let at = format!("{at}.results.{of}");
            named.push((at.clone(), of.as_str()));
            if let Some(ToolChoice::Named(tool)) = &rule.then {
                named.push((format!("{at}.then.named"), tool.as_str()));
            }
        }
        named
    }
}

/// Returns an error if a pattern matches none of the given tools.
fn unknown_tool(at: String, pattern: &str, tools: &[ToolName]) -> Option<PolicyError> {
    let checked = ToolPatterns::check(&at, &[pattern.to_owned()]).ok()?;
    if tools.iter().any(|tool| checked.matches(tool)) {
        return None;
    }
    let nearest = names::nearest(pattern, tools.iter().map(ToolName::as_str));
    let known: BTreeSet<&ToolName> = tools.iter().collect();
    Some(PolicyError::UnknownTool {
        at,
        pattern: names::shown(pattern),
        nearest: nearest.map(str::to_owned),
        left_out: known.len().saturating_sub(MAX_KNOWN),
        known: known
            .iter()
            .take(MAX_KNOWN)
            .map(ToString::to_string)
            .collect(),
    })
}

/// Returns whether a pattern matches no normalized path.
fn matches_no_path(pattern: &str) -> bool {
    pattern.starts_with('/') || pattern.starts_with("./") || pattern.split('/').any(|it| it == "..")
}

/// Returns whether a tool takes only the arguments that its schema names, at any depth.
fn is_closed(tool: &ToolSpec) -> bool {
    let schema = Arguments::read(&tool.parameters);
    let others = schema.texts(Names::These(&["additionalProperties".to_owned()]));
    let kinds = schema.texts(Names::These(&["type".to_owned()])).found;
    let objects = kinds.iter().filter(|kind| **kind == "object").count();
    !others.is_unclear
        && others.found.len() >= objects.max(1)
        && others.found.iter().all(|allowed| *allowed == "false")
}

/// Returns whether a tool may take one of the given arguments, according to its schema.
fn may_accept(tool: &ToolSpec, arguments: Names<'_>) -> bool {
    let schema = Arguments::read(&tool.parameters);
    !schema.has_any(Names::These(&["properties".to_owned()])) || schema.has_any(arguments)
}
