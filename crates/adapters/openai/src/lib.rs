//! OpenAI's language models, and other models behind servers that speak OpenAI's protocols: an adapter of the
//! `LlmClient` port.
//!
//! **For** `api.openai.com` and any other server that speaks its protocols: Azure, OpenRouter, Groq, vLLM and so on.
//! [`OpenAiClient`] calls one model, with whole or streamed replies. It uses the Responses API, which carries the
//! model's reasoning from turn to turn, or Chat Completions, which more servers support. Differences between models are
//! known by the models' names, and configuration overrides them. This is the only crate that speaks the Responses API,
//! so that protocol lives here.
//!
//! **Not for** retrying failed calls, which the engine does, nor for OpenAI's built-in tools.
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
