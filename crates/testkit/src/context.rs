//! The circumstances of a call that no test cares about.

use neuraxis_core::{AgentId, CallIndex, ContentIndex, EffectId, RunId, ToolCallId, Turn};
use neuraxis_ports::{CallContext, ToolContext, TraceContext, TurnContext};

use crate::ids::CountingIds;

/// Makes the context of a model call: first attempt, nobody cancels it yet.
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

/// Makes the context of a tool call: first attempt in turn 1 of a stateless run, nobody cancels or watches it yet.
#[must_use]
pub fn tool_context() -> ToolContext {
    let turn = TurnContext::new(run(), None, AgentId::ROOT, Turn(1));
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
