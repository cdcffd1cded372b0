//! Bounds how long a server may take to say which versions of the protocol it speaks.
//!
//! One that does not know the question has to refuse it, and some say nothing at all. After a while it is refused in the
//! server's place, so that it is asked in the older way over the same connection: a program that only takes long to start is
//! not started anew. What it answers after that is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use tokio::time::Instant;

/// Whether a server said which versions it speaks, but too late.
#[derive(Debug, Clone, Default)]
pub(crate) struct Late(Arc<AtomicBool>);

impl Late {
    pub(crate) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The question which versions a server speaks.
#[derive(Debug)]
pub(super) struct Discovery {
    limit: Duration,
    /// The request, and until when its answer is waited for.
    asked: Option<(RequestId, Instant)>,
    /// The request that was refused in the server's place.
    refused: Option<RequestId>,
    late: Late,
}

impl Discovery {
    pub(super) fn within(limit: Duration) -> (Self, Late) {
        let late = Late::default();
        let discovery = Self {
            limit,
            asked: None,
            refused: None,
            late: late.clone(),
        };
        (discovery, late)
    }

    /// Notes that a message is sent, which may be the question.
    pub(super) fn send(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(asked) = message else {
            return;
        };
        if matches!(asked.request, ClientRequest::DiscoverRequest(_)) {
            self.asked = Some((asked.id.clone(), Instant::now() + self.limit));
        }
    }

    /// Returns until when the answer is waited for, if it is.
    pub(super) fn until(&self) -> Option<Instant> {
        self.asked.as_ref().map(|(_, until)| *until)
    }

    /// Refuses the question in the server's place.
    pub(super) fn refuse(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (id, _) = self.asked.take()?;
        self.refused = Some(id.clone());
        let said = "it does not say which versions it speaks";
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, said, None);
        Some(JsonRpcMessage::error(error, Some(id)))
    }

    /// Tells whether a message counts: not if it answers what was refused. An error that does not say what it answers is taken
    /// for that answer, which is the first to be due.
    pub(super) fn counts(&mut self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        let (id, is_result) = match message {
            JsonRpcMessage::Response(answer) => (Some(&answer.id), true),
            JsonRpcMessage::Error(error) => (error.id.as_ref(), false),
            _ => return true,
        };
        // Some give a number back as a text.
        let is_it = |refused: &RequestId| id.is_none_or(|id| id.to_string() == refused.to_string());
        if self.refused.as_ref().is_some_and(is_it) {
            self.refused = None;
            self.late.0.fetch_or(is_result, Ordering::Relaxed);
            return false;
        }
        // Nothing else is asked before it is answered.
        self.asked = None;
        true
    }
}
