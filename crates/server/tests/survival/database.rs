//! What tests do to the database outside the server.

use neuraxis::core::Message;
use neuraxis::ports::{Session, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::START;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::world::World;

/// A lock that prevents all writes.
pub(crate) enum Locked {
    File(SqliteConnection),
    Server(PgConnection),
}

impl World {
    /// Moves the last writes from the write-ahead log into the file.
    pub(crate) async fn checkpoint(&self) {
        let mut link = SqliteConnection::connect(&self.url).await.unwrap();
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        sqlx::query(sql).execute(&mut link).await.unwrap();
        link.close().await.unwrap();
    }

    /// Returns the world with its database reopened by the test.
    pub(crate) async fn reopened(mut self) -> Self {
        self.store = SqlStore::open(&SqlConfig::new(&self.url)).await.unwrap();
        self
    }

    /// Waits until the leases of a dead server have expired.
    pub(crate) async fn leases_run_out(&self) {
        let sql =
            "UPDATE runs SET leased_until = 0 WHERE ended_at IS NULL AND leased_until IS NOT NULL";
        match self.connect().await {
            Locked::File(mut link) => drop(sqlx::query(sql).execute(&mut link).await.unwrap()),
            Locked::Server(mut link) => {
                let sql = sql.replace("runs", "neuraxis.runs");
                sqlx::query(AssertSqlSafe(sql))
                    .execute(&mut link)
                    .await
                    .unwrap();
            }
        }
    }

    /// Crashes the database server and restarts it.
    pub(crate) fn database_crashes(&self) {
        let mut server = self.postgres.lock().unwrap();
        let server = server.as_mut().unwrap();
        server.crash();
        server.restart();
    }

    /// Suspends the database server in the middle of its work.
    pub(crate) fn database_stalls(&self) {
        self.postgres.lock().unwrap().as_ref().unwrap().stall();
    }

    /// Resumes it.
    pub(crate) fn database_goes_on(&self) {
        self.postgres.lock().unwrap().as_ref().unwrap().go_on();
    }

    /// Returns how many rows of the database server contain a text in any column.
    pub(crate) async fn rows_with(&self, text: &str) -> i64 {
        let Locked::Server(mut link) = self.connect().await else {
            panic!("a file is looked through as a whole")
        };
        let mut count = 0;
        for table in ["sessions", "runs", "steps", "payloads", "inbox"] {
            // In printed form: bytes as hexadecimal digits.
            let sql = format!(
                "SELECT count(*) FROM neuraxis.{table} it WHERE position($1 IN it::text) > 0 \
                 OR position(encode(convert_to($1, 'UTF8'), 'hex') IN it::text) > 0"
            );
            let rows = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql)).bind(text);
            count += rows.fetch_one(&mut link).await.unwrap();
        }
        count
    }

    /// Prevents all writes.
    pub(crate) async fn lock(&self) -> Locked {
        let mut locked = self.connect().await;
        match &mut locked {
            Locked::File(link) => {
                sqlx::query("BEGIN EXCLUSIVE").execute(link).await.unwrap();
            }
            Locked::Server(link) => {
                sqlx::query("BEGIN").execute(&mut *link).await.unwrap();
                let sql = "LOCK TABLE neuraxis.sessions, neuraxis.runs IN EXCLUSIVE MODE";
                sqlx::query(sql).execute(link).await.unwrap();
            }
        }
        locked
    }

    async fn connect(&self) -> Locked {
        match self.url.starts_with("sqlite") {
            true => Locked::File(SqliteConnection::connect(&self.url).await.unwrap()),
            false => Locked::Server(PgConnection::connect(&self.url).await.unwrap()),
        }
    }

    /// Adds a session of this size to the database, unnoticed by the server.
    pub(crate) async fn fill(&self, bytes: usize) {
        let seed = [Message::user("x".repeat(bytes))].into_iter().collect();
        let session = Session::new("filler".parse().unwrap(), START).seeded(seed);
        self.store.create_session(&session).await.unwrap();
    }
}

impl Locked {
    /// Allows writes again.
    pub(crate) async fn open(self) {
        match self {
            Self::File(link) => link.close().await.unwrap(),
            Self::Server(link) => link.close().await.unwrap(),
        }
    }
}
