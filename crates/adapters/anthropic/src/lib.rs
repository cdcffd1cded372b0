//! Anthropic's language models: an adapter of the `LlmClient` port that speaks the Messages API.
//!
//! **For** the models of Anthropic's own service, and for gateways that serve them under the same protocol.
//! [`AnthropicClient`] calls one model, whole or streamed. [`AnthropicConfig`] states which model, how it thinks, and
//! which parts of a prompt are cached. Differences between models are derived from their names; configuration overrides
//! them.
//!
//! The crate handles what is special about these models: thinking that must be sent back unchanged, with its signature;
//! the results of a turn in one user message; instructions only at the beginning; and marks in the prompt up to which
//! the service caches it.
//!
//! **Not for** retrying failures, which the engine does, nor for the service's own tools, batches and files.
//!
//! ```
//! use neuraxis_anthropic::{AnthropicClient, AnthropicConfig, Secret};
//! use neuraxis_ports::LlmClient;
//!
//! let mut config = AnthropicConfig::new("claude-opus-5-5");
//! config.api_key = Some(Secret::new("…"));
//! let client = AnthropicClient::new(config)?;
//! assert_eq!(client.info().model.to_string(), "anthropic/claude-opus-5-5");
//! assert_eq!(client.info().context_tokens, Some(1_000_000));
//! # Ok::<(), neuraxis_anthropic::AnthropicError>(())
//! ```

mod client;
mod config;
mod context;
mod decode;
mod encode;
mod model;
mod provider;
mod thinking;

pub use neuraxis_wire::{EndpointError, MaxConcurrent, NoKey, Secret, Temperature, Timeouts};

pub use self::client::AnthropicClient;
pub use self::config::{
    AnthropicConfig, AnthropicError, Auth, Cache, Effort, ShownThinking, Thinking,
};

/// The provider's name in records, messages and configuration.
const PROVIDER: &str = "anthropic";
