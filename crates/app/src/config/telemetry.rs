//! The section `[telemetry]`: where traces and metrics of runs are sent. Without it, and without OpenTelemetry's own
//! variables, nothing is sent. An untrusted file of the working directory cannot set it.

use std::path::PathBuf;

use neuraxis_otel::Protocol;
use regex::Regex;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};
use url::Url;

use super::error::ConfigError;
use super::layer::Layer;
use super::origin::Origin;
use super::{Config, Layers};
use crate::environment::Environment;
use crate::secrecy::OTLP_HEADERS;

/// The setting for where spans are sent.
const ENDPOINT: &str = "telemetry.otlp.endpoint";

/// `[telemetry]`: where traces and metrics of runs are sent, and what they contain.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TelemetryConfig {
    /// Whether messages of conversations, and arguments and results of tools, are exported. Defaults to `false`.
    pub content: bool,
    /// Regular expressions. Each match is replaced with `[redacted]` in everything that leaves conversations, in
    /// addition to keys and what looks like one: in traces, logs, recordings, copies of the log, results of evals, and
    /// errors.
    pub redact: Vec<Pattern>,
    /// The share of traces that are exported, from 0 to 1. Defaults to `OTEL_TRACES_SAMPLER`, or else 1. For a request
    /// with its own trace, that trace decides.
    #[serde(deserialize_with = "share")]
    pub sample: Option<f64>,
    /// The name of the service. Defaults to `OTEL_SERVICE_NAME`, or else `neuraxis`.
    pub service_name: Option<String>,
    /// `[telemetry.otlp]`: spans and metrics over OTLP. If omitted, only sent if OpenTelemetry's variables name an
    /// endpoint.
    pub otlp: Option<OtlpSection>,
    /// `[telemetry.json_lines]`: trace records as JSON Lines. None by default.
    pub json_lines: Option<JsonLinesSection>,
}

/// `[telemetry.otlp]`: spans and metrics over OTLP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct OtlpSection {
    /// The endpoint, such as `http://127.0.0.1:4318`. Defaults to `OTEL_EXPORTER_OTLP_ENDPOINT`, or else the usual port
    /// of this machine.
    #[serde(deserialize_with = "endpoint")]
    pub endpoint: Option<Url>,
    /// `http/protobuf` or `grpc`. Defaults to `OTEL_EXPORTER_OTLP_PROTOCOL`, or else `http/protobuf`.
    pub protocol: Option<Protocol>,
    /// Whether metrics are also sent. Defaults to `true`.
    pub metrics: Option<bool>,
}

/// `[telemetry.json_lines]`: trace records as JSON Lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JsonLinesSection {
    /// The file, which is created if missing; its folder must exist. A relative path counts from the file that sets it.
    pub path: PathBuf,
    /// The size in bytes at which a new file is started; at least 4,096. Defaults to 67,108,864.
    #[serde(default = "default_max_bytes", deserialize_with = "max_bytes")]
    pub max_bytes: u64,
    /// How many older files are kept next to it, with `PATH.1` as the newest; at most 100. Defaults to 7.
    #[serde(default = "default_files", deserialize_with = "files")]
    pub files: u32,
}

/// The smallest size limit in bytes: a file that cannot hold a few lines would mean one file per line.
const MIN_BYTES: u64 = 4 * 1024;

/// The maximum number of older files: opening a file checks for each of them.
const MAX_FILES: u32 = 100;

const fn default_max_bytes() -> u64 {
    64 * 1024 * 1024
}

const fn default_files() -> u32 {
    7
}

fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let files = u32::deserialize(deserializer)?;
    match files > MAX_FILES {
        true => Err(D::Error::custom(format!(
            "expected at most {MAX_FILES} files"
        ))),
        false => Ok(files),
    }
}

fn max_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(deserializer)?;
    match bytes < MIN_BYTES {
        true => Err(D::Error::custom(format!(
            "expected at least {MIN_BYTES} bytes"
        ))),
        false => Ok(bytes),
    }
}

/// A regular expression.
#[derive(Debug, Clone)]
pub struct Pattern(pub(crate) Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pattern = Regex::new(&text).map_err(|error| {
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default();
            D::Error::custom(format!("expected a regular expression: {why}"))
        })?;
        Ok(Self(pattern))
    }
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let share = f64::deserialize(deserializer)?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(Some(share)),
        false => Err(D::Error::custom("expected a number from 0 to 1")),
    }
}

fn endpoint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let url: Url = text.parse().map_err(|_| malformed())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(malformed());
    }
    if !url.username().is_empty() || url.password().is_some() {
        let misplaced = "an endpoint must not contain a key; set it in OTEL_EXPORTER_OTLP_HEADERS";
        return Err(D::Error::custom(misplaced));
    }
    Ok(Some(url))
}

fn malformed<E: Error>() -> E {
    E::custom("expected an http or https URL, such as http://127.0.0.1:4318")
}

/// Checks that credentials for spans are not sent to an endpoint that the file of the working directory names.
pub(super) fn check_key(layers: &Layers, environment: &Environment) -> Result<(), ConfigError> {
    let is_found = layers.strongest(ENDPOINT).is_some_and(Layer::is_found);
    let key = OTLP_HEADERS
        .into_iter()
        .find(|name| environment.variable(name).is_some());
    match key {
        Some(key) if is_found => Err(ConfigError::KeyElsewhere {
            at: layers.origin_around(ENDPOINT),
            address: ENDPOINT.to_owned(),
            key_at: Box::new(Origin::Variable(key.to_owned())),
            key: key.to_owned(),
        }),
        _ => Ok(()),
    }
}

impl TelemetryConfig {
    /// Resolves the path of the file relative to the file that sets it.
    pub(super) fn resolved(mut self, layers: &Layers, environment: &Environment) -> Self {
        if let Some(lines) = &mut self.json_lines {
            lines.path = layers.resolved(environment, "telemetry.json_lines.path", &lines.path);
        }
        self
    }

    /// Returns the section in its written form; empty if nothing is sent anywhere.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new();
        if *self == Self::default() {
            return table;
        }
        let mut add = |key: &str, value: Value| drop(table.insert(key.to_owned(), value));
        add("content", Value::Boolean(self.content));
        let patterns = self.redact.iter();
        let patterns = patterns.map(|pattern| Value::String(pattern.0.as_str().to_owned()));
        add("redact", Value::Array(patterns.collect()));
        if let Some(sample) = self.sample {
            add("sample", Value::Float(sample));
        }
        if let Some(name) = &self.service_name {
            add("service_name", Value::String(name.clone()));
        }
        if let Some(otlp) = &self.otlp {
            if let Some(endpoint) = &otlp.endpoint {
                add("otlp.endpoint", Value::String(endpoint.to_string()));
            }
            if let Some(protocol) = otlp.protocol {
                add("otlp.protocol", Value::String(protocol.to_string()));
            }
            add("otlp.metrics", Value::Boolean(otlp.metrics.unwrap_or(true)));
        }
        if let Some(lines) = &self.json_lines {
            let path = lines.path.display().to_string();
            add("json_lines.path", Value::String(path));
            let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
            add("json_lines.max_bytes", number(lines.max_bytes));
            add("json_lines.files", number(lines.files.into()));
        }
        table
    }
}

impl Config {
    /// Returns the section `[telemetry]`.
    #[must_use]
    pub const fn telemetry(&self) -> &TelemetryConfig {
        &self.telemetry
    }
}
