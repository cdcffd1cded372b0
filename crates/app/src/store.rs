//! Opens the store that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuraxis_engine::{OrchestratorBuilder, Sessions};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{LiveFeed, SessionStore, StoreError};
use neuraxis_sql::{Contents, OlderSchema, OpenError, SqlStore, UnwritableFile};

use crate::app::{BuildError, hidden_store_file};
use crate::config::{Config, Origin};
use crate::discover::secrets_of;
use crate::environment::Environment;
use crate::names::shown;

/// The URL schemes that this build supports.
pub(crate) const STORES: &str = "memory:, sqlite://PATH, postgres://USER@HOST/DATABASE";

/// The module that logs a warning when the schema of a store's database is upgraded. Programs that do not show the
/// whole log can still show its warnings.
pub const SCHEMA_MODULE: &str = "neuraxis_sql::schema";

/// An open store. A clone refers to the same store.
#[derive(Debug, Clone)]
pub struct OpenStore {
    store: Arc<dyn SessionStore>,
    database: Option<SqlStore>,
    /// Delivers live events to other processes; `None` if they are not forwarded.
    live_feed: Option<Arc<dyn LiveFeed>>,
    /// The file that can only be read.
    read_only: Option<PathBuf>,
}

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To store sessions.
    Storing,
    /// To show what is stored, while programs of an older version may use it.
    Looking,
    /// To show what is stored, or to change it if that is possible.
    Reading,
}

impl OpenStore {
    /// Opens the configured store, and upgrades an older schema. Creates a missing file, but its folder only if that is
    /// the user's data folder, since another folder that does not exist may be a typo. The copy of the log excludes
    /// known secrets and whatever `[telemetry]` redacts.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the location of the unusable value and says what can be used.
    pub async fn open(config: &Config, environment: &Environment) -> Result<Self, BuildError> {
        Self::open_for(Purpose::Storing, config, environment).await
    }

    /// Like [`open`](Self::open), for programs that only read: a database with an older schema is not upgraded while
    /// other programs may still use it.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open), and [`OpenError::Older`] in a [`BuildError::Database`].
    pub async fn open_without_upgrade(
        config: &Config,
        environment: &Environment,
    ) -> Result<Self, BuildError> {
        Self::open_for(Purpose::Looking, config, environment).await
    }

    /// Like [`open`](Self::open), for commands about what is stored: a file that cannot be written, such as a backup on a
    /// read-only disk, is only read, and what would change it fails. If no store is configured, that includes the usual
    /// file in a data folder that cannot be written. [`read_only_notice`](Self::read_only_notice) tells the user.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    pub async fn open_to_read(
        config: &Config,
        environment: &Environment,
    ) -> Result<Self, BuildError> {
        Self::open_for(Purpose::Reading, config, environment).await
    }

    async fn open_for(
        purpose: Purpose,
        config: &Config,
        environment: &Environment,
    ) -> Result<Self, BuildError> {
        let mut database = config.store().database();
        let hidden = match purpose {
            Purpose::Reading => hidden_store_file(config, environment),
            Purpose::Storing | Purpose::Looking => None,
        };
        if let Some(file) = hidden.as_deref().and_then(Path::to_str) {
            database.url = format!("sqlite://{file}");
        }
        let log = config.store().log.clone().map(|log| {
            let secrets = secrets_of(config, environment);
            log.redacted_by(move |line| secrets.text(line).into_owned())
        });
        if config.store().is_in_memory() && hidden.is_none() {
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
        // Only the scheme is repeated: the rest may contain a password.
        let scheme = database.url.split_once(':').map(|(scheme, _)| scheme);
        if !matches!(scheme, Some("sqlite" | "postgres" | "postgresql")) {
            return Err(BuildError::Store {
                at: config.origin("store.url"),
                scheme: scheme.map(shown),
            });
        }
        database.log = log;
        if purpose == Purpose::Looking {
            database.older_schema = OlderSchema::Refuse;
        }
        if purpose == Purpose::Reading {
            database.unwritable_file = UnwritableFile::Read;
        }
        let file = database.file();
        let at = config.origin("store.url");
        let folder = file.as_deref().and_then(Path::parent).map(Path::to_owned);
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
        let read_only = file.filter(|_| database.is_read_only());
        let live_feed = database.live_feed().filter(|_| config.store().live);
        Ok(Self {
            store: Arc::new(database.clone()),
            database: Some(database),
            live_feed: live_feed.map(|feed| Arc::new(feed) as _),
            read_only,
        })
    }

    /// Creates a store that keeps nothing after the process ends.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::of_memory(MemoryStore::new())
    }

    fn of_memory(store: MemoryStore) -> Self {
        Self {
            store: Arc::new(store),
            database: None,
            live_feed: None,
            read_only: None,
        }
    }

    /// Returns a notice if it can only be read: which file it is and where that is configured.
    #[must_use]
    pub fn read_only_notice(&self, config: &Config) -> Option<String> {
        let file = self.read_only.as_ref()?.display();
        let at = config.origin("store.url");
        Some(format!(
            "{file} (store.url: {at}) or its folder cannot be written, so it is only read: nothing in it can be changed"
        ))
    }

    /// Returns the sessions in it, with their runs, for programs that need no engine.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.store())
    }

    /// Makes an engine keep its sessions in it, and forward live events through it.
    pub(crate) fn attach(&self, builder: OrchestratorBuilder) -> OrchestratorBuilder {
        let feed = self.live_feed.iter().map(Arc::clone);
        feed.fold(builder.store(self.store()), OrchestratorBuilder::live_feed)
    }

    fn store(&self) -> Arc<dyn SessionStore> {
        Arc::clone(&self.store)
    }

    /// Checks whether a database is intact, readable, and able to store records. `None` for a store in memory, which
    /// needs no check.
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

    /// Returns whether its content still exists after the process has ended.
    #[must_use]
    pub const fn is_persistent(&self) -> bool {
        self.database.is_some()
    }

    /// Finishes pending writes and closes the store cleanly. Not needed for data safety.
    pub async fn close(&self) {
        if let Some(database) = &self.database {
            database.close().await;
        }
    }
}
