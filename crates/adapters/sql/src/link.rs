//! One connection to either database, and the few types of values that the schema uses.
//!
//! Statements have the same text for both databases wherever possible; `$1` is a placeholder in both.

use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{ContentHash, JsonText, RunId, SessionId};
use neuraxis_ports::StoreError;
use serde::de::DeserializeOwned;
use sqlx::migrate::{Migrate, MigrateError, Migration};
use sqlx::pool::PoolConnection;
use sqlx::{Arguments, AssertSqlSafe, Connection, Error, Row as _, SqlSafeStr};
#[cfg(feature = "postgres")]
use sqlx::{
    PgConnection, Postgres,
    postgres::{PgArguments, PgRow},
};
#[cfg(feature = "sqlite")]
use sqlx::{
    Sqlite, SqliteConnection,
    sqlite::{SqliteArguments, SqliteRow},
};
use tracing::Span;
use uuid::Uuid;

#[cfg(feature = "postgres")]
use crate::database::BorrowedConnection;
use crate::database::Dialect;
use crate::error::Failure;

/// The table in which sqlx records the applied migrations of a database.
const MIGRATIONS: &str = "_sqlx_migrations";

/// A parameter of a statement; `None` is NULL of that type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(Option<i64>),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(Some(number))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Some(bytes))
    }
}

/// Converts values to a statement's parameters.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::link::Value::from($value)),*] };
}
pub(crate) use values;

/// A row of a result.
#[derive(Debug)]
pub(crate) enum Row {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteRow),
    #[cfg(feature = "postgres")]
    Postgres(PgRow),
}

/// Reads a column of either database.
macro_rules! column {
    ($row:expr, $column:expr) => {
        match $row {
            #[cfg(feature = "sqlite")]
            Row::Sqlite(row) => row.try_get($column),
            #[cfg(feature = "postgres")]
            Row::Postgres(row) => row.try_get($column),
        }
    };
}

impl Row {
    pub(crate) fn int(&self, column: usize) -> Result<i64, Error> {
        column!(self, column)
    }

    pub(crate) fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
        column!(self, column)
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, Error> {
        column!(self, column)
    }

    pub(crate) fn maybe_text(&self, column: usize) -> Result<Option<String>, Error> {
        column!(self, column)
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>, Error> {
        column!(self, column)
    }

    pub(crate) fn maybe_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Error> {
        column!(self, column)
    }

    /// Reads a hash.
    pub(crate) fn hash(&self, column: usize) -> Result<ContentHash, Failure> {
        let hash = ContentHash::from_bytes(&self.bytes(column)?);
        Ok(hash.ok_or_else(|| damaged("a hash is not 32 bytes long"))?)
    }

    /// Reads the id of a run.
    pub(crate) fn run_id(&self, column: usize) -> Result<RunId, Failure> {
        let id = Uuid::from_slice(&self.bytes(column)?);
        Ok(RunId(
            id.map_err(|_| damaged("a run id is not 16 bytes long"))?,
        ))
    }

    /// Reads the id of a session.
    pub(crate) fn session_id(&self, column: usize) -> Result<SessionId, Failure> {
        let id = self.text(column)?.parse::<SessionId>();
        Ok(id.map_err(|_| damaged("a session id is invalid"))?)
    }

    /// Reads a time, stored in microseconds.
    pub(crate) fn maybe_time(&self, column: usize) -> Result<Option<Timestamp>, Failure> {
        let time = self.maybe_int(column)?.map(Timestamp::from_microsecond);
        Ok(time
            .transpose()
            .map_err(|_| damaged("a time is out of range"))?)
    }

    /// Reads a value stored as JSON text.
    pub(crate) fn maybe_json<T: DeserializeOwned>(
        &self,
        column: usize,
        what: &str,
    ) -> Result<Option<T>, Failure> {
        let value = self.maybe_text(column)?;
        let value = value.map(|text| JsonText::from_text(text).decode());
        Ok(value
            .transpose()
            .map_err(|_| damaged(format!("{what} is unreadable")))?)
    }
}

fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged(what.into())
}

/// A connection. One to a server that did not answer in time is closed and never reused.
#[derive(Debug)]
pub(crate) struct Link {
    wire: Option<Wire>,
    /// How long a statement may take.
    patience: Option<Duration>,
    /// Whether the next statement must also begin a transaction.
    begins: bool,
    /// The last field, so that it ends after the connection is returned.
    _span: Span,
}

#[derive(Debug)]
pub(crate) enum Wire {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(PgConnection),
    #[cfg(feature = "sqlite")]
    PooledSqlite(PoolConnection<Sqlite>),
    #[cfg(feature = "postgres")]
    PooledPostgres(PoolConnection<Postgres>),
    #[cfg(feature = "postgres")]
    BorrowedPostgres(BorrowedConnection),
}

enum WireMut<'a> {
    #[cfg(feature = "sqlite")]
    Sqlite(&'a mut SqliteConnection),
    #[cfg(feature = "postgres")]
    Postgres(&'a mut PgConnection),
}

impl Link {
    pub(crate) const fn new(wire: Wire, patience: Option<Duration>) -> Self {
        Self {
            wire: Some(wire),
            patience,
            begins: false,
            _span: Span::none(),
        }
    }

    /// Keeps a span open as long as the connection is used.
    pub(crate) fn within(self, span: Span) -> Self {
        Self {
            _span: span,
            ..self
        }
    }

    /// Removes the time limit from all later statements.
    pub(crate) const fn wait_without_limit(&mut self) {
        self.patience = None;
    }

    /// Begins a transaction that writes. For SQLite, `BEGIN` goes with the next statement, since each statement is a
    /// call to another thread.
    pub(crate) async fn begin(&mut self) -> Result<(), Error> {
        match self.dialect()? {
            Dialect::Sqlite => {
                self.begins = true;
                Ok(())
            }
            Dialect::Postgres => self.run(Dialect::Postgres.begin(), &[]).await.map(drop),
        }
    }

    /// Runs a statement and commits, in one call where possible.
    pub(crate) async fn run_and_commit(
        &mut self,
        sql: String,
        values: &[Value<'_>],
    ) -> Result<(), Error> {
        match self.dialect()? {
            Dialect::Sqlite => {
                let sql = AssertSqlSafe(format!("{sql}; COMMIT"));
                self.run(sql, values).await?;
            }
            Dialect::Postgres => {
                self.run(AssertSqlSafe(sql), values).await?;
                self.run("COMMIT", &[]).await?;
            }
        }
        Ok(())
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(
        &mut self,
        sql: impl SqlSafeStr + Send,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        let mut sql = sql.into_sql_str();
        if std::mem::take(&mut self.begins) {
            let begin = self.dialect()?.begin();
            sql = AssertSqlSafe(format!("{begin}; {}", sql.as_str())).into_sql_str();
        }
        self.in_time(async |wire| match wire {
            #[cfg(feature = "sqlite")]
            WireMut::Sqlite(wire) => {
                let arguments = sqlite_arguments(values)?;
                let rows = sqlx::query_with(sql, arguments).fetch_all(wire).await?;
                Ok(rows.into_iter().map(Row::Sqlite).collect())
            }
            #[cfg(feature = "postgres")]
            WireMut::Postgres(wire) => {
                let arguments = postgres_arguments(values)?;
                let rows = sqlx::query_with(sql, arguments).fetch_all(wire).await?;
                Ok(rows.into_iter().map(Row::Postgres).collect())
            }
        })
        .await
    }

    /// Runs a statement and returns its first row, if any.
    pub(crate) async fn row(
        &mut self,
        sql: impl SqlSafeStr + Send,
        values: &[Value<'_>],
    ) -> Result<Option<Row>, Error> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn run(
        &mut self,
        sql: impl SqlSafeStr + Send,
        values: &[Value<'_>],
    ) -> Result<u64, Error> {
        self.in_time(async |wire| match wire {
            #[cfg(feature = "sqlite")]
            WireMut::Sqlite(wire) => {
                let arguments = sqlite_arguments(values)?;
                let done = sqlx::query_with(sql, arguments).execute(wire).await?;
                Ok(done.rows_affected())
            }
            #[cfg(feature = "postgres")]
            WireMut::Postgres(wire) => {
                let arguments = postgres_arguments(values)?;
                let done = sqlx::query_with(sql, arguments).execute(wire).await?;
                Ok(done.rows_affected())
            }
        })
        .await
    }

    /// Runs several statements without parameters.
    pub(crate) async fn script(&mut self, sql: &'static str) -> Result<(), Error> {
        self.in_time(async |wire| match wire {
            #[cfg(feature = "sqlite")]
            WireMut::Sqlite(wire) => sqlx::raw_sql(sql).execute(wire).await.map(drop),
            #[cfg(feature = "postgres")]
            WireMut::Postgres(wire) => sqlx::raw_sql(sql).execute(wire).await.map(drop),
        })
        .await
    }

    /// Applies the migrations that a database does not have, without a time limit. The database is known to have those
    /// up to `version`, whether sqlx recorded them or not.
    pub(crate) async fn migrate(
        &mut self,
        migrations: &[Migration],
        version: i64,
    ) -> Result<(), Error> {
        let migrated = match self.wire()? {
            #[cfg(feature = "sqlite")]
            WireMut::Sqlite(wire) => migrate(wire, migrations, version).await,
            #[cfg(feature = "postgres")]
            WireMut::Postgres(wire) => migrate(wire, migrations, version).await,
        };
        migrated.map_err(of_migration)
    }

    /// Closes the connection. If it was the file's last, SQLite removes the files beside it.
    pub(crate) async fn close(mut self) {
        let closed = match self.wire.take() {
            #[cfg(feature = "sqlite")]
            Some(Wire::Sqlite(wire)) => wire.close().await,
            #[cfg(feature = "postgres")]
            Some(Wire::Postgres(wire)) => wire.close().await,
            // Pooled connections return to their pool.
            _ => Ok(()),
        };
        if let Err(error) = closed {
            tracing::debug!(%error, "a connection was not closed properly");
        }
    }

    fn dialect(&mut self) -> Result<Dialect, Error> {
        Ok(match self.wire()? {
            #[cfg(feature = "sqlite")]
            WireMut::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            WireMut::Postgres(_) => Dialect::Postgres,
        })
    }

    fn wire(&mut self) -> Result<WireMut<'_>, Error> {
        match &mut self.wire {
            None => Err(Error::PoolClosed),
            #[cfg(feature = "sqlite")]
            Some(Wire::Sqlite(wire)) => Ok(WireMut::Sqlite(wire)),
            #[cfg(feature = "postgres")]
            Some(Wire::Postgres(wire)) => Ok(WireMut::Postgres(wire)),
            #[cfg(feature = "sqlite")]
            Some(Wire::PooledSqlite(wire)) => Ok(WireMut::Sqlite(&mut *wire)),
            #[cfg(feature = "postgres")]
            Some(Wire::PooledPostgres(wire)) => Ok(WireMut::Postgres(&mut *wire)),
            #[cfg(feature = "postgres")]
            Some(Wire::BorrowedPostgres(wire)) => Ok(WireMut::Postgres(wire.get()?)),
        }
    }

    async fn in_time<T>(
        &mut self,
        work: impl AsyncFnOnce(WireMut<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let patience = self.patience;
        #[cfg(feature = "sqlite")]
        let begins = std::mem::take(&mut self.begins);
        let wire = self.wire()?;
        #[cfg(feature = "sqlite")]
        let wire = match wire {
            // `BEGIN` is not combined with a statement that changes rows: the number of changed rows would be wrong.
            WireMut::Sqlite(wire) if begins => {
                sqlx::query(Dialect::Sqlite.begin())
                    .execute(&mut *wire)
                    .await?;
                WireMut::Sqlite(wire)
            }
            wire => wire,
        };
        let Some(patience) = patience else {
            return work(wire).await;
        };
        if let Ok(result) = tokio::time::timeout(patience, work(wire)).await {
            return result;
        }
        // Its late answer would be mistaken for that of the next statement.
        #[cfg(feature = "postgres")]
        match self.wire.take() {
            Some(Wire::PooledPostgres(wire)) => drop(wire.detach()),
            Some(Wire::BorrowedPostgres(mut wire)) => wire.close(),
            _ => {}
        }
        Err(Error::PoolTimedOut)
    }
}

/// Does what a [`Migrator`](sqlx::migrate::Migrator) does, whose futures are not `Send`.
async fn migrate(
    wire: &mut (impl Migrate + Send),
    migrations: &[Migration],
    version: i64,
) -> Result<(), MigrateError> {
    wire.ensure_migrations_table(MIGRATIONS).await?;
    let applied = wire.list_applied_migrations(MIGRATIONS).await?;
    for migration in migrations {
        match applied.iter().find(|it| it.version == migration.version) {
            Some(applied) if applied.checksum == migration.checksum => {}
            Some(_) => return Err(MigrateError::VersionMismatch(migration.version)),
            None if migration.version <= version => wire.skip(MIGRATIONS, migration).await?,
            None => {
                wire.apply(MIGRATIONS, migration).await?;
            }
        }
    }
    Ok(())
}

/// Returns the database error behind a failed migration.
fn of_migration(error: MigrateError) -> Error {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error,
        other => Error::Migrate(Box::new(other)),
    }
}

#[cfg(feature = "sqlite")]
fn sqlite_arguments(values: &[Value<'_>]) -> Result<SqliteArguments, Error> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        match *value {
            Value::Int(number) => arguments.add(number),
            Value::Text(text) => arguments.add(text),
            Value::Bytes(bytes) => arguments.add(bytes),
        }
        .map_err(Error::Encode)?;
    }
    Ok(arguments)
}

#[cfg(feature = "postgres")]
fn postgres_arguments(values: &[Value<'_>]) -> Result<PgArguments, Error> {
    let mut arguments = PgArguments::default();
    for value in values {
        match *value {
            Value::Int(number) => arguments.add(number),
            Value::Text(text) => arguments.add(text),
            Value::Bytes(bytes) => arguments.add(bytes),
        }
        .map_err(Error::Encode)?;
    }
    Ok(arguments)
}
