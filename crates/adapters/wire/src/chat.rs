//! Chat Completions, OpenAI's older protocol, which nearly every model server speaks in a dialect of its own.
//!
//! The differences between dialects are data, a [`Dialect`]. An adapter names its own and adds what only its server
//! has.

mod blocks;
mod chunk;
mod client;
mod dialect;
mod encode;
mod extra;
mod state;
mod usage;

pub use self::client::ChatClient;
pub use self::dialect::{
    Arguments, Dialect, LateSystem, MissingReasoning, ReasoningEcho, ReplyForm, StreamUsage,
    ToolChoices, ToolsAndReasoning, TrailingAssistant,
};
#[cfg(test)]
pub(crate) use self::encode::Rules;
pub use self::extra::ExtraFields;
