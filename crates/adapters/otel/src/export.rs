//! Sends spans in batches over OTLP, on a thread of the SDK's, and counts what became of them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use opentelemetry::{Array, KeyValue, StringValue, Value, trace::Status};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    MetricExporter, Protocol as Wire, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
    WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{self as sdk, BatchSpanProcessor, SpanData, SpanProcessor};
use url::{Host, Url};

use crate::config::{OtlpConfig, Protocol, Redact, StartError};

/// The most spans that wait to be sent, unless the variable of the SDK says otherwise.
const MAX_WAITING: u64 = 2_048;

/// The variable by which the SDK is told how many may wait.
const QUEUE_SIZE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";

/// How much of what was handed over was delivered so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Spans or lines that the other side has.
    pub delivered: u64,
    /// Spans or lines that are lost: there were too many at once, or the other side did not take them.
    pub dropped: u64,
    /// What went wrong last, if anything did.
    pub error: Option<String>,
}

/// Sends spans, and counts them.
#[derive(Debug)]
pub(crate) struct SpanSender {
    processor: BatchSpanProcessor,
    tally: Arc<Tally>,
    max_waiting: u64,
}

#[derive(Debug, Default)]
struct Tally {
    /// Spans that were handed to the SDK.
    handed: AtomicU64,
    /// Those of them that it has begun to send.
    taken: AtomicU64,
    /// Those that were not delivered.
    failed: AtomicU64,
    /// Spans that were not handed over, because too many waited.
    full: AtomicU64,
    error: Mutex<Option<String>>,
}

impl SpanSender {
    pub(crate) fn new(config: &OtlpConfig, resource: &Resource) -> Result<Self, StartError> {
        let tally = Arc::new(Tally::default());
        let exporter = Counted {
            inner: span_exporter(config, RetryPolicy::default())?,
            tally: Arc::clone(&tally),
            redact: config.redact.clone(),
        };
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        processor.set_resource(resource);
        let max_waiting = std::env::var(QUEUE_SIZE).ok();
        let max_waiting = max_waiting.and_then(|value| value.trim().parse().ok());
        Ok(Self {
            processor,
            tally,
            max_waiting: max_waiting.unwrap_or(MAX_WAITING).max(1),
        })
    }

    /// Hands a span over. Never waits: with too many before it, it is dropped and counted.
    pub(crate) fn send(&self, span: SpanData) {
        let tally = &self.tally;
        let handed = tally.handed.load(Ordering::Relaxed);
        let waiting = handed.saturating_sub(tally.taken.load(Ordering::Relaxed));
        if waiting >= self.max_waiting {
            tally.full.fetch_add(1, Ordering::Relaxed);
            return;
        }
        tally.handed.fetch_add(1, Ordering::Relaxed);
        self.processor.on_end(span);
    }

    pub(crate) fn delivery(&self) -> Delivery {
        let tally = &self.tally;
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let failed = count(&tally.failed);
        let error = tally.error.lock().unwrap_or_else(PoisonError::into_inner);
        Delivery {
            delivered: count(&tally.taken).saturating_sub(failed),
            dropped: failed.saturating_add(count(&tally.full)),
            error: error.clone(),
        }
    }

    /// Sends what waits, within a time, and nothing after that. What is left then counts as dropped. Blocks its thread.
    pub(crate) fn close(&self, within: Duration) -> Delivery {
        // What went wrong was noted where it did.
        let _ = self.processor.shutdown_with_timeout(within);
        let tally = &self.tally;
        let left = tally.handed.load(Ordering::Relaxed);
        let left = left.saturating_sub(tally.taken.load(Ordering::Relaxed));
        let mut delivery = self.delivery();
        delivery.dropped = delivery.dropped.saturating_add(left);
        if left > 0 && delivery.error.is_none() {
            delivery.error = Some("the endpoint did not answer in time".to_owned());
        }
        delivery
    }
}

/// An exporter that takes secrets out of spans and counts what became of them.
#[derive(Debug)]
struct Counted {
    inner: SpanExporter,
    tally: Arc<Tally>,
    redact: Redact,
}

impl sdk::SpanExporter for Counted {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        for span in &mut batch {
            redact_span(&self.redact, span);
        }
        let sent = self.inner.export(batch).await;
        if let Err(error) = &sent {
            let error = self.redact.text(&error.to_string()).into_owned();
            tracing::warn!(spans = count, error, "spans were not delivered");
            self.tally.failed.fetch_add(count, Ordering::Relaxed);
            let mut last = self
                .tally
                .error
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *last = Some(error);
        }
        self.tally.taken.fetch_add(count, Ordering::Relaxed);
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

fn redact_span(redact: &Redact, span: &mut SpanData) {
    if let Cow::Owned(name) = redact.text(&span.name) {
        span.name = name.into();
    }
    redact_all(redact, &mut span.attributes);
    for event in &mut span.events.events {
        redact_all(redact, &mut event.attributes);
    }
    if let Status::Error { description } = &mut span.status
        && let Cow::Owned(clean) = redact.text(description)
    {
        *description = clean.into();
    }
}

fn redact_all(redact: &Redact, attributes: &mut [KeyValue]) {
    let clean = |text: &mut StringValue| {
        if let Cow::Owned(cleaned) = redact.text(text.as_str()) {
            *text = cleaned.into();
        }
    };
    for attribute in attributes {
        match &mut attribute.value {
            Value::String(text) => clean(text),
            Value::Array(Array::String(texts)) => texts.iter_mut().for_each(clean),
            _ => {}
        }
    }
}

fn span_exporter(config: &OtlpConfig, retries: RetryPolicy) -> Result<SpanExporter, StartError> {
    let built = match config.protocol {
        Protocol::HttpProtobuf => {
            let mut builder = SpanExporter::builder()
                .with_http()
                .with_protocol(Wire::HttpBinary)
                .with_http_client(http_client(config)?)
                .with_retry_policy(retries);
            if let Some(endpoint) = config.signal_endpoint("v1/traces") {
                builder = builder.with_endpoint(endpoint);
            }
            builder.build()
        }
        Protocol::Grpc => {
            let mut builder = SpanExporter::builder()
                .with_tonic()
                .with_retry_policy(retries);
            if let Some(endpoint) = &config.endpoint {
                builder = builder.with_endpoint(endpoint.as_str());
            }
            if config.is_encrypted() {
                builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
            }
            builder.build()
        }
    };
    built.map_err(|error| StartError::Exporter(config.redact.text(&error.to_string()).into_owned()))
}

pub(crate) fn metric_exporter(config: &OtlpConfig) -> Result<MetricExporter, StartError> {
    let built = match config.protocol {
        Protocol::HttpProtobuf => {
            let mut builder = MetricExporter::builder()
                .with_http()
                .with_protocol(Wire::HttpBinary)
                .with_http_client(http_client(config)?);
            if let Some(endpoint) = config.signal_endpoint("v1/metrics") {
                builder = builder.with_endpoint(endpoint);
            }
            builder.build()
        }
        Protocol::Grpc => {
            let mut builder = MetricExporter::builder().with_tonic();
            if let Some(endpoint) = &config.endpoint {
                builder = builder.with_endpoint(endpoint.as_str());
            }
            if config.is_encrypted() {
                builder = builder.with_tls_config(ClientTlsConfig::new().with_native_roots());
            }
            builder.build()
        }
    };
    built.map_err(|error| StartError::Exporter(config.redact.text(&error.to_string()).into_owned()))
}

/// Makes the client that sends. Redirects are not followed: they would carry the spans, and perhaps a key, to where nobody
/// sent them. A loopback address is reached directly, whatever proxy the environment names.
fn http_client(config: &OtlpConfig) -> Result<reqwest::blocking::Client, StartError> {
    let is_local = config.endpoint.as_ref().is_some_and(is_loopback);
    let build = move || {
        let mut client =
            reqwest::blocking::Client::builder().redirect(reqwest::redirect::Policy::none());
        if is_local {
            client = client.no_proxy();
        }
        client.build()
    };
    // It must not be made on a thread that drives a runtime.
    let built = std::thread::spawn(build).join();
    match built {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(StartError::Exporter(error.to_string())),
        Err(_) => Err(StartError::Exporter("its client cannot be made".to_owned())),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Looks whether an endpoint takes spans, by sending it none, within a time.
///
/// # Errors
///
/// Why spans cannot be sent there.
pub async fn probe(config: OtlpConfig, within: Duration) -> Result<(), String> {
    let redact = config.redact.clone();
    let runtime = tokio::runtime::Handle::current();
    let asked = tokio::task::spawn_blocking(move || {
        let exporter = span_exporter(&config, RetryPolicy::disabled());
        let exporter = exporter.map_err(|error| error.to_string())?;
        let sent = sdk::SpanExporter::export(&exporter, Vec::new());
        let sent = match config.protocol {
            Protocol::Grpc => runtime.block_on(sent),
            // Its client blocks, so that the answer is there at once.
            Protocol::HttpProtobuf => sent.now_or_never().unwrap_or(Ok(())),
        };
        sent.map_err(|error| error.to_string())
    });
    let answer = match tokio::time::timeout(within, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err("it cannot be asked".to_owned()),
        Err(_) => Err(format!("no answer within {} s", within.as_secs())),
    };
    answer.map_err(|error| redact.text(&error).into_owned())
}
