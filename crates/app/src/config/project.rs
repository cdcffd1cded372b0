//! What a `neuraxis.toml` of the working directory that nobody trusted may say: it may tighten the policy that all other
//! sources make, and narrow the folder of the tools. Nothing else of it is taken in, so that a section which is added
//! later is ignored until it is named here.

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

/// How often what cannot stand is taken out of such a file, before nothing of its policy counts.
const MAX_ATTEMPTS: usize = 16;

/// What a rule says that tightens nothing: words for the model and for the person who is asked, and what may be remembered
/// of the answer, unless that is nothing.
const TIGHTENS_NOTHING: [&str; 2] = ["reason", "remember"];

/// The sections whose tables are things of their own: one that cannot stand is left out as a whole.
const NAMED_WHOLE: [&str; 3] = ["rules", "trust", "prices"];

impl Layers {
    /// Takes in what a file that nobody trusted may say, and returns the rest. What would loosen the policy is found by
    /// [`tightened`](Self::tightened).
    pub(super) fn with_untrusted(
        mut self,
        mut project: Layer,
        environment: &Environment,
    ) -> (Self, Vec<Change>) {
        let whole = project.said().1.clone();
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
                        format!("offers no tools for files and commands: that is {what}");
                } else if canonicalize(root).is_ok_and(|real| is_protected(&real)) {
                    change.meaning =
                        "cannot be used: nothing may be written to that folder".to_owned();
                }
            }
            change
        };
        let root = self.narrower_root(&mut project, environment);
        let mut policy = project.split_policy();
        let mut ignored = Vec::new();
        each_leaf(project.said().1, &mut Vec::new(), &mut |key, value| {
            ignored.push(change(key, value));
        });
        if let Some(policy) = &mut policy {
            policy.drop_malformed(&mut ignored);
            policy.drop_words(&mut ignored);
        }
        let is_text = |layer: &Layer| layer.said().0 >= RANK_OF_VARIABLES;
        let at = self.0.iter().position(is_text).unwrap_or(self.0.len());
        if let Some(policy) = &mut policy {
            policy.drop_overridden(self.0.get(at..).unwrap_or_default());
        }
        self.0.splice(at..at, root.into_iter().chain(policy));
        (self, ignored)
    }

    /// Lets a file that nobody trusted tighten the policy. Returns what it would loosen, which does not count.
    pub(super) fn tightened(&mut self, policy: Policy) -> (Policy, Vec<Change>) {
        let mut ignored = Vec::new();
        for _ in 0..MAX_ATTEMPTS {
            let Some(at) = self.0.iter().position(Layer::only_tightens) else {
                return (policy, ignored);
            };
            let Some(project) = self.0.get(at) else { break };
            let Ok(said) = project.policy() else {
                break;
            };
            let mut faults = policy.loosened_by(LayerKind::Project, &said);
            if faults.is_empty() {
                match policy.tightened(LayerKind::Project, said) {
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
                // What holds it may be gone already, and one key may loosen in two ways.
                if ancestry(key).all(|key| !dropped.contains(key)) {
                    ignored.extend(project.drop_faulty(key, fault));
                    dropped.insert(key);
                }
            }
            if project.said().1.is_empty() {
                self.0.remove(at);
            }
        }
        // Whoever wrote that many contradictions is not waited for.
        for project in self.0.extract_if(.., |layer| layer.only_tightens()) {
            each_leaf(project.said().1, &mut Vec::new(), &mut |key, value| {
                ignored.push(Change::unusable(key, value, "it makes no policy"));
            });
        }
        (policy, ignored)
    }

    /// Takes the folder of the tools out of such a file, as a layer of its own, if it only narrows what they may see.
    fn narrower_root(&self, project: &mut Layer, environment: &Environment) -> Option<Layer> {
        let working_dir = environment.working_dir();
        let root = project.said().1.get("tools")?.get("root")?.as_str()?;
        if root.is_empty() {
            return None;
        }
        let narrower = canonicalize(working_dir.join(root)).ok()?;
        let sections = self.sections().ok()?;
        let own = self.project_root(environment, &sections.tools);
        // What is protected is found by its name beneath the folder, and there its name would be gone.
        if is_protected(&narrower) {
            return None;
        }
        // Where no tools are offered there is nothing to narrow.
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
    /// Reads what it says about the policy.
    fn policy(&self) -> Result<PolicyConfig, ConfigError> {
        let mut policy = self.sections()?.take_policy();
        add_rule_places(&mut policy, |key| Some(self.origin(key)));
        Ok(policy)
    }

    /// Takes what this file says about the policy out of it, as a layer that only tightens.
    fn split_policy(&mut self) -> Option<Self> {
        let sections = POLICY_SECTIONS.iter();
        let policy: Table = sections
            .filter_map(|name| self.take_section(name))
            .collect();
        (!policy.is_empty()).then(|| self.tightening(policy))
    }

    /// Forgets the sections that are not well-formed.
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

    /// Forgets what rules say that tightens nothing: whoever is asked shall not be talked into something.
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

    /// Forgets what stronger layers set: they override it.
    fn drop_overridden(&mut self, stronger: &[Self]) {
        let sets = |key: &str| stronger.iter().any(|layer| layer.sets(key));
        self.change_table(|table| drop_keys(table, "", &sets));
    }

    /// Forgets the smallest part around a fault that can be left out, and says what that was.
    fn drop_faulty(&mut self, key: &str, fault: &PolicyError) -> Option<Change> {
        let Some(key) = ancestry(key).find(|key| self.sets(key)) else {
            // What the fault is about is not found by its name, such as a long one that is cut.
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

/// Returns the key of what is left out where a key cannot stand: half a rule is another rule.
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

/// Visits every value that is no table, and every empty table, with the names that lead there.
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

/// Says that the tools are not offered in a folder, and what to do if they should be.
pub(super) fn not_offered(root: &Path, what: &str) -> String {
    let root = root.display();
    format!(
        "the tools for files and commands are not offered: their folder {root} is {what}; to offer them all the same, name \
         it by NEURAXIS_TOOLS__ROOT (or --set tools.root=… on the command line)"
    )
}

/// Returns why the tools are not offered in a folder: it holds everything, or everything of the user.
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
