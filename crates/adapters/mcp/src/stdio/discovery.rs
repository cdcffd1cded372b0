//! Limits how long a server may take to say which protocol versions it speaks.
//!
//! A server that does not know the request must refuse it, but some say nothing at all. After the limit, the request is
//! refused on the server's behalf, so that it is asked in the older way over the same connection. A program that is
//! only slow to start is thus not restarted. An answer that arrives later is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use tokio::time::Instant;

/// Whether a server said which versions it speaks, but too late.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiscoveryLate(Arc<AtomicBool>);

impl DiscoveryLate {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The request for the versions that a server speaks.
#[derive(Debug)]
pub(super) struct Discovery {
    limit: Duration,
    /// The request, and the deadline for its answer.
    pending: Option<(RequestId, Instant)>,
    /// The request that was refused on the server's behalf.
    refused: Option<RequestId>,
    late: DiscoveryLate,
}

impl Discovery {
    pub(super) fn within(limit: Duration) -> (Self, DiscoveryLate) {
        let late = DiscoveryLate::default();
        let discovery = Self {
            limit,
            pending: None,
            refused: None,
            late: late.clone(),
        };
        (discovery, late)
    }

    /// Records that a message is sent, in case it is this request.
    pub(super) fn send(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else {
            return;
        };
        if matches!(request.request, ClientRequest::DiscoverRequest(_)) {
            self.pending = Some((request.id.clone(), Instant::now() + self.limit));
        }
    }

    /// Returns the deadline for the answer, if one is awaited.
    pub(super) fn until(&self) -> Option<Instant> {
        self.pending.as_ref().map(|(_, until)| *until)
    }

    /// Refuses the request on the server's behalf.
    pub(super) fn refuse(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (id, _) = self.pending.take()?;
        self.refused = Some(id.clone());
        let why = "it does not say which versions it supports";
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None);
        Some(JsonRpcMessage::error(error, Some(id)))
    }

    /// Returns whether a message is passed on: an answer to the refused request is not. An error without a request id
    /// is taken for that answer, which is the first one expected.
    pub(super) fn accepts(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let (id, is_result) = match message {
            JsonRpcMessage::Response(answer) => (Some(&answer.id), true),
            JsonRpcMessage::Error(error) => (error.id.as_ref(), false),
            _ => return true,
        };
        // Some servers return a number as a string.
        let is_it = |refused: &RequestId| id.is_none_or(|id| id.to_string() == refused.to_string());
        if self.refused.as_ref().is_some_and(is_it) {
            self.refused = None;
            self.late.0.fetch_or(is_result, Ordering::Relaxed);
            return false;
        }
        // No other request is sent before this one is answered.
        self.pending = None;
        true
    }
}
