//! Warnings for the author of a policy about rules that are valid, but may not mean what they seem to.

use neuraxis_core::ToolSpec;

use crate::config::{Permission, RuleConfig};
use crate::names;
use crate::policy::Policy;
use crate::rules::{Arguments, COMMANDS, CommandPattern, GLOBS, Names, ToolAnswers, ToolPatterns};

impl Policy {
    /// Returns warnings about rules for commands: patterns that allow programs which write or read elsewhere or run
    /// others, and patterns with a word that is only a word if quoted. Each warning is a pair of the key that it is
    /// about and the text. A warning about several patterns is given once: it covers all patterns of one rule, and
    /// later rules refer to the key where it was given.
    #[must_use]
    pub fn cautions(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut seen: Vec<(String, String)> = Vec::new();
        for (name, rule) in &self.config.rules {
            let key = format!("rules.{name}.commands");
            let allows = rule.answer == Some(Permission::Allow);
            for (caution, patterns) in cautions_about(rule.commands.iter().flatten(), allows) {
                let patterns = patterns.join(", ");
                let before = seen.iter().find(|(known, _)| *known == caution);
                let text = match before {
                    Some((_, before)) => format!("{patterns}: same as for {before}"),
                    None => format!("{patterns}: {caution}"),
                };
                if before.is_none() {
                    seen.push((caution, key.clone()));
                }
                found.push((key.clone(), text));
            }
        }
        found
    }

    /// Returns warnings about rules for the given tools: rules about paths or hosts that see less of a tool than they
    /// seem to, and rules that allow what their modes deny. Each warning is a pair of the key that it is about and the
    /// text.
    #[must_use]
    pub fn cautions_about_tools(&self, tools: &[ToolSpec]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (name, rule) in &self.config.rules {
            let at = format!("rules.{name}");
            let Some(patterns) = &rule.tools else {
                continue;
            };
            let Ok(patterns) = ToolPatterns::check(&at, patterns) else {
                continue;
            };
            let named = tools.iter().filter(|tool| patterns.matches(&tool.name));
            let named: Vec<&ToolSpec> = named.collect();
            let cautions = match rule.answer {
                Some(Permission::Allow) if self.is_dead(rule, &named) => {
                    let why = "these modes deny the tools, which no rule can override: the rule allows nothing";
                    vec![("modes", why.to_owned())]
                }
                Some(Permission::Allow) => Vec::new(),
                _ => seen_in_part(rule, &named),
            };
            found.extend(
                cautions
                    .into_iter()
                    .map(|(key, text)| (format!("{at}.{key}"), text)),
            );
        }
        found
    }

    /// Returns whether a rule applies only in modes that deny all of the given tools.
    fn is_dead(&self, rule: &RuleConfig, named: &[&ToolSpec]) -> bool {
        let modes = rule.modes.iter().flatten();
        let modes: Vec<_> = modes.filter_map(|mode| self.modes.get(mode)).collect();
        let denies = |answers: &ToolAnswers| {
            let mut answered = named.iter().map(|tool| answers.answer(tool));
            answered.all(|answer| answer == Permission::Deny)
        };
        !named.is_empty() && !modes.is_empty() && modes.iter().all(|mode| denies(&mode.tools))
    }
}

/// Returns a warning for each tool of which a rule that asks or denies sees only part of what it reads or reaches.
fn seen_in_part(rule: &RuleConfig, named: &[&ToolSpec]) -> Vec<(&'static str, String)> {
    let that_take = |names: &[&str]| {
        let takes = |tool: &&&ToolSpec| names_argument(tool, names);
        let these: Vec<_> = named.iter().filter(takes).map(|it| &it.name).collect();
        (!these.is_empty()).then(|| names::Listed(&these).to_string())
    };
    let mut found = Vec::new();
    if rule.paths.is_some()
        && let Some(read) = that_take(&GLOBS)
    {
        let text = format!(
            "{read}: the rule sees only the file or folder that a call names; a call that names a parent folder, or no \
             path, still reads what is in it"
        );
        found.push(("paths", text));
    }
    for (key, is_given, what) in [
        (
            "paths",
            rule.paths.is_some(),
            "files a command reads and writes",
        ),
        ("hosts", rule.hosts.is_some(), "hosts a command reaches"),
    ] {
        if is_given
            && rule.commands.is_none()
            && rule.arguments.is_none()
            && let Some(run) = that_take(&COMMANDS)
        {
            let text = format!(
                "{run}: the rule does not see which {what}; use `commands` to match what runs"
            );
            found.push((key, text));
        }
    }
    found
}

/// Returns whether the schema of a tool names one of the given arguments.
fn names_argument(tool: &ToolSpec, names: &[&str]) -> bool {
    Arguments::read(&tool.parameters).has_any(Names::Usual(names))
}

/// Returns warnings for the author of a rule about commands with these patterns, each with the quoted patterns that it
/// is about.
fn cautions_about<'a>(
    patterns: impl Iterator<Item = &'a String>,
    allows: bool,
) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for pattern in patterns {
        let Ok(checked) = CommandPattern::parse(pattern) else {
            continue;
        };
        let of_allowing = allows.then(|| checked.caution()).flatten();
        let cautions = checked.caution_about_quotes().into_iter();
        for caution in cautions.chain(of_allowing) {
            let quoted = format!("\"{}\"", names::shown(pattern));
            match found.iter_mut().find(|(known, _)| *known == caution) {
                Some((_, about)) => about.push(quoted),
                None => found.push((caution, vec![quoted])),
            }
        }
    }
    found
}
