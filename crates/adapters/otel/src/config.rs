//! Where spans and metrics go, which of them are sent, and what is removed from them first.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use url::{Host, Url};

use crate::sampling::Sampling;

/// The protocol of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[non_exhaustive]
pub enum Protocol {
    /// Protocol buffers over HTTP, usually at port 4318.
    #[default]
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
    /// gRPC, usually at port 4317.
    #[serde(rename = "grpc")]
    Grpc,
}

impl Protocol {
    /// Returns OpenTelemetry's name for the protocol.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }

    /// Returns the default address of an endpoint.
    #[must_use]
    pub const fn usual_endpoint(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http://localhost:4318",
            Self::Grpc => "http://localhost:4317",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a protocol is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected http/protobuf or grpc")]
pub struct UnknownProtocol;

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownProtocol> {
        [Self::HttpProtobuf, Self::Grpc]
            .into_iter()
            .find(|protocol| protocol.as_str() == text.trim())
            .ok_or(UnknownProtocol)
    }
}

/// Where spans and metrics go, and which of them are sent. Headers, compression, timeouts and batch sizes come from
/// OpenTelemetry's variables (`OTEL_EXPORTER_OTLP_…`, `OTEL_BSP_…`, `OTEL_METRIC_EXPORT_INTERVAL`), and so do the
/// resource attributes (`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`). The machine must trust the endpoint's
/// certificate.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OtlpConfig {
    /// The endpoint, to which `/v1/traces` and `/v1/metrics` are appended over HTTP. If `None`, OpenTelemetry's
    /// variables name it, and if they do not, it is the protocol's usual port on this machine.
    pub endpoint: Option<Url>,
    /// The endpoint of spans, unchanged; `endpoint` if `None`.
    pub traces_endpoint: Option<Url>,
    /// The endpoint of metrics, unchanged; `endpoint` if `None`.
    pub metrics_endpoint: Option<Url>,
    /// The protocol of the endpoints.
    pub protocol: Protocol,
    /// The protocol for spans; `protocol` if `None`.
    pub traces_protocol: Option<Protocol>,
    /// The protocol for metrics; `protocol` if `None`.
    pub metrics_protocol: Option<Protocol>,
    /// Whether spans are sent. Default: `true`.
    pub traces: bool,
    /// Whether metrics are sent. Default: `true`.
    pub metrics: bool,
    /// Whether spans include the content of conversations, arguments and results. Default: `false`.
    pub content: bool,
    /// Which traces are sent.
    pub sampling: Sampling,
    /// The service name, which overrides the variables; `neuraxis` if neither names one.
    pub service_name: Option<String>,
    /// The service version, unless the variables give one; this crate's version if neither does.
    pub service_version: Option<String>,
    /// The id of this process among the service's instances, unless the variables give one.
    pub instance: Option<String>,
    /// Removes secrets.
    pub redact: Redact,
}

impl Default for OtlpConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            traces_endpoint: None,
            metrics_endpoint: None,
            protocol: Protocol::default(),
            traces_protocol: None,
            metrics_protocol: None,
            traces: true,
            metrics: true,
            content: false,
            sampling: Sampling::default(),
            service_name: None,
            service_version: None,
            instance: None,
            redact: Redact::default(),
        }
    }
}

impl OtlpConfig {
    /// Returns the address for spans, or for metrics if no spans are sent, without the parts that may be secret.
    #[must_use]
    pub fn shown_endpoint(&self, variable: impl Fn(&str) -> Option<String>) -> String {
        let (own, name, protocol) = match self.traces {
            true => (
                &self.traces_endpoint,
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                self.traces_protocol,
            ),
            false => (
                &self.metrics_endpoint,
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
                self.metrics_protocol,
            ),
        };
        let of_variable = || {
            [name, "OTEL_EXPORTER_OTLP_ENDPOINT"]
                .into_iter()
                .find_map(|name| variable(name).filter(|value| !value.is_empty()))
                .and_then(|value| value.parse().ok())
        };
        let endpoint = own.as_ref().or(self.endpoint.as_ref());
        match endpoint.cloned().or_else(of_variable) {
            Some(url) => {
                let port = url.port_or_known_default();
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                let host = url.host_str().unwrap_or_default();
                format!("{}://{host}{port}{}", url.scheme(), url.path())
            }
            None => protocol
                .unwrap_or(self.protocol)
                .usual_endpoint()
                .to_owned(),
        }
    }

    /// Returns the target of a signal.
    pub(crate) fn target(&self, signal: Signal) -> Target {
        let (own, protocol, path) = match signal {
            Signal::Traces => (&self.traces_endpoint, self.traces_protocol, "v1/traces"),
            Signal::Metrics => (&self.metrics_endpoint, self.metrics_protocol, "v1/metrics"),
        };
        let protocol = protocol.unwrap_or(self.protocol);
        let shared = self.endpoint.as_ref().map(|base| match protocol {
            Protocol::Grpc => base.to_string(),
            Protocol::HttpProtobuf => {
                let mut whole = base.clone();
                // A query stays after the path.
                whole.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
                whole.to_string()
            }
        });
        let own = own.as_ref().map(Url::to_string);
        Target {
            endpoint: own.or(shared),
            protocol,
        }
    }
}

/// A kind of telemetry, which may have its own endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

/// The target of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The complete address; `None` if OpenTelemetry's variables name it.
    pub(crate) endpoint: Option<String>,
    pub(crate) protocol: Protocol,
}

impl Target {
    fn url(&self) -> Option<Url> {
        self.endpoint.as_deref()?.parse().ok()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.url().is_some_and(|url| url.scheme() == "https")
    }

    /// Returns whether the target is this machine. It is then reached directly, even if the environment names a proxy.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.url().as_ref().and_then(Url::host) {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }
}

/// Why nothing can be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The endpoint or a variable cannot be used.
    #[error("cannot send spans and metrics: {0}")]
    Exporter(String),
}

/// Returns a text without what must not leave the process; `None` if there is nothing to remove.
type Clean = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Removes secrets from text before it is exported, including names, attributes, events and errors. Runs on the sending
/// thread, never on a thread that drives runs.
#[derive(Clone)]
pub struct Redact(Arc<Clean>);

impl Redact {
    /// Creates a redaction from a function that returns the text without its secrets, or `None` if it contains none.
    pub fn new(clean: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(clean))
    }

    /// Returns a text without secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        (self.0)(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Returns a JSON text without secrets, still as valid JSON: if redacting the whole text would break it, as with an
    /// open-ended pattern, each string in it is redacted separately.
    #[must_use]
    pub fn json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Cow::Owned(clean) = self.text(text) else {
            return Cow::Borrowed(text);
        };
        if serde_json::from_str::<IgnoredAny>(&clean).is_ok() {
            return Cow::Owned(clean);
        }
        let Ok(mut value) = serde_json::from_str(text) else {
            return Cow::Owned(clean);
        };
        self.strings(&mut value);
        Cow::Owned(value.to_string())
    }

    fn strings(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.text(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.strings(item)),
            Value::Object(fields) => fields.values_mut().for_each(|it| self.strings(it)),
            _ => {}
        }
    }
}

impl Default for Redact {
    /// Leaves all text unchanged.
    fn default() -> Self {
        Self::new(|_| None)
    }
}

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redact")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_path_is_inserted_between_endpoint_path_and_query() {
        for (endpoint, expected) in [
            ("http://h:4318", "http://h:4318/v1/traces"),
            ("http://h/otlp/", "http://h/otlp/v1/traces"),
            (
                "https://h/a%20b?key=c/d",
                "https://h/a%20b/v1/traces?key=c/d",
            ),
        ] {
            let mut config = OtlpConfig {
                endpoint: Some(endpoint.parse().unwrap()),
                ..OtlpConfig::default()
            };
            let target = |config: &OtlpConfig| config.target(Signal::Traces).endpoint.unwrap();
            assert_eq!(target(&config), expected);
            config.protocol = Protocol::Grpc;
            assert_eq!(target(&config), config.endpoint.unwrap().as_str());
        }
    }
}
