//! Chooses the models: those that are configured, or what there is without any configuration.

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
pub use local::{LocalServer, Obstacle, PassedOver};

/// Returns the model server that answers at one of these places, if one does.
pub(crate) async fn local_servers(places: Vec<neuraxis_llama::LlamaConfig>) -> Option<LocalServer> {
    local::find(places).await.found.map(|(_, server)| server)
}

/// The models that serve, and why these.
#[derive(Debug)]
#[non_exhaustive]
pub struct Discovery {
    /// The models, by the roles they serve, or why one cannot. Never empty.
    pub endpoints: BTreeMap<Role, Result<Endpoint, ModelError>>,
    /// Whether they were configured, found, or stand in for a model that is missing.
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
    /// Nothing is configured, and nothing else was found that could be used.
    Offline {
        /// The variables that hold keys which are only used where a configuration says so.
        keys: Vec<&'static str>,
    },
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
            Self::Offline { keys } => Some(offline(keys)),
        }
    }
}

/// Says what to do where there is no model.
fn offline(keys: &[&str]) -> String {
    let what = "no model configured: answering offline, by rules";
    match keys {
        [] => {
            let usual = crate::config::usual_key_variables().join(" or ");
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
    /// Its key cannot be had.
    #[error("models.{role}: {source}")]
    Key {
        /// The role.
        role: Role,
        /// What is missing: a variable, a file, or a key in it.
        source: KeyError,
    },
    /// A variable that is to hold a secret header is not set.
    #[error(
        "models.{role}: the environment variable {variable}, which is to hold the header {header}, is not set"
    )]
    Header {
        /// The role.
        role: Role,
        /// The variable; hidden where it may be a key.
        variable: String,
        /// The header; hidden where it may be a key.
        header: String,
    },
    /// The address that a variable names, or the key in one, cannot be used.
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
    /// No model is named, and the provider has none that would be meant by that.
    #[error("models.{role}: no model is named: set model to one that `neuraxis models` lists")]
    NoModel {
        /// The role.
        role: Role,
        /// The provider, which can be asked for its models.
        server: Box<UnnamedModel>,
    },
}

impl ModelError {
    /// Returns where what is wrong comes from.
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

/// Returns what takes out of a text what no output may hold: the keys of models, those that are configured and those in the
/// usual variables, what lets spans into a backend, the password of the database, and what the patterns of `[telemetry]`
/// match.
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

/// Chooses the models. Without any that are configured, a provider serves whose key is in the environment, without one a
/// model server on this machine, and without one rules do.
pub async fn discover(config: &Config, environment: &Environment) -> Discovery {
    if config.models().is_empty() {
        found::find(config.discovery(), environment).await
    } else {
        let known = secrets(config, environment);
        let redactor = secrets_of(config, environment);
        configured::all(config.models(), environment, &known, redactor)
    }
}
