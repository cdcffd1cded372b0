//! A client of Chat Completions: one attempt per call, whole or streamed.

use std::sync::Arc;

use bytes::Bytes;
use neuraxis_core::{LlmError, LlmErrorKind, MediaTypes, ModelRef, ModelRequest, Reply};
use neuraxis_ports::{CallContext, ReplyStream};

use crate::chat::blocks::Blocks;
use crate::chat::dialect::Dialect;
use crate::chat::encode::{Encoder, Refused};
use crate::chat::extra::ExtraFields;
use crate::chat::state::StateOrigin;
use crate::endpoint::{Endpoint, Route};
use crate::reply::{Filtered, ReplyFilter};
use crate::request::Delivery;
use crate::stream::EventStream;

/// Phrases with which a server's template refuses a system message at its position.
const NO_SYSTEM: [&str; 3] = ["system message", "system role", "roles are supported"];

/// Phrases with which it refuses two consecutive user messages, or a user message after the results of calls.
const NO_TURN: [&str; 2] = ["roles must alternate", "unexpected role"];

/// Phrases with which a server refuses the id of a call, as Mistral's does and the templates of its models.
const NO_ID: [&str; 2] = [
    "must be a-z, a-z, 0-9, with a length of 9",
    "alphanumeric strings with length 9",
];

/// The field that Gemini reports missing on a call that it did not sign itself.
const NO_SIGNATURE: &str = "thought_signature";

/// The field that a server without usage counts for streams names when it refuses a request.
const NO_USAGE: &str = "stream_options";

/// Phrases with which a server refuses tools of any kind: those of Ollama, vLLM, OpenRouter, Mistral, OpenAI, Groq,
/// DeepInfra, DeepSeek and llama-server without templates.
const NO_TOOLS: [&str; 9] = [
    "does not support tools",
    "--enable-auto-tool-choice",
    "endpoints found that support tool use",
    "function calling is not enabled for this model",
    "tools is not supported in this model",
    "tool calling` is not supported",
    "tool calling is not supported",
    "does not support function calling",
    "tools param requires --jinja",
];

/// Phrases with which a server refuses images of any kind: those of Groq, vLLM, OpenRouter, Ollama, llama-server,
/// OpenAI and DeepSeek. Phrases about sounds alone are not included: a model without audio input may accept images.
const NO_MEDIA: [&str; 9] = [
    "content' : value must be a string",
    "content must be a string",
    "at most 0 image",
    "is not a multimodal model",
    "support image input",
    "data required for image input",
    "image input is not supported",
    "image_url is only supported by certain models",
    "unknown variant `image_url`",
];

/// A client of Chat Completions, in the dialect of one server.
///
/// Makes one attempt per call. If the server refuses a request that can be expressed in another form, the client
/// immediately sends it in that form, once per form. The model was not called, so the refusal does not count as an
/// attempt and says nothing about the model's health. Cancelling or dropping a call closes its connection.
#[derive(Debug)]
pub struct ChatClient {
    endpoint: Arc<Endpoint>,
    route: Route,
    model: ModelRef,
    origin: StateOrigin,
    encoder: Encoder,
}

impl ChatClient {
    /// Creates a client that calls `model` at a route of an endpoint.
    #[must_use]
    pub fn new(
        endpoint: Arc<Endpoint>,
        route: Route,
        model: impl Into<Arc<str>>,
        dialect: Dialect,
    ) -> Self {
        let model = ModelRef::new(dialect.provider, model);
        let origin = StateOrigin {
            server: Arc::from(endpoint.errors().server()),
            model: Arc::clone(&model.model),
        };
        Self {
            endpoint,
            route,
            encoder: Encoder::new(&model.model, dialect).at(origin.clone()),
            model,
            origin,
        }
    }

    /// Returns the model that the client calls.
    #[must_use]
    pub const fn model(&self) -> &ModelRef {
        &self.model
    }

    /// Records which media the model accepts, as reported by its server.
    pub fn learn_media(&self, media: MediaTypes) {
        self.encoder.learn_media(media);
    }

    /// Returns which media the model accepts, as far as that is known.
    #[must_use]
    pub fn media(&self) -> MediaTypes {
        self.encoder.media()
    }

    /// Sends a request and returns the whole reply.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that describes what went wrong.
    pub async fn respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<Reply, LlmError> {
        self.respond_with(request, ctx, &ExtraFields::default(), ())
            .await
    }

    /// Like [`respond`](Self::respond), with a filter for the reply and extra fields in the request's body.
    ///
    /// # Errors
    ///
    /// Same as [`respond`](Self::respond).
    pub async fn respond_with(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
        extra: &ExtraFields,
        filter: impl ReplyFilter,
    ) -> Result<Reply, LlmError> {
        loop {
            let sent = self.encoder.refused();
            let body = extra.join(self.encoder.body(request, Delivery::Whole)?);
            match self.endpoint.ask(&self.route, body, ctx).await {
                Ok(answer) => {
                    return self
                        .blocks()
                        .decode_whole(&answer, self.endpoint.errors(), filter);
                }
                Err(error) => self.adapt_to_refusal(error, request, Delivery::Whole, sent)?,
            }
        }
    }

    /// Sends a request and returns the reply as a stream of pieces.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for everything that goes wrong before the first piece; a later error is an item of the stream.
    pub async fn stream(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        self.stream_with(request, ctx, &ExtraFields::default(), ())
            .await
    }

    /// Like [`stream`](Self::stream), with a filter for the reply and extra fields in the request's body.
    ///
    /// # Errors
    ///
    /// Same as [`stream`](Self::stream).
    pub async fn stream_with(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
        extra: &ExtraFields,
        filter: impl ReplyFilter,
    ) -> Result<ReplyStream, LlmError> {
        loop {
            let sent = self.encoder.refused();
            let body = extra.join(self.encoder.body(request, Delivery::Streamed)?);
            match self.endpoint.events(&self.route, body, ctx).await {
                Ok(events) => {
                    let decoder = Filtered::new(self.blocks(), filter);
                    return Ok(Box::pin(EventStream::new(events, decoder)));
                }
                Err(error) => self.adapt_to_refusal(error, request, Delivery::Streamed, sent)?,
            }
        }
    }

    /// Returns the body of a request for a whole reply, for other routes that accept the same body.
    ///
    /// # Errors
    ///
    /// [`LlmErrorKind::BadRequest`] for content that this protocol cannot express.
    pub fn body(&self, request: &ModelRequest) -> Result<Bytes, LlmError> {
        self.encoder.body(request, Delivery::Whole)
    }

    fn blocks(&self) -> Blocks {
        Blocks::new(self.model.clone(), self.origin.clone())
    }

    /// Adapts to a server that refuses something that can be expressed differently: the order of roles in a request,
    /// the ids of calls, calls without its signature, the option for a stream's usage, images in earlier messages,
    /// optional tools. Returns any other error unchanged, and also a second refusal of the same thing.
    fn adapt_to_refusal(
        &self,
        error: LlmError,
        request: &ModelRequest,
        delivery: Delivery,
        sent: Refused,
    ) -> Result<(), LlmError> {
        let said = error.message.to_ascii_lowercase();
        let encoder = &self.encoder;
        // The refused request included the schema message.
        let with_schema = encoder.with_schema_message(request);
        let request = with_schema.as_ref().unwrap_or(request);
        let is_refusal = matches!(
            error.kind,
            LlmErrorKind::BadRequest | LlmErrorKind::Server { .. }
        );
        let change = if !is_refusal {
            return Err(error);
        } else if NO_TURN.iter().any(|words| said.contains(words))
            && encoder.alternate_roles(request, sent)
        {
            "this order of roles; from now on, user and assistant alternate"
        } else if NO_SYSTEM.iter().any(|words| said.contains(words))
            && encoder.avoid_late_system(request, sent)
        {
            "system messages after the first; from now on, they are sent as user messages"
        } else if NO_ID.iter().any(|words| said.contains(words))
            && encoder.use_strict_ids(request, sent)
        {
            "the id of a call; from now on, ids have nine letters and digits"
        } else if said.contains(NO_SIGNATURE) && encoder.sign_calls(request, sent) {
            "calls that it did not sign; from now on, they have a placeholder for the signature"
        } else if said.contains(NO_USAGE) && encoder.stop_requesting_usage(delivery, sent) {
            "to report the usage of a stream; from now on, it is not asked to"
        } else if NO_MEDIA.iter().any(|words| said.contains(words))
            && encoder.omit_media(request, sent)
        {
            "images, sounds and files; from now on, they are omitted from earlier messages"
        } else if NO_TOOLS.iter().any(|words| said.contains(words))
            // A server that refuses several calls at once accepts one.
            && !said.contains("parallel")
            && encoder.stop_offering_tools(request, sent)
        {
            // This changes more than the form: the caller gets a less capable answer.
            tracing::warn!(
                model = %self.model,
                %error,
                "the model does not accept tools: from now on, it answers without them; to offer none from the start, \
                 set tools = [] in a channel, such as [channels.chat]"
            );
            return Ok(());
        } else {
            return Err(error);
        };
        // Without the server's message, which may quote the conversation: it is unknown here whether that may be
        // logged.
        tracing::info!(model = %self.model, error = %error.kind, "the server refuses {change}");
        Ok(())
    }
}
