//! Accepts requests from web pages of other origins, such as an AG-UI front end that is served elsewhere: only from the
//! origins that `[server] origins` names, and only with keys. A browser first sends a preflight request, without a key,
//! and learns here what such a page may send and read.
//!
//! Not for deciding which pages may send requests: the [guard](crate::guard) refuses pages of other origins.

use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::guard::is_named;
use crate::limits::ServerState;
use crate::mcp;
use crate::openai::SHOULD_RETRY;
use crate::request_id;
use crate::turns::REPLAYED;

/// How long a browser may cache the result of a preflight request.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// The methods that the routes accept.
const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::PATCH, Method::DELETE];

/// The response headers that a page may read.
const EXPOSED: [HeaderName; 7] = [
    header::RETRY_AFTER,
    header::LOCATION,
    request_id::HEADER,
    REPLAYED,
    // A client that cannot read this header would repeat a request whose run has started.
    SHOULD_RETRY,
    // A client that cannot read this header cannot continue its session.
    mcp::SESSION,
    // Clients need the server's clock to compute the time left until a time such as `expires_at`.
    header::DATE,
];

/// Returns the layer that answers preflight requests and tells browsers which pages may read answers, or `None` if no
/// other origin is configured.
pub(crate) fn layer(state: &ServerState) -> Option<CorsLayer> {
    if !state.has_configured_origins() {
        return None;
    }
    let state = state.clone();
    let origins = AllowOrigin::predicate(move |origin: &HeaderValue, _: &Parts| {
        let mut ours = state.origins().iter();
        ours.any(|ours| is_named(ours, origin.as_bytes()))
    });
    // Keys are sent in a header that a page must set. Nothing that a browser stores, such as cookies, is sent.
    let layer = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods(METHODS)
        // Clients of third-party protocols send their own headers.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED)
        .max_age(MAX_AGE);
    Some(layer)
}
