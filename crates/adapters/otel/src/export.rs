//! Sends spans and metrics in batches over OTLP, on threads of the SDK's, and counts what became of them.

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

/// The most spans that wait to be sent, unless the variable of the SDK says otherwise.
const MAX_WAITING: u64 = 2_048;

/// The most bytes of texts in the spans that wait: with what was said, a few of them may hold a lot.
const MAX_WAITING_BYTES: u64 = 64 << 20;

/// The most bytes of texts in the spans of one request: with all else in it less than the 4 MiB that collectors usually take
/// over gRPC.
const MAX_REQUEST_BYTES: u64 = 3 << 20;

/// The variable by which the SDK is told how many may wait.
const QUEUE_SIZE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";

/// What is said of what an endpoint was given and said nothing of.
const NO_ANSWER: &str = "the endpoint did not answer in time";

/// What is said of what came to its end after the place was closed.
const TOO_LATE: &str = "the program ended before they were sent";

/// How much of what was handed over was delivered so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Spans, lines or batches of metrics that the other side has.
    pub delivered: u64,
    /// Spans, lines or batches of metrics that are lost: there were too many at once, or the other side did not take them.
    pub dropped: u64,
    /// What went wrong last, if anything did.
    pub error: Option<String>,
}

/// Sends spans, and counts them.
#[derive(Debug)]
pub(crate) struct SpanSender {
    processor: Arc<BatchSpanProcessor>,
    tally: Arc<Tally>,
    max_waiting: u64,
    is_closed: AtomicBool,
}

/// How many spans or batches of metrics there were, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Those that were handed to the SDK.
    handed: AtomicU64,
    /// Those of them that it has sent, or failed to.
    taken: AtomicU64,
    /// Those that were not delivered.
    failed: AtomicU64,
    /// Spans that were not handed over, because too many waited or nothing is sent any more.
    full: AtomicU64,
    /// Bytes of texts in the spans that wait.
    bytes: AtomicU64,
    error: Mutex<Option<String>>,
    /// Whether the last batch was not delivered.
    is_failing: AtomicBool,
}

/// What the log is told of a place: once, and not again for each batch that fares alike.
#[derive(Debug, PartialEq, Eq)]
enum News {
    /// What went wrong, without secrets.
    Failed(String),
    /// Batches are delivered again.
    Works,
}

impl News {
    fn log(self, what: &str, place: &str) {
        match self {
            Self::Failed(error) => tracing::warn!(place, error, "{what} were not delivered"),
            Self::Works => tracing::info!(place, "{what} are delivered again"),
        }
    }
}

impl Tally {
    /// Notes what became of so many, and returns what is new about that.
    fn sent(&self, count: u64, sent: &OTelSdkResult, redact: &Redact) -> Option<News> {
        let error = sent.as_ref().err();
        let error = error.map(|error| redact.text(&error.to_string()).into_owned());
        let was_failing = self.is_failing.swap(error.is_some(), Ordering::Relaxed);
        let news = match error {
            Some(error) => {
                self.failed.fetch_add(count, Ordering::Relaxed);
                let mut last = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                let is_known = was_failing && last.as_ref() == Some(&error);
                *last = Some(error.clone());
                (!is_known).then_some(News::Failed(error))
            }
            None => was_failing.then_some(News::Works),
        };
        self.taken.fetch_add(count, Ordering::Relaxed);
        news
    }

    /// Notes one that comes after the end.
    fn late(&self) {
        self.full.fetch_add(1, Ordering::Relaxed);
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.get_or_insert_with(|| TOO_LATE.to_owned());
    }

    /// Returns how many were delivered so far and how many were not.
    pub(crate) fn delivery(&self) -> Delivery {
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let failed = count(&self.failed);
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        Delivery {
            delivered: count(&self.taken).saturating_sub(failed),
            dropped: failed.saturating_add(count(&self.full)),
            error: error.clone(),
        }
    }

    /// Returns the same at the end: what is still on its way then does not arrive.
    pub(crate) fn last(&self) -> Delivery {
        let left = self.handed.load(Ordering::Relaxed);
        let left = left.saturating_sub(self.taken.load(Ordering::Relaxed));
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
        let exporter = Counted {
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

    /// Hands a span over. Never waits: with too many before it, it is dropped and counted.
    pub(crate) fn send(&self, span: SpanData) {
        let tally = &self.tally;
        if self.is_closed.load(Ordering::Relaxed) {
            tally.late();
            return;
        }
        let handed = tally.handed.load(Ordering::Relaxed);
        let waiting = handed.saturating_sub(tally.taken.load(Ordering::Relaxed));
        let bytes = size(&span);
        let all_bytes = tally.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_too_much = waiting > 0 && all_bytes.saturating_add(bytes) > MAX_WAITING_BYTES;
        if waiting >= self.max_waiting || is_too_much {
            tally.bytes.fetch_sub(bytes, Ordering::Relaxed);
            tally.full.fetch_add(1, Ordering::Relaxed);
            return;
        }
        tally.handed.fetch_add(1, Ordering::Relaxed);
        self.processor.on_end(span);
    }

    pub(crate) fn delivery(&self) -> Delivery {
        self.tally.delivery()
    }

    /// Sends what waits, within a time, and nothing after that. What is left then counts as dropped. Blocks its thread.
    pub(crate) fn close(&self, within: Duration) -> Delivery {
        self.is_closed.store(true, Ordering::Relaxed);
        let processor = Arc::clone(&self.processor);
        // What went wrong was noted where it did.
        in_time(within, move || {
            let _ = processor.shutdown_with_timeout(within);
        });
        self.tally.last()
    }
}

/// An exporter that takes secrets out of spans and counts what became of them.
#[derive(Debug)]
struct Counted {
    inner: SpanExporter,
    tally: Arc<Tally>,
    redact: Redact,
    place: String,
}

impl Counted {
    async fn send(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let sent = sdk::SpanExporter::export(&self.inner, spans).await;
        if let Some(news) = self.tally.sent(count, &sent, &self.redact) {
            news.log("spans", &self.place);
        }
        sent
    }
}

impl sdk::SpanExporter for Counted {
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

/// Divides spans into requests that the other side takes. A span that is larger than that goes alone.
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

/// An exporter that counts the batches of metrics and what became of them.
#[derive(Debug)]
pub(crate) struct CountedMetrics {
    inner: MetricExporter,
    tally: Arc<Tally>,
    redact: Redact,
    place: String,
}

impl CountedMetrics {
    /// Makes an exporter, and what tells of its batches.
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
        if let Some(news) = self.tally.sent(1, &sent, &self.redact) {
            news.log("metrics", &self.place);
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

/// Returns where spans go, or metrics where no spans are sent, without what may be secret.
fn place(config: &OtlpConfig) -> String {
    config.shown_endpoint(|name| std::env::var(name).ok())
}

/// Does something on a thread of its own, and waits for it no longer than that: what the SDK has no time limit for goes on alone
/// and ends with the process.
pub(crate) fn in_time(within: Duration, work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let working = move || {
        work();
        // Whoever waited may have stopped.
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

    /// Starts an endpoint that refuses what is larger than 4 MiB, and returns where it is.
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
    fn a_batch_goes_in_requests_that_are_taken_and_each_is_counted_for_itself() {
        let config = OtlpConfig {
            endpoint: Some(collector().parse().unwrap()),
            ..OtlpConfig::default()
        };
        let exporter = Counted {
            inner: span_exporter(&config, RetryPolicy::disabled()).unwrap(),
            tally: Arc::default(),
            redact: Redact::default(),
            place: place(&config),
        };
        // A client over HTTP blocks, so that its answer is there at once.
        let export = |sizes: &[usize]| {
            let batch = sizes.iter().map(|size| span(*size)).collect();
            let sent = sdk::SpanExporter::export(&exporter, batch).now_or_never();
            let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
            let tally = &exporter.tally;
            (
                sent.unwrap().is_ok(),
                count(&tally.taken),
                count(&tally.failed),
            )
        };
        assert_eq!(export(&[1, 1, 1, 1, 1]), (true, 5, 0));
        assert_eq!(export(&[1, 5, 1]), (false, 8, 1), "one is too large");
    }

    #[test]
    fn the_log_is_told_what_is_wrong_and_that_it_works_again_and_not_each_time() {
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
        let told = batches.map(|sent| tally.sent(1, &sent, &redact));
        let failure = |why: &str| Some(News::Failed(format!("Operation failed: {why}")));
        let works = Some(News::Works);
        assert_eq!(told, [failure("gone"), None, failure("full"), works, None]);
    }

    #[test]
    fn a_span_that_ends_after_the_end_is_lost_and_no_fault_of_the_endpoint() {
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
