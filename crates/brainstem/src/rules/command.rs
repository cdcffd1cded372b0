//! Commands in arguments: split into their parts, each judged separately.

mod git;
mod letters;
mod parts;
mod pattern;
mod programs;
mod redirection;
mod split;
mod words;

pub(crate) use parts::{Part, of_words, parts, rememberable};
pub(crate) use pattern::CommandPattern;
pub(crate) use words::Folder;
