//! Metrics for Prometheus: what clients request, what the engine does, and the limits.
//!
//! Labels are few and known in advance: routes, status codes, kinds of problems, configured roles, offered tools. Text
//! from a model or a client is never a label.

mod http;
mod models;
mod runs;
mod telemetry;

use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use neuraxis::Orchestrator;
use neuraxis::ports::TraceSink;
use neuraxis_app::Telemetry;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::caller::Caller;
use crate::connection::Connection;
use crate::openapi::{Operation, Tag, operation};
use crate::problem::{NOT_LOCAL, Problem};
use crate::refusal::internal;
use crate::tls::Tls;

pub(crate) use http::{HttpMetrics, OpenStream};
pub(crate) use runs::RunMetrics;
use telemetry::TelemetryMetrics;

/// The prefix of every metric name.
const PREFIX: &str = "neuraxis";

/// The format of the answer, which Prometheus and compatible readers understand.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper bounds of the duration buckets, in seconds: from an answer out of memory to a run of ten minutes.
const SECONDS: [f64; 13] = [
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0,
];

/// The metrics of one server. Clones share them.
///
/// An engine is counted if its builder was given [`trace_sink`](Self::trace_sink), as `neuraxis-server` does.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    http: HttpMetrics,
    runs: Arc<RunMetrics>,
    runs_allowed: Gauge,
    approvals_waiting: Gauge,
    telemetry: TelemetryMetrics,
    /// By file.
    certificate_expires: Family<Vec<(String, String)>, Gauge>,
    tls: OnceLock<Tls>,
}

impl Metrics {
    /// Starts to count, at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The running version", build);
        let http = HttpMetrics::register(&mut registry);
        let runs = Arc::new(RunMetrics::register(&mut registry));
        let runs_allowed = counted(
            &mut registry,
            "runs_allowed",
            "The maximum number of concurrent turns (server.max_runs)",
        );
        let approvals_waiting = counted(
            &mut registry,
            "approvals_waiting",
            "Calls in the store that wait for approval, counted every 30 seconds",
        );
        let certificate_expires = counted(
            &mut registry,
            "tls_certificate_expires_timestamp_seconds",
            "When the server's TLS certificate expires, in seconds since 1970",
        );
        let telemetry = TelemetryMetrics::register(&mut registry);
        Self(Arc::new(Inner {
            telemetry,
            registry,
            http,
            runs,
            runs_allowed,
            approvals_waiting,
            certificate_expires,
            tls: OnceLock::new(),
        }))
    }

    /// Returns a sink that counts an engine's runs, model calls and tool calls, for
    /// [`OrchestratorBuilder::trace_sink`](neuraxis::engine::OrchestratorBuilder::trace_sink).
    #[must_use]
    pub fn trace_sink(&self) -> Arc<dyn TraceSink> {
        Arc::clone(&self.0.runs) as Arc<dyn TraceSink>
    }

    /// Starts to count the model calls of an engine's roles, at zero.
    pub(crate) fn begin_models_of(&self, orchestrator: &Orchestrator) {
        for (role, _) in orchestrator.models() {
            self.0.runs.begin_model(role);
        }
    }

    /// Returns the metrics of requests and streams.
    pub(crate) fn http(&self) -> &HttpMetrics {
        &self.0.http
    }

    /// Sets the maximum number of turns in progress at the same time.
    pub(crate) fn allow_runs(&self, most: u32) {
        self.0.runs_allowed.set(most.into());
    }

    /// Sets the number of calls that wait for a decision.
    pub(crate) fn note_waiting(&self, approvals: usize) {
        let approvals = i64::try_from(approvals).unwrap_or(i64::MAX);
        self.0.approvals_waiting.set(approvals);
        self.0.telemetry.note_waiting(approvals);
    }

    /// Sets where traces go, so that traces lost on the way are counted. Only the first call has an effect.
    pub(crate) fn watch(&self, telemetry: Telemetry) {
        self.0.telemetry.watch(telemetry);
    }

    /// Sets the certificate whose expiry is shown. Only the first call has an effect.
    pub(crate) fn show_expiry_of(&self, tls: Tls) {
        let _ = self.0.tls.set(tls);
    }

    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        self.0.telemetry.count();
        if let Some((tls, end)) = self
            .0
            .tls
            .get()
            .and_then(|tls| Some((tls, tls.expires_at()?)))
        {
            let file = tls.certificate().display().to_string();
            let of_file = vec![("certificate".to_owned(), file)];
            let shown = self.0.certificate_expires.get_or_create(&of_file);
            shown.set(end.as_second());
        }
        let mut text = String::new();
        encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Registers a metric.
fn counted<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a family of duration histograms.
fn timed<L: Clone + Hash + Eq>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> Family<L, Histogram>
where
    Family<L, Histogram>: Metric,
{
    let metric: Family<L, Histogram> = Family::new_with_constructor(|| Histogram::new(SECONDS));
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// Describes the route.
pub(crate) fn described() -> Operation {
    operation(
        "read_metrics",
        Tag::Server,
        "Returns the metrics of this process, for Prometheus.",
    )
    .answers_text(CONTENT_TYPE, "The metrics, as OpenMetrics.")
    .problems(&[&NOT_LOCAL])
}

/// `GET /metrics`
pub(crate) async fn show(
    State(metrics): State<Metrics>,
    caller: Caller,
    connection: Option<Extension<Connection>>,
) -> Result<Response, Problem> {
    if let Caller::Anyone = caller {
        check_reader(connection.map(|Extension(connection)| connection))?;
    }
    let text = metrics.text().map_err(|error| internal(&error))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// Refuses a caller that may not read the metrics, if there are no keys: they show what other clients do. Programs on
/// this machine may read them.
fn check_reader(connection: Option<Connection>) -> Result<(), Problem> {
    if connection.is_some_and(Connection::is_local) {
        return Ok(());
    }
    let detail = "metrics are available only to programs on the server's own machine";
    Err(Problem::new(&NOT_LOCAL, detail))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::connection::Scheme;

    #[test]
    fn the_table_in_the_documentation_has_every_metric_with_its_kind_and_help() {
        let metrics = Metrics::new();
        // A metric without a value is not shown.
        let (http, runs) = (metrics.http(), &metrics.0.runs);
        http.count_request("GET", "/", 200, Duration::ZERO);
        http.count_problem("internal");
        runs.count_each();
        metrics.0.telemetry.count_each();
        let of_file = vec![("certificate".to_owned(), "server.pem".to_owned())];
        metrics.0.certificate_expires.get_or_create(&of_file).set(1);
        let text = metrics.text().unwrap();
        let after = |mark: &str| {
            let mut lines = text.lines();
            lines
                .find_map(|line| line.strip_prefix(mark))
                .unwrap_or_default()
        };
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let expected: BTreeSet<String> = types
            .map(|line| {
                let (name, kind) = line.split_once(' ').unwrap();
                let help = after(&format!("# HELP {name} "));
                format!("| `{name}` | {kind} | {help} |")
            })
            .collect();
        assert!(expected.len() > 10, "{text}");
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
        let page = fs::read_to_string(page).unwrap();
        let rows = page.lines().filter(|line| line.starts_with("| `neuraxis_"));
        let rows: BTreeSet<String> = rows.map(str::to_owned).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn the_dashboard_queries_only_existing_metrics() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = fs::read_to_string(root.join("docs/operating.md")).unwrap();
        let row = |line: &str| {
            let mut cells = line.split('|').map(str::trim);
            let name = cells.nth(1)?.strip_prefix("`neuraxis_")?;
            let name = format!("neuraxis_{}", name.strip_suffix('`')?);
            Some((name, cells.next()?.to_owned()))
        };
        let names: BTreeSet<String> = page
            .lines()
            .filter_map(row)
            .flat_map(|(name, kind)| match kind.as_str() {
                "counter" => vec![format!("{name}_total")],
                "histogram" => ["bucket", "sum", "count"]
                    .map(|part| format!("{name}_{part}"))
                    .to_vec(),
                _ => vec![name],
            })
            .collect();
        let board = fs::read_to_string(root.join("deploy/grafana-dashboard.json")).unwrap();
        let board: serde_json::Value = serde_json::from_str(&board).unwrap();
        let mut asked = BTreeSet::new();
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let words = query.split(|letter| !is_part(letter));
                let found = words.filter(|word| word.starts_with("neuraxis_"));
                let found: Vec<String> = found.map(str::to_owned).collect();
                assert!(!found.is_empty(), "{query}");
                asked.extend(found);
            }
        }
        assert!(asked.is_subset(&names), "{:?}", asked.difference(&names));
        for panel in ["cost", "model_call", "first_chunk", "retries", "trims"] {
            assert!(asked.iter().any(|name| name.contains(panel)), "{panel}");
        }
    }

    #[test]
    fn the_figures_are_for_programs_on_this_machine() {
        let from = |address: &str| Connection::new(address.parse().unwrap(), Scheme::Http);
        assert!(check_reader(Some(from("127.0.0.1"))).is_ok());
        assert!(check_reader(Some(from("::1"))).is_ok());
        assert!(check_reader(Some(from("192.0.2.1"))).is_err());
        assert!(check_reader(None).is_err());
    }
}
