//! The configuration of the connection to a model server.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use neuraxis_ports::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::errors::ErrorRule;
use crate::timeouts::Timeouts;

/// The configuration of the connection to a model server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// The address to which routes are appended, such as `http://127.0.0.1:8080`.
    pub base_url: String,
    /// The API key.
    pub api_key: Option<Secret>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// Additional headers of each request: names and values. The values are kept secret.
    pub headers: Vec<(String, Secret)>,
    /// Additional headers of each request that are not secret, such as a version: names and values.
    pub plain_headers: Vec<(String, String)>,
    /// Query fields added to each address, such as a version: names and values.
    pub query: Vec<(String, String)>,
    /// The maximum number of replies received at the same time; unlimited if `None`. Further calls wait, no longer than
    /// a whole exchange may take.
    pub max_concurrent: Option<MaxConcurrent>,
    /// A PEM file of certificates to trust in addition to the machine's own.
    pub ca_file: Option<PathBuf>,
    /// The address of a proxy, without a password; `None` uses the proxy from the environment.
    pub proxy: Option<String>,
    /// The time limit for each part of an exchange.
    pub timeouts: Timeouts,
    /// How long an unused connection is kept. Must be shorter than the server keeps it, or requests meet closed
    /// connections.
    pub keep_idle: Duration,
    /// A program that closes the connection after each streamed reply without announcing it, given as the beginning of
    /// its `server` header. A request on such a connection may be lost, so connections are not reused unless the header
    /// names a different program.
    pub hangs_up_after_streams: Option<&'static str>,
    /// The meanings of the server's errors, which are checked before the common rules.
    pub errors: &'static [ErrorRule],
}

impl EndpointConfig {
    /// Creates a configuration with only the address set.
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
    /// Unchanged, in a header of this name.
    Named(String),
}

/// The maximum number of replies received at the same time. Copies share the limit, so it can apply to several
/// endpoints together, such as those of one server.
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
    /// Creates a separate limit.
    #[must_use]
    pub fn new(count: NonZeroUsize) -> Self {
        let permits = count.get().min(Semaphore::MAX_PERMITS);
        Self {
            count,
            permits: Arc::new(Semaphore::new(permits)),
        }
    }

    /// Replaces a limit with an equal one that another model at the same address has in this process, so both share it.
    /// The limit protects the server, which may still be answering calls of a previous configuration.
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

/// The limits in use, with their addresses.
static SHARED: Mutex<Vec<SharedLimit>> = Mutex::new(Vec::new());

type SharedLimit = (String, NonZeroUsize, Weak<Semaphore>);

/// Compares only the number: a configuration is equal whichever limit it shares.
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
