//! The models that are configured.

use std::collections::BTreeMap;

use neuraxis_cassette::{OpenCassettes, Redactor};
use neuraxis_core::Role;
use neuraxis_ports::{ConnectContext, Secret, Shared};

use super::endpoint::{Endpoint, UnnamedModel};
use super::key::{self, KeySource};
use super::{Choice, Discovery, ModelError};
use crate::config::ModelConfig;
use crate::config::secret::{HIDDEN, may_be_key, shown_variable, without_secrets};
use crate::environment::Environment;

/// Connects each role. A faulty one does not affect the others. `secrets` are all known secrets; `redactor` also
/// removes other matches where recordings are written.
pub(super) fn all(
    models: &BTreeMap<Role, ModelConfig>,
    environment: &Environment,
    secrets: &[Secret],
    redactor: Redactor,
) -> Discovery {
    let shared = Shared::default();
    shared.get::<OpenCassettes>().redact(redactor);
    let connect = |(role, model): (&Role, &ModelConfig)| {
        let endpoint = endpoint(role, model, environment, secrets, &shared);
        (role.clone(), endpoint)
    };
    Discovery {
        endpoints: models.iter().map(connect).collect(),
        choice: Choice::Configured,
        skipped: Vec::new(),
        cassettes: shared.get::<OpenCassettes>().all(),
    }
}

/// Returns all keys and secret headers that are available.
pub(super) fn secrets(
    models: &BTreeMap<Role, ModelConfig>,
    environment: &Environment,
) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for model in models.values() {
        secrets.extend(key::of(model, environment).ok().and_then(|(key, _)| key));
        let headers = model.provider.secret_headers();
        secrets.extend(headers.filter_map(|(_, name)| key::in_variable(name, environment)));
    }
    secrets
}

fn endpoint(
    role: &Role,
    model: &ModelConfig,
    environment: &Environment,
    secrets: &[Secret],
    shared: &Shared,
) -> Result<Endpoint, ModelError> {
    let (secret, key) = key::of(model, environment).map_err(|source| ModelError::Key {
        role: role.clone(),
        source,
    })?;
    let headers = model.provider.secret_headers().map(|(header, variable)| {
        let value = key::in_variable(variable, environment);
        let value = value.ok_or_else(|| no_variable(role, header, variable))?;
        Ok((header.to_owned(), value))
    });
    let ctx = ConnectContext {
        role,
        key: secret,
        headers: headers.collect::<Result<_, ModelError>>()?,
        secrets,
        shared,
    };
    let provider = model.provider.provider();
    let connected = model.provider.connect(&ctx);
    let connection = connected.map_err(|source| ModelError::Connect {
        role: role.clone(),
        provider,
        source,
    })?;
    let address = model.provider.base_url().map(without_secrets);
    // Only a model with an address needs a key.
    let key = match address {
        Some(_) => key,
        None => KeySource::None,
    };
    match connection.client {
        Some(client) => Ok(Endpoint {
            role: role.clone(),
            address,
            key,
            provider,
            client,
            source: connection.source,
        }),
        None => Err(ModelError::NoModel {
            role: role.clone(),
            server: Box::new(UnnamedModel {
                provider,
                address: address.unwrap_or_default(),
                key,
                source: connection.source,
            }),
        }),
    }
}

/// Returns the error with a potential key hidden that was written in the place of a name.
fn no_variable(role: &Role, header: &str, variable: &str) -> ModelError {
    let header = match may_be_key(header) {
        true => HIDDEN,
        false => header,
    };
    ModelError::Header {
        role: role.clone(),
        variable: shown_variable(variable).to_owned(),
        header: header.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuraxis_llama::LlamaConfig;
    use neuraxis_testkit::{call_context, request};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::*;
    use crate::providers::ProviderConfig;

    fn model(url: &str, limit: usize, total: &str) -> ModelConfig {
        let text =
            format!("base_url = '{url}'\nmax_concurrent = {limit}\ntimeouts.total = '{total}'");
        ModelConfig {
            provider: ProviderConfig::new(toml::from_str::<LlamaConfig>(&text).unwrap()),
            api_key_env: None,
            api_key_file: None,
        }
    }

    #[tokio::test]
    async fn roles_at_the_same_address_share_a_concurrency_limit_across_reloads() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (reached, first_is_there) = oneshot::channel();
        tokio::spawn(async move {
            // No request is ever answered.
            let first = listener.accept().await.unwrap();
            reached.send(()).unwrap();
            let second = listener.accept().await.unwrap();
            std::future::pending::<()>().await;
            drop((first, second));
        });
        let environment = Environment::new(std::env::temp_dir());
        let read = || {
            let models = BTreeMap::from([
                (Role::REASONING, model(&url, 1, "1m")),
                (Role::ROUTER, model(&url, 1, "50ms")),
                (Role::CODING, model(&url, 2, "50ms")),
            ]);
            all(&models, &environment, &[], Redactor::default())
        };
        let discovery = read();
        let client = |role: Role| discovery.endpoints[&role].as_ref().unwrap().client();
        let first = client(Role::REASONING);
        let (request, ctx) = (request("hi"), call_context());
        let (same, context) = (request.clone(), ctx.clone());
        let holding = tokio::spawn(async move { first.respond(&same, &context).await });
        first_is_there.await.unwrap();
        let reloaded = read();
        let again = reloaded.endpoints[&Role::ROUTER].as_ref().unwrap().client();
        for (client, shares) in [
            (client(Role::ROUTER), true),
            (again, true),
            (client(Role::CODING), false),
        ] {
            let asked = client.respond(&request, &ctx);
            let error = tokio::time::timeout(Duration::from_secs(20), asked).await;
            let error = error.unwrap().unwrap_err();
            assert_eq!(error.message.contains("max_concurrent"), shares, "{error}");
        }
        holding.abort();
    }
}
