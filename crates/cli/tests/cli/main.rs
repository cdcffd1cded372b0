//! Tests of the real binary, as a user or a script calls it.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod ask;
mod config;
mod formats;
mod help;
#[cfg(unix)]
mod interrupt;
mod machine;
mod model_faults;
mod policy;
mod real_model;
#[cfg(unix)]
mod terminal;
mod tools;
mod wrong;
