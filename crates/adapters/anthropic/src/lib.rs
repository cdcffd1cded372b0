//! Anthropic's language models: an adapter of the `LlmClient` port that speaks the Messages API.
//!
//! **For** the models of Anthropic's own service, and for gateways that serve them under the same protocol.
//! [`AnthropicClient`] asks one model, whole or streamed; [`AnthropicConfig`] says which, how it thinks, and what of a
//! prompt is cached. What models differ in is known by their names, and configuration overrides it.
//!
//! What is special about these models stays in here: thinking that has to go back as it came, with its signature; the
//! results of a turn in one message of the user; instructions that may stand only at the beginning; and marks in the
//! prompt up to which the service keeps it.
//!
//! **Not for** repeating what failed, which the engine does, nor for the service's own tools, batches and files.
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
