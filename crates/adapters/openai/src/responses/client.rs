//! A client of Responses: one attempt per call, with a whole or streamed reply.

use std::sync::Arc;

use neuraxis_core::{LlmError, ModelRef, ModelRequest, Reply};
use neuraxis_ports::{CallContext, ReplyStream};
use neuraxis_wire::request::Delivery;
use neuraxis_wire::{Endpoint, Route};

use super::dialect::ResponsesDialect;
use super::encode::Encoder;
use super::output::Output;
use crate::client::without_reply;
use crate::dialect::PROVIDER;

/// A client of Responses, in the dialect of one server.
///
/// Makes one attempt per call. Cancelling or dropping a call closes its connection, or its stream over HTTP/2.
///
/// If the service refuses earlier reasoning in a conversation because it was encrypted for another organization or
/// server, the conversation is sent again immediately without that reasoning, and without it from then on.
#[derive(Debug)]
pub(crate) struct ResponsesClient {
    endpoint: Arc<Endpoint>,
    route: Route,
    model: ModelRef,
    server: Arc<str>,
    encoder: Encoder,
}

impl ResponsesClient {
    /// Creates a client that calls `model` at a route of an endpoint.
    #[must_use]
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        route: Route,
        model: impl Into<Arc<str>>,
        dialect: ResponsesDialect,
    ) -> Self {
        let model = ModelRef::new(PROVIDER, model);
        let server: Arc<str> = Arc::from(endpoint.errors().server());
        Self {
            encoder: Encoder::new(&model.model, &server, dialect),
            endpoint,
            route,
            model,
            server,
        }
    }

    /// Returns the whole answer to a request.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that says what went wrong.
    pub(crate) async fn respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<Reply, LlmError> {
        let answer = loop {
            let body = self.encoder.body(request, Delivery::Whole)?;
            match self.endpoint.ask(&self.route, body, ctx).await {
                Ok(answer) => break answer,
                Err(error) => self.record_refusal(error, request)?,
            }
        };
        self.output(request)
            .decode_whole(&answer, self.endpoint.errors())
    }

    /// Streams the answer to a request.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for anything that goes wrong before the first item; later errors are items of the stream.
    pub(crate) async fn stream(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        loop {
            let body = self.encoder.body(request, Delivery::Streamed)?;
            let output = || self.output(request);
            let stream = self.endpoint.stream(&self.route, body, ctx, output);
            match stream.await {
                Ok(stream) => break Ok(stream),
                Err(error) => self.record_refusal(error, request)?,
            }
        }
    }

    fn record_refusal(&self, error: LlmError, request: &ModelRequest) -> Result<(), LlmError> {
        let error = without_reply(error, request.max_output_tokens);
        self.encoder.record_refusal(error, request)
    }

    fn output(&self, request: &ModelRequest) -> Output {
        let most = request.max_output_tokens;
        Output::new(Arc::clone(&self.server), self.model.clone(), most)
    }
}
