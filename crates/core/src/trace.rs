//! The position of a run in a distributed trace, following W3C Trace Context, and the ids of the spans that make up a
//! run.
//!
//! Span ids are derived from those of runs, agents and effects, so every process that works on a run, and every reader
//! of its records, computes the same ones.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, EffectId, RunId};

/// The position of a request in a distributed trace, following W3C Trace Context. A header of a later version is read
/// as version 00, and passed on as such.
///
/// In JSON it is an object with the headers `traceparent` and, if present, `tracestate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Headers", into = "Headers")]
pub struct TraceContext {
    /// The trace.
    pub trace_id: u128,
    /// The calling span.
    pub span_id: u64,
    /// Whether the caller records the trace.
    pub sampled: bool,
    /// Vendor-specific data, passed on unchanged.
    pub state: Option<String>,
}

/// The serialized form of a trace context: the headers that carry it.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "TraceContext"))]
struct Headers {
    /// The header `traceparent` of W3C Trace Context.
    traceparent: String,
    /// The header `tracestate`, if present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
}

impl From<TraceContext> for Headers {
    fn from(context: TraceContext) -> Self {
        Self {
            traceparent: context.to_string(),
            tracestate: context.state,
        }
    }
}

impl TryFrom<Headers> for TraceContext {
    type Error = InvalidTraceParent;

    fn try_from(headers: Headers) -> Result<Self, InvalidTraceParent> {
        let context: Self = headers.traceparent.parse()?;
        Ok(context.with_state(headers.tracestate))
    }
}

/// Maximum size of the vendor-specific data that is passed on, in bytes, as W3C Trace Context requires.
const MAX_STATE_BYTES: usize = 512;

impl TraceContext {
    /// Returns the trace of a run whose request brought none: the run's id is already globally unique, and the span is
    /// that of the agent that answers the user.
    #[must_use]
    pub const fn of_run(run: RunId) -> Self {
        Self {
            trace_id: run.0.as_u128(),
            span_id: AgentId::ROOT.span_id(run),
            sampled: true,
            state: None,
        }
    }

    /// Adds vendor-specific data. Data that is too long, or contains anything but visible ASCII and spaces, is left
    /// out.
    #[must_use]
    pub fn with_state(mut self, state: Option<String>) -> Self {
        let may_be_sent = |state: &String| {
            let is_text = |byte: u8| (b' '..=b'~').contains(&byte);
            !state.is_empty() && state.len() <= MAX_STATE_BYTES && state.bytes().all(is_text)
        };
        self.state = state.filter(may_be_sent);
        self
    }

    /// Returns the same trace with another calling span.
    #[must_use]
    pub fn at(&self, span_id: u64) -> Self {
        Self {
            span_id,
            ..self.clone()
        }
    }

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

impl AgentId {
    /// Returns the id of the span of this agent's work in a run: the same wherever it is computed.
    #[must_use]
    pub const fn span_id(self, run: RunId) -> u64 {
        let (_, low) = run.0.as_u64_pair();
        low ^ ((self.0 as u64) << 32)
    }
}

impl EffectId {
    /// Returns the id of the span of this effect: the same wherever it is computed.
    #[must_use]
    pub const fn span_id(self) -> u64 {
        let (_, low) = self.run.0.as_u64_pair();
        low ^ self.number as u64
    }
}

/// A string that is not a `traceparent` header.
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
            let version = hex(fields.next(), 2).filter(|version| *version != 0xff)?;
            let trace_id = hex(fields.next(), 32).filter(|id| *id != 0)?;
            let span_id = hex(fields.next(), 16).filter(|id| *id != 0)?;
            let flags = hex(fields.next(), 2)?;
            // A later version may append fields whose meaning is not known here.
            (version > 0 || fields.next().is_none()).then_some(())?;
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
    fn a_traceparent_round_trips() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context: TraceContext = header.parse().unwrap();
        assert_eq!(context.to_string(), header);
        assert_eq!(context.trace_id_hex(), "4bf92f3577b34da6a3ce929d0e0e4736");
    }

    #[test]
    fn a_context_round_trips_as_its_headers_without_an_invalid_tracestate() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context: TraceContext = header.parse().unwrap();
        let with_state = context.clone().with_state(Some("a=1,b=2".to_owned()));
        let json = serde_json::to_string(&with_state).unwrap();
        assert_eq!(
            json,
            format!(r#"{{"traceparent":"{header}","tracestate":"a=1,b=2"}}"#)
        );
        assert_eq!(
            serde_json::from_str::<TraceContext>(&json).unwrap(),
            with_state
        );
        for state in ["", "a=1\r\nx: y", &"x".repeat(513)] {
            assert_eq!(context.clone().with_state(Some(state.to_owned())), context);
        }
        assert!(serde_json::from_str::<TraceContext>(r#"{"traceparent":"x"}"#).is_err());
    }

    #[test]
    fn the_spans_of_a_run_differ_from_each_other() {
        let run = RunId(uuid::Uuid::from_u128(
            0x0190_0000_0000_7000_8000_0000_0000_0001,
        ));
        let agents = (0..3).map(|agent| AgentId(agent).span_id(run));
        let effects = (1..4).map(|number| EffectId { run, number }.span_id());
        let spans: std::collections::BTreeSet<u64> = agents.chain(effects).collect();
        assert_eq!(spans.len(), 6);
        assert_eq!(
            TraceContext::of_run(run).span_id,
            AgentId::ROOT.span_id(run)
        );
    }

    #[test]
    fn a_traceparent_of_a_later_version_is_read_as_far_as_it_is_known() {
        let known = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
        for later in [
            format!("01-{known}-01"),
            format!("cc-{known}-09-what-will-be"),
        ] {
            let context: TraceContext = later.parse().unwrap();
            assert_eq!(context.to_string(), format!("00-{known}-01"), "{later}");
        }
        for none in [
            format!("ff-{known}-01"),
            format!("00-{known}-01-more"),
            format!("01-{known}-1"),
        ] {
            assert!(none.parse::<TraceContext>().is_err(), "{none}");
        }
    }

    #[test]
    fn malformed_traceparents_are_refused() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01";
        for header in ["", "00", zeros, upper] {
            assert_eq!(
                header.parse::<TraceContext>(),
                Err(InvalidTraceParent),
                "{header}"
            );
        }
    }
}
