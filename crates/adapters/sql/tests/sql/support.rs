//! Databases that are removed with the test.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use neuraxis_core::{Record, RunId, SessionId};
use neuraxis_ports::{RunLease, RunLog as _, Session, SessionIndex as _, StoreError};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{CountingIds, Postgres, RunLog, START};
use tempfile::TempDir;

thread_local! {
    /// The resources of this thread's test, for as long as it runs.
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

#[expect(dead_code, reason = "held to be dropped")]
enum Held {
    Folder(TempDir),
    Server(Postgres),
}

fn hold(held: Held) {
    HELD.with_borrow_mut(|all| all.push(held));
}

/// A database in a file in a folder.
pub(crate) fn config_in(folder: &Path) -> SqlConfig {
    SqlConfig::new(format!("sqlite://{}", folder.join("sessions.db").display()))
}

/// A database in a new file.
pub(crate) fn file_config() -> SqlConfig {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    hold(Held::Folder(folder));
    config
}

/// A database on a new server.
pub(crate) fn server_config() -> SqlConfig {
    let server = Postgres::start();
    let config = SqlConfig::new(server.url());
    hold(Held::Server(server));
    config
}

pub(crate) async fn open(config: &SqlConfig) -> SqlStore {
    SqlStore::open(config).await.unwrap()
}

pub(crate) async fn store_in_file() -> SqlStore {
    open(&file_config()).await
}

pub(crate) async fn store_on_server() -> SqlStore {
    open(&server_config()).await
}

pub(crate) fn id(text: &str) -> SessionId {
    text.parse().unwrap()
}

/// A run at work in a session of its own.
pub(crate) struct Busy {
    pub(crate) session: SessionId,
    pub(crate) lease: RunLease,
    pub(crate) log: RunLog,
    pub(crate) records: Vec<Arc<Record>>,
}

impl Busy {
    pub(crate) async fn new(store: &SqlStore, number: u64) -> Self {
        let session = id(&format!("s{number}"));
        let made = Session::new(session.clone(), START);
        store.create_session(&made).await.unwrap();
        let run = CountingIds::nth_run(number);
        let lease = store.begin_run(&session, run).await.unwrap();
        let log = RunLog::new(run, session.clone());
        let mut busy = Self {
            session,
            lease,
            log,
            records: Vec::new(),
        };
        let started = busy.log.started("Hello?");
        busy.commit(store, started).await.unwrap();
        busy
    }

    pub(crate) const fn run(&self) -> RunId {
        self.log.run()
    }

    /// Commits a warning.
    pub(crate) async fn warn(&mut self, store: &SqlStore, text: &str) -> Result<(), StoreError> {
        let before = self.log.clone();
        let warned = self.log.warned(text);
        let committed = self.commit(store, warned).await;
        if committed.is_err() {
            self.log = before;
        }
        committed
    }

    pub(crate) async fn finish(&mut self, store: &SqlStore) -> Result<(), StoreError> {
        let finished = self.log.finished("Hi.");
        self.commit(store, finished).await
    }

    async fn commit(&mut self, store: &SqlStore, record: Arc<Record>) -> Result<(), StoreError> {
        let records = [record];
        store.commit(&self.lease, &records).await?;
        self.records.extend(records);
        Ok(())
    }
}

pub(crate) async fn records(store: &SqlStore, run: RunId) -> Vec<Arc<Record>> {
    store.records(run, neuraxis_core::Seq(0)).await.unwrap()
}

/// Mounts tests for both databases.
macro_rules! on_both {
    ($($rule:ident)*) => {
        mod on_sqlite {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                super::$rule(crate::support::file_config()).await;
            }
        )*}
        mod on_postgres {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs PostgreSQL: run by cargo xtask test"]
            async fn $rule() {
                super::$rule(crate::support::server_config()).await;
            }
        )*}
    };
}
pub(crate) use on_both;
