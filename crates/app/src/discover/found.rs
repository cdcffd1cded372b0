//! What serves when no model is configured: a key in the usual variable, a model server on this machine, or rules.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use neuraxis_core::Role;
use neuraxis_deepseek::{DeepSeekClient, DeepSeekConfig, Secret};
use neuraxis_offline::OfflineModel;
use neuraxis_openai::{OpenAiClient, OpenAiConfig, OpenAiError};

use super::endpoint::{Client, Endpoint};
use super::key::{self, KeySource};
use super::local::{self, Search};
use super::{Choice, Discovery, ModelError};
use crate::config::secret::without_secrets;
use crate::config::{DiscoveryConfig, Provider};
use crate::environment::Environment;
use crate::names::shown;

/// The variables that usually hold the keys and addresses of providers.
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const OPENAI_URL: &str = "OPENAI_BASE_URL";
const DEEPSEEK_KEY: &str = "DEEPSEEK_API_KEY";
const DEEPSEEK_URL: &str = "DEEPSEEK_BASE_URL";

/// A provider whose key was found in its usual variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundKey {
    /// The provider.
    pub provider: Provider,
    /// The model that is asked.
    pub model: String,
    /// The variable that holds the key.
    pub variable: &'static str,
    /// Where it answers, if a variable says so, without what may be a secret.
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
    if let Some((endpoint, choice)) = by_key(discovery, environment) {
        return only(endpoint, choice);
    }
    by_search(local::find(discovery.places()).await)
}

fn by_search(search: Search) -> Discovery {
    let Search { found, passed_over } = search;
    let chosen = match found {
        Some((client, server)) => {
            let address = Some(server.base_url.clone());
            let endpoint = endpoint(Client::Llama(client), address, KeySource::None);
            only(Ok(endpoint), Choice::Found(server))
        }
        None => {
            let client = Client::Offline(Arc::new(OfflineModel::new()));
            let endpoint = endpoint(client, None, KeySource::None);
            only(Ok(endpoint), Choice::Offline)
        }
    };
    Discovery {
        passed_over,
        ..chosen
    }
}

/// Returns the keys in the usual variables, whether they are used or not.
pub(super) fn secrets(environment: &Environment) -> impl Iterator<Item = Secret> + '_ {
    let variables = [OPENAI_KEY, DEEPSEEK_KEY].into_iter();
    variables.filter_map(|variable| key::in_variable(variable, environment))
}

type Found = (Result<Endpoint, ModelError>, Choice);

fn by_key(discovery: &DiscoveryConfig, environment: &Environment) -> Option<Found> {
    if !discovery.keys {
        return None;
    }
    let openai = key::in_variable(OPENAI_KEY, environment);
    let deepseek = || key::in_variable(DEEPSEEK_KEY, environment);
    match openai {
        Some(key) => Some(openai_with(key, discovery, environment)),
        None => deepseek().map(|key| deepseek_with(key, discovery, environment)),
    }
}

fn openai_with(key: Secret, discovery: &DiscoveryConfig, environment: &Environment) -> Found {
    let mut config = OpenAiConfig::new(&discovery.openai_model);
    let address = address(OPENAI_URL, environment);
    config.base_url = address.clone().unwrap_or(config.base_url);
    config.api_key = Some(key);
    let url = without_secrets(&config.base_url);
    let client = OpenAiClient::new(config).map_err(|source| match source {
        OpenAiError::Endpoint(source) => ModelError::Variable {
            variable: OPENAI_URL,
            source,
        },
        source => ModelError::OpenAi {
            role: Role::REASONING,
            source,
        },
    });
    let source = KeySource::Variable(OPENAI_KEY.to_owned());
    let made =
        client.map(|client| endpoint(Client::OpenAi(Arc::new(client)), Some(url.clone()), source));
    let found = FoundKey {
        provider: Provider::OpenAi,
        model: discovery.openai_model.clone(),
        variable: OPENAI_KEY,
        address: address.map(|_| url),
    };
    (made, Choice::Key(found))
}

fn deepseek_with(key: Secret, discovery: &DiscoveryConfig, environment: &Environment) -> Found {
    let mut config = DeepSeekConfig::new(&discovery.deepseek_model);
    let address = address(DEEPSEEK_URL, environment);
    config.base_url = address.clone().unwrap_or(config.base_url);
    config.api_key = Some(key);
    let url = without_secrets(&config.base_url);
    let client = DeepSeekClient::new(config).map_err(|source| ModelError::Variable {
        variable: DEEPSEEK_URL,
        source,
    });
    let source = KeySource::Variable(DEEPSEEK_KEY.to_owned());
    let made = client.map(|client| {
        endpoint(
            Client::DeepSeek(Arc::new(client)),
            Some(url.clone()),
            source,
        )
    });
    let found = FoundKey {
        provider: Provider::DeepSeek,
        model: discovery.deepseek_model.clone(),
        variable: DEEPSEEK_KEY,
        address: address.map(|_| url),
    };
    (made, Choice::Key(found))
}

/// Returns the address that a variable names.
fn address(variable: &str, environment: &Environment) -> Option<String> {
    let value = environment.variable(variable)?.to_str()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn endpoint(client: Client, address: Option<String>, key: KeySource) -> Endpoint {
    Endpoint {
        role: Role::REASONING,
        address,
        key,
        client,
    }
}

fn only(endpoint: Result<Endpoint, ModelError>, choice: Choice) -> Discovery {
    Discovery {
        endpoints: BTreeMap::from([(Role::REASONING, endpoint)]),
        choice,
        passed_over: Vec::new(),
        cassettes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::{Obstacle, PassedOver};

    #[test]
    fn what_was_passed_over_is_told_after_what_serves_instead() {
        let passed_over = PassedOver {
            address: "127.0.0.1:8080".to_owned(),
            obstacle: Obstacle::WantsKey,
        };
        let discovery = by_search(Search {
            found: None,
            passed_over: vec![passed_over],
        });
        let notices: Vec<String> = discovery.notices().collect();
        assert_eq!(
            notices,
            [
                "no model configured: answering offline, by rules (set [models.reasoning] in neuraxis.toml)",
                "127.0.0.1:8080 answers, but asks for a key: set provider, base_url and api_key_env in [models.reasoning]",
            ]
        );
    }
}
