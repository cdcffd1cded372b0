//! The client of one model.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{LlmError, ModelRequest, Reply};
use neuraxis_ports::{CallContext, ConnectError, LlmClient, ModelInfo, ReplyStream, async_trait};
use neuraxis_wire::{
    Arguments, ChatClient, Dialect, Endpoint, EndpointConfig, EndpointError, ErrorRule, LateSystem,
    Meaning, MissingReasoning, ReasoningEcho, TrailingAssistant,
};

use crate::config::DeepSeekConfig;
use crate::markup::MarkupFilter;
use crate::shape::RequestShape;

/// The provider's name in records and messages.
pub(crate) const PROVIDER: &str = "deepseek";

/// Maps the service's errors to their meanings, in addition to the rules that apply to every provider; the first
/// matching rule applies. Type and code don't help: both are always `invalid_request_error`.
const RULES: [ErrorRule; 3] = [
    ErrorRule::message("model not exist", Meaning::ModelNotFound),
    ErrorRule::message("content exists risk", Meaning::ContentFiltered),
    ErrorRule::message("insufficient balance", Meaning::QuotaExhausted),
];

/// A client of one DeepSeek model.
///
/// Makes one attempt per call. Cancelling or dropping a call closes its connection.
#[derive(Debug)]
pub struct DeepSeekClient {
    chat: ChatClient,
    endpoint: Arc<Endpoint>,
    shape: RequestShape,
    info: ModelInfo,
}

impl DeepSeekClient {
    /// Creates a client of a model, with the key from the environment variable `DEEPSEEK_API_KEY` and, if it is set,
    /// the address from `DEEPSEEK_BASE_URL`.
    ///
    /// ```no_run
    /// use neuraxis_deepseek::DeepSeekClient;
    ///
    /// let model = DeepSeekClient::from_env("deepseek-flash")?;
    /// # Ok::<(), neuraxis_ports::ConnectError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A [`ConnectError`] that names the variable if it holds no key; otherwise the same errors as [`new`](Self::new).
    pub fn from_env(model: impl Into<String>) -> Result<Self, ConnectError> {
        Ok(Self::new(DeepSeekConfig::from_env(model)?)?)
    }

    /// Creates a client. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] if the address cannot be used or TLS cannot be set up.
    pub fn new(config: DeepSeekConfig) -> Result<Self, EndpointError> {
        let shape = RequestShape::new(&config);
        let context_tokens = config.context_tokens();
        let resends_reasoning = config.echo() == ReasoningEcho::Always;
        let loads_within = config.timeouts.loading;
        let dialect = dialect(&config);
        let mut endpoint = EndpointConfig::new(config.base_url);
        endpoint.api_key = config.api_key;
        endpoint.max_concurrent = config.max_concurrent;
        endpoint.ca_file = config.ca_file;
        endpoint.proxy = config.proxy;
        endpoint.timeouts = config.timeouts;
        endpoint.errors = &RULES;
        let endpoint = Arc::new(Endpoint::new(endpoint)?);
        let route = endpoint.route("chat/completions");
        let chat = ChatClient::new(Arc::clone(&endpoint), route, config.model, dialect);
        let mut info = ModelInfo::new(chat.model().clone());
        info.context_tokens = context_tokens;
        info.media = chat.media();
        info.resends_reasoning = resends_reasoning;
        info.loads_within = Some(loads_within);
        Ok(Self {
            chat,
            endpoint,
            shape,
            info,
        })
    }

    /// Lists the models that the key can use, within the given time.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if the service cannot be reached, rejects the key, or is not a model service.
    pub async fn models(&self, within: Duration) -> Result<Vec<String>, LlmError> {
        neuraxis_wire::models(&self.endpoint, &self.endpoint.route("models"), within).await
    }
}

/// Returns the dialect of Chat Completions for the configured model.
fn dialect(config: &DeepSeekConfig) -> Dialect {
    let mut dialect = Dialect::standard(PROVIDER);
    dialect.max_tokens_field = "max_tokens";
    dialect.reasoning_echo = config.echo();
    // Once a conversation has tool calls, the service refuses any reply without this field, no matter which model
    // produced the reply.
    dialect.missing_reasoning = MissingReasoning::Empty;
    dialect.late_system = LateSystem::Auto;
    // The service treats a trailing assistant message as one to continue, and requires a marker that only its test
    // version supports.
    dialect.trailing_assistant = TrailingAssistant::Prompted;
    dialect.arguments = Arguments::Wrapped;
    dialect.media = config.media_types();
    dialect
}

#[async_trait]
impl LlmClient for DeepSeekClient {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let (request, extra) = self.shape.of(request);
        let filter = MarkupFilter::default();
        self.chat.respond_with(&request, ctx, &extra, filter).await
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let (request, extra) = self.shape.of(request);
        let filter = MarkupFilter::default();
        self.chat.stream_with(&request, ctx, &extra, filter).await
    }

    fn info(&self) -> ModelInfo {
        self.info.clone()
    }
}
