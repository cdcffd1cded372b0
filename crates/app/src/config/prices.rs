//! The section `[price_list]`: which list of public prices says what models cost of which `[prices]` says nothing.
//!
//! A file of the working directory that nobody trusted says nothing here: what money budgets count would be its to decide.

use std::path::{Path, PathBuf};

use neuraxis_brainstem::{Policy, PriceList};
use serde::Deserialize;

use super::error::ConfigError;
use super::{Layers, read};
use crate::environment::Environment;

/// `[price_list]`: a newer list of public prices than the one that ships with the program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PriceListConfig {
    /// The file with the list, in the form of the one that ships: `public-prices.toml` of `neuraxis-brainstem`. A relative
    /// one counts from the folder of the file that names it.
    file: Option<PathBuf>,
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

    /// Lets a policy know the prices of the file, where one is named.
    ///
    /// # Errors
    ///
    /// A [`ConfigError`] that names the file, if it cannot be read or is no list.
    pub(super) fn applied(&self, policy: Policy) -> Result<Policy, ConfigError> {
        let Some(file) = &self.file else {
            return Ok(policy);
        };
        let text = read::whole(file).map_err(|error| match error {
            ConfigError::Read { path, source } => ConfigError::PriceListUnread { path, source },
            error => error,
        })?;
        let list = PriceList::from_toml(&text).map_err(|source| ConfigError::PriceList {
            path: file.clone(),
            source: Box::new(source),
        })?;
        Ok(policy.with_price_list(list))
    }
}
