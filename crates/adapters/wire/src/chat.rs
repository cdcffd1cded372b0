//! Chat Completions, OpenAI's older protocol, which nearly every model server speaks in a dialect of its own.
//!
//! What dialects differ in is data, a [`Dialect`]; an adapter names its own and adds what only its server has.

mod blocks;
mod chunk;
mod client;
mod dialect;
mod encode;
mod extra;
mod stream;
mod usage;
mod whole;

pub use self::client::ChatClient;
pub use self::dialect::{
    Arguments, Dialect, LateSystem, MissingReasoning, ParallelCalls, ReasoningEcho, ToolChoices,
    TrailingAssistant,
};
pub use self::extra::ExtraFields;
