//! DeepSeek's language models: an adapter of the `LlmClient` port.
//!
//! **For** the models of DeepSeek's own service, and for hosts that serve them with the same protocol.
//! [`DeepSeekClient`] calls one model, with whole or streamed replies; [`DeepSeekConfig`] names the model and sets
//! whether it thinks first and which of its earlier reasoning is sent back. [`DeepSeekClient::models`] lists the models
//! that a key can use.
//!
//! This crate handles what is special about these models: request parameters that cannot be combined with thinking,
//! reasoning that must be sent back in conversations with tools, and tool calls that a model writes into its text. Such
//! calls are never shown as text; they are turned into real tool calls.
//!
//! **Not for** retrying failed calls, which the engine does, nor for DeepSeek's models on a llama-server or vLLM, which
//! use another protocol: use the adapter `neuraxis-llama` for those.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use neuraxis_deepseek::{DeepSeekClient, DeepSeekConfig, Secret};
//! use neuraxis_ports::LlmClient;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = DeepSeekConfig::default();
//! config.api_key = Some(Secret::new("…"));
//! let client = DeepSeekClient::new(config)?;
//! println!("{} of {:?}", client.info().model, client.models(Duration::from_secs(5)).await?);
//! # Ok(())
//! # }
//! ```

mod client;
mod config;
mod markup;
mod provider;
mod shape;
mod thinking;

pub use neuraxis_wire::{EndpointError, MaxConcurrent, NoKey, ReasoningEcho, Secret, Timeouts};

pub use self::client::DeepSeekClient;
pub use self::config::DeepSeekConfig;
pub use self::thinking::{ReasoningEffort, Thinking};
