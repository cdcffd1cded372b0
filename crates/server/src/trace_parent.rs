//! The trace that a client's request belongs to: the headers `traceparent` and `tracestate` of W3C Trace Context.
//!
//! Malformed values are ignored, as the recommendation asks: a client's own tracing never fails its request.

use axum::http::HeaderMap;
use neuraxis::core::TraceContext;

tokio::task_local! {
    /// The trace of the request that this task answers.
    static CURRENT: Option<TraceContext>;
}

/// Makes the trace available while a request is answered.
pub(crate) async fn scope<F: Future>(trace: Option<TraceContext>, answering: F) -> F::Output {
    CURRENT.scope(trace, answering).await
}

/// Returns the trace of the request that this task answers: that of its own span if spans are exported, else the one
/// that its client named, if any.
pub(crate) fn current() -> Option<TraceContext> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Returns the trace that the headers of a request name, if any.
pub(crate) fn of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next()?.to_str().ok()?;
    // With several values, it is unclear which one is meant.
    if parents.next().is_some() {
        return None;
    }
    let parent: TraceContext = parent.trim().parse().ok()?;
    let states = headers.get_all("tracestate").iter();
    let states: Vec<&str> = states.filter_map(|state| state.to_str().ok()).collect();
    Some(parent.with_state(Some(states.join(","))))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        headers
    }

    #[test]
    fn a_trace_uses_its_only_traceparent_header_and_all_tracestate_headers() {
        let all = [
            ("traceparent", PARENT),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
        ];
        let trace = of(&headers(&all)).unwrap();
        assert_eq!(trace.to_string(), PARENT);
        assert_eq!(trace.state.as_deref(), Some("a=1,b=2"));
    }

    #[test]
    fn an_invalid_trace_is_ignored() {
        assert_eq!(of(&headers(&[])), None);
        assert_eq!(of(&headers(&[("traceparent", "00-1-2-3")])), None);
        let twice = [("traceparent", PARENT), ("traceparent", PARENT)];
        assert_eq!(of(&headers(&twice)), None);
        assert_eq!(of(&headers(&[("tracestate", "a=1")])), None);
    }
}
