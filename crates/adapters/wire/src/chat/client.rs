//! A client of Chat Completions: one attempt a call, whole or streamed.

use std::sync::Arc;

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, ModelRef, ModelRequest, Reply};
use neuraxis_ports::{CallContext, ReplyStream};

use crate::chat::blocks::Blocks;
use crate::chat::dialect::Dialect;
use crate::chat::encode::Encoder;
use crate::chat::extra::ExtraFields;
use crate::chat::whole;
use crate::encode::Delivery;
use crate::endpoint::{Endpoint, Route};
use crate::stream::EventStream;

/// Words by which a server's template refuses a system message where it stands.
const REFUSALS: [&str; 4] = [
    "system message",
    "system role",
    "roles must alternate",
    "roles are supported",
];

/// A client of Chat Completions, in the dialect of one server.
///
/// Makes one attempt a call. Cancelling a call, or dropping it, closes its connection.
#[derive(Debug)]
pub struct ChatClient {
    endpoint: Arc<Endpoint>,
    route: Route,
    model: ModelRef,
    encoder: Encoder,
}

impl ChatClient {
    /// Makes a client that asks `model` at a route of an endpoint.
    #[must_use]
    pub fn new(
        endpoint: Arc<Endpoint>,
        route: Route,
        model: impl Into<Arc<str>>,
        dialect: Dialect,
    ) -> Self {
        let model = ModelRef::new(dialect.provider, model);
        Self {
            endpoint,
            route,
            encoder: Encoder::new(&model.model, dialect),
            model,
        }
    }

    /// Returns the model that is asked.
    #[must_use]
    pub const fn model(&self) -> &ModelRef {
        &self.model
    }

    /// Answers a request whole.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that says what went wrong.
    pub async fn respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<Reply, LlmError> {
        self.respond_with(request, ctx, &ExtraFields::default())
            .await
    }

    /// Answers a request whole, with more fields in its body than the protocol has.
    ///
    /// # Errors
    ///
    /// As [`respond`](Self::respond).
    pub async fn respond_with(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
        extra: &ExtraFields,
    ) -> Result<Reply, LlmError> {
        let body = extra.join(self.encoder.body(request, Delivery::Whole)?);
        let answer = self
            .endpoint
            .ask(&self.route, body, &ctx.cancellation)
            .await
            .map_err(|error| self.learn(error, request))?;
        whole::decode(&answer, &self.model, self.endpoint.voice())
    }

    /// Answers a request piece by piece.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for all that goes wrong before the first piece; what goes wrong later is an item of the stream.
    pub async fn stream(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        self.stream_with(request, ctx, &ExtraFields::default())
            .await
    }

    /// Answers a request piece by piece, with more fields in its body than the protocol has.
    ///
    /// # Errors
    ///
    /// As [`stream`](Self::stream).
    pub async fn stream_with(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
        extra: &ExtraFields,
    ) -> Result<ReplyStream, LlmError> {
        let body = extra.join(self.encoder.body(request, Delivery::Streamed)?);
        let body = self
            .endpoint
            .stream(&self.route, body, &ctx.cancellation)
            .await
            .map_err(|error| self.learn(error, request))?;
        Ok(Box::pin(EventStream::new(
            body,
            Blocks::new(self.model.clone()),
        )))
    }

    /// Returns the body by which a request is answered whole, for routes that take the same body for other ends.
    ///
    /// # Errors
    ///
    /// [`LlmErrorKind::BadRequest`] for what this protocol cannot express.
    pub fn body(&self, request: &ModelRequest) -> Result<Bytes, LlmError> {
        self.encoder.body(request, Delivery::Whole)
    }

    /// Takes note of a server that refuses a late system message.
    fn learn(&self, error: LlmError, request: &ModelRequest) -> LlmError {
        let said = error.message.to_ascii_lowercase();
        let refused = matches!(
            error.kind,
            LlmErrorKind::BadRequest | LlmErrorKind::Server { .. }
        ) && REFUSALS.iter().any(|words| said.contains(words));
        if !refused || !self.encoder.avoid_late_system(request) {
            return error;
        }
        tracing::info!(model = %self.model, "the server refuses late system messages: sent as user messages from now on");
        let said = format!(
            "the server's chat template refuses a system message that is not the first; from now on it is sent as a \
             user message: {}",
            error.message
        );
        LlmError::new(LlmErrorKind::server(None), said)
    }
}
