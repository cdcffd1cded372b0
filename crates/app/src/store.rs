//! Opens the store that the configuration names.

use std::sync::Arc;

use neuraxis_memory::MemoryStore;
use neuraxis_ports::SessionStore;
use neuraxis_sql::{OpenError, SqlStore};

use crate::app::BuildError;
use crate::config::Config;
use crate::names::shown;

/// The schemes of the stores that this build has.
pub(crate) const STORES: &str = "memory:, sqlite://PATH, postgres://USER@HOST/DATABASE";

/// A store that is open. A clone is another way to the same one.
#[derive(Debug, Clone)]
pub struct OpenStore {
    sessions: Arc<dyn SessionStore>,
    database: Option<SqlStore>,
}

impl OpenStore {
    /// Opens the store that the configuration names; a file is made with its folder if it is missing.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the place of the value that cannot be used, and what can.
    pub async fn open(config: &Config) -> Result<Self, BuildError> {
        let url = config.store().url();
        if config.store().is_in_memory() {
            return Ok(Self::in_memory());
        }
        // No more than the scheme is repeated: the rest may hold a password.
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        if !matches!(scheme, Some("sqlite" | "postgres" | "postgresql")) {
            return Err(BuildError::Store {
                at: config.origin("store.url"),
                scheme: scheme.map(shown),
            });
        }
        let opened = SqlStore::open(&config.store().database()).await;
        let database = opened.map_err(|source| match source {
            OpenError::LogCopy { .. } => BuildError::LogCopy {
                at: config.origin("store.log.folder"),
                source,
            },
            source => BuildError::Database {
                at: config.origin("store.url"),
                source,
            },
        })?;
        Ok(Self {
            sessions: Arc::new(database.clone()),
            database: Some(database),
        })
    }

    /// Makes a store that keeps nothing beyond the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self {
            sessions: Arc::new(MemoryStore::new()),
            database: None,
        }
    }

    /// Returns the store itself.
    #[must_use]
    pub fn sessions(&self) -> Arc<dyn SessionStore> {
        Arc::clone(&self.sessions)
    }

    /// Tells whether it keeps what it is given when the process has ended.
    #[must_use]
    pub const fn outlives_the_process(&self) -> bool {
        self.database.is_some()
    }

    /// Finishes what is being written and brings the file into order. Not needed for safety.
    pub async fn close(&self) {
        if let Some(database) = &self.database {
            database.close().await;
        }
    }
}
