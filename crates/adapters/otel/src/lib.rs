//! Spans and metrics of runs over OTLP, following OpenTelemetry's GenAI conventions, and traces as JSON Lines.
//!
//! **For** seeing in Jaeger, Tempo, Phoenix, Langfuse or any other backend what a run did, where its time went and what
//! it cost: a span for each agent, model call, tool call, question to a user and store commit, with metrics of all of
//! them. Spans are built from a run's records. Their times and ids derive from the records, so a run that another
//! process resumes continues in the same trace. The content of conversations is left out unless [`OtlpConfig::content`]
//! asks for it.
//!
//! **Not for** storing anything: what cannot be sent is dropped and counted ([`Delivery`]), and no run waits for it.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use neuraxis_otel::{OtlpConfig, Otel};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = OtlpConfig::default();
//! config.endpoint = Some("http://127.0.0.1:4318".parse()?);
//! let otel = Otel::start(&config)?;
//! let sink = otel.sink();
//! // An orchestrator takes it: `Orchestrator::builder().trace_sink(sink)`.
//! # drop(sink);
//! let (spans, metrics) = otel.close(Duration::from_secs(2)).await;
//! assert_eq!((spans.dropped, metrics.dropped), (0, 0));
//! # Ok(())
//! # }
//! ```

mod clean;
mod config;
mod content;
mod endpoints;
mod export;
mod exporters;
mod layer;
mod lines;
mod metrics;
mod names;
mod otel;
mod rotating;
mod sampling;
mod spans;

pub use config::{OtlpConfig, Protocol, Redact, StartError, UnknownProtocol};
pub use endpoints::Endpoints;
pub use export::Delivery;
pub use exporters::probe;
pub use layer::{TraceLayer, join, layer};
pub use lines::JsonLines;
pub use names::{is_known_attribute, reference};
pub use neuraxis_ports::SPAN_TARGET as TARGET;
pub use otel::{Otel, span_context};
pub use rotating::Rotation;
pub use sampling::{Sampling, SamplingError};
pub use spans::word;
