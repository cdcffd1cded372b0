//! The client of one model.

use std::time::Duration;

use bytes::Bytes;
use neuraxis_core::{LlmError, ModelRef, ModelRequest, Reply};
use neuraxis_ports::{CallContext, ConnectError, LlmClient, ModelInfo, ReplyStream, async_trait};
use neuraxis_wire::request::{Delivery, RefusedReasoning};
use neuraxis_wire::{Endpoint, EndpointConfig, ErrorRule, KeyHeader, Meaning, Route, models};

use crate::config::{AnthropicConfig, AnthropicError, Auth};
use crate::context::Context;
use crate::decode::Decoder;
use crate::encode::{Encoder, MEDIA};
use crate::thinking::REFUSALS;

/// How many models are listed: as many as the service lists in one response.
const LISTED_MODELS: &str = "1000";

/// The meanings of Anthropic's errors, in addition to the common rules; the first matching rule applies. Inside a
/// stream there is no status, so only the type distinguishes errors (docs.claude.com/en/api/errors).
const RULES: [ErrorRule; 13] = [
    // A spending limit is reported with the type of a bad request, or with that of a rate limit that waiting does not
    // lift.
    ErrorRule::code("enforced_spend_limit_reached", Meaning::QuotaExhausted),
    ErrorRule::message("credit balance is too low", Meaning::QuotaExhausted),
    ErrorRule::message("api usage limits", Meaning::QuotaExhausted),
    ErrorRule::message("prompt is too long", Meaning::ContextOverflow),
    ErrorRule::message("exceed context limit", Meaning::ContextOverflow),
    ErrorRule::message("content filtering policy", Meaning::ContentFiltered),
    ErrorRule::kind("billing_error", Meaning::QuotaExhausted),
    ErrorRule::kind("request_too_large", Meaning::BadRequest),
    ErrorRule::kind("invalid_request_error", Meaning::BadRequest),
    ErrorRule::kind("conflict_error", Meaning::Server),
    ErrorRule::kind("api_error", Meaning::Server),
    ErrorRule::kind("timeout_error", Meaning::Server),
    ErrorRule::kind("overloaded_error", Meaning::Server),
];

/// The client of one Anthropic model.
///
/// Makes one attempt per call. Cancelling or dropping a call closes its connection, or its stream over HTTP/2.
///
/// The service may refuse the model's earlier thinking in a conversation, because it was produced for a different
/// beginning. The client then immediately sends that conversation without it, and keeps doing so. If the service
/// refuses the form of a reply as too complex, the client immediately describes the form to the model in words, and
/// keeps doing so.
#[derive(Debug)]
pub struct AnthropicClient {
    endpoint: Endpoint,
    route: Route,
    encoder: Encoder,
    refused: RefusedReasoning,
    context: Context,
    info: ModelInfo,
}

impl AnthropicClient {
    /// Creates a client of a model, with the key from the environment variable `ANTHROPIC_API_KEY` and, if it is set,
    /// the address from `ANTHROPIC_BASE_URL`.
    ///
    /// ```no_run
    /// use neuraxis_anthropic::AnthropicClient;
    ///
    /// let model = AnthropicClient::from_env("claude-opus-5-5")?;
    /// # Ok::<(), neuraxis_ports::ConnectError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [`ConnectError`] that names the variable if it holds no key; otherwise the same as [`new`](Self::new).
    pub fn from_env(model: impl Into<String>) -> Result<Self, ConnectError> {
        Ok(Self::new(AnthropicConfig::from_env(model)?)?)
    }

    /// Creates a client. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`AnthropicError`] if the configuration contradicts itself, the address cannot be used, or TLS cannot be set up.
    pub fn new(config: AnthropicConfig) -> Result<Self, AnthropicError> {
        config.check()?;
        let model = ModelRef::new(crate::PROVIDER, config.model.as_str());
        let encoder = Encoder::new(model.clone(), &config);
        let mut info = ModelInfo::new(model);
        info.loads_within = Some(config.timeouts.loading);
        info.resends_reasoning = true;
        let context = Context::new(config.context_tokens());
        let endpoint = Endpoint::new(endpoint_of(config))?;
        Ok(Self {
            route: endpoint.route("v1/messages"),
            endpoint,
            encoder,
            refused: RefusedReasoning::new(&REFUSALS),
            context,
            info,
        })
    }

    /// Returns the names of the server's models, waiting at most `within`.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if the server cannot be reached, wants another key, or lists no models.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn models(&self, within: Duration) -> Result<Vec<String>, LlmError> {
        models(&self.endpoint, &models_route(&self.endpoint), within).await
    }

    /// Encodes a request, and creates the decoder for its reply.
    fn exchange(
        &self,
        request: &ModelRequest,
        delivery: Delivery,
    ) -> Result<(Bytes, Decoder), LlmError> {
        let no_thinking_until = self.refused.without_until(request.messages.messages());
        let (body, thinking) = self.encoder.body(request, delivery, no_thinking_until)?;
        Ok((body, Decoder::new(self.info.model.clone(), thinking)))
    }

    /// Adapts to a refusal of something that can be expressed differently; the caller then sends the request again.
    /// `describes_form` states whether the refused request already described the reply form in words.
    ///
    /// # Errors
    ///
    /// Any other error, and a second refusal of the same thing.
    fn adapt_to_refusal(
        &self,
        error: LlmError,
        request: &ModelRequest,
        describes_form: bool,
    ) -> Result<(), LlmError> {
        if !describes_form && self.encoder.record_refused_form(&error, request) {
            return Ok(());
        }
        self.refused.record(error, request.messages.messages())
    }
}

#[async_trait]
impl LlmClient for AnthropicClient {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let (answer, decoder) = loop {
            let describes_form = self.encoder.describes_refused_form(request);
            let (body, decoder) = self.exchange(request, Delivery::Whole)?;
            match self.endpoint.ask(&self.route, body, ctx).await {
                Ok(answer) => break (answer, decoder),
                Err(error) => self.adapt_to_refusal(error, request, describes_form)?,
            }
        };
        decoder.decode_whole(&answer, self.endpoint.errors())
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        loop {
            let describes_form = self.encoder.describes_refused_form(request);
            let (body, decoder) = self.exchange(request, Delivery::Streamed)?;
            let stream = self.endpoint.stream(&self.route, body, ctx, || decoder);
            match stream.await {
                Ok(stream) => break Ok(stream),
                Err(error) => self.adapt_to_refusal(error, request, describes_form)?,
            }
        }
    }

    fn info(&self) -> ModelInfo {
        let mut info = self.info.clone();
        info.context_tokens = self.context.known();
        info.media = MEDIA;
        info
    }

    async fn learn_context(&self) {
        self.context
            .learn(&self.endpoint, &self.info.model.model)
            .await;
    }
}

/// Returns the route of the server's list of models.
pub(crate) fn models_route(endpoint: &Endpoint) -> Route {
    endpoint
        .route("v1/models")
        .with_query("limit", LISTED_MODELS)
}

/// Returns the configuration of the connection.
pub(crate) fn endpoint_of(config: AnthropicConfig) -> EndpointConfig {
    let mut endpoint = EndpointConfig::new(config.base_url);
    endpoint.api_key = config.api_key;
    endpoint.key_header = match config.auth {
        Auth::ApiKey => KeyHeader::Named("x-api-key".to_owned()),
        Auth::Bearer => KeyHeader::Bearer,
    };
    endpoint
        .plain_headers
        .push(("anthropic-version".to_owned(), config.version));
    if !config.betas.is_empty() {
        let betas = config.betas.join(",");
        endpoint
            .plain_headers
            .push(("anthropic-beta".to_owned(), betas));
    }
    endpoint.max_concurrent = config.max_concurrent;
    endpoint.ca_file = config.ca_file;
    endpoint.proxy = config.proxy;
    endpoint.timeouts = config.timeouts;
    endpoint.errors = &RULES;
    endpoint
}
