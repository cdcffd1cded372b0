//! A session store in a database: an adapter of the `SessionStore` port on SQLite or Postgres. On Postgres, for a fleet
//! of processes, it also implements the `LiveFeed` port.
//!
//! **For** sessions that must survive: acknowledged data is still there after this process crashes, and with
//! [`Durability::Full`] after a power cut. SQLite needs no setup, only a file. Any number of processes may share either
//! database. Each step is one row of JSON Lines, and a hash chain over each session shows whether anything was changed.
//!
//! **Not for** deciding which process resumes an interrupted run: the store only reports which runs no process is
//! driving, and lets one process have each.
//!
//! Each database is a feature, `sqlite` and `postgres`, both on by default.
//!
//! ```
//! use neuraxis_core::jiff::Timestamp;
//! use neuraxis_ports::{Session, SessionIndex};
//! use neuraxis_sql::{SqlConfig, SqlStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("sessions.db");
//! let store = SqlStore::open(&SqlConfig::new(format!("sqlite://{}", file.display()))).await?;
//! let session = Session::new("main".parse()?, Timestamp::UNIX_EPOCH);
//! store.create_session(&session).await?;
//! assert!(store.history(&session.id).await?.is_empty());
//! # store.close().await;
//! # Ok(())
//! # }
//! ```

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("neuraxis-sql needs at least one of its features `sqlite` and `postgres`");

mod config;
mod database;
mod error;
mod lease_clock;
mod link;
#[cfg(feature = "postgres")]
mod live_feed;
mod log_copy;
mod own_file;
mod read;
mod schema;
mod step;
mod store;
mod writer;

pub use config::{Durability, OlderSchema, SqlConfig, UnwritableFile};
pub use error::OpenError;
#[cfg(feature = "postgres")]
pub use live_feed::PostgresLiveFeed;
pub use log_copy::LogCopy;
pub use own_file::UnsafeFile;
pub use read::verify::{Connections, Contents};
#[cfg(feature = "postgres")]
pub use sqlx::PgPool;
pub use store::SqlStore;
