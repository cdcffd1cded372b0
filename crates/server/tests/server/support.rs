//! Shared test code: the program, and its clients.

pub(crate) mod client;
pub(crate) mod contract;
#[cfg(target_os = "linux")]
pub(crate) mod gate;
pub(crate) mod in_process;
pub(crate) mod program;
pub(crate) mod raw;

pub(crate) use client::{Client, Frame};
pub(crate) use program::Program;
