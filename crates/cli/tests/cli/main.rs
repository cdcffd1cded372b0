//! Tests of the real binary, as a user or a script calls it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

mod ask;
mod channels;
mod config;
mod diagnosis;
mod formats;
mod help;
#[cfg(unix)]
mod interrupt;
mod machine;
mod model_faults;
mod policy;
mod provider;
mod providers;
mod real_model;
mod tape;
#[cfg(unix)]
mod terminal;
mod tools;
mod wrong;
