//! Responses, OpenAI's newer protocol: a reply is a list of items, which go back as they came.
//!
//! What models and servers differ in is data, a [`ResponsesDialect`]. Nothing is kept on the server between requests unless the
//! dialect says so: reasoning comes encrypted and is sent back with the next request.

mod client;
mod dialect;
mod encode;
mod event;
mod output;
mod state;

pub(crate) use self::client::ResponsesClient;
pub use self::dialect::ReasoningSummary;
pub(crate) use self::dialect::{EncryptedReasoning, ResponsesDialect, Store};
