//! What serves if no model is configured: a key in its usual variable, a model server on this machine, or built-in
//! rules.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use neuraxis_core::Role;
use neuraxis_llama::LlamaConfig;
use neuraxis_offline::{OfflineConfig, OfflineModel};
use neuraxis_ports::{
    ConnectContext, ConnectError, KeyDiscovery, LlmClient, ModelSource, Secret, Shared,
};
use toml::Value;

use super::endpoint::Endpoint;
use super::key::{self, KeySource};
use super::local::{self, Search};
use super::{Choice, Discovery, ModelError};
use crate::candidates::keys_to_configure;
use crate::config::DiscoveryConfig;
use crate::config::discovery::{address_keys, discoveries};
use crate::config::secret::without_secrets;
use crate::environment::Environment;
use crate::names::shown;
use crate::providers::Provider;

/// A provider whose key was found in its usual variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundKey {
    /// The provider.
    pub provider: Provider,
    /// The model that is used.
    pub model: String,
    /// The variable that holds the key.
    pub variable: &'static str,
    /// Its address without potential secrets, if a variable sets it.
    pub address: Option<String>,
}

impl fmt::Display for FoundKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = shown(&self.model);
        write!(f, "{}/{model}", self.provider)?;
        if let Some(address) = &self.address {
            write!(f, " at {address}")?;
        }
        write!(f, " with the key in {}", self.variable)
    }
}

/// Finds a model for the role that all others fall back to.
pub(super) async fn find(discovery: &DiscoveryConfig, environment: &Environment) -> Discovery {
    if let Some(found) = by_key(discovery, environment) {
        return found;
    }
    let search = local::find(discovery.places()).await;
    by_search(search, keys_to_configure(environment))
}

fn by_search(search: Search, keys: Vec<&'static str>) -> Discovery {
    let Search { found, skipped } = search;
    let chosen = match found {
        Some((client, server)) => {
            let address = Some(server.base_url.clone());
            let endpoint = keyless::<LlamaConfig>(client, address);
            only(Ok(endpoint), Choice::Found(server))
        }
        None => {
            let endpoint = keyless::<OfflineConfig>(Arc::new(OfflineModel::new()), None);
            only(Ok(endpoint), Choice::Offline { keys })
        }
    };
    Discovery { skipped, ..chosen }
}

/// Returns the keys in the usual variables, whether they are used or not.
pub(super) fn secrets(environment: &Environment) -> impl Iterator<Item = Secret> + '_ {
    discoveries().filter_map(|(_, discovery)| key::in_variable(discovery.key, environment))
}

/// Connects to the first provider whose key is in its usual variable.
fn by_key(discovery: &DiscoveryConfig, environment: &Environment) -> Option<Discovery> {
    if !discovery.keys {
        return None;
    }
    discoveries().find_map(|(provider, usual)| {
        let key = key::in_variable(usual.key, environment)?;
        let model = discovery.model(provider)?.to_owned();
        Some(with_key(provider, usual, key, model, environment))
    })
}

fn with_key(
    provider: Provider,
    usual: KeyDiscovery,
    key: Secret,
    model: String,
    environment: &Environment,
) -> Discovery {
    let endpoint = connect(provider, usual, key, &model, environment);
    let found = FoundKey {
        provider,
        model,
        variable: usual.key,
        address: environment.filled(usual.base_url).map(without_secrets),
    };
    only(endpoint, Choice::Key(found))
}

fn connect(
    provider: Provider,
    usual: KeyDiscovery,
    key: Secret,
    model: &str,
    environment: &Environment,
) -> Result<Endpoint, ModelError> {
    let keys = address_keys(provider, usual, environment).chain([("model", model)]);
    let keys = keys.map(|(name, value)| (name.to_owned(), Value::from(value)));
    let role = Role::REASONING;
    let wrong = |source: ConnectError| match source.key() {
        "base_url" => ModelError::Variable {
            variable: usual.base_url,
            source,
        },
        "headers" | "api_key_env" => ModelError::Variable {
            variable: usual.key,
            source,
        },
        _ => ModelError::Connect {
            role: Role::REASONING,
            provider,
            source,
        },
    };
    let config = provider.read(role.as_str(), &keys.collect());
    let config = config.map_err(|error| wrong(ConnectError::new("provider", error)))?;
    let ctx = ConnectContext {
        role: &role,
        key: Some(key),
        headers: Vec::new(),
        secrets: &[],
        shared: &Shared::default(),
    };
    let connection = config.connect(&ctx).map_err(wrong)?;
    let client = connection.client.ok_or_else(|| {
        let missing = "no model is named for a key that is found without configuration";
        wrong(ConnectError::new("model", missing))
    })?;
    Ok(Endpoint {
        role,
        address: config.base_url().map(without_secrets),
        key: KeySource::Variable(usual.key.to_owned()),
        provider,
        client,
        source: connection.source,
    })
}

/// Returns the endpoint of a client that needs no key.
fn keyless<P: neuraxis_ports::Provider>(
    client: Arc<impl LlmClient + ModelSource>,
    address: Option<String>,
) -> Endpoint {
    Endpoint {
        role: Role::REASONING,
        address,
        key: KeySource::None,
        provider: Provider::of::<P>(),
        client: Arc::clone(&client) as Arc<dyn LlmClient>,
        source: client,
    }
}

fn only(endpoint: Result<Endpoint, ModelError>, choice: Choice) -> Discovery {
    Discovery {
        endpoints: BTreeMap::from([(Role::REASONING, endpoint)]),
        choice,
        skipped: Vec::new(),
        cassettes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::{Obstacle, SkippedServer};

    #[test]
    fn skipped_servers_are_reported_after_the_model_in_use() {
        let skipped = SkippedServer {
            address: "127.0.0.1:8080".to_owned(),
            obstacle: Obstacle::WantsKey,
        };
        let discovery = by_search(
            Search {
                found: None,
                skipped: vec![skipped],
            },
            Vec::new(),
        );
        let notices: Vec<String> = discovery.notices().collect();
        assert_eq!(
            notices,
            [
                "no model configured: answering offline, by rules (export OPENAI_API_KEY, DEEPSEEK_API_KEY or ANTHROPIC_API_KEY, or run `neuraxis setup`)",
                "127.0.0.1:8080 answers, but requires a key: set provider, base_url and api_key_env in \
                 [models.reasoning]",
            ]
        );
    }
}
