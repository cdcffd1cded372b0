//! The client of one model on one server.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind, ModelRequest, Reply, TokenCount};
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, ReplyStream, async_trait};
use neuraxis_wire::{ChatClient, Endpoint, EndpointConfig, EndpointError, ReasoningEcho};
use tokio::time::Instant;

use crate::config::LlamaConfig;
use crate::context::Context;
use crate::count;
use crate::names::OfferedNames;
use crate::probe::{self, Probe};
use crate::server::{RULES, Server};
use crate::shape::RequestShape;

/// The model name that is sent when none is known. A llama-server that serves one model accepts any name.
pub(crate) const UNNAMED: &str = "default";

/// How long an idle connection is kept: llama-server closes it after five seconds.
const KEEP_IDLE: Duration = Duration::from_secs(4);

/// The pauses between checks whether a server is ready.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a server may take to answer a readiness check.
const HEALTH_WITHIN: Duration = Duration::from_secs(5);

/// A client of one model on a llama-server or a similar server.
///
/// Makes one attempt per call. Cancelling or dropping a call closes its connection, which makes the server stop.
#[derive(Debug)]
pub struct LlamaClient {
    chat: ChatClient,
    endpoint: Arc<Endpoint>,
    server: Server,
    shape: RequestShape,
    info: ModelInfo,
    context: Context,
}

impl LlamaClient {
    /// Creates a client. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] if the address cannot be used or TLS cannot be set up.
    pub fn new(config: LlamaConfig) -> Result<Self, EndpointError> {
        let shape = RequestShape::new(&config);
        let mut endpoint = EndpointConfig::new(config.root());
        endpoint.api_key = config.api_key;
        endpoint.max_concurrent = config.max_concurrent;
        endpoint.ca_file = config.ca_file;
        endpoint.proxy = config.proxy;
        endpoint.timeouts = config.timeouts;
        endpoint.keep_idle = KEEP_IDLE;
        endpoint.errors = &RULES;
        if config.server == Server::LlamaServer {
            endpoint.hangs_up_after_streams = Some("llama.cpp");
        }
        let endpoint = Arc::new(Endpoint::new(endpoint)?);
        let dialect = config
            .server
            .dialect(config.echo_reasoning, config.late_system);
        let model = config.model.unwrap_or_else(|| UNNAMED.to_owned());
        let route = endpoint.route("v1/chat/completions");
        let chat = ChatClient::new(Arc::clone(&endpoint), route, model, dialect);
        let mut info = ModelInfo::new(chat.model().clone());
        info.context_tokens = config.context_tokens;
        info.resends_reasoning = config.echo_reasoning == ReasoningEcho::Always;
        info.loads_within = Some(config.timeouts.loading);
        Ok(Self {
            chat,
            endpoint,
            server: config.server,
            shape,
            info,
            context: Context::default(),
        })
    }

    /// Asks the server what it is and what it offers, within the given time.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if there is no server, the server rejects the key, or it is not a model server. A server that is
    /// still loading is not an error.
    pub async fn probe(&self, within: Duration) -> Result<Probe, LlmError> {
        probe::probe(&self.endpoint, self.server, within).await
    }

    /// Has the server count the prompt tokens of a request, within the given time.
    ///
    /// A llama-server and a vLLM count exactly what they would read. The count is labeled estimated if a llama-server
    /// cannot render the conversation with its model's template, or if the conversation has images. It is labeled
    /// unknown on Ollama and LM Studio, which do not count.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if the request cannot be expressed or the server cannot be asked.
    pub async fn count_tokens(
        &self,
        request: &ModelRequest,
        within: Duration,
    ) -> Result<TokenCount, LlmError> {
        let (request, extra) = self.shape.of(request);
        let body = extra.join(self.chat.body(&request)?);
        count::count(&self.endpoint, self.server, &request, body, within).await
    }

    /// Waits until the server can answer: a server that was just started does not accept connections at first, and then
    /// loads its model.
    ///
    /// # Errors
    ///
    /// The last [`LlmError`] when `patience` has elapsed. Errors that waiting cannot resolve are returned immediately.
    pub async fn wait_until_ready(&self, patience: Duration) -> Result<(), LlmError> {
        let path = match self.server {
            Server::LlamaServer => "health",
            Server::Ollama | Server::LmStudio | Server::Vllm => "v1/models",
        };
        let route = self.endpoint.route(path);
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let left = patience.saturating_sub(started.elapsed());
            let answer = self.endpoint.get(&route, left.min(HEALTH_WITHIN)).await;
            let Err(error) = answer else { return Ok(()) };
            let may_pass = matches!(
                error.kind,
                LlmErrorKind::Loading
                    | LlmErrorKind::Connection
                    | LlmErrorKind::Timeout
                    | LlmErrorKind::Incomplete
            );
            if !may_pass || started.elapsed() + pause >= patience {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns the tools of a request if the server changes the spelling of their names, and otherwise none.
    fn respelled(&self, request: &ModelRequest) -> OfferedNames {
        match self.server {
            Server::LmStudio => OfferedNames::new(Arc::clone(&request.tools)),
            Server::LlamaServer | Server::Ollama | Server::Vllm => OfferedNames::default(),
        }
    }
}

#[async_trait]
impl LlmClient for LlamaClient {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let (request, extra) = self.shape.of(request);
        let filter = self.respelled(&request);
        let reply = self.chat.respond_with(&request, ctx, &extra, filter).await;
        reply.inspect_err(|error| self.context.note(error))
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let (request, extra) = self.shape.of(request);
        let filter = self.respelled(&request);
        let reply = self.chat.stream_with(&request, ctx, &extra, filter).await;
        reply.inspect_err(|error| self.context.note(error))
    }

    fn info(&self) -> ModelInfo {
        let mut info = self.info.clone();
        info.context_tokens = info.context_tokens.or_else(|| self.context.known());
        info.media = self.chat.media();
        info
    }

    async fn learn_context(&self) {
        if self.info.context_tokens.is_none() {
            self.context
                .learn(&self.endpoint, self.server, &self.chat)
                .await;
        }
    }

    async fn learn_media(&self) {
        self.context
            .learn_media(&self.endpoint, self.server, &self.chat)
            .await;
    }
}
