//! The port to tracing, and the W3C trace context that requests carry.

use std::fmt::{self, Debug};
use std::str::FromStr;
use std::sync::Arc;

use neuraxis_core::{Record, RunId, Transcript};

/// Receives every record of every run, right after its commit, in order within a run.
///
/// Must not block: a sink that writes somewhere slow queues and, when the queue is full, drops. A failing sink never
/// disturbs a run.
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
}

/// The place of a request in a distributed trace, after W3C Trace Context (version 00).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: u128,
    /// The span that asks.
    pub span_id: u64,
    /// Whether the caller records the trace.
    pub sampled: bool,
    /// Vendors' data, passed on as it came.
    pub state: Option<String>,
}

impl TraceContext {
    /// Returns the trace id as 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id_hex(&self) -> String {
        format!("{:032x}", self.trace_id)
    }
}

impl fmt::Display for TraceContext {
    /// Writes the `traceparent` header.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "00-{:032x}-{:016x}-{:02x}",
            self.trace_id,
            self.span_id,
            u8::from(self.sampled)
        )
    }
}

/// A text that is no `traceparent` header of version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a traceparent: it must be 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, not all zeros"
)]
pub struct InvalidTraceParent;

impl FromStr for TraceContext {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let hex = |digits: Option<&str>, length: usize| {
            let digits = digits.filter(|digits| digits.len() == length)?;
            let lower = digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
            if lower {
                u128::from_str_radix(digits, 16).ok()
            } else {
                None
            }
        };
        let mut fields = text.split('-');
        let mut parsed = || {
            let version = fields.next().filter(|version| *version == "00");
            version?;
            let trace_id = hex(fields.next(), 32).filter(|id| *id != 0)?;
            let span_id = hex(fields.next(), 16).filter(|id| *id != 0)?;
            let flags = hex(fields.next(), 2)?;
            fields.next().is_none().then_some(())?;
            let span_id = u64::try_from(span_id).ok()?;
            Some(Self {
                trace_id,
                span_id,
                sampled: flags & 1 == 1,
                state: None,
            })
        };
        parsed().ok_or(InvalidTraceParent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written_back() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context: TraceContext = header.parse().unwrap();
        assert_eq!(context.to_string(), header);
        assert_eq!(context.trace_id_hex(), "4bf92f3577b34da6a3ce929d0e0e4736");
    }

    #[test]
    fn malformed_traceparents_are_refused() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01";
        for header in [
            "",
            "00",
            zeros,
            upper,
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(
                header.parse::<TraceContext>(),
                Err(InvalidTraceParent),
                "{header}"
            );
        }
    }
}
