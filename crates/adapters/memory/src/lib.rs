//! A session store in memory: an adapter of the `SessionStore` port; and one of the `LiveFeed` port, between engines of one
//! process.
//!
//! **For** embedding, for tests, and for a deployment that needs nothing to outlive its process. It is the fastest
//! store there is: records and messages are shared, never copied or encoded.
//!
//! **Not for** keeping anything: what it holds is gone with the process. A run is bounded by [`RunBounds`](neuraxis_ports::RunBounds), by an
//! estimate of its bytes; how many there are is up to the callers. Deleting a session frees all that belongs to it.
//!
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
