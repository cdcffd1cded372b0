//! Behavior of the policy: the built-in one, cell by cell, and deployments' changes to it.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its case fails"
)]

mod agents;
mod budgets;
mod cases;
mod catalog;
mod commands;
mod conduct;
mod errors;
mod guide;
mod health;
mod injection;
mod lattice;
mod lattice_properties;
mod layering;
mod matrix;
mod narrow;
mod properties;
mod remembered;
mod requests;
mod rules;
mod verdicts;
