//! The section `[price_list]`: which list of public prices applies to models that `[prices]` does not name. Also,
//! notices about missing prices.
//!
//! An untrusted file of the working directory cannot set it: it could otherwise decide how money budgets are counted.
//! Trusting such a file also trusts the list that it names, but only in its content at that time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use neuraxis_brainstem::{Policy, PriceList};
use neuraxis_core::{ModelRef, Role, Usage};
use serde::Deserialize;
use toml::Value;

use super::error::ConfigError;
use super::found::FoundFile;
use super::key::as_key;
use super::layer::Layer;
use super::models::ModelConfig;
use super::{Layers, read};
use crate::environment::Environment;
use crate::names::{Choices, shown};
use crate::providers::Provider;

/// `[price_list]`: a newer list of public prices than the one that ships with the program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PriceListConfig {
    /// The file with the list, in the format of the one that ships: `public-prices.toml` of `neuraxis-brainstem`. A
    /// relative path counts from the folder of the file that sets it.
    file: Option<PathBuf>,
}

/// Returns notices about models without a known price although money is limited, and about prices of providers that do
/// not exist.
pub(super) fn notices(
    models: &BTreeMap<Role, ModelConfig>,
    policy: &Policy,
    layers: &Layers,
) -> Vec<String> {
    let mut notices = unknown_providers(policy, layers);
    if !policy.config().limits_money() {
        return notices;
    }
    for (role, config) in models {
        // A model that is not reached over a network is not a paid service.
        if config.provider.base_url().is_none() {
            continue;
        }
        let provider = config.provider.provider().to_string();
        let table = config.provider.table();
        let model = table.get("model").and_then(Value::as_str);
        let model = model.filter(|model| !model.is_empty()).unwrap_or("*");
        let name = shown(&format!("{provider}/{model}"));
        let model_ref = ModelRef::new(provider, model);
        if policy
            .cost(&Usage::default(), &model_ref, &model_ref)
            .is_none()
        {
            let at = layers.origin_around(&format!("models.{role}"));
            notices.push(format!(
                "{at}: costs are limited, but no price is known for {name}, so its calls count as free; set one in \
                 [prices.\"{name}\"], with zeros if they are free"
            ));
        }
    }
    notices
}

fn unknown_providers(policy: &Policy, layers: &Layers) -> Vec<String> {
    let known = Provider::names();
    let mut notices = Vec::new();
    for name in policy.config().prices.keys() {
        let given = name.split('/').next().unwrap_or(name);
        if known.contains(&given) {
            continue;
        }
        let at = layers.origin_around(&format!("prices.{}", as_key(name)));
        notices.push(format!(
            "{at}: [prices.\"{}\"] is for an unknown provider{}",
            shown(name),
            Choices { given, known }
        ));
    }
    notices
}

impl PriceListConfig {
    /// Resolves the path of the list relative to the file that sets it.
    pub(super) fn resolved(mut self, layers: &Layers, environment: &Environment) -> Self {
        if let Some(file) = &mut self.file {
            *file = layers.resolved(environment, "price_list.file", file);
        }
        self
    }

    /// Returns the file with the list.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Adds the prices of the file to a policy, if one is named. For a list that the file of the working directory
    /// names, uses the content that was read when its trust was determined, whatever the file contains by now.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the file, if it cannot be read or is not a price list.
    pub(super) fn applied(
        &self,
        policy: Policy,
        layers: &Layers,
        found: Option<&FoundFile>,
    ) -> Result<Policy, ConfigError> {
        let Some(file) = &self.file else {
            return Ok(policy);
        };
        let named_by = layers.strongest("price_list.file");
        let found = found.filter(|_| named_by.is_some_and(Layer::is_found));
        let list = match found.and_then(FoundFile::prices) {
            Some(read) => list_of(file, read)?,
            None => match read::whole(file) {
                Ok(text) => list_of(file, Ok(&text))?,
                Err(ConfigError::Read { source, .. }) => list_of(file, Err(source))?,
                Err(error) => return Err(error),
            },
        };
        Ok(policy.with_price_list(list))
    }
}

/// Parses a price list from the content of a file.
///
/// # Errors
///
/// A [`ConfigError`] that names the file, if it could not be read or is not a price list.
pub(super) fn list_of(path: &Path, read: io::Result<&str>) -> Result<PriceList, ConfigError> {
    let text = read.map_err(|source| ConfigError::PriceListUnread {
        path: path.to_owned(),
        source,
    })?;
    PriceList::from_toml(text).map_err(|source| ConfigError::PriceList {
        path: path.to_owned(),
        source: Box::new(source),
    })
}
