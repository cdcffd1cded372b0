//! Chooses the models: the configured ones, or those that are available without any configuration.

mod configured;
mod endpoint;
mod found;
mod key;
mod local;
mod owner;

use std::collections::BTreeMap;

use neuraxis_cassette::{Cassette, Redactor};
use neuraxis_core::Role;
use neuraxis_ports::{ConnectError, Secret};

use crate::config::{Config, Origin};
use crate::environment::Environment;
use crate::providers::Provider;

pub use endpoint::{Endpoint, UnnamedModel};
pub use found::FoundKey;
pub(crate) use key::from_file as key_from_file;
pub(crate) use key::in_variable;
pub use key::{KeyError, KeySource};
pub use local::{LocalServer, Obstacle, SkippedServer};

/// Returns the model server that answers at one of these addresses, if any.
pub(crate) async fn local_servers(places: Vec<neuraxis_llama::LlamaConfig>) -> Option<LocalServer> {
    local::find(places).await.found.map(|(_, server)| server)
}

/// The models that serve, and why they were chosen.
#[derive(Debug)]
#[non_exhaustive]
pub struct Discovery {
    /// The models, by the roles they serve, or why a model cannot serve. Never empty.
    pub endpoints: BTreeMap<Role, Result<Endpoint, ModelError>>,
    /// Whether they were configured, found, or replace a missing model.
    pub choice: Choice,
    /// The usual addresses of model servers where an unusable program listens. Empty if they were not checked.
    pub skipped: Vec<SkippedServer>,
    /// The recordings that answer for some roles.
    pub(crate) cassettes: Vec<Cassette>,
}

/// Why models were chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// The configuration names them.
    Configured,
    /// Nothing is configured, and the key of this provider is in its usual variable.
    Key(FoundKey),
    /// Nothing is configured, and this server on this machine answers.
    Found(LocalServer),
    /// Nothing is configured, and nothing usable was found.
    Offline {
        /// The variables with keys that are only used if a configuration says so.
        keys: Vec<&'static str>,
    },
}

impl Discovery {
    /// Returns what a user should know about the choice, as one line each.
    pub fn notices(&self) -> impl Iterator<Item = String> + '_ {
        let skipped = self.skipped.iter().map(SkippedServer::to_string);
        self.choice.notice().into_iter().chain(skipped)
    }
}

impl Choice {
    /// Returns what a user should know about why these models were chosen.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Configured => None,
            Self::Key(found) => Some(format!("no model configured: using {found}")),
            Self::Found(server) => Some(format!("no model configured: using {server}")),
            Self::Offline { keys } => Some(offline(keys)),
        }
    }
}

/// Returns what to do if there is no model.
fn offline(keys: &[&str]) -> String {
    let what = "no model configured: answering offline, by rules";
    match keys {
        [] => {
            let usual = crate::config::usual_key_variables();
            format!("{what} (export {usual}, or run `neuraxis setup`)")
        }
        keys => {
            let keys = keys.join(" and ");
            format!("{what} ({keys} is set: `neuraxis setup` configures a model for it)")
        }
    }
}

/// Why a configured model cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Its key is unavailable.
    #[error("models.{role}: {source}")]
    Key {
        /// The role.
        role: Role,
        /// What is missing: a variable, a file, or a key in it.
        source: KeyError,
    },
    /// The variable for a secret header is not set.
    #[error(
        "models.{role}: the environment variable {variable} for the header {header} is not set"
    )]
    Header {
        /// The role.
        role: Role,
        /// The variable; hidden if it may be a key.
        variable: String,
        /// The header; hidden if it may be a key.
        header: String,
    },
    /// The address that a variable names, or a key in it, cannot be used.
    #[error("{source}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// What is wrong with the address or the key.
        source: ConnectError,
    },
    /// The table contradicts itself, its server cannot be used, or its recording cannot be replayed.
    #[error("models.{role}: {source}")]
    Connect {
        /// The role.
        role: Role,
        /// The provider.
        provider: Provider,
        /// What is wrong with the table, its server or its recording.
        source: ConnectError,
    },
    /// No model is named, and the provider has no default.
    #[error("models.{role}: no model is named: set model to one that `neuraxis models` lists")]
    NoModel {
        /// The role.
        role: Role,
        /// The provider, which can list its models.
        server: Box<UnnamedModel>,
    },
}

impl ModelError {
    /// Returns where the faulty setting comes from.
    #[must_use]
    pub fn origin(&self, config: &Config) -> Origin {
        let (role, key) = match self {
            Self::Key { role, source } => (role, source.key()),
            Self::Header { role, .. } => (role, "headers_env"),
            Self::Connect { role, source, .. } => (role, source.key()),
            Self::NoModel { role, .. } => (role, "provider"),
            Self::Variable { variable, .. } => return Origin::Variable((*variable).to_owned()),
        };
        config.origin_around(&format!("models.{role}.{key}"))
    }
}

/// Returns a redactor for everything that no output may contain: the configured keys of models and those in the usual
/// variables, the key of the search service, secrets for MCP servers, credentials for spans, the password of the
/// database, and matches of the patterns of `[telemetry]`.
#[must_use]
pub fn secrets_of(config: &Config, environment: &Environment) -> Redactor {
    let patterns = config.telemetry().redact.iter();
    Redactor::new(secrets(config, environment).iter().map(Secret::expose))
        .with_patterns(patterns.map(|pattern| pattern.0.clone()))
}

fn secrets(config: &Config, environment: &Environment) -> Vec<Secret> {
    let mut secrets = configured::secrets(config.models(), environment);
    secrets.extend(found::secrets(environment));
    secrets.extend(crate::web::secret(config, environment));
    secrets.extend(crate::secrecy::secrets(config, environment));
    secrets.extend(config.mcp().secrets(environment));
    secrets
}

/// Chooses the models. If none are configured, uses a provider whose key is in the environment; without a key, a model
/// server on this machine; and without a server, built-in rules.
pub async fn discover(config: &Config, environment: &Environment) -> Discovery {
    if config.models().is_empty() {
        found::find(config.discovery(), environment).await
    } else {
        let known = secrets(config, environment);
        let redactor = secrets_of(config, environment);
        configured::all(config.models(), environment, &known, redactor)
    }
}
