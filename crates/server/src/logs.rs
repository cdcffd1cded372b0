//! Logs, on standard error: what happened to the server, never what was said in a conversation.

use std::env::{self, VarError};
use std::io::{self, IsTerminal};

use neuraxis::otel;
use neuraxis_app::{AccessLog, Environment, Telemetry};
use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::access;
use crate::log_queue::{self, LogEnd};

/// Neuraxis's own variable. It takes precedence over the one that many Rust programs read.
const OUR_VARIABLE: &str = "NEURAXIS_LOG";

/// The variables that set the log filter, in order of precedence.
const VARIABLES: [&str; 2] = [OUR_VARIABLE, "RUST_LOG"];

/// The filter if no variable sets one.
const DEFAULT_FILTER: &str = "info";

/// The Model Context Protocol library. It logs what was said, and its warnings name neither the server nor the run:
/// whatever matters about those is logged where they are known.
const PROTOCOL: &str = "rmcp";

/// A variable's log filter cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error(
    "{variable} must be a log filter, such as \"debug\" or \"warn,neuraxis_engine=debug\": {reason}"
)]
#[non_exhaustive]
pub struct LogFilterError {
    /// The variable.
    pub variable: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// Starts logging as the environment asks, with the access log in the configured format. Spans meant for export go to
/// telemetry only, and to no log. Drop the returned guard as the process ends.
pub(crate) fn start(
    environment: &Environment,
    log: Option<AccessLog>,
    telemetry: &Telemetry,
) -> Result<LogEnd, LogFilterError> {
    let colors =
        io::stderr().is_terminal() && matches!(env::var("NO_COLOR"), Err(VarError::NotPresent));
    let is_json = log == Some(AccessLog::Json);
    let filter = discreet(filter(environment)?);
    let filter = filter.and(filter_fn(move |line| {
        line.target() != otel::TARGET && !(is_json && is_answer(line))
    }));
    let (queue, end) = log_queue::of_standard_error();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(queue.clone())
        .with_ansi(colors)
        .with_filter(filter);
    // Access log lines are separate JSON objects, whatever the format of other lines.
    let answers = is_json.then(|| {
        tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_target(false)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(queue)
            .with_filter(filter_fn(is_answer))
    });
    let chosen = filter_fn(|of| of.is_span() && of.target() == otel::TARGET);
    let exported = telemetry.layer();
    let exported =
        exported.map(|layer| layer.with_filter(chosen.with_max_level_hint(LevelFilter::DEBUG)));
    // An embedding program may have installed its own logger already.
    let _ = tracing_subscriber::registry()
        .with(exported)
        .with(lines)
        .with(answers)
        .try_init();
    Ok(end)
}

/// Returns whether this is an access log line. A request's span has the same target, but also encloses other lines.
fn is_answer(line: &Metadata<'_>) -> bool {
    line.is_event() && line.target() == access::TARGET
}

/// Disables what libraries log about conversations, unless it is enabled by name.
fn discreet(filter: EnvFilter) -> EnvFilter {
    let is_asked_for = filter.to_string().contains(PROTOCOL);
    match format!("{PROTOCOL}=off").parse() {
        Ok(directive) if !is_asked_for => filter.add_directive(directive),
        _ => filter,
    }
}

fn filter(environment: &Environment) -> Result<EnvFilter, LogFilterError> {
    // An empty variable, which Compose passes for an unset one, is ignored.
    let value_of = |variable: &str| environment.variable(variable).filter(|it| !it.is_empty());
    let set = VARIABLES
        .into_iter()
        .find_map(|variable| Some((variable, value_of(variable)?)));
    let Some((variable, value)) = set else {
        return Ok(EnvFilter::new(DEFAULT_FILTER));
    };
    let refused = |reason| LogFilterError { variable, reason };
    let text = value
        .to_str()
        .ok_or_else(|| refused("not valid Unicode".to_owned()))?;
    let filter = EnvFilter::builder().parse(text);
    filter.map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_log_variable_overrides_rust_log_and_the_default_applies_without_either() {
        let environment = Environment::new("/w");
        assert_eq!(filter(&environment).unwrap().to_string(), "info");
        let environment = environment.with_variable("NEURAXIS_LOG", "");
        assert_eq!(filter(&environment).unwrap().to_string(), "info");
        let environment = environment.with_variable("RUST_LOG", "warn");
        assert_eq!(filter(&environment).unwrap().to_string(), "warn");
        let environment = environment.with_variable("NEURAXIS_LOG", "trace");
        assert_eq!(filter(&environment).unwrap().to_string(), "trace");
    }

    #[test]
    fn logs_of_the_mcp_library_must_be_enabled_explicitly() {
        for (filter, expected) in [
            ("info", "rmcp=off,info"),
            ("debug", "rmcp=off,debug"),
            ("warn", "rmcp=off,warn"),
            ("info,rmcp=debug", "rmcp=debug,info"),
        ] {
            assert_eq!(discreet(EnvFilter::new(filter)).to_string(), expected);
        }
    }

    #[test]
    fn an_invalid_log_filter_is_refused_with_its_variable() {
        let environment = Environment::new("/w").with_variable("NEURAXIS_LOG", "neuraxis=loud");
        let error = filter(&environment).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("NEURAXIS_LOG must be a log filter"),
            "{error}"
        );
    }
}
