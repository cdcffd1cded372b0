//! Metrics of requests, problems and streams.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{counted, timed};
use crate::problem::{
    RUN_UNRECORDED, STORE_FAILED, STORE_UNAVAILABLE, TOO_MANY_OWN_RUNS, TOO_MANY_REQUESTS,
    TOO_MANY_RUNS,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    method: &'static str,
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProblemLabels {
    kind: &'static str,
}

/// Metrics of requests, problems and streams.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<DurationLabels, Histogram>,
    problems: Family<ProblemLabels, Counter>,
    streams: Gauge,
    dropped: Counter,
}

impl HttpMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: counted(
                registry,
                "http_requests",
                "Answered requests; status 499 if the client disconnected before the answer",
            ),
            seconds: timed(
                registry,
                "http_request_duration",
                "Time until the head of the answer (for a stream, until it starts), or until the client disconnected",
            ),
            problems: counted(
                registry,
                "http_problems",
                "Problem documents by type, such as too-many-runs (refused turns), store-failed and store-unavailable",
            ),
            streams: counted(registry, "streams_open", "Open event streams"),
            dropped: counted(
                registry,
                "listeners_dropped",
                "Streams ended because the client read nothing for too long",
            ),
        };
        // A counter that first appears with a burst of problems has no rate, so an alert would miss that burst.
        for kind in [
            &STORE_FAILED,
            &STORE_UNAVAILABLE,
            &RUN_UNRECORDED,
            &TOO_MANY_RUNS,
            &TOO_MANY_OWN_RUNS,
            &TOO_MANY_REQUESTS,
        ] {
            let kind = kind.name;
            let _ = metrics.problems.get_or_create(&ProblemLabels { kind });
        }
        metrics
    }

    /// Counts a request, with the time until the head of its answer was ready or its client left.
    pub(crate) fn count_request(
        &self,
        method: &'static str,
        route: &str,
        status: u16,
        took: Duration,
    ) {
        let labels = DurationLabels {
            method,
            route: route.to_owned(),
        };
        self.seconds
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
        let DurationLabels { method, route } = labels;
        let answered = RequestLabels {
            method,
            route,
            status,
        };
        self.requests.get_or_create(&answered).inc();
    }

    /// Counts a problem document.
    pub(crate) fn count_problem(&self, kind: &'static str) {
        self.problems.get_or_create(&ProblemLabels { kind }).inc();
    }

    /// Counts a client whose stream was cut off because it accepted no data.
    pub(crate) fn count_dropped_stream(&self) {
        self.dropped.inc();
    }

    /// Counts a stream as open until the returned guard is dropped.
    pub(crate) fn open_stream(&self) -> OpenStream {
        self.streams.inc();
        OpenStream(self.streams.clone())
    }
}

/// Counts a stream as open.
#[derive(Debug)]
pub(crate) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.dec();
    }
}
