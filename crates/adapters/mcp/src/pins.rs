//! Which tool definitions were accepted: a changed definition is not offered until it is accepted again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use neuraxis_core::ContentHash;

/// A server's accepted definitions: their hashes, by the server's names for its tools.
pub type Accepted = BTreeMap<String, ContentHash>;

/// Stores which definitions were accepted. A server is identified by its name and its
/// [identity](crate::McpServerConfig::identity).
pub trait Pins: Debug + Send + Sync + 'static {
    /// Returns a server's accepted definitions; `None` if the server was never used.
    ///
    /// # Errors
    ///
    /// Why they cannot be read, as text for users. No tool of the server is offered then.
    fn accepted(&self, server: &str, identity: ContentHash) -> Result<Option<Accepted>, String>;

    /// Stores a server's accepted definitions, replacing the previous ones.
    ///
    /// # Errors
    ///
    /// Why they cannot be stored, as text for users.
    fn accept(&self, server: &str, identity: ContentHash, accepted: Accepted)
    -> Result<(), String>;
}

/// Stores accepted definitions for the lifetime of the process.
#[derive(Debug, Default)]
pub struct MemoryPins(Mutex<BTreeMap<(String, String), Accepted>>);

impl MemoryPins {
    fn key(server: &str, identity: ContentHash) -> (String, String) {
        (server.to_owned(), identity.to_string())
    }
}

impl Pins for MemoryPins {
    fn accepted(&self, server: &str, identity: ContentHash) -> Result<Option<Accepted>, String> {
        let pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(pins.get(&Self::key(server, identity)).cloned())
    }

    fn accept(
        &self,
        server: &str,
        identity: ContentHash,
        accepted: Accepted,
    ) -> Result<(), String> {
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pins.insert(Self::key(server, identity), accepted);
        Ok(())
    }
}
