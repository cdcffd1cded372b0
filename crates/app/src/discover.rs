//! Chooses the models: those that are configured, or what there is without any configuration.

mod configured;
mod endpoint;
mod found;
mod key;
mod local;
mod owner;
mod unnamed;

use std::collections::BTreeMap;

use neuraxis_cassette::{Cassette, CassetteError, Redactor};
use neuraxis_core::Role;
use neuraxis_llama::{EndpointError, Secret};
use neuraxis_openai::OpenAiError;

use crate::config::{Config, Origin};
use crate::environment::Environment;

pub use endpoint::{Endpoint, Offer, Readiness};
pub use found::FoundKey;
pub use key::{KeyError, KeySource};
pub use local::{LocalServer, Obstacle, PassedOver};
pub use unnamed::UnnamedModel;

/// The models that serve, and why these.
#[derive(Debug)]
#[non_exhaustive]
pub struct Discovery {
    /// The models, by the roles they serve, or why one cannot. Never empty.
    pub endpoints: BTreeMap<Role, Result<Endpoint, ModelError>>,
    /// Why these.
    pub choice: Choice,
    /// The usual places of model servers at which somebody listens who was of no use. Empty where nobody looked.
    pub passed_over: Vec<PassedOver>,
    /// The recordings that answer for some.
    pub(crate) cassettes: Vec<Cassette>,
}

/// Why models were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// The configuration says so.
    Configured,
    /// Nothing is configured, and the key of this provider is in its usual variable.
    Key(FoundKey),
    /// Nothing is configured, and this server answers on this machine.
    Found(LocalServer),
    /// Nothing is configured, and nothing else was found.
    Offline,
}

impl Discovery {
    /// Returns what a user should know about the choice, a line each.
    pub fn notices(&self) -> impl Iterator<Item = String> + '_ {
        let passed_over = self.passed_over.iter().map(PassedOver::to_string);
        self.choice.notice().into_iter().chain(passed_over)
    }
}

impl Choice {
    /// Returns what a user should know about it.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Configured => None,
            Self::Key(found) => Some(format!("no model configured: using {found}")),
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
    /// Its key cannot be had.
    #[error("models.{role}: {source}")]
    Key {
        /// The role.
        role: Role,
        /// Why not.
        source: KeyError,
    },
    /// Its address cannot be used.
    #[error("models.{role}: {source}")]
    Address {
        /// The role.
        role: Role,
        /// Why not.
        source: EndpointError,
    },
    /// The address that a variable names cannot be used.
    #[error("{source}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// Why not.
        source: EndpointError,
    },
    /// The section contradicts itself, or its server cannot be used.
    #[error("models.{role}: {source}")]
    OpenAi {
        /// The role.
        role: Role,
        /// Why not.
        source: OpenAiError,
    },
    /// No model is named, and the provider has none that would be meant by that.
    #[error("models.{role}: no model is named: set model to one that `neuraxis models` lists")]
    NoModel {
        /// The role.
        role: Role,
        /// The provider, which can be asked for its models.
        server: Box<UnnamedModel>,
    },
    /// The recording cannot be replayed.
    #[error("models.{role}: {source}")]
    Cassette {
        /// The role.
        role: Role,
        /// Why not.
        source: Box<CassetteError>,
    },
}

impl ModelError {
    /// Returns where what is wrong comes from.
    #[must_use]
    pub fn origin(&self, config: &Config) -> Origin {
        let (role, key) = match self {
            Self::Key { role, source } => (role, source.key()),
            Self::Address { role, source } => (role, key_of(source)),
            Self::OpenAi { role, source } => match source {
                OpenAiError::Endpoint(source) => (role, key_of(source)),
                OpenAiError::OnlyResponses { setting } => (role, *setting),
                OpenAiError::NoVariable { .. } | OpenAiError::UnreadHeader { .. } => {
                    (role, "headers_env")
                }
                _ => (role, "provider"),
            },
            Self::NoModel { role, .. } => (role, "provider"),
            Self::Cassette { role, .. } => (role, "file"),
            Self::Variable { variable, .. } => return Origin::Variable((*variable).to_owned()),
        };
        config.origin_around(&format!("models.{role}.{key}"))
    }
}

/// Returns the key of the section that is wrong.
const fn key_of(error: &EndpointError) -> &'static str {
    match error {
        EndpointError::CaFile { .. } => "ca_file",
        EndpointError::Proxy { .. } => "proxy",
        EndpointError::HeaderName(_) | EndpointError::HeaderValue(_) => "headers",
        _ => "base_url",
    }
}

/// Returns what takes the keys out of a text: those of configured models, and those in the usual variables.
#[must_use]
pub fn secrets_of(config: &Config, environment: &Environment) -> Redactor {
    let mut secrets = configured::secrets(config.models(), environment);
    secrets.extend(found::secrets(environment));
    Redactor::new(secrets.iter().map(Secret::expose))
}

/// Chooses the models. Without any that are configured, a provider serves whose key is in the environment, without one a
/// model server on this machine, and without one rules do.
pub async fn discover(config: &Config, environment: &Environment) -> Discovery {
    if config.models().is_empty() {
        found::find(config.discovery(), environment).await
    } else {
        let redactor = secrets_of(config, environment);
        configured::all(config.models(), environment, redactor)
    }
}
