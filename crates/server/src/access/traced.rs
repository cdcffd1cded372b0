//! The span of a request, a child of its client's span and the parent of the span of the run that it starts. It exists
//! only if spans are exported. Health probes have none.

use axum::extract::MatchedPath;
use axum::http::StatusCode;
use neuraxis::core::TraceContext;
use neuraxis::otel;
use tracing::Span;
use tracing::field::Empty;

use crate::request_id::RequestId;

/// Routes for monitoring, which are requested continuously.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The span of a request. It ends on drop.
#[derive(Debug)]
pub(super) struct Traced(pub(super) Span);

impl Traced {
    /// Starts the span of a request. Of the client's input, it holds only the matched route and the request's id.
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

    /// Joins the client's trace, if there is one. Returns the trace that work started by this request belongs to.
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
    /// The exporter ends the span at the time it was last exited. For a stream, that was long ago, so enter it once
    /// more.
    fn drop(&mut self) {
        self.0.in_scope(|| ());
    }
}
