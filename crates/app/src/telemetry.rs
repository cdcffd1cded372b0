//! Connects an engine to the destinations in `[telemetry]` and in OpenTelemetry's variables.

mod lines;
mod otlp;

use std::borrow::Cow;
use std::time::Duration;

use futures_util::future::join;
use neuraxis_engine::OrchestratorBuilder;
use neuraxis_otel::{
    Delivery, Endpoints, JsonLines, Otel, OtlpConfig, Redact, Rotation, TraceLayer,
};
use tracing::Subscriber;
use tracing_subscriber::registry::LookupSpan;

pub(crate) use self::otlp::ENDPOINTS;
use self::otlp::otlp;
use crate::config::{Config, Origin};
use crate::discover::secrets_of;
use crate::environment::Environment;

/// How long the end of a program waits for the remaining deliveries.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// How long to wait for an endpoint that is probed.
const PROBE: Duration = Duration::from_secs(5);

/// The destinations of traces and metrics of runs, possibly none. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    otlp: Option<Otlp>,
    lines: Option<JsonLines>,
    content: bool,
}

/// The sender of spans and metrics, and its endpoints.
#[derive(Debug, Clone)]
struct Otlp {
    otel: Otel,
    place: String,
    metrics_place: String,
}

/// One of the destinations of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceDestination {
    /// `otlp` for spans, `otlp_metrics`, or `json_lines`.
    pub sink: &'static str,
    /// The endpoint or the file, without potential secrets.
    pub place: String,
    /// The results of deliveries so far.
    pub delivery: Delivery,
}

/// An endpoint for spans or metrics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OtlpEndpoint {
    /// What it receives: `spans` or `metrics`.
    pub signal: &'static str,
    /// The endpoint and its protocol, without potential secrets.
    pub place: String,
    /// The configuration for only this signal.
    config: OtlpConfig,
}

/// Why traces cannot be sent where the configuration says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The endpoint or one of OpenTelemetry's variables cannot be used.
    #[error("{at:#}: {what}")]
    Otlp {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with the value, and which values are possible.
        what: String,
    },
    /// The file cannot be written.
    #[error("{at:#}: telemetry.json_lines.path: cannot write traces to {}; name another file", path.display())]
    JsonLines {
        /// Where it is configured.
        at: Origin,
        /// The file.
        path: std::path::PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl Telemetry {
    /// Prepares the configured destinations. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// A [`TelemetryError`] that names the location of the unusable value.
    pub fn start(config: &Config, environment: &Environment) -> Result<Self, TelemetryError> {
        let configured = config.telemetry();
        let redact = redact(config, environment);
        let otlp = match otlp(config, environment, &redact)? {
            None => None,
            Some(otlp) => {
                let otel = Otel::start(&otlp).map_err(|error| TelemetryError::Otlp {
                    at: config.origin_around("telemetry.otlp.endpoint"),
                    what: error.to_string(),
                })?;
                let mut metrics = otlp.clone();
                metrics.traces = false;
                Some(Otlp {
                    otel,
                    place: shown(&otlp, environment),
                    metrics_place: shown(&metrics, environment),
                })
            }
        };
        let lines = configured.json_lines.as_ref().map(|section| {
            let rotation = Rotation {
                max_bytes: section.max_bytes,
                files: section.files,
            };
            let redact = lines::redact_data(redact);
            JsonLines::open(&section.path, rotation, redact).map_err(|source| {
                TelemetryError::JsonLines {
                    at: config.origin("telemetry.json_lines.path"),
                    path: section.path.clone(),
                    source,
                }
            })
        });
        Ok(Self {
            otlp,
            lines: lines.transpose()?,
            content: configured.content,
        })
    }

    /// Makes an engine report what its runs do to these destinations.
    #[must_use]
    pub fn attach(&self, mut builder: OrchestratorBuilder) -> OrchestratorBuilder {
        if let Some(Otlp { otel, .. }) = &self.otlp {
            builder = builder.trace_sink(otel.sink());
        }
        if let Some(lines) = &self.lines {
            builder = builder.trace_sink(lines::sink(lines.clone(), self.content));
        }
        builder
    }

    /// Sets the models and MCP servers that spans name from now on.
    pub(crate) fn set_endpoints(&self, endpoints: Endpoints) {
        if let Some(Otlp { otel, .. }) = &self.otlp {
            otel.set_endpoints(endpoints);
        }
    }

    /// Returns a layer for a `tracing` subscriber that exports spans to the same place as those of runs; `None` if they
    /// are not exported.
    #[must_use]
    pub fn layer<S>(&self) -> Option<TraceLayer<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        neuraxis_otel::layer(&self.otlp.as_ref()?.otel)
    }

    /// Records how many calls in the store wait for approval.
    pub fn note_waiting(&self, approvals: u64) {
        if let Some(Otlp { otel, .. }) = &self.otlp {
            otel.note_waiting(approvals);
        }
    }

    /// Returns the destinations of traces, with the results so far.
    #[must_use]
    pub fn destinations(&self) -> Vec<TraceDestination> {
        let otlp = self.otlp.iter().flat_map(|otlp| {
            let of = |sink, place: &String, delivery| TraceDestination {
                sink,
                place: place.clone(),
                delivery,
            };
            let (spans, metrics) = (otlp.otel.delivery(), otlp.otel.metric_delivery());
            [
                of("otlp", &otlp.place, spans),
                of("otlp_metrics", &otlp.metrics_place, metrics),
            ]
        });
        let lines = self.lines.as_ref().map(|lines| TraceDestination {
            sink: "json_lines",
            place: lines.path().display().to_string(),
            delivery: lines.delivery(),
        });
        otlp.chain(lines).collect()
    }

    /// Delivers what is left, for at most two seconds. Returns notices about what was lost, a sentence each.
    pub async fn close(&self) -> Vec<String> {
        self.close_within(LAST_SPANS).await
    }

    /// Like [`close`](Self::close), but takes at most `within`.
    pub async fn close_within(&self, within: Duration) -> Vec<String> {
        let within = within.min(LAST_SPANS);
        let sent = async {
            let otlp = self.otlp.as_ref()?;
            let (spans, metrics) = otlp.otel.close(within).await;
            let metrics = lost("metric batches", &otlp.metrics_place, metrics);
            Some([lost("spans", &otlp.place, spans), metrics])
        };
        let written = async {
            let lines = self.lines.clone()?;
            let place = lines.path().display().to_string();
            let flushed = tokio::task::spawn_blocking(move || lines.flush(within)).await;
            lost("traces", &place, flushed.unwrap_or_default())
        };
        let (sent, written) = join(sent, written).await;
        sent.into_iter()
            .flatten()
            .flatten()
            .chain(written)
            .collect()
    }

    /// Returns the endpoints of spans and metrics, in this order, if they are sent at all.
    ///
    /// # Errors
    ///
    /// A [`TelemetryError`] that names the location of the unusable value.
    pub fn endpoints(
        config: &Config,
        environment: &Environment,
    ) -> Result<Vec<OtlpEndpoint>, TelemetryError> {
        let redact = redact(config, environment);
        let Some(otlp) = otlp(config, environment, &redact)? else {
            return Ok(Vec::new());
        };
        let mut spans = otlp.clone();
        spans.metrics = false;
        let mut metrics = otlp;
        metrics.traces = false;
        let both = [("spans", spans), ("metrics", metrics)].into_iter();
        let sent = both.filter(|(_, config)| config.traces || config.metrics);
        let endpoints = sent.map(|(signal, config)| OtlpEndpoint {
            signal,
            place: shown(&config, environment),
            config,
        });
        Ok(endpoints.collect())
    }
}

impl OtlpEndpoint {
    /// Checks whether it accepts data, by sending it an empty export.
    ///
    /// # Errors
    ///
    /// Why data cannot be sent there.
    pub async fn probe(self) -> Result<(), String> {
        neuraxis_otel::probe(self.config, PROBE).await
    }
}

/// Describes where and how spans are sent, or metrics if no spans are sent.
fn shown(otlp: &OtlpConfig, environment: &Environment) -> String {
    let endpoint = otlp.shown_endpoint(|name| environment.text(name).map(str::to_owned));
    let own = if otlp.traces {
        otlp.traces_protocol
    } else {
        otlp.metrics_protocol
    };
    format!("{endpoint} ({})", own.unwrap_or(otlp.protocol))
}

fn lost(what: &str, place: &str, delivery: Delivery) -> Option<String> {
    let Delivery { dropped, error, .. } = delivery;
    let why = error.map(|error| format!(": {error}")).unwrap_or_default();
    (dropped > 0).then(|| format!("telemetry: {dropped} {what} were not delivered to {place}{why}"))
}

/// Builds the redaction of secrets: configured keys, what looks like a key, and what the configuration lists.
fn redact(config: &Config, environment: &Environment) -> Redact {
    let secrets = secrets_of(config, environment);
    Redact::new(move |text| match secrets.text(text) {
        Cow::Owned(clean) => Some(clean),
        Cow::Borrowed(_) => None,
    })
}
