//! What a file found in the working directory may say about the policy. It may have come with the project that is worked
//! on: where it loosens what the user's own sources allow, the user is told, or it is refused, as those sources say.

use std::collections::BTreeMap;

use neuraxis_brainstem::{LayerKind, Policy, PolicyConfig, PolicyError};
use serde::Deserialize;
use toml::{Table, Value};

use super::error::{ConfigError, Fault, POLICY_SECTIONS};
use super::layer::Layer;
use super::origin::Origin;
use super::{Layers, key_of};
use crate::names::shown;

/// The key that says what such a file may do.
pub(super) const KEY: &str = "config.project_policy";

/// Who may set that key, and how.
const WHO_MAY: &str = "a file found in the working directory cannot say how far it is trusted; set this in the file of your \
                       configuration folder, in a file that --config names, or as NEURAXIS_CONFIG__PROJECT_POLICY";

/// `[config]`: what the sources of configuration may do. Only the user's own may set it.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OversightConfig {
    /// What a file found in the working directory may say about the policy. `full`.
    pub(super) project_policy: ProjectPolicy,
}

/// What a file found in the working directory may say about the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProjectPolicy {
    /// All that any other file may say. What it loosens is told.
    #[default]
    Full,
    /// What tightens the policy that the other sources make. Anything else is an error.
    Tighten,
}

impl ProjectPolicy {
    /// Returns the word as it is written.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Tighten => "tighten",
        }
    }
}

/// Checks that a file found in the working directory does not say how far it is trusted.
pub(super) fn check(project: &Layer) -> Result<(), ConfigError> {
    if !project.sets(KEY) {
        return Ok(());
    }
    Err(ConfigError::Key {
        at: project.origin(KEY),
        fault: Box::new(Fault::Invalid {
            key: KEY.to_owned(),
            message: WHO_MAY.to_owned(),
        }),
    })
}

impl Layers {
    /// Gives the file of the working directory the say about the policy that the user lets it have. Also says what it
    /// loosens where it may.
    pub(super) fn overseen(self) -> Result<(Self, Option<String>), ConfigError> {
        let Some(apart) = self.with_project_apart() else {
            return Ok((self, None));
        };
        match self.project_policy()? {
            ProjectPolicy::Tighten => Ok((apart, None)),
            ProjectPolicy::Full => {
                let notice = apart.notice();
                Ok((self, notice))
            }
        }
    }

    /// Lets a file of the working directory tighten the policy, if it may do no more.
    pub(super) fn tightened(&self, policy: Policy) -> Result<Policy, ConfigError> {
        let Some(project) = self.tightening() else {
            return Ok(policy);
        };
        let layer = self.said_by(project)?;
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

    fn project_policy(&self) -> Result<ProjectPolicy, ConfigError> {
        if self.origin(KEY) == Origin::Default {
            return Ok(ProjectPolicy::default());
        }
        let merged = self.merged();
        merged
            .extract_inner(KEY)
            .map_err(|error| self.blame(&error))
    }

    /// Takes apart what the file of the working directory says about the policy and no stronger source overrides; nothing
    /// where it says nothing.
    fn with_project_apart(&self) -> Option<Self> {
        let at = self.0.iter().position(Layer::is_found)?;
        let mut layers = self.0.clone();
        let mut policy = layers.get_mut(at)?.split_policy()?;
        policy.drop_overridden(layers.get(at + 1..)?);
        layers.insert(at + 1, policy);
        Some(Self(layers))
    }

    /// Says what a file of the working directory, whose policy is apart, would loosen first.
    fn notice(&self) -> Option<String> {
        let project = self.tightening()?;
        // What is not well-formed is complained of when all sources are merged.
        let mut layer = self.said_by(project).ok()?;
        // What the user's own sources say may need what the project adds, and be no policy without it.
        let own = self.sections().map(|mut own| own.take_policy());
        let own = own.and_then(|own| self.policy(own));
        let own = own.unwrap_or_else(|_| Policy::built_in());
        drop_new(&mut layer, own.config());
        // Other errors are those of the whole policy, which is checked later.
        let tightened = own.tightened(LayerKind::Project, layer);
        let loosens = tightened
            .err()
            .filter(|error| matches!(error, PolicyError::Loosens { .. }))?;
        let at = project.origin_around(key_of(&loosens));
        let key = shown(loosens.key());
        Some(format!(
            "{at}: {key} loosens the policy that your other sources make (to forbid it to a file found in the working \
             directory, set NEURAXIS_CONFIG__PROJECT_POLICY=tighten, or {KEY} in the file of your configuration folder)"
        ))
    }

    fn tightening(&self) -> Option<&Layer> {
        self.0.iter().find(|layer| layer.only_tightens())
    }

    /// Reads what one source says about the policy.
    fn said_by(&self, layer: &Layer) -> Result<PolicyConfig, ConfigError> {
        let mut policy = layer.sections()?.take_policy();
        self.add_rule_places(&mut policy);
        Ok(policy)
    }
}

/// Forgets what a layer adds beside what is there: nothing that was asked for so far becomes looser by it.
fn drop_new(layer: &mut PolicyConfig, own: &PolicyConfig) {
    keep_known(&mut layer.modes, &own.modes);
    keep_known(&mut layer.channels, &own.channels);
    keep_known(&mut layer.plans, &own.plans);
    if own.prices.is_empty() {
        // Where nothing costs anything, a price can only make budgets count more.
        layer.prices.clear();
    }
}

fn keep_known<K: Ord, V>(given: &mut BTreeMap<K, V>, known: &BTreeMap<K, V>) {
    given.retain(|name, _| known.contains_key(name));
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
