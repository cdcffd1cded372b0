//! Pages that name tests: each names tests that are there, and leaves out nothing.
#![expect(
    clippy::unwrap_used,
    reason = "a page that cannot be read must stop the test at once"
)]

mod loop_rules;
mod named;
mod security;
