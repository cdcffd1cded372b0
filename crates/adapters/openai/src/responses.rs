//! Responses, OpenAI's newer protocol: a reply is a list of items, which are sent back unchanged.
//!
//! The differences between models and servers are data, a [`ResponsesDialect`]. The server stores nothing between
//! requests unless the dialect says so: reasoning arrives encrypted and is sent back with the next request.

mod client;
mod dialect;
mod encode;
mod event;
mod output;
mod state;

pub(crate) use self::client::ResponsesClient;
pub use self::dialect::ReasoningSummary;
pub(crate) use self::dialect::{EncryptedReasoning, ReplyStorage, ResponsesDialect};
