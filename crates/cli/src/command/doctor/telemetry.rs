//! Where traces and metrics of runs go, and whether they arrive.

use std::fs;
use std::path::Path;

use neuraxis_app::{Config, Environment, OtlpEndpoint, Telemetry};

use super::Requests;
use super::check::{Check, Outcome};

const NAME: &str = "telemetry";

/// Checks each destination of traces and metrics, and contacts endpoints unless nothing may be sent.
pub(super) async fn checks(
    config: &Config,
    environment: &Environment,
    requests: Requests,
) -> Vec<Check> {
    let mut checks = Vec::new();
    match Telemetry::endpoints(config, environment) {
        Ok(endpoints) => {
            for endpoint in endpoints {
                checks.push(check_endpoint(endpoint, requests).await);
            }
        }
        Err(error) => checks.push(
            Check::here(NAME, Outcome::Failed, error.to_string())
                .fix("`neuraxis help observability` lists the valid values"),
        ),
    }
    let lines = config.telemetry().json_lines.as_ref();
    checks.extend(lines.map(|lines| file(&lines.path)));
    if checks.is_empty() {
        let detail = "traces are not exported ([telemetry.otlp] or OTEL_EXPORTER_OTLP_ENDPOINT sets an endpoint)";
        checks.push(Check::here(NAME, Outcome::Ok, detail));
    }
    checks
}

/// Checks whether an endpoint accepts data.
async fn check_endpoint(endpoint: OtlpEndpoint, requests: Requests) -> Check {
    let destination = format!("{} go to {}", endpoint.signal, endpoint.place);
    if requests == Requests::NotSent {
        let detail = format!("{destination}, not checked (--offline)");
        return Check::here(NAME, Outcome::Skipped, detail);
    }
    match endpoint.probe().await {
        Ok(()) => Check::here(
            NAME,
            Outcome::Ok,
            format!("{destination}, which accepts them"),
        ),
        Err(why) => {
            let detail = format!("{destination}, which does not accept them: {why}");
            Check::here(NAME, Outcome::Warning, detail).fix(
                "start the collector, or check telemetry.otlp and the OTEL_EXPORTER_OTLP_… variables; `neuraxis help \
                 observability` has examples",
            )
        }
    }
}

/// Checks the folder of a file, without creating anything.
fn file(path: &Path) -> Check {
    let shown = path.display();
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let is_writable =
        fs::metadata(folder).is_ok_and(|it| it.is_dir() && !it.permissions().readonly());
    if is_writable {
        return Check::here(NAME, Outcome::Ok, format!("traces go to {shown}"));
    }
    let detail = format!("traces go to {shown}, whose folder does not exist or is not writable");
    Check::here(NAME, Outcome::Failed, detail)
        .fix("create the folder, or name another file in telemetry.json_lines.path")
}
