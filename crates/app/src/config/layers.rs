//! All sources of configuration together: which source sets a key, and the merged result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::Figment;
use neuraxis_brainstem::{Policy, PolicyConfig, PolicyError};
use neuraxis_core::Role;
use toml::Table;

use super::error::{ConfigError, Fault};
use super::key::{self, ancestry, as_key};
use super::layer::Layer;
use super::models::{self, ModelConfig, Providers};
use super::origin::Origin;
use super::project;
use super::sections::{RETIRED_KEY, Sections, ToolsConfig};
use crate::environment::Environment;
use crate::names::shown;

/// All sources, the weakest first.
#[derive(Debug, Clone)]
pub(super) struct Layers(pub(super) Vec<Layer>);

impl Layers {
    /// Merges the sources, except those that may only tighten the policy.
    pub(super) fn merged(&self) -> Figment {
        let layers = self.0.iter().filter(|layer| !layer.only_tightens());
        layers.fold(Figment::new(), Figment::merge)
    }

    pub(super) fn sections(&self) -> Result<Sections, ConfigError> {
        let merged = self.merged();
        merged.extract().map_err(|error| self.blame(&error))
    }

    pub(super) fn origin(&self, key: &str) -> Origin {
        let layer = self.strongest(key);
        layer.map_or(Origin::Default, |layer| layer.origin(key))
    }

    /// Returns the origin of a key, or of the nearest table around it that is set.
    pub(super) fn origin_around(&self, key: &str) -> Origin {
        let mut origins = ancestry(key).map(|key| self.origin(key));
        origins
            .find(|origin| *origin != Origin::Default)
            .unwrap_or(Origin::Default)
    }

    /// Converts an error in the merged sources, each of which is valid on its own.
    fn blame(&self, error: &figment::Error) -> ConfigError {
        let key = key::path(&error.path);
        match self.strongest(&key) {
            Some(layer) => layer.blame(error),
            None => self.fault_at(&key, Fault::of(error)),
        }
    }

    /// Builds an error about a key, with its location.
    pub(super) fn fault_at(&self, key: &str, fault: Fault) -> ConfigError {
        ConfigError::Key {
            at: self.origin_around(key),
            fault: Box::new(fault),
        }
    }

    /// Builds an error about a key from a message, with the key's location.
    pub(super) fn invalid_at(&self, key: &str, message: String) -> ConfigError {
        let fault = Fault::Invalid {
            key: shown(key),
            message,
        };
        self.fault_at(key, fault)
    }

    /// Converts an error of the policy, with the location of the invalid key.
    pub(super) fn policy_fault(&self, fault: PolicyError) -> ConfigError {
        ConfigError::Policy {
            at: self.origin_around(key_of(&fault)),
            source: Box::new(fault),
        }
    }

    pub(super) fn policy(&self, mut overrides: PolicyConfig) -> Result<Policy, ConfigError> {
        let merged = || self.0.iter().filter(|layer| !layer.only_tightens());
        add_rule_places(&mut overrides, |key| {
            let mut layers = merged().rev();
            let layer = layers.find(|layer| layer.sets(key))?;
            Some(layer.origin(key))
        });
        for source in merged() {
            let own_policy = source.sections()?.take_policy();
            overrides
                .listed_tools
                .extend(own_policy.tools_of_channels().cloned());
        }
        Policy::layered(overrides).map_err(|fault| self.policy_fault(fault))
    }

    /// Parses the model sections, whose keys depend on their providers.
    pub(super) fn models(
        &self,
        environment: &Environment,
        sections: &BTreeMap<Role, Table>,
        providers: &Providers,
    ) -> Result<BTreeMap<Role, ModelConfig>, ConfigError> {
        let models = sections.iter().map(|(role, table)| {
            let provider = providers.last(role.as_str());
            let provider = provider.ok_or_else(|| self.no_provider(role))?;
            let section = models::section(role.as_str(), table, provider);
            let mut section = section.map_err(|error| self.blame(&error))?;
            if let Some((key, file)) = section.provider.file_mut() {
                *file = self.resolved(environment, &format!("models.{role}.{key}"), file);
            }
            if let Some(file) = &mut section.api_key_file {
                *file = self.resolved(environment, &format!("models.{role}.api_key_file"), file);
            }
            Ok((role.clone(), section))
        });
        models.collect()
    }

    fn no_provider(&self, role: &Role) -> ConfigError {
        let fault = Fault::NoProvider {
            role: role.to_string(),
        };
        self.fault_at(&format!("models.{role}"), fault)
    }

    /// Returns what makes the folder of the tools too wide, if it may only be used when a variable or a flag names it,
    /// and none does.
    pub(super) fn too_wide_root(
        &self,
        environment: &Environment,
        root: &Path,
    ) -> Option<&'static str> {
        match self.origin("tools.root") {
            Origin::Variable(_) | Origin::Flag(_) => None,
            Origin::Default | Origin::File { .. } => project::too_wide(root, environment),
        }
    }

    /// Returns a notice about keys of earlier versions that are set.
    pub(super) fn retired(&self) -> Option<String> {
        let at = self.origin(RETIRED_KEY);
        (at != Origin::Default).then(|| {
            format!(
                "{at}: {RETIRED_KEY} no longer has any effect and can be removed: a neuraxis.toml in the working \
                 directory can only restrict what is allowed until it is trusted"
            )
        })
    }

    /// Returns the strongest source that sets a key.
    pub(super) fn strongest(&self, key: &str) -> Option<&Layer> {
        self.0.iter().rev().find(|layer| layer.sets(key))
    }

    /// Returns whether an untrusted file determines a key.
    pub(super) fn is_untrusted(&self, key: &str) -> bool {
        let mut layers = ancestry(key).filter_map(|key| self.strongest(key));
        layers.next().is_some_and(Layer::only_tightens)
    }

    pub(super) fn sets(&self, key: &str) -> bool {
        self.strongest(key).is_some()
    }

    pub(super) fn project_root(&self, environment: &Environment, tools: &ToolsConfig) -> PathBuf {
        match &tools.root {
            Some(root) => self.resolved(environment, "tools.root", root),
            None => environment.working_dir().to_owned(),
        }
    }

    /// Resolves a path: a relative one counts from the file that sets it, or else from the working directory.
    pub(super) fn resolved(&self, environment: &Environment, key: &str, path: &Path) -> PathBuf {
        let working_dir = environment.working_dir();
        match self.origin(key) {
            Origin::File { path: file, .. } => {
                let file = working_dir.join(file);
                file.parent().unwrap_or(working_dir).join(path)
            }
            _ => working_dir.join(path),
        }
    }
}

/// Returns the path of the invalid key of a policy, or as much of it as is known.
pub(super) fn key_of(error: &PolicyError) -> &str {
    // An entry of a list has no location of its own.
    let at = error.key();
    at.split('[').next().unwrap_or(at)
}

/// Adds the locations of rules: a verdict names the line of its rule.
pub(super) fn add_rule_places(policy: &mut PolicyConfig, origin: impl Fn(&str) -> Option<Origin>) {
    for name in policy.rules.keys() {
        let origin = origin(&format!("rules.{}", as_key(name)));
        if let Some(place) = origin.and_then(|origin| origin.place()) {
            policy.origins.add(format!("rules.{name}"), place);
        }
    }
}
