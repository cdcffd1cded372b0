//! Checks a rule as it is written: its patterns, the names it uses, and whether it can ever apply.

use std::sync::Arc;

use globset::{Glob, GlobBuilder};
use neuraxis_core::RuleRef;

use super::command::CommandPattern;
use super::host::HostPattern;
use super::path::{folded, whole_folder};
use super::patterns::{ToolPatterns, glob_set};
use super::rule::{Condition, Rule};
use super::value::ValuePatterns;
use super::{KnownNames, check_examples};
use crate::config::{Permission, RuleConfig, SourceLine};
use crate::error::PolicyError;
use crate::names;

/// Checks a rule and its examples, and returns it with the patterns of its tools.
pub(crate) fn check_rule(
    name: &str,
    config: &RuleConfig,
    place: Option<&SourceLine>,
    known: &KnownNames,
) -> Result<(Rule, Vec<String>), PolicyError> {
    let at = format!("rules.{name}");
    let Some(answer) = config.answer else {
        return Err(missing(&at, "answer", "\"allow\", \"ask\" or \"deny\""));
    };
    let Some(tools) = config.tools.as_ref() else {
        return Err(missing(
            &at,
            "tools",
            "patterns of tool names; [\"*\"] matches all",
        ));
    };
    check_lists(&at, config)?;
    ToolPatterns::check(&format!("{at}.tools"), tools)?;
    for mode in config.modes.iter().flatten() {
        known.mode(&format!("{at}.modes"), mode)?;
    }
    for channel in config.channels.iter().flatten() {
        known.channel(&format!("{at}.channels"), channel)?;
    }
    let rule = Rule {
        at: RuleRef {
            name: name.into(),
            source: place.map_or_else(|| "policy".into(), |place| Arc::clone(&place.source)),
            line: place.map_or(0, |place| place.line),
        },
        answer,
        remember: config.remember,
        reason: config.reason.as_deref().map(Arc::from),
        class: config.class.clone(),
        destructive: config.destructive,
        open_world: config.open_world,
        modes: config.modes.clone(),
        channels: config.channels.clone(),
        access: config.access.clone().unwrap_or_default(),
        conditions: conditions(&at, answer, config)?,
    };
    check_examples(&at, config, &rule, tools)?;
    Ok((rule, tools.clone()))
}

fn missing(at: &str, key: &'static str, values: &'static str) -> PolicyError {
    PolicyError::IncompleteRule {
        at: format!("{at}.{key}"),
        values,
    }
}

/// Refuses empty lists, and keys that exclude each other.
fn check_lists(at: &str, config: &RuleConfig) -> Result<(), PolicyError> {
    let empty = |list: Option<usize>| list == Some(0);
    let lists = [
        ("tools", config.tools.as_ref().map(Vec::len)),
        ("class", config.class.as_ref().map(Vec::len)),
        ("modes", config.modes.as_ref().map(Vec::len)),
        ("channels", config.channels.as_ref().map(Vec::len)),
        ("owners", config.owners.as_ref().map(Vec::len)),
        ("paths", config.paths.as_ref().map(Vec::len)),
        ("hosts", config.hosts.as_ref().map(Vec::len)),
        ("commands", config.commands.as_ref().map(Vec::len)),
        ("cwd", config.cwd.as_ref().map(Vec::len)),
        ("access", config.access.as_ref().map(Vec::len)),
        ("arguments", config.arguments.as_ref().map(Vec::len)),
        (
            "values",
            config.values.as_ref().map(std::collections::BTreeMap::len),
        ),
    ];
    if let Some((key, _)) = lists.into_iter().find(|(_, length)| empty(*length)) {
        return Err(contradiction(
            at,
            key,
            "an empty list matches nothing; omit it",
        ));
    }
    let kinds = [
        config.paths.is_some() || config.outside_root.is_some(),
        config.hosts.is_some(),
        config.commands.is_some(),
    ];
    let kinds = kinds.into_iter().filter(|given| *given).count();
    if config.arguments.is_some() && kinds != 1 {
        let why = "exactly one of paths, outside_root, hosts and commands must be set, to say what the arguments hold";
        return Err(contradiction(at, "arguments", why));
    }
    if config.outside_root == Some(false) {
        let why = "omit it, and use paths to match paths inside the root";
        return Err(contradiction(at, "outside_root", why));
    }
    if config.outside_root.is_some() && config.answer == Some(Permission::Allow) {
        let why = "no rule may allow paths outside the root";
        return Err(contradiction(at, "outside_root", why));
    }
    if config.outside_root.is_some() && config.paths.is_some() {
        let why = "paths are always inside the root; write two rules";
        return Err(contradiction(at, "outside_root", why));
    }
    if config.remember.is_some() && config.answer != Some(Permission::Ask) {
        let why = "only a rule that asks can remember answers";
        return Err(contradiction(at, "remember", why));
    }
    Ok(())
}

fn contradiction(at: &str, key: &str, why: &'static str) -> PolicyError {
    PolicyError::Contradiction {
        at: format!("{at}.{key}"),
        why,
    }
}

fn conditions(
    at: &str,
    answer: Permission,
    config: &RuleConfig,
) -> Result<Vec<Condition>, PolicyError> {
    let mut conditions = Vec::new();
    let names = || config.arguments.clone();
    // A rule that allows must match exactly. A rule that asks or denies ignores case, and how accents are encoded.
    let path_glob = |pattern: &str| path_glob(pattern, answer);
    if let Some(paths) = &config.paths {
        let patterns = with_folders(paths, answer);
        let globs = glob_set(&format!("{at}.paths"), &patterns, path_glob)?;
        conditions.push(Condition::Paths {
            globs,
            names: names(),
        });
    }
    if config.outside_root.is_some() {
        conditions.push(Condition::OutsideRoot { names: names() });
    }
    if let Some(hosts) = &config.hosts {
        let patterns = parsed(&format!("{at}.hosts"), hosts, HostPattern::parse)?;
        conditions.push(Condition::Hosts {
            patterns,
            names: names(),
        });
    }
    if let Some(commands) = &config.commands {
        let patterns = parsed(&format!("{at}.commands"), commands, CommandPattern::parse)?;
        conditions.push(Condition::Commands {
            patterns,
            names: names(),
        });
    }
    if let Some(owners) = &config.owners {
        let owners = owners.clone();
        conditions.push(Condition::Owners { owners });
    }
    conditions.extend(surroundings(at, answer, config)?);
    for (name, patterns) in config.values.iter().flatten() {
        let patterns = ValuePatterns::check(&format!("{at}.values.{name}"), patterns)?;
        let name = name.clone();
        conditions.push(Condition::Value { name, patterns });
    }
    if let Some(function) = &config.when {
        let function = function.clone();
        conditions.push(Condition::When { function });
    }
    Ok(conditions)
}

/// Returns the conditions on where a command runs, and on what it requests of the sandbox. A rule that allows commands
/// applies only at the root unless it names folders. For a rule that allows, the sandbox access is not a condition
/// here, because it limits every such rule anyway.
fn surroundings(
    at: &str,
    answer: Permission,
    config: &RuleConfig,
) -> Result<Vec<Condition>, PolicyError> {
    let allows = answer == Permission::Allow;
    let mut conditions = Vec::new();
    if config.cwd.is_some() || allows && config.commands.is_some() {
        let root = [".".to_owned()];
        let folders = config.cwd.as_deref().unwrap_or(&root);
        let path_glob = |pattern: &str| path_glob(pattern, answer);
        let patterns = with_folders(folders, answer);
        let globs = glob_set(&format!("{at}.cwd"), &patterns, path_glob)?;
        conditions.push(Condition::Folder { globs });
    }
    if let Some(listed) = config.access.as_ref().filter(|_| !allows) {
        let listed = listed.clone();
        conditions.push(Condition::Access { listed });
    }
    Ok(conditions)
}

/// Returns path patterns for a rule that asks or denies: also [`folded`], and with the folders whose whole content they
/// match.
fn with_folders(patterns: &[String], answer: Permission) -> Vec<String> {
    let mut all = patterns.to_vec();
    if answer != Permission::Allow {
        let folders = patterns.iter().filter_map(|pattern| whole_folder(pattern));
        all.extend(folders.map(str::to_owned));
        let others = all.iter().filter_map(|pattern| folded(pattern));
        // After a change of case, the range of a character class may be invalid.
        let others = others.filter(|pattern| path_glob(pattern, answer).is_ok());
        let others: Vec<String> = others.collect();
        all.extend(others);
    }
    all
}

/// Reads a path pattern: `*` stops at a slash, `**` does not.
pub(crate) fn path_glob(pattern: &str, answer: Permission) -> Result<Glob, globset::Error> {
    let mut glob = GlobBuilder::new(pattern);
    glob.literal_separator(true);
    glob.case_insensitive(answer != Permission::Allow);
    glob.build()
}

fn parsed<T>(
    at: &str,
    patterns: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, PolicyError> {
    let parse = |pattern: &String| {
        parse(pattern).map_err(|reason| PolicyError::InvalidPattern {
            at: at.to_owned(),
            pattern: names::shown(pattern),
            reason,
        })
    };
    patterns.iter().map(parse).collect()
}
