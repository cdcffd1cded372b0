//! The port to what is kept: sessions, runs and their records.
//!
//! A store keeps what it is given and finds it again. What records mean is told by `neuraxis-core`; of that a store keeps no
//! more than it takes to list runs, and to say what a session carries, without reading every record.

mod bounds;
mod error;
mod outputs;
mod run;
mod run_log;
mod session;
mod session_index;
mod stats;

pub use bounds::{
    Ending, MAX_INBOX_ENTRIES, MAX_INPUT_BYTES, MAX_INPUT_ID_BYTES, MAX_OWNER_BYTES, RunBounds,
    RunSize, check_input,
};
pub use error::StoreError;
pub use outputs::{
    LongOutput, OutputChunk, OutputHead, OutputPage, OutputPlace, RunOutputs, output_chunks,
};
pub use run::{KeyedRequest, RunFilter, RunLease, RunStart, RunSummary};
pub use run_log::RunLog;
pub use session::{
    ChainHead, ExpectedHead, Session, SessionCursor, SessionFilter, Standing, UsageOf,
};
pub use session_index::SessionIndex;
pub use stats::StatsFilter;

/// Keeps sessions, and for each its runs' records and long outputs: all roles of a store in one object. Whatever implements
/// [`RunLog`], [`RunOutputs`] and [`SessionIndex`] is one.
///
/// **Who repeats.** The caller, on [`StoreError::is_retryable`]. Repeating is safe: [`commit`](RunLog::commit) and
/// [`post`](RunLog::post) recognize what they have kept already, [`keep_output`](RunOutputs::keep_output) keeps it anew, and the
/// rest either changes nothing the second time or says that it was done. The engine repeats what a run at work writes and how a
/// run begins, but for one that makes its session. Most other calls fail their request at once: a store that may be out of reach
/// for moments has to wait and try again itself. **Cancel safety.** A dropped call has happened whole or not at all. **Order.**
/// Commits of one run are called one after the other and become visible in that order. What a call that returned has written,
/// every later call sees, in this process and in others.
pub trait SessionStore: RunLog + RunOutputs + SessionIndex {}

impl<S: RunLog + RunOutputs + SessionIndex + ?Sized> SessionStore for S {}
