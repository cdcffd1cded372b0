//! The port to model providers: how a provider describes itself, reads its configuration and connects.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use neuraxis_core::{LlmError, Role};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::llm::LlmClient;
use crate::secret::Secret;

/// A provider of models, as described by one `[models.ROLE]` table of a configuration: a type whose fields are the keys
/// of that table, each documented with its meaning, unit and default. Unknown keys must be refused
/// (`#[serde(deny_unknown_fields)]`), and an API key must never be a field that is serialized or deserialized.
///
/// An adapter implements this for its configuration, and one list in `neuraxis-app` names it. The configuration keys,
/// their checks, the messages about them and the commands that show models all follow from it. What else a new provider
/// may need, such as prices, is listed in `docs/models.md`.
///
/// Some keys have the same meaning in all providers, because what is known about them must hold for all. `base_url`,
/// `proxy` and `ca_file` decide where a conversation and a key go, and `headers_env` decides which variables are sent;
/// `max_concurrent` and `timeouts` mean the same for each. `provider`, `api_key_env` and `api_key_file` belong to every
/// table and to no provider.
pub trait Provider:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The name by which a configuration selects it, and by which records name its models.
    const NAME: &'static str;

    /// Whether a model answers, on this machine or elsewhere, or a stand-in for one.
    const KIND: ProviderKind;

    /// How it serves without any configuration, if it can.
    const KEY_DISCOVERY: Option<KeyDiscovery> = None;

    /// Returns the value of `base_url`; `None` if nothing is reached over a network. No key is sent anywhere else.
    fn base_url(&self) -> Option<&str>;

    /// Returns the key of the table that names a file, and the file: certificates (`ca_file`), or a recording (`file`).
    /// A relative path is relative to the configuration file that names it; the code that reads the configuration
    /// replaces it with the full path.
    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)>;

    /// Returns `headers_env`: names of headers, and the environment variables that hold their secret values. The caller
    /// of `connect` reads those and passes them in [`ConnectContext::headers`].
    fn secret_headers(&self) -> Option<&BTreeMap<String, String>> {
        None
    }

    /// Creates a connection from the description. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A [`ConnectError`] that names the wrong key of the table.
    fn connect(self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError>;
}

/// The kind of a provider, on which the advice to users depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// A third party's service, which requires a key.
    Service,
    /// The user's own server, which usually requires no key.
    OwnServer,
    /// Not a model, but what this text says, such as "rules answer, not a model".
    StandIn(&'static str),
}

/// How a provider serves without any configuration, with a key from its usual variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDiscovery {
    /// The variable that usually holds the key, such as `OPENAI_API_KEY`.
    pub key: &'static str,
    /// The variable that usually holds an address other than the provider's own, such as `OPENAI_BASE_URL`.
    pub base_url: &'static str,
    /// The key of `[discovery]` that selects another model, such as `openai_model`.
    pub model_setting: &'static str,
    /// The model to use if that key is not set.
    pub model: &'static str,
}

/// What a provider connects with, in addition to its own keys.
#[derive(Debug)]
pub struct ConnectContext<'a> {
    /// The role that it will serve.
    pub role: &'a Role,
    /// The key, if one is configured.
    pub key: Option<Secret>,
    /// The headers that [`Provider::secret_headers`] names, with their values.
    pub headers: Vec<(String, Secret)>,
    /// All known secrets, of every provider: to be removed from anything that is shown or written.
    pub secrets: &'a [Secret],
    /// What the providers of one configuration share.
    pub shared: &'a Shared,
}

/// What the providers of one configuration share, such as a recording that several replay: one value of each type,
/// created on first use.
#[derive(Default)]
pub struct Shared(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Shared {
    /// Returns the value of a type, the same one for every caller.
    #[must_use]
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // The value has that type: nothing else is ever stored under its id.
        Arc::clone(value).downcast().unwrap_or_default()
    }
}

impl Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// The result of connecting.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The client of the model; `None` if the table names no model and the provider has no default for that case.
    pub client: Option<Arc<dyn LlmClient>>,
    /// Lists the available models.
    pub source: Arc<dyn ModelSource>,
}

impl Connection {
    /// Creates a connection to a model whose client can also list other models.
    pub fn new<T: LlmClient + ModelSource>(client: T) -> Self {
        let client = Arc::new(client);
        Self {
            client: Some(Arc::clone(&client) as Arc<dyn LlmClient>),
            source: client,
        }
    }

    /// Creates a connection to a provider of which no model has been named yet.
    pub fn unnamed(source: impl ModelSource) -> Self {
        Self {
            client: None,
            source: Arc::new(source),
        }
    }
}

/// Lists the available models. No model is called, so this costs nothing.
#[async_trait]
pub trait ModelSource: Debug + Send + Sync + 'static {
    /// Asks which models are available, within a time limit.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if there is no answer, the key is refused, or the server is not a model server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError>;

    /// Returns whether the offered name denotes the model that is requested by the name `asked`.
    fn is_asked(&self, asked: &str, offered: &str) -> bool {
        asked == offered
    }

    /// Returns what to do about an error of the model, if this provider knows more than the kind of the error tells.
    /// `table` is the name of the configuration table, such as `models.reasoning`.
    fn advice(&self, error: &LlmError, table: &str) -> Option<String> {
        let _ = (error, table);
        None
    }
}

/// What a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedModels {
    /// Whether it can answer yet.
    pub readiness: Readiness,
    /// The names of its models.
    pub models: Vec<String>,
    /// The context size of the requested model, in tokens, if known.
    pub context_tokens: Option<u64>,
}

impl OfferedModels {
    /// Creates an offer of models that are ready to answer.
    #[must_use]
    pub const fn new(models: Vec<String>) -> Self {
        Self {
            readiness: Readiness::Ready,
            models,
            context_tokens: None,
        }
    }
}

/// Whether a provider can answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Requests are served.
    Ready,
    /// It is still loading its model.
    Loading,
}

/// Why a provider cannot be connected to as described. Never contains a secret.
#[derive(Debug)]
pub struct ConnectError {
    key: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl ConnectError {
    /// Creates an error about a key of the table.
    pub fn new(key: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            key,
            source: source.into(),
        }
    }

    /// Returns the wrong key of the table.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        self.key
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn there_is_one_shared_value_per_type() {
        let shared = Shared::default();
        shared.get::<AtomicUsize>().store(7, Ordering::Relaxed);
        assert_eq!(shared.get::<AtomicUsize>().load(Ordering::Relaxed), 7);
        assert!(shared.get::<String>().is_empty());
    }
}
