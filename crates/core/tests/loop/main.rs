//! How the loop behaves, seen from outside: each rule as a test, complete logs as data, and properties that hold in
//! every case.
//!
//! One binary for all of it, so that it links once. `support` drives the machine and makes no assertions about the
//! rules.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a script that does not fit the run it drives is a broken test and must stop at once"
)]

mod golden;
mod properties;
mod rules;
mod support;
mod transitions;
