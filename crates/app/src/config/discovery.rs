//! `[discovery]`: what to look for if no model is configured.

use std::fmt;
use std::sync::LazyLock;

use neuraxis_llama::LlamaConfig;
use neuraxis_openai::OpenAiConfig;
use neuraxis_ports::KeyDiscovery;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Value;

use crate::environment::Environment;
use crate::providers::Provider;

const KEYS: &str = "keys";
const LOCAL_SERVERS: &str = "local_servers";

/// All keys of the section, in display order.
static ALL_KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let models = discoveries().map(|(_, discovery)| discovery.model_setting);
    let models = std::iter::once(KEYS).chain(models);
    models.chain([LOCAL_SERVERS]).collect()
});

/// `[discovery]`: what to look for if no model is configured.
///
/// In addition to these two keys, it has one for each provider whose key may be found, such as `openai_model`: the
/// model to use if only that provider's key is found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveryConfig {
    /// Whether to look for keys of providers in their usual variables, such as `OPENAI_API_KEY`. Defaults to `true`.
    pub keys: bool,
    /// Whether to look for model servers on this machine. Defaults to `true`.
    pub local_servers: bool,
    /// The configured models: keys and names.
    models: Vec<(&'static str, String)>,
}

impl Default for DiscoveryConfig {
    fn default() -> Self {
        Self {
            keys: true,
            local_servers: true,
            models: Vec::new(),
        }
    }
}

impl DiscoveryConfig {
    /// Returns the model to use if only this provider's key is found; `None` for a provider whose key is not looked
    /// for.
    #[must_use]
    pub fn model(&self, provider: Provider) -> Option<&str> {
        provider
            .key_discovery()
            .map(|discovery| self.model_of(discovery))
    }

    fn model_of(&self, discovery: KeyDiscovery) -> &str {
        let mut configured = self.models.iter();
        let configured = configured.find(|(key, _)| *key == discovery.model_setting);
        configured.map_or(discovery.model, |(_, model)| model)
    }

    /// Returns the addresses to check: llama-server, Ollama and LM Studio on their usual ports.
    pub(crate) fn places(&self) -> Vec<LlamaConfig> {
        if self.local_servers {
            LlamaConfig::usual_places().into()
        } else {
            Vec::new()
        }
    }

    /// Returns all keys with their values, in order.
    pub(super) fn settings(&self) -> Vec<(&'static str, Value)> {
        let models = discoveries().map(|(_, discovery)| {
            let model = self.model_of(discovery).to_owned();
            (discovery.model_setting, Value::String(model))
        });
        let keys = std::iter::once((KEYS, Value::Boolean(self.keys)));
        let servers = (LOCAL_SERVERS, Value::Boolean(self.local_servers));
        keys.chain(models).chain([servers]).collect()
    }
}

/// Returns the variables that usually hold the keys of providers, in the order in which they are checked if no model is
/// configured, as a list in words: `A, B or C`.
#[must_use]
pub fn usual_key_variables() -> String {
    let names: Vec<&str> = discoveries().map(|(_, discovery)| discovery.key).collect();
    match names.as_slice() {
        [first @ .., before, last] => {
            let first: String = first.iter().map(|name| format!("{name}, ")).collect();
            format!("{first}{before} or {last}")
        }
        few => few.concat(),
    }
}

/// Returns the providers whose keys may be found, in the order in which they are checked.
pub(crate) fn discoveries() -> impl Iterator<Item = (Provider, KeyDiscovery)> {
    Provider::all().filter_map(|provider| Some((provider, provider.key_discovery()?)))
}

/// Returns the table entries for the address of a provider whose key is in its usual variable, if they differ from the
/// defaults. Servers that speak OpenAI's protocols, other than OpenAI and Azure, may only support the older one.
pub(crate) fn address_keys(
    provider: Provider,
    usual: KeyDiscovery,
    environment: &Environment,
) -> impl Iterator<Item = (&'static str, &str)> {
    let address = environment.filled(usual.base_url);
    let is_openai = provider == Provider::of::<OpenAiConfig>();
    let of_others = address.filter(|address| is_openai && !is_first_hand(address));
    let api = of_others.map(|_| ("api", "chat"));
    let address = address.map(|address| ("base_url", address));
    api.into_iter().chain(address)
}

fn is_first_hand(address: &str) -> bool {
    let mut config = OpenAiConfig::new("any");
    address.clone_into(&mut config.base_url);
    config.is_first_hand()
}

impl<'de> Deserialize<'de> for DiscoveryConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("DiscoveryConfig", &ALL_KEYS, DiscoveryVisitor)
    }
}

struct DiscoveryVisitor;

impl<'de> Visitor<'de> for DiscoveryVisitor {
    type Value = DiscoveryConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct DiscoveryConfig")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DiscoveryConfig, A::Error> {
        let mut config = DiscoveryConfig::default();
        while let Some(key) = map.next_key::<String>()? {
            match ALL_KEYS.iter().find(|known| **known == key) {
                Some(&KEYS) => config.keys = map.next_value()?,
                Some(&LOCAL_SERVERS) => config.local_servers = map.next_value()?,
                Some(model) => config.models.push((model, map.next_value()?)),
                None => return Err(A::Error::unknown_field(&key, &ALL_KEYS)),
            }
        }
        Ok(config)
    }
}
