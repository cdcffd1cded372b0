//! Chooses the models: those that are configured, or what there is without any configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::Role;
use neuraxis_offline::OfflineModel;
use neuraxis_ports::LlmClient;

use crate::config::ModelConfig;
use crate::names::{Choices, shown};

/// The providers that this build has.
const PROVIDERS: &[&str] = &["offline"];

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice {
    /// The configuration says so.
    Configured,
    /// Nothing is configured, and nothing else was found.
    Offline,
}

impl Choice {
    /// Returns what a user should know about it.
    #[must_use]
    pub const fn notice(self) -> Option<&'static str> {
        match self {
            Self::Configured => None,
            Self::Offline => Some(
                "no model configured: answering offline, by rules (set [models.reasoning] in neuraxis.toml)",
            ),
        }
    }
}

/// Why a configured model cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
}

impl ModelError {
    /// Returns the dotted path of the key that is wrong.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::NoProvider { role } => format!("models.{role}"),
            Self::UnsupportedProvider { role, .. } => format!("models.{role}.provider"),
        }
    }
}

/// Chooses the models. Without any that are configured, [`OfflineModel`] serves.
///
/// # Errors
///
/// A [`ModelError`] that names the role and what is supported.
pub async fn discover(models: &BTreeMap<Role, ModelConfig>) -> Result<Discovery, ModelError> {
    if models.is_empty() {
        return Ok(Discovery {
            models: BTreeMap::from([(Role::REASONING, offline())]),
            choice: Choice::Offline,
        });
    }
    let configured = models.iter().map(|(role, model)| {
        let client = client(role, model)?;
        Ok((role.clone(), client))
    });
    Ok(Discovery {
        models: configured.collect::<Result<_, _>>()?,
        choice: Choice::Configured,
    })
}

fn client(role: &Role, model: &ModelConfig) -> Result<Arc<dyn LlmClient>, ModelError> {
    match model.provider.as_deref() {
        None => Err(ModelError::NoProvider { role: role.clone() }),
        Some("offline") => Ok(offline()),
        Some(given) => Err(ModelError::UnsupportedProvider {
            role: role.clone(),
            given: shown(given),
        }),
    }
}

fn offline() -> Arc<dyn LlmClient> {
    Arc::new(OfflineModel::new())
}
