//! The sessions that are kept.

use std::sync::Arc;

use neuraxis_core::{Remembered, SessionId};
use neuraxis_ports::{SessionStore, StoreError};

/// The sessions of a store. Cloning shares the store.
#[derive(Debug, Clone)]
pub struct Sessions {
    pub(crate) store: Arc<dyn SessionStore>,
}

impl Sessions {
    /// The sessions of a store.
    #[must_use]
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self { store }
    }

    /// Returns what people allowed for a session, in the order in which they did.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no such session or the store cannot tell.
    pub async fn remembered(&self, session: &SessionId) -> Result<Remembered, StoreError> {
        self.store.remembered(session).await
    }

    /// Takes back what a person allowed for a session; tells whether there was such an answer. The next call that it would
    /// have let run asks again, that of a run at work included.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if there is no such session or the store could not do its part.
    pub async fn revoke(&self, session: &SessionId, answer: u32) -> Result<bool, StoreError> {
        self.store.revoke(session, answer).await
    }
}
