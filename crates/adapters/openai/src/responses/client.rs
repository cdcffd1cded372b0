//! A client of Responses: one attempt a call, whole or streamed.

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
/// Makes one attempt a call. Cancelling a call, or dropping it, closes its connection, or its part of it over HTTP/2.
///
/// Where the service refuses what the model thought earlier in a conversation, since it was sealed for another organization or
/// server, that conversation is sent without it, at once and from then on.
#[derive(Debug)]
pub(crate) struct ResponsesClient {
    endpoint: Arc<Endpoint>,
    route: Route,
    model: ModelRef,
    server: Arc<str>,
    encoder: Encoder,
}

impl ResponsesClient {
    /// Makes a client that asks `model` at a route of an endpoint.
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

    /// Answers a request whole.
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
                Err(error) => self.learn(error, request)?,
            }
        };
        self.output(request).whole(&answer, self.endpoint.errors())
    }

    /// Answers a request piece by piece.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for all that goes wrong before the first piece; what goes wrong later is an item of the stream.
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
                Err(error) => self.learn(error, request)?,
            }
        }
    }

    fn learn(&self, error: LlmError, request: &ModelRequest) -> Result<(), LlmError> {
        let error = without_reply(error, request.max_output_tokens);
        self.encoder.learn(error, request)
    }

    fn output(&self, request: &ModelRequest) -> Output {
        let most = request.max_output_tokens;
        Output::new(Arc::clone(&self.server), self.model.clone(), most)
    }
}
