//! Answers without any language model: an adapter of the `LlmClient` port.
//!
//! **For** trying the product out, and for users without a model: fixed rules look for keywords in the last user
//! message, call the offered tools that match, and report their results in plain language. A message that is nothing but
//! a calculation is calculated, and a greeting is answered with what can be asked. A tool can also be called by its name,
//! with its arguments as JSON. Nothing is sent anywhere, no key is needed, and every answer says that fixed rules
//! produced it.
//!
//! **Not for** understanding language: a message that no rule matches gets a list of what can be asked, and how to
//! configure a model.
//!
//! ```
//! use neuraxis_core::{Message, ModelRequest, ReplyFormat, ToolChoice};
//! use neuraxis_offline::OfflineModel;
//! # use neuraxis_ports::{CallContext, LlmClient, TraceContext};
//! # use neuraxis_core::{EffectId, RunId, uuid::Uuid};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), neuraxis_core::LlmError> {
//! # let trace = TraceContext { trace_id: 1, span_id: 1, sampled: false, state: None };
//! # let ctx = CallContext::new(EffectId { run: RunId(Uuid::nil()), number: 1 }, trace);
//!
//! let request = ModelRequest {
//!     messages: [Message::user("Write me a poem.")].into_iter().collect(),
//!     tools: [].into(),
//!     tool_choice: ToolChoice::Auto,
//!     max_output_tokens: None,
//!     temperature: None,
//!     reply_format: ReplyFormat::Text,
//! };
//! let reply = OfflineModel::new().respond(&request, &ctx).await?;
//! assert!(reply.text().contains("No language model is configured"));
//! # Ok(())
//! # }
//! ```

mod answer;
mod clean;
mod help;
mod introduction;
mod model;
mod named;
mod question;
mod report;
mod rules;

pub use model::{OfflineConfig, OfflineModel};
