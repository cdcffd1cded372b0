//! The span of a request, beneath that of its client and above that of the run that it begins. There is one only where spans are
//! exported; what asks whether the server lives has none.

use axum::extract::MatchedPath;
use axum::http::StatusCode;
use neuraxis::core::TraceContext;
use neuraxis::otel;
use tracing::Span;
use tracing::field::Empty;

use crate::request_id::RequestId;

/// The routes of machines that look after the server, at every second of the day.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The span of a request. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Traced(pub(super) Span);

impl Traced {
    /// Begins the span of a request. Of what a client wrote it holds the route that it matched, and no more.
    pub(super) fn begin(method: &'static str, route: Option<&MatchedPath>, id: &RequestId) -> Self {
        let route = route.map(MatchedPath::as_str);
        if route.is_some_and(|route| PROBES.contains(&route)) {
            return Self(Span::none());
        }
        let span = tracing::info_span!(
            target: otel::TARGET,
            parent: None,
            "request",
            otel.name = Empty,
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
            neuraxis.request.id = id.as_str(),
        );
        if !span.is_disabled() {
            let name = match route {
                Some(route) => format!("{method} {route}"),
                None => method.to_owned(),
            };
            span.record("otel.name", name);
        }
        Self(span)
    }

    /// Makes it a part of its client's trace, if there is one, and returns the trace that what it begins is a part of.
    pub(super) fn join(&self, client: Option<TraceContext>) -> Option<TraceContext> {
        if self.0.is_disabled() {
            return client;
        }
        otel::join(&self.0, client.as_ref()).or(client)
    }

    pub(super) fn answered(&self, status: StatusCode) {
        self.0
            .record("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            self.0.record("otel.status_code", "ERROR");
        }
    }
}

impl Drop for Traced {
    /// What exports the span takes the time at which it was last left for its end: of a stream that is long ago.
    fn drop(&mut self) {
        self.0.in_scope(|| ());
    }
}
