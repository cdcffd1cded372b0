//! How the loop behaves, seen from outside: each rule as a test, whole logs as data, and what holds whatever happens.
//!
//! One binary for all of it, so that it links once. `support` drives the machine; it holds no opinion of its own.

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
