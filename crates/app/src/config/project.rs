//! What a file of the working directory may say about the policy. Nobody vouched for it: it may have come with the project
//! that is worked on. So it may tighten the policy that the user's own sources make, and nothing else.

use figment::Figment;
use neuraxis_brainstem::{LayerKind, Policy, PolicyError};
use toml::{Table, Value};

use super::error::{ConfigError, POLICY_SECTIONS};
use super::layer::Layer;
use super::sections::Sections;
use super::{Layers, key_of};

impl Layers {
    /// Lets a file of the working directory tighten the policy.
    pub(super) fn tightened(&self, policy: Policy) -> Result<Policy, ConfigError> {
        let Some(project) = self.0.iter().find(|layer| layer.only_tightens()) else {
            return Ok(policy);
        };
        let mut sections: Sections = Figment::from(project)
            .extract()
            .map_err(|error| project.blame(&error))?;
        let mut layer = sections.take_policy();
        self.add_rule_places(&mut layer);
        policy
            .tightened(LayerKind::Project, layer)
            .map_err(|source| {
                let at = project.origin_around(key_of(&source));
                let source = Box::new(source);
                match *source {
                    PolicyError::Loosens { .. } => ConfigError::Project { at, source },
                    _ => ConfigError::Policy { at, source },
                }
            })
    }
}

impl Layer {
    /// Takes what this file says about the policy out of it, as a layer that only tightens.
    pub(super) fn split_policy(&mut self) -> Option<Self> {
        let sections = POLICY_SECTIONS.iter();
        let policy: Table = sections
            .filter_map(|name| self.take_section(name))
            .collect();
        (!policy.is_empty()).then(|| self.tightening(policy))
    }

    /// Forgets what stronger layers set: they override it.
    pub(super) fn drop_overridden(&mut self, stronger: &[Self]) {
        let sets = |key: &str| stronger.iter().any(|layer| layer.sets(key));
        self.change_table(|table| drop_keys(table, "", &sets));
    }
}

/// Drops the values whose keys, given by their dotted paths, are set elsewhere.
fn drop_keys(table: &mut Table, above: &str, is_set: &impl Fn(&str) -> bool) {
    table.retain(|name, value| {
        let key = format!("{above}{name}");
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
