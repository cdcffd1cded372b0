//! The models that the configuration names.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_cassette::{Cassette, CassetteConfig, CassetteError, Redactor};
use neuraxis_core::Role;
use neuraxis_deepseek::DeepSeekClient;
use neuraxis_llama::{LlamaClient, MaxConcurrent, Secret};
use neuraxis_offline::OfflineModel;
use neuraxis_openai::{ModelList, OpenAiClient, OpenAiError};

use super::endpoint::{Client, Endpoint};
use super::key::{self, KeySource};
use super::{Choice, Discovery, ModelError, UnnamedModel};
use crate::config::secret::{HIDDEN, is_variable_name, may_be_key, without_secrets};
use crate::config::{ModelConfig, Provider, ProviderConfig};
use crate::environment::Environment;

/// Makes a client for each role. What is wrong with one is no matter for the others.
pub(super) fn all(
    models: &BTreeMap<Role, ModelConfig>,
    environment: &Environment,
    redactor: Redactor,
) -> Discovery {
    let mut maker = Maker {
        environment,
        redactor,
        cassettes: Vec::new(),
        limits: Vec::new(),
    };
    let endpoints = models
        .iter()
        .map(|(role, model)| (role.clone(), maker.endpoint(role, model)))
        .collect();
    Discovery {
        endpoints,
        choice: Choice::Configured,
        passed_over: Vec::new(),
        cassettes: maker.cassettes.into_iter().map(|(_, open)| open).collect(),
    }
}

/// Returns all keys and secret headers that can be had.
pub(super) fn secrets(
    models: &BTreeMap<Role, ModelConfig>,
    environment: &Environment,
) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for model in models.values() {
        secrets.extend(key::of(model, environment).ok().and_then(|(key, _)| key));
        if let ProviderConfig::OpenAi(config) = &model.provider {
            let variables = config.headers_env.values();
            secrets.extend(variables.filter_map(|name| key::in_variable(name, environment)));
        }
    }
    secrets
}

struct Maker<'a> {
    environment: &'a Environment,
    redactor: Redactor,
    /// Roles that name the same recording share it: which exchanges were played is known to all.
    cassettes: Vec<(CassetteConfig, Cassette)>,
    /// Roles that name the same address and the same limit share it: it is there to spare the server.
    limits: Vec<(String, MaxConcurrent)>,
}

impl Maker<'_> {
    fn endpoint(&mut self, role: &Role, model: &ModelConfig) -> Result<Endpoint, ModelError> {
        let of_key = |source| ModelError::Key {
            role: role.clone(),
            source,
        };
        let (secret, key) = key::of(model, self.environment).map_err(of_key)?;
        let (client, address) = match &model.provider {
            ProviderConfig::OpenAi(config) => {
                let mut config = config.as_ref().clone();
                config.api_key = secret;
                let url = config.base_url.clone();
                self.share(&url, &mut config.max_concurrent);
                (self.openai(role, config, &key)?, Some(url))
            }
            ProviderConfig::DeepSeek(config) => {
                let mut config = config.as_ref().clone();
                config.api_key = secret;
                let url = config.base_url.clone();
                self.share(&url, &mut config.max_concurrent);
                let client = DeepSeekClient::new(config).map_err(|source| ModelError::Address {
                    role: role.clone(),
                    source,
                })?;
                (Client::DeepSeek(Arc::new(client)), Some(url))
            }
            ProviderConfig::Llama(config) => {
                let mut config = config.as_ref().clone();
                config.api_key = secret;
                let url = config.base_url.clone();
                self.share(&url, &mut config.max_concurrent);
                let client = LlamaClient::new(config).map_err(|source| ModelError::Address {
                    role: role.clone(),
                    source,
                })?;
                (Client::Llama(Arc::new(client)), Some(url))
            }
            ProviderConfig::Offline => (Client::Offline(Arc::new(OfflineModel::new())), None),
            ProviderConfig::Cassette(config) => (self.recorded(role, config)?, None),
        };
        // Only what is sent anywhere has a use for a key.
        let key = if address.is_some() {
            key
        } else {
            KeySource::None
        };
        Ok(Endpoint {
            role: role.clone(),
            address: address.map(|url| without_secrets(&url)),
            key,
            client,
        })
    }

    fn share(&mut self, url: &str, limit: &mut Option<MaxConcurrent>) {
        let Some(limit) = limit else { return };
        let mut shared = self.limits.iter();
        match shared.find(|(other, shared)| other == url && shared == limit) {
            Some((_, shared)) => *limit = shared.clone(),
            None => self.limits.push((url.to_owned(), limit.clone())),
        }
    }

    fn openai(
        &self,
        role: &Role,
        mut config: neuraxis_openai::OpenAiConfig,
        key: &KeySource,
    ) -> Result<Client, ModelError> {
        let of_role = |source| ModelError::OpenAi {
            role: role.clone(),
            source: without_keys(source),
        };
        let variable = |name: &str| {
            let value = key::in_variable(name, self.environment)?;
            Some(value.expose().to_owned())
        };
        config.read_secret_headers(variable).map_err(of_role)?;
        if config.model.trim().is_empty() {
            let address = without_secrets(&config.base_url);
            let server = UnnamedModel {
                provider: Provider::OpenAi,
                address,
                key: key.clone(),
                list: ModelList::new(config).map_err(of_role)?,
            };
            return Err(ModelError::NoModel {
                role: role.clone(),
                server: Box::new(server),
            });
        }
        let client = OpenAiClient::new(config).map_err(of_role)?;
        Ok(Client::OpenAi(Arc::new(client)))
    }

    fn recorded(&mut self, role: &Role, config: &CassetteConfig) -> Result<Client, ModelError> {
        let open = self.cassettes.iter().find(|(other, _)| other == config);
        let cassette = match open {
            Some((_, cassette)) => cassette.clone(),
            None => {
                let opened = self.open(config).map_err(|source| ModelError::Cassette {
                    role: role.clone(),
                    source: Box::new(source),
                })?;
                self.cassettes.push((config.clone(), opened.clone()));
                opened
            }
        };
        Ok(Client::Cassette(Arc::new(cassette.client(role.clone()))))
    }

    fn open(&self, config: &CassetteConfig) -> Result<Cassette, CassetteError> {
        Cassette::open(config, self.redactor.clone())
    }
}

/// Hides what may be a key that was written in the place of a name.
fn without_keys(error: OpenAiError) -> OpenAiError {
    match error {
        OpenAiError::NoVariable { variable, header } => OpenAiError::NoVariable {
            variable: match is_variable_name(&variable) {
                true => variable,
                false => HIDDEN.to_owned(),
            },
            header: match may_be_key(&header) {
                true => HIDDEN.to_owned(),
                false => header,
            },
        },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuraxis_core::LlmErrorKind;
    use neuraxis_testkit::{call_context, request};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::*;

    fn model(url: &str, limit: usize, total: &str) -> ModelConfig {
        let text =
            format!("base_url = '{url}'\nmax_concurrent = {limit}\ntimeouts.total = '{total}'");
        ModelConfig {
            provider: ProviderConfig::Llama(Box::new(toml::from_str(&text).unwrap())),
            api_key_env: None,
            api_key_file: None,
        }
    }

    #[tokio::test]
    async fn roles_at_the_same_address_share_a_limit_of_the_same_number() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (reached, first_is_there) = oneshot::channel();
        tokio::spawn(async move {
            // Nobody is ever answered.
            let first = listener.accept().await.unwrap();
            reached.send(()).unwrap();
            let second = listener.accept().await.unwrap();
            std::future::pending::<()>().await;
            drop((first, second));
        });
        let models = BTreeMap::from([
            (Role::REASONING, model(&url, 1, "1m")),
            (Role::ROUTER, model(&url, 1, "50ms")),
            (Role::CODING, model(&url, 2, "50ms")),
        ]);
        let environment = Environment::new(std::env::temp_dir());
        let discovery = all(&models, &environment, Redactor::new([""; 0]));
        let client = |role: Role| discovery.endpoints[&role].as_ref().unwrap().client();
        let first = client(Role::REASONING);
        let (request, ctx) = (request("hi"), call_context());
        let (same, context) = (request.clone(), ctx.clone());
        let holding = tokio::spawn(async move { first.respond(&same, &context).await });
        first_is_there.await.unwrap();
        for (role, shares) in [(Role::ROUTER, true), (Role::CODING, false)] {
            let client = client(role);
            let asked = client.respond(&request, &ctx);
            let error = tokio::time::timeout(Duration::from_secs(20), asked).await;
            let error = error.unwrap().unwrap_err();
            assert_eq!(error.kind, LlmErrorKind::Timeout);
            assert_eq!(error.message.contains("max_concurrent"), shares, "{error}");
        }
        holding.abort();
    }
}
