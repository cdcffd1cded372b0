//! The port to tracing.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Record, RunId, TraceContext, Transcript};

/// The target of `tracing` spans that are created for export: what happens around runs. It lets a subscriber
/// distinguish them from other spans, such as those that only provide context for log lines.
pub const SPAN_TARGET: &str = "neuraxis::trace";

/// Receives every record of every run, right after its commit, in order within a run.
///
/// Must not block: a sink that writes somewhere slow should queue, and drop when the queue is full. A failing sink
/// never affects a run: if it panics, the panic is logged, and the run and other sinks continue.
pub trait TraceSink: Debug + Send + Sync + 'static {
    /// Called with the history that a run continues from, before its first record: records contain only what is new.
    fn begin(&self, _run: RunId, _history: &Transcript) {}

    /// Called instead of [`begin`](Self::begin) when a process resumes a run, with the history that the run continues
    /// from and its records so far. The sink may have received those records already or, in another process, may not.
    fn resume(&self, _run: RunId, _history: &Transcript, _records: &[Arc<Record>]) {}

    /// Called when no more records of a run will come, unless it is resumed: it has ended, waits for an answer from
    /// outside this process, or was given up by its process.
    fn end(&self, _run: RunId) {}

    /// Receives one record.
    fn record(&self, record: &Arc<Record>);

    /// Called when the records of one step have been stored, with the time that took, before [`record`](Self::record)
    /// is called for each of them. Not called for runs that are not stored.
    fn stored(&self, _records: &[Arc<Record>], _took: Duration) {}

    /// Returns whether the sink exports the trace of a run that is about to begin; `None` if it exports no traces.
    /// `parent` is the context that came with the request; if present, its trace is the run's. The decision of the
    /// sinks is recorded with the run and passed on to everything that the run calls.
    fn samples(&self, _trace_id: u128, _parent: Option<&TraceContext>) -> Option<bool> {
        None
    }
}
