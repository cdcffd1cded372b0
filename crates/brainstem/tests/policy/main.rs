//! Behavior of the policy: the built-in one, cell by cell, and what deployments make of it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its case fails"
)]

mod catalog;
mod errors;
mod layering;
mod matrix;
mod properties;
mod requests;
mod verdicts;
