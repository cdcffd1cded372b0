//! The sink that builds spans and metrics from records, and what sends them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use neuraxis_core::{Record, RecordBody, RunId, TraceContext, Transcript};
use neuraxis_ports::TraceSink;
use opentelemetry::trace::SpanContext;
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use percent_encoding::percent_decode_str;

use crate::config::{OtlpConfig, StartError};
use crate::endpoints::Endpoints;
use crate::export::{Delivery, SpanSender};
use crate::metrics::Metrics;
use crate::sampling::Sampling;
use crate::spans::{RunSpans, word};

/// The schema of the names in use.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// The default service name.
const SERVICE: &str = "neuraxis";

/// Keys of the attributes that describe this process.
const NAME: &str = "service.name";
const VERSION: &str = "service.version";
const INSTANCE: &str = "service.instance.id";

/// Sends spans and metrics of runs. Clones share it.
#[derive(Debug, Clone)]
pub struct Otel(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    spans: Option<SpanSender>,
    metrics: Option<Metrics>,
    sampling: Sampling,
    content: bool,
    scope: InstrumentationScope,
    endpoints: RwLock<Arc<Endpoints>>,
    runs: Mutex<HashMap<RunId, Arc<Mutex<FollowedRun>>>>,
}

/// A run that is being followed. Its spans are sent if it is sampled.
#[derive(Debug)]
struct FollowedRun {
    spans: RunSpans,
    is_sampled: bool,
}

impl Otel {
    /// Prepares the senders. Sends nothing yet. With gRPC, this must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the endpoint or one of OpenTelemetry's variables cannot be used.
    pub fn start(config: &OtlpConfig) -> Result<Self, StartError> {
        let resource = resource(config);
        let spans = config.traces.then(|| SpanSender::new(config, &resource));
        let metrics = config.metrics.then(|| Metrics::new(config, resource));
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(SCHEMA)
            .build();
        Ok(Self(Arc::new(Shared {
            spans: spans.transpose()?,
            metrics: metrics.transpose()?,
            sampling: config.sampling,
            content: config.content,
            scope,
            endpoints: RwLock::default(),
            runs: Mutex::default(),
        })))
    }

    /// Returns the sink for building an orchestrator.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn TraceSink> {
        Arc::clone(&self.0) as Arc<dyn TraceSink>
    }

    /// Sets which models and MCP servers runs use from now on: the details that records do not contain.
    pub fn set_endpoints(&self, endpoints: Endpoints) {
        let known = self.0.endpoints.write();
        *known.unwrap_or_else(PoisonError::into_inner) = Arc::new(endpoints);
    }

    /// Returns whether spans are exported.
    pub(crate) fn exports_spans(&self) -> bool {
        self.0.spans.is_some()
    }

    /// Returns which traces are exported.
    pub(crate) fn sampling(&self) -> Sampling {
        self.0.sampling
    }

    /// Returns the scope that names this crate as the source of spans.
    pub(crate) fn scope(&self) -> InstrumentationScope {
        self.0.scope.clone()
    }

    /// Sends a span that does not belong to a run.
    pub(crate) fn send(&self, span: SpanData) {
        if let Some(spans) = &self.0.spans {
            spans.send(span);
        }
    }

    /// Records the number of calls that wait for a user's approval, over all processes.
    pub fn note_waiting(&self, approvals: u64) {
        if let Some(metrics) = &self.0.metrics {
            metrics.note_waiting(approvals);
        }
    }

    /// Returns how many spans were delivered and dropped so far.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        let spans = self.0.spans.as_ref();
        spans.map(SpanSender::delivery).unwrap_or_default()
    }

    /// Returns how many batches of metrics were delivered and dropped so far.
    #[must_use]
    pub fn metric_delivery(&self) -> Delivery {
        let metrics = self.0.metrics.as_ref();
        metrics.map(Metrics::delivery).unwrap_or_default()
    }

    /// Sends what is waiting within the given time, and nothing afterwards. What remains is counted as dropped. Returns
    /// the outcome for spans, and for metrics.
    pub async fn close(&self, within: Duration) -> (Delivery, Delivery) {
        let shared = Arc::clone(&self.0);
        let closed = tokio::task::spawn_blocking(move || {
            std::thread::scope(|scope| {
                let metrics = shared.metrics.as_ref();
                let metrics = scope.spawn(move || metrics.map(|metrics| metrics.close(within)));
                let spans = shared.spans.as_ref();
                let spans = spans.map(|spans| spans.close(within));
                let metrics = metrics.join().ok().flatten();
                (spans.unwrap_or_default(), metrics.unwrap_or_default())
            })
        });
        let closed = closed.await;
        closed.unwrap_or_else(|_| (self.delivery(), self.metric_delivery()))
    }
}

/// Converts an OpenTelemetry span context, such as that of your program's current span, to a trace context for
/// `UserRequest::trace`: the run then becomes part of that trace. Returns `None` for an invalid span context.
///
/// ```
/// use neuraxis_otel::span_context;
/// use opentelemetry::Context;
/// use opentelemetry::trace::TraceContextExt;
///
/// let current = Context::current();
/// assert_eq!(span_context(current.span().span_context()), None, "there is no span here");
/// ```
#[must_use]
pub fn span_context(span: &SpanContext) -> Option<TraceContext> {
    let trace = TraceContext {
        trace_id: u128::from_be_bytes(span.trace_id().to_bytes()),
        span_id: u64::from_be_bytes(span.span_id().to_bytes()),
        sampled: span.is_sampled(),
        state: None,
    };
    let state = span.trace_state().header();
    span.is_valid().then(|| trace.with_state(Some(state)))
}

impl Shared {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Mutex<FollowedRun>>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn endpoints(&self) -> Arc<Endpoints> {
        let known = self.endpoints.read();
        Arc::clone(&known.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the state of a run, which is empty if the run was not announced.
    fn followed(&self, run: RunId) -> Arc<Mutex<FollowedRun>> {
        let mut runs = self.runs();
        let followed = runs.entry(run).or_insert_with(|| self.new_state(run, None));
        Arc::clone(followed)
    }

    fn new_state(&self, run: RunId, history: Option<&Transcript>) -> Arc<Mutex<FollowedRun>> {
        let history = self.content.then(|| history.cloned().unwrap_or_default());
        let own = TraceContext::of_run(run);
        Arc::new(Mutex::new(FollowedRun {
            spans: RunSpans::new(self.scope.clone(), run, history, self.endpoints()),
            is_sampled: self.spans.is_some() && self.sampling.samples(own.trace_id, None),
        }))
    }

    fn follow(&self, run: RunId, history: &Transcript, records: &[Arc<Record>]) {
        let followed = self.new_state(run, Some(history));
        {
            let mut followed = lock(&followed);
            for record in records {
                self.note_sampling(&mut followed, record);
                // The process that drove the run before has already sent the ended spans.
                followed.apply(record);
            }
        }
        let before = self.runs().insert(run, followed);
        if let Some(metrics) = self.metrics.as_ref().filter(|_| before.is_none()) {
            metrics.run_began();
        }
    }

    /// Applies the sampling decision that was made when the run began.
    fn note_sampling(&self, followed: &mut FollowedRun, record: &Record) {
        if let RecordBody::RunStarted(started) = &record.body
            && let Some(trace) = &started.spec.trace
        {
            followed.is_sampled = self.spans.is_some() && trace.sampled;
        }
    }
}

impl FollowedRun {
    /// Applies a record, and returns the spans that end with it. If a run is not sampled, only its agents are tracked.
    fn apply(&mut self, record: &Arc<Record>) -> Vec<SpanData> {
        let is_of_agent = matches!(
            record.body,
            RecordBody::RunStarted(_) | RecordBody::Final(_) | RecordBody::RunFailed(_)
        );
        let starts = matches!(&record.body, RecordBody::ToolCall(call) if !call.agents.is_empty());
        if self.is_sampled || is_of_agent || starts {
            return self.spans.record(record);
        }
        Vec::new()
    }
}

fn lock(followed: &Mutex<FollowedRun>) -> MutexGuard<'_, FollowedRun> {
    followed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TraceSink for Shared {
    fn begin(&self, run: RunId, history: &Transcript) {
        self.follow(run, history, &[]);
    }

    fn resume(&self, run: RunId, history: &Transcript, records: &[Arc<Record>]) {
        self.follow(run, history, records);
    }

    fn end(&self, run: RunId) {
        let before = self.runs().remove(&run);
        if let Some(metrics) = self.metrics.as_ref().filter(|_| before.is_some()) {
            metrics.run_ended();
        }
    }

    fn record(&self, record: &Arc<Record>) {
        let followed = self.followed(record.run_id);
        let mut followed = lock(&followed);
        self.note_sampling(&mut followed, record);
        if let Some(metrics) = &self.metrics {
            metrics.record(record, &self.endpoints());
            if let RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) = &record.body
                && let Some((name, began)) = followed.spans.agent(record.agent)
            {
                let took = record.at.duration_since(began);
                let took = Duration::try_from(took).unwrap_or_default();
                metrics.agent_ended(name, &word(&outcome.finish_reason), took);
            }
        }
        let ended = followed.apply(record);
        if let Some(spans) = self.spans.as_ref().filter(|_| followed.is_sampled) {
            ended.into_iter().for_each(|span| spans.send(span));
        }
    }

    fn stored(&self, records: &[Arc<Record>], took: Duration) {
        if let Some(metrics) = &self.metrics {
            metrics.committed(took);
        }
        let (Some(sender), Some(first)) = (&self.spans, records.first()) else {
            return;
        };
        let followed = self.followed(first.run_id);
        let mut followed = lock(&followed);
        self.note_sampling(&mut followed, first);
        if followed.is_sampled
            && let Some(span) = followed.spans.committed(records, took)
        {
            sender.send(span);
        }
    }

    fn samples(&self, trace_id: u128, parent: Option<&TraceContext>) -> Option<bool> {
        self.spans.as_ref()?;
        Some(self.sampling.samples(trace_id, parent))
    }
}

/// Describes this process: attributes from OpenTelemetry's variables, and defaults for those they omit.
fn resource(config: &OtlpConfig) -> Resource {
    let name = std::env::var("OTEL_SERVICE_NAME").ok();
    let by_variables = as_specified(&Resource::builder().build(), name);
    let known = by_variables.iter();
    let known = known.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    let attributes = omitted_attributes(&by_variables, config);
    Resource::builder_empty()
        .with_attributes(known)
        .with_attributes(attributes)
        .build()
}

/// Returns the variables' attributes as the specification defines them: the SDK does not decode their percent-encoded
/// values, and the service name in its own variable takes precedence over one among the attributes.
fn as_specified(found: &Resource, name: Option<String>) -> Resource {
    let attributes = found.iter();
    let attributes = attributes.map(|(key, value)| KeyValue::new(key.clone(), decoded(value)));
    let name = name.filter(|name| !name.is_empty());
    Resource::builder_empty()
        .with_attributes(attributes)
        .with_attributes(name.map(|name| KeyValue::new(NAME, name)))
        .build()
}

/// Returns a value with its percent-encoding decoded; a value without any, or with an invalid one, is returned
/// unchanged.
fn decoded(value: &Value) -> Value {
    let written = value.as_str();
    let decoded = percent_decode_str(&written).decode_utf8();
    decoded.map_or_else(|_| value.clone(), |text| text.into_owned().into())
}

/// Returns the attributes of this process that the variables omit.
fn omitted_attributes(by_variables: &Resource, config: &OtlpConfig) -> Vec<KeyValue> {
    let named = by_variables.get(&NAME.into());
    let is_named = named.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let usual_name = (!is_named).then(|| SERVICE.to_owned());
    let name = config.service_name.clone().or(usual_name);
    let is_omitted = |key: &'static str| by_variables.get(&key.into()).is_none();
    let version = config.service_version.as_deref();
    let version = version.unwrap_or(env!("CARGO_PKG_VERSION")).to_owned();
    let version = is_omitted(VERSION).then_some(version);
    let instance = config.instance.clone().filter(|_| is_omitted(INSTANCE));
    [(NAME, name), (VERSION, version), (INSTANCE, instance)]
        .into_iter()
        .filter_map(|(key, value)| Some(KeyValue::new(key, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_variables_are_decoded_and_the_service_name_variable_wins() {
        let said = [
            (NAME, "from%2Dattributes"),
            ("pod", "a%2Cb"),
            ("share", "50%"),
            ("wrong", "%ff"),
        ];
        let said = said.map(|(key, value)| KeyValue::new(key, value));
        let found = Resource::builder_empty().with_attributes(said).build();
        let of = |name: Option<&str>, key: &'static str| {
            let resource = as_specified(&found, name.map(str::to_owned));
            resource.get(&key.into()).unwrap().as_str().into_owned()
        };
        assert_eq!(of(None, NAME), "from-attributes");
        assert_eq!(of(Some(""), NAME), "from-attributes");
        assert_eq!(of(Some("bot%2D"), NAME), "bot%2D");
        let others = ["pod", "share", "wrong"].map(|key| of(None, key));
        assert_eq!(others, ["a,b", "50%", "%ff"]);
    }

    fn told(said: &[(&'static str, &'static str)], config: &OtlpConfig) -> Vec<(String, String)> {
        let said = said.iter().map(|(key, value)| KeyValue::new(*key, *value));
        let by_variables = Resource::builder_empty().with_attributes(said).build();
        let attributes = omitted_attributes(&by_variables, config).into_iter();
        attributes
            .map(|it| (it.key.as_str().to_owned(), it.value.as_str().into_owned()))
            .collect()
    }

    #[test]
    fn resource_attributes_come_from_settings_variables_and_defaults() {
        let mut config = OtlpConfig {
            instance: Some("i".to_owned()),
            ..OtlpConfig::default()
        };
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let version = own(VERSION, env!("CARGO_PKG_VERSION"));
        let nothing = [(NAME, "unknown_service:a")];
        assert_eq!(
            told(&nothing, &config),
            [own(NAME, "neuraxis"), version, own(INSTANCE, "i")]
        );
        let all = [(NAME, "shop"), (VERSION, "7"), (INSTANCE, "pod-1")];
        assert!(told(&all, &config).is_empty());
        config.service_version = Some("2".to_owned());
        config.service_name = Some("bot".to_owned());
        assert_eq!(told(&all, &config), [own(NAME, "bot")]);
        assert_eq!(
            told(&nothing, &config),
            [own(NAME, "bot"), own(VERSION, "2"), own(INSTANCE, "i")]
        );
    }
}
