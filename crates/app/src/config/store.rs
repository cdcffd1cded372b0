//! The section `[store]`: where sessions are kept. `neuraxis-sql` documents what its keys mean for a database.

use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::jiff::{Span, SpanRelativeTo};
use neuraxis_core::whole_millis;
use neuraxis_sql::{Durability, LogCopy, SqlConfig};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};
use url::Url;

use crate::environment::Environment;

/// The store that keeps nothing after the process ends.
pub(crate) const IN_MEMORY: &str = "memory:";

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "sessions.db";

/// The shortest lease in milliseconds. The holder of a lease renews it three times within that time, and a busy machine
/// may take a while to do so.
const MIN_LEASE_MS: u64 = 1_000;

/// The shortest time that inactive sessions are kept: a user who sets minutes would lose sessions that are still in
/// use.
const MIN_KEEP: Duration = Duration::from_secs(3_600);

/// `[store]`: where sessions and records are kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StoreConfig {
    /// Which store: `memory:`, which keeps nothing after the process ends, a file as `sqlite://PATH`, or a server as
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Defaults to the file `sessions.db` in the user's data folder.
    pub url: Option<String>,
    /// What survives a power cut: `full` or `normal`. Defaults to `full`.
    pub durability: Durability,
    /// How long a run stays leased to a process that gives no sign of life, in milliseconds; at least 1,000. Defaults
    /// to 30,000.
    #[serde(deserialize_with = "lease")]
    pub lease_ms: u64,
    /// The maximum number of connections that read at the same time; one more writes. Defaults to 8.
    pub max_connections: u32,
    /// How long to wait for a locked file or an unresponsive server, in milliseconds. Defaults to 5,000.
    pub patience_ms: u64,
    /// Whether live text of runs reaches listeners at other servers on the same Postgres, through its notifications.
    /// Takes one more connection for each server and worker. Defaults to `true`; other stores forward nothing.
    pub live: bool,
    /// The file with the key that makes approvals valid, 64 hexadecimal digits; it must exist. Servers that share a
    /// database need the same one. Defaults to the file `approval.key` in the user's data folder, which is created if
    /// missing.
    pub approval_key_file: Option<PathBuf>,
    /// How long an inactive session is kept, such as `90d`; after that, servers delete it with all of its runs. By
    /// default, sessions are kept permanently.
    #[serde(deserialize_with = "age")]
    pub keep: Option<Duration>,
    /// The folder to which servers write a session as JSON Lines before they delete it because of its age, like
    /// `neuraxis sessions export` does. None by default.
    pub archive: Option<PathBuf>,
    /// `[store.log]`: where the log is copied as JSON Lines. None by default.
    pub log: Option<LogCopy>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        let database = SqlConfig::new(IN_MEMORY);
        Self {
            url: None,
            durability: database.durability,
            lease_ms: whole_millis(database.lease),
            max_connections: database.max_connections,
            patience_ms: whole_millis(database.patience),
            live: true,
            approval_key_file: None,
            keep: None,
            archive: None,
            log: None,
        }
    }
}

impl StoreConfig {
    /// Fills in the default place: the user's data folder, or nowhere if there is none that can be written.
    pub(super) fn in_place(mut self, environment: &Environment) -> Self {
        let file = Self::usual_file(environment).filter(|_| !environment.is_data_read_only());
        let file = file.as_deref().and_then(|file| file.to_str());
        let url = || file.map_or_else(|| IN_MEMORY.to_owned(), |file| format!("sqlite://{file}"));
        self.url.get_or_insert_with(url);
        self
    }

    /// Returns the file in the user's data folder that is the default store. It need not exist.
    pub(crate) fn usual_file(environment: &Environment) -> Option<PathBuf> {
        Some(environment.data_dir()?.join(FILE_NAME))
    }

    /// Returns the URL of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_deref().unwrap_or(IN_MEMORY)
    }

    /// Returns whether sessions end with the process.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.url() == IN_MEMORY
    }

    /// Returns the database settings for the adapter.
    pub(crate) fn database(&self) -> SqlConfig {
        let mut database = SqlConfig::new(self.url());
        database.durability = self.durability;
        database.lease = Duration::from_millis(self.lease_ms);
        database.max_connections = self.max_connections;
        database.patience = Duration::from_millis(self.patience_ms);
        database.log.clone_from(&self.log);
        database
    }

    /// Returns the files with which this process authenticates to Postgres, in the places where its driver looks for
    /// them: the key of its certificate, and passwords.
    pub(crate) fn key_files(&self, environment: &Environment) -> Vec<PathBuf> {
        let url = Url::parse(self.url()).ok();
        let Some(url) = url.filter(|url| matches!(url.scheme(), "postgres" | "postgresql")) else {
            return Vec::new();
        };
        let in_url = url.query_pairs();
        let in_url = in_url.filter(|(name, _)| matches!(&**name, "sslkey" | "ssl-key"));
        let in_url = in_url.map(|(_, file)| file.into_owned());
        let variables = ["PGSSLKEY", "PGPASSFILE"].into_iter();
        let variables = variables.filter_map(|name| environment.text(name));
        let named = in_url.chain(variables.map(str::to_owned));
        // The setting may contain the key itself instead of its file.
        let named = named.filter(|file| !file.is_empty() && !file.starts_with("-----BEGIN"));
        let named = named.map(|file| environment.working_dir().join(file));
        let usual = environment.home_dir().map(|home| home.join(".pgpass"));
        named.chain(usual).collect()
    }

    /// Returns the section in its written form, except the file of the approval key.
    pub(super) fn table(&self) -> Table {
        let durability = match self.durability {
            Durability::Normal => "normal",
            _ => "full",
        };
        let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let keys = [
            ("url", Value::String(self.url().to_owned())),
            ("durability", Value::String(durability.to_owned())),
            ("lease_ms", number(self.lease_ms)),
            ("max_connections", number(self.max_connections.into())),
            ("patience_ms", number(self.patience_ms)),
            ("live", Value::Boolean(self.live)),
        ];
        let log = self.log.iter().flat_map(|log| {
            [
                (
                    "log.folder",
                    Value::String(log.folder.display().to_string()),
                ),
                ("log.max_bytes", number(log.max_bytes)),
                ("log.files", number(log.files.into())),
            ]
        });
        let keep = self.keep.map(|keep| format!("{}s", keep.as_secs()));
        let archive = self.archive.as_ref();
        let archive = archive.map(|folder| folder.display().to_string());
        let retention = [("keep", keep), ("archive", archive)];
        let retention = retention
            .into_iter()
            .filter_map(|(key, value)| Some((key, Value::String(value?))));
        let keys = keys.into_iter().chain(retention).chain(log);
        keys.map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn lease<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let millis = u64::deserialize(deserializer)?;
    if millis < MIN_LEASE_MS {
        return Err(D::Error::custom("expected at least 1000 milliseconds"));
    }
    Ok(millis)
}

/// Reads an age with its unit; a day has 24 hours.
fn age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || D::Error::custom("expected an age of at least an hour, such as \"90d\"");
    let span: Span = text.parse().map_err(|_| wrong())?;
    let age = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let age = age.ok().and_then(|age| Duration::try_from(age).ok());
    let age = age.filter(|age| *age >= MIN_KEEP).ok_or_else(wrong)?;
    Ok(Some(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_store_is_a_file_in_the_data_folder_if_that_is_writable() {
        let user = Environment::new("/project").with_data_dir("/home/me/.local/share/neuraxis");
        let store = StoreConfig::default().in_place(&user);
        let expected = "sqlite:///home/me/.local/share/neuraxis/sessions.db";
        assert_eq!(store.url(), expected);
        assert!(!store.is_in_memory());

        let nobody = StoreConfig::default().in_place(&Environment::new("/project"));
        assert!(nobody.is_in_memory());

        let read_only = StoreConfig::default().in_place(&user.with_read_only_data());
        assert!(read_only.is_in_memory());
    }

    #[test]
    fn the_files_that_unlock_a_postgres_database_are_found() {
        let files = |url: &str, environment: &Environment| {
            let url = Some(url.to_owned());
            let store = StoreConfig {
                url,
                ..StoreConfig::default()
            };
            store.key_files(environment)
        };
        let user = Environment::new("/project")
            .with_home_dir("/home/me")
            .with_variable("PGSSLKEY", "-----BEGIN PRIVATE KEY-----")
            .with_variable("PGPASSFILE", "/run/secrets/pgpass");
        let expected = ["/project/db.key", "/run/secrets/pgpass", "/home/me/.pgpass"];
        let found = files("postgres://me@db/it?sslmode=require&sslkey=db.key", &user);
        assert_eq!(found, expected.map(PathBuf::from));
        assert_eq!(files("sqlite://it.db", &user), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_configured_store_url_is_used_together_with_its_other_keys() {
        let text = "url = 'sqlite://a.db'\ndurability = 'normal'\nlease_ms = 1000\nmax_connections = 2\npatience_ms = 7";
        let store: StoreConfig = toml::from_str(text).unwrap();
        let user = Environment::new("/project").with_data_dir("/data");
        let database = store.in_place(&user).database();
        assert_eq!(database.url, "sqlite://a.db");
        assert_eq!(database.durability, Durability::Normal);
        assert_eq!(database.lease, Duration::from_secs(1));
        assert_eq!(database.max_connections, 2);
        assert_eq!(database.patience, Duration::from_millis(7));
    }

    #[test]
    fn the_keep_age_needs_a_unit_and_must_not_be_too_short() {
        let store: StoreConfig = toml::from_str("keep = '90d'\narchive = 'old'").unwrap();
        assert_eq!(store.keep, Some(Duration::from_secs(90 * 86_400)));
        let table = store.table();
        assert_eq!(table["keep"].as_str(), Some("7776000s"));
        let again: StoreConfig = toml::from_str(&table.to_string()).unwrap();
        assert_eq!((again.keep, again.archive), (store.keep, store.archive));
        for wrong in ["keep = '90'", "keep = '5m'", "keep = '-90d'", "keep = 90"] {
            assert!(toml::from_str::<StoreConfig>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn live_text_is_enabled_by_default_and_can_be_turned_off() {
        assert!(StoreConfig::default().live);
        let store: StoreConfig = toml::from_str("live = false").unwrap();
        assert!(!store.live);
        assert_eq!(store.table()["live"].as_bool(), Some(false));
    }

    #[test]
    fn a_lease_below_one_second_is_refused() {
        let error = toml::from_str::<StoreConfig>("lease_ms = 999").unwrap_err();
        assert_eq!(error.message(), "expected at least 1000 milliseconds");
    }
}
