//! Language models behind a llama-server or a similar server: an adapter of the `LlmClient` port.
//!
//! **For** models on your own machines. [`LlamaClient`] calls one model at one address, with whole or streamed replies;
//! [`Server`] selects which program answers there, since Ollama, LM Studio and vLLM speak dialects of the same
//! protocol. [`LlamaClient::probe`] reports what a server offers, [`LlamaClient::wait_until_ready`] waits while it
//! loads, and [`LlamaClient::count_tokens`] has it count a request's tokens without answering it.
//!
//! **Not for** retrying failed calls, which the engine does, nor for starting a server.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use neuraxis_llama::{LlamaClient, LlamaConfig};
//! use neuraxis_ports::LlmClient;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = LlamaConfig::new("http://127.0.0.1:8080");
//! let seen = LlamaClient::new(config.clone())?.probe(Duration::from_secs(1)).await?;
//! let client = LlamaClient::new(config.informed_by(&seen))?;
//! println!("{} with {:?} tokens of context", client.info().model, client.info().context_tokens);
//! # Ok(())
//! # }
//! ```

mod client;
mod config;
mod context;
mod count;
mod names;
mod probe;
mod provider;
mod questions;
mod server;
mod shape;

pub use neuraxis_wire::{
    EndpointError, LateSystem, MaxConcurrent, ReasoningEcho, Secret, Timeouts,
};

pub use self::client::LlamaClient;
pub use self::config::LlamaConfig;
pub use self::probe::{Probe, ServerState};
pub use self::server::Server;
pub use self::shape::ReasoningFormat;
