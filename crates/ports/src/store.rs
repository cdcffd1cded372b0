//! The port to storage: sessions, runs and their records.
//!
//! A store keeps what it is given and finds it again. `neuraxis-core` knows what records mean; a store uses only what
//! it needs to list runs, and to say what a session carries, without reading every record.

mod bounds;
mod error;
mod outputs;
mod run;
mod run_log;
mod session;
mod session_index;
mod session_search;
mod session_summary;
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
    ChainHead, Continuation, ExpectedHead, MAX_TITLE_CHARS, Session, SessionCursor, SessionFilter,
    SessionOrder, UsageOf, check_title,
};
pub use session_index::SessionIndex;
pub use session_search::{MessageMatch, SearchExtent, SessionSearch, SessionsFound};
pub use session_summary::{LastRun, SessionSummary};
pub use stats::StatsFilter;

/// Stores sessions, and for each session its runs' records and long outputs: all roles of a store in one object.
/// Implemented by everything that implements [`RunLog`], [`RunOutputs`] and [`SessionIndex`].
///
/// **Retries.** By the caller, according to [`StoreError::is_retryable`]. Retrying is safe: [`commit`](RunLog::commit)
/// and [`post`](RunLog::post) recognize what they have already stored, [`keep_output`](RunOutputs::keep_output) stores
/// the output again, and the other calls either change nothing the second time or report that they were already done.
/// The engine retries the writes of a run in progress, and the start of a run except one that creates its session. Most
/// other calls fail their request immediately: a store that may be unreachable for short periods must wait and retry by
/// itself. **Cancel safety.** A dropped call has happened completely or not at all. **Order.** Commits of one run are
/// called one after the other and become visible in that order. Whatever a returned call has written is seen by every
/// later call, in this process and in others.
pub trait SessionStore: RunLog + RunOutputs + SessionIndex {}

impl<S: RunLog + RunOutputs + SessionIndex + ?Sized> SessionStore for S {}
