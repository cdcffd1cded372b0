//! Notifies the trace sinks of runs. Sinks are a program's code; if one panics, the run is not affected.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Record, RunId, TraceContext, Transcript};
use neuraxis_ports::TraceSink;

use super::Engine;

impl Engine {
    /// Calls a function with each trace sink.
    pub(crate) fn notify_sinks(&self, notify: impl Fn(&dyn TraceSink)) {
        for sink in &self.sinks {
            catching_panic(sink.as_ref(), &notify);
        }
    }

    /// Notifies the trace sinks that a run begins, with the history that it continues from.
    pub(crate) fn announce(&self, run: RunId, history: &Transcript) {
        self.notify_sinks(|sink| sink.begin(run, history));
    }

    /// Passes the records of a step to the trace sinks, with the time it took to store them, if they were stored.
    pub(crate) fn pass_to_sinks(&self, records: &[Arc<Record>], store_time: Option<Duration>) {
        if let Some(took) = store_time {
            self.notify_sinks(|sink| sink.stored(records, took));
        }
        for record in records {
            self.notify_sinks(|sink| sink.record(record));
        }
    }

    /// Returns the trace that a new run belongs to: the one that came with its request, or a new one if any sink
    /// exports traces.
    pub(crate) fn trace_of(&self, run: RunId, given: Option<TraceContext>) -> Option<TraceContext> {
        let own = TraceContext::of_run(run);
        let trace_id = given.as_ref().map_or(own.trace_id, |it| it.trace_id);
        let decided = self.sinks.iter().filter_map(|sink| {
            let samples = |sink: &dyn TraceSink| sink.samples(trace_id, given.as_ref());
            catching_panic(sink.as_ref(), samples).flatten()
        });
        match decided.reduce(|one, other| one || other) {
            None => given,
            Some(sampled) => Some(TraceContext {
                sampled,
                ..given.unwrap_or(own)
            }),
        }
    }
}

/// Calls a function with a sink; `None` if it panics.
fn catching_panic<T>(sink: &dyn TraceSink, call: impl FnOnce(&dyn TraceSink) -> T) -> Option<T> {
    // The closure changes no state of the engine, so the engine stays consistent after a panic.
    let called = catch_unwind(AssertUnwindSafe(|| call(sink)));
    if called.is_err() {
        tracing::error!("a trace sink crashed; the run continues without it");
    }
    called.ok()
}
