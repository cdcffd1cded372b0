//! What tests do to the database behind the server's back.

use neuraxis::core::Message;
use neuraxis::ports::{Session, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::START;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use crate::world::World;

/// A lock that lets nobody write.
pub(crate) enum Locked {
    File(SqliteConnection),
    Server(PgConnection),
}

impl World {
    /// Brings what was written last from beside the file into it.
    pub(crate) async fn checkpoint(&self) {
        let mut link = SqliteConnection::connect(&self.url).await.unwrap();
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        sqlx::query(sql).execute(&mut link).await.unwrap();
        link.close().await.unwrap();
    }

    /// With its database opened anew, by the test.
    pub(crate) async fn reopened(mut self) -> Self {
        self.store = SqlStore::open(&SqlConfig::new(&self.url)).await.unwrap();
        self
    }

    /// Lets time pass until the leases of a dead server have run out.
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

    /// Crashes the database server and starts it again.
    pub(crate) fn database_crashes(&self) {
        let mut server = self.postgres.lock().unwrap();
        let server = server.as_mut().unwrap();
        server.crash();
        server.restart();
    }

    /// Stops the database server in the middle of whatever it does.
    pub(crate) fn database_stalls(&self) {
        self.postgres.lock().unwrap().as_ref().unwrap().stall();
    }

    /// Lets it go on.
    pub(crate) fn database_goes_on(&self) {
        self.postgres.lock().unwrap().as_ref().unwrap().go_on();
    }

    /// Returns how many rows of the database server hold a text, wherever.
    pub(crate) async fn rows_with(&self, text: &str) -> i64 {
        let Locked::Server(mut link) = self.connect().await else {
            panic!("a file is looked through as a whole")
        };
        let mut count = 0;
        for table in ["sessions", "runs", "steps", "payloads", "inbox"] {
            // As a row is printed: bytes as their hexadecimal digits.
            let sql = format!(
                "SELECT count(*) FROM neuraxis.{table} it WHERE position($1 IN it::text) > 0 \
                 OR position(encode(convert_to($1, 'UTF8'), 'hex') IN it::text) > 0"
            );
            let rows = sqlx::query_scalar::<_, i64>(AssertSqlSafe(sql)).bind(text);
            count += rows.fetch_one(&mut link).await.unwrap();
        }
        count
    }

    /// Keeps everybody from writing.
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

    /// Adds a session as large as this to the database, which the server does not see.
    pub(crate) async fn fill(&self, bytes: usize) {
        let seed = [Message::user("x".repeat(bytes))].into_iter().collect();
        let session = Session::new("filler".parse().unwrap(), START).seeded(seed);
        self.store.create_session(&session).await.unwrap();
    }
}

impl Locked {
    /// Lets everybody write again.
    pub(crate) async fn open(self) {
        match self {
            Self::File(link) => link.close().await.unwrap(),
            Self::Server(link) => link.close().await.unwrap(),
        }
    }
}
