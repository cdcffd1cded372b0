//! The configuration section `[store]`, as far as it concerns databases.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use neuraxis_ports::RunBounds;
use serde::{Deserialize, Deserializer};

use crate::database::{file_of, shown};
use crate::log_copy::LogCopy;

/// A database and the guarantees it gives.
///
/// ```
/// use neuraxis_sql::{Durability, SqlConfig};
///
/// let config: SqlConfig = toml::from_str(r#"
///     url = "sqlite:///home/me/.local/share/neuraxis/sessions.db"
///     durability = "normal"
///     lease_ms = 10000
/// "#)?;
/// assert_eq!(config.durability, Durability::Normal);
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SqlConfig {
    /// `sqlite://PATH`, or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. A missing folder of a file is created.
    pub url: String,
    /// What survives a power cut: `full` or `normal`. Default: `full`.
    #[serde(default)]
    pub durability: Durability,
    /// How long a run stays with a process that no longer renews its lease, in milliseconds. Default: 30,000.
    #[serde(
        default = "default_lease",
        rename = "lease_ms",
        deserialize_with = "millis"
    )]
    pub lease: Duration,
    /// The maximum number of concurrent connections for reading; one more writes. Default: 8.
    #[serde(default = "default_max_connections")]
    pub max_connections: u32,
    /// How long to wait for a locked file or a silent server, in milliseconds. Default: 5,000.
    #[serde(
        default = "default_patience",
        rename = "patience_ms",
        deserialize_with = "millis"
    )]
    pub patience: Duration,
    /// Where the log is copied to as JSON Lines. Default: nowhere.
    #[serde(default)]
    pub log: Option<LogCopy>,
    /// Limits on the size of one run; not part of the section.
    #[serde(skip)]
    pub bounds: RunBounds,
    /// The maximum number of 4 KiB pages of a file; not part of the section. `None` leaves only the limit of the disk.
    #[serde(skip)]
    pub max_pages: Option<u32>,
    /// What to do with a database that has an older schema; not part of the section. Default: upgrade it.
    #[serde(skip)]
    pub older_schema: OlderSchema,
    /// What to do with a file that cannot be written here; not part of the section. Default: open it like any other.
    #[serde(skip)]
    pub unwritable_file: UnwritableFile,
}

impl SqlConfig {
    /// Returns the file if this is a SQLite database.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        file_of(&self.url)
    }

    /// Creates a configuration for the database at `url`, with defaults for everything else.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            durability: Durability::default(),
            lease: default_lease(),
            max_connections: default_max_connections(),
            patience: default_patience(),
            log: None,
            bounds: RunBounds::default(),
            max_pages: None,
            older_schema: OlderSchema::default(),
            unwritable_file: UnwritableFile::default(),
        }
    }
}

/// Leaves out the password.
impl fmt::Debug for SqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlConfig")
            .field("url", &shown(&self.url))
            .field("durability", &self.durability)
            .field("lease", &self.lease)
            .field("max_connections", &self.max_connections)
            .field("patience", &self.patience)
            .field("log", &self.log)
            .field("bounds", &self.bounds)
            .field("max_pages", &self.max_pages)
            .field("older_schema", &self.older_schema)
            .field("unwritable_file", &self.unwritable_file)
            .finish()
    }
}

/// What survives a crash or a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// Everything that was committed survives, even a power cut: each commit waits for the disk.
    #[default]
    Full,
    /// Everything that was committed survives a crash of this process. A power cut, or a crash of the database server,
    /// may lose the last commits, but never part of a commit and never one from the middle.
    Normal,
}

/// What to do with a database whose schema is older than this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OlderSchema {
    /// Upgrade it. Programs of older versions may refuse it from then on.
    #[default]
    Upgrade,
    /// Refuse it and leave it unchanged: for callers that only read.
    Refuse,
}

/// What to do with a SQLite file that cannot be written, such as a backup on a read-only disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnwritableFile {
    /// Open it like any other: this fails if SQLite must write for that, as it usually must.
    #[default]
    Open,
    /// Only read it; see [`SqlStore::is_read_only`](crate::SqlStore::is_read_only). If its log holds data and its folder
    /// can be written, SQLite may put the index of the log beside it. For callers that mostly read: what they write is
    /// refused.
    Read,
}

const fn default_lease() -> Duration {
    Duration::from_secs(30)
}

const fn default_max_connections() -> u32 {
    8
}

const fn default_patience() -> Duration {
    Duration::from_secs(5)
}

fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}
