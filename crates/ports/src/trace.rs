//! The port to tracing.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Record, RunId, TraceContext, Transcript};

/// The target of the spans of `tracing` that are made for export: what happens around runs. By it a subscriber tells them from
/// others, such as those that only lines of a log are in.
pub const SPAN_TARGET: &str = "neuraxis::trace";

/// Receives every record of every run, right after its commit, in order within a run.
///
/// Must not block: a sink that writes somewhere slow queues and, when the queue is full, drops. A failing sink never
/// disturbs a run: where it panics, the log says so, and the run and other sinks go on.
pub trait TraceSink: Debug + Send + Sync + 'static {
    /// Hears what a run goes on from, before its first record: records hold only what is new.
    fn begin(&self, _run: RunId, _history: &Transcript) {}

    /// Hears, instead of [`begin`](Self::begin), that a process takes a run up again: what it goes on from and the
    /// records it has so far, which the sink may have heard already or, in another process, may not.
    fn taken_up(&self, _run: RunId, _history: &Transcript, _records: &[Arc<Record>]) {}

    /// Hears that no record of a run will come any more, unless it is taken up again: it has ended, or waits for somebody
    /// who is not here, or its process gave it up.
    fn end(&self, _run: RunId) {}

    /// Takes one record.
    fn record(&self, record: &Arc<Record>);

    /// Hears that these records of one step were kept in the store, and how long that took: before it takes each of them. Not
    /// called for runs that are kept nowhere.
    fn kept(&self, _records: &[Arc<Record>], _took: Duration) {}

    /// Says whether the sink exports the trace of a run that is about to begin; `None` if it exports no traces. `parent` is
    /// the context that its request brought, whose trace it then is. What sinks decide is recorded with the run and passed on
    /// to whatever it calls.
    fn samples(&self, _trace_id: u128, _parent: Option<&TraceContext>) -> Option<bool> {
        None
    }
}
