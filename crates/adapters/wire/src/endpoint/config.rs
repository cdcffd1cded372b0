//! How a model server is reached.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use neuraxis_ports::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::errors::ErrorRule;
use crate::timeouts::Timeouts;

/// How a model server is reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// The address that routes are added to, such as `http://127.0.0.1:8080`.
    pub base_url: String,
    /// The key.
    pub api_key: Option<Secret>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// What else is sent with each request: names and values. The values are kept secret.
    pub headers: Vec<(String, Secret)>,
    /// What else is sent with each request and may be shown, such as a version: names and values.
    pub plain_headers: Vec<(String, String)>,
    /// What is added to each address as its query, such as a version: names and values.
    pub query: Vec<(String, String)>,
    /// How many replies may come in at the same time; any number if none is said. Who asks for more waits, no longer than a
    /// whole exchange may take.
    pub max_concurrent: Option<MaxConcurrent>,
    /// A file of certificates in PEM form that are trusted besides the machine's own.
    pub ca_file: Option<PathBuf>,
    /// The address of a proxy, without a password; what the environment names if none is said.
    pub proxy: Option<String>,
    /// How long each part of an exchange may take.
    pub timeouts: Timeouts,
    /// How long an unused connection is kept. Shorter than the server keeps it, or requests meet closed connections.
    pub keep_idle: Duration,
    /// A program that closes the connection after each streamed reply without saying so, by the beginning of its `server`
    /// header. A request on such a connection may be lost, so none is used again unless the header names another.
    pub hangs_up_after_streams: Option<&'static str>,
    /// What the server's errors mean, before what holds everywhere.
    pub errors: &'static [ErrorRule],
}

impl EndpointConfig {
    /// Describes a server of which only the address is known.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            key_header: KeyHeader::Bearer,
            headers: Vec::new(),
            plain_headers: Vec::new(),
            query: Vec::new(),
            max_concurrent: None,
            ca_file: None,
            proxy: None,
            timeouts: Timeouts::default(),
            keep_idle: Duration::from_secs(90),
            hangs_up_after_streams: None,
            errors: &[],
        }
    }
}

/// How a key is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyHeader {
    /// As a bearer token.
    Bearer,
    /// As it is, in a header of this name.
    Named(String),
}

/// How many replies may come in at the same time. Copies share the limit, so that it can hold for several endpoints
/// together: those of one server, say.
///
/// In configuration it is a whole number, 1 or more.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use neuraxis_wire::{EndpointConfig, MaxConcurrent};
///
/// let limit = MaxConcurrent::new(NonZeroUsize::MIN);
/// let mut first = EndpointConfig::new("http://127.0.0.1:8080");
/// let mut second = first.clone();
/// first.max_concurrent = Some(limit.clone());
/// second.max_concurrent = Some(limit);
/// ```
#[derive(Debug, Clone)]
pub struct MaxConcurrent {
    count: NonZeroUsize,
    permits: Arc<Semaphore>,
}

impl MaxConcurrent {
    /// Makes a limit of its own.
    #[must_use]
    pub fn new(count: NonZeroUsize) -> Self {
        let permits = count.get().min(Semaphore::MAX_PERMITS);
        Self {
            count,
            permits: Arc::new(Semaphore::new(permits)),
        }
    }

    /// Replaces a limit by one of the same number that another model at the same address has in this process, so that both share
    /// it: a limit is there to spare the server, which has to answer those of a former configuration besides.
    pub fn share(limit: &mut Option<Self>, base_url: &str) {
        let Some(limit) = limit else { return };
        let mut limits = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        limits.retain(|(_, _, permits)| permits.strong_count() > 0);
        let shared = limits.iter().find_map(|(other, count, permits)| {
            let is_same = other == base_url && *count == limit.count;
            is_same.then(|| permits.upgrade()).flatten()
        });
        if let Some(permits) = shared {
            limit.permits = permits;
        } else {
            let permits = Arc::downgrade(&limit.permits);
            limits.push((base_url.to_owned(), limit.count, permits));
        }
    }

    /// Waits for a permit.
    pub(super) async fn acquire(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.permits).acquire_owned().await
    }
}

/// The limits that are in use, with the addresses they hold for.
static SHARED: Mutex<Vec<SharedLimit>> = Mutex::new(Vec::new());

type SharedLimit = (String, NonZeroUsize, Weak<Semaphore>);

/// By the number alone: a configuration is the same whoever shares it.
impl PartialEq for MaxConcurrent {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count
    }
}

impl Eq for MaxConcurrent {}

impl Serialize for MaxConcurrent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.count.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MaxConcurrent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NonZeroUsize::deserialize(deserializer).map(Self::new)
    }
}
