//! Exports `tracing` spans in the same way: what happens around runs, such as the request that begins one.
//!
//! **Not for** runs: their spans are built from their records, outlive the process, and are not part of any `tracing`
//! span. With [`join`], the span in which a run was begun is still its parent.

use std::time::Duration;

use neuraxis_core::TraceContext;
use opentelemetry::trace::{
    Link, SpanContext, SpanKind, TraceContextExt, TraceId, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample, Span, SpanData,
    SpanProcessor,
};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::registry::LookupSpan;

use crate::otel::{Otel, span_context};
use crate::sampling::Sampling;
use crate::spans::context;

/// A layer for a `tracing` subscriber that exports the spans it sees.
pub type TraceLayer<S> = OpenTelemetryLayer<S, SdkTracer>;

/// Creates a layer that exports `tracing` spans to the same place as the spans of runs, with the same sampling and
/// redaction. Returns `None` if no spans are exported, so there is no cost. The layer exports every span it sees, with
/// its fields: use a filter to choose them.
/// ```
/// use neuraxis_otel::{Otel, OtlpConfig, TARGET, join, layer};
/// use tracing_subscriber::filter::filter_fn;
/// use tracing_subscriber::layer::{Layer, SubscriberExt};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut config = OtlpConfig::default();
/// # config.metrics = false;
/// # config.endpoint = Some("http://127.0.0.1:9".parse()?);
/// let otel = Otel::start(&config)?;
/// // The spans of Neuraxis, and those of your own program.
/// let chosen = filter_fn(|of| of.is_span() && [TARGET, "my_program"].contains(&of.target()));
/// let exported = layer(&otel).map(|layer| layer.with_filter(chosen));
/// let subscriber = tracing_subscriber::registry().with(exported);
///
/// tracing::subscriber::with_default(subscriber, || {
///     let span = tracing::info_span!(target: "my_program", "job");
///     // For `UserRequest::trace`: the run is then beneath the job.
///     assert!(join(&span, None).is_some());
/// });
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn layer<S>(otel: &Otel) -> Option<TraceLayer<S>>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    let provider = otel.exports_spans().then(|| {
        SdkTracerProvider::builder()
            .with_sampler(RunSampler(otel.sampling()))
            .with_span_processor(SpanForwarder(otel.clone()))
            .build()
    })?;
    let tracer = provider.tracer_with_scope(otel.scope());
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false);
    Some(layer)
}

/// Attaches a `tracing` span that has just begun to its caller's trace, if there is one, and returns the span's own
/// position in its trace, for `UserRequest::trace`. Returns `None` for a span that no [`layer`] exports.
#[must_use]
pub fn join(span: &tracing::Span, caller: Option<&TraceContext>) -> Option<TraceContext> {
    if let Some(caller) = caller {
        let caller = context(caller);
        let remote = SpanContext::new(
            caller.trace_id(),
            caller.span_id(),
            caller.trace_flags(),
            true,
            caller.trace_state().clone(),
        );
        // Without a layer, there is no exported span to attach.
        let _ = span.set_parent(Context::new().with_remote_span_context(remote));
    }
    span_context(span.context().span().span_context())
}

/// Samples traces in the same way as the sink of runs.
#[derive(Debug, Clone)]
struct RunSampler(Sampling);

impl ShouldSample for RunSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        _name: &str,
        _kind: &SpanKind,
        _attributes: &[KeyValue],
        _links: &[Link],
    ) -> SamplingResult {
        let parent = parent.map(|parent| parent.span().span_context().clone());
        let parent = parent.filter(SpanContext::is_valid);
        let known = parent.as_ref().and_then(span_context);
        let trace_id = u128::from_be_bytes(trace_id.to_bytes());
        let decision = match self.0.samples(trace_id, known.as_ref()) {
            true => SamplingDecision::RecordAndSample,
            false => SamplingDecision::Drop,
        };
        let state = parent.map(|parent| parent.trace_state().clone());
        SamplingResult {
            decision,
            attributes: Vec::new(),
            trace_state: state.unwrap_or_default(),
        }
    }
}

/// Passes ended spans to the sender of the runs' spans.
#[derive(Debug)]
struct SpanForwarder(Otel);

impl SpanProcessor for SpanForwarder {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.send(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// The sink, which is closed separately, sends what was handed over.
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use crate::config::OtlpConfig;

    use super::*;

    fn otel(ratio: f64) -> Otel {
        let mut config = OtlpConfig {
            metrics: false,
            ..OtlpConfig::default()
        };
        config.sampling.ratio = ratio;
        // Nothing listens there, and nothing is sent before it is closed.
        config.endpoint = Some("http://127.0.0.1:9".parse().unwrap());
        Otel::start(&config).unwrap()
    }

    fn joined(ratio: f64, caller: Option<&TraceContext>) -> Option<TraceContext> {
        let subscriber = tracing_subscriber::registry().with(layer(&otel(ratio)));
        tracing::subscriber::with_default(subscriber, || {
            join(&tracing::info_span!("request"), caller)
        })
    }

    #[test]
    fn a_span_joins_its_callers_trace_with_its_own_id_and_sampling() {
        let caller: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            .parse()
            .unwrap();
        let caller = caller.with_state(Some("vendor=1".to_owned()));
        let own = joined(0.0, Some(&caller)).unwrap();
        assert_eq!(own.trace_id, caller.trace_id);
        assert_ne!(own.span_id, caller.span_id);
        assert!(own.sampled);
        assert_eq!(own.state, caller.state);
        let unsampled = TraceContext {
            sampled: false,
            ..caller
        };
        assert!(!joined(1.0, Some(&unsampled)).unwrap().sampled);
    }

    #[test]
    fn a_span_without_a_caller_starts_a_trace_sampled_like_runs() {
        assert!(joined(1.0, None).unwrap().sampled);
        assert!(!joined(0.0, None).unwrap().sampled);
    }

    #[test]
    fn without_a_layer_there_is_no_trace_context() {
        assert_eq!(join(&tracing::info_span!("request"), None), None);
    }
}
