//! The endpoints of spans and metrics: from `[telemetry.otlp]`, or else from OpenTelemetry's variables.

use neuraxis_engine::UuidV7;
use neuraxis_otel::{OtlpConfig, Protocol, Redact, Sampling};
use neuraxis_ports::Ids;
use url::Url;

use super::TelemetryError;
use crate::config::{Config, Origin, OtlpSection};
use crate::environment::Environment;

/// The variables that configure where and how spans and metrics are sent.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const METRICS_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL";

/// The variables that name an endpoint, whose value may contain a key.
pub(crate) const ENDPOINTS: [&str; 3] = [ENDPOINT, TRACES_ENDPOINT, METRICS_ENDPOINT];

/// The variable that configures the format for propagating traces.
const PROPAGATORS: &str = "OTEL_PROPAGATORS";

/// The variables, with the values that were set.
struct Variables<'a>(&'a Environment);

impl Variables<'_> {
    fn is(&self, name: &str, word: &str) -> bool {
        let value = self.0.filled(name);
        value.is_some_and(|value| value.eq_ignore_ascii_case(word))
    }

    fn endpoint(&self, name: &str) -> Result<Option<Url>, TelemetryError> {
        let Some(value) = self.0.filled(name) else {
            return Ok(None);
        };
        let url: Option<Url> = value.parse().ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let malformed = || wrong(name, "expected an http or https URL".to_owned());
        url.ok_or_else(malformed).map(Some)
    }

    fn protocol(&self, name: &str) -> Result<Option<Protocol>, TelemetryError> {
        let parsed = self.0.filled(name).map(str::parse);
        parsed
            .transpose()
            .map_err(|error: neuraxis_otel::UnknownProtocol| wrong(name, error.to_string()))
    }

    /// Checks that the configured propagation formats include the only supported one.
    fn check_propagators(&self) -> Result<(), TelemetryError> {
        let Some(value) = self.0.filled(PROPAGATORS) else {
            return Ok(());
        };
        match value.split(',').any(|name| name.trim() == "tracecontext") {
            true => Ok(()),
            false => Err(wrong(
                PROPAGATORS,
                "trace context is propagated only as tracecontext, which this list does not include".to_owned(),
            )),
        }
    }
}

fn wrong(name: &str, what: String) -> TelemetryError {
    TelemetryError::Otlp {
        at: Origin::Variable(name.to_owned()),
        what,
    }
}

/// Returns the configuration for spans and metrics, if any are sent.
pub(super) fn otlp(
    config: &Config,
    environment: &Environment,
    redact: &Redact,
) -> Result<Option<OtlpConfig>, TelemetryError> {
    let section = config.telemetry();
    let variables = Variables(environment);
    let is_named = |name: &str| environment.filled(name).is_some();
    let is_shared = section.otlp.is_some() || is_named(ENDPOINT);
    let has_traces = is_shared || is_named(TRACES_ENDPOINT);
    let has_metrics = is_shared || is_named(METRICS_ENDPOINT);
    if variables.is("OTEL_SDK_DISABLED", "true") || !(has_traces || has_metrics) {
        return Ok(None);
    }
    let OtlpSection {
        endpoint,
        protocol,
        metrics,
    } = section.otlp.clone().unwrap_or_default();
    let mut otlp = OtlpConfig::default();
    otlp.traces = has_traces && !variables.is("OTEL_TRACES_EXPORTER", "none");
    otlp.metrics =
        has_metrics && metrics.unwrap_or(true) && !variables.is("OTEL_METRICS_EXPORTER", "none");
    if !otlp.traces && !otlp.metrics {
        return Ok(None);
    }
    variables.check_propagators()?;
    match protocol {
        Some(protocol) => otlp.protocol = protocol,
        None => {
            otlp.protocol = variables.protocol(PROTOCOL)?.unwrap_or_default();
            otlp.traces_protocol = variables.protocol(TRACES_PROTOCOL)?;
            otlp.metrics_protocol = variables.protocol(METRICS_PROTOCOL)?;
        }
    }
    if endpoint.is_some() {
        otlp.endpoint = endpoint;
    } else {
        otlp.traces_endpoint = variables.endpoint(TRACES_ENDPOINT)?;
        otlp.metrics_endpoint = variables.endpoint(METRICS_ENDPOINT)?;
        let usual = otlp.protocol.usual_endpoint().parse().ok();
        otlp.endpoint = variables
            .endpoint(ENDPOINT)?
            .or_else(|| usual.filter(|_| section.otlp.is_some()));
    }
    otlp.content = section.content;
    let by_variables = Sampling::from_variables(|name| environment.text(name).map(str::to_owned));
    let by_variables =
        by_variables.map_err(|error| wrong("OTEL_TRACES_SAMPLER", error.to_string()))?;
    otlp.sampling = match section.sample {
        Some(ratio) => Sampling {
            ratio,
            ..Sampling::default()
        },
        None => by_variables.unwrap_or_default(),
    };
    otlp.service_name.clone_from(&section.service_name);
    otlp.instance = Some(UuidV7.new_id().to_string());
    otlp.redact = redact.clone();
    Ok(Some(otlp))
}
