//! Either database: how to connect to it, and where its SQL dialect differs.

#[cfg(feature = "sqlite")]
mod access;
#[cfg(feature = "postgres")]
mod borrowed;
mod file;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "postgres")]
pub(crate) use borrowed::BorrowedConnection;
pub(crate) use file::{FileIdentity, Header, path as file_of, tighten};

use std::time::Duration;

use neuraxis_ports::StoreError;
use sqlx::Error;
#[cfg(feature = "postgres")]
use sqlx::{PgPool, postgres::PgConnectOptions};
#[cfg(feature = "sqlite")]
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

use crate::config::SqlConfig;
use crate::error::{Failure, OpenError, cannot_open, is_full, is_locked};
use crate::lease_clock::LeaseClock;
use crate::link::{Link, Wire};
use crate::schema;

/// A database with a current schema.
#[derive(Debug)]
pub(crate) struct Database {
    /// How messages name the database: the file, or the server and the database, without user and password.
    pub(crate) place: String,
    pub(crate) dialect: Dialect,
    pub(crate) lease_clock: LeaseClock,
    patience: Duration,
    pools: Pools,
}

/// Which database's SQL to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

#[derive(Debug)]
enum Pools {
    #[cfg(feature = "sqlite")]
    Sqlite {
        writer: SqliteConnectOptions,
        readers: SqlitePool,
        access: access::Access,
    },
    #[cfg(feature = "postgres")]
    Postgres {
        writer: postgres::Server,
        readers: PgPool,
    },
    /// A pool that the rest of the program also uses.
    #[cfg(feature = "postgres")]
    Borrowed {
        writer: postgres::Server,
        pool: PgPool,
    },
}

impl Database {
    /// Connects and upgrades the schema.
    pub(crate) async fn open(config: &SqlConfig) -> Result<Self, OpenError> {
        Self::connect(config)?.with_current_schema(config).await
    }

    /// Uses the database of a pool, and the pool's connections.
    #[cfg(feature = "postgres")]
    pub(crate) async fn open_in_pool(pool: &PgPool, config: &SqlConfig) -> Result<Self, OpenError> {
        let database = postgres::in_pool(pool, config);
        database.with_current_schema(config).await
    }

    /// Upgrades the schema, unless the configuration refuses an older one.
    async fn with_current_schema(self, config: &SqlConfig) -> Result<Self, OpenError> {
        let database = self;
        // Another program's file must not be opened by SQLite at all.
        if let Some(header) = config.file().as_deref().and_then(file::header_of) {
            schema::recognize(&database.place, header)?;
            // A writing connection would change a file that is only read, such as a backup, and would fail on a
            // read-only disk. It is opened once there is something to write.
            if !database.is_read_only()
                && schema::is_current(&database, header, config.older_schema).await?
            {
                return Ok(database);
            }
        }
        if database.is_read_only() {
            return schema::readable(database).await;
        }
        let connected = database.writer().await;
        let mut link = connected.map_err(|error| database.not_opened(error))?;
        let migrated = schema::migrate(&database, &mut link, config.older_schema).await;
        // A connection that is only dropped closes later, perhaps after the store.
        link.close().await;
        migrated?;
        Ok(database)
    }

    /// Returns whether the database is a file that can only be read, and was opened for that.
    pub(crate) fn is_read_only(&self) -> bool {
        match &self.pools {
            #[cfg(feature = "sqlite")]
            Pools::Sqlite { access, .. } => *access != access::Access::Full,
            #[cfg(feature = "postgres")]
            Pools::Postgres { .. } | Pools::Borrowed { .. } => false,
        }
    }

    /// Returns whether the database is a file that cannot be written, however it was opened.
    fn is_unwritable(&self) -> bool {
        match &self.pools {
            #[cfg(feature = "sqlite")]
            Pools::Sqlite { writer, .. } => {
                let access = access::Access::of(writer.get_filename());
                !matches!(access, Ok(access::Access::Full))
            }
            #[cfg(feature = "postgres")]
            Pools::Postgres { .. } | Pools::Borrowed { .. } => false,
        }
    }

    /// Prepares to connect, whatever the version of the schema.
    pub(crate) fn connect(config: &SqlConfig) -> Result<Self, OpenError> {
        match scheme(&config.url) {
            #[cfg(feature = "sqlite")]
            Some(Dialect::Sqlite) => sqlite::prepare(config),
            #[cfg(feature = "postgres")]
            Some(Dialect::Postgres) => postgres::prepare(config),
            #[cfg(not(all(feature = "postgres", feature = "sqlite")))]
            Some(_) => Err(OpenError::NotBuilt {
                url: shown(&config.url),
            }),
            None => {
                let url = shown(&config.url);
                Err(OpenError::Url { url })
            }
        }
    }

    /// Returns which file is now at the path of the SQLite database; `None` for a server.
    pub(crate) fn file_identity(&self) -> Option<FileIdentity> {
        match &self.pools {
            #[cfg(feature = "sqlite")]
            Pools::Sqlite { writer, .. } => file::file_identity(writer.get_filename()),
            #[cfg(feature = "postgres")]
            Pools::Postgres { .. } | Pools::Borrowed { .. } => None,
        }
    }

    /// Opens a connection that may write.
    pub(crate) async fn writer(&self) -> Result<Link, Error> {
        match &self.pools {
            #[cfg(feature = "sqlite")]
            Pools::Sqlite { writer, access, .. } => {
                access.check_write()?;
                let connected = sqlite::connect(writer, self.patience).await;
                Ok(Link::new(Wire::Sqlite(connected?), None))
            }
            #[cfg(feature = "postgres")]
            Pools::Postgres { writer, .. } | Pools::Borrowed { writer, .. } => {
                let connected = tokio::time::timeout(self.patience, writer.connect()).await;
                let wire = connected.map_err(|_| Error::PoolTimedOut)??;
                Ok(Link::new(Wire::Postgres(wire), Some(self.patience)))
            }
        }
    }

    /// Takes a connection for reading from the pool.
    pub(crate) async fn reader(&self) -> Result<Link, Error> {
        match &self.pools {
            #[cfg(feature = "sqlite")]
            Pools::Sqlite {
                readers, access, ..
            } => {
                access.check_unchanged()?;
                let wire = Wire::PooledSqlite(readers.acquire().await?);
                Ok(Link::new(wire, None))
            }
            #[cfg(feature = "postgres")]
            Pools::Postgres { readers, .. } => {
                let wire = Wire::PooledPostgres(readers.acquire().await?);
                Ok(Link::new(wire, Some(self.patience)))
            }
            #[cfg(feature = "postgres")]
            Pools::Borrowed { pool, .. } => {
                let wire =
                    Wire::BorrowedPostgres(BorrowedConnection::of(pool, self.patience).await?);
                Ok(Link::new(wire, Some(self.patience)))
            }
        }
    }

    /// Returns how to connect to a Postgres server; `None` for a file.
    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(&self) -> Option<PgConnectOptions> {
        match &self.pools {
            #[cfg(feature = "sqlite")]
            Pools::Sqlite { .. } => None,
            Pools::Postgres { writer, .. } | Pools::Borrowed { writer, .. } => {
                Some(writer.options.clone())
            }
        }
    }

    /// Returns how long to wait for an answer.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Closes the connections for reading.
    pub(crate) async fn close(&self) {
        match &self.pools {
            #[cfg(feature = "sqlite")]
            Pools::Sqlite { readers, .. } => readers.close().await,
            #[cfg(feature = "postgres")]
            Pools::Postgres { readers, .. } => readers.close().await,
            // The rest of the program still uses the pool.
            #[cfg(feature = "postgres")]
            Pools::Borrowed { .. } => {}
        }
    }

    /// Converts an error while opening to an [`OpenError`].
    pub(crate) fn not_opened(&self, error: Error) -> OpenError {
        if is_locked(&error) {
            let place = self.place.clone();
            return OpenError::Locked { place };
        }
        if is_full(&error) {
            let place = self.place.clone();
            return OpenError::Full { place };
        }
        if cannot_open(&error) && self.is_unwritable() {
            let place = &self.place;
            let why = format!("{place}: it or its folder cannot be written here");
            return OpenError::Store(StoreError::ReadOnly(why));
        }
        self.store_error(error.into()).into()
    }

    /// Converts a failure to an error of the port.
    pub(crate) fn store_error(&self, failure: Failure) -> StoreError {
        failure.at(&self.place)
    }
}

impl Dialect {
    /// Returns the statement that begins a transaction that writes.
    pub(crate) const fn begin(self) -> &'static str {
        match self {
            // Takes the write lock immediately, so the transaction cannot fail later because another one wrote in
            // between.
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
        }
    }

    /// Returns the expression for the database's own time in milliseconds: one clock for all processes that share it.
    pub(crate) const fn now(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
            Self::Postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
        }
    }

    /// Returns the clause that locks the rows that a transaction reads. SQLite has one writer at a time anyway.
    pub(crate) const fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE",
        }
    }

    /// Like [`for_update`](Self::for_update), but skips rows that another transaction has locked, without waiting.
    pub(crate) const fn for_update_unless_held(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE SKIP LOCKED",
        }
    }

    /// Returns the condition that a run is not waiting, by its summary, in which the status follows the number of
    /// records. The index `runs_due` uses the same text. If a later format of the summary puts the status elsewhere,
    /// waiting runs are read as well.
    pub(crate) const fn not_waiting(self) -> &'static str {
        match self {
            Self::Sqlite => {
                "summary IS NULL OR substr(summary, instr(summary, ','), 19) <> ',\"status\":\"waiting\"'"
            }
            Self::Postgres => {
                "summary IS NULL OR substr(summary, strpos(summary, ','), 19) <> ',\"status\":\"waiting\"'"
            }
        }
    }

    /// Returns the statement that reserves the numbers of `$1` new leases. Its rows are all of the numbers, or only the
    /// last one if they are consecutive.
    pub(crate) const fn next_leases(self) -> &'static str {
        match self {
            Self::Sqlite => "UPDATE leases SET last = last + $1 RETURNING last",
            Self::Postgres => "SELECT nextval('leases') FROM generate_series(1, $1)",
        }
    }
}

fn scheme(url: &str) -> Option<Dialect> {
    match url.split_once(':')?.0 {
        "sqlite" => Some(Dialect::Sqlite),
        "postgres" | "postgresql" => Some(Dialect::Postgres),
        _ => None,
    }
}

/// Returns a URL without its possibly secret parts: user, password and parameters.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return match url.strip_prefix("sqlite:") {
            Some(_) => url.to_owned(),
            None => "the URL".to_owned(),
        };
    };
    if scheme == "sqlite" {
        return url.to_owned();
    }
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    // If the host is missing, the password is where the port would be.
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let place = match place.split_once(':') {
        Some((host, port)) if !host.starts_with('[') && !is_number(port) => host,
        _ => place,
    };
    format!("{scheme}://{place}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_anywhere_in_the_url_is_never_shown() {
        for url in [
            "postgres://me:s3cret@db:5432/nx",
            "postgres://me:s3cret@db:5432/nx?password=s3cret",
            "postgres://me:p@s3cret@db:5432/nx",
            "postgresql://db/nx?user=me&password=s3cret",
            "mysql://me:s3cret@db/nx",
            "postgres:me:s3cret@db",
            "postgres://me:s3cret/nx",
            "s3cret",
        ] {
            let config = format!("{:?}", SqlConfig::new(url));
            assert!(!config.contains("s3cret"), "{url} is shown as {config}");
        }
        assert_eq!(
            shown("postgres://me:s3cret@db:5432/nx"),
            "postgres://db:5432/nx"
        );
    }
}
