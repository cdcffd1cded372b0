//! How many replies may come in at the same time.

use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

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
    places: Arc<Semaphore>,
}

impl MaxConcurrent {
    /// Makes a limit of its own.
    #[must_use]
    pub fn new(count: NonZeroUsize) -> Self {
        let places = count.get().min(Semaphore::MAX_PERMITS);
        Self {
            count,
            places: Arc::new(Semaphore::new(places)),
        }
    }

    /// Waits for a place.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.places).acquire_owned().await
    }
}

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
