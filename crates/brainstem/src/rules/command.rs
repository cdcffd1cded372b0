//! Commands in arguments: split into their parts, each judged on its own.

mod parts;
mod pattern;

pub(crate) use parts::{Part, of_words, parts};
pub(crate) use pattern::CommandPattern;
