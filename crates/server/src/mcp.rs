//! `/mcp`: the agents for clients of the Model Context Protocol.
//!
//! What the protocol says is answered by `neuraxis-mcp-server`. Who sits at a client approves its calls only if it shows the
//! token of decisions, as on the server's own API. Here the request is bounded, as those of all routes are; a
//! refusal of ours is a problem document.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use neuraxis::mcp_server::HttpService;
use neuraxis::ports::CancellationToken;
use tokio::time::sleep;

use crate::body;
use crate::limits::Limited;
use crate::problem::Problem;
use crate::token::{self, DecisionToken};

/// How long answers may take on their way before open streams end.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// Answers MCP clients.
#[derive(Debug, Clone)]
pub(crate) struct McpClients {
    /// For those that show the token of decisions: who sits at one may approve calls.
    trusted: HttpService,
    /// For all others.
    others: HttpService,
    decisions: Option<DecisionToken>,
    /// Ends the streams that wait for what may come.
    streams: CancellationToken,
}

impl McpClients {
    pub(crate) fn new(limited: &Limited) -> Self {
        let streams = CancellationToken::new();
        Self {
            trusted: HttpService::new(limited.for_mcp(), streams.clone()),
            others: HttpService::new(limited.for_mcp().without_questions(), streams.clone()),
            decisions: limited.decisions(),
            streams,
        }
    }

    /// Answers one request.
    pub(crate) async fn answer(self, request: Request) -> Result<Response, Problem> {
        let (head, body) = request.into_parts();
        let body = match head.method {
            Method::POST => body::json(&head.headers, body).await?,
            // Others have none that counts.
            _ => Vec::new(),
        };
        let request = Request::from_parts(head, Bytes::from(body));
        let service = match token::check(self.decisions, request.headers()) {
            Ok(()) => self.trusted,
            Err(_) => self.others,
        };
        Ok(service.answer(request).await.map(Body::new))
    }

    /// Ends open streams, which would never end by themselves, once all runs are over. Answers go first.
    pub(crate) fn end_streams(self) {
        tokio::spawn(async move {
            sleep(LAST_ANSWERS).await;
            self.streams.cancel();
        });
    }
}
