//! A session store in memory: an adapter of the `SessionStore` port. Also an adapter of the `LiveFeed` port, between
//! engines of one process.
//!
//! **For** embedding, for tests, and for deployments in which nothing needs to outlive the process. It is the fastest
//! store: records and messages are shared, never copied or encoded.
//!
//! **Not for** persistence: its contents are lost when the process ends. [`RunBounds`](neuraxis_ports::RunBounds)
//! limits the size of each run by an estimate of its bytes; callers decide how many runs there are. Deleting a session
//! frees everything that belongs to it.
//! ```
//! use neuraxis_core::jiff::Timestamp;
//! use neuraxis_memory::MemoryStore;
//! use neuraxis_ports::{Session, SessionIndex};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let session = Session::new("main".parse()?, Timestamp::UNIX_EPOCH);
//! store.create_session(&session).await?;
//! assert!(store.history(&session.id).await?.is_empty());
//! # Ok(())
//! # }
//! ```

mod live_feed;
mod run;
mod state;
mod store;

pub use live_feed::MemoryLiveFeed;
pub use store::MemoryStore;
