//! `[web]`: `neuraxis-web` defines its keys; this module handles their sources, and where keys are sent.

use neuraxis_web::WebConfig;
use toml::{Table, Value};

use super::addresses::is_open_to_others;
use super::error::ConfigError;
use super::layer::Layer;
use super::secret::without_secrets;
use super::{Config, Layers};

/// The setting that names the key of the search service.
const KEY: &str = "web.search.api_key_env";

/// The settings for where the key is sent.
const ADDRESSES: [&str; 2] = ["web.search.base_url", "web.search.provider"];

/// Checks that the key of the search service is named by the same file as the address it is sent to, if that file is
/// the one of the working directory.
pub(super) fn check_key(layers: &Layers) -> Result<(), ConfigError> {
    let key = layers.strongest(KEY);
    if key.is_none_or(Layer::is_found) {
        return Ok(());
    }
    let address = ADDRESSES.into_iter().find(|address| layers.sets(address));
    let found = address.filter(|address| layers.strongest(address).is_some_and(Layer::is_found));
    match found {
        None => Ok(()),
        Some(address) => Err(ConfigError::KeyElsewhere {
            at: layers.origin_around(address),
            address: address.to_owned(),
            key_at: Box::new(layers.origin_around(KEY)),
            key: KEY.to_owned(),
        }),
    }
}

/// Returns a notice if the key of the search service is sent unencrypted over a network.
pub(super) fn unprotected(web: &WebConfig, layers: &Layers) -> Option<String> {
    let url = web.search.base_url.as_deref()?;
    web.search.api_key_env.as_ref()?;
    let at = layers.origin_around("web.search.base_url");
    is_open_to_others(url).then(|| {
        let url = without_secrets(url);
        format!(
            "{at}: the key that {KEY} names is sent to {url} unencrypted, so anyone on the network path can read it; \
             use https"
        )
    })
}

impl Config {
    /// Returns the section `[web]`.
    #[must_use]
    pub const fn web(&self) -> &WebConfig {
        &self.web
    }
}

/// Returns the section in its written form.
pub(super) fn table(web: &WebConfig) -> Value {
    // Strings, numbers, lists and a table: writing and reading them cannot fail.
    let text = toml::to_string(web).unwrap_or_default();
    Value::Table(toml::from_str::<Table>(&text).unwrap_or_default())
}
