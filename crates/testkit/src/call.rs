//! Contexts of model calls and tool calls with values that do not matter to tests, and a count of open calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuraxis_core::{AgentId, CallIndex, ContentIndex, EffectId, RunId, ToolCallId, Turn};
use neuraxis_ports::{CallContext, ToolContext, TraceContext, TurnContext};

use crate::clock::CountingIds;

/// Creates the context of a model call: first attempt, not cancelled.
#[must_use]
pub fn call_context() -> CallContext {
    let trace = TraceContext {
        trace_id: 1,
        span_id: 1,
        sampled: false,
        state: None,
    };
    CallContext::new(
        EffectId {
            run: run(),
            number: 1,
        },
        trace,
    )
}

/// Creates the context of the first turn of a stateless run, with nothing known about its request.
#[must_use]
pub fn turn_context() -> TurnContext {
    TurnContext::new(run(), None, AgentId::ROOT, Turn(1))
}

/// Creates the context of a tool call: first attempt in turn 1 of a stateless run, not cancelled, and without
/// observers.
#[must_use]
pub fn tool_context() -> ToolContext {
    let turn = turn_context();
    let call = ToolCallId::new(run(), AgentId::ROOT, ContentIndex(0), CallIndex(0));
    ToolContext::new(
        turn,
        call,
        EffectId {
            run: run(),
            number: 2,
        },
    )
}

fn run() -> RunId {
    CountingIds::nth_run(1)
}

/// A count of open calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauge(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    most: AtomicUsize,
}

/// An open call, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Counts>);

impl Gauge {
    /// Starts a call.
    pub(crate) fn open(&self) -> Open {
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(open, Ordering::SeqCst);
        Open(Arc::clone(&self.0))
    }

    /// Returns how many calls are open.
    pub(crate) fn now(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// Returns the maximum number of calls that were open at the same time.
    pub(crate) fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}
