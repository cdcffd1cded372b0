//! Chooses the models: those that are configured, or what there is without any configuration.

mod key;
mod local;

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::Role;
use neuraxis_llama::{EndpointError, LlamaClient, LlamaConfig};
use neuraxis_offline::OfflineModel;
use neuraxis_ports::LlmClient;

use crate::config::{DiscoveryConfig, ModelConfig};
use crate::environment::Environment;
use crate::names::{Choices, shown};

pub use key::KeyError;
pub use local::LocalServer;

/// The providers that this build has.
const PROVIDERS: &[&str] = &["llama", "offline"];

/// The models that serve, and why these.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Discovery {
    /// The models, by the roles they serve. Never empty.
    pub models: BTreeMap<Role, Arc<dyn LlmClient>>,
    /// Why these.
    pub choice: Choice,
}

/// Why models were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// The configuration says so.
    Configured,
    /// Nothing is configured, and this server answers on this machine.
    Found(LocalServer),
    /// Nothing is configured, and nothing else was found.
    Offline,
}

impl Choice {
    /// Returns what a user should know about it.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Configured => None,
            Self::Found(server) => Some(format!("no model configured: using {server}")),
            Self::Offline => Some(
                "no model configured: answering offline, by rules (set [models.reasoning] in neuraxis.toml)".to_owned(),
            ),
        }
    }
}

/// Why a configured model cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// It is not said who has the model.
    #[error("the key \"provider\" is missing in [models.{role}]; supported: {}", PROVIDERS.join(", "))]
    NoProvider {
        /// The role.
        role: Role,
    },
    /// This build has no such provider.
    #[error(
        "models.{role}.provider: this build has no provider \"{given}\"{}",
        Choices { given, known: PROVIDERS }
    )]
    UnsupportedProvider {
        /// The role.
        role: Role,
        /// The provider, cut and escaped.
        given: String,
    },
    /// Its key cannot be had.
    #[error("models.{role}: {source}")]
    Key {
        /// The role.
        role: Role,
        /// Why not.
        source: KeyError,
    },
    /// Its address cannot be used.
    #[error("models.{role}.base_url: {source}")]
    Address {
        /// The role.
        role: Role,
        /// Why not.
        source: EndpointError,
    },
}

impl ModelError {
    /// Returns the dotted path of the key that is wrong.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::NoProvider { role } => format!("models.{role}"),
            Self::UnsupportedProvider { role, .. } => format!("models.{role}.provider"),
            Self::Key { role, source } => format!("models.{role}.{}", source.key()),
            Self::Address { role, .. } => format!("models.{role}.base_url"),
        }
    }
}

/// Chooses the models. Without any that are configured, a model server on this machine serves, and without one
/// [`OfflineModel`].
///
/// # Errors
///
/// A [`ModelError`] that names the role and what is wrong with its section.
pub async fn discover(
    models: &BTreeMap<Role, ModelConfig>,
    discovery: &DiscoveryConfig,
    environment: &Environment,
) -> Result<Discovery, ModelError> {
    if !models.is_empty() {
        let configured = models.iter().map(|(role, model)| {
            let client = client(role, model, environment)?;
            Ok((role.clone(), client))
        });
        return Ok(Discovery {
            models: configured.collect::<Result<_, _>>()?,
            choice: Choice::Configured,
        });
    }
    let (model, choice) = match local::find(discovery.places()).await {
        Some((client, server)) => (client, Choice::Found(server)),
        None => (offline(), Choice::Offline),
    };
    Ok(Discovery {
        models: BTreeMap::from([(Role::REASONING, model)]),
        choice,
    })
}

fn client(
    role: &Role,
    model: &ModelConfig,
    environment: &Environment,
) -> Result<Arc<dyn LlmClient>, ModelError> {
    match model.provider.as_deref() {
        None => Err(ModelError::NoProvider { role: role.clone() }),
        Some("offline") => Ok(offline()),
        Some("llama") => llama(role, model, environment),
        Some(given) => Err(ModelError::UnsupportedProvider {
            role: role.clone(),
            given: shown(given),
        }),
    }
}

fn llama(
    role: &Role,
    model: &ModelConfig,
    environment: &Environment,
) -> Result<Arc<dyn LlmClient>, ModelError> {
    let mut config = LlamaConfig::default();
    config.base_url = model.base_url.clone().unwrap_or(config.base_url);
    config.server = model.server.unwrap_or(config.server);
    config.model.clone_from(&model.model);
    config.context_tokens = model.context_tokens;
    config.timeouts = model.timeouts.unwrap_or(config.timeouts);
    config.api_key = key::of(model, environment).map_err(|source| ModelError::Key {
        role: role.clone(),
        source,
    })?;
    let client = LlamaClient::new(config).map_err(|source| ModelError::Address {
        role: role.clone(),
        source,
    })?;
    Ok(Arc::new(client))
}

fn offline() -> Arc<dyn LlmClient> {
    Arc::new(OfflineModel::new())
}
