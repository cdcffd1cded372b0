//! The client of one model.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use neuraxis_core::{LlmError, LlmErrorKind, MediaTypes, ModelRef, ModelRequest, Reply};
use neuraxis_ports::{CallContext, ConnectError, LlmClient, ModelInfo, ReplyStream, async_trait};
use neuraxis_wire::{
    ChatClient, Endpoint, EndpointConfig, ErrorRule, KeyHeader, Meaning, ReasoningEcho, Route,
    Secret, models,
};

use crate::config::{Api, OpenAiConfig, OpenAiError};
use crate::dialect::{PROVIDER, chat_dialect_for, responses_dialect_for, sent_media_types, thinks};
use crate::model::context_tokens;
use crate::responses::ResponsesClient;

/// The largest reply limit, in tokens, that leaves no room to think: thinking counts toward the limit, so an answer
/// about a role or a summary would never be reached.
const NO_ROOM_TO_THINK: u32 = 1_024;

/// The number of tokens that are added to the limit in that case: GPT-5 thinks for more than a thousand tokens before a
/// one-sentence answer.
const ROOM_TO_THINK: u32 = 4_096;

/// Lower-case words in the error about a request that exceeds the account's tokens per minute.
const MORE_THAN_A_MINUTE_ALLOWS: &str = "request too large for";

/// Maps errors to their meanings, in addition to the rules that apply to every provider; the first matching rule
/// applies. The codes are from OpenAI's error guide (platform.openai.com/docs/guides/error-codes) and from the response
/// errors in its published API description. An error inside a stream has no status, so only the code identifies it.
const RULES: [ErrorRule; 28] = [
    // Its code is that of a rate limit, but waiting never makes the request fit.
    ErrorRule::message(MORE_THAN_A_MINUTE_ALLOWS, Meaning::ContextOverflow),
    // A rate-limit code may come with a billing error type: the code is right.
    ErrorRule::code("rate_limit_exceeded", Meaning::RateLimited),
    ErrorRule::code("slow_down", Meaning::RateLimited),
    ErrorRule::code("billing_hard_limit_reached", Meaning::QuotaExhausted),
    ErrorRule::code("server_is_overloaded", Meaning::Server),
    ErrorRule::code("server_error", Meaning::Server),
    ErrorRule::code("vector_store_timeout", Meaning::Server),
    ErrorRule::code("failed_to_download_image", Meaning::Server),
    ErrorRule::code("invalid_prompt", Meaning::ContentFiltered),
    ErrorRule::code("bio_policy", Meaning::ContentFiltered),
    ErrorRule::code("image_content_policy_violation", Meaning::ContentFiltered),
    ErrorRule::code("data_residency_mismatch", Meaning::BadRequest),
    ErrorRule::code("invalid_image", Meaning::BadRequest),
    ErrorRule::code("invalid_image_format", Meaning::BadRequest),
    ErrorRule::code("invalid_base64_image", Meaning::BadRequest),
    ErrorRule::code("invalid_image_url", Meaning::BadRequest),
    ErrorRule::code("image_too_large", Meaning::BadRequest),
    ErrorRule::code("image_too_small", Meaning::BadRequest),
    ErrorRule::code("image_parse_error", Meaning::BadRequest),
    ErrorRule::code("invalid_image_mode", Meaning::BadRequest),
    ErrorRule::code("image_file_too_large", Meaning::BadRequest),
    ErrorRule::code("unsupported_image_media_type", Meaning::BadRequest),
    ErrorRule::code("empty_image_file", Meaning::BadRequest),
    ErrorRule::code("image_file_not_found", Meaning::BadRequest),
    // Groq's codes: the model wrote a call or an answer that the server cannot parse. The request is valid.
    ErrorRule::code("tool_use_failed", Meaning::InvalidResponse),
    ErrorRule::code("json_validate_failed", Meaning::InvalidResponse),
    // The server does not know an item of the conversation. This is not about the model.
    ErrorRule::message("items are not persisted", Meaning::BadRequest),
    ErrorRule::message("exceeds the context window", Meaning::ContextOverflow),
];

/// A client of one model of OpenAI, or of a server that speaks its protocols.
///
/// Makes one attempt per call. Cancelling or dropping a call closes its connection, or its stream over HTTP/2.
///
/// If a request that was given room to think is refused as too large, it is sent again immediately without that room.
#[derive(Debug)]
pub struct OpenAiClient {
    protocol: Protocol,
    endpoint: Arc<Endpoint>,
    info: ModelInfo,
    thinks: bool,
    is_first_hand: bool,
}

#[derive(Debug)]
enum Protocol {
    Responses(ResponsesClient),
    Chat(ChatClient),
}

impl OpenAiClient {
    /// Creates a client of a model, with the key from the environment variable `OPENAI_API_KEY` and, if it is set, the
    /// address from `OPENAI_BASE_URL`.
    ///
    /// ```no_run
    /// use neuraxis_openai::OpenAiClient;
    ///
    /// let model = OpenAiClient::from_env("gpt-5.4-mini")?;
    /// # Ok::<(), neuraxis_ports::ConnectError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [`ConnectError`] that names the variable if it holds no key; otherwise the same errors as [`new`](Self::new).
    pub fn from_env(model: impl Into<String>) -> Result<Self, ConnectError> {
        Ok(Self::new(OpenAiConfig::from_env(model)?)?)
    }

    /// Creates a client. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`OpenAiError`] if the configuration contradicts itself, the address cannot be used, or TLS cannot be set up.
    pub fn new(config: OpenAiConfig) -> Result<Self, OpenAiError> {
        config.check()?;
        let endpoint = Arc::new(Endpoint::new(endpoint_of(config.clone()))?);
        let mut info = ModelInfo::new(ModelRef::new(PROVIDER, config.model.as_str()));
        let known = || context_tokens(&config.model).filter(|_| config.is_first_hand());
        info.context_tokens = config.context_tokens.or_else(known);
        info.media = sent_media_types(&config);
        info.resends_reasoning = config.echo_reasoning == Some(ReasoningEcho::Always);
        info.loads_within = Some(config.timeouts.loading);
        let thinks = thinks(&config);
        let is_first_hand = config.is_first_hand();
        let shared = Arc::clone(&endpoint);
        let protocol = match config.api {
            Api::Responses => {
                let dialect = responses_dialect_for(&config);
                let route = endpoint.route("responses");
                Protocol::Responses(ResponsesClient::new(shared, route, config.model, dialect))
            }
            Api::Chat => {
                let dialect = chat_dialect_for(&config);
                let route = endpoint.route("chat/completions");
                Protocol::Chat(ChatClient::new(shared, route, config.model, dialect))
            }
        };
        Ok(Self {
            protocol,
            endpoint,
            info,
            thinks,
            is_first_hand,
        })
    }

    /// Asks the server for the names of its models, within the given time.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if there is no server, the server rejects the key, or it lists no models.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn models(&self, within: Duration) -> Result<Vec<String>, LlmError> {
        models(&self.endpoint, &models_route(&self.endpoint), within).await
    }

    /// Returns which setting of a configuration table to change so that the server accepts such requests, as far as its
    /// refusal tells.
    pub(crate) fn advice_on(&self, refusal: &str, table: &str) -> Option<String> {
        let names = |field: &str| refusal.contains(field);
        let is_chat = matches!(self.protocol, Protocol::Chat(_));
        if names("temperature") {
            Some(format!("set {table}.temperature = \"left_out\""))
        } else if is_chat && (names("max_tokens") || names("max_completion_tokens")) {
            Some(format!(
                "set {table}.max_tokens_field to the one that the server accepts: \"max_tokens\" or \"max_completion_tokens\""
            ))
        } else if !is_chat && !self.is_first_hand {
            Some(format!(
                "if the server does not know the Responses API, set {table}.api = \"chat\"; check base_url and model"
            ))
        } else {
            None
        }
    }

    /// Returns a request that leaves the model room to think, if the model thinks and the request itself leaves none.
    fn with_room(&self, request: &ModelRequest) -> Option<ModelRequest> {
        let most = request.max_output_tokens?;
        (self.thinks && most <= NO_ROOM_TO_THINK).then(|| ModelRequest {
            max_output_tokens: Some(most + ROOM_TO_THINK),
            // Messages, tools and schema are shared, not copied.
            ..request.clone()
        })
    }

    async fn request_whole(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<Reply, LlmError> {
        match &self.protocol {
            Protocol::Responses(client) => client.respond(request, ctx).await,
            Protocol::Chat(client) => {
                let reply = client.respond(request, ctx).await;
                reply.map_err(|error| without_reply(error, request.max_output_tokens))
            }
        }
    }

    async fn request_stream(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        match &self.protocol {
            Protocol::Responses(client) => client.stream(request, ctx).await,
            Protocol::Chat(client) => {
                let stream = client.stream(request, ctx).await;
                stream.map_err(|error| without_reply(error, request.max_output_tokens))
            }
        }
    }

    /// Streams the answer to a request. If the first item of the stream is an error, returns that error: OpenAI may
    /// also report inside a stream that a request is too large.
    async fn start_stream(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let mut rest = self.request_stream(request, ctx).await?.fuse();
        let first = rest.try_next().await?;
        Ok(Box::pin(stream::iter(first.map(Ok)).chain(rest)))
    }
}

#[async_trait]
impl LlmClient for OpenAiClient {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        if let Some(roomy) = self.with_room(request) {
            // Boxed, because otherwise every pending request would reserve space for this rarely used future.
            match Box::pin(async move { self.request_whole(&roomy, ctx).await }).await {
                Err(error) if is_too_large(&error) => {}
                outcome => return outcome,
            }
        }
        self.request_whole(request, ctx).await
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        if let Some(roomy) = self.with_room(request) {
            // Boxed for the same reason.
            match Box::pin(async move { self.start_stream(&roomy, ctx).await }).await {
                Err(error) if is_too_large(&error) => {}
                outcome => return outcome,
            }
        }
        self.request_stream(request, ctx).await
    }

    fn info(&self) -> ModelInfo {
        let mut info = self.info.clone();
        if let Protocol::Chat(client) = &self.protocol
            && client.media() != MediaTypes::Unknown
        {
            info.media = client.media();
        }
        info
    }
}

/// Returns whether a request was refused as too large. It may fit without room to think.
const fn is_too_large(error: &LlmError) -> bool {
    matches!(error.kind, LlmErrorKind::ContextOverflow { .. })
}

/// Adjusts the error about a request that exceeds the account's tokens per minute: subtracts the maximum reply, which
/// that limit counts, from what the request needed, and adds what can be done other than shortening the conversation.
pub(crate) fn without_reply(mut error: LlmError, most: Option<u32>) -> LlmError {
    if let LlmErrorKind::ContextOverflow { needed, .. } = &mut error.kind
        && error
            .message
            .to_ascii_lowercase()
            .contains(MORE_THAN_A_MINUTE_ALLOWS)
    {
        let most = most.map_or(0, u64::from);
        *needed = needed.map(|in_all| in_all.saturating_sub(most));
        error.message.push_str(
            "; if it does not fit with a shorter reply either, raise this limit with the provider or offer fewer tools",
        );
    }
    error
}

/// Returns the route where the server lists its models.
pub(crate) fn models_route(endpoint: &Endpoint) -> Route {
    endpoint.route("models")
}

/// Returns the configuration of the server's endpoint.
pub(crate) fn endpoint_of(config: OpenAiConfig) -> EndpointConfig {
    let mut endpoint = EndpointConfig::new(config.base_url);
    endpoint.api_key = config.api_key;
    endpoint.key_header = config
        .key_header
        .map_or(KeyHeader::Bearer, KeyHeader::Named);
    let accounts = [
        ("openai-organization", config.organization),
        ("openai-project", config.project),
    ];
    let accounts = accounts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let plain = accounts.chain(config.headers);
    let plain = plain.map(|(name, value)| (name, Secret::new(&value)));
    endpoint.headers = plain.chain(config.secret_headers).collect();
    endpoint.query = config.query.into_iter().collect();
    endpoint.max_concurrent = config.max_concurrent;
    endpoint.ca_file = config.ca_file;
    endpoint.proxy = config.proxy;
    endpoint.timeouts = config.timeouts;
    endpoint.errors = &RULES;
    endpoint
}
