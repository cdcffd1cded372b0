//! Attaches what `[telemetry]` and OpenTelemetry's variables name to an engine.

mod lines;

use std::borrow::Cow;
use std::time::Duration;

use neuraxis_engine::{OrchestratorBuilder, UuidV7};
use neuraxis_otel::{Delivery, JsonLines, Otel, OtlpConfig, Protocol, Redact, Sampling};
use neuraxis_ports::Ids;

use crate::config::{Config, Origin, OtlpSection};
use crate::discover::secrets_of;
use crate::environment::Environment;

/// How long the end of a program waits for what is left to be delivered.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// How long is waited for an endpoint that is looked at.
const PROBE: Duration = Duration::from_secs(5);

/// What stands where something was that matches a pattern.
const REDACTED: &str = "[redacted]";

/// The variables that say where spans go.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Where traces and metrics of runs go: nowhere, or to one or several places. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    otlp: Option<(Otel, String)>,
    lines: Option<JsonLines>,
    content: bool,
}

/// One of the places that traces go to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceDestination {
    /// `otlp` or `json_lines`.
    pub sink: &'static str,
    /// The endpoint or the file, without what may be secret.
    pub place: String,
    /// What became of what was sent there.
    pub delivery: Delivery,
}

/// Why traces cannot go where the configuration says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The endpoint or one of OpenTelemetry's variables cannot be used.
    #[error("{at:#}: {what}")]
    Otlp {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with the value, and what can stand there.
        what: String,
    },
    /// The file cannot be written.
    #[error("{at:#}: telemetry.json_lines.path: traces cannot be written to {}; name another file", path.display())]
    JsonLines {
        /// Where it is configured.
        at: Origin,
        /// The file.
        path: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl Telemetry {
    /// Prepares what the configuration names. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// A [`TelemetryError`] that names the place of the value that cannot be used.
    pub fn start(config: &Config, environment: &Environment) -> Result<Self, TelemetryError> {
        let said = config.telemetry();
        let redact = redact(config, environment);
        let otlp = match otlp(config, environment, &redact)? {
            None => None,
            Some(otlp) => {
                let started = Otel::start(&otlp).map_err(|error| TelemetryError::Otlp {
                    at: config.origin_around("telemetry.otlp.endpoint"),
                    what: error.to_string(),
                })?;
                Some((started, shown(&otlp, environment)))
            }
        };
        let lines = said.json_lines.as_ref().map(|section| {
            JsonLines::open(&section.path, redact).map_err(|source| TelemetryError::JsonLines {
                at: config.origin("telemetry.json_lines.path"),
                path: section.path.clone(),
                source,
            })
        });
        Ok(Self {
            otlp,
            lines: lines.transpose()?,
            content: said.content,
        })
    }

    /// Lets an engine tell these places what its runs do.
    #[must_use]
    pub fn attach(&self, mut builder: OrchestratorBuilder) -> OrchestratorBuilder {
        if let Some((otel, _)) = &self.otlp {
            builder = builder.trace_sink(otel.sink());
        }
        if let Some(lines) = &self.lines {
            builder = builder.trace_sink(lines::sink(lines.clone(), self.content));
        }
        builder
    }

    /// Notes how many calls in the store wait for a person.
    pub fn note_waiting(&self, approvals: u64) {
        if let Some((otel, _)) = &self.otlp {
            otel.note_waiting(approvals);
        }
    }

    /// Returns where traces go, with what became of them so far.
    #[must_use]
    pub fn destinations(&self) -> Vec<TraceDestination> {
        let otlp = self.otlp.as_ref().map(|(otel, place)| TraceDestination {
            sink: "otlp",
            place: place.clone(),
            delivery: otel.delivery(),
        });
        let lines = self.lines.as_ref().map(|lines| TraceDestination {
            sink: "json_lines",
            place: lines.path().display().to_string(),
            delivery: lines.delivery(),
        });
        otlp.into_iter().chain(lines).collect()
    }

    /// Delivers what is left, for two seconds at the most. Returns what a user should know of what was lost, a sentence each.
    pub async fn close(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if let Some((otel, place)) = &self.otlp {
            notices.extend(lost("spans", place, otel.close(LAST_SPANS).await));
        }
        if let Some(lines) = self.lines.clone() {
            let place = lines.path().display().to_string();
            let flushed = tokio::task::spawn_blocking(move || lines.flush(LAST_SPANS)).await;
            notices.extend(lost("traces", &place, flushed.unwrap_or_default()));
        }
        notices
    }

    /// Returns the endpoint that spans go to, without what may be secret; `None` if they go to none.
    ///
    /// # Errors
    ///
    /// A [`TelemetryError`] that names the place of the value that cannot be used.
    pub fn endpoint(
        config: &Config,
        environment: &Environment,
    ) -> Result<Option<String>, TelemetryError> {
        let otlp = otlp(config, environment, &Redact::default())?;
        Ok(otlp.map(|otlp| shown(&otlp, environment)))
    }

    /// Looks whether the OTLP endpoint takes spans, by sending it none; `None` if there is no endpoint.
    ///
    /// # Errors
    ///
    /// Why spans cannot be sent there.
    pub async fn probe(config: &Config, environment: &Environment) -> Option<Result<(), String>> {
        let redact = redact(config, environment);
        match otlp(config, environment, &redact) {
            Ok(None) => None,
            Ok(Some(otlp)) => Some(neuraxis_otel::probe(otlp, PROBE).await),
            Err(error) => Some(Err(error.to_string())),
        }
    }
}

fn shown(otlp: &OtlpConfig, environment: &Environment) -> String {
    let endpoint = otlp.shown_endpoint(|name| text(environment, name));
    format!("{endpoint} ({})", otlp.protocol)
}

fn lost(what: &str, place: &str, delivery: Delivery) -> Option<String> {
    let Delivery { dropped, error, .. } = delivery;
    let why = error.map(|error| format!(": {error}")).unwrap_or_default();
    (dropped > 0).then(|| format!("telemetry: {dropped} {what} were not delivered to {place}{why}"))
}

/// Returns where spans go, if they go anywhere.
fn otlp(
    config: &Config,
    environment: &Environment,
    redact: &Redact,
) -> Result<Option<OtlpConfig>, TelemetryError> {
    let said = config.telemetry();
    let variable = |name: &str| text(environment, name);
    let has = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let is_disabled = variable("OTEL_SDK_DISABLED")
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    let is_named = said.otlp.is_some() || has(ENDPOINT) || has(TRACES_ENDPOINT);
    if is_disabled || !is_named {
        return Ok(None);
    }
    let is_off = |name: &str| variable(name).is_some_and(|value| value.trim() == "none");
    let wrong = |name: &str, what: String| TelemetryError::Otlp {
        at: Origin::Variable(name.to_owned()),
        what,
    };
    let section = said.otlp.clone().unwrap_or_default();
    let OtlpSection {
        endpoint,
        protocol,
        metrics,
    } = section;
    let mut otlp = OtlpConfig::default();
    otlp.protocol = match (protocol, variable("OTEL_EXPORTER_OTLP_PROTOCOL")) {
        (Some(protocol), _) => protocol,
        (None, Some(value)) if !value.trim().is_empty() => {
            let name = "OTEL_EXPORTER_OTLP_PROTOCOL";
            let parsed: Result<Protocol, _> = value.parse();
            parsed.map_err(|error| wrong(name, error.to_string()))?
        }
        _ => Protocol::default(),
    };
    otlp.endpoint = endpoint;
    // Where a variable names the endpoint of one kind of signal, the SDK reads them all.
    if otlp.endpoint.is_none() && !has(TRACES_ENDPOINT) && !has(METRICS_ENDPOINT) {
        let usual = otlp.shown_endpoint(|_| None);
        let value = variable(ENDPOINT).filter(|value| !value.trim().is_empty());
        let value = value.unwrap_or(usual);
        let parsed = value.trim().parse();
        let malformed = |_| wrong(ENDPOINT, "expected a URL of http or https".to_owned());
        otlp.endpoint = Some(parsed.map_err(malformed)?);
    }
    otlp.traces = !is_off("OTEL_TRACES_EXPORTER");
    otlp.metrics = metrics.unwrap_or(true) && !is_off("OTEL_METRICS_EXPORTER");
    otlp.content = said.content;
    let by_variables = Sampling::of_variables(variable);
    let by_variables =
        by_variables.map_err(|error| wrong("OTEL_TRACES_SAMPLER", error.to_string()))?;
    otlp.sampling = match said.sample {
        Some(ratio) => Sampling {
            ratio,
            ..Sampling::default()
        },
        None => by_variables.unwrap_or_default(),
    };
    otlp.service_name.clone_from(&said.service_name);
    otlp.instance = Some(UuidV7.new_id().to_string());
    otlp.redact = redact.clone();
    Ok(Some(otlp))
}

fn text(environment: &Environment, name: &str) -> Option<String> {
    environment.variable(name)?.to_str().map(str::to_owned)
}

/// Makes what takes secrets out: keys that are configured, what looks like one, and what the configuration names.
fn redact(config: &Config, environment: &Environment) -> Redact {
    let secrets = secrets_of(config, environment);
    let patterns = config.telemetry().redact.clone();
    Redact::new(move |text| {
        let mut clean = secrets.text(text);
        for pattern in &patterns {
            if let Cow::Owned(cleaned) = pattern.0.replace_all(&clean, REDACTED) {
                clean = Cow::Owned(cleaned);
            }
        }
        match clean {
            Cow::Owned(clean) => Some(clean),
            Cow::Borrowed(_) => None,
        }
    })
}
