//! A script for the machine: starts a run, answers what it asks for, and keeps the results.

mod agents;
mod build;
mod governed;
mod history;
mod log;
mod script;

pub(crate) use build::*;
pub(crate) use governed::*;
pub(crate) use history::assert_valid;
pub(crate) use log::{
    assert_continues, assert_continues_as, assert_gives_back, assert_tells_messages, read_line,
    to_lines,
};
use script::last;
pub(crate) use script::{Script, approve, approve_with};
