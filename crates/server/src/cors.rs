//! Lets web pages of other origins ask, such as a front end of AG-UI that is served elsewhere: those alone that
//! `[server] origins` names, and with keys alone. A browser asks first (a preflight), without a key, and is told here what such
//! a page may send and read.
//!
//! Not for who may ask at all: pages of all other origins the [guard](crate::guard) refuses, before anything here.

use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::guard::is_named;
use crate::limits::Limited;
use crate::mcp;
use crate::openai::SHOULD_RETRY;
use crate::request_id;
use crate::turns::REPLAYED;

/// How long a browser need not ask again.
const MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// The methods that the routes know.
const METHODS: [Method; 3] = [Method::GET, Method::POST, Method::DELETE];

/// What a page may read of an answer besides its content.
const EXPOSED: [HeaderName; 7] = [
    header::RETRY_AFTER,
    header::LOCATION,
    request_id::HEADER,
    REPLAYED,
    // Who cannot read it sends a request again whose run has begun.
    SHOULD_RETRY,
    // Who cannot read it has no session to go on with.
    mcp::SESSION,
    // What is left of a time such as `expires_at` is told by the server's clock alone.
    header::DATE,
];

/// Returns what answers preflights and tells browsers whose pages may read answers; `None` where no other origin is named.
pub(crate) fn layer(limited: &Limited) -> Option<CorsLayer> {
    if !limited.names_origins() {
        return None;
    }
    let limited = limited.clone();
    let origins = AllowOrigin::predicate(move |origin: &HeaderValue, _: &Parts| {
        let mut ours = limited.origins().iter();
        ours.any(|ours| is_named(ours, origin.as_bytes()))
    });
    // Keys come in a header that a page has to set: nothing is sent that a browser keeps by itself, such as cookies.
    let layer = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods(METHODS)
        // Clients of other people's protocols have headers of their own.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED)
        .max_age(MAX_AGE);
    Some(layer)
}
