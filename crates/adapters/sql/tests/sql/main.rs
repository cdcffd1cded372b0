//! The store on both databases.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests, and a process that tells its parent how far it came"
)]

mod bounds;
mod faults;
mod fencing;
mod file;
mod histories;
mod killed;
mod live_feed;
mod log_copy;
mod migrations;
mod pools;
mod postgres_conformance;
mod postgres_faults;
mod posts;
mod pruning;
mod restarts;
mod sqlite_conformance;
mod support;
mod tampering;
