//! Checks which keys are sent where: a key that the user named is never sent to an address that the file of the working
//! directory names, whether that file is trusted or not.

use std::collections::BTreeMap;
use std::net::IpAddr;

use neuraxis_core::Role;

use super::Layers;
use super::error::ConfigError;
use super::key::as_key;
use super::layer::Layer;
use super::models::ModelConfig;
use super::secret::without_secrets;

/// Checks that each key is named by the same file as the address it is sent to, if that file is the one of the working
/// directory.
pub(super) fn check_keys(
    models: &BTreeMap<Role, ModelConfig>,
    layers: &Layers,
) -> Result<(), ConfigError> {
    for (role, model) in models {
        let keys = keys(role, model);
        let foreign = |key: &&String| !layers.strongest(key).is_some_and(Layer::is_found);
        let Some(key) = keys.iter().find(foreign) else {
            continue;
        };
        if let Some(address) = layers.found_address(role, model) {
            return Err(ConfigError::KeyElsewhere {
                at: layers.origin_around(&address),
                key_at: Box::new(layers.origin_around(key)),
                key: key.clone(),
                address,
            });
        }
    }
    Ok(())
}

/// Returns notices about keys that are sent unencrypted over a network.
pub(super) fn unprotected(models: &BTreeMap<Role, ModelConfig>, layers: &Layers) -> Vec<String> {
    let mut notices = Vec::new();
    for (role, model) in models {
        let Some(url) = model
            .provider
            .base_url()
            .filter(|url| is_open_to_others(url))
        else {
            continue;
        };
        if let Some(key) = keys(role, model).first() {
            let at = layers.origin_around(&format!("models.{role}.base_url"));
            let url = without_secrets(url);
            notices.push(format!(
                "{at}: the key that {key} names is sent to {url} unencrypted, so anyone on the network path can read \
                 it; use https"
            ));
        }
    }
    notices
}

/// Returns the dotted paths of the settings that name the keys of a model that is reached over a network.
fn keys(role: &Role, model: &ModelConfig) -> Vec<String> {
    if model.provider.base_url().is_none() {
        return Vec::new();
    }
    let mut keys = Vec::new();
    if model.api_key_env.is_some() {
        keys.push(format!("models.{role}.api_key_env"));
    }
    if model.api_key_file.is_some() {
        keys.push(format!("models.{role}.api_key_file"));
    }
    let headers = model.provider.secret_headers();
    keys.extend(headers.map(|(name, _)| format!("models.{role}.headers_env.{}", as_key(name))));
    keys
}

impl Layers {
    /// Returns the dotted path of the setting with which the file of the working directory affects a model's address,
    /// if any.
    fn found_address(&self, role: &Role, model: &ModelConfig) -> Option<String> {
        model.provider.base_url()?;
        let path = |key: &str| format!("models.{role}.{key}");
        // Without an address, the provider's own address is used.
        let address = match self.sets(&path("base_url")) {
            true => "base_url",
            false => "provider",
        };
        let mut keys = [address, "proxy", "ca_file"].map(path).into_iter();
        keys.find(|key| self.strongest(key).is_some_and(Layer::is_found))
    }
}

/// Returns whether data sent to an address crosses a network in plain text.
pub(super) fn is_open_to_others(url: &str) -> bool {
    let Some((scheme, rest)) = url.trim().split_once("://") else {
        return false;
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return false;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(host) => host.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host.eq_ignore_ascii_case("localhost")
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    !is_loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_to_another_machine_counts_as_unencrypted() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/v1", false),
            ("http://[::1]:8080", false),
            ("HTTP://Localhost", false),
            ("https://api.example", false),
            ("http://api.example/v1", true),
            ("http://10.0.0.7:8080", true),
            ("http://localhost@evil.example", true),
            ("http://127.0.0.1.evil.example", true),
        ] {
            assert_eq!(is_open_to_others(url), expected, "{url}");
        }
    }
}
