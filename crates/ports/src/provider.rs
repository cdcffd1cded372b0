//! The port to whoever has models: what a provider tells of itself, reads from configuration and connects to.

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

/// A provider of models, as one table `[models.ROLE]` of a configuration describes it: a type whose fields are the keys of
/// that table, each documented with what it means, its unit and its default. Unknown keys are to be refused
/// (`#[serde(deny_unknown_fields)]`), and no key is ever a field that is written or read.
///
/// An adapter implements this for its configuration, and one list in `neuraxis-app` names it. That is all there is to a
/// provider: the keys, their checks, the messages about them and the commands that show models come with it.
///
/// Some keys mean the same in all providers, because what is known of them must hold for all: `base_url`, `proxy` and
/// `ca_file` say where a conversation and a key go, `headers_env` which variables are sent, and `max_concurrent` and
/// `timeouts` what they say in each. `provider`, `api_key_env` and `api_key_file` belong to every table and to no provider.
pub trait Provider:
    Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The name by which a configuration chooses it, and by which records name its models.
    const NAME: &'static str;

    /// Whether a model answers, on this machine or elsewhere, or something that stands in for one.
    const KIND: ProviderKind;

    /// How it serves without any configuration, where it can.
    const KEY_DISCOVERY: Option<KeyDiscovery> = None;

    /// Returns the value of `base_url`; nothing where nothing is reached over a network. No key is sent anywhere else.
    fn base_url(&self) -> Option<&str>;

    /// Returns the key of the table that names a file, and the file: certificates (`ca_file`), or a recording (`file`). A
    /// relative one counts from the configuration file that names it; whoever reads that puts the whole path here.
    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)>;

    /// Returns `headers_env`: names of headers, and the environment variables that hold their secret values. Whoever
    /// connects reads those and hands them over in [`ConnectContext::headers`].
    fn secret_headers(&self) -> Option<&BTreeMap<String, String>> {
        None
    }

    /// Connects to what is described. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A [`ConnectError`] that names the key of the table which is wrong.
    fn connect(self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError>;
}

/// What answers for a provider, by which people are advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// The service of somebody else, which wants a key.
    Service,
    /// A server of the user's own, which mostly wants none.
    OwnServer,
    /// No model at all, but what this says, such as "rules answer, not a model".
    StandIn(&'static str),
}

/// How a provider serves without any configuration: its key is in the variable where it usually is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDiscovery {
    /// The variable that usually holds the key, such as `OPENAI_API_KEY`.
    pub key: &'static str,
    /// The variable that usually holds another address than the provider's own, such as `OPENAI_BASE_URL`.
    pub base_url: &'static str,
    /// The key of `[discovery]` that names another model, such as `openai_model`.
    pub model_setting: &'static str,
    /// The model that is asked if that names none.
    pub model: &'static str,
}

/// What a provider is given to connect with, besides its own keys.
#[derive(Debug)]
pub struct ConnectContext<'a> {
    /// The role that it is to serve.
    pub role: &'a Role,
    /// The key, if one is configured.
    pub key: Option<Secret>,
    /// The headers that [`Provider::secret_headers`] names, with their values.
    pub headers: Vec<(String, Secret)>,
    /// All secrets that are known, of whatever provider: to be taken out of what is shown or written.
    pub secrets: &'a [Secret],
    /// What the providers of one configuration share.
    pub shared: &'a Shared,
}

/// What the providers of one configuration share, such as a recording that several replay: one value of each type,
/// made when it is first asked for.
#[derive(Default)]
pub struct Shared(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Shared {
    /// Returns the value of a type, the same one for all who ask.
    #[must_use]
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // It is of that type: nothing else is ever put there.
        Arc::clone(value).downcast().unwrap_or_default()
    }
}

impl Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// What came of connecting.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The model that answers; nothing where the table names none and the provider has none that would be meant by that.
    pub client: Option<Arc<dyn LlmClient>>,
    /// Who can be asked what models there are.
    pub source: Arc<dyn ModelSource>,
}

impl Connection {
    /// Connects to a model whose client can be asked, too, what other models there are.
    pub fn new<T: LlmClient + ModelSource>(client: T) -> Self {
        let client = Arc::new(client);
        Self {
            client: Some(Arc::clone(&client) as Arc<dyn LlmClient>),
            source: client,
        }
    }

    /// Connects to a provider of which no model is named yet.
    pub fn unnamed(source: impl ModelSource) -> Self {
        Self {
            client: None,
            source: Arc::new(source),
        }
    }
}

/// Who can be asked what models there are. No model is asked anything, so that nothing is paid for.
#[async_trait]
pub trait ModelSource: Debug + Send + Sync + 'static {
    /// Asks what is on offer, within a time.
    ///
    /// # Errors
    ///
    /// An [`LlmError`], when nobody answers, the key is refused, or what answers is no model server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    async fn offer(&self, within: Duration) -> Result<Offer, LlmError>;

    /// Tells whether a name on offer is that of the model which is asked by the name `asked`.
    fn is_asked(&self, asked: &str, offered: &str) -> bool {
        asked == offered
    }

    /// Says what to do about an error of the model, where this provider knows more than what the kind of the error tells.
    /// `table` is the name of the table of the configuration, such as `models.reasoning`.
    fn advice(&self, error: &LlmError, table: &str) -> Option<String> {
        let _ = (error, table);
        None
    }
}

/// What a provider has on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// Whether it can answer yet.
    pub readiness: Readiness,
    /// The names of its models.
    pub models: Vec<String>,
    /// The context size of the model that is asked, in tokens, where known.
    pub context_tokens: Option<u64>,
}

impl Offer {
    /// Offers models that can answer.
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

/// Why a provider cannot be connected to as it is described. Never holds a secret.
#[derive(Debug)]
pub struct ConnectError {
    key: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl ConnectError {
    /// Blames a key of the table.
    pub fn new(key: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            key,
            source: source.into(),
        }
    }

    /// Returns the key of the table that is wrong.
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
    fn there_is_one_value_of_each_type() {
        let shared = Shared::default();
        shared.get::<AtomicUsize>().store(7, Ordering::Relaxed);
        assert_eq!(shared.get::<AtomicUsize>().load(Ordering::Relaxed), 7);
        assert!(shared.get::<String>().is_empty());
    }
}
