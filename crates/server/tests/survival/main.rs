//! Servers that are killed with SIGKILL at each point of a run, started again, and looked at: nothing that a client was
//! told is lost, what only reads is done at least once, what cannot be undone at most once, and the run goes on.
//!
//! Points are reached by what can be seen from outside: what the model is asked, what tools leave in a file, what the
//! client hears, and a lock on the database that keeps a step from being committed. Nothing in the product knows of it.
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
