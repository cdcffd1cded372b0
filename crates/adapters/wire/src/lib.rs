//! What the adapters of HTTP model servers share.
//!
//! **For** writing such an adapter. From the outside in:
//!
//! - [`Endpoint`] is a server: its address, its key, a pool of connections, and a time limit for each part of an
//!   exchange ([`Timeouts`]). Redirects are not followed, nothing is unpacked, every body has a largest size.
//! - [`SseDecoder`] reads server-sent events as their bytes come in, without copying them.
//! - [`ErrorRule`] says what a server's error means, as data; bodies of any shape become an
//!   [`LlmError`](neuraxis_core::LlmError) of the right kind, harmless to show and without the key.
//! - [`ChatClient`] speaks Chat Completions in a server's [`Dialect`], [`ResponsesClient`] speaks Responses in its
//!   [`ResponsesDialect`]: whole or streamed, and neither encodes a message twice.
//! - [`models()`] lists what a server offers; [`strict_schema`] makes a JSON Schema one that a model has to keep to.
//!
//! **Not for** repeating what failed, nor for anything that only one server has: that is its adapter's.
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

mod body;
mod chat;
mod encode;
mod endpoint;
mod failure;
mod models;
mod responses;
mod secret;
mod settings;
mod sse;
mod stream;
mod timeouts;

pub use chat::{
    Arguments, ChatClient, Dialect, ExtraFields, LateSystem, MissingReasoning, ParallelCalls,
    ReasoningEcho, ReplyForm, StreamUsage, ToolChoices, ToolsAndReasoning, TrailingAssistant,
};
pub use encode::strict_schema;
pub use endpoint::{Endpoint, EndpointConfig, EndpointError, KeyHeader, MaxConcurrent, Route};
pub use failure::{ErrorRule, Mark, Meaning};
pub use models::models;
pub use responses::{
    EncryptedReasoning, ReasoningSummary, ResponsesClient, ResponsesDialect, Store,
};
pub use secret::Secret;
pub use settings::{ReasoningEffort, ServiceTier, StrictTools, SystemRole, Temperature};
pub use sse::{MAX_EVENT_BYTES, SseDecoder, SseError, SseEvent};
pub use timeouts::Timeouts;
