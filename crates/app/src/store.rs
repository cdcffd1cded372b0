//! Opens the store that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuraxis_engine::{OrchestratorBuilder, Sessions};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{LiveFeed, SessionStore, StoreError};
use neuraxis_sql::{Contents, OlderSchema, OpenError, SqlStore};

use crate::app::BuildError;
use crate::config::{Config, Origin};
use crate::discover::secrets_of;
use crate::environment::Environment;
use crate::names::shown;

/// The schemes of the stores that this build has.
pub(crate) const STORES: &str = "memory:, sqlite://PATH, postgres://USER@HOST/DATABASE";

/// The module that warns as the database of a store is brought up to date: for whoever shows a person that and not the whole log.
pub const SCHEMA_MODULE: &str = "neuraxis_sql::schema";

/// A store that is open. A clone is another way to the same one.
#[derive(Debug, Clone)]
pub struct OpenStore {
    store: Arc<dyn SessionStore>,
    database: Option<SqlStore>,
    /// By which live events reach other processes; `None` where they are not passed on.
    live_feed: Option<Arc<dyn LiveFeed>>,
}

impl OpenStore {
    /// Opens the store that the configuration names, and brings an older schema up to date. A file is made if it is missing;
    /// its folder only if it is the user's data folder, since one that somebody named and that is not there may be a slip. A copy
    /// of its log is without the secrets that are known and what `[telemetry]` wants out.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the place of the value that cannot be used, and what can.
    pub async fn open(config: &Config, environment: &Environment) -> Result<Self, BuildError> {
        Self::opened(config, environment, OlderSchema::BroughtUpToDate).await
    }

    /// As [`open`](Self::open), for whoever only looks: a database with an older schema is not changed, beneath programs that may
    /// still use it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`OpenError::Older`] in a [`BuildError::Database`].
    pub async fn open_to_look(
        config: &Config,
        environment: &Environment,
    ) -> Result<Self, BuildError> {
        Self::opened(config, environment, OlderSchema::Refused).await
    }

    async fn opened(
        config: &Config,
        environment: &Environment,
        older_schema: OlderSchema,
    ) -> Result<Self, BuildError> {
        let url = config.store().url();
        let log = config.store().log.clone().map(|log| {
            let secrets = secrets_of(config, environment);
            log.redacted_by(move |line| secrets.text(line).into_owned())
        });
        if config.store().is_in_memory() {
            let store = MemoryStore::new();
            let Some(log) = log else {
                return Ok(Self::of_memory(store));
            };
            let copied = log.appender().map_err(|source| {
                let at = config.origin("store.log.folder");
                BuildError::LogCopy { at, source }
            })?;
            return Ok(Self::of_memory(store.on_commit(copied)));
        }
        // No more than the scheme is repeated: the rest may hold a password.
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        if !matches!(scheme, Some("sqlite" | "postgres" | "postgresql")) {
            return Err(BuildError::Store {
                at: config.origin("store.url"),
                scheme: scheme.map(shown),
            });
        }
        let mut database = config.store().database();
        database.log = log;
        database.older_schema = older_schema;
        let at = config.origin("store.url");
        let folder = database
            .file()
            .and_then(|file| file.parent().map(Path::to_owned));
        let is_missing = |folder: &PathBuf| !folder.as_os_str().is_empty() && !folder.is_dir();
        if let Some(folder) = folder.filter(|folder| at != Origin::Default && is_missing(folder)) {
            return Err(BuildError::StoreFolder { at, folder });
        }
        let opened = SqlStore::open(&database).await;
        let database = opened.map_err(|source| match source {
            OpenError::LogCopy { .. } => BuildError::LogCopy {
                at: config.origin("store.log.folder"),
                source,
            },
            source @ (OpenError::Locked { .. } | OpenError::Full { .. }) => {
                BuildError::DatabaseBusy { at, source }
            }
            source => BuildError::Database { at, source },
        })?;
        let live_feed = database.live_feed().filter(|_| config.store().live);
        Ok(Self {
            store: Arc::new(database.clone()),
            database: Some(database),
            live_feed: live_feed.map(|feed| Arc::new(feed) as _),
        })
    }

    /// Makes a store that keeps nothing beyond the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::of_memory(MemoryStore::new())
    }

    fn of_memory(store: MemoryStore) -> Self {
        Self {
            store: Arc::new(store),
            database: None,
            live_feed: None,
        }
    }

    /// Returns the sessions in it, and their runs: for whoever needs no engine.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.store())
    }

    /// Has an engine keep its sessions in it, and pass live events on by it.
    pub(crate) fn used_by(&self, builder: OrchestratorBuilder) -> OrchestratorBuilder {
        let feed = self.live_feed.iter().map(Arc::clone);
        feed.fold(builder.store(self.store()), OrchestratorBuilder::live_feed)
    }

    fn store(&self) -> Arc<dyn SessionStore> {
        Arc::clone(&self.store)
    }

    /// Looks whether a database is whole, can be read and takes records; `None` for a store in memory, which has nothing to
    /// look at.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] that names the file and what is wrong with it.
    pub async fn check(&self) -> Result<Option<Contents>, StoreError> {
        match &self.database {
            Some(database) => {
                let contents = database.check().await?;
                self.store.probe().await?;
                Ok(Some(contents))
            }
            None => Ok(None),
        }
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
