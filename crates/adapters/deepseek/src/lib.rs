//! DeepSeek's language models: an adapter of the `LlmClient` port.
//!
//! **For** the models of DeepSeek's own service, and for hosts that serve them under the same protocol.
//! [`DeepSeekClient`] asks one model, whole or streamed; [`DeepSeekConfig`] says which, whether it thinks first, and
//! which of its reasoning it is sent again. [`DeepSeekClient::models`] lists what a key may ask.
//!
//! What is special about these models stays in here: parameters that thinking does not go with, reasoning without
//! which a conversation with tools is refused, and calls that a model writes into its text, which are never shown but
//! made the calls they were meant to be.
//!
//! **Not for** repeating what failed, which the engine does, nor for DeepSeek's models on a llama-server or a vLLM,
//! whose protocol differs: that is the adapter `neuraxis-llama`.
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
