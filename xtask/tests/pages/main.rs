//! Pages that name tests: each names only existing tests, and is complete.
#![expect(
    clippy::unwrap_used,
    reason = "a page that cannot be read must stop the test at once"
)]

mod loop_rules;
mod named;
mod security;
