//! The code that adapters of HTTP model servers share.
//!
//! **For** writing such an adapter. From the outside in:
//!
//! - [`Endpoint`] is a server: its address, its key, a pool of connections, and a time limit for each part of an
//!   exchange ([`Timeouts`]). It does not follow redirects or decompress bodies, and limits the size of every body.
//! - [`ErrorRule`] states, as data, what a server's error means. Error bodies of any shape become an
//!   [`LlmError`](neuraxis_core::LlmError) of the right kind that is safe to display and does not contain the key
//!   ([`ServerErrors`]).
//! - [`SseDecoder`] reads server-sent events as their bytes arrive, without copying them.
//! - [`ChatClient`] speaks Chat Completions in a server's [`Dialect`], with whole or streamed replies, and encodes no
//!   message twice.
//! - [`models()`] lists the models that a server offers. [`strict_schema`] turns a JSON Schema into one that a model is
//!   forced to follow.
//! - [`request`] and [`reply`] hold what another protocol needs; the protocol itself is in its adapter's crate.
//!
//! **Not for** retrying failures, nor for anything specific to one server: that belongs in its adapter.
//!
//! # A server that speaks Chat Completions
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig, EndpointError, Secret};
//!
//! # fn example() -> Result<(), EndpointError> {
//! let mut config = EndpointConfig::new("https://models.example");
//! config.api_key = Some(Secret::new("…"));
//! let endpoint = Arc::new(Endpoint::new(config)?);
//! let route = endpoint.route("v1/chat/completions");
//! let client = ChatClient::new(endpoint, route, "some-model", Dialect::standard("example"));
//! # let _ = client;
//! # Ok(())
//! # }
//! ```
//!
//! # A protocol of one's own
//!
//! A protocol writes a request and reads the events of its reply. This crate handles connections, time limits, errors,
//! cancellation and the cache of encoded messages. The protocol below sends the conversation as a list of lines, and
//! receives one word per event. It tells the model the required form of the reply in a line, accepts no images and
//! offers no tools. A protocol that offers `tools` must respect `tool_choice`
//! ([`check_named_tool`](request::check_named_tool)), and a real one sends `max_output_tokens` and `temperature`:
//!
//! ```no_run
//! use std::collections::VecDeque;
//! use std::sync::Arc;
//!
//! use neuraxis_core::{
//!     BlockIndex, LlmError, Message, ModelRef, ModelRequest, ReplyDelta, ReplyEnd, ReplyFinish,
//! };
//! use neuraxis_ports::{CallContext, ReplyStream};
//! use neuraxis_wire::reply::{EventOutcome, ReplyDecoder, Shares, TokenCounts, invalid, parse};
//! use neuraxis_wire::request::{
//!     JsonWriter, MessageEncoder, PrefixCache, check_media, push_schema_message, schema_of, text_of, unsupported,
//! };
//! use neuraxis_wire::{Endpoint, ErrorRule, Meaning, Route, ServerErrors, SseEvent};
//!
//! /// The meanings of this server's errors, in addition to the common rules: for `EndpointConfig::errors`.
//! const RULES: [ErrorRule; 1] = [ErrorRule::kind("overloaded", Meaning::Server)];
//!
//! /// Writes a message as a line. A message depends on others only for the comma before it.
//! #[derive(Debug, Clone)]
//! struct Lines;
//!
//! impl MessageEncoder for Lines {
//!     fn same_until(&self, _: &Self) -> usize {
//!         usize::MAX
//!     }
//!
//!     fn write(
//!         &self,
//!         message: &Message,
//!         before: &[Arc<Message>],
//!         json: &mut JsonWriter<'_>,
//!     ) -> Result<(), LlmError> {
//!         if !before.is_empty() {
//!             json.raw(",");
//!         }
//!         match message {
//!             Message::System { text } => json.string(text),
//!             Message::User { parts } => json.joined(parts.iter().filter_map(text_of)),
//!             Message::Assistant(reply) => json.joined(reply.parts.iter().filter_map(text_of)),
//!             _ => return Err(unsupported("the result of a tool")),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! /// The reply being received.
//! struct Words {
//!     model: ModelRef,
//!     shares: Shares,
//! }
//!
//! impl ReplyDecoder for Words {
//!     fn event(
//!         &mut self,
//!         event: SseEvent<'_>,
//!         out: &mut VecDeque<ReplyDelta>,
//!         errors: &ServerErrors,
//!     ) -> Result<EventOutcome, LlmError> {
//!         match event.name {
//!             "word" => {
//!                 let text: String = parse(event.data)?;
//!                 self.shares.text += text.len();
//!                 out.push_back(ReplyDelta::Text { block: BlockIndex(0), text });
//!                 Ok(EventOutcome::Output)
//!             }
//!             "end" => {
//!                 let counts = TokenCounts { completion: parse(event.data)?, ..TokenCounts::default() };
//!                 out.push_back(ReplyDelta::End(Box::new(ReplyEnd {
//!                     finish: ReplyFinish::Stop,
//!                     usage: counts.usage(self.shares),
//!                     model: self.model.clone(),
//!                 })));
//!                 Ok(EventOutcome::End)
//!             }
//!             "error" => Err(errors.of_json(&parse(event.data)?)),
//!             "ping" => Ok(EventOutcome::Nothing),
//!             _ => Err(invalid("the server sent an event that this protocol does not have")),
//!         }
//!     }
//!
//!     fn with_usage(&self, error: LlmError) -> LlmError {
//!         error
//!     }
//! }
//!
//! /// A client of this protocol.
//! struct LinesClient {
//!     endpoint: Endpoint,
//!     route: Route,
//!     model: ModelRef,
//!     prefixes: PrefixCache<Lines>,
//! }
//!
//! impl LinesClient {
//!     async fn stream(&self, request: &ModelRequest, ctx: &CallContext) -> Result<ReplyStream, LlmError> {
//!         check_media(request.messages.messages(), |_| false)?;
//!         let mut messages = request.messages.clone();
//!         if let Some((name, schema)) = schema_of(&request.reply_format) {
//!             push_schema_message(&mut messages, name, schema);
//!         }
//!         let prefix = self.prefixes.encoded(messages.messages(), &Lines)?;
//!         let mut body = Vec::new();
//!         let mut json = JsonWriter::new(&mut body);
//!         json.raw(r#"{"model":"#);
//!         json.string(&self.model.model);
//!         json.raw(r#","lines":["#);
//!         json.bytes(prefix.bytes());
//!         json.raw("]}");
//!         self.prefixes.store(prefix);
//!         let words = Words { model: self.model.clone(), shares: Shares::default() };
//!         self.endpoint.stream(&self.route, body.into(), ctx, || words).await
//!     }
//! }
//! ```

mod body;
mod chat;
mod endpoint;
mod environment;
mod errors;
mod models;
pub mod reply;
pub mod request;
mod settings;
mod sse;
mod stream;
mod surrogates;
mod timeouts;

pub use chat::{
    Arguments, ChatClient, Dialect, ExtraFields, LateSystem, MissingReasoning, ReasoningEcho,
    ReplyForm, StreamUsage, ToolChoices, ToolsAndReasoning, TrailingAssistant,
};
pub use endpoint::{Endpoint, EndpointConfig, EndpointError, KeyHeader, MaxConcurrent, Route};
pub use environment::{NoKey, key_from_env};
pub use errors::{ErrorRule, Meaning, ServerErrors};
pub use models::{ModelList, is_asked_model, is_plain_line, models};
pub use neuraxis_ports::Secret;
pub use request::strict_schema;
pub use settings::{
    ParallelCalls, PropertyNames, ReasoningEffort, ServiceTier, StrictTools, SystemRole,
    Temperature,
};
pub use sse::{MAX_EVENT_BYTES, SseDecoder, SseError, SseEvent};
pub use timeouts::Timeouts;
