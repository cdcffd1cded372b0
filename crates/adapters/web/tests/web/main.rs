//! The tools as a model calls them, against sites and services on loopback.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may panic"
)]

mod bounds;
mod documents;
mod guard;
mod polite;
mod real_searxng;
mod search;
mod support;
