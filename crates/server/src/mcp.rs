//! `/mcp`: the agents for clients of the Model Context Protocol.
//!
//! What the protocol says is answered by `neuraxis-mcp-server`. Here the request is bounded, as those of all routes are; a
//! refusal of ours is a problem document.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use neuraxis::mcp_server::HttpService;

use crate::body;
use crate::problem::Problem;

/// Answers a request of a client.
pub(crate) async fn answer(service: HttpService, request: Request) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let body = match head.method {
        Method::POST => body::json(&head.headers, body).await?,
        // Others have none that counts.
        _ => Vec::new(),
    };
    let request = Request::from_parts(head, Bytes::from(body));
    Ok(service.answer(request).await.map(Body::new))
}
