//! Creates the OTLP exporters of spans and metrics: over HTTP or gRPC, with the certificates that the machine trusts.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{
    MetricExporter, OTEL_EXPORTER_OTLP_METRICS_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT,
    OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, Protocol as Wire,
    RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace as sdk;

use crate::config::{OtlpConfig, Protocol, Signal, StartError, Target};

pub(crate) fn span_exporter(
    config: &OtlpConfig,
    retries: RetryPolicy,
) -> Result<SpanExporter, StartError> {
    let target = config.target(Signal::Traces);
    let builder = SpanExporter::builder();
    let built = match target.protocol {
        Protocol::HttpProtobuf => over_http(builder.with_http(), &target, Signal::Traces)?
            .with_retry_policy(retries)
            .build(),
        Protocol::Grpc => over_grpc(builder.with_tonic(), &target)
            .with_retry_policy(retries)
            .build(),
    };
    built.map_err(|error| StartError::Exporter(config.redact.text(&error.to_string()).into_owned()))
}

pub(crate) fn metric_exporter(
    config: &OtlpConfig,
    retries: RetryPolicy,
) -> Result<MetricExporter, StartError> {
    let target = config.target(Signal::Metrics);
    let builder = MetricExporter::builder();
    let built = match target.protocol {
        Protocol::HttpProtobuf => over_http(builder.with_http(), &target, Signal::Metrics)?
            .with_retry_policy(retries)
            .build(),
        Protocol::Grpc => over_grpc(builder.with_tonic(), &target)
            .with_retry_policy(retries)
            .build(),
    };
    built.map_err(|error| StartError::Exporter(config.redact.text(&error.to_string()).into_owned()))
}

fn over_http<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    target: &Target,
    signal: Signal,
) -> Result<B, StartError> {
    let within = time_limit(signal, |name| std::env::var(name).ok());
    let builder = builder
        .with_protocol(Wire::HttpBinary)
        .with_http_client(http_client(target, within)?);
    Ok(to_endpoint(builder, target))
}

fn over_grpc<B: WithExportConfig + WithTonicConfig>(builder: B, target: &Target) -> B {
    let builder = to_endpoint(builder, target);
    match target.is_encrypted() {
        true => builder.with_tls_config(ClientTlsConfig::new().with_native_roots()),
        false => builder,
    }
}

/// Without a configured endpoint, OpenTelemetry's variables name it.
fn to_endpoint<B: WithExportConfig>(builder: B, target: &Target) -> B {
    match &target.endpoint {
        Some(endpoint) => builder.with_endpoint(endpoint),
        None => builder,
    }
}

/// Returns how long the receiver may take for one batch, according to OpenTelemetry's variables. The SDK reads them
/// only for clients that it creates itself.
fn time_limit(signal: Signal, variable: impl Fn(&str) -> Option<String>) -> Duration {
    let own = match signal {
        Signal::Traces => OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,
        Signal::Metrics => OTEL_EXPORTER_OTLP_METRICS_TIMEOUT,
    };
    let said = [own, OTEL_EXPORTER_OTLP_TIMEOUT]
        .into_iter()
        .find_map(|name| variable(name)?.trim().parse().ok());
    said.map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis)
}

/// Creates the HTTP client. It does not follow redirects, which would carry the spans, and perhaps a key, to an address
/// that was not configured. It reaches loopback addresses directly, even if the environment names a proxy.
fn http_client(target: &Target, within: Duration) -> Result<reqwest::blocking::Client, StartError> {
    let is_local = target.is_loopback();
    let build = move || {
        let mut client = reqwest::blocking::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(within);
        if is_local {
            client = client.no_proxy();
        }
        client.build()
    };
    // The client must not be created on a thread that drives a runtime.
    let built = std::thread::spawn(build).join();
    match built {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(StartError::Exporter(error.to_string())),
        Err(_) => Err(StartError::Exporter(
            "cannot create an HTTP client".to_owned(),
        )),
    }
}

/// Checks within the given time whether an endpoint accepts spans, by sending an empty request. If no spans are sent,
/// checks metrics instead.
///
/// # Errors
///
/// Why nothing can be sent to the endpoint.
pub async fn probe(config: OtlpConfig, within: Duration) -> Result<(), String> {
    let redact = config.redact.clone();
    let runtime = tokio::runtime::Handle::current();
    let probe = tokio::task::spawn_blocking(move || {
        // An HTTP client blocks, so its answer is available immediately; a client that retries would wait for its
        // runtime.
        let answer = |signal, sent: BoxFuture<'_, OTelSdkResult>| {
            let sent = match config.target(signal).protocol {
                Protocol::Grpc => runtime.block_on(sent),
                Protocol::HttpProtobuf => sent.now_or_never().unwrap_or(Ok(())),
            };
            sent.map_err(|error| error.to_string())
        };
        if config.traces {
            let exporter = span_exporter(&config, RetryPolicy::disabled());
            let exporter = exporter.map_err(|error| error.to_string())?;
            let sent = sdk::SpanExporter::export(&exporter, Vec::new());
            answer(Signal::Traces, Box::pin(sent))?;
        }
        if config.metrics && !config.traces {
            let exporter = metric_exporter(&config, RetryPolicy::disabled());
            let exporter = exporter.map_err(|error| error.to_string())?;
            let nothing = ResourceMetrics::default();
            let sent = PushMetricExporter::export(&exporter, &nothing);
            answer(Signal::Metrics, Box::pin(sent))?;
        }
        Ok(())
    });
    let answer = match tokio::time::timeout(within, probe).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err("the request could not be sent".to_owned()),
        Err(_) => Err(format!("no answer within {} s", within.as_secs())),
    };
    answer.map_err(|error| redact.text(&error).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_time_limit_is_that_of_the_signal_or_of_all_or_the_default() {
        let of = |signal, said: &[(&str, &str)]| {
            time_limit(signal, |name| {
                let known = said.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| (*value).to_owned())
            })
            .as_millis()
        };
        let all = ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", " 300 ");
        assert_eq!(of(Signal::Traces, &[all, own]), 300);
        assert_eq!(of(Signal::Metrics, &[all, own]), 2_000);
        assert_eq!(of(Signal::Traces, &[]), 10_000);
        let wrong = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon");
        assert_eq!(of(Signal::Traces, &[all, wrong]), 2_000);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_unreachable_endpoint_accepts_neither_spans_nor_metrics() {
        for traces in [true, false] {
            let config = OtlpConfig {
                traces,
                // Nothing listens at this address.
                endpoint: Some("http://127.0.0.1:9".parse().unwrap()),
                ..OtlpConfig::default()
            };
            let found = probe(config, Duration::from_secs(30)).await;
            assert!(found.is_err(), "traces: {traces}");
        }
    }

    #[test]
    fn a_hanging_endpoint_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let target = Target {
            endpoint: Some(endpoint.clone()),
            protocol: Protocol::HttpProtobuf,
        };
        let client = http_client(&target, Duration::from_millis(50)).unwrap();
        let error = client.post(endpoint).send().unwrap_err();
        assert!(error.is_timeout(), "{error}");
    }
}
