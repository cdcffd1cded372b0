//! An endpoint that accepts connections and never answers.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use neuraxis_otel::{Otel, OtlpConfig, Protocol, layer};
use tracing_subscriber::layer::SubscriberExt;

/// How long the SDK waits at the end, regardless of the limit it is given.
const OF_THE_SDK: Duration = Duration::from_secs(5);

async fn check(protocol: Protocol) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = OtlpConfig::default();
    config.protocol = protocol;
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    config.endpoint = Some(endpoint.parse().unwrap());
    let otel = Otel::start(&config).unwrap();
    otel.note_waiting(1);
    let subscriber = tracing_subscriber::registry().with(layer(&otel));
    tracing::subscriber::with_default(subscriber, || drop(tracing::info_span!("request")));
    let began = Instant::now();
    let (spans, metrics) = otel.close(Duration::from_millis(200)).await;
    let took = began.elapsed();
    assert!(took < OF_THE_SDK, "{protocol}: {took:?}");
    assert_eq!((spans.delivered, spans.dropped), (0, 1), "{protocol}");
    assert_eq!((metrics.delivered, metrics.dropped), (0, 1), "{protocol}");
    for delivery in [spans, metrics] {
        let error = delivery.error.unwrap();
        assert!(error.contains("did not answer"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_endpoint_is_waited_for_until_the_limit_and_losses_are_counted() {
    check(Protocol::HttpProtobuf).await;
    check(Protocol::Grpc).await;
}
