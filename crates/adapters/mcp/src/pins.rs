//! Which definitions of tools were accepted: one that changes is not offered until somebody accepts it anew.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use neuraxis_core::ContentHash;

/// The accepted definitions of a server: their hashes, by the names that it gives its tools.
pub type Accepted = BTreeMap<String, ContentHash>;

/// Remembers which definitions were accepted. A server is known by its name and its
/// [identity](crate::McpServerConfig::identity).
pub trait Pins: Debug + Send + Sync + 'static {
    /// Returns what was accepted of a server; `None` if it was never used.
    ///
    /// # Errors
    ///
    /// Why that cannot be told, for people. No tool of the server is offered then.
    fn accepted(&self, server: &str, identity: ContentHash) -> Result<Option<Accepted>, String>;

    /// Remembers what is accepted of a server, in place of what was.
    ///
    /// # Errors
    ///
    /// Why it cannot be remembered, for people.
    fn accept(&self, server: &str, identity: ContentHash, accepted: Accepted)
    -> Result<(), String>;
}

/// Remembers for as long as the process lives.
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
