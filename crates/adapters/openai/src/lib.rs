//! OpenAI's language models, and others behind servers that speak its protocols: an adapter of the `LlmClient` port.
//!
//! **For** `api.openai.com` and what speaks like it at any other address: Azure, OpenRouter, Groq, vLLM and so on.
//! [`OpenAiClient`] asks one model, whole or streamed, over the Responses API, which carries the model's reasoning on
//! between turns, or over Chat Completions, which more servers know. What models differ in is known by their names, and
//! configuration overrides it. The Responses API is spoken here alone, so its protocol lives in this crate.
//!
//! **Not for** repeating what failed, which the engine does, nor for OpenAI's built-in tools.
//!
//! ```
//! use neuraxis_openai::{OpenAiClient, OpenAiConfig, Secret};
//! use neuraxis_ports::LlmClient;
//!
//! let mut config = OpenAiConfig::new("gpt-5.4-mini");
//! config.api_key = Some(Secret::new("…"));
//! let client = OpenAiClient::new(config)?;
//! assert_eq!(client.info().model.to_string(), "openai/gpt-5.4-mini");
//! # Ok::<(), neuraxis_openai::OpenAiError>(())
//! ```

mod client;
mod config;
mod dialect;
mod model;
mod provider;
mod responses;

pub use neuraxis_wire::{
    EndpointError, LateSystem, MaxConcurrent, NoKey, ReasoningEcho, ReasoningEffort, ReplyForm,
    Secret, ServiceTier, SystemRole, Temperature, Timeouts,
};

pub use self::client::OpenAiClient;
pub use self::config::{Api, OpenAiConfig, OpenAiError};
pub use self::dialect::MaxTokensField;
pub use self::responses::ReasoningSummary;
