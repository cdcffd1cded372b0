//! Tells trace sinks of runs: they are a program's code, and one that panics leaves the run as it is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Record, RunId, TraceContext, Transcript};
use neuraxis_ports::TraceSink;

use super::Engine;

impl Engine {
    /// Tells each trace sink something.
    pub(crate) fn tell_sinks(&self, tell: impl Fn(&dyn TraceSink)) {
        for sink in &self.sinks {
            unhindered(sink.as_ref(), &tell);
        }
    }

    /// Tells the trace sinks that a run begins, and what it goes on from.
    pub(crate) fn announce(&self, run: RunId, history: &Transcript) {
        self.tell_sinks(|sink| sink.begin(run, history));
    }

    /// Tells the trace sinks of the records of a step, and how long it took to keep them, if they were kept.
    pub(crate) fn show_sinks(&self, records: &[Arc<Record>], kept: Option<Duration>) {
        if let Some(took) = kept {
            self.tell_sinks(|sink| sink.kept(records, took));
        }
        for record in records {
            self.tell_sinks(|sink| sink.record(record));
        }
    }

    /// Returns the trace that a new run is part of: the one that its request brought, or one of its own where somebody exports
    /// traces.
    pub(crate) fn trace_of(
        &self,
        run: RunId,
        brought: Option<TraceContext>,
    ) -> Option<TraceContext> {
        let own = TraceContext::of_run(run);
        let trace_id = brought.as_ref().map_or(own.trace_id, |it| it.trace_id);
        let decided = self.sinks.iter().filter_map(|sink| {
            let asked = |sink: &dyn TraceSink| sink.samples(trace_id, brought.as_ref());
            unhindered(sink.as_ref(), asked).flatten()
        });
        match decided.reduce(|one, other| one || other) {
            None => brought,
            Some(sampled) => Some(TraceContext {
                sampled,
                ..brought.unwrap_or(own)
            }),
        }
    }
}

/// Tells a sink something; `None` if it panics.
fn unhindered<T>(sink: &dyn TraceSink, tell: impl FnOnce(&dyn TraceSink) -> T) -> Option<T> {
    // Nothing of the engine's is changed in between.
    let told = catch_unwind(AssertUnwindSafe(|| tell(sink)));
    if told.is_err() {
        tracing::error!("a trace sink crashed; the run goes on without it");
    }
    told.ok()
}
