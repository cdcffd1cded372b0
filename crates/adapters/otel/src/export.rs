//! Sends spans and metrics in batches over OTLP, on the SDK's threads, and counts the outcomes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use opentelemetry_otlp::{MetricExporter, RetryPolicy, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{self as sdk, BatchSpanProcessor, SpanData, SpanProcessor};

use crate::clean::{clean, size};
use crate::config::{OtlpConfig, Redact, StartError};
use crate::exporters::{metric_exporter, span_exporter};

/// The maximum number of spans that wait to be sent, unless the SDK's variable sets another.
const MAX_WAITING: u64 = 2_048;

/// The maximum total size in bytes of the texts in waiting spans: with content, a few spans may hold a lot.
const MAX_WAITING_BYTES: u64 = 64 << 20;

/// The maximum total size in bytes of the texts in the spans of one request. With everything else in the request, this
/// stays below the 4 MiB that collectors usually accept over gRPC.
const MAX_REQUEST_BYTES: u64 = 3 << 20;

/// The SDK's variable for the maximum number of waiting spans.
const QUEUE_SIZE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";

/// The error for data that was sent but not acknowledged by the endpoint.
const NO_ANSWER: &str = "the endpoint did not answer in time";

/// The error for data that arrived after the sender was closed.
const TOO_LATE: &str = "the program ended before sending them";

/// How much of the data was delivered so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Spans, lines or batches of metrics that have arrived.
    pub delivered: u64,
    /// Spans, lines or batches of metrics that are lost: too many were waiting, or the receiver did not accept them.
    pub dropped: u64,
    /// The last error, if there was one.
    pub error: Option<String>,
}

/// Sends spans and counts them.
#[derive(Debug)]
pub(crate) struct SpanSender {
    processor: Arc<BatchSpanProcessor>,
    tally: Arc<Tally>,
    max_waiting: u64,
    is_closed: AtomicBool,
}

/// The number of spans or batches of metrics by outcome.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Handed to the SDK.
    handed: AtomicU64,
    /// Of those, sent or failed.
    finished: AtomicU64,
    /// Not delivered.
    failed: AtomicU64,
    /// Spans that were not handed to the SDK because too many were waiting or the sender was closed.
    refused: AtomicU64,
    /// The total size in bytes of the texts in waiting spans.
    bytes: AtomicU64,
    error: Mutex<Option<String>>,
    /// Whether the last batch was not delivered.
    is_failing: AtomicBool,
}

/// A change that is logged: once, and not again for each further batch with the same outcome.
#[derive(Debug, PartialEq, Eq)]
enum OutcomeChange {
    /// Batches fail. Contains the error, without secrets.
    Failed(String),
    /// Batches are delivered again.
    Works,
}

impl OutcomeChange {
    fn log(self, what: &str, place: &str) {
        match self {
            Self::Failed(error) => tracing::warn!(place, error, "{what} were not delivered"),
            Self::Works => tracing::info!(place, "{what} are delivered again"),
        }
    }
}

impl Tally {
    /// Records the outcome of a number of items, and returns what changed.
    fn record(&self, count: u64, result: &OTelSdkResult, redact: &Redact) -> Option<OutcomeChange> {
        let error = result.as_ref().err();
        let error = error.map(|error| redact.text(&error.to_string()).into_owned());
        let was_failing = self.is_failing.swap(error.is_some(), Ordering::Relaxed);
        let change = match error {
            Some(error) => {
                self.failed.fetch_add(count, Ordering::Relaxed);
                let mut last = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                let is_known = was_failing && last.as_ref() == Some(&error);
                *last = Some(error.clone());
                (!is_known).then_some(OutcomeChange::Failed(error))
            }
            None => was_failing.then_some(OutcomeChange::Works),
        };
        self.finished.fetch_add(count, Ordering::Relaxed);
        change
    }

    /// Records an item that arrives after the sender was closed.
    fn refuse_late(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.get_or_insert_with(|| TOO_LATE.to_owned());
    }

    /// Returns how many items were delivered and dropped so far.
    pub(crate) fn delivery(&self) -> Delivery {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let failed = count(&self.failed);
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        Delivery {
            delivered: count(&self.finished).saturating_sub(failed),
            dropped: failed.saturating_add(count(&self.refused)),
            error: error.clone(),
        }
    }

    /// Returns the final counts: what is still in transit is counted as dropped.
    pub(crate) fn last(&self) -> Delivery {
        let left = self.handed.load(Ordering::Relaxed);
        let left = left.saturating_sub(self.finished.load(Ordering::Relaxed));
        let mut delivery = self.delivery();
        delivery.dropped = delivery.dropped.saturating_add(left);
        if left > 0 && delivery.error.is_none() {
            delivery.error = Some(NO_ANSWER.to_owned());
        }
        delivery
    }
}

impl SpanSender {
    pub(crate) fn new(config: &OtlpConfig, resource: &Resource) -> Result<Self, StartError> {
        let tally = Arc::new(Tally::default());
        let exporter = CountingExporter {
            inner: span_exporter(config, RetryPolicy::default())?,
            tally: Arc::clone(&tally),
            redact: config.redact.clone(),
            place: place(config),
        };
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        processor.set_resource(resource);
        let max_waiting = std::env::var(QUEUE_SIZE).ok();
        let max_waiting = max_waiting.and_then(|value| value.trim().parse().ok());
        Ok(Self {
            processor: Arc::new(processor),
            tally,
            max_waiting: max_waiting.unwrap_or(MAX_WAITING).max(1),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Hands over a span. Never blocks: if too many are waiting, the span is dropped and counted.
    pub(crate) fn send(&self, span: SpanData) {
        let tally = &self.tally;
        if self.is_closed.load(Ordering::Relaxed) {
            tally.refuse_late();
            return;
        }
        let handed = tally.handed.load(Ordering::Relaxed);
        let waiting = handed.saturating_sub(tally.finished.load(Ordering::Relaxed));
        let bytes = size(&span);
        let all_bytes = tally.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_too_much = waiting > 0 && all_bytes.saturating_add(bytes) > MAX_WAITING_BYTES;
        if waiting >= self.max_waiting || is_too_much {
            tally.bytes.fetch_sub(bytes, Ordering::Relaxed);
            tally.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        tally.handed.fetch_add(1, Ordering::Relaxed);
        self.processor.on_end(span);
    }

    pub(crate) fn delivery(&self) -> Delivery {
        self.tally.delivery()
    }

    /// Sends the waiting spans within the given time, and nothing afterwards. Spans that remain are counted as dropped.
    /// Blocks the thread.
    pub(crate) fn close(&self, within: Duration) -> Delivery {
        self.is_closed.store(true, Ordering::Relaxed);
        let processor = Arc::clone(&self.processor);
        // Errors have already been recorded.
        in_time(within, move || {
            let _ = processor.shutdown_with_timeout(within);
        });
        self.tally.last()
    }
}

/// An exporter that removes secrets from spans and counts the outcomes.
#[derive(Debug)]
struct CountingExporter {
    inner: SpanExporter,
    tally: Arc<Tally>,
    redact: Redact,
    place: String,
}

impl CountingExporter {
    async fn send(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let sent = sdk::SpanExporter::export(&self.inner, spans).await;
        if let Some(change) = self.tally.record(count, &sent, &self.redact) {
            change.log("spans", &self.place);
        }
        sent
    }
}

impl sdk::SpanExporter for CountingExporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            self.tally.bytes.fetch_sub(size(span), Ordering::Relaxed);
            clean(&self.redact, span);
        }
        let mut sent = Ok(());
        for request in requests(batch) {
            sent = self.send(request).await.and(sent);
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Splits spans into requests of an acceptable size. A span that exceeds the limit is sent alone.
fn requests(batch: Vec<SpanData>) -> Vec<Vec<SpanData>> {
    let mut requests: Vec<Vec<SpanData>> = Vec::new();
    let mut bytes = 0_u64;
    for span in batch {
        let own = size(&span);
        bytes = bytes.saturating_add(own);
        match requests.last_mut() {
            Some(request) if bytes <= MAX_REQUEST_BYTES => request.push(span),
            _ => {
                bytes = own;
                requests.push(vec![span]);
            }
        }
    }
    requests
}

/// An exporter that counts batches of metrics by outcome.
#[derive(Debug)]
pub(crate) struct CountedMetrics {
    inner: MetricExporter,
    tally: Arc<Tally>,
    redact: Redact,
    place: String,
}

impl CountedMetrics {
    /// Creates an exporter, and the counts of its batches.
    pub(crate) fn new(config: &OtlpConfig) -> Result<(Self, Arc<Tally>), StartError> {
        let tally = Arc::new(Tally::default());
        let mut own = config.clone();
        own.traces = false;
        let exporter = Self {
            inner: metric_exporter(config, RetryPolicy::default())?,
            tally: Arc::clone(&tally),
            redact: config.redact.clone(),
            place: place(&own),
        };
        Ok((exporter, tally))
    }
}

impl PushMetricExporter for CountedMetrics {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.tally.handed.fetch_add(1, Ordering::Relaxed);
        let sent = self.inner.export(metrics).await;
        if let Some(change) = self.tally.record(1, &sent, &self.redact) {
            change.log("metrics", &self.place);
        }
        sent
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

/// Returns the address for spans, or for metrics if no spans are sent, without the parts that may be secret.
fn place(config: &OtlpConfig) -> String {
    config.shown_endpoint(|name| std::env::var(name).ok())
}

/// Runs `work` on a separate thread and waits for it at most `within`. Work for which the SDK has no time limit may
/// continue after that, and ends with the process.
pub(crate) fn in_time(within: Duration, work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let working = move || {
        work();
        // The caller may have stopped waiting.
        let _ = done.send(());
    };
    let begun = thread::Builder::new()
        .name("neuraxis-last-export".to_owned())
        .spawn(working);
    if begun.is_ok() {
        let _ = is_done.recv_timeout(within);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::time::UNIX_EPOCH;

    use futures_util::FutureExt as _;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
    use opentelemetry::{InstrumentationScope, KeyValue};
    use opentelemetry_sdk::error::OTelSdkError;
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};

    use super::*;

    /// Starts an endpoint that rejects requests larger than 4 MiB, and returns its address.
    fn collector() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = BufReader::new(connection.unwrap());
                let mut length = 0_usize;
                loop {
                    let mut line = String::new();
                    connection.read_line(&mut line).unwrap();
                    let line = line.trim().to_ascii_lowercase();
                    if let Some(value) = line.strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                connection.read_exact(&mut vec![0; length]).unwrap();
                let status = if length > 4 << 20 {
                    "413 Too Large"
                } else {
                    "200 OK"
                };
                let rest = "content-length: 0\r\nconnection: close\r\n\r\n";
                let answer = format!("HTTP/1.1 {status}\r\n{rest}");
                connection.get_mut().write_all(answer.as_bytes()).unwrap();
            }
        });
        endpoint
    }

    fn span(mebibytes: usize) -> SpanData {
        SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "chat".into(),
            start_time: UNIX_EPOCH,
            end_time: UNIX_EPOCH,
            attributes: vec![KeyValue::new("said", "x".repeat(mebibytes << 20))],
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("test").build(),
        }
    }

    #[test]
    fn a_batch_is_split_into_accepted_requests_and_each_is_counted() {
        let config = OtlpConfig {
            endpoint: Some(collector().parse().unwrap()),
            ..OtlpConfig::default()
        };
        let exporter = CountingExporter {
            inner: span_exporter(&config, RetryPolicy::disabled()).unwrap(),
            tally: Arc::default(),
            redact: Redact::default(),
            place: place(&config),
        };
        // An HTTP client blocks, so its answer is available immediately.
        let export = |sizes: &[usize]| {
            let batch = sizes.iter().map(|size| span(*size)).collect();
            let sent = sdk::SpanExporter::export(&exporter, batch).now_or_never();
            let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
            let tally = &exporter.tally;
            (
                sent.unwrap().is_ok(),
                count(&tally.finished),
                count(&tally.failed),
            )
        };
        assert_eq!(export(&[1, 1, 1, 1, 1]), (true, 5, 0));
        assert_eq!(export(&[1, 5, 1]), (false, 8, 1), "one is too large");
    }

    #[test]
    fn export_failures_and_recovery_are_logged_once_per_change() {
        let (tally, redact) = (Tally::default(), Redact::default());
        let failed =
            |why: &str| -> OTelSdkResult { Err(OTelSdkError::InternalFailure(why.to_owned())) };
        let batches = [
            failed("gone"),
            failed("gone"),
            failed("full"),
            Ok(()),
            Ok(()),
        ];
        let told = batches.map(|sent| tally.record(1, &sent, &redact));
        let failure = |why: &str| Some(OutcomeChange::Failed(format!("Operation failed: {why}")));
        let works = Some(OutcomeChange::Works);
        assert_eq!(told, [failure("gone"), None, failure("full"), works, None]);
    }

    #[test]
    fn a_span_sent_after_close_is_counted_as_dropped() {
        let config = OtlpConfig {
            endpoint: Some(collector().parse().unwrap()),
            ..OtlpConfig::default()
        };
        let sender = SpanSender::new(&config, &Resource::builder_empty().build()).unwrap();
        assert_eq!(sender.close(Duration::from_secs(5)), Delivery::default());
        sender.send(span(0));
        let delivery = sender.delivery();
        assert_eq!(delivery.dropped, 1);
        assert_eq!(delivery.error.as_deref(), Some(TOO_LATE));
    }
}
