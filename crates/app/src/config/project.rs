//! What an untrusted `neuraxis.toml` of the working directory may do: tighten the policy of all other sources, and
//! narrow the folder of the tools. Everything else in it is ignored, so a section that is added later is ignored until
//! this module handles it.

use std::collections::BTreeSet;
use std::fs::canonicalize;
use std::path::{Path, PathBuf};

use neuraxis_brainstem::{LayerKind, Policy, PolicyConfig, PolicyError};
use neuraxis_tools::is_protected;
use toml::{Table, Value};

use super::change::Change;
use super::error::{ConfigError, POLICY_SECTIONS};
use super::key::{self, ancestry, as_key};
use super::layer::Layer;
use super::layers::{Layers, add_rule_places, key_of};
use super::read::RANK_OF_VARIABLES;
use crate::environment::Environment;

/// How often invalid parts are removed from such a file before its whole policy is ignored.
const MAX_ATTEMPTS: usize = 16;

/// The keys of a rule that tighten nothing: the reason, which the model and the user read, and what may be remembered
/// of an answer, unless that is nothing.
const TIGHTENS_NOTHING: [&str; 2] = ["reason", "remember"];

/// The sections whose tables are independent entries: an invalid entry is dropped as a whole.
const NAMED_WHOLE: [&str; 3] = ["rules", "trust", "prices"];

impl Layers {
    /// Adds the parts of an untrusted file that it may set, and returns the rest. [`tightened`](Self::tightened) finds
    /// what would loosen the policy.
    pub(super) fn with_untrusted(
        mut self,
        mut project: Layer,
        environment: &Environment,
    ) -> (Self, Vec<Change>) {
        let whole = project.ranked_table().1.clone();
        let change = |key: &[&str], value: &Value| {
            let mut change = Change::of(key, value, &whole, &self);
            if key == ["tools", "root"]
                && let Some(root) = value.as_str()
            {
                let is_empty = root.is_empty();
                let root = environment.working_dir().join(root);
                if is_empty {
                    change.meaning = "cannot be used: it names no folder".to_owned();
                } else if let Some(what) = too_wide(&root, environment) {
                    change.meaning =
                        format!("turns off the file and command tools: that is {what}");
                } else if canonicalize(root).is_ok_and(|real| is_protected(&real)) {
                    change.meaning =
                        "cannot be used: writing to that folder is not allowed".to_owned();
                }
            }
            change
        };
        let root = self.narrower_root(&mut project, environment);
        let mut policy = project.split_policy();
        let mut ignored = Vec::new();
        each_leaf(
            project.ranked_table().1,
            &mut Vec::new(),
            &mut |key, value| {
                ignored.push(change(key, value));
            },
        );
        if let Some(policy) = &mut policy {
            policy.drop_malformed(&mut ignored);
            policy.drop_words(&mut ignored);
        }
        let is_text = |layer: &Layer| layer.ranked_table().0 >= RANK_OF_VARIABLES;
        let at = self.0.iter().position(is_text).unwrap_or(self.0.len());
        if let Some(policy) = &mut policy {
            policy.drop_overridden(self.0.get(at..).unwrap_or_default());
        }
        self.0.splice(at..at, root.into_iter().chain(policy));
        (self, ignored)
    }

    /// Tightens the policy with an untrusted file. Returns what would loosen it, which is ignored.
    pub(super) fn tightened(&mut self, policy: Policy) -> (Policy, Vec<Change>) {
        let mut ignored = Vec::new();
        for _ in 0..MAX_ATTEMPTS {
            let Some(at) = self.0.iter().position(Layer::only_tightens) else {
                return (policy, ignored);
            };
            let Some(project) = self.0.get(at) else { break };
            let Ok(layer_policy) = project.policy() else {
                break;
            };
            let mut faults = policy.loosening_errors(LayerKind::Project, &layer_policy);
            if faults.is_empty() {
                match policy.tightened(LayerKind::Project, layer_policy) {
                    Ok(tightened) => return (tightened, ignored),
                    Err(fault) => faults.push(fault),
                }
            }
            let Some(project) = self.0.get_mut(at) else {
                break;
            };
            let mut dropped = BTreeSet::new();
            for fault in &faults {
                let key = smallest_whole(key_of(fault));
                // Its parent may already be dropped, and one key may loosen in two ways.
                if ancestry(key).all(|key| !dropped.contains(key)) {
                    ignored.extend(project.drop_faulty(key, fault));
                    dropped.insert(key);
                }
            }
            if project.ranked_table().1.is_empty() {
                self.0.remove(at);
            }
        }
        // Stop here: the author of this many contradictions does not get more attempts.
        for project in self.0.extract_if(.., |layer| layer.only_tightens()) {
            each_leaf(
                project.ranked_table().1,
                &mut Vec::new(),
                &mut |key, value| {
                    ignored.push(Change::unusable(
                        key,
                        value,
                        "it does not form a valid policy",
                    ));
                },
            );
        }
        (policy, ignored)
    }

    /// Takes the folder of the tools out of such a file, as a separate layer, if it only narrows what they may see.
    fn narrower_root(&self, project: &mut Layer, environment: &Environment) -> Option<Layer> {
        let working_dir = environment.working_dir();
        let root = project
            .ranked_table()
            .1
            .get("tools")?
            .get("root")?
            .as_str()?;
        if root.is_empty() {
            return None;
        }
        let narrower = canonicalize(working_dir.join(root)).ok()?;
        let sections = self.sections().ok()?;
        let own = self.project_root(environment, &sections.tools);
        // A protected file is recognized by its path below the folder, and a narrower folder would remove part of that
        // path.
        if is_protected(&narrower) {
            return None;
        }
        // If no tools are offered, there is nothing to narrow.
        if self.too_wide_root(environment, &own).is_some() {
            return None;
        }
        let is_within = |folder: PathBuf| {
            let folder = canonicalize(folder);
            folder.is_ok_and(|folder: PathBuf| narrower.starts_with(folder))
        };
        if !narrower.is_dir() || !is_within(own) || !is_within(working_dir.to_owned()) {
            return None;
        }
        let root = project.change_table(|table| {
            let tools = table.get_mut("tools")?.as_table_mut()?;
            let root = tools.remove("root");
            if tools.is_empty() {
                table.remove("tools");
            }
            root
        })?;
        let tools = Table::from_iter([("root".to_owned(), root)]);
        let table = Table::from_iter([("tools".to_owned(), Value::Table(tools))]);
        Some(project.of_same_file(table))
    }
}

impl Layer {
    /// Parses its policy.
    fn policy(&self) -> Result<PolicyConfig, ConfigError> {
        let mut policy = self.sections()?.take_policy();
        add_rule_places(&mut policy, |key| Some(self.origin(key)));
        Ok(policy)
    }

    /// Moves the policy of this file to a separate layer that only tightens.
    fn split_policy(&mut self) -> Option<Self> {
        let sections = POLICY_SECTIONS.iter();
        let policy: Table = sections
            .filter_map(|name| self.take_section(name))
            .collect();
        (!policy.is_empty()).then(|| self.tightening(policy))
    }

    /// Drops the sections that are not well-formed.
    fn drop_malformed(&mut self, ignored: &mut Vec<Change>) {
        for name in POLICY_SECTIONS {
            let Some((name, section)) = self.take_section(name) else {
                continue;
            };
            let alone = Table::from_iter([(name.clone(), section.clone())]);
            match self.of_same_file(alone).check() {
                Ok(()) => self.change_table(|table| drop(table.insert(name, section))),
                Err(error) => ignored.push(Change::unusable(
                    &[name.as_str()],
                    &section,
                    &error.to_string(),
                )),
            }
        }
    }

    /// Drops the keys of rules that tighten nothing, so that their wording cannot talk the user into something.
    fn drop_words(&mut self, ignored: &mut Vec<Change>) {
        self.change_table(|table| {
            let rules = table.get_mut("rules").and_then(Value::as_table_mut);
            for (name, rule) in rules.into_iter().flatten() {
                let Value::Table(rule) = rule else { continue };
                for key in TIGHTENS_NOTHING {
                    let value = rule.get(key).and_then(Value::as_str);
                    if key == "remember" && value == Some("never") {
                        continue;
                    }
                    if let Some(value) = rule.remove(key) {
                        ignored.push(Change::of_words(&["rules", name.as_str(), key], &value));
                    }
                }
            }
        });
    }

    /// Drops what stronger layers override.
    fn drop_overridden(&mut self, stronger: &[Self]) {
        let sets = |key: &str| stronger.iter().any(|layer| layer.sets(key));
        self.change_table(|table| drop_keys(table, "", &sets));
    }

    /// Drops the smallest part around a fault that can be omitted, and describes it.
    fn drop_faulty(&mut self, key: &str, fault: &PolicyError) -> Option<Change> {
        let Some(key) = ancestry(key).find(|key| self.sets(key)) else {
            // The key cannot be found by its name, for example because a long name was truncated.
            let section = key.split('.').next()?;
            let value = self.take_section(section)?.1;
            return Some(Change::loosening(&[section], &value, fault));
        };
        let names = key::names(key);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let value = self.change_table(|table| take(table, &names))?;
        Some(Change::loosening(&names, &value, fault))
    }
}

/// Returns the key of the part to drop if a key is invalid: half a rule would be a different rule.
fn smallest_whole(key: &str) -> &str {
    let section = key.split('.').next().unwrap_or(key);
    match (NAMED_WHOLE.contains(&section), key::dots(key).get(1)) {
        (true, Some(end)) => key.get(..*end).unwrap_or(key),
        _ => key,
    }
}

/// Takes a value out of nested tables.
fn take(table: &mut Table, names: &[&str]) -> Option<Value> {
    match names {
        [] => None,
        [name] => table.remove(*name),
        [name, rest @ ..] => take(table.get_mut(*name)?.as_table_mut()?, rest),
    }
}

/// Visits every value that is not a table, and every empty table, with the names on its path.
fn each_leaf<'a>(
    table: &'a Table,
    above: &mut Vec<&'a str>,
    visit: &mut impl FnMut(&[&str], &Value),
) {
    for (name, value) in table {
        above.push(name);
        match value {
            Value::Table(inner) if !inner.is_empty() => each_leaf(inner, above, visit),
            _ => visit(above, value),
        }
        above.pop();
    }
}

/// Drops the values whose keys, given by their dotted paths, are set elsewhere.
fn drop_keys(table: &mut Table, above: &str, is_set: &impl Fn(&str) -> bool) {
    table.retain(|name, value| {
        let key = format!("{above}{}", as_key(name));
        if !is_set(&key) {
            return true;
        }
        match value {
            Value::Table(inner) => {
                drop_keys(inner, &format!("{key}."), is_set);
                !inner.is_empty()
            }
            _ => false,
        }
    });
}

/// Returns a notice that the tools are not offered in a folder, and how to change that.
pub(super) fn not_offered(root: &Path, what: &str) -> String {
    let root = root.display();
    format!(
        "the file and command tools are off because their folder {root} is {what}; to offer them anyway, name it in \
         NEURAXIS_TOOLS__ROOT (the neuraxis command also takes --set tools.root=…)"
    )
}

/// Returns why the tools are not offered in a folder: it contains everything, or everything of the user.
pub(super) fn too_wide(root: &Path, environment: &Environment) -> Option<&'static str> {
    let real = canonicalize(root).ok()?;
    if real.parent().is_none() {
        return Some("the root of the file system");
    }
    let home = canonicalize(environment.home_dir()?).ok()?;
    match home.strip_prefix(&real) {
        Ok(below) if below.as_os_str().is_empty() => Some("your home folder"),
        Ok(_) => Some("a folder above your home folder"),
        Err(_) => None,
    }
}
