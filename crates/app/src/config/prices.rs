//! The section `[price_list]`: which list of public prices says what models cost of which `[prices]` says nothing; and what a user
//! should know of prices that are missing.
//!
//! A file of the working directory that nobody trusted says nothing here: what money budgets count would be its to decide. The
//! list that one names is trusted with it, and only as it was then.

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
    /// The file with the list, in the form of the one that ships: `public-prices.toml` of `neuraxis-brainstem`. A relative
    /// one counts from the folder of the file that names it.
    file: Option<PathBuf>,
}

/// Says which models nobody knows a price of though money is limited, and which prices are of no provider that there is.
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
        // What answers without a network is no service that is paid.
        if config.provider.base_url().is_none() {
            continue;
        }
        let provider = config.provider.provider().to_string();
        let table = config.provider.table();
        let model = table.get("model").and_then(Value::as_str);
        let model = model.filter(|model| !model.is_empty()).unwrap_or("*");
        let name = shown(&format!("{provider}/{model}"));
        let asked = ModelRef::new(provider, model);
        if policy.cost(&Usage::default(), &asked, &asked).is_none() {
            let at = layers.origin_around(&format!("models.{role}"));
            notices.push(format!(
                "{at}: money is limited, but no price is known of {name}, so that its calls count as nothing; \
                 [prices.\"{name}\"] says one, of zeros if they cost nothing"
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
            "{at}: [prices.\"{}\"] is for no provider that there is{}",
            shown(name),
            Choices { given, known }
        ));
    }
    notices
}

impl PriceListConfig {
    /// Lets the file's path count from the file that names it.
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

    /// Lets a policy know the prices of the file, where one is named. Of a list that the file of the working directory names,
    /// that is what was read when it was known whether it is trusted, whatever stands there by now.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the file, if it cannot be read or is no list.
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

/// Makes a list of prices of what was read of a file.
///
/// # Errors
///
/// A [`ConfigError`] that names the file, if it could not be read or is no list.
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
