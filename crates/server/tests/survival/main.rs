//! Servers that are killed with SIGKILL at each point of a run, restarted, and inspected: nothing that a client
//! received is lost, read-only calls run at least once, irreversible calls at most once, and the run resumes.
//!
//! Points are detected from outside: by the model's requests, by what tools write to a file, by what the client
//! receives, and by a lock on the database that prevents a step from being committed. The product is unaware of this.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and the server says where it listens"
)]

mod approvals;
mod child;
mod clock_jumps;
mod database;
mod faults;
mod fleet;
mod fleet_figures;
mod idempotency;
mod live_text;
mod model;
mod owners;
mod points;
mod random;
mod real_restate;
mod real_restate_boundaries;
mod real_restate_builds;
mod real_restate_faults;
mod server;
mod several;
mod stopped;
mod unrecorded;
mod withheld;
mod world;
