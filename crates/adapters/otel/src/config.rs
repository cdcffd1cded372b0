//! Where spans and metrics go, what of them, and what is taken out before.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use url::{Host, Url};

use crate::sampling::Sampling;

/// How an endpoint is talked to.
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
    /// Returns the word for it, as OpenTelemetry has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }

    /// Returns where the endpoint is unless somebody says.
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

/// A word that names no protocol.
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

/// Where spans and metrics go, and what of them. Headers, compression, time limits and the sizes of batches are as
/// OpenTelemetry's variables say (`OTEL_EXPORTER_OTLP_…`, `OTEL_BSP_…`, `OTEL_METRIC_EXPORT_INTERVAL`), and so are the
/// attributes of the resource (`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`). Certificates have to be such as the machine
/// trusts.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OtlpConfig {
    /// The endpoint, to which `/v1/traces` and `/v1/metrics` are added over HTTP; as OpenTelemetry's variables say if `None`,
    /// and otherwise the usual port of this machine.
    pub endpoint: Option<Url>,
    /// The endpoint of spans, as it is; `endpoint` if `None`.
    pub traces_endpoint: Option<Url>,
    /// The endpoint of metrics, as it is; `endpoint` if `None`.
    pub metrics_endpoint: Option<Url>,
    /// How endpoints are talked to.
    pub protocol: Protocol,
    /// How that of spans is talked to; as `protocol` says if `None`.
    pub traces_protocol: Option<Protocol>,
    /// How that of metrics is talked to; as `protocol` says if `None`.
    pub metrics_protocol: Option<Protocol>,
    /// Whether spans are sent. `true`.
    pub traces: bool,
    /// Whether metrics are sent. `true`.
    pub metrics: bool,
    /// Whether what is said in conversations, arguments and results are part of the spans. `false`.
    pub content: bool,
    /// Which traces are sent.
    pub sampling: Sampling,
    /// The name of the service, over what the variables say; `neuraxis` if nobody says one.
    pub service_name: Option<String>,
    /// The version of the service, unless the variables say one; that of this crate if nobody says one.
    pub service_version: Option<String>,
    /// The id of this process among those of the service, unless the variables say one.
    pub instance: Option<String>,
    /// Takes secrets out.
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
    /// Returns where spans go, or metrics where no spans are sent, without what may be secret in it.
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

    /// Returns where one kind of signal goes.
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
                // A query stays behind it.
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

/// One of the kinds of telemetry, each of which may go to an endpoint of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

/// Where one kind of signal goes, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The whole address; as OpenTelemetry's variables say if `None`.
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

    /// Tells whether it is this machine, which is reached directly whatever proxy the environment names.
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
    #[error("spans and metrics cannot be sent: {0}")]
    Exporter(String),
}

/// Returns a text without what must not leave the process.
type Clean = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Takes secrets out of texts before they are exported: out of names, attributes, events and errors alike. It runs on the
/// thread that sends, never on one that drives runs.
#[derive(Clone)]
pub struct Redact(Arc<Clean>);

impl Redact {
    /// Makes one of a function that returns the text without its secrets, or `None` where it holds none.
    pub fn new(clean: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(clean))
    }

    /// Returns a text without secrets.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        (self.0)(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Returns a text of JSON without secrets, which is JSON still: where the whole of it would not be, as with an expression
    /// that has no end, each string in it is looked at alone.
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
    /// Leaves all texts as they are.
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
    fn the_path_of_a_signal_stands_behind_that_of_the_endpoint_and_before_its_query() {
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
